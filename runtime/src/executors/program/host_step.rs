//! Steps in host memory: those that an executor's [`Linker`] makes of items, and kernels.

use crate::buffer::Sizes;
use crate::buffer::pool::Block;
use crate::executors::fusion::fuse::{Group, Item};
use crate::executors::fusion::graph::piece::{Contract, Scan};
use crate::executors::fusion::items::{Env, Ways};
use crate::executors::fusion::row_blocks::RowGroup;
use crate::executors::{ExecError, Kernel, TensorMut, TensorRef};
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use std::sync::{Arc, Mutex};

/// The part of an executor that makes steps in host memory of items.
pub(crate) trait Linker {
    /// The name of the executor.
    fn name(&self) -> &'static str;

    /// The capabilities of the executor's steps.
    fn ways(&self) -> Ways;

    /// The step that runs a fusion.
    fn group(&self, group: &Group, env: &Env<'_>) -> Box<dyn HostStep>;

    /// The step that runs a product.
    fn product(&self, product: &Contract, env: &Env<'_>) -> Box<dyn HostStep>;

    /// The step that runs a scan.
    fn scan(&self, scan: &Scan, env: &Env<'_>) -> Box<dyn HostStep>;

    /// The step that runs a group of these items block by block.
    ///
    /// # Errors
    /// The number of an item that can't run block by block.
    fn row_blocks(
        &self,
        items: &[(Item, Vec<u32>)],
        group: &RowGroup,
        env: &Env<'_>,
    ) -> Result<Box<dyn HostStep>, usize>;
}

/// A step whose operands are in host memory.
pub(crate) trait HostStep: Send + Sync {
    /// The dense values that the step reads or writes.
    fn touches(&self) -> Vec<u32>;

    /// Replaces values by the numbers of their storages.
    fn remap(&mut self, storage: &dyn Fn(u32) -> u32);

    /// Whether elements can stop the step: by an index out of range, or an integer divided by zero.
    fn may_stop(&self) -> bool {
        false
    }

    /// Pairs of a written and a read value, of which the written one may take over the memory of the other.
    fn alias(&self) -> &[(u32, u32)] {
        &[]
    }

    /// The bytes of the accumulators that the step needs while it runs.
    fn scratch(&self) -> usize {
        0
    }

    /// The value that the step can read from a prepared copy, and the bytes of the copy. The copy
    /// has the order in which the step reads.
    fn keeps(&self) -> Option<(u32, usize)> {
        None
    }

    /// Tells the step the storage of the prepared copy. While there is no copy, the storage has no memory: its pointer is
    /// null.
    fn keep(&mut self, _storage: u32) {}

    /// Writes the prepared copy to its storage.
    ///
    /// # Safety
    /// `memory` has valid memory of the value and of the copy, which no other thread uses.
    unsafe fn prepare(&self, _memory: Memory, _threads: usize) {}

    /// Runs the step.
    ///
    /// # Safety
    /// `memory` has valid memory of these `sizes` for each storage that the step touches. No other thread writes it,
    /// and written storages overlap read ones only where [`HostStep::alias`] allows it. `scratch` has the bytes of
    /// [`HostStep::scratch`], aligned to 8.
    unsafe fn run(&self, memory: Memory, sizes: &[usize], scratch: *mut u8, threads: usize) -> Result<(), Stopped>;

    /// The bytes that the step moves.
    fn traffic(&self) -> usize;

    /// The floating-point operations of a product; 0 for other steps.
    fn flops(&self) -> f64 {
        0.0
    }

    /// The estimated nanoseconds on one thread.
    fn cost(&self) -> f64;

    /// A description in a few words.
    fn describe(&self) -> String;
}

/// The memory of each storage, by number.
#[derive(Clone, Copy)]
pub struct Memory<'a>(pub &'a [*mut u8]);

impl<'a> Memory<'a> {
    /// The memory of all storages.
    pub fn all(&self) -> &'a [*mut u8] {
        self.0
    }

    /// The start of a storage.
    pub fn at(&self, storage: u32) -> *mut u8 {
        self.0[storage as usize]
    }
}

// SAFETY: the pointers are to blocks that outlive the run; the threads of a step write disjoint parts.
unsafe impl Send for Memory<'_> {}
// SAFETY: the pointers are to blocks that outlive the run; the threads of a step write disjoint parts.
unsafe impl Sync for Memory<'_> {}

/// An error that elements caused, or a lack of memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An index is out of range for its axis.
    OutOfRange {
        /// The storage.
        value: u32,
        axis: usize,
        index: i64,
        /// The size of the axis.
        size: i64,
    },
    /// An integer is divided by zero.
    DivisionByZero(Builtin),
    /// There is no memory for a workspace of this many bytes.
    OutOfMemory(usize),
}

/// The first fault of the threads of a step.
#[derive(Default)]
pub(crate) struct FirstFault(Mutex<Option<Fault>>);

impl FirstFault {
    /// Notes a fault of this thread.
    pub fn set(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(fault);
    }

    /// A block of memory for this thread. A lack of memory is noted as a fault of the thread.
    pub fn block(&self, bytes: usize) -> Option<Block> {
        Block::new(bytes).map_err(|e| self.set(Fault::OutOfMemory(e.bytes))).ok()
    }

    /// The fault, when all threads are done.
    pub fn result(self) -> Result<(), Fault> {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner()).map_or(Ok(()), Err)
    }
}

/// The reason why a step stopped.
pub(crate) enum Stopped {
    /// Elements caused the error.
    Fault(Fault),
    /// A kernel reported the error.
    Kernel(ExecError),
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Stopped {
        Stopped::Fault(fault)
    }
}

/// A value (later its storage), with dtype and sizes.
pub(crate) type Typed = (u32, DType, Sizes);

/// An executor's kernel on host memory, with its operands.
pub(super) struct KernelStep {
    pub kernel: Arc<dyn Kernel>,
    /// The values that the kernel reads.
    pub inputs: Vec<Typed>,
    /// The values that the kernel writes.
    pub outs: Vec<Typed>,
}

impl HostStep for KernelStep {
    fn touches(&self) -> Vec<u32> {
        self.inputs.iter().chain(&self.outs).map(|o| o.0).collect()
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.inputs.iter_mut().chain(&mut self.outs).for_each(|o| o.0 = storage(o.0));
    }

    fn may_stop(&self) -> bool {
        true
    }

    unsafe fn run(&self, memory: Memory, _: &[usize], _: *mut u8, _: usize) -> Result<(), Stopped> {
        let (read, written) = (self.inputs.iter(), self.outs.iter());
        // SAFETY: the caller's memory holds each operand.
        let inputs: Vec<TensorRef> = read.map(|(v, d, s)| unsafe { TensorRef::new(*d, s, memory.at(*v)) }).collect();
        // SAFETY: the caller's memory holds each result, and no other code uses it now.
        let mut outs: Vec<TensorMut> =
            written.map(|(v, d, s)| unsafe { TensorMut::new(*d, s, memory.at(*v)) }).collect();
        self.kernel.run(&inputs, &mut outs).map_err(Stopped::Kernel)
    }

    fn traffic(&self) -> usize {
        traffic(&self.inputs, &self.outs)
    }

    fn cost(&self) -> f64 {
        // If the cost is not known, it is assumed to be enough to enter the pool, in case the kernel uses it.
        self.kernel.nanos().unwrap_or_else(|| {
            self.outs.iter().map(|(_, _, s)| s.iter().product::<usize>()).sum::<usize>() as f64 * 100.0
        })
    }

    fn describe(&self) -> String {
        self.kernel.name()
    }
}

/// The bytes of the operands.
pub(super) fn traffic(inputs: &[Typed], outs: &[Typed]) -> usize {
    inputs.iter().chain(outs).map(|(_, d, s)| d.size() * s.iter().product::<usize>()).sum()
}
