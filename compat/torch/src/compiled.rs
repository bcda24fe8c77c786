//! Programs that are compiled and kept.

use crate::memory::own;
use crate::program::TransformedProgram;
use fulgurite::buffer::Buffer;
use fulgurite::core::Dim;
use fulgurite::{Caching, Error, Tensor, executors, jit};

/// The compiled function of a program.
type Function = Box<dyn Fn(Vec<Tensor>) -> Result<Vec<Tensor>, Error> + Send + Sync>;

/// A program with its sizes, compiled once for each dtype and rank of its tensors.
pub struct CompiledProgram {
    run: Function,
}

impl CompiledProgram {
    /// The program with these sizes; it is compiled when it is called.
    pub fn new(program: TransformedProgram, sizes: Vec<i64>) -> CompiledProgram {
        let sizes: Vec<Dim> = sizes.into_iter().map(Dim::from).collect();
        let function = jit(move |tensors: Vec<Tensor>| program.evaluate(&tensors, &sizes)).caching(Caching::Symbolic);
        CompiledProgram { run: Box::new(move |tensors| function.call(tensors)) }
    }

    /// The results for these tensors, on at most `threads` threads.
    ///
    /// # Errors
    /// Refusals of rows, and errors of compiling and running.
    pub fn call(&self, tensors: Vec<Tensor>, threads: usize) -> Result<Vec<Buffer>, Error> {
        if executors::threads() != threads {
            executors::set_threads(threads);
        }
        own((self.run)(tensors)?)
    }
}
