//! The names that generated code stands on, and those that programs use: `fulgurite::prelude` adds the operators' methods and layers.

pub use crate::api;
pub use crate::operand::{KeyArg, Limit, Number, Operand};
pub use crate::symbol::{Database, Symbol};
pub use crate::tensor::{Dims, Key, ShapeArg, Tensor};
pub use fulgurite_core::row::{MeaningKind, RowText};
pub use fulgurite_core::{DType, Dim, Name, Scalar, Value};

/// The names that programs use.
pub mod user {
    pub use crate::api::zeros_like;
    pub use crate::checkpoint::{load, save};
    pub use crate::jit::{Caching, custom_vjp, grad, hvp, jit, jvp, try_value_and_grad, value_and_grad, vjp};
    pub use crate::jit::{cond, scan, scan_n, scan_reverse, while_loop};
    pub use crate::jit::{hessian, jacobian, jacobian_forward, jacobian_reverse, vmap, vmap_with};
    pub use crate::operand::{InPlace, Limit, Operand};
    pub use crate::scope::{autocast, checkpoint, enable_grad, named, no_grad, tagged, tags_of, with_tag};
    pub use crate::subclass::Subclassed;
    pub use crate::tensor::{Dims, Key, ShapeArg, Tensor};
    pub use crate::tree::{Fixed, Tree};
    pub use crate::{Error, Result};
    pub use fulgurite_core::{DType, Dim, Scalar};

    /// The default of anything: `ops::Sum { keepdim: true, ..d() }`.
    pub fn d<T: Default>() -> T {
        T::default()
    }
}
