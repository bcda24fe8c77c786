//! Compiled traces with their environment: captured tensors, and cells that they write.

use super::backend::Backend;
use super::eager::retake;
use super::shared;
use super::stages::{self, Stages};
use super::two_part::Plan;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::executors::Executor;
use crate::tensor::Cell;
use crate::trace::PrintOptions;
use crate::trace::Trace;
use crate::transforms::Pipeline;
use crate::tree::Fingerprint;
use std::cell::RefCell;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Instant;

/// At most this many programs of functions that are traced at each call, to bound memory.
const MOST_KEPT: usize = 64;

thread_local! {
    /// The programs, newest first.
    static KEPT: RefCell<Vec<(Fingerprint, Arc<Plan>)>> = const { RefCell::new(Vec::new()) };
}

/// A program that runs on the buffers of its arguments.
pub(crate) struct Program {
    plan: Arc<Plan>,
    cells: Vec<Arc<Cell>>,
    /// For each input, whether its memory may be taken; that of captured tensors may not.
    donated: Vec<bool>,
    /// The inputs that are written after a run; their values follow the results.
    writes: Vec<usize>,
    results: usize,
    arguments: usize,
}

impl Program {
    /// Runs the pipeline on an acquired trace, and compiles it.
    ///
    /// # Errors
    /// Reports errors of stages and executors.
    pub fn compile(
        trace: Trace,
        cells: Vec<Arc<Cell>>,
        executors: &[Arc<dyn Executor>],
        pipeline: &Pipeline,
        stages: &mut Stages,
    ) -> Result<Program, Error> {
        let trace = stages::run(trace, pipeline, executors, stages)?;
        let plan = || Ok(Arc::new(Backend::compile(&trace, executors)?.into()));
        Program::planned(&trace, cells, stages, plan)
    }

    /// The program of a trace that went through the pipeline; `plan` makes its plan.
    ///
    /// # Errors
    /// Reports the errors of `plan`.
    pub fn planned(
        trace: &Trace,
        cells: Vec<Arc<Cell>>,
        stages: &mut Stages,
        plan: impl FnOnce() -> Result<Arc<Plan>, Error>,
    ) -> Result<Program, Error> {
        let started = Instant::now();
        let plan = plan()?;
        stages.compiled(trace.lines.len(), started.elapsed(), || plan.describe());
        Ok(Program::new(trace, cells, plan))
    }

    /// Like [`Program::compile`], for a function that is traced at each call: the program of an equal trace serves
    /// again.
    ///
    /// # Errors
    /// Reports the errors of [`Program::compile`].
    pub fn compile_once(trace: Trace, cells: Vec<Arc<Cell>>) -> Result<Program, Error> {
        let trace = stages::run(trace, &Pipeline::default(), &[], &mut Stages::default())?;
        let mut mark = Fingerprint::default();
        // a printed trace parses back, so equal texts are equal programs; places are part of errors
        mark.write(trace.print(&PrintOptions { locs: true, ..PrintOptions::plain() }).as_bytes());
        let known = KEPT.with_borrow(|kept| kept.iter().find(|(m, _)| *m == mark).map(|(_, b)| b.clone()));
        let backend = match known {
            Some(backend) => backend,
            None => {
                let backend = Arc::new(Plan::from(Backend::compile(&trace, &[])?));
                KEPT.with_borrow_mut(|kept| {
                    kept.truncate(MOST_KEPT - 1);
                    kept.insert(0, (mark, backend.clone()));
                });
                backend
            }
        };
        Ok(Program::new(&trace, cells, backend))
    }

    /// A program of a compiled trace.
    pub fn new(trace: &Trace, cells: Vec<Arc<Cell>>, plan: Arc<Plan>) -> Program {
        let arguments = trace.inputs.len() - cells.len();
        let writes = trace.epilogue.iter().map(|w| w.input).collect();
        let donated = (0..trace.inputs.len()).map(|i| i < arguments).collect();
        Program { plan, cells, donated, writes, results: trace.outputs.len(), arguments }
    }

    /// The positions of the arguments that the program writes.
    pub fn written_arguments(&self) -> impl Iterator<Item = usize> + '_ {
        self.writes.iter().copied().filter(|&i| i < self.arguments)
    }

    /// The inputs that the program writes.
    pub fn written(&self) -> impl Iterator<Item = usize> + '_ {
        self.writes.iter().copied()
    }

    /// The captured cell of an input, if the input is one.
    pub fn captured_cell(&self, input: usize) -> Option<&Arc<Cell>> {
        self.cells.get(input.checked_sub(self.arguments)?)
    }

    /// The present data of captured tensors.
    pub fn captured_buffers(&self) -> impl Iterator<Item = Buffer> + '_ {
        self.cells.iter().map(|cell| cell.buffer())
    }

    /// Whether the program captured this cell.
    pub fn captured(&self, cell: &Arc<Cell>) -> bool {
        self.cells.iter().any(|c| Arc::ptr_eq(c, cell))
    }

    /// Runs the program, by this plan if one is given. `inputs` holds the arguments' buffers; those that are not shared
    /// may be overwritten. `cell` returns the cell of an argument that is written. `shared` are arguments that are
    /// views or have views.
    ///
    /// # Errors
    /// The errors of [`shared::write`] and of executors; nothing was written then, and the arguments still exist.
    pub fn run(
        &self,
        plan: Option<&Plan>,
        inputs: &mut Vec<Buffer>,
        cell: impl Fn(usize) -> Option<Arc<Cell>>,
        shared: &[Arc<Cell>],
    ) -> Result<Vec<Buffer>, Error> {
        let plan = plan.unwrap_or(&self.plan);
        if self.writes.is_empty() {
            inputs.extend(self.captured_buffers());
            return plan.run(inputs, &self.donated);
        }
        // the caller replaces arguments that it does not share
        let of = |input: usize| match input.checked_sub(self.arguments) {
            Some(captured) => Some(self.cells[captured].clone()),
            None => cell(input),
        };
        let found: Vec<(usize, usize, Arc<Cell>)> =
            self.writes.iter().enumerate().filter_map(|(at, &input)| Some((at, input, of(input)?))).collect();
        let cells: Vec<Arc<Cell>> = found.iter().map(|(.., cell)| cell.clone()).collect();
        let captured = self.cells.iter().filter(|c| c.is_shared()).chain(shared);
        let read: Vec<Arc<Cell>> = captured.filter(|c| !cells.iter().any(|w| Arc::ptr_eq(w, c))).cloned().collect();
        shared::write(&cells, &read, &retake, || {
            for (_, input, cell) in found.iter().filter(|(_, input, _)| *input < self.arguments) {
                inputs[*input] = cell.buffer();
            }
            inputs.extend(self.captured_buffers());
            let mut values = plan.run(inputs, &self.donated)?;
            let new = values.split_off(self.results);
            Ok((values, found.iter().map(|(at, ..)| new[*at].clone()).collect()))
        })
    }
}
