//! Tensors in a device's memory.

use super::device::{Device, Memory};
use crate::buffer::Buffer;
use crate::executors::fusion::graph::piece::ValueTy;
use crate::executors::transfer::unfetched;
use crate::executors::{ExecError, TransferSource};
use std::sync::Arc;

/// A tensor in this memory.
pub(super) fn buffer(memory: Memory, ty: &ValueTy) -> Buffer {
    Buffer::from_device(Box::new(memory), ty.dtype, &ty.shape)
}

/// The memory of a tensor, if it is on this device.
pub(super) fn of<'b>(device: &Arc<dyn Device>, buffer: &'b Buffer) -> Option<&'b Memory> {
    let memory = buffer.resident()?.as_any().downcast_ref::<Memory>()?;
    memory.is_on(device).then_some(memory)
}

/// Sends a tensor to this device; a tensor that is there already is shared.
///
/// # Errors
/// E806 if there is not enough memory, and E807 if this device, or the one that has the tensor, fails.
pub(super) fn send(device: &Arc<dyn Device>, from: TransferSource<'_>) -> Result<Buffer, ExecError> {
    let (here, ty);
    let bytes = match from {
        TransferSource::Anywhere(buffer) => {
            if of(device, buffer).is_some() {
                return Ok(buffer.clone());
            }
            here = buffer.here().map_err(unfetched)?;
            ty = ValueTy { dtype: here.dtype(), shape: here.shape().into() };
            here.as_bytes()
        }
        TransferSource::Here(tensor) => {
            ty = ValueTy { dtype: tensor.dtype, shape: tensor.shape.into() };
            tensor.bytes()
        }
    };
    let memory = Memory::new(device, bytes.len())?;
    // SAFETY: the memory has at least that many bytes.
    unsafe { device.upload(memory.address(), bytes)? };
    Ok(buffer(memory, &ty))
}
