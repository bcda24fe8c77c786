//! The pipeline from an acquired trace to a program, and the record of its stages.
//!
//! Differentiation is not a stage here: `value_and_grad` binds the gradient's lines into the trace that is being
//! recorded. Its joint traces are recorded as stages all the same.

use crate::bind;
use crate::error::{Error, ErrorKind};
use crate::executors::{self, Executor};
use crate::trace::types::ProxyId;
use crate::trace::{self, verify};
use crate::trace::{BoundSymbol, BoundSymbolId, InputCell, Trace};
use crate::transforms::{self, At, Joint, Pipeline, Split};
use rustc_hash::FxHashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A stage of the compilation of a function.
#[derive(Clone, Debug)]
pub struct CompileStage {
    /// The name: `acquired`, `joint`, `simplified`, ….
    pub name: &'static str,
    /// The number of lines of the trace.
    pub lines: usize,
    /// The time that the stage took.
    pub time: Duration,
    /// The trace as text, if texts are kept; for the last stage, the steps of the program.
    pub text: Option<String>,
    /// A remark of the stage.
    pub remark: Option<String>,
    /// The identity of each line of the trace, if texts are kept: a text does not record it.
    pub marks: Vec<LineMark>,
}

/// The identity of a line, which it keeps from stage to stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineMark {
    /// The number of the line in its program.
    pub id: BoundSymbolId,
    /// The line from which a transform made this one.
    pub origin: Option<BoundSymbolId>,
}

/// The stages of one compilation.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    keep: bool,
    list: Vec<CompileStage>,
}

impl Stages {
    /// A record that keeps texts, or else only counts and times.
    pub fn new(keep: bool) -> Stages {
        Stages { keep, list: Vec::new() }
    }
    /// Whether traces are kept as text.
    pub fn keeps(&self) -> bool {
        self.keep
    }
    /// Adds a stage.
    pub(crate) fn note(&mut self, name: &'static str, trace: &Trace, time: Duration, remark: Option<String>) {
        let text = self.keep.then(|| closed(trace).to_string());
        let mark = |line: &Rc<BoundSymbol>| LineMark { id: line.id, origin: line.origin };
        let marks = if self.keep { trace.lines.iter().map(mark).collect() } else { Vec::new() };
        self.list.push(CompileStage { name, lines: trace.lines.len(), time, text, remark, marks });
    }
    /// Adds a stage for each transform of the user.
    pub(crate) fn own(&mut self) -> impl FnMut(&'static str, &Trace, Instant) {
        |name, trace, started| self.note(name, trace, started.elapsed(), None)
    }
    /// Adds the last stage, a program.
    pub(crate) fn compiled(&mut self, lines: usize, time: Duration, text: impl FnOnce() -> String) {
        let text = self.keep.then(text);
        self.list.push(CompileStage { name: "compiled", lines, time, text, remark: None, marks: Vec::new() });
    }
    /// The stages, in order.
    pub fn list(&self) -> &[CompileStage] {
        &self.list
    }
    /// The time that all stages took.
    pub fn total(&self) -> Duration {
        self.list.iter().map(|s| s.time).sum()
    }
}

/// The trace in which values of the surrounding trace are inputs, so that its text is a program by itself and parses
/// back.
fn closed(trace: &Trace) -> Trace {
    let mut closed = trace.clone();
    let mut known: FxHashSet<ProxyId> = trace.input_proxies().collect();
    let mut free = Vec::new();
    let mut read = |p: ProxyId| {
        if p.0 < trace.outer && known.insert(p) {
            free.push(p);
        }
    };
    trace.lines.iter().for_each(|line| line.for_each_arg(&mut read));
    trace.outputs.iter().copied().for_each(&mut read);
    for proxy in free {
        let alias_group = closed.inputs.len();
        closed.inputs.push(InputCell {
            proxy,
            version: proxy,
            alias_group,
            path: "outer".into(),
            donated: false,
            constant: false,
        });
    }
    closed
}

/// Unrolls lines on tensors of subclasses to lines on their fields, except for those that an executor runs whole.
fn unrolled(trace: Trace, executors: &[Arc<dyn Executor>], stages: &mut Stages) -> Result<Trace, Error> {
    if !transforms::unroll::has_subclasses(&trace) {
        return Ok(trace);
    }
    let started = Instant::now();
    let made = transforms::unroll(&trace, &executors::claims(&trace.arena, executors))?;
    let made = transforms::simplify(&made, trace::SplitSide::After)?;
    stages.note("unrolled", &made, started.elapsed(), bind::collectives(&made));
    Ok(made)
}

/// A stage: trace to trace.
type Step = fn(&Trace) -> Result<Trace, Error>;

/// The stages between acquisition and compilation. Functionalisation and autocast need none, because writes become
/// versions, and arguments are cast, when they are bound.
const PIPELINE: &[(&str, Step)] =
    &[("simplified", |trace| transforms::simplify(&transforms::custom_vjp::settle(trace)?, trace::SplitSide::Before))];

/// Runs the pipeline.
///
/// # Errors
/// Errors of stages; E730 if a stage makes an invalid trace (debug builds).
pub(super) fn run(
    trace: Trace,
    pipeline: &Pipeline,
    executors: &[Arc<dyn Executor>],
    stages: &mut Stages,
) -> Result<Trace, Error> {
    let mut trace = trace;
    for (name, step) in PIPELINE {
        let started = Instant::now();
        let made = step(&trace)?;
        verify::step(&trace, &made)?;
        stages.note(name, &made, started.elapsed(), None);
        trace = made;
    }
    trace = unrolled(trace, executors, stages)?;
    pipeline.apply(At::Simplified, trace, stages.own())
}

/// Runs a joint trace through the rest of the pipeline, and cuts it into forward and backward. Each is a program, which
/// transforms at [`At::Simplified`] see.
///
/// # Errors
/// The errors of [`run`]; E722 if marks exclude each other.
pub(crate) fn cut(
    joint: Joint,
    pipeline: &Pipeline,
    executors: &[Arc<dyn Executor>],
    stages: &mut Stages,
) -> Result<(Joint, Split), Error> {
    let started = Instant::now();
    let (joint, report) = transforms::rematerialise(joint, pipeline.remat)?;
    if !report.lines.is_empty() {
        stages.note("rematerialised", &joint.trace, started.elapsed(), Some(report.to_string()));
    }
    let joint = joint.edit(|trace| pipeline.apply(At::Joint, trace.clone(), stages.own()))?;
    let started = Instant::now();
    let joint =
        joint.edit(|trace| transforms::simplify(&transforms::custom_vjp::settle(trace)?, trace::SplitSide::Before))?;
    stages.note("simplified", &joint.trace, started.elapsed(), None);
    let joint = joint.edit(|trace| unrolled(trace.clone(), executors, stages))?;
    let started = Instant::now();
    let mut split = transforms::split(&joint)?;
    stages.note("forward", &split.forward, started.elapsed(), None);
    stages.note("backward", &split.backward, started.elapsed(), None);
    for part in [&mut split.forward, &mut split.backward] {
        *part = pipeline.apply(At::Simplified, part.clone(), stages.own())?;
    }
    kept_types(&split)?;
    Ok((joint, split))
}

/// Checks that the kept values and results of the forward have the types for which the backward was made.
fn kept_types(split: &Split) -> Result<(), Error> {
    let forward = &split.forward;
    let kept = &forward.outputs()[forward.outputs().len() - forward.saved..];
    for (is, input) in kept.iter().zip(split.backward.inputs()) {
        let (made, read) = (forward.ty(*is), split.backward.ty(input.proxy));
        if made != read {
            let name = split.backward.arena.name(input.proxy);
            let by = forward.provenance.made_by;
            let claim = format!("`{by}` made `{name}` {made} in the forward, and the backward reads it as {read}");
            let error = Error::new("E730", claim).kind_is(ErrorKind::BadTrace { transform: by });
            return Err(error.help("edit values that the backward reads at `At::Acquired` or `At::Joint`"));
        }
    }
    Ok(())
}
