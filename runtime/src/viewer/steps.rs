//! The steps of a compiled program, with the lines that each runs, and their times if they were measured.

use super::notes::separate;
use crate::bind::body_of;
use crate::error::Error;
use crate::executors::{self, CompileOptions, Description, ExecError, Executor, StepInfo};
use crate::jit::CompileStage;
use crate::profile::{Profile, ProfiledStep, bandwidth};
use crate::trace::{BoundSymbol, BoundSymbolId, Trace};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::sync::Arc;

/// The program of a trace, with the line of the trace to which each line of a step belongs.
pub struct Steps {
    /// The steps, and the lines that are not fused.
    pub described: Description,
    /// The line of the trace, by the number of a line of the trace or of a body.
    pub owner: FxHashMap<BoundSymbolId, usize>,
}

impl Steps {
    /// Compiles a trace and describes the program. Without `executors`, the usual ones compile it.
    ///
    /// # Errors
    /// Errors of compiling.
    pub fn of(trace: &Trace, executors: &[Arc<dyn Executor>]) -> Result<Steps, Error> {
        let bodies = |line: &BoundSymbol| {
            body_of(&trace.arena, line).map_err(|e| ExecError::new(e.code(), e.to_string()).at(line.id))
        };
        let mut options = CompileOptions { explain: true, ..CompileOptions::new(&bodies) };
        if !executors.is_empty() {
            options.executors = executors.to_vec();
        }
        let compiled = executors::compile(trace, &options).map_err(|e| Error::new(e.code, e.message))?;
        // Lines of bodies belong to the line of the trace.
        let mut owner = FxHashMap::default();
        for (i, line) in trace.lines().iter().enumerate() {
            own(line, i, &mut owner);
        }
        Ok(Steps { described: compiled.describe(), owner })
    }

    /// The numbers of the lines that a step runs, in order, each once.
    fn lines(&self, step: &StepInfo) -> Vec<usize> {
        let mut lines: Vec<usize> = step.lines.iter().filter_map(|id| self.owner.get(id).copied()).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    /// The stage of the program. `of` is the number of the stage whose trace was compiled.
    pub(super) fn object(&self, stage: &CompileStage, of: usize, profile: Option<&Profile>) -> Value {
        let times = profile.and_then(|profile| matching(&self.described.steps, profile));
        let step = |(i, step): (usize, &StepInfo)| {
            let mut object = json!({
                "executor": step.executor, "what": step.what, "parts": step.steps, "lines": self.lines(step),
                "bytes": step.bytes, "flops": step.flops, "estimate": step.nanos,
            });
            if let Some(measured) = times.as_ref().map(|times| times[i]) {
                object["runs"] = measured.runs.into();
                object["seconds"] = measured.time.as_secs_f64().into();
            }
            object
        };
        let apart = self.described.apart.iter().filter_map(|(line, other, why)| {
            let (line, other) = (*self.owner.get(line)?, *self.owner.get(other)?);
            (line != other).then(|| json!([line, other, separate(*why)]))
        });
        let mut apart: Vec<Value> = apart.collect();
        apart.dedup();
        json!({
            "name": stage.name,
            "ms": stage.time.as_secs_f64() * 1e3,
            "remark": stage.remark,
            "of": of,
            "steps": self.described.steps.iter().enumerate().map(step).collect::<Vec<_>>(),
            "apart": apart,
            "arena": self.described.arena,
            "peak": self.described.peak,
            "results": self.described.outputs,
            "same": stage.text.as_deref() == Some(&self.described.to_string()),
            "profiled": times.is_some(),
            "bandwidth": times.is_some().then(bandwidth),
        })
    }
}

/// The measured steps of the program with these steps, if it ran. Programs have no names, so equal steps identify one.
fn matching<'p>(steps: &[StepInfo], profile: &'p Profile) -> Option<Vec<&'p ProfiledStep>> {
    let programs = profile.steps.iter().map(|step| step.program).max()? + 1;
    let of = |program: usize| profile.steps.iter().filter(move |step| step.program == program).collect::<Vec<_>>();
    let alike = |measured: &Vec<&ProfiledStep>| {
        measured.len() == steps.len()
            && measured.iter().zip(steps).all(|(a, b)| a.info.what == b.what && a.info.rows == b.rows)
    };
    (0..programs).map(of).find(alike)
}

fn own(line: &BoundSymbol, at: usize, owner: &mut FxHashMap<BoundSymbolId, usize>) {
    owner.insert(line.id, at);
    if let Some(Some(body)) = line.body.get() {
        body.lines.iter().for_each(|inner| own(inner, at, owner));
    }
}
