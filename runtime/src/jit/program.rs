//! A compiled trace with what it needs besides its arguments: captured tensors, and cells that it writes.

use super::backend::Backend;
use super::stages::{self, Stages};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::executors::Executor;
use crate::tensor::Cell;
use crate::trace::types::Trace;
use std::sync::Arc;
use std::time::Instant;

/// A program that runs on the buffers of its arguments.
pub(super) struct Program {
    backend: Backend,
    cells: Vec<Arc<Cell>>,
    /// Per input: whether its memory may be taken; that of captured tensors may not.
    donated: Vec<bool>,
    /// Inputs that are written after a run, with the positions of their values behind the results.
    writes: Vec<usize>,
    results: usize,
    arguments: usize,
}

impl Program {
    /// Runs the pipeline on an acquired trace, and compiles it.
    pub fn compile(
        trace: Trace,
        cells: Vec<Arc<Cell>>,
        executors: &[Arc<dyn Executor>],
        stages: &mut Stages,
    ) -> Result<Program, Error> {
        let arguments = trace.inputs.len() - cells.len();
        let trace = stages::run(trace, stages)?;
        let started = Instant::now();
        let backend = Backend::compile(&trace, executors)?;
        stages.compiled(trace.lines.len(), started.elapsed(), || backend.describe());
        let writes = trace.epilogue.iter().map(|w| w.input).collect();
        let donated = (0..trace.inputs.len()).map(|i| i < arguments).collect();
        Ok(Program { backend, cells, donated, writes, results: trace.outputs.len(), arguments })
    }

    /// The arguments (by position) that it writes.
    pub fn written_arguments(&self) -> impl Iterator<Item = usize> + '_ {
        self.writes.iter().copied().filter(|&i| i < self.arguments)
    }

    /// Whether it captured this cell.
    pub fn captured(&self, cell: &Arc<Cell>) -> bool {
        self.cells.iter().any(|c| Arc::ptr_eq(c, cell))
    }

    /// Runs it. `inputs` holds the arguments' buffers; those that nobody else shares may be overwritten. `cell` gives
    /// the cell of an argument that is written.
    ///
    /// # Errors
    /// What an executor reports; nothing was written then, and the arguments are still there.
    pub fn run(
        &self,
        inputs: &mut Vec<Buffer>,
        cell: impl Fn(usize) -> Option<Arc<Cell>>,
    ) -> Result<Vec<Buffer>, Error> {
        inputs.extend(self.cells.iter().map(|cell| cell.buffer()));
        let mut values = self.backend.run(inputs, &self.donated)?;
        for (&input, value) in self.writes.iter().zip(values.drain(self.results..)) {
            match input.checked_sub(self.arguments) {
                Some(captured) => _ = self.cells[captured].replace(value),
                None => _ = cell(input).map(|cell| cell.replace(value)),
            }
        }
        Ok(values)
    }
}
