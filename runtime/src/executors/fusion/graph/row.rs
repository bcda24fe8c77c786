//! Kernels that codegen compiled from whole expressions of pointwise rows.

use fulgurite_core::{DType, Name, Scalar};
use smallvec::SmallVec;

/// A row's kernel, and the arguments that a line passes to it.
#[derive(Clone, Debug)]
pub struct RowKernel {
    /// The name of the row.
    pub symbol: Name,
    /// The variant of the kernel.
    pub variant: Name,
    /// The dtype in which the kernel computes.
    pub dtype: DType,
    /// The arguments.
    pub args: Vec<RowArg>,
    /// The run-time numbers as words.
    pub nums: SmallVec<[u64; 2]>,
}

/// An argument of a row's kernel.
#[derive(Clone, Copy, Debug)]
pub enum RowArg {
    /// An element of the tensor with this number, in this dtype.
    Elem(usize, DType),
    /// A number, in this dtype.
    Number(Scalar, DType),
}
