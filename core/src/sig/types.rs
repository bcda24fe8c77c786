//! What a call gives to its signature, and what the signature makes of it.

use super::Env;
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

/// A call that its signature accepts.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    /// Sizes, dtypes, options and presence.
    pub env: Env,
    /// The joined dtype of the T-arguments (before the promotion kind), if any takes part.
    pub joined: Option<DType>,
    /// The dtype in which elements are computed (f16 and bf16 compute in f32); `T` inside the body.
    pub compute: DType,
    /// Result types.
    pub outs: Vec<OutTy>,
    /// Types of auxiliary results.
    pub aux: Vec<OutTy>,
}
