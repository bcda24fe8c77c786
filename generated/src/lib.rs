//! Tensors, operators and gradients from one database, and the compiler that runs them.
//!
//! Every operator of this crate is made from a row of `ops.yaml`: the function in [`ops`], the method in [`TensorOps`],
//! its gradient, its kernels and its refusals. Calls run at once; inside of [`jit`](fn@jit) they are recorded as a trace,
//! which is simplified, fused and compiled.
//!
//! # A first program
//!
//! ```
//! use fulgurite::nn::Linear;
//! use fulgurite::optim::AdamW;
//! use fulgurite::{Error, Key, Tensor, TensorOps, jit, value_and_grad};
//!
//! // y = 2 x + 1 at three points
//! let x = Tensor::from([[0.0f32], [1.0], [2.0]]);
//! let y = Tensor::from([[1.0f32], [3.0], [5.0]]);
//!
//! let model = Linear::new(Key::new(1), 1, 1);
//! let mut state = (model.clone(), AdamW::new(&model));
//!
//! // a function of owned trees, compiled at its first call
//! let step = jit(|(model, optimiser): (Linear, AdamW<Linear>), (x, y): (Tensor, Tensor)| {
//!     let (loss, grads) = value_and_grad(&model, |model| (model.at(&x) - &y).square().mean());
//!     (optimiser.step(model, grads, 0.1), loss)
//! });
//! let mut losses = Vec::new();
//! for _ in 0..100 {
//!     losses.push(step.update(&mut state, (x.clone(), y.clone()))?.item::<f32>()?);
//! }
//! assert!(losses[0] > 1.0 && losses[99] < 0.1);
//! # Ok::<(), Error>(())
//! ```
//!
//! Operators return tensors and not results, so that formulas stay formulas. A wrong call gives a tensor that carries
//! the [`Error`] with the place of the call, and reading its elements gives that error.
//!
//! # Modules
//!
//! | to | see |
//! |---|---|
//! | call operators | [`ops`] and [`TensorOps`]; by PyTorch's names in the crate `fulgurite-pytorch` |
//! | make and read tensors | [`tensor`] |
//! | write a model and train it | [`nn`], [`tree`], [`optim`], [`text`] |
//! | differentiate, batch, compile | [`jit`](mod@jit) |
//! | set regions: autocast, checkpoints, names | [`scope`] |
//! | find where time goes | [`profile`](mod@profile) |
//! | save and load | [`checkpoint`], [`files`] |
//! | choose where programs run | [`executors`], [`devices`] |
//! | react to errors | [`error`] |
//! | read and edit traces | [`trace`], [`transforms`], [`bind`] |
//! | make tensors of other tensors | [`subclass`], [`classes`] |
//! | share work among processes | [`pipeline`], [`schedule`], [`comm`] |
//! | look rows up by name | [`symbol`], [`foreign`] |
//! | know what operators take and tensors hold | [`operand`], [`buffer`], [`core`] |
//!
//! # Rows of your own
//!
//! A row stands in a database of your crate ([`database!`]), or where it is used ([`op!`]):
//!
//! ```
//! use fulgurite::{Error, Tensor, TensorOps, grad};
//!
//! fulgurite::op! {
//!     /// Huber penalty of x - y.
//!     huber(x: T, y: T; delta: f64 = 1.0) -> T,
//!     promote: float,
//!     dtypes: float,
//!     expr: { let d = abs(x - y); if d <= delta { 0.5 * d * d } else { delta * (d - 0.5 * delta) } },
//! }
//!
//! let x = Tensor::from([0.5f32, 3.0]);
//! let g = grad(&x, |x| x.huber_with(0.0, Huber { delta: 1.0 }).sum());
//! assert_eq!(g.to_vec::<f32>()?, [0.5, 1.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! The repository's `docs/guide` has a page for each part of a program, and `docs/tour.md` follows one row to one trained
//! step.

// Derived code refers to this crate by its public name.
extern crate self as fulgurite;

mod modules;
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
pub use fulgurite_runtime::jit::jit;
pub use fulgurite_runtime::{
    Builder, Caching, Error, ErrorKind, Fixed, Jit, Key, Result, Tensor, Trace, Tree, cond, custom_vjp, grad, hessian,
    hvp, jacobian, jacobian_forward, jacobian_reverse, jvp, load, save, scan, scan_n, scan_reverse, to_device, to_host,
    try_value_and_grad, value_and_grad, vjp, vmap, vmap_with, while_loop, zeros_like,
};
pub use modules::{
    bind, buffer, checkpoint, comm, devices, error, executors, files, foreign, jit, operand, pipeline, profile,
    schedule, scope, subclass, symbol, tensor, trace, transforms, tree, viewer,
};
// What generated code, tools and the crates of this repository stand on.
#[doc(hidden)]
pub use modules::{api, intrinsics, parts};
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
