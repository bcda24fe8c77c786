//! The device on which the tensors of a call lie.

use super::shims::{Owned, Shims};
use crate::wrong;
use fulgurite::Error;
use std::fmt;

/// A device: host memory, or a CUDA device of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TorchDevice {
    /// The processor.
    Cpu,
    /// A CUDA device.
    Cuda(u32),
}

/// PyTorch's numbers of kinds of devices (c10/core/DeviceType.h).
pub const CPU: i32 = 0;
/// The number of CUDA devices.
pub const CUDA: i32 = 1;

impl fmt::Display for TorchDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TorchDevice::Cpu => f.write_str("cpu"),
            TorchDevice::Cuda(n) => write!(f, "cuda:{n}"),
        }
    }
}

impl TorchDevice {
    fn of_one(shims: &Shims, tensor: &Owned) -> Result<TorchDevice, Error> {
        let (mut kind, mut number) = (0, 0);
        // SAFETY: the handle is owned, and both places may be written.
        unsafe {
            shims.done((shims.aoti_torch_get_device_type)(tensor.handle(), &mut kind))?;
            if kind == CPU {
                return Ok(TorchDevice::Cpu);
            }
            shims.done((shims.aoti_torch_get_device_index)(tensor.handle(), &mut number))?;
        }
        match (kind, u32::try_from(number)) {
            (CUDA, Ok(number)) => Ok(TorchDevice::Cuda(number)),
            _ => Err(wrong(format!("a tensor lies on a device that rows do not take (kind {kind}, number {number})"))
                .help("rows take tensors of the processor and of CUDA devices")),
        }
    }

    /// The device of these tensors: that of all, except that a tensor of rank 0 may lie on the processor, as in
    /// PyTorch's own operators.
    ///
    /// # Errors
    /// E702 with both devices if tensors lie on different ones.
    pub fn of(shims: &Shims, tensors: &[Owned]) -> Result<TorchDevice, Error> {
        let mut found: Option<TorchDevice> = None;
        let mut all = Vec::new();
        for tensor in tensors {
            let (device, mut rank) = (TorchDevice::of_one(shims, tensor)?, 0);
            // SAFETY: the handle is owned, and the place may be written.
            shims.done(unsafe { (shims.aoti_torch_get_dim)(tensor.handle(), &mut rank) })?;
            all.push((device, rank));
            if device != TorchDevice::Cpu {
                found = found.or(Some(device));
            }
        }
        let Some(found) = found else { return Ok(TorchDevice::Cpu) };
        let other =
            |(device, rank): &&(TorchDevice, i64)| *device != found && (*rank > 0 || *device != TorchDevice::Cpu);
        match all.iter().find(other) {
            None => Ok(found),
            Some((device, _)) => Err(wrong(format!("the tensors of a call lie on {found} and on {device}"))
                .help("move them to one device, for example by `x.to(y.device)`")),
        }
    }
}
