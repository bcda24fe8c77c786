//! Programs that are compiled and kept.

use crate::program::TransformedProgram;
use fulgurite::core::Dim;
use fulgurite::executors::{self, Executor};
use fulgurite::{Caching, Error, Tensor, jit};
use rustc_hash::FxHashMap;
use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// The compiled function of a program.
type Function = Box<dyn Fn(Vec<Tensor>) -> Result<Vec<Tensor>, Error> + Send + Sync>;

/// A program with its sizes, compiled once for each dtype and rank of its tensors.
pub struct CompiledProgram {
    run: Function,
}

impl CompiledProgram {
    /// The program with these sizes; it is compiled when it is called.
    pub fn new((program, sizes): (TransformedProgram, Vec<i64>)) -> CompiledProgram {
        CompiledProgram::on((program, sizes), Vec::new())
    }

    /// Like [`CompiledProgram::new`], for these executors, or the usual ones if there are none.
    pub fn on((program, sizes): (TransformedProgram, Vec<i64>), executors: Vec<Arc<dyn Executor>>) -> CompiledProgram {
        let sizes: Vec<Dim> = sizes.into_iter().map(Dim::from).collect();
        let function = jit(move |tensors: Vec<Tensor>| program.evaluate(&tensors, &sizes)).caching(Caching::Symbolic);
        let function = if executors.is_empty() { function } else { function.on(executors) };
        CompiledProgram { run: Box::new(move |tensors| function.call(tensors)) }
    }

    /// The results for these tensors, on at most `threads` threads. A result may share memory with a tensor.
    ///
    /// # Errors
    /// Refusals of rows, and errors of compiling and running.
    pub fn call(&self, tensors: Vec<Tensor>, threads: usize) -> Result<Vec<Tensor>, Error> {
        if executors::threads() != threads {
            executors::set_threads(threads);
        }
        (self.run)(tensors)
    }
}

/// At most this many programs are kept of one operator of PyTorch, or of all calls of XLA. Options are mostly constants of
/// a model, so more means that a program draws them, and all are dropped.
const MOST_PROGRAMS: usize = 1024;

/// Compiled programs by their keys.
pub struct KeptPrograms<K> {
    programs: Mutex<FxHashMap<K, Arc<CompiledProgram>>>,
}

impl<K> Default for KeptPrograms<K> {
    fn default() -> KeptPrograms<K> {
        KeptPrograms { programs: Mutex::default() }
    }
}

impl<K: Hash + Eq> KeptPrograms<K> {
    /// The program of a key; `make` makes it if it is new.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get<'a, Q: Hash + Eq + ?Sized>(
        &self,
        key: &'a Q,
        make: impl FnOnce() -> Result<CompiledProgram, Error>,
    ) -> Result<Arc<CompiledProgram>, Error>
    where
        K: Borrow<Q> + From<&'a Q>,
    {
        let mut programs = self.programs.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(known) = programs.get(key) {
            return Ok(known.clone());
        }
        let made = Arc::new(make()?);
        if programs.len() >= MOST_PROGRAMS {
            programs.clear();
        }
        programs.insert(K::from(key), made.clone());
        Ok(made)
    }
}
