//! Rematerialisation: the backward computes values again instead of keeping them.
//!
//! Two sources decide, one after the other. *Marks* are checkpoint regions and the tags `recompute`, `must_save`,
//! `no_save`. *A budget* is met by a minimum cut of the forward (`cut`) with costs from the rows. Both choose a set
//! of values, and `again::clones` edits the joint trace: backward lines read clones of the lines that make these
//! values.
//!
//! **Invariant:** no line that writes is cloned. A clone reads the key of its line, so it draws equal numbers. Values
//! and gradients are those of the trace without rematerialisation.

mod again;
mod cut;
pub(crate) mod flow;
mod marks;

use super::cost::{Costs, bytes};
use super::split::{forward_lines, residuals};
use super::vjp::Joint;
use crate::error::Error;
use crate::trace::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::time::Instant;

/// The values that gradients keep for their backward.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Remat {
    /// Every value that the backward reads, except as checkpoint regions and tags decide.
    #[default]
    Marked,
    /// At most about this many bytes, if that can be reached, with the least work.
    Bytes(usize),
    /// At most this share of the bytes that [`Remat::Marked`] keeps, if that can be reached, with the least work.
    Share(f64),
}

/// The result of rematerialisation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RematReport {
    /// The bytes that the backward would have kept.
    pub before: usize,
    /// The bytes that the backward keeps.
    pub kept: usize,
    /// The lines of the forward that run again.
    pub lines: Vec<BoundSymbolId>,
    /// The work of these lines, in additions.
    pub again: f64,
    /// The work of the whole forward, in additions.
    pub forward: f64,
}

impl std::fmt::Display for RematReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mega = |n: usize| n as f64 / 1e6;
        let share = if self.forward > 0.0 { 100.0 * self.again / self.forward } else { 0.0 };
        let (before, kept, lines) = (mega(self.before), mega(self.kept), self.lines.len());
        write!(f, "keeps {kept:.2} MB of {before:.2} MB; {lines} lines run again, {share:.0} % of the forward's work")
    }
}

/// The forward of a joint trace, whose values the backward may compute again.
struct Forward<'j> {
    joint: &'j Joint,
    ids: FxHashSet<BoundSymbolId>,
    /// For each value, the line that makes it.
    maker: FxHashMap<ProxyId, Rc<BoundSymbol>>,
}

impl<'j> Forward<'j> {
    fn of(joint: &'j Joint) -> Forward<'j> {
        let ids = forward_lines(joint);
        let ours = joint.trace.lines.iter().filter(|l| ids.contains(&l.id));
        let maker = ours.flat_map(|l| l.outs.iter().chain(&l.aux).map(|p| (*p, l.clone()))).collect();
        Forward { joint, ids, maker }
    }

    fn trace(&self) -> &'j Trace {
        &self.joint.trace
    }

    /// The forward lines, in order.
    fn lines(&self) -> impl DoubleEndedIterator<Item = &'j Rc<BoundSymbol>> + '_ {
        self.trace().lines.iter().filter(|l| self.ids.contains(&l.id))
    }

    /// The lines after the forward: those of the backward, and lines that only the backward reads.
    fn backward(&self) -> impl Iterator<Item = &'j Rc<BoundSymbol>> + '_ {
        self.trace().lines.iter().filter(|l| !self.ids.contains(&l.id))
    }

    /// The bytes that the backward keeps.
    fn kept(&self) -> usize {
        let lines: Vec<_> = self.backward().cloned().collect();
        let (outputs, grads) = self.trace().outputs.split_at(self.joint.forward_outputs);
        let cotangents = &self.trace().inputs[self.joint.forward_inputs..];
        let plan = residuals(self.trace(), &lines, grads, cotangents);
        // results exist anyway
        plan.bytes
            - plan.tensors.iter().filter(|p| outputs.contains(p)).map(|p| bytes(&self.trace().arena, *p)).sum::<usize>()
    }
}

/// Edits a joint trace so that its backward computes values again, according to marks and `policy`.
///
/// # Errors
/// E722 if the backward reads an input that is tagged `no_save`; errors of making bodies; E730 in debug builds.
pub fn rematerialise(joint: Joint, policy: Remat) -> Result<(Joint, RematReport), Error> {
    let started = Instant::now();
    let mut report = RematReport::default();
    let forward = Forward::of(&joint);
    let marked = marks::recomputed(&forward)?;
    if marked.is_empty() && policy == Remat::Marked {
        return Ok((joint, report));
    }
    report.before = forward.kept();
    let (mut joint, mut lines) = again::clones(&forward, &marked, started)?;
    let mut costs = Costs::default();
    let forward = Forward::of(&joint);
    report.kept = forward.kept();
    report.forward =
        forward.lines().try_fold(0.0, |sum, l| costs.of(&joint.trace.arena, l).map(|c| sum + c.unwrap_or(0.0)))?;
    let budget = match policy {
        Remat::Marked => usize::MAX,
        Remat::Bytes(bytes) => bytes,
        Remat::Share(share) => (report.kept as f64 * share) as usize,
    };
    if report.kept > budget {
        let chosen = cut::recomputed(&forward, &mut costs, budget)?;
        let (cut, more) = again::clones(&forward, &chosen, started)?;
        lines.extend(more);
        joint = cut;
        report.kept = Forward::of(&joint).kept();
    }
    let mut seen = FxHashSet::default();
    lines.retain(|l| seen.insert(l.id));
    for line in &lines {
        report.again += costs.of(&joint.trace.arena, line)?.unwrap_or(0.0);
    }
    report.lines = lines.iter().map(|l| l.id).collect();
    Ok((joint, report))
}
