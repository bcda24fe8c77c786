//! The CUDA executor: the fusions, products and scans of the CPU executor as CUDA C, on a device.
//!
//! | module | is |
//! |---|---|
//! | `build` | lines to items to actions |
//! | `emit` | items as kernels |
//! | `program` | what runs: memory, transfers, launches |
//! | [`device`] | who runs it: an NVIDIA driver, or the CPU by the same texts |
//!
//! Neighbouring lines become one program. What it reads is copied to the device and its results are copied back; all in
//! between stays there. What has no kernel (sorting) runs on the CPU, with copies around it.

mod build;
pub mod device;
mod emit;
mod program;

use super::cpu;
use super::{Claim, ExecError, Executor, Kernel, Line, Part};
use device::Device;
use fulgurite_core::DType;
use std::sync::{Arc, OnceLock};

/// CUDA C in front of every program's kernels.
pub fn prelude() -> String {
    format!("{}\n{}", fulgurite_core::builtins::CUDA_PRELUDE, include_str!("templates/kernels.cuh"))
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
        (cpu::whole(line).is_some() || line.nest()?.is_ok()).then_some(Claim::Join)
    }

    fn join(&self, part: &Part<'_>) -> Result<Arc<dyn Kernel>, ExecError> {
        Ok(Arc::new(build::build(part, self.device()?)?))
    }
}
