//! The writes of a program with forward and backward to its inputs, known when it is compiled.

use super::split::Split;
use super::vjp::Joint;
use crate::error::{Error, ErrorKind, Phase};
use crate::trace::*;
use fulgurite_core::loc::Loc;
use std::sync::Arc;

/// A write of a backward to an input of the forward.
#[derive(Clone, Debug, PartialEq)]
pub struct BackwardWrite {
    /// The position of the input.
    pub input: usize,
    /// The value that is written.
    pub value: ProxyId,
    /// The user's call that made the value.
    pub loc: Loc,
}

/// The writes of a program, complete when made; nothing is filled in later:
///
/// ```compile_fail
/// fn forget(plan: &mut fulgurite_runtime::transforms::MutationPlan) {
///     plan.bw_writes = Vec::new();
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MutationPlan {
    fw_writes: Vec<(usize, ProxyId)>,
    bw_writes: Vec<BackwardWrite>,
    bw_writes_needing_grad: Vec<usize>,
    alias_groups: Vec<Vec<usize>>,
    snapshots: Vec<usize>,
}

impl MutationPlan {
    /// The plan of a joint trace that was differentiated by the inputs `wrt` and cut into `split`. `aliases` has, for
    /// each argument, the first one that is the same tensor.
    pub fn from_joint(joint: &Joint, split: &Split, wrt: &[usize], aliases: &[usize]) -> MutationPlan {
        let trace = &joint.trace;
        let of = |phase: Phase| trace.epilogue.iter().filter(move |w| w.phase == phase);
        let fw_writes: Vec<_> = of(Phase::Forward).map(|w| (w.input, w.value)).collect();
        let loc = |p: ProxyId| trace.producer(p).map_or(Loc::NOWHERE, |l| l.place.loc);
        let bw_writes: Vec<_> =
            of(Phase::Backward).map(|w| BackwardWrite { input: w.input, value: w.value, loc: loc(w.value) }).collect();
        let mut needing: Vec<usize> = bw_writes.iter().map(|w| w.input).filter(|i| wrt.contains(i)).collect();
        needing.sort_unstable();
        let group = |first: usize| (first..aliases.len()).filter(|&i| aliases[i] == first).collect::<Vec<_>>();
        let alias_groups = (0..aliases.len()).map(group).filter(|g| g.len() > 1).collect();
        // a backward writes after its last line, so it does not overwrite values that it reads
        let kept = |i: &usize| trace.inputs.get(*i).is_some_and(|cell| split.plan.tensors.contains(&cell.proxy));
        let snapshots = fw_writes.iter().map(|(i, _)| *i).filter(kept).collect();
        MutationPlan { fw_writes, bw_writes, bw_writes_needing_grad: needing, alias_groups, snapshots }
    }

    /// The inputs that the forward writes, each once, with their last values.
    pub fn fw_writes(&self) -> &[(usize, ProxyId)] {
        &self.fw_writes
    }
    /// The inputs that the backward writes, each once.
    pub fn bw_writes(&self) -> &[BackwardWrite] {
        &self.bw_writes
    }
    /// The inputs among these by which the program is differentiated, ascending; such a backward has no gradient.
    pub fn bw_writes_needing_grad(&self) -> &[usize] {
        &self.bw_writes_needing_grad
    }
    /// Groups of arguments that are one tensor.
    pub fn alias_groups(&self) -> &[Vec<usize>] {
        &self.alias_groups
    }
    /// The inputs whose old value the backward reads although the forward writes them.
    pub fn snapshots(&self) -> &[usize] {
        &self.snapshots
    }
}

fn list(inputs: &[(usize, String)]) -> String {
    inputs.iter().map(|(i, name)| format!("`{name}` (input {i})")).collect::<Vec<_>>().join(", ")
}

/// The error of differentiating a backward by an input that it writes.
pub fn needs_grad(inputs: Vec<(usize, String)>) -> Error {
    let claim = format!("the backward writes to {}, and is itself differentiated by it", list(&inputs));
    Error::new("E719", claim)
        .kind_is(ErrorKind::BackwardWriteNeedsGrad { inputs })
        .note("a backward that is only run has no gradient, so it may write; one that is differentiated may not")
        .help("don't differentiate by what the backward writes: capture it instead of passing it")
}

/// The error of keeping a backward that writes for a second run.
pub fn retained(inputs: Vec<(usize, String)>) -> Error {
    let claim = format!("the backward writes to {}, so it runs once", list(&inputs));
    Error::new("E720", claim)
        .kind_is(ErrorKind::RetainWithBackwardWrites { inputs })
        .help("run the forward again, and the backward of that; or use `run` where this is the last run")
}

/// The names of these inputs, for errors.
pub(crate) fn named(inputs: impl Iterator<Item = usize>, names: &[Arc<str>]) -> Vec<(usize, String)> {
    inputs.map(|i| (i, names.get(i).map_or_else(String::new, |n| n.to_string()))).collect()
}
