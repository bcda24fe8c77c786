//! Kernels of executors: functions from dense tensors to dense tensors.

use super::ExecError;
use crate::buffer::{Buffer, BufferError, Element, Sizes};
use crate::trace::Device;
use fulgurite_core::DType;
use std::marker::PhantomData;

/// A dense tensor that a kernel reads.
#[derive(Clone, Copy)]
pub struct TensorRef<'a> {
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub shape: &'a [usize],
    data: *const u8,
    life: PhantomData<&'a [u8]>,
}

/// A dense tensor that a kernel writes.
pub struct TensorMut<'a> {
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub shape: &'a [usize],
    data: *mut u8,
    life: PhantomData<&'a mut [u8]>,
}

/// A tensor to be sent to a device: in the memory of a running program, or in a buffer.
pub enum TransferSource<'a> {
    /// In host memory.
    Here(TensorRef<'a>),
    /// Wherever it lies.
    Anywhere(&'a Buffer),
}

/// A kernel whose tensors lie in a device's memory.
pub trait OnDevice: Send + Sync {
    /// The device, as the types of traces name it.
    fn device(&self) -> Device;

    /// Sends a tensor to the device's memory. A tensor that is there already is shared, not copied.
    ///
    /// # Errors
    /// E806 where there is no memory, E807 where the device fails.
    fn send(&self, from: TransferSource<'_>) -> Result<Buffer, ExecError>;

    /// Computes every output; inputs and outputs lie in the device's memory.
    ///
    /// # Errors
    /// Errors that the executor defines.
    fn launch(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>, ExecError>;
}

/// The memory in which a kernel's tensors are.
pub enum Works<'k> {
    /// The tensors are in host memory.
    Here,
    /// The tensors are in a device's memory.
    There(&'k dyn OnDevice),
    /// The kernel sends its tensor to the device.
    Sends(&'k dyn OnDevice),
    /// The kernel fetches its tensor from the device.
    Fetches,
}

/// The code that an executor runs for the lines that it claimed.
pub trait Kernel: Send + Sync {
    /// The name of the kernel in `trace --stages` and in messages.
    fn name(&self) -> String;

    /// The steps of the kernel in order, a line each, if it has several.
    fn steps(&self) -> Vec<String> {
        Vec::new()
    }

    /// The estimated nanoseconds on one thread, if they are known. A program with little work stays on the calling
    /// thread.
    fn nanos(&self) -> Option<f64> {
        None
    }

    /// The memory in which the kernel's tensors are; host memory by default.
    fn works(&self) -> Works<'_> {
        Works::Here
    }

    /// Computes every output from the inputs; outputs hold stale data before.
    ///
    /// # Errors
    /// Codes that the executor defines, or E807 if there is no better code.
    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError>;
}

impl<'a> TensorRef<'a> {
    /// A tensor in memory.
    ///
    /// # Safety
    /// `data` is aligned and holds `shape` elements of `dtype` for as long as `'a`.
    pub(crate) unsafe fn new(dtype: DType, shape: &'a [usize], data: *const u8) -> TensorRef<'a> {
        TensorRef { dtype, shape, data, life: PhantomData }
    }
    /// The elements of a buffer.
    ///
    /// # Errors
    /// The elements are on a device and can't be fetched.
    pub(crate) fn of(buffer: &'a Buffer) -> Result<TensorRef<'a>, BufferError> {
        // SAFETY: a buffer's block holds its elements, aligned.
        Ok(unsafe { TensorRef::new(buffer.dtype(), buffer.shape(), buffer.block()?.data()) })
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements, if they are `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        // SAFETY: `new` requires it; `T` has the dtype's representation.
        (T::DTYPE == self.dtype).then(|| unsafe { std::slice::from_raw_parts(self.data as *const T, self.len()) })
    }
    /// All bytes of the elements.
    pub fn bytes(&self) -> &'a [u8] {
        // SAFETY: `new` requires it.
        unsafe { std::slice::from_raw_parts(self.data, self.len() * self.dtype.size()) }
    }
    /// Copies the tensor into a new buffer.
    pub fn to_buffer(&self) -> Option<Buffer> {
        let buffer = Buffer::stale(self.dtype, self.shape).ok()?;
        // SAFETY: `new` requires it; the new block has as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.data, buffer.block().ok()?.data(), buffer.byte_len()) };
        Some(buffer)
    }
}

impl<'a> TensorMut<'a> {
    /// A tensor in memory.
    ///
    /// # Safety
    /// The contract of [`TensorRef::new`] holds, and no other code uses the memory.
    pub(crate) unsafe fn new(dtype: DType, shape: &'a [usize], data: *mut u8) -> TensorMut<'a> {
        TensorMut { dtype, shape, data, life: PhantomData }
    }
    /// The elements of a buffer that is not shared.
    ///
    /// # Errors
    /// The elements are on a device and can't be fetched.
    pub(crate) fn of(buffer: &'a mut Buffer) -> Result<TensorMut<'a>, BufferError> {
        debug_assert!(buffer.is_unique());
        // SAFETY: a buffer's block holds its elements, aligned; `buffer` is borrowed for `'a`.
        Ok(unsafe { TensorMut::new(buffer.dtype(), buffer.shape(), buffer.block()?.data()) })
    }
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements to write, if they are `T`.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        if T::DTYPE != self.dtype {
            return None;
        }
        if T::DTYPE == DType::Bool {
            // stale memory may hold elements of any type, and a bool must be 0 or 1; bools that were written stay
            self.bytes_mut().iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        // SAFETY: `new` requires it; `T` has the dtype's representation, and bools are 0 or 1 now.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data as *mut T, self.len()) })
    }
    /// All bytes of the elements; the caller must write elements of the dtype.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.len() * self.dtype.size();
        // SAFETY: `new` requires it.
        unsafe { std::slice::from_raw_parts_mut(self.data, bytes) }
    }
    /// Writes the elements of a buffer of equal dtype and length.
    ///
    /// # Errors
    /// E807 if its dtype or length differs.
    pub fn copy_from(&mut self, buffer: &Buffer) -> Result<(), ExecError> {
        if buffer.dtype() != self.dtype || buffer.len() != self.len() {
            let (have, want) = (Sizes::from_slice(buffer.shape()), self.shape);
            return Err(ExecError::new(
                "E807",
                format!("a kernel gave {}{have:?} for {}{want:?}", buffer.dtype(), self.dtype),
            ));
        }
        let block = buffer.block().map_err(|e| ExecError::new("E807", e.to_string()))?;
        // SAFETY: `new` requires it; both have as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(block.data(), self.data, buffer.byte_len()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_the_dtype_of_its_tensor() {
        let mut buffer = Buffer::from_slice(&[1f32, 2.0, 3.0], &[3]).unwrap();
        let x = TensorRef::of(&buffer).unwrap();
        assert_eq!(x.as_slice::<f32>(), Some(&[1.0, 2.0, 3.0][..]));
        assert!(x.as_slice::<f64>().is_none() && x.as_slice::<i32>().is_none() && x.as_slice::<bool>().is_none());
        let mut x = TensorMut::of(&mut buffer).unwrap();
        assert!(x.as_slice_mut::<f64>().is_none() && x.as_slice_mut::<i32>().is_none());
        assert_eq!(x.as_slice_mut::<f32>().map(|x| x.len()), Some(3));
    }
}
