//! The errors of pipelines.

use fulgurite_runtime::{Error, ErrorKind};

/// The stage and micro-batch of an action.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub stage: usize,
    pub micro_batch: usize,
}

/// E752: an action that the state does not allow. `since` is the step at which the micro-batch came into that state.
pub(super) fn order(
    action: &str,
    at: At,
    state: &str,
    since: Option<usize>,
    expected: &str,
    step: usize,
    why: &str,
) -> Error {
    let At { stage, micro_batch } = at;
    let since = since.map_or_else(String::new, |since| format!(" since step {since}"));
    let claim = format!(
        "{action}(stage {stage}, mb {micro_batch}) {why}: state is {state}{since}; expected {expected} (step {step})"
    );
    let kind = ErrorKind::PipelineOrder {
        stage,
        micro_batch,
        action: action.to_owned(),
        state: state.to_owned(),
        expected: expected.to_owned(),
        step,
    };
    Error::new("E752", claim).kind_is(kind).help("check the schedule: `schedule::check` names what is out of order")
}

/// E753: cotangents that do not fit the outputs.
pub(super) fn cotangent(stage: usize, path: &str, claim: impl Into<String>) -> Error {
    let kind = ErrorKind::Cotangent { stage, path: path.to_owned() };
    Error::new("E753", format!("the cotangents of stage {stage}: {}", claim.into()))
        .kind_is(kind)
        .help("give them the form of the outputs; `Cotangent::Absent` stands for zero")
}

/// E754: a cotangent was left out for an output that is not a loss.
pub(super) fn loss(stage: usize, shape: String) -> Error {
    let claim = format!("stage {stage} returns {shape}, which is no loss: that is one float tensor of rank 0");
    Error::new("E754", claim).kind_is(ErrorKind::Loss { stage, shape }).help("give the cotangent, or return the mean")
}

/// E755: a value that W reads was written since.
pub(super) fn stale(at: At, value: &str, saved: u64, now: u64) -> Error {
    let At { stage, micro_batch } = at;
    let claim = format!(
        "W(stage {stage}, mb {micro_batch}) reads `{value}` as it was at F, version {saved}; it was written since, and is version {now}"
    );
    let kind = ErrorKind::StaleHandover { stage, micro_batch, value: value.to_owned(), saved_version: saved, now };
    Error::new("E755", claim).kind_is(kind).help("update parameters behind the last W of the step")
}

/// E756: stages that do not make a pipeline.
pub(super) fn misfit(claim: impl Into<String>) -> Error {
    Error::new("E756", claim)
}

/// E756: two stages have one buffer and at least one of them writes it, so its value would depend on the order of the
/// ranks.
pub(super) fn shared(path: &str, stage: usize, other: usize) -> Error {
    misfit(format!("`{path}` is written in stage {stage} and read or written in stage {other}"))
        .note("what it holds would depend on the order in which the ranks run")
        .help("cut elsewhere, so that both stand in one stage, or give each stage a buffer of its own")
}
