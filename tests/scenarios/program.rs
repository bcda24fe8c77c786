//! Programs as texts: parsed, differentiated, run.

use fulgurite::Error;
use fulgurite::bind::body_of;
use fulgurite::executors::{self, CompileOptions, ExecError};
use fulgurite::prelude::*;
use fulgurite::trace::{ProxyId, Role, Trace};
use fulgurite::transforms::vjp::float_inputs;
use fulgurite::transforms::{self, Joint, Remat, Seed, Split};

/// The program of a text.
pub fn parse(text: &str) -> Trace {
    // a call links the database
    let _ = fulgurite::ops::arange(1);
    Trace::parse(text).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// Its results.
pub fn run(trace: &Trace, inputs: &[Tensor]) -> Vec<Tensor> {
    let bodies = |line: &fulgurite::trace::BoundSymbol| {
        body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()))
    };
    let compiled = executors::compile(trace, &CompileOptions::new(&bodies)).unwrap_or_else(|e| panic!("{trace}\n{e}"));
    let buffers: Vec<_> = inputs.iter().map(|t| t.buffer().expect("data")).collect();
    let values = compiled.run(&buffers).unwrap_or_else(|e| panic!("{trace}\n{e}"));
    values.into_iter().map(Tensor::from_buffer).collect()
}

/// Results and gradients as numbers, in order.
pub fn numbers(tensors: &[Tensor]) -> Vec<Vec<f64>> {
    tensors.iter().map(|t| t.to_f64().expect("data")).collect()
}

/// The joint trace by all float inputs, each float output with a cotangent that is an input; marks obeyed.
pub fn joint(trace: &Trace) -> Joint {
    marked(trace).unwrap_or_else(|e| panic!("{trace}\n{e}"))
}

pub fn marked(trace: &Trace) -> Result<Joint, Error> {
    let seeds = vec![Seed::Input; trace.outputs().len()];
    let joint = transforms::joint(trace, &float_inputs(trace), &seeds)?;
    Ok(transforms::rematerialise(joint, Remat::Marked)?.0)
}

/// Forward and backward, simplified.
pub fn cut(trace: &Trace) -> Split {
    let joint =
        joint(trace).edit(|t| transforms::simplify(t, fulgurite::trace::SplitSide::Before)).expect("simplifies");
    transforms::split(&joint).expect("splits")
}

/// The results, and the gradients of the sum of all float outputs, by forward and backward run apart.
pub fn apart(split: &Split, inputs: &[Tensor]) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    let mut out = run(&split.forward, inputs);
    let saved = out.split_off(out.len() - split.forward.saved);
    let mut given = saved;
    let saved = given.len();
    for p in &split.backward.inputs()[saved..] {
        let ty = split.backward.ty(p.proxy).as_tensor().cloned().expect("a tensor");
        let sizes: Vec<i64> = ty.sizes().iter().map(|n| *n as i64).collect();
        given.push(fulgurite::ops::full(sizes, 1.0).cast(ty.dtype));
    }
    let grads = run(&split.backward, &given);
    (out, split.grads.iter().map(|at| at.map(|at| grads[at].clone())).collect())
}

/// Names of values, sorted.
pub fn names(trace: &Trace, proxies: &[ProxyId]) -> Vec<String> {
    let mut names: Vec<String> = proxies.iter().map(|p| trace.arena.name(*p).to_string()).collect();
    names.sort();
    names
}

/// Operators of the lines with this role, in order.
pub fn ops(trace: &Trace, role: Role) -> Vec<&'static str> {
    trace.lines().iter().filter(|l| l.place.role == role).map(|l| l.symbol.name()).collect()
}

/// Whether two lists of numbers agree.
#[track_caller]
pub fn close(got: &[f64], want: &[f64]) {
    let fits = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() <= 1e-9 * (1.0 + b.abs()));
    assert!(fits, "{got:?}\n for {want:?}");
}

/// What came out of a program and its gradient, run apart.
pub struct Pulled {
    pub out: Vec<Vec<f64>>,
    /// Per value of `wrt`; `None` is the symbolic zero.
    pub grads: Vec<Option<Vec<f64>>>,
    pub split: Split,
    pub needs_grad: Vec<bool>,
}

impl Pulled {
    /// Names of the tensors that are kept.
    pub fn residuals(&self) -> Vec<String> {
        names(&self.split.forward, &self.split.plan.tensors)
    }
    /// Operators of the backward.
    pub fn backward(&self) -> Vec<&'static str> {
        self.split.backward.lines().iter().map(|l| l.symbol.name()).collect()
    }
    #[track_caller]
    pub fn grad(&self, i: usize) -> &[f64] {
        self.grads[i].as_deref().expect("a gradient that is not zero")
    }
}

/// Runs a program and its gradient by the inputs called `wrt`, with these cotangents (`None`: symbolic zero; fewer than
/// outputs: ones).
pub fn pull(text: &str, wrt: &[&str], inputs: &[Tensor], cotangents: &[Option<Tensor>]) -> Pulled {
    let trace = parse(text);
    let wrt: Vec<ProxyId> = wrt.iter().map(|name| input(&trace, name)).collect();
    let seed = |i: usize| if matches!(cotangents.get(i), Some(None)) { Seed::Zero } else { Seed::Input };
    let seeds: Vec<Seed> = (0..trace.outputs().len()).map(seed).collect();
    let joint = transforms::joint(&trace, &wrt, &seeds).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let needs_grad = joint.needs_grad.clone();
    let (joint, _) = transforms::rematerialise(joint, Remat::Marked).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let joint = joint.edit(|t| transforms::simplify(t, fulgurite::trace::SplitSide::Before)).expect("simplifies");
    let split = transforms::split(&joint).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let mut out = run(&split.forward, inputs);
    let mut given = out.split_off(out.len() - split.forward.saved);
    let saved = given.len();
    let kept: Vec<ProxyId> = split.forward.outputs()[out.len()..].to_vec();
    assert_eq!(kept, split.backward.input_proxies().take(saved).collect::<Vec<_>>(), "R0.6");
    for p in &split.backward.inputs()[saved..] {
        let at = split.cotangents.iter().position(|c| *c == Some(given.len())).expect("some output's");
        let ty = split.backward.ty(p.proxy).as_tensor().cloned().expect("a tensor");
        let sizes: Vec<i64> = ty.sizes().iter().map(|n| *n as i64).collect();
        let ones = || fulgurite::ops::full(sizes, 1.0).cast(ty.dtype);
        given.push(cotangents.get(at).cloned().flatten().unwrap_or_else(ones));
    }
    let grads = run(&split.backward, &given);
    let grads = split.grads.iter().map(|at| at.map(|at| grads[at].to_f64().expect("data"))).collect();
    Pulled { out: numbers(&out), grads, split, needs_grad }
}

/// The input of this name.
pub fn input(trace: &Trace, name: &str) -> ProxyId {
    trace.input_proxies().find(|p| &*trace.arena.name(*p) == name).unwrap_or_else(|| panic!("no input `{name}`"))
}

/// The line that makes the value of this name.
pub fn line<'t>(trace: &'t Trace, name: &str) -> &'t fulgurite::trace::BoundSymbol {
    let makes = |l: &&std::rc::Rc<fulgurite::trace::BoundSymbol>| l.outs.iter().any(|p| &*trace.arena.name(*p) == name);
    trace.lines().iter().find(makes).unwrap_or_else(|| panic!("nothing makes `{name}`"))
}

/// Numbers as a tensor of f64.
pub fn of(data: &[f64], sizes: &[i64]) -> Tensor {
    Tensor::from_vec(data.to_vec(), sizes.to_vec())
}
