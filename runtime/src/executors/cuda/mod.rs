//! The CUDA executor: fusions, products and scans as CUDA C, on a device.
//!
//! | module | is |
//! |---|---|
//! | `build` | lines to items to actions |
//! | `emit` | items as kernels |
//! | `program` | what runs: memory, launches |
//! | `replay` | programs that are launched whole |
//! | `memory` | tensors that lie on a device |
//! | [`device`] | who runs it: an NVIDIA driver, or the CPU by the same texts |
//!
//! Neighbouring lines become one program. What it reads is sent to the device, unless it lies there; its results stay
//! until somebody reads them elsewhere. What has no kernel (sorting) is the next executor's, with transfers around it.

mod build;
pub mod device;
mod emit;
mod memory;
mod program;
mod replay;

use super::{Claim, ExecError, Executor, Kernel, Line, Operand, Part};
use crate::buffer::Buffer;
use device::Device;
use fulgurite_core::DType;
use std::sync::{Arc, OnceLock};

/// CUDA C in front of every program's kernels.
pub fn prelude() -> String {
    format!("{}\n{}", fulgurite_core::builtins::CUDA_PRELUDE, include_str!("templates/kernels.cuh"))
}

/// The elements in the memory of a device; what lies there already is shared.
///
/// # Errors
/// E806 where there is no memory, E807 where a device fails.
pub fn to_device(device: &Arc<dyn Device>, buffer: &Buffer) -> Result<Buffer, ExecError> {
    memory::send(device, Operand::Anywhere(buffer))
}

/// The usual executors, with the device called so in front of them.
///
/// # Errors
/// E809: there is no such device, with what was looked for.
pub fn first(name: &str) -> Result<Vec<Arc<dyn Executor>>, ExecError> {
    let device: Arc<dyn Executor> = Arc::new(Cuda::on(device::named(name)?));
    let others = super::default().into_iter().filter(|e| e.name() != device.name());
    Ok([device.clone()].into_iter().chain(others).collect())
}

/// The executor `cuda`.
#[derive(Default)]
pub struct Cuda {
    /// Where programs run; found at the first program if none is given.
    device: OnceLock<Arc<dyn Device>>,
}

impl Cuda {
    /// An executor whose programs run on this device.
    pub fn on(device: Arc<dyn Device>) -> Cuda {
        Cuda { device: OnceLock::from(device) }
    }

    fn device(&self) -> Result<Arc<dyn Device>, ExecError> {
        if let Some(device) = self.device.get() {
            return Ok(device.clone());
        }
        let found = device::named("cuda")?;
        Ok(self.device.get_or_init(|| found).clone())
    }
}

impl Executor for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        let line = lines.first()?;
        // kernels are made of C's own types
        if line.involves(DType::is_storage) {
            return None;
        }
        if super::is_whole(line) {
            return None;
        }
        line.nest()?.is_ok().then_some(Claim::Join)
    }

    fn join(&self, part: &Part<'_>) -> Result<Arc<dyn Kernel>, ExecError> {
        Ok(Arc::new(build::build(part, self.device()?)?))
    }
}
