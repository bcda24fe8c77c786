//! Pipelines: stages of a model that run apart, each micro-batch F, then B, or I and W.
//!
//! A [`Stage`] is compiled from a function; its backward is cut by [`halves`](crate::transforms::halves()). A
//! [`StageRun`] takes it through a step, and owns what micro-batches under way keep.

mod cotangents;
mod errors;
mod programs;
mod run;
mod stage;
mod sums;

pub use crate::transforms::halves::{Entry, Halves, Origin, Policy, Report, WeightUnit};
pub use cotangents::{Cotangent, Cotangents};
pub use run::StageRun;
pub use stage::{Slot, Stage};
pub use sums::Accumulate;
