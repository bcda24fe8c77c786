//! A backward cut in two, for pipelines: the gradients of a stage's inputs (I), and the rest, those of its parameters (W).
//!
//! I holds the lines that some input's gradient needs, and only those; W the other lines that some parameter's gradient
//! needs. What W reads and does not make is the hand-over, an explicit list. W falls into units, which share neither a
//! line nor a gradient of the hand-over, so each may run, and free what it reads, when it likes.
//!
//! The cut is made once, on the trace, before executors claim lines: running I, then W, runs the lines of the backward
//! once each, in an order that the backward allows too.

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

/// What stands between I and W.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Handover {
    /// The values that W reads: nothing is computed twice.
    #[default]
    Values,
    /// As few bytes as possible, where W may run pointwise lines and views of I again.
    MinBytes,
}

/// Whose gradient the values of `wrt` are, by position: each slot of a stage, and where among the split's gradients its
/// own stands (`None`: it has none).
#[derive(Clone, Debug, Default)]
pub struct Slots {
    /// Per input of the stage.
    pub inputs: Vec<Option<usize>>,
    /// Per parameter.
    pub params: Vec<Option<usize>>,
    /// Inputs of the forward whose storage outlives the call: parameters, and what is captured.
    pub lasting: Vec<usize>,
}

/// Where a value of the hand-over comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// I makes it: its result number `.0`.
    Fresh(usize),
    /// The forward kept it: input number `.0` of the backward.
    Saved(usize),
    /// A cotangent of an output: input number `.0` of the backward.
    Cotangent(usize),
}

/// A value of the hand-over.
#[derive(Clone, Debug)]
pub struct HandedValue {
    /// The value.
    pub value: ProxyId,
    /// Where it comes from.
    pub origin: Origin,
    /// Its bytes.
    pub bytes: usize,
    /// The units that read it, ascending; it is dropped behind the last.
    pub readers: Vec<usize>,
    /// The input of the forward whose storage it shares, if that outlives the call.
    pub version_of: Option<usize>,
}

/// What the cut has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines of I.
    pub input_lines: usize,
    /// Lines of W.
    pub weight_lines: usize,
    /// Bytes that are kept behind the forward, without those of parameters.
    pub bytes_forward: usize,
    /// Bytes that are kept behind I, without those of parameters.
    pub bytes_handover: usize,
    /// Lines with several results that stayed in I though some of these serve parameters alone: what they apply.
    pub shared_in_input: Vec<String>,
    /// Parameters without gradient, though they want one: no output depends on them.
    pub unused: Vec<usize>,
    /// Lines of I that W runs again: what they apply.
    pub recomputed: Vec<String>,
}

/// A backward in two parts.
#[derive(Clone, Debug)]
pub struct BackwardSplit {
    /// I. Inputs: those inputs of the backward that it reads. Results: the gradients of inputs, then fresh values of the
    /// hand-over, then the values of the backward's writes.
    pub input: Trace,
    /// Per input of I: the input of the backward that it is.
    pub reads: Vec<usize>,
    /// Per slot of the stage's inputs: the result of I that is its gradient.
    pub inputs: Vec<Option<usize>>,
    /// Per slot of the parameters: its unit, and the result of that one.
    pub params: Vec<Option<(usize, usize)>>,
    /// W.
    pub weight: Vec<WeightUnit>,
    /// The values between I and W: fresh ones, then saved ones, then cotangents.
    pub handover: Vec<HandedValue>,
    /// What was found.
    pub report: Report,
}

/// Cuts the backward of a split in two.
///
/// # Errors
/// What making bodies reports; E730 (debug builds).
pub fn backward_split(split: &Split, slots: &Slots, policy: Handover) -> Result<BackwardSplit, Error> {
    let started = Instant::now();
    let roots = |list: &[Option<usize>]| list.iter().flatten().filter_map(|at| split.grads[*at]).collect::<Vec<_>>();
    // writes of the backward happen once, whatever becomes of W
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

    // the hand-over: what W reads and does not make, in the order of making
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

/// What each input of the backward is. Inputs of the forward that are read as they are now count as saved: I reads them.
fn sources(split: &Split, backward: &Trace) -> FxHashMap<ProxyId, Origin> {
    let cotangents: FxHashSet<usize> = split.cotangents.iter().flatten().copied().collect();
    let of = |(i, cell): (usize, &InputCell)| {
        (cell.proxy, if cotangents.contains(&i) { Origin::Cotangent(i) } else { Origin::Saved(i) })
    };
    backward.inputs().iter().enumerate().map(of).collect()
}

/// A part of the backward: these lines, and the inputs that they read.
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

/// A trace over values of the backward.
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

/// Which values share storage that outlives a call.
struct Lasting<'s> {
    split: &'s Split,
    inputs: &'s [usize],
}

impl Lasting<'_> {
    /// The input of the forward that `p` is, or a view of.
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
