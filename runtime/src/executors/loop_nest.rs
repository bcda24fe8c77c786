//! A kernel that evaluates a line's meaning: loops over scalar expressions, element by element, in f64.

use super::{ExecError, Kernel, TensorMut, TensorRef};
use crate::buffer::{Buffer, F8E4M3, F8E5M2, U4x2};
use fulgurite_core::builtins::cast_scalar;
use fulgurite_core::eval::loop_nest::{Array, NestError, run};
use fulgurite_core::loop_nest::Nest;
use fulgurite_core::{DType, Scalar, f8};
use half::{bf16, f16};
use std::sync::Arc;

/// A meaning as a kernel. Its inputs are the tensors, then the run-time numbers.
pub struct NestKernel {
    nest: Arc<Nest>,
    tensors: usize,
    outs: usize,
}

impl NestKernel {
    /// A kernel for the first `outs` results of a nest over `tensors` tensors.
    pub fn new(nest: Arc<Nest>, tensors: usize, outs: usize) -> NestKernel {
        NestKernel { nest, tensors, outs }
    }
}

impl Kernel for NestKernel {
    fn name(&self) -> String {
        "loop nest".to_owned()
    }

    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let (tensors, nums) = inputs.split_at(self.tensors.min(inputs.len()));
        let arrays: Vec<Array<f64>> =
            tensors.iter().map(|t| Array::from_scalars(t.dtype, t.shape, scalars(t))).collect();
        let nums: Vec<Scalar> = nums.iter().filter_map(|t| scalars(t).pop()).collect();
        let mut nest = (*self.nest).clone();
        nest.outs.truncate(self.outs);
        let results = run(&nest, &arrays, &nums).map_err(error)?;
        for (array, out) in results.iter().zip(outs) {
            let rounded = array.scalars().into_iter().map(|s| cast_scalar(s, out.dtype));
            out.copy_from(&from_scalars(out.dtype, out.shape, rounded)?)?;
        }
        Ok(())
    }
}

fn error(e: NestError) -> ExecError {
    match e {
        NestError::OutOfRange { tensor, axis, index, size } => ExecError::new(
            "E804",
            format!("index {index} is out of range for axis {axis} of argument {tensor}, whose size is {size}"),
        ),
        NestError::Int(b, e) => ExecError::new("E805", format!("`{}`: {e}", b.name())),
        NestError::Room(_) | NestError::Steps => ExecError::new("E806", e.to_string()),
        NestError::Malformed(m) => ExecError::new("E807", m),
    }
}

fn scalars(t: &TensorRef) -> Vec<Scalar> {
    t.to_buffer().map(|b| b.scalars()).unwrap_or_default()
}

/// A tensor of numbers that are elements of `dtype` already.
pub(crate) fn from_scalars(
    dtype: DType,
    shape: &[usize],
    data: impl Iterator<Item = Scalar>,
) -> Result<Buffer, ExecError> {
    let made = match dtype {
        DType::Bool => Buffer::from_slice(&data.map(|s| s.as_bool()).collect::<Vec<_>>(), shape),
        DType::U8 => Buffer::from_slice(&data.map(|s| s.as_i64() as u8).collect::<Vec<_>>(), shape),
        DType::I8 => Buffer::from_slice(&data.map(|s| s.as_i64() as i8).collect::<Vec<_>>(), shape),
        DType::I16 => Buffer::from_slice(&data.map(|s| s.as_i64() as i16).collect::<Vec<_>>(), shape),
        DType::I32 => Buffer::from_slice(&data.map(|s| s.as_i64() as i32).collect::<Vec<_>>(), shape),
        DType::I64 => Buffer::from_slice(&data.map(|s| s.as_i64()).collect::<Vec<_>>(), shape),
        DType::F16 => Buffer::from_slice(&data.map(|s| f16::from_f64(s.as_f64())).collect::<Vec<_>>(), shape),
        DType::BF16 => Buffer::from_slice(&data.map(|s| bf16::from_f64(s.as_f64())).collect::<Vec<_>>(), shape),
        DType::F32 => Buffer::from_slice(&data.map(|s| s.as_f64() as f32).collect::<Vec<_>>(), shape),
        DType::F8E4M3FN | DType::F8E5M2 => {
            let codes: Vec<u8> = data.map(|s| f8::encode(s.as_f64() as f32, dtype)).collect();
            match dtype {
                DType::F8E4M3FN => Buffer::from_slice(&codes.into_iter().map(F8E4M3).collect::<Vec<_>>(), shape),
                _ => Buffer::from_slice(&codes.into_iter().map(F8E5M2).collect::<Vec<_>>(), shape),
            }
        }
        DType::U4X2 => Buffer::from_slice(&data.map(|s| U4x2(s.as_i64() as u8)).collect::<Vec<_>>(), shape),
        _ => Buffer::from_slice(&data.map(|s| s.as_f64()).collect::<Vec<_>>(), shape),
    };
    made.map_err(|e| ExecError::new("E807", e.to_string()))
}
