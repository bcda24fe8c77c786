//! Traces, transforms and executors: the tracing compiler. It knows no row; databases register theirs.
//!
//! | module | is |
//! |---|---|
//! | [`symbol`], [`intrinsics`] | rows at run time, and the few that the runtime calls by name |
//! | [`trace`] | proxies, bound symbols, regions, tags, traces; printing, parsing, verifying, editing them |
//! | [`bind`] | the one way into a trace: every operator call becomes a bound symbol here |
//! | [`transforms`] | functions from trace to trace: derivatives, simplification, splitting, decomposition |
//! | [`error`] | errors for users |
//! | [`buffer`], [`tensor`], [`tree`] | memory, the handle that users hold, values made of handles |
//! | [`scope`] | the traces that are open on this thread |
//! | [`jit`](mod@jit) | compiled functions, gradients, operators outside of traces |
//! | [`api`], [`operand`], [`prelude`] | functions for generated code; `+ - * /` |
//! | [`subclass`] | tensor subclasses for programs |
//! | [`foreign`] | calls of rows under PyTorch's names |
//! | [`profile`](mod@profile) | times of the steps of compiled programs |
//! | [`checkpoint`] | trees in files |
//! | [`viewer`] | stages of programs as pages for a browser |
//! | [`devices`] | trees on devices |
//! | `keys` | series of random keys |
//! | [`parts`] | parts of a program, for crates that run them in an order of their own |
//!
//! **Invariant:** imports point down this list's order: `trace` does not import `bind`, and `transforms` and executors
//! do not import each other.

pub mod api;
pub mod bind;
pub mod buffer;
pub mod checkpoint;
pub mod devices;
pub mod error;
pub mod executors;
pub mod foreign;
pub mod intrinsics;
pub mod jit;
mod keys;
pub mod operand;
pub mod parts;
pub mod prelude;
pub mod profile;
pub mod scope;
pub mod subclass;
pub mod symbol;
pub mod tensor;
pub mod trace;
pub mod transforms;
pub mod tree;
pub mod viewer;

pub use api::zeros_like;
pub use bind::Builder;
pub use checkpoint::{load, save};
pub use devices::{to_device, to_host};
pub use error::{Error, ErrorKind};
pub use jit::{Caching, Jit, custom_vjp, grad, hvp, jit, jvp, try_value_and_grad, value_and_grad, vjp};
pub use jit::{cond, scan, scan_n, scan_reverse, while_loop};
pub use jit::{hessian, jacobian, jacobian_forward, jacobian_reverse, vmap, vmap_with};
pub use profile::profile;
pub use tensor::{Key, Tensor};
pub use trace::Trace;
pub use tree::{Fixed, Tree};

/// The result of tracing or running, with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
