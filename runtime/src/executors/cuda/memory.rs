//! Tensors in a device's memory.

use super::device::{Address, Device, Memory};
use crate::buffer::Buffer;
use crate::executors::fusion::graph::piece::ValueTy;
use crate::executors::transfer::unfetched;
use crate::executors::{ExecError, TransferSource};
use fulgurite_core::DType;
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

/// An access of kernels to several elements at once needs addresses that are multiples of this.
const ALIGN: u64 = 16;

/// A tensor in memory of another library, or a copy of it if kernels can't read it there.
///
/// # Safety
/// There is such a tensor at `address`. It is neither freed nor written while a share of the buffer exists.
pub(super) unsafe fn lent(
    device: &Arc<dyn Device>,
    address: Address,
    dtype: DType,
    shape: &[usize],
) -> Result<Buffer, ExecError> {
    let ty = ValueTy { dtype, shape: shape.into() };
    // SAFETY: the caller upholds the contract.
    let there = unsafe { Memory::lent(device, address, ty.bytes()) };
    if ty.bytes() > 0 && address.0.is_multiple_of(ALIGN) {
        return Ok(buffer(there, &ty));
    }
    copied(device, &there, &ty)
}

/// A tensor in memory of this device that is not shared: the tensor itself, or a copy of one that is shared or lent.
pub(super) fn own(device: &Arc<dyn Device>, from: Buffer) -> Result<Buffer, ExecError> {
    let sent = send(device, TransferSource::Anywhere(&from))?;
    drop(from);
    match of(device, &sent) {
        Some(memory) if memory.is_lent() || !sent.is_only_share() => {
            copied(device, memory, &ValueTy { dtype: sent.dtype(), shape: sent.shape().into() })
        }
        _ => Ok(sent),
    }
}

fn copied(device: &Arc<dyn Device>, from: &Memory, ty: &ValueTy) -> Result<Buffer, ExecError> {
    let made = Memory::new(device, ty.bytes())?;
    // SAFETY: both blocks have as many bytes, and they are different blocks.
    unsafe { device.copy(made.address(), from.address(), ty.bytes())? };
    Ok(buffer(made, ty))
}
