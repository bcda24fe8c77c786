//! fulgurite: every fact about an operator stands in one row of `ops.yaml`. This crate is the output of the generator,
//! together with the runtime that traces, differentiates and runs it.
//!
//! ```
//! use fulgurite::prelude::*;
//!
//! let x = Tensor::from_vec(vec![-1.0f32, 0.0, 1.0], &[3]);
//! let y = grad(&x, |x| x.gelu().sum());
//! assert_eq!(y.to_vec::<f32>()?.len(), 3);
//! # Ok::<(), fulgurite::Error>(())
//! ```
//!
//! Rows of your own stand in a database of your crate (`fulgurite::database!`) or where they are used:
//!
//! ```
//! use fulgurite::prelude::*;
//!
//! fulgurite::op! {
//!     /// Huber penalty of x - y.
//!     huber(x: T, y: T; delta: f64 = 1.0) -> T,
//!     promote: float,
//!     dtypes: float,
//!     expr: { let d = abs(x - y); if d <= delta { 0.5 * d * d } else { delta * (d - 0.5 * delta) } },
//! }
//!
//! let x = Tensor::from_vec(vec![0.5f32, 3.0], &[2]);
//! let g = grad(&x, |x| x.huber_with(0.0, Huber { delta: 1.0 }).sum());
//! assert_eq!(g.to_vec::<f32>()?, [0.5, 1.0]);
//! # Ok::<(), fulgurite::Error>(())
//! ```

// Derived code refers to this crate by its public name.
extern crate self as fulgurite;

pub mod nn;
pub mod optim;
pub mod prelude;
pub mod text;

pub use fulgurite_core as core;
#[doc(hidden)]
pub use fulgurite_kernels as __kernels;
#[doc(hidden)]
pub use fulgurite_macros as __macros;
pub use fulgurite_macros::{TensorSubclass, Tree};
pub use fulgurite_parallel::{comm, pipeline, schedule};
pub use fulgurite_runtime::*;
#[doc(hidden)]
pub use {fulgurite_runtime as __runtime, inventory as __inventory};

include!(concat!(env!("FULGURITE_OUT"), "/database.rs"));
include!(concat!(env!("OUT_DIR"), "/op.rs"));

/// Registers the rows of a database before `main` runs.
#[doc(hidden)]
#[macro_export]
macro_rules! register {
    ($database:expr) => {
        $crate::__inventory::submit! {
            &$database as &'static $crate::__runtime::symbol::Database
        }
    };
}

/// The database of a crate whose build script called `fulgurite_codegen::build::downstream`: functions in `ops`,
/// methods in a trait, and kernels.
#[macro_export]
macro_rules! database {
    () => {
        include!(concat!(env!("OUT_DIR"), "/database.rs"));
        mod kernels {
            include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
        }
        $crate::register!(DATABASE);
    };
}

register!(DATABASE);
