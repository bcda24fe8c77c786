//! Traces, transforms and executors: the tracing compiler. It knows no row; databases register theirs.
//!
//! | module | is |
//! |---|---|
//! | [`symbol`], [`intrinsics`] | rows at run time, and the few that the runtime calls by name |
//! | [`trace`] | proxies, bound symbols, regions, tags, traces; printing, parsing, verifying, editing them |
//! | [`bind`] | the one way in: every operator call becomes a bound symbol here |
//! | [`transforms`] | trace to trace: derivatives, simplification, splitting, decomposition |
//! | [`error`] | what a user is told |
//!
//! **Invariant:** imports point down this list's order: `trace` knows no `bind`, `transforms` and executors never
//! each other.

pub mod bind;
pub mod error;
pub mod intrinsics;
pub mod symbol;
pub mod trace;
pub mod transforms;

pub use bind::Builder;
pub use error::{Error, ErrorKind};
pub use trace::Trace;

/// What can go wrong while tracing or running.
pub type Result<T, E = Error> = std::result::Result<T, E>;
