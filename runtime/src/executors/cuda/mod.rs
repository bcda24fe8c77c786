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

/// A tensor in memory of another library on this device, without a copy if its address is a multiple of 16.
///
/// # Safety
/// There is such a tensor at `address`. It is neither freed nor written while a share of the buffer exists, in the order
/// of the device's work.
///
/// # Errors
/// E806 if there is not enough memory for a copy, and E807 if the device fails.
pub unsafe fn lent(
    device: &Arc<dyn Device>,
    address: device::Address,
    dtype: DType,
    shape: &[usize],
) -> Result<Buffer, ExecError> {
    // SAFETY: the caller upholds the contract.
    unsafe { memory::lent(device, address, dtype, shape) }
}

/// A tensor in memory of this device that is not shared, and its address: the tensor itself, or a copy of one that is
/// shared, lent or elsewhere.
///
/// # Errors
/// E806 if there is not enough memory, and E807 if a device fails.
pub fn own(device: &Arc<dyn Device>, buffer: Buffer) -> Result<(Buffer, device::Address), ExecError> {
    let own = memory::own(device, buffer)?;
    let address = memory::of(device, &own).map(device::Memory::address);
    let address = address.ok_or_else(|| ExecError::new("E807", "a tensor is not on its device"))?;
    Ok((own, address))
}

/// The usual executors, with this device before them.
pub fn executors_on(device: Arc<dyn Device>) -> Vec<Arc<dyn Executor>> {
    let device: Arc<dyn Executor> = Arc::new(Cuda::on(device));
    let others = super::default().into_iter().filter(|e| e.name() != device.name());
    [device.clone()].into_iter().chain(others).collect()
}

/// The usual executors, with the device of this name before them.
///
/// # Errors
/// E809 if there is no such device, with the name that was looked for.
pub fn first(name: &str) -> Result<Vec<Arc<dyn Executor>>, ExecError> {
    Ok(executors_on(device::named(name)?))
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
