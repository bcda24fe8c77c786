//! Types of arguments and results, as a signature sees them.

use crate::{DType, TensorTy};

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgTy {
    /// A tensor.
    Tensor(TensorTy),
    /// A number that is known only when the program runs.
    Number(DType),
    /// A random key.
    Key,
}

/// The type of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum OutTy {
    /// One tensor.
    Tensor(TensorTy),
    /// Several.
    List(Vec<TensorTy>),
    /// As many as the body yields.
    FromBody,
}
