//! Steps in host memory: what an executor's [`Linker`] makes of items, and kernels.

use crate::buffer::Sizes;
use crate::executors::fusion::fuse::Group;
use crate::executors::fusion::graph::piece::{Contract, Scan};
use crate::executors::fusion::items::{Env, Ways};
use crate::executors::{ExecError, Kernel, TensorMut, TensorRef};
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use std::sync::Arc;

/// The part of an executor that turns items into steps in host memory.
pub(crate) trait Linker {
    /// The executor's name.
    fn name(&self) -> &'static str;

    /// What its steps can run.
    fn ways(&self) -> Ways;

    /// The step that runs a fusion.
    fn group(&self, group: &Group, env: &Env<'_>) -> Box<dyn HostStep>;

    /// The step that runs a product.
    fn product(&self, product: &Contract, env: &Env<'_>) -> Box<dyn HostStep>;

    /// The step that runs a scan.
    fn scan(&self, scan: &Scan, env: &Env<'_>) -> Box<dyn HostStep>;
}

/// A step whose operands lie in host memory.
pub(crate) trait HostStep: Send + Sync {
    /// The dense values that it reads or writes.
    fn touches(&self) -> Vec<u32>;

    /// Names storages instead of values.
    fn remap(&mut self, storage: &dyn Fn(u32) -> u32);

    /// Whether elements can make it stop: an index out of range, an integer divided by zero.
    fn may_stop(&self) -> bool {
        false
    }

    /// Pairs of values, written and read: the written one may take over the memory of the other.
    fn alias(&self) -> &[(u32, u32)] {
        &[]
    }

    /// Bytes of the accumulators that it needs while it runs.
    fn scratch(&self) -> usize {
        0
    }

    /// Runs it.
    ///
    /// # Safety
    /// `memory` has valid memory of these `sizes` for each storage that the step touches; no other thread writes it, and
    /// written storages overlap read ones only where [`HostStep::alias`] allows it. `scratch` has the bytes of
    /// [`HostStep::scratch`], aligned to 8.
    unsafe fn run(&self, memory: Memory, sizes: &[usize], scratch: *mut u8, threads: usize) -> Result<(), Stopped>;

    /// Bytes that it moves.
    fn traffic(&self) -> usize;

    /// Estimated nanoseconds on one thread.
    fn cost(&self) -> f64;

    /// What it is, in a few words.
    fn describe(&self) -> String;
}

/// Memory of the storages, by number.
#[derive(Clone, Copy)]
pub struct Memory<'a>(pub &'a [*mut u8]);

impl Memory<'_> {
    /// Where a storage starts.
    pub fn at(&self, storage: u32) -> *mut u8 {
        self.0[storage as usize]
    }
}

// SAFETY: the pointers are to blocks that outlive the run; threads write disjoint parts, as each step says.
unsafe impl Send for Memory<'_> {}
// SAFETY: as above.
unsafe impl Sync for Memory<'_> {}

/// Why a step stopped at its elements.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An index outside of its axis.
    OutOfRange {
        /// The storage.
        value: u32,
        /// The axis.
        axis: usize,
        /// The index.
        index: i64,
        /// The size of the axis.
        size: i64,
    },
    /// Division of an integer by zero.
    DivisionByZero(Builtin),
    /// No memory for a workspace.
    OutOfMemory(usize),
}

/// Why a step stopped.
pub(crate) enum Stopped {
    /// At its elements.
    Fault(Fault),
    /// In a kernel.
    Kernel(ExecError),
}

impl From<Fault> for Stopped {
    fn from(fault: Fault) -> Stopped {
        Stopped::Fault(fault)
    }
}

/// A value (later: storage), dtype, sizes.
pub(crate) type Typed = (u32, DType, Sizes);

/// An executor's kernel on host memory, with its operands.
pub(super) struct KernelStep {
    /// What runs.
    pub kernel: Arc<dyn Kernel>,
    /// What it reads.
    pub inputs: Vec<Typed>,
    /// What it writes.
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
        // SAFETY: as above, and nothing else uses the memory of results now.
        let mut outs: Vec<TensorMut> =
            written.map(|(v, d, s)| unsafe { TensorMut::new(*d, s, memory.at(*v)) }).collect();
        self.kernel.run(&inputs, &mut outs).map_err(Stopped::Kernel)
    }

    fn traffic(&self) -> usize {
        traffic(&self.inputs, &self.outs)
    }

    fn cost(&self) -> f64 {
        // Where nothing is known: enough to enter the pool, in case that the kernel uses it.
        self.kernel.nanos().unwrap_or_else(|| {
            self.outs.iter().map(|(_, _, s)| s.iter().product::<usize>()).sum::<usize>() as f64 * 100.0
        })
    }

    fn describe(&self) -> String {
        self.kernel.name()
    }
}

/// Bytes of operands.
pub(super) fn traffic(inputs: &[Typed], outs: &[Typed]) -> usize {
    inputs.iter().chain(outs).map(|(_, d, s)| d.size() * s.iter().product::<usize>()).sum()
}
