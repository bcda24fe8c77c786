//! A kernel that evaluates a line's meaning: loops over scalar expressions, element by element, in f64.

use super::{ExecError, Kernel, TensorMut, TensorRef};
use crate::buffer::Buffer;
use fulgurite_core::Scalar;
use fulgurite_core::builtins::cast_scalar;
use fulgurite_core::eval::loop_nest::{Array, NestError, run};
use fulgurite_core::loop_nest::Nest;
use std::sync::Arc;

/// A meaning as a kernel. Its inputs are the tensors, then the run-time numbers.
pub struct NestKernel {
    nest: Arc<Nest>,
    tensors: usize,
    outs: usize,
    why: &'static str,
}

impl NestKernel {
    /// A kernel for the first `outs` results of a nest over `tensors` tensors. `why` says why no faster kernel runs
    /// it; it is empty if none was looked for.
    pub fn new(nest: Arc<Nest>, tensors: usize, outs: usize, why: &'static str) -> NestKernel {
        NestKernel { nest, tensors, outs, why }
    }
}

impl Kernel for NestKernel {
    fn name(&self) -> String {
        match self.why {
            "" => "loop nest".to_owned(),
            why => format!("loop nest, because {why}"),
        }
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
            let made = Buffer::from_numbers(out.dtype, out.shape, rounded);
            out.copy_from(&made.map_err(|e| ExecError::new("E807", e.to_string()))?)?;
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
