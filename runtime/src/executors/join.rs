//! Joins neighbouring lines that one executor compiles together.

use super::partition::{Claimed, Partition, root};
use super::require::Check;
use super::{ExecError, Executor, Line};
use crate::bind::may_refuse;
use crate::trace::{ProxyId, Trace};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Lines that become one kernel.
pub struct JoinedPart<'a> {
    pub(crate) trace: &'a Trace,
    /// The lines in order; conditions precede the line that they belong to.
    pub(crate) lines: &'a [Joined],
    /// The values that the kernel reads, in its order.
    pub(crate) inputs: &'a [ProxyId],
    /// The values that the kernel writes, in its order.
    pub(crate) outs: &'a [ProxyId],
    /// Returns the proxy of the line that computes a value. A result of a decomposed line is a
    /// result of a line of its body.
    pub(crate) root: &'a dyn Fn(ProxyId) -> ProxyId,
    /// Whether the trace is bound at one of many combinations of sizes.
    pub(crate) sizes_vary: bool,
}

/// A line of a part.
pub(crate) enum Joined {
    /// A line, with the meaning in its row.
    Line(Line),
    /// A condition of the next line.
    Check(Line, Check),
}

impl Joined {
    pub fn line(&self) -> &Line {
        match self {
            Joined::Line(line) | Joined::Check(line, _) => line,
        }
    }
}

/// A single entry, or a run of lines of one executor.
enum Run {
    Other(Claimed),
    Joined(Arc<dyn Executor>, Vec<Joined>),
}

impl Run {
    fn reads(&self) -> Vec<ProxyId> {
        match self {
            Run::Other(Claimed::Check(line, _) | Claimed::Join(line, ..)) => line.inputs(),
            Run::Other(Claimed::Kernel { inputs, .. }) => inputs.clone(),
            Run::Joined(_, lines) => lines.iter().flat_map(|l| l.line().inputs()).collect(),
        }
    }
}

/// Makes one kernel of every run of lines to be joined, unless the executor inlines them.
pub(super) fn join(trace: &Trace, partition: Partition, sizes_vary: bool) -> Result<Partition, ExecError> {
    if !partition.claimed.iter().any(|c| matches!(c, Claimed::Join(_, _, executor) if !executor.inlines())) {
        return Ok(partition);
    }
    let Partition { claimed, same, at: places } = partition;
    let root = |p| root(&same, p);
    let runs = runs(claimed);
    // the runs that read each value; results of the trace count as one more run
    let mut readers: FxHashMap<ProxyId, FxHashSet<usize>> = FxHashMap::default();
    for (at, run) in runs.iter().enumerate() {
        for p in run.reads() {
            readers.entry(root(p)).or_default().insert(at);
        }
    }
    for p in trace.outputs.iter().chain(trace.epilogue.iter().map(|w| &w.value)) {
        readers.entry(root(*p)).or_default().insert(usize::MAX);
    }
    let mut claimed = Vec::new();
    for (at, run) in runs.into_iter().enumerate() {
        let (executor, lines) = match run {
            Run::Other(other) => {
                claimed.push(other);
                continue;
            }
            Run::Joined(executor, lines) => (executor, lines),
        };
        let mut inputs: Vec<ProxyId> = Vec::new();
        let mut defined: Vec<ProxyId> = Vec::new();
        let mut known: FxHashSet<ProxyId> = FxHashSet::default();
        for joined in &lines {
            inputs.extend(joined.line().inputs().into_iter().map(root).filter(|p| known.insert(*p)));
            if let Joined::Line(line) = joined {
                defined.extend(&line.outs);
                known.extend(&line.outs);
            }
        }
        let read_elsewhere = |p: &ProxyId| readers.get(p).is_some_and(|r| r.iter().any(|run| *run != at));
        let outs: Vec<ProxyId> = defined.into_iter().filter(read_elsewhere).collect();
        let part = JoinedPart { trace, lines: &lines, inputs: &inputs, outs: &outs, root: &root, sizes_vary };
        let kernel = executor.join(&part)?;
        let refuses = lines.iter().any(|l| may_refuse(&trace.arena, &l.line().symbol));
        let lines = lines.iter().map(|l| l.line().id()).collect();
        claimed.push(Claimed::Kernel { lines, executor: executor.name(), kernel, inputs, outs, refuses });
    }
    Ok(Partition { claimed, same, at: places })
}

/// The runs of lines to be joined, with the conditions that precede them.
fn runs(claimed: Vec<Claimed>) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    let mut waiting: Vec<(Line, Check)> = Vec::new();
    for entry in claimed {
        match entry {
            Claimed::Check(line, check) => waiting.push((line, check)),
            Claimed::Join(line, checks, executor) if !executor.inlines() => {
                let known = matches!(out.last(), Some(Run::Joined(e, _)) if e.name() == executor.name());
                if !known {
                    out.push(Run::Joined(executor, Vec::new()));
                }
                if let Some(Run::Joined(_, lines)) = out.last_mut() {
                    lines.extend(waiting.drain(..).map(|(line, check)| Joined::Check(line, check)));
                    let own = |check| Joined::Check(Line::new(line.symbol.clone()), check);
                    lines.extend(checks.into_iter().map(own));
                    lines.push(Joined::Line(line));
                }
            }
            other => {
                out.extend(waiting.drain(..).map(|(line, check)| Run::Other(Claimed::Check(line, check))));
                out.push(Run::Other(other));
            }
        }
    }
    out.extend(waiting.into_iter().map(|(line, check)| Run::Other(Claimed::Check(line, check))));
    out
}
