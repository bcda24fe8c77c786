//! Steps on a device: transfers, and kernels whose values are buffers on the device rather than memory of the plan.

use super::host_step::{Memory, Typed};
use crate::buffer::Buffer;
use crate::executors::transfer::unfetched;
use crate::executors::{ExecError, Kernel, TensorMut, TensorRef, TransferSource, Works};
use std::sync::Arc;

/// A kernel with its operands.
pub(crate) struct DeviceStep {
    pub kernel: Arc<dyn Kernel>,
    /// The values that the kernel reads.
    pub inputs: Vec<Typed>,
    /// The values that the kernel writes.
    pub outs: Vec<Typed>,
}

/// The buffers of a running program by storage: its inputs, and values on devices.
pub(crate) type Held<'h> = &'h mut [Option<Buffer>];

impl DeviceStep {
    /// The values that the step reads or writes.
    pub fn touches(&self) -> impl Iterator<Item = u32> + '_ {
        self.inputs.iter().chain(&self.outs).map(|o| o.0)
    }

    /// The values that are on a device after the step.
    pub fn makes(&self) -> impl Iterator<Item = u32> + '_ {
        let there = !matches!(self.kernel.works(), Works::Fetches);
        self.outs.iter().filter(move |_| there).map(|o| o.0)
    }

    /// A description in a few words; a transfer is described as a line, with its bytes.
    pub fn describe(&self, name: &dyn Fn(u32) -> Option<String>) -> String {
        let (to, device) = match self.kernel.works() {
            Works::Sends(on) => ("to_device", format!("@{}", on.device())),
            Works::Fetches => ("to_host", String::new()),
            _ => return self.kernel.name(),
        };
        let label = |v: u32| name(v).unwrap_or_else(|| "_".to_owned());
        let line = |((from, ..), (made, dtype, shape)): (&Typed, &Typed)| {
            let bytes = dtype.size() * shape.iter().product::<usize>();
            format!("{}: {dtype}{:?}{device} = {to}({})  # {bytes} bytes", label(*made), shape.as_slice(), label(*from))
        };
        self.inputs.iter().zip(&self.outs).map(line).collect::<Vec<_>>().join("; ")
    }

    /// Runs the step.
    ///
    /// # Safety
    /// `memory` has the storages in host memory, and `held` those that are buffers.
    pub unsafe fn run(&self, memory: Memory, held: Held<'_>) -> Result<(), ExecError> {
        let lost = |v: u32| ExecError::new("E807", format!("storage {v} is not on the device"));
        match self.kernel.works() {
            Works::There(device) => {
                let read = |(v, dtype, shape): &Typed| {
                    let buffer = held[*v as usize].as_ref().ok_or_else(|| lost(*v))?;
                    Ok(buffer.retyped(*dtype, shape))
                };
                let inputs: Vec<Buffer> = self.inputs.iter().map(read).collect::<Result<_, ExecError>>()?;
                for (buffer, (v, ..)) in device.launch(&inputs)?.into_iter().zip(&self.outs) {
                    held[*v as usize] = Some(buffer);
                }
            }
            Works::Sends(device) => {
                for ((from, dtype, shape), (to, ..)) in self.inputs.iter().zip(&self.outs) {
                    let sent = match &held[*from as usize] {
                        Some(buffer) => device.send(TransferSource::Anywhere(&buffer.retyped(*dtype, shape)))?,
                        // SAFETY: the caller's memory holds the tensor.
                        None => unsafe {
                            device.send(TransferSource::Here(TensorRef::new(
                                *dtype,
                                shape,
                                memory.0[*from as usize],
                            )))?
                        },
                    };
                    held[*to as usize] = Some(sent);
                }
            }
            Works::Fetches => {
                for ((from, dtype, shape), (to, ..)) in self.inputs.iter().zip(&self.outs) {
                    let buffer = held[*from as usize].as_ref().ok_or_else(|| lost(*from))?;
                    // SAFETY: the caller's memory has room for the tensor, and no other code uses it now.
                    let mut to = unsafe { TensorMut::new(*dtype, shape, memory.0[*to as usize]) };
                    match buffer.resident() {
                        Some(there) => {
                            there.fetch(to.bytes_mut()).map_err(|said| ExecError::new("E807", said))?;
                        }
                        None => to.copy_from(&buffer.here().map_err(unfetched)?.retyped(*dtype, shape))?,
                    }
                }
            }
            Works::Here => {}
        }
        Ok(())
    }
}
