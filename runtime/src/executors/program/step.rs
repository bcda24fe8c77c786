//! The steps of a compiled program.

use super::device_step::DeviceStep;
use super::host_step::{HostStep, KernelStep, Typed, traffic};
use crate::executors::{Kernel, Works};
use std::sync::Arc;

pub(crate) enum Step {
    /// A step in host memory.
    Host(Box<dyn HostStep>),
    /// A transfer, or an executor's kernel on a device.
    Device(Box<DeviceStep>),
}

impl Step {
    /// A step that runs a kernel on these operands.
    pub fn of_kernel(kernel: Arc<dyn Kernel>, inputs: Vec<Typed>, outs: Vec<Typed>) -> Step {
        match kernel.works() {
            Works::Here => Step::Host(Box::new(KernelStep { kernel, inputs, outs })),
            _ => Step::Device(Box::new(DeviceStep { kernel, inputs, outs })),
        }
    }

    /// Replaces values by the numbers of their storages.
    pub fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        match self {
            Step::Host(step) => step.remap(storage),
            Step::Device(k) => k.inputs.iter_mut().chain(&mut k.outs).for_each(|o| o.0 = storage(o.0)),
        }
    }

    /// The bytes that the step moves.
    pub fn traffic(&self) -> usize {
        match self {
            Step::Host(step) => step.traffic(),
            Step::Device(k) => traffic(&k.inputs, &k.outs),
        }
    }

    /// The floating-point operations of a product; 0 for other steps.
    pub fn flops(&self) -> f64 {
        match self {
            Step::Host(step) => step.flops(),
            Step::Device(_) => 0.0,
        }
    }

    /// The estimated nanoseconds on one thread.
    pub fn cost(&self) -> f64 {
        match self {
            Step::Host(step) => step.cost(),
            // the threads of the host have no part in it
            Step::Device(_) => 0.0,
        }
    }
}
