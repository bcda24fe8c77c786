//! Gradients: a closure is recorded inside the open trace and differentiated, and its lines are added to the trace.
//!
//! Outside of any trace, this happens in a trace opened for the call, which is compiled and run at once.

use super::once;
use super::traceable::ours;
use crate::error::{Error, ErrorKind};
use crate::scope::{self, Open};
use crate::tensor::Tensor;
use crate::trace::{BoundSymbol, Phase, Place, ProxyId, ProxyTy, Trace};
use crate::transforms::{self, At, Joint, Pipeline, Seed, mutation};
use crate::tree::{self, Leaves, Tree, describe, flatten};
use fulgurite_core::Value;
use fulgurite_core::loc::Loc;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// The result of a differentiated closure: a loss, or a loss with results that are only passed on.
pub trait Loss: Tree {
    /// The loss.
    fn loss(&self) -> &Tensor;
}
impl Loss for Tensor {
    fn loss(&self) -> &Tensor {
        self
    }
}
impl<A: Tree> Loss for (Tensor, A) {
    fn loss(&self) -> &Tensor {
        &self.0
    }
}

/// Returns `f(p)` and its gradient by every float tensor of `p`, as a tree of the structure of `p`. Other tensors have
/// the gradient 0, and keys stay unchanged. An error poisons both.
#[track_caller]
pub fn value_and_grad<P: Tree>(p: &P, f: impl FnOnce(&P) -> Tensor) -> (Tensor, P) {
    let loc = Loc::caller();
    match differentiate(p, loc, |p| Ok(f(p))) {
        Ok(both) => both,
        Err(e) => (Tensor::poisoned(e.clone()), poisoned(p, &e)),
    }
}

/// The gradient of `f(p)` by every float tensor of `p`, as [`value_and_grad`] computes it.
#[track_caller]
pub fn grad<P: Tree>(p: &P, f: impl FnOnce(&P) -> Tensor) -> P {
    let loc = Loc::caller();
    differentiate(p, loc, |p| Ok(f(p))).map_or_else(|e| poisoned(p, &e), |(_, grad)| grad)
}

/// Like [`value_and_grad`], for closures that use `?` or return more than the loss: `(loss, rest)`.
///
/// # Errors
/// The closure's own error; E711 or E712 where there is no gradient; the first error that a result carries.
#[track_caller]
pub fn try_value_and_grad<P: Tree, L: Loss, E>(p: &P, f: impl FnOnce(&P) -> Result<L, E>) -> Result<(L, P), Error>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let loc = Loc::caller();
    differentiate(p, loc, |p| f(p).map_err(|e| ours(e.into())))
}

/// Returns `f(p)`, and the gradient of the sum of `cotangent * f(p)` by each part of `p`. Parts that are not float
/// tensors have the gradient 0.
///
/// # Errors
/// The errors of [`try_value_and_grad`]; E748 if `cotangent` and the result differ in structure, E712 if they differ in
/// types.
#[track_caller]
pub fn vjp<P: Tree, O: Tree>(p: &P, cotangent: &O, f: impl FnOnce(&P) -> O) -> Result<(O, P), Error> {
    pull(p, cotangent, Loc::caller(), f)
}

/// Returns `f(p)`, and its directional derivative along `tangent`, whose parts are the tangents of the float tensors of
/// `p`. Parts of the result that are not float tensors have the tangent 0.
///
/// # Errors
/// The errors of [`vjp`], for `tangent` and `p`.
#[track_caller]
pub fn jvp<P: Tree, O: Tree>(p: &P, tangent: &P, f: impl FnOnce(&P) -> O) -> Result<(O, O), Error> {
    push(p, tangent, Loc::caller(), f)
}

/// Returns the gradient of `f(p)` and the product of its second derivative with `v`, computed forward over reverse, so
/// that the matrix is never made.
///
/// # Errors
/// Reports the errors of [`jvp`].
#[track_caller]
pub fn hvp<P: Tree>(p: &P, v: &P, f: impl FnOnce(&P) -> Tensor) -> Result<(P, P), Error> {
    jvp(p, v, |p| grad(p, f))
}

fn poisoned<T: Tree>(tree: &T, e: &Error) -> T {
    tree::map(tree, |_| Tensor::poisoned(e.clone()))
}

fn differentiate<P: Tree, L: Loss>(p: &P, loc: Loc, f: impl FnOnce(&P) -> Result<L, Error>) -> Result<(L, P), Error> {
    if !scope::is_tracing() {
        return once("value_and_grad", || differentiate(p, loc, f));
    }
    let closure = Closure::record("loss", p, loc, f)?;
    check_loss(closure.template.loss(), loc)?;
    let mut seeds = vec![Seed::Zero; closure.trace.outputs.len()];
    // the loss is the first leaf of every `Loss`
    seeds[..1].fill(Seed::Ones);
    closure.reverse(p, &seeds, &[])
}

fn check_loss(loss: &Tensor, loc: Loc) -> Result<(), Error> {
    let float = is_float(loss);
    if float && loss.numel().is(1) {
        return Ok(());
    }
    let ty = loss.ty().map_or_else(String::new, |t| t.to_string());
    let claim = match float {
        true => format!("the loss is {ty}; a gradient needs one number"),
        false => format!("the loss is {ty}, which has no gradient"),
    };
    let error = Error::new("E712", claim).kind_is(ErrorKind::NotDifferentiable { value: "loss".into(), ty });
    Err(if float { error.help("sum it, or take its mean") } else { error }.at(loc))
}

fn pull<P: Tree, O: Tree>(p: &P, cotangent: &O, loc: Loc, f: impl FnOnce(&P) -> O) -> Result<(O, P), Error> {
    if !scope::is_tracing() {
        return once("vjp", || pull(p, cotangent, loc, f));
    }
    let closure = Closure::record("vjp", p, loc, |p| Ok(f(p)))?;
    let given = flatten(cotangent);
    let seeds: Vec<Seed> = {
        let wanted = flatten(&closure.template);
        let plain = |t: &Tensor| t.ty().is_some_and(|ty| ty.subclass().is_none());
        // a class decides how it uses a plain cotangent
        let want = |(i, want): (usize, Option<ProxyTy>)| {
            let given = given.leaves().get(i);
            want.map(|ty| if given.is_none_or(|t| plain(t)) { ty.plain() } else { ty.cotangent() })
        };
        // the types after the transforms of the closure
        let made = closure.trace.outputs.iter().map(|p| Some(closure.trace.ty(*p)));
        let expected: Vec<_> = made.enumerate().map(want).collect();
        same_types(&expected, given.leaves(), "the cotangent", loc)?;
        let seed = |(t, given): (&&Tensor, &&Tensor)| match is_float(t) {
            true if plain(given) => Seed::Plain,
            true => Seed::Input,
            false => Seed::Zero,
        };
        wanted.leaves().iter().zip(given.leaves()).map(seed).collect()
    };
    let sown: Vec<&Tensor> = given.leaves().iter().copied().filter(|t| is_float(t)).collect();
    closure.reverse(p, &seeds, &sown)
}

fn push<P: Tree, O: Tree>(p: &P, tangent: &P, loc: Loc, f: impl FnOnce(&P) -> O) -> Result<(O, O), Error> {
    if !scope::is_tracing() {
        return once("jvp", || push(p, tangent, loc, f));
    }
    let (args, directions) = (flatten(p), flatten(tangent));
    same_types(&types(args.leaves()), directions.leaves(), "the tangent", loc)?;
    let closure = Closure::record("jvp", p, loc, |p| Ok(f(p)))?;
    let started = Instant::now();
    let mut jvp = transforms::jvp(&closure.trace, &closure.wrt)?;
    jvp.trace = closure.placed(jvp.trace);
    scope::note("jvp", &jvp.trace, started.elapsed(), None);
    let moved = args.leaves().iter().zip(directions.leaves()).filter(|(t, _)| is_float(t)).map(|(_, d)| *d);
    let values = closure.splice(p, &jvp.trace, moved)?;
    let template = &closure.template;
    let tangent = |i: usize| match jvp.tangents[i] {
        Some(at) => Ok(values[at].clone()),
        None => zero(&values[i]),
    };
    let tangents = (0..closure.trace.outputs.len()).map(tangent).collect::<Result<Vec<_>, _>>()?;
    let out = template.rebuild(&mut Leaves::new(&mut values.iter().cloned()));
    Ok((out, template.rebuild(&mut Leaves::new(&mut tangents.into_iter()))))
}

pub(super) fn is_float(t: &Tensor) -> bool {
    t.ty().is_some_and(|ty| ty.as_tensor().is_some_and(|t| t.dtype.has_gradient()))
}

/// The types of handles.
pub(super) fn types(leaves: &[&Tensor]) -> Vec<Option<ProxyTy>> {
    leaves.iter().map(|t| t.ty()).collect()
}

/// Checks that tensors have these types.
///
/// # Errors
/// E748 for another number of tensors, the error of a poisoned one, or E712.
pub fn same_types(wanted: &[Option<ProxyTy>], given: &[&Tensor], what: &str, loc: Loc) -> Result<(), Error> {
    types_are(wanted, given, what, loc, |want, have| want == have)
}

/// Like [`same_types`] without the metadata of subclasses, because a cotangent may be divided otherwise than its
/// primal.
pub(super) fn cotangent_types(
    wanted: &[Option<ProxyTy>],
    given: &[&Tensor],
    what: &str,
    loc: Loc,
) -> Result<(), Error> {
    let class = |ty: &ProxyTy| ty.subclass().map(|layout| layout.class);
    types_are(wanted, given, what, loc, |want, have| match (want, have) {
        (Some(want), Some(have)) => want == have || class(want) == class(have) && want.plain() == have.plain(),
        _ => want == have,
    })
}

fn types_are(
    wanted: &[Option<ProxyTy>],
    given: &[&Tensor],
    what: &str,
    loc: Loc,
    agree: impl Fn(&Option<ProxyTy>, &Option<ProxyTy>) -> bool,
) -> Result<(), Error> {
    if wanted.len() != given.len() {
        let claim = format!("{what} has {} leaves where {} are needed", given.len(), wanted.len());
        return Err(Error::new("E748", claim).at(loc));
    }
    for (want, have) in wanted.iter().zip(given) {
        have.check()?;
        let have = have.ty();
        if !agree(want, &have) {
            let text = |ty: &Option<ProxyTy>| ty.as_ref().map_or_else(String::new, |t| t.to_string());
            let claim = format!("{what} of {} is {}", text(want), text(&have));
            return Err(Error::new("E712", claim).help("they must have one type").at(loc));
        }
    }
    Ok(())
}

/// A zero cotangent of a tensor of the open trace, or of a number; a key stands for itself.
fn zero(like: &Tensor) -> Result<Tensor, Error> {
    match like.ty() {
        Some(ProxyTy::Tensor(_)) => scope::zero(like),
        Some(ProxyTy::Number(d)) => scope::full(&fulgurite_core::TensorTy::new::<usize>(d, &[]), 0.0),
        _ => Ok(like.clone()),
    }
}

/// Applies the pipeline's transforms to a joint trace.
pub(super) fn prepare(joint: Joint) -> Result<Joint, Error> {
    let pipeline = scope::pipeline();
    let started = Instant::now();
    let (joint, report) = transforms::rematerialise(joint, pipeline.remat)?;
    if !report.lines.is_empty() {
        scope::note("rematerialised", &joint.trace, started.elapsed(), Some(report.to_string()));
    }
    let own = |name, trace: &Trace, started: Instant| scope::note(name, trace, started.elapsed(), None);
    joint.edit(|trace| pipeline.apply(At::Joint, trace.clone(), own))
}

/// The purpose for which a closure is recorded.
pub(super) enum Recorded<'a> {
    /// The closure is differentiated by the leaves of its argument.
    Differentiated,
    /// The closure is one slice of a batch; the function returns the types of the stand-ins of each leaf.
    Slice(&'a dyn Fn(usize, ProxyTy) -> ProxyTy),
    /// The closure is a compiled function that is called, with a pipeline of its own.
    Called(Arc<Pipeline>),
}

/// A closure, recorded as a trace inside the open one.
pub(super) struct Closure<T> {
    pub(super) trace: Trace,
    /// The inputs by which it is differentiated: the float tensors of its argument.
    pub(super) wrt: Vec<ProxyId>,
    /// For each leaf of the argument, its position in `wrt`.
    pub(super) position: Vec<Option<usize>>,
    /// The captured values that the trace needs as inputs, which follow those of the argument.
    pub(super) captured: Vec<Tensor>,
    /// The inputs that a backward inside the closure wrote.
    late: FxHashSet<usize>,
    /// The result, around handles of the closure's trace.
    pub(super) template: T,
    /// The place of the user's call.
    loc: Loc,
}

impl<T: Tree> Closure<T> {
    /// Records `f`, which is to be differentiated, on stand-ins for the leaves of `p`.
    pub(super) fn record<P: Tree>(
        name: &str,
        p: &P,
        loc: Loc,
        f: impl FnOnce(&P) -> Result<T, Error>,
    ) -> Result<Closure<T>, Error> {
        let leaves = flatten(p);
        let leaves = leaves.leaves();
        leaves.iter().try_for_each(|leaf| leaf.check())?;
        if !leaves.iter().any(|leaf| is_float(leaf)) {
            let types: Vec<String> = leaves.iter().take(3).filter_map(|t| t.ty()).map(|t| t.to_string()).collect();
            let claim = format!("there is nothing to differentiate by: no float tensor among [{}]", types.join(", "));
            let kind = ErrorKind::NotDifferentiable { value: "argument".into(), ty: types.join(", ") };
            return Err(Error::new("E712", claim).kind_is(kind).at(loc));
        }
        Closure::on(name, p, Recorded::Differentiated, loc, f)
    }

    /// Records `f` on stand-ins for the leaves of `p`.
    pub(super) fn on<P: Tree>(
        name: &str,
        p: &P,
        recorded: Recorded,
        loc: Loc,
        f: impl FnOnce(&P) -> Result<T, Error>,
    ) -> Result<Closure<T>, Error> {
        let (leaves, detail) = describe(p);
        let nothing = || Error::bug("E709", "no trace is open");
        let (pipeline, open) = match &recorded {
            Recorded::Called(pipeline) => (pipeline.clone(), Open::called(name, pipeline)),
            _ => (scope::pipeline(), Open::nested(name)),
        };
        let open = open.ok_or_else(nothing)?;
        let (mut handles, mut position, mut count) = (Vec::new(), Vec::new(), 0);
        for (i, (leaf, path)) in leaves.iter().zip(&detail.paths).enumerate() {
            leaf.check()?;
            let ty = leaf.ty().ok_or_else(nothing)?;
            let ty = if let Recorded::Slice(slice) = recorded { slice(i, ty) } else { ty };
            handles.push(open.argument(path, ty, scope::tags_of(leaf)));
            position.push(is_float(leaf).then_some(count));
            count += is_float(leaf) as usize;
        }
        match recorded {
            Recorded::Slice(_) => open.of_slice(),
            Recorded::Differentiated => open.with(|frame| frame.leaves = leaves.len()),
            Recorded::Called(_) => {}
        }
        let argument = p.rebuild(&mut Leaves::new(&mut handles.into_iter()));
        let template = f(&argument)?;
        open.check()?;
        let outputs = flatten(&template).leaves().iter().map(|t| open.resolve(t)).collect::<Result<Vec<_>, _>>();
        let outputs = outputs.map_err(|e| e.at(loc))?;
        let frame = open.close();
        let own = |name, trace: &Trace, started: Instant| scope::note(name, trace, started.elapsed(), None);
        let trace = pipeline.apply(At::Acquired, frame.builder.finish(&outputs), own)?;
        let floats = trace.input_proxies().zip(&position).filter_map(|(p, at)| at.map(|_| p));
        let wrt = floats.collect();
        let (captured, late) = (frame.captured.handles, frame.late);
        Ok(Closure { trace, wrt, position, captured, late, template, loc })
    }

    /// Adds the joint trace to the open one; returns the result, and the gradients as a tree like `p`.
    fn reverse<P: Tree>(self, p: &P, seeds: &[Seed], cotangents: &[&Tensor]) -> Result<(T, P), Error> {
        let started = Instant::now();
        let joint = transforms::joint(&self.trace, &self.wrt, seeds)?.edit(|trace| Ok(self.placed(trace.clone())))?;
        scope::note("joint", &joint.trace, started.elapsed(), None);
        let joint = prepare(joint)?.closed();
        let values = self.splice(p, &joint.trace, cotangents.iter().copied())?;
        let leaves = flatten(p);
        let grads =
            leaves.leaves().iter().zip(&self.position).map(|(leaf, at)| match at.and_then(|at| joint.grads[at]) {
                Some(output) => Ok(values[output].clone()),
                None => zero(leaf),
            });
        let grads = grads.collect::<Result<Vec<_>, Error>>()?;
        let value = self.template.rebuild(&mut Leaves::new(&mut values.iter().cloned()));
        Ok((value, p.rebuild(&mut Leaves::new(&mut grads.into_iter()))))
    }

    /// Binds the lines of `made`, a trace made from this one, into the surrounding trace; its further inputs get
    /// `more`. Returns its outputs.
    pub(super) fn splice<'t, P: Tree>(
        &self,
        p: &P,
        made: &Trace,
        more: impl Iterator<Item = &'t Tensor>,
    ) -> Result<Vec<Tensor>, Error> {
        let leaves = flatten(p);
        let mut args = scope::resolve_all(leaves.leaves())?;
        // captured values are values of the surrounding trace
        args.extend(made.input_proxies().skip(args.len()).take(self.captured.len()));
        args.extend(scope::resolve_all(&more.collect::<Vec<_>>())?);
        // the transforms have seen the lines from which these were made, so they do not see these again
        let mut made = self.placed(made.clone());
        self.name_variables(leaves.leaves(), &mut made)?;
        scope::pipeline().mark(At::Acquired, &mut made);
        let values = scope::splice(&made, &args, self.loc)?;
        self.write(leaves.leaves(), &made, &args)?;
        Ok(values)
    }

    /// Gives the custom backwards of `made` the names that their variables have in the surrounding trace: a variable is
    /// found by its value at entry of the trace in which the backward runs, and a closure begins with a later value if
    /// something was written before it.
    fn name_variables(&self, leaves: &[&Tensor], made: &mut Trace) -> Result<(), Error> {
        let variables = |line: &BoundSymbol| line.symbol.own().map_or(0, |own| own.variables);
        if made.lines.iter().all(|line| variables(line) == 0) {
            return Ok(());
        }
        let handles = leaves.iter().copied().chain(&self.captured);
        let mut entries: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
        for (input, handle) in made.input_proxies().zip(handles) {
            entries.extend(scope::entry_of(handle)?.map(|entry| (input, entry)));
        }
        for line in made.lines.iter_mut().filter(|line| variables(line) > 0) {
            let mut renamed = (**line).clone();
            let names = renamed.args.iter_mut().rev().filter_map(|arg| match arg {
                Value::Tensor(name) => Some(name),
                _ => None,
            });
            for name in names.take(variables(line)) {
                *name = entries.get(name).copied().unwrap_or(*name);
            }
            *line = Rc::new(renamed);
        }
        Ok(())
    }

    /// The trace `made` from this one, in which lines without a place of the user's get the place of the call.
    pub(super) fn placed(&self, mut made: Trace) -> Trace {
        for line in made.lines.iter_mut().filter(|line| line.place.loc == Loc::NOWHERE) {
            let place = Place { loc: self.loc, ..line.place };
            *line = Rc::new(BoundSymbol { place, ..(**line).clone() });
        }
        made
    }

    /// Writes of the closure to its inputs become writes to the tensors for which these stand.
    fn write(&self, leaves: &[&Tensor], made: &Trace, args: &[ProxyId]) -> Result<(), Error> {
        let writes = made.epilogue();
        let target = |w: &crate::trace::EpilogueWrite| match w.input.checked_sub(leaves.len()) {
            Some(captured) => self.captured.get(captured),
            None => leaves.get(w.input).copied(),
        };
        let late = |w: &&crate::trace::EpilogueWrite| w.phase == Phase::Backward || self.late.contains(&w.input);
        for (i, write) in writes.iter().enumerate() {
            // if an input is written twice, the last value counts
            let again = writes[i + 1..].iter().any(|w| w.input == write.input);
            if let Some(tensor) = target(write).filter(|_| !again) {
                let from = made.input_proxies().position(|p| p == write.value);
                scope::assign(tensor, from.map_or(write.value, |at| args[at]), self.loc)?;
            }
        }
        let written: Vec<&Tensor> = writes.iter().filter(late).filter_map(target).collect();
        let needing = if written.is_empty() { Vec::new() } else { scope::leaves_among(&written) };
        if needing.is_empty() { Ok(()) } else { Err(mutation::needs_grad(needing).at(self.loc)) }
    }
}
