//! Kernels of executors: functions from dense tensors to dense tensors.

use super::ExecError;
use crate::buffer::{Buffer, BufferError, Element, Sizes};
use crate::trace::Device;
use fulgurite_core::DType;
use std::marker::PhantomData;

/// A dense tensor that a kernel reads.
#[derive(Clone, Copy)]
pub struct TensorRef<'a> {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: &'a [usize],
    data: *const u8,
    life: PhantomData<&'a [u8]>,
}

/// A dense tensor that a kernel writes.
pub struct TensorMut<'a> {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: &'a [usize],
    data: *mut u8,
    life: PhantomData<&'a mut [u8]>,
}

/// A tensor to be sent: in the memory of a running program, or a value with memory of its own.
pub enum Operand<'a> {
    /// In host memory.
    Here(TensorRef<'a>),
    /// Wherever it lies.
    Anywhere(&'a Buffer),
}

/// A kernel whose tensors lie in a device's memory.
pub trait OnDevice: Send + Sync {
    /// The device, as the types of traces name it.
    fn device(&self) -> Device;

    /// The tensor in the device's memory; what lies there already is shared.
    ///
    /// # Errors
    /// E806 where there is no memory, E807 where the device fails.
    fn send(&self, from: Operand<'_>) -> Result<Buffer, ExecError>;

    /// Computes every output; inputs and outputs lie in the device's memory.
    ///
    /// # Errors
    /// What the executor defines.
    fn launch(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>, ExecError>;
}

/// Where the tensors of a kernel lie.
pub enum Works<'k> {
    /// In host memory.
    Here,
    /// In a device's memory.
    There(&'k dyn OnDevice),
    /// It brings its tensor there.
    Sends(&'k dyn OnDevice),
    /// It brings its tensor from there.
    Fetches,
}

/// What an executor runs for the lines that it claimed.
pub trait Kernel: Send + Sync {
    /// Its name in `trace --stages` and in messages.
    fn name(&self) -> String;

    /// What it does in order, a line each, where it is several things.
    fn steps(&self) -> Vec<String> {
        Vec::new()
    }

    /// Estimated nanoseconds on one thread, where they are known: a program of little work stays on the calling thread.
    fn nanos(&self) -> Option<f64> {
        None
    }

    /// Where its tensors lie; unless it says otherwise in host memory.
    fn works(&self) -> Works<'_> {
        Works::Here
    }

    /// Computes every output from the inputs; outputs hold stale data before.
    ///
    /// # Errors
    /// What the executor defines, E807 for want of a better code.
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
    /// They lie elsewhere, and can't be fetched.
    pub(crate) fn of(buffer: &'a Buffer) -> Result<TensorRef<'a>, BufferError> {
        // SAFETY: a buffer's block holds its elements, aligned.
        Ok(unsafe { TensorRef::new(buffer.dtype(), buffer.shape(), buffer.block()?.data()) })
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements, if they are `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        // SAFETY: by `new`; `T` has the dtype's representation.
        (T::DTYPE == self.dtype).then(|| unsafe { std::slice::from_raw_parts(self.data as *const T, self.len()) })
    }
    /// All bytes of its elements.
    pub fn bytes(&self) -> &'a [u8] {
        // SAFETY: by `new`.
        unsafe { std::slice::from_raw_parts(self.data, self.len() * self.dtype.size()) }
    }
    /// A copy of its own.
    pub fn to_buffer(&self) -> Option<Buffer> {
        let buffer = Buffer::stale(self.dtype, self.shape).ok()?;
        // SAFETY: by `new`; the fresh block has as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.data, buffer.block().ok()?.data(), buffer.byte_len()) };
        Some(buffer)
    }
}

impl<'a> TensorMut<'a> {
    /// A tensor in memory.
    ///
    /// # Safety
    /// As for [`TensorRef::new`], and nobody else uses the memory.
    pub(crate) unsafe fn new(dtype: DType, shape: &'a [usize], data: *mut u8) -> TensorMut<'a> {
        TensorMut { dtype, shape, data, life: PhantomData }
    }
    /// The elements of a buffer that nobody else shares.
    ///
    /// # Errors
    /// They lie elsewhere, and can't be fetched.
    pub(crate) fn of(buffer: &'a mut Buffer) -> Result<TensorMut<'a>, BufferError> {
        debug_assert!(buffer.is_unique());
        // SAFETY: a buffer's block holds its elements, aligned; `buffer` is borrowed for as long.
        Ok(unsafe { TensorMut::new(buffer.dtype(), buffer.shape(), buffer.block()?.data()) })
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The elements to write, if they are `T`.
    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        if T::DTYPE != self.dtype {
            return None;
        }
        if T::DTYPE == DType::Bool {
            // stale memory may come from elements of any type, and a bool is 0 or 1; what was written stays
            self.bytes_mut().iter_mut().for_each(|b| *b = (*b != 0) as u8);
        }
        // SAFETY: by `new`; `T` has the dtype's representation, and bools are 0 or 1 now.
        Some(unsafe { std::slice::from_raw_parts_mut(self.data as *mut T, self.len()) })
    }
    /// All bytes of its elements: what is written must be elements of the dtype.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.len() * self.dtype.size();
        // SAFETY: by `new`.
        unsafe { std::slice::from_raw_parts_mut(self.data, bytes) }
    }
    /// Writes the elements of a buffer of the same dtype and length.
    ///
    /// # Errors
    /// E807 if it is another.
    pub fn copy_from(&mut self, buffer: &Buffer) -> Result<(), ExecError> {
        if buffer.dtype() != self.dtype || buffer.len() != self.len() {
            let (have, want) = (Sizes::from_slice(buffer.shape()), self.shape);
            return Err(ExecError::new(
                "E807",
                format!("a kernel gave {}{have:?} for {}{want:?}", buffer.dtype(), self.dtype),
            ));
        }
        let block = buffer.block().map_err(|e| ExecError::new("E807", e.to_string()))?;
        // SAFETY: by `new`; both have as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(block.data(), self.data, buffer.byte_len()) };
        Ok(())
    }
}
