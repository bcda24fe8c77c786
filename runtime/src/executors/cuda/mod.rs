//! The CUDA executor: it compiles fusions, products and scans to CUDA C and runs them on a device.
//!
//! | module | is |
//! |---|---|
//! | `build` | compiles lines to items, and items to actions |
//! | `emit` | emits items as kernels |
//! | `forms` | chooses between general and specialised kernels |
//! | `program` | runs a program: memory, launches |
//! | `replay` | records programs and launches them as a whole |
//! | `memory` | holds tensors that are on a device |
//! | [`device`] | is an NVIDIA driver, or the CPU with the same kernels |
//!
//! Neighbouring lines become one program. Its inputs are sent to the device unless they are there already; its results
//! stay there until another executor reads them. A line without a kernel (such as sorting) goes to the next executor,
//! with transfers around it.

mod build;
pub mod device;
mod emit;
mod forms;
mod memory;
mod program;
mod replay;

use super::{Claim, ExecError, Executor, JoinedPart, Kernel, Line, TransferSource};
use crate::buffer::Buffer;
use device::Device;
use fulgurite_core::DType;
use std::sync::{Arc, OnceLock};

/// CUDA C that precedes the kernels of every program.
pub fn prelude() -> String {
    format!("{}\n{}", fulgurite_core::builtins::CUDA_PRELUDE, include_str!("templates/kernels.cuh"))
}

/// The elements in the memory of a device; a tensor that is there already is shared.
///
/// # Errors
/// E806 if there is not enough memory, and E807 if a device fails.
pub fn to_device(device: &Arc<dyn Device>, buffer: &Buffer) -> Result<Buffer, ExecError> {
    memory::send(device, TransferSource::Anywhere(buffer))
}

/// The usual executors, with the device of this name before them.
///
/// # Errors
/// E809 if there is no such device, with the name that was looked for.
pub fn first(name: &str) -> Result<Vec<Arc<dyn Executor>>, ExecError> {
    let device: Arc<dyn Executor> = Arc::new(Cuda::on(device::named(name)?));
    let others = super::default().into_iter().filter(|e| e.name() != device.name());
    Ok([device.clone()].into_iter().chain(others).collect())
}

/// The executor `cuda`.
#[derive(Default)]
pub struct Cuda {
    /// The device on which programs run; if none is given, the first program looks for one.
    device: OnceLock<Arc<dyn Device>>,
    kernels: Kernels,
}

/// The form of kernels: with sizes as numbers of the text, or as arguments. Both give equal bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernels {
    /// Programs of fixed sizes have specialised kernels. Programs over symbolic sizes have general ones, which serve
    /// the next sizes without the compiler, and specialised ones from their 1,000th call with the same sizes on.
    #[default]
    Automatic,
    /// Sizes are arguments, so that one compilation serves many shapes.
    General,
    /// Sizes are numbers of the text, so that the compiler divides and unrolls by them.
    Specialised,
}

impl Cuda {
    /// An executor whose programs run on this device.
    pub fn on(device: Arc<dyn Device>) -> Cuda {
        Cuda { device: OnceLock::from(device), kernels: Kernels::default() }
    }

    /// The executor with kernels of this form.
    pub fn with_kernels(self, kernels: Kernels) -> Cuda {
        Cuda { kernels, ..self }
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

    fn join(&self, part: &JoinedPart<'_>) -> Result<Arc<dyn Kernel>, ExecError> {
        Ok(Arc::new(build::build(part, self.device()?, self.kernels)?))
    }
}
