//! fulgurite: every fact about an operator stands in one row of `ops.yaml`; this crate is what the generator makes of
//! it, with the runtime that traces, differentiates and runs it.
//!
//! ```
//! use fulgurite::prelude::*;
//!
//! let x = Tensor::from_vec(vec![-1.0f32, 0.0, 1.0], &[3]);
//! let y = grad(&x, |x| x.gelu().sum());
//! assert_eq!(y.to_vec::<f32>()?.len(), 3);
//! # Ok::<(), fulgurite::Error>(())
//! ```

pub mod nn;
pub mod optim;
pub mod prelude;
pub mod text;

/// What generated code stands on; not for users.
#[doc(hidden)]
pub use fulgurite_runtime as __runtime;
pub use fulgurite_core as core;
pub use fulgurite_runtime::*;

include!(concat!(env!("FULGURITE_DATABASE"), "/database.rs"));

inventory::submit! {
    &DATABASE as &'static symbol::Database
}
