//! The arguments and results of signatures.

use super::Env;
use crate::{DType, TensorTy};

/// The type of an argument.
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
    /// A list of tensors.
    List(Vec<TensorTy>),
    /// A list whose length the body determines.
    FromBody,
}

/// A call that its signature accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    /// The bindings of sizes, dtypes, options and presence.
    pub env: Env,
    /// The joined dtype of the T-arguments (before the promotion kind), if there are any.
    pub joined: Option<DType>,
    /// The dtype in which elements are computed (f16 and bf16 compute in f32); `T` inside the body.
    pub compute: DType,
    /// Result types.
    pub outs: Vec<OutTy>,
    /// Types of auxiliary results.
    pub aux: Vec<OutTy>,
}
