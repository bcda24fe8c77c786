//! Kernels that codegen compiled from whole expressions of pointwise rows.

use fulgurite_core::{DType, Name, Scalar};
use smallvec::SmallVec;

/// A row's kernel, and what a line passes to it.
#[derive(Clone, Debug)]
pub struct RowKernel {
    /// The row.
    pub symbol: Name,
    /// Its variant.
    pub variant: Name,
    /// Compute dtype.
    pub dtype: DType,
    /// What is passed.
    pub args: Vec<RowArg>,
    /// Run-time numbers as words.
    pub nums: SmallVec<[u64; 2]>,
}

/// An argument of a row's kernel.
#[derive(Clone, Copy, Debug)]
pub enum RowArg {
    /// An element of this tensor, as this dtype.
    Elem(usize, DType),
    /// A number, as this dtype.
    Number(Scalar, DType),
}
