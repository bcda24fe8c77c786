//! The steps of a compiled program.

use super::away::{AwayStep, Held};
use super::loops::{Fault, Memory, Program};
use super::product::Product;
use super::scan::ScanStep;
use super::windows::Windows;
use crate::buffer::Sizes;
use crate::executors::{ExecError, Kernel, TensorMut, TensorRef, Works};
use fulgurite_core::DType;
use std::sync::Arc;

/// A kernel with its operands: value (later: storage), dtype, sizes.
pub(crate) struct KernelStep {
    /// What runs.
    pub kernel: Arc<dyn Kernel>,
    /// What it reads.
    pub inputs: Vec<(u32, DType, Sizes)>,
    /// What it writes.
    pub outs: Vec<(u32, DType, Sizes)>,
}

/// One step.
pub(crate) enum Step {
    /// A fusion.
    Program(Box<Program>),
    /// A product.
    Product(Box<Product>),
    /// A scan.
    Scan(Box<ScanStep>),
    /// A copy of windows.
    Windows(Box<Windows>),
    /// An executor's kernel.
    Kernel(Box<KernelStep>),
    /// A transfer, or an executor's kernel on a device.
    Away(Box<AwayStep>),
}

/// Why a step stopped.
pub(crate) enum Stopped {
    /// In a program.
    Fault(Fault),
    /// In a kernel.
    Kernel(ExecError),
}

impl Step {
    /// A kernel with its operands: value, dtype, sizes.
    pub fn of_kernel(
        kernel: Arc<dyn Kernel>,
        inputs: Vec<(u32, DType, Sizes)>,
        outs: Vec<(u32, DType, Sizes)>,
    ) -> Step {
        match kernel.works() {
            Works::Here => Step::Kernel(Box::new(KernelStep { kernel, inputs, outs })),
            _ => Step::Away(Box::new(AwayStep { kernel, inputs, outs })),
        }
    }

    /// The dense values that it reads or writes.
    pub fn touches(&self) -> Vec<u32> {
        match self {
            Step::Program(p) => p.touches(),
            Step::Product(p) => {
                let exact =
                    p.exact.iter().flat_map(|e| e.sum.touches().into_iter().chain(e.finite.iter().map(|f| f.0)));
                p.places.iter().map(|p| p.value).chain(exact).collect()
            }
            Step::Scan(s) => s.values.to_vec(),
            Step::Windows(w) => w.places.iter().map(|p| p.0).collect(),
            Step::Kernel(k) => k.inputs.iter().chain(&k.outs).map(|o| o.0).collect(),
            Step::Away(k) => k.inputs.iter().chain(&k.outs).map(|o| o.0).collect(),
        }
    }

    /// Whether what it reads can make it stop.
    pub fn may_stop(&self) -> bool {
        match self {
            Step::Program(p) => p.may_stop(),
            Step::Product(p) => p.exact.as_ref().is_some_and(|e| e.sum.may_stop()),
            Step::Scan(_) | Step::Windows(_) => false,
            Step::Kernel(_) | Step::Away(_) => true,
        }
    }

    /// Names storages instead of values.
    pub fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        match self {
            Step::Program(p) => p.remap(storage),
            Step::Product(p) => {
                p.places.iter_mut().for_each(|p| p.value = storage(p.value));
                if let Some(e) = &mut p.exact {
                    e.finite.iter_mut().for_each(|f| f.0 = storage(f.0));
                    e.sum.remap(storage);
                }
            }
            Step::Scan(s) => s.values.iter_mut().for_each(|v| *v = storage(*v)),
            Step::Windows(w) => w.places.iter_mut().for_each(|p| p.0 = storage(p.0)),
            Step::Kernel(k) => k.inputs.iter_mut().chain(&mut k.outs).for_each(|o| o.0 = storage(o.0)),
            Step::Away(k) => k.inputs.iter_mut().chain(&mut k.outs).for_each(|o| o.0 = storage(o.0)),
        }
    }

    /// Runs it.
    ///
    /// # Safety
    /// `memory` has the storages of the program that lie here, of `sizes` bytes; `scratch` the step's accumulators;
    /// `held` has the storages that are buffers.
    pub unsafe fn run(
        &self,
        memory: Memory,
        held: Held<'_>,
        sizes: &[usize],
        scratch: *mut u8,
        threads: usize,
    ) -> Result<(), Stopped> {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Step::Program(p) => p.run(memory, sizes, scratch, threads).map_err(Stopped::Fault),
                Step::Product(p) => p.run(memory, sizes, threads).map_err(Stopped::Fault),
                Step::Scan(s) => {
                    s.run(memory, threads);
                    Ok(())
                }
                Step::Windows(w) => {
                    w.run(memory, threads);
                    Ok(())
                }
                Step::Kernel(k) => {
                    let at = |v: u32| memory.0[v as usize];
                    let inputs: Vec<TensorRef> =
                        k.inputs.iter().map(|(v, d, s)| TensorRef::new(*d, s, at(*v))).collect();
                    let mut outs: Vec<TensorMut> =
                        k.outs.iter().map(|(v, d, s)| TensorMut::new(*d, s, at(*v))).collect();
                    k.kernel.run(&inputs, &mut outs).map_err(Stopped::Kernel)
                }
                Step::Away(k) => k.run(memory, held).map_err(Stopped::Kernel),
            }
        }
    }

    /// Bytes that it moves.
    pub fn traffic(&self) -> usize {
        let operands = |inputs: &[(u32, DType, Sizes)], outs: &[(u32, DType, Sizes)]| {
            inputs.iter().chain(outs).map(|(_, d, s)| d.size() * s.iter().product::<usize>()).sum()
        };
        match self {
            Step::Program(p) => p.traffic(),
            Step::Product(p) => p.traffic(),
            Step::Scan(s) => s.traffic(),
            Step::Windows(w) => w.traffic(),
            Step::Kernel(k) => operands(&k.inputs, &k.outs),
            Step::Away(k) => operands(&k.inputs, &k.outs),
        }
    }

    /// Estimated nanoseconds on one thread.
    pub fn cost(&self) -> f64 {
        match self {
            Step::Program(p) => p.cost,
            Step::Product(p) => p.cost,
            Step::Scan(s) => s.cost(),
            Step::Windows(w) => w.cost,
            // Where nothing is known: enough to enter the pool, in case that the kernel uses it.
            Step::Kernel(k) => k.kernel.nanos().unwrap_or_else(|| {
                k.outs.iter().map(|(_, _, s)| s.iter().product::<usize>()).sum::<usize>() as f64 * 100.0
            }),
            // the threads here have no part in it
            Step::Away(_) => 0.0,
        }
    }

    /// What it is, in a few words.
    pub fn describe(&self) -> String {
        match self {
            Step::Program(p) => p.describe(),
            Step::Product(p) => p.describe(),
            Step::Scan(s) => s.describe(),
            Step::Windows(w) => w.describe(),
            Step::Kernel(k) => k.kernel.name(),
            Step::Away(k) => k.kernel.name(),
        }
    }
}
