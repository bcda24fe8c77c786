//! Cuts a stage's backward in two for pipelines: I gives the gradients of the stage's inputs, W those of its
//! parameters.
//!
//! I holds exactly the lines that the gradient of some input needs; W holds the other lines that the gradient of some
//! parameter needs. The hand-over is the explicit list of values that W reads and does not make. W falls into units
//! that share neither a line nor a gradient of the hand-over, so each unit may run at its own time and then free the
//! values that it read.
//!
//! The cut is made once, on the trace, before executors claim lines. Running I and then W runs each line of the
//! backward once, in an order that the backward allows.

mod bytes;
mod cones;
mod show;
mod units;

pub use units::WeightUnit;

use fulgurite_runtime::Error;
use fulgurite_runtime::parts::bytes_of;
use fulgurite_runtime::trace::verify;
use fulgurite_runtime::trace::*;
use fulgurite_runtime::transforms::Split;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::time::Instant;

/// Decides which values I hands over to W.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Handover {
    /// I hands over the values that W reads, so nothing is computed twice.
    #[default]
    Values,
    /// I hands over as few bytes as possible; W may run pointwise lines and views of I again.
    MinBytes,
}

/// The slots of a stage in the order of `wrt`. Each has the position of its gradient among the split's gradients, or
/// `None` if it has no gradient.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// One entry per input of the stage.
    pub inputs: Vec<Option<usize>>,
    /// One entry per parameter.
    pub params: Vec<Option<usize>>,
    /// The inputs of the forward whose storage outlives the call: parameters and captured tensors.
    pub lasting: Vec<usize>,
}

/// The source of a value of the hand-over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// I makes the value: it is the result of I with this number.
    Fresh(usize),
    /// The forward kept the value: it is the input of the backward with this number.
    Saved(usize),
    /// The value is the cotangent of an output: it is the input of the backward with this number.
    Cotangent(usize),
}

/// A value of the hand-over.
#[derive(Clone, Debug)]
pub struct HandedValue {
    /// The value.
    pub value: ProxyId,
    /// The source of the value.
    pub origin: Origin,
    /// The size of the value in bytes.
    pub bytes: usize,
    /// The units that read the value, ascending; it is dropped after the last of them.
    pub readers: Vec<usize>,
    /// The input of the forward whose storage the value shares, if that storage outlives the call.
    pub version_of: Option<usize>,
}

/// Facts about a cut, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The number of lines of I.
    pub input_lines: usize,
    /// The number of lines of W.
    pub weight_lines: usize,
    /// Bytes that are kept after the forward, without those of parameters.
    pub bytes_forward: usize,
    /// Bytes that are kept after I, without those of parameters.
    pub bytes_handover: usize,
    /// The operators of lines that stayed in I although some of their results serve parameters alone.
    pub shared_in_input: Vec<String>,
    /// Parameters that want a gradient and have none, because no output depends on them.
    pub unused: Vec<usize>,
    /// The operators of the lines of I that W runs again.
    pub recomputed: Vec<String>,
}

/// A backward in two parts.
#[derive(Clone, Debug)]
pub struct BackwardSplit {
    /// The trace of I. Its inputs are the inputs of the backward that it reads. Its results are the gradients of
    /// inputs, then the values of the hand-over that it makes, then the values that the backward writes.
    pub input: Trace,
    /// For each input of I, the number of the same input of the backward.
    pub reads: Vec<usize>,
    /// For each slot of the stage's inputs, the result of I that is its gradient.
    pub inputs: Vec<Option<usize>>,
    /// For each slot of the parameters, the unit of W that makes its gradient, and the result of that unit.
    pub params: Vec<Option<(usize, usize)>>,
    /// The units of W.
    pub weight: Vec<WeightUnit>,
    /// The values that I hands over to W: values that I makes, then values that the forward kept, then cotangents.
    pub handover: Vec<HandedValue>,
    /// Facts about this cut.
    pub report: Report,
}

/// Cuts the backward of a split in two.
///
/// # Errors
/// Reports errors of making bodies, and E730 in debug builds.
pub fn backward_split(split: &Split, slots: &Slots, policy: Handover) -> Result<BackwardSplit, Error> {
    let started = Instant::now();
    let roots = |list: &[Option<usize>]| list.iter().flatten().filter_map(|at| split.grads[*at]).collect::<Vec<_>>();
    // the writes of the backward happen in I, so that they happen once, whether or not W runs
    let writes = (split.backward.outputs().len() - split.writes.len())..split.backward.outputs().len();
    let inputs: Vec<usize> = roots(&slots.inputs).into_iter().chain(writes.clone()).collect();
    let params = roots(&slots.params);
    let (backward, shared) = cones::open(&split.backward, &inputs, &params)?;
    let value = |at: &usize| backward.outputs()[*at];
    let sets = cones::cut(backward.lines(), inputs.iter().map(value), params.iter().map(value));
    let mut report = Report { shared_in_input: shared, ..Report::default() };

    let sources: FxHashMap<ProxyId, Origin> = sources(split, &backward);
    let lasting = Lasting { split, inputs: &slots.lasting };
    let mut ours = sets.weight.clone();
    if policy == Handover::MinBytes {
        let again =
            bytes::again(&backward, &sets, &params.iter().map(value).collect::<Vec<_>>(), |p| lasting.of(p).is_none());
        report.recomputed = cones::names(backward.lines(), &again);
        ours.extend(again);
    }
    let weight_lines: Vec<Rc<BoundSymbol>> =
        backward.lines().iter().filter(|l| ours.contains(&l.id)).cloned().collect();
    let input_lines: Vec<Rc<BoundSymbol>> =
        backward.lines().iter().filter(|l| sets.input.contains(&l.id)).cloned().collect();

    // the hand-over: the values that W reads and does not make, in the order in which they are made
    let made: FxHashSet<ProxyId> = weight_lines.iter().flat_map(|l| l.outs.iter().chain(&l.aux)).copied().collect();
    let mut read: FxHashSet<ProxyId> = params.iter().map(value).collect();
    weight_lines.iter().for_each(|l| l.for_each_arg(|p| _ = read.insert(p)));
    read.retain(|p| !made.contains(p));
    let grads: Vec<ProxyId> =
        slots.inputs.iter().flatten().filter_map(|at| split.grads[*at]).map(|at| value(&at)).collect();
    let fresh: Vec<ProxyId> = {
        let makers = input_lines.iter().flat_map(|l| l.outs.iter().chain(&l.aux));
        makers.copied().filter(|p| read.contains(p)).collect()
    };
    let kept = backward.inputs().iter().map(|cell| cell.proxy).filter(|p| read.contains(p));
    let is_cotangent = |p: &ProxyId| matches!(sources.get(p), Some(Origin::Cotangent(_)));
    let (cotangents, saved): (Vec<ProxyId>, Vec<ProxyId>) = kept.partition(is_cotangent);
    let entry = |(at, p): (Option<usize>, ProxyId)| {
        let origin = at.map_or_else(|| sources[&p], |at| Origin::Fresh(grads.len() + at));
        let bytes = bytes_of(&backward.arena, p);
        HandedValue { value: p, origin, bytes, readers: Vec::new(), version_of: lasting.of(p) }
    };
    let fresh_entries = fresh.iter().enumerate().map(|(i, p)| (Some(i), *p));
    let rest = saved.iter().chain(&cotangents).map(|p| (None, *p));
    let mut handover: Vec<HandedValue> = fresh_entries.chain(rest).map(entry).collect();

    // I
    let mut outputs = grads.clone();
    outputs.extend(&fresh);
    outputs.extend(&backward.outputs()[writes]);
    let (input, reads) = part(&backward, ".input", started, input_lines, outputs);
    verify::step(&backward, &input)?;
    let mut at = 0..grads.len();
    let has = |slot: &Option<usize>| slot.and_then(|at| split.grads[at]).is_some();
    let inputs = slots.inputs.iter().map(|slot| if has(slot) { at.next() } else { None }).collect();

    // W
    let wanted: Vec<(usize, ProxyId)> =
        slots.params.iter().enumerate().filter_map(|(i, slot)| Some((i, value(&split.grads[(*slot)?]?)))).collect();
    let weight = units::units(&backward, &weight_lines, &wanted, &mut handover, started)?;
    let mut params = vec![None; slots.params.len()];
    for (unit, of) in weight.iter().enumerate() {
        of.params.iter().enumerate().for_each(|(result, slot)| params[*slot] = Some((unit, result)));
    }
    let wants = slots.params.iter().enumerate().filter(|(_, slot)| slot.is_some());
    report.unused = wants.filter(|(i, _)| params[*i].is_none()).map(|(i, _)| i).collect();
    report.input_lines = input.lines().len();
    report.weight_lines = weight_lines.len() - report.recomputed.len();
    let counted = |p: &&ProxyId| lasting.of(**p).is_none();
    report.bytes_forward = split.plan.tensors.iter().filter(counted).map(|p| bytes_of(&backward.arena, *p)).sum();
    report.bytes_handover = handover.iter().filter(|e| e.version_of.is_none()).map(|e| e.bytes).sum();
    Ok(BackwardSplit { input, reads, inputs, params, weight, handover, report })
}

/// The source of each input of the backward. An input of the forward whose present value the backward reads counts as
/// saved.
fn sources(split: &Split, backward: &Trace) -> FxHashMap<ProxyId, Origin> {
    let cotangents: FxHashSet<usize> = split.cotangents.iter().flatten().copied().collect();
    let of = |(i, cell): (usize, &InputCell)| {
        (cell.proxy, if cotangents.contains(&i) { Origin::Cotangent(i) } else { Origin::Saved(i) })
    };
    backward.inputs().iter().enumerate().map(of).collect()
}

/// A part of the backward: these lines, with the inputs that they read.
fn part(
    backward: &Trace,
    suffix: &str,
    started: Instant,
    lines: Vec<Rc<BoundSymbol>>,
    outputs: Vec<ProxyId>,
) -> (Trace, Vec<usize>) {
    let mut read: FxHashSet<ProxyId> = outputs.iter().copied().collect();
    lines.iter().for_each(|l| l.for_each_arg(|p| _ = read.insert(p)));
    let reads: Vec<usize> =
        (0..backward.inputs().len()).filter(|i| read.contains(&backward.inputs()[*i].proxy)).collect();
    let cells = reads.iter().map(|i| backward.inputs()[*i].clone()).collect();
    (trace(backward, suffix, started, cells, lines, outputs), reads)
}

/// Makes a trace over values of the backward.
fn trace(
    backward: &Trace,
    suffix: &str,
    started: Instant,
    inputs: Vec<InputCell>,
    lines: Vec<Rc<BoundSymbol>>,
    outputs: Vec<ProxyId>,
) -> Trace {
    let guards = backward.prologue().to_vec();
    let mut made = backward.part(TracePart { inputs, lines, outputs, guards, writes: Vec::new() });
    let (micros, from) = (started.elapsed().as_micros() as u64, Some(backward.provenance.made_by));
    made.provenance = Provenance { made_by: "backward_split", micros, from };
    made.name = Rc::from(format!("{}{suffix}", backward.name));
    made
}

/// Finds the values that share storage with inputs that outlive a call.
struct Lasting<'s> {
    split: &'s Split,
    inputs: &'s [usize],
}

impl Lasting<'_> {
    /// The input of the forward that `p` is, or is a view of.
    fn of(&self, p: ProxyId) -> Option<usize> {
        let forward = &self.split.forward;
        let mut at = p;
        loop {
            if let Some(i) = forward.input_proxies().position(|input| input == at) {
                return self.inputs.contains(&i).then_some(i);
            }
            let line = forward.producer(at).filter(|line| line.symbol.is_view())?;
            let mut first = None;
            line.for_each_arg(|arg| _ = first.get_or_insert(arg));
            at = first?;
        }
    }
}
