//! Reverse mode: one joint trace with the values and the gradients.
//!
//! Forward lines are kept unchanged (composites without a rule become their bodies). Backward lines follow, each at the
//! place of the forward line that it differentiates. [`Activity`] decides which lines the gradient skips.

use super::activity::{Activity, LineRole};
use super::control::Reversed;
use super::custom_vjp::{Own, Write};
use super::inline::{self, Mode, Redirect};
use super::pullback::{Pullback, Seed, Style, with_aux};
use crate::bind::Builder;
use crate::error::{Error, ErrorKind};
use crate::trace::verify;
use crate::trace::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::time::Instant;

/// A cotangent or tangent, which may be a symbolic zero, for which nothing is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cotangent {
    /// The value is zero.
    Zero,
    /// The cotangent or tangent is this value.
    Value(ProxyId),
}

/// A trace with values and gradients.
#[derive(Clone, Debug)]
pub struct Joint {
    /// The trace. Its inputs are those of the forward, then cotangents. Its outputs are those of the forward, then the
    /// gradients that are not zero.
    pub trace: Trace,
    /// The number of inputs of the forward.
    pub forward_inputs: usize,
    /// The number of outputs of the forward.
    pub forward_outputs: usize,
    /// For each output of the forward, the input of the joint trace that is its cotangent, if there is one.
    pub cotangents: Vec<Option<usize>>,
    /// The inputs of the forward whose present values the backward reads when it runs, each with the input of the joint
    /// trace for that value.
    pub variables: Vec<(usize, usize)>,
    /// For each value of `wrt`, the output of the joint trace that is its gradient; `None` if that is zero.
    pub grads: Vec<Option<usize>>,
    /// For each output of the forward, whether it depends on `wrt` through derivatives that are not zero.
    pub needs_grad: Vec<bool>,
}

impl Joint {
    /// Edits the trace; the edit keeps the positions of inputs and outputs.
    ///
    /// # Errors
    /// Reports errors of the edit.
    pub fn edit(mut self, f: impl FnOnce(&Trace) -> Result<Trace, Error>) -> Result<Joint, Error> {
        self.trace = f(&self.trace)?;
        Ok(self)
    }

    /// The joint trace for a backward that runs after the forward in one program, so that nothing is written in
    /// between.
    pub fn closed(mut self) -> Joint {
        if self.variables.is_empty() {
            return self;
        }
        let trace = &mut self.trace;
        let forward = |input: usize| trace.epilogue.iter().find(|w| w.input == input && w.phase == Phase::Forward);
        let now = |input: usize| forward(input).map_or(trace.inputs[input].proxy, |w| w.value);
        let map: FxHashMap<ProxyId, ProxyId> =
            self.variables.iter().map(|&(input, at)| (trace.inputs[at].proxy, now(input))).collect();
        let mut to = |p: ProxyId| map.get(&p).copied().unwrap_or(p);
        for line in &mut trace.lines {
            let mut moved = false;
            line.for_each_arg(|p| moved |= map.contains_key(&p));
            if moved {
                *line = Rc::new(line.remap(&mut to));
            }
        }
        trace.outputs.iter_mut().for_each(|p| *p = to(*p));
        trace.epilogue.iter_mut().for_each(|w| w.value = to(w.value));
        trace.inputs.retain(|input| !map.contains_key(&input.proxy));
        self.variables.clear();
        self
    }

    /// The gradient by value number `i` of `wrt`.
    pub fn grad(&self, i: usize) -> Cotangent {
        self.grads[i].map_or(Cotangent::Zero, |at| Cotangent::Value(self.trace.outputs[at]))
    }
}

/// Differentiates `trace` by `wrt`; `seeds` has the source of each output's cotangent. Outputs that are not float
/// tensors have no cotangent, whatever their seed.
///
/// # Errors
/// E712 if `wrt` has a value that is not a float tensor; E711 if a rule is missing; errors of rules.
pub fn joint(trace: &Trace, wrt: &[ProxyId], seeds: &[Seed]) -> Result<Joint, Error> {
    let started = Instant::now();
    let arena = &trace.arena;
    if let Some(p) = wrt.iter().find(|p| !arena.is_float(**p)) {
        return Err(not_differentiable(trace, *p));
    }
    let seeded = |i: &usize| seeds.get(*i).is_some_and(|seed| *seed != Seed::Zero);
    let trace = &*super::control::prepared(trace, wrt)?;
    super::once::check(trace, wrt, (0..trace.outputs.len()).filter(seeded).map(|i| trace.outputs[i]))?;
    let mut b = Builder::continuing(trace);
    let mut redirect = Redirect::default();
    let lines = inline::active(arena, trace.root, &trace.lines, wrt, Mode::Reverse(&trace.outputs), &mut redirect)?;
    let outputs: Vec<ProxyId> = trace.outputs.iter().map(|p| redirect.get(*p)).collect();
    let activity = Activity::sweep(arena, trace.root, &lines, wrt, &outputs);
    for line in &lines {
        b.push(match activity.vjp_role(line) {
            LineRole::Active { in_mask, out_mask } if out_mask.contains(&true) => with_aux(arena, line, &in_mask),
            _ => line.clone(),
        });
    }
    let lines = b.lines().to_vec();
    let needs_grad: Vec<bool> = outputs.iter().map(|p| activity.needs_grad(*p)).collect();

    let (mut cotangents, mut sown) = (Vec::new(), Vec::new());
    for (i, out) in outputs.iter().enumerate() {
        let seed = if arena.is_float(*out) { seeds.get(i).copied().unwrap_or(Seed::Zero) } else { Seed::Zero };
        cotangents.push(matches!(seed, Seed::Input | Seed::Plain).then_some(b.inputs().len()));
        if matches!(seed, Seed::Input | Seed::Plain) {
            let path = format!("ct.{}", arena.name(trace.outputs[i]));
            let ty = if seed == Seed::Plain { arena.ty(*out).plain() } else { arena.ty(*out).cotangent() };
            sown.push((*out, Seed::Value(b.input(&path, ty))));
        } else {
            sown.push((*out, seed));
        }
    }
    let mut pullback = Pullback::new(&mut b, activity, Style::backward(), Some(reverse));
    for ((out, seed), needs) in sown.into_iter().zip(&needs_grad) {
        if !needs {
            continue;
        }
        let maker = lines.iter().find(|l| l.outs.contains(&out));
        pullback.seed(out, seed, maker)?;
    }
    pullback.run(&lines)?;
    let grads: Vec<Option<ProxyId>> = wrt.iter().map(|p| pullback.cotangent(*p)).collect();
    let Own { variables, writes, .. } = std::mem::take(&mut pullback.own);
    let at = |p: &ProxyId| b.inputs().iter().position(|i| i.proxy == *p);
    let variables = variables.iter().filter_map(|(input, p)| Some((*input, at(p)?))).collect();
    let mut all = outputs;
    let forward_outputs = all.len();
    let grads = grads.into_iter().map(|g| {
        all.push(g?);
        Some(all.len() - 1)
    });
    let grads: Vec<Option<usize>> = grads.collect();
    let mut made = b.finish(&all);
    made.epilogue = trace.epilogue.clone();
    made.epilogue.iter_mut().for_each(|w| w.value = redirect.get(w.value));
    for (i, Write { input, value }) in writes.iter().enumerate() {
        // if an input is written several times, the last write counts
        if writes[i + 1..].iter().all(|w| w.input != *input) {
            made.epilogue.push(EpilogueWrite { input: *input, value: *value, phase: Phase::Backward });
        }
    }
    made.adopt(trace, "joint", started);
    verify::step(trace, &made)?;
    let forward_inputs = trace.inputs.len();
    Ok(Joint { trace: made, forward_inputs, forward_outputs, cotangents, variables, grads, needs_grad })
}

/// Reverse mode for the programs of lines, which write nothing.
///
/// # Errors
/// The errors of [`joint`].
pub(super) fn reverse(trace: &Trace, wrt: &[ProxyId], outputs: &[bool]) -> Result<Reversed, Error> {
    let seeds: Vec<Seed> = outputs.iter().map(|flows| if *flows { Seed::Input } else { Seed::Zero }).collect();
    let Joint { trace, variables, grads, .. } = joint(trace, wrt, &seeds)?;
    let first = trace.inputs.len() - variables.len();
    let last = variables.iter().enumerate().all(|(i, (_, at))| *at == first + i);
    if !trace.epilogue.is_empty() || !last {
        return Err(Error::bug("E706", "a custom backward in a program of a line writes, or reads no input"));
    }
    let grads = grads.iter().map(|at| at.map(|at| trace.outputs[at])).collect();
    let variables = variables.into_iter().map(|(input, _)| input).collect();
    Ok(Reversed { trace, grads, variables })
}

/// The trace with the gradients of the sum of its float outputs by `wrt` after its outputs, with dense zeros for values
/// on which no output depends. The result is an ordinary trace, which may be differentiated again.
///
/// # Errors
/// The errors of [`joint`]; E712 too if no output is a float tensor.
pub fn value_and_grad(trace: &Trace, wrt: &[ProxyId]) -> Result<Trace, Error> {
    let arena = &trace.arena;
    if let (false, Some(out)) = (trace.outputs.iter().any(|p| arena.is_float(*p)), trace.outputs.first()) {
        return Err(not_differentiable(trace, *out));
    }
    let joint = joint(trace, wrt, &vec![Seed::Ones; trace.outputs.len()])?.closed();
    let mut b = Builder::continuing(&joint.trace);
    joint.trace.lines.iter().for_each(|l| b.push(l.clone()));
    let mut outputs = joint.trace.outputs[..joint.forward_outputs].to_vec();
    for (i, p) in wrt.iter().enumerate() {
        outputs.push(match joint.grad(i) {
            Cotangent::Value(g) => g,
            Cotangent::Zero => b.zero_cotangent(*p)?.ok_or_else(|| not_differentiable(trace, *p))?,
        });
    }
    let mut made = b.finish(&outputs);
    made.epilogue = joint.trace.epilogue.clone();
    made.provenance = joint.trace.provenance.clone();
    made.adopt(trace, "value_and_grad", Instant::now());
    made.provenance.micros = joint.trace.provenance.micros;
    verify::step(&joint.trace, &made)?;
    Ok(made)
}

fn not_differentiable(trace: &Trace, p: ProxyId) -> Error {
    let (name, ty) = (trace.arena.name(p).to_string(), trace.ty(p).to_string());
    let what = if trace.input_proxies().any(|i| i == p) { "argument" } else { "output" };
    let mut error = Error::new("E712", format!("the {what} `{name}` is {ty}, which has no gradient"));
    if matches!(trace.ty(p), ProxyTy::Number(_)) {
        error = error.help("pass a float tensor of rank 0 instead of a number");
    }
    if let Some(line) = trace.producer(p) {
        error = error.at(line.place.loc);
    }
    error.kind_is(ErrorKind::NotDifferentiable { value: name, ty })
}

/// The float inputs of a trace, in order, each once: the values by which it is differentiated by default.
pub fn float_inputs(trace: &Trace) -> Vec<ProxyId> {
    let mut seen = FxHashSet::default();
    trace.input_proxies().filter(|p| trace.arena.is_float(*p) && seen.insert(*p)).collect()
}
