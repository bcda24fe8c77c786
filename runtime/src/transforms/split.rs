//! Cuts a joint trace into forward and backward, with the fewest residuals.
//!
//! The forward has the lines that its own outputs need, and the lines of the user's program that may refuse; all other
//! lines belong to the backward. A value of the forward that the backward reads is a residual. Residuals are found by
//! id after dead lines are removed, so each of them is read, and each is listed once.

use super::dce::{live, refuses};
use super::vjp::Joint;
use crate::error::{Error, ErrorKind};
use crate::trace::tag::Tag;
use crate::trace::verify;
use crate::trace::*;
use rustc_hash::FxHashSet;
use std::rc::Rc;
use std::time::Instant;

/// The values that the forward keeps for the backward.
#[derive(Clone, Debug, Default)]
pub struct ResidualPlan {
    /// The tensors, in the order of their first use in the backward.
    pub tensors: Vec<ProxyId>,
    /// The numbers and keys, in the order of their first use.
    pub numbers: Vec<ProxyId>,
    /// For each forward line, the residuals that its gradient reads.
    pub per_line: Vec<(BoundSymbolId, Vec<ProxyId>)>,
    /// The bytes of the tensors that are not inputs.
    pub bytes: usize,
}

/// A forward and a backward trace.
#[derive(Clone, Debug)]
pub struct Split {
    /// The forward. Its outputs are those of the joint trace's forward, then the residuals (tensors, then numbers).
    pub forward: Trace,
    /// The backward. Its inputs are the residuals in their order, the cotangents, then the present values of inputs of
    /// the forward. Its outputs are the gradients that are not zero, then the values of its writes.
    pub backward: Trace,
    /// The values that are kept.
    pub plan: ResidualPlan,
    /// For each output of the forward, the backward's input that is its cotangent, if there is one.
    pub cotangents: Vec<Option<usize>>,
    /// The inputs of the forward whose present values the backward reads, each with the backward's own input.
    pub variables: Vec<(usize, usize)>,
    /// The inputs of the forward that the backward writes, in the order of its last outputs.
    pub writes: Vec<usize>,
    /// For each value of `wrt`, the backward's output that is its gradient; `None` if that is zero.
    pub grads: Vec<Option<usize>>,
}

/// Cuts a joint trace.
///
/// # Errors
/// E722 if a value tagged `no_save` would have to be kept, and E730 in debug builds.
pub fn split(joint: &Joint) -> Result<Split, Error> {
    let started = Instant::now();
    let trace = &joint.trace;
    let (forward_outputs, grads) = trace.outputs.split_at(joint.forward_outputs);
    let ends = forward_ends(joint);
    let forward_ids = forward_lines(joint);
    let (ours, theirs): (Vec<_>, Vec<_>) = trace.lines.iter().cloned().partition(|l| forward_ids.contains(&l.id));
    let writes: Vec<EpilogueWrite> = trace.epilogue.iter().filter(|w| w.phase == Phase::Backward).cloned().collect();
    let backward_ends: Vec<ProxyId> = grads.iter().copied().chain(writes.iter().map(|w| w.value)).collect();
    let effect = |line: &BoundSymbol| refuses(&trace.arena, line);
    let backward_lines = live(&theirs, backward_ends.iter().copied(), &effect);

    let (inputs, cotangent_inputs) = trace.inputs.split_at(joint.forward_inputs);
    let plan = residuals(trace, &backward_lines, &backward_ends, cotangent_inputs);
    check_no_save(trace, &plan)?;
    let kept: Vec<ProxyId> = plan.tensors.iter().chain(&plan.numbers).copied().collect();

    let forward_lines = live(&ours, ends.iter().chain(&kept).copied(), &effect);
    let outputs: Vec<ProxyId> = forward_outputs.iter().chain(&kept).copied().collect();
    let mut forward = part(trace, started, Phase::Forward, inputs.to_vec(), forward_lines, outputs);
    forward.saved = kept.len();
    forward.epilogue.retain(|w| w.phase == Phase::Forward);

    let cell = |p: &ProxyId| InputCell {
        proxy: *p,
        version: *p,
        alias_group: 0,
        path: trace.arena.name(*p),
        donated: false,
        constant: false,
    };
    let mut cells: Vec<InputCell> = kept.iter().map(cell).chain(cotangent_inputs.iter().cloned()).collect();
    cells.iter_mut().enumerate().for_each(|(i, cell)| cell.alias_group = i);
    let mut backward = part(trace, started, Phase::Backward, cells, backward_lines, grads.to_vec());
    backward.name = Rc::from(format!("{}.backward", trace.name));
    // inputs of the forward are not inputs of the backward; its callers know their cells
    backward.epilogue.clear();
    backward.outputs.extend(writes.iter().map(|w| w.value));
    backward.prologue.clear();

    verify::step(trace, &forward)?;
    verify::step(trace, &backward)?;
    let cotangents = joint.cotangents.iter().map(|at| at.map(|at| at - joint.forward_inputs + kept.len())).collect();
    let grads = joint.grads.iter().map(|at| at.map(|at| at - joint.forward_outputs)).collect();
    let moved = |at: usize| at - joint.forward_inputs + kept.len();
    let variables = joint.variables.iter().map(|&(input, at)| (input, moved(at))).collect();
    let writes = writes.iter().map(|w| w.input).collect();
    Ok(Split { forward, backward, plan, cotangents, variables, writes, grads })
}

/// The values that the forward must make: its outputs and its writes.
fn forward_ends(joint: &Joint) -> Vec<ProxyId> {
    let writes = joint.trace.epilogue.iter().filter(|w| w.phase == Phase::Forward);
    joint.trace.outputs[..joint.forward_outputs].iter().copied().chain(writes.map(|w| w.value)).collect()
}

/// The lines of the forward: those that its outputs and its writes need, and those that may refuse before a cotangent
/// is known.
pub(super) fn forward_lines(joint: &Joint) -> FxHashSet<BoundSymbolId> {
    let trace = &joint.trace;
    let mut flows: FxHashSet<ProxyId> = trace.inputs[joint.forward_inputs..].iter().map(|c| c.proxy).collect();
    let mut later: FxHashSet<BoundSymbolId> = FxHashSet::default();
    for line in &trace.lines {
        let mut reads = false;
        line.for_each_arg(|p| reads |= flows.contains(&p));
        if reads {
            flows.extend(line.outs.iter().chain(&line.aux));
            later.insert(line.id);
        }
    }
    let effect = |line: &BoundSymbol| {
        line.place.role == Role::Forward && !later.contains(&line.id) && refuses(&trace.arena, line)
    };
    live(&trace.lines, forward_ends(joint).into_iter(), &effect).iter().map(|l| l.id).collect()
}

/// The forward of a joint trace, with every value that its backward may read as a residual.
pub fn forward(joint: &Joint) -> Trace {
    let trace = &joint.trace;
    let ids = forward_lines(joint);
    let lines = trace.lines.iter().filter(|l| ids.contains(&l.id)).cloned().collect();
    let inputs = trace.inputs[..joint.forward_inputs].to_vec();
    let outputs = trace.outputs[..joint.forward_outputs].to_vec();
    let mut made = Trace { inputs, lines, outputs, ..trace.clone() };
    made.epilogue.retain(|w| w.phase == Phase::Forward);
    made
}

fn part(
    joint: &Trace,
    started: Instant,
    phase: Phase,
    inputs: Vec<InputCell>,
    lines: Vec<Rc<BoundSymbol>>,
    outputs: Vec<ProxyId>,
) -> Trace {
    let mut trace = Trace { inputs, lines, outputs, ..joint.clone() };
    trace.adopt(joint, "split", started);
    trace.saved = 0;
    trace.phase = Some(phase);
    trace
}

/// The values that the backward reads, and neither makes nor receives as cotangents.
pub(super) fn residuals(
    joint: &Trace,
    lines: &[Rc<BoundSymbol>],
    grads: &[ProxyId],
    cotangents: &[InputCell],
) -> ResidualPlan {
    let arena = &joint.arena;
    let mut own: FxHashSet<ProxyId> = cotangents.iter().map(|c| c.proxy).collect();
    own.extend(lines.iter().flat_map(|l| l.outs.iter().chain(&l.aux)));
    let mut plan = ResidualPlan::default();
    let mut seen = FxHashSet::default();
    // values of a surrounding trace are captured, not kept
    let mut note = |plan: &mut ResidualPlan, p: ProxyId| {
        if own.contains(&p) || is_captured(joint, p) {
            return false;
        }
        if seen.insert(p) {
            match arena.ty(p) {
                ProxyTy::Tensor(_) => {
                    if !joint.input_proxies().any(|i| i == p) {
                        plan.bytes += super::cost::bytes(arena, p);
                    }
                    plan.tensors.push(p);
                }
                ProxyTy::Number(_) | ProxyTy::Key => plan.numbers.push(p),
            }
        }
        true
    };
    for line in lines {
        line.for_each_arg(|p| {
            if let (true, Some(origin)) = (note(&mut plan, p), line.origin) {
                match plan.per_line.iter_mut().find(|(id, _)| *id == origin) {
                    Some((_, list)) if list.contains(&p) => {}
                    Some((_, list)) => list.push(p),
                    None => plan.per_line.push((origin, vec![p])),
                }
            }
        });
    }
    grads.iter().for_each(|p| _ = note(&mut plan, *p));
    plan
}

fn is_captured(trace: &Trace, p: ProxyId) -> bool {
    p.0 < trace.outer && !trace.input_proxies().any(|i| i == p)
}

fn check_no_save(trace: &Trace, plan: &ResidualPlan) -> Result<(), Error> {
    let arena = &trace.arena;
    let Some(p) = plan.tensors.iter().find(|p| arena.tags(**p).contains(Tag::NO_SAVE)) else { return Ok(()) };
    let of = arena.name(*p).to_string();
    let claim = format!("`{of}` is tagged `no_save`, but the backward reads it");
    let kind = ErrorKind::TagConflict { tags: vec![Tag::NO_SAVE.name()], of, transform: "split" };
    let loc = trace.producer(*p).map(|l| l.place.loc);
    let error = Error::new("E722", claim).kind_is(kind);
    Err(loc.map_or(error.clone(), |loc| error.at(loc)))
}
