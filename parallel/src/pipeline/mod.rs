//! Pipelines: the stages of a model run apart; each micro-batch runs F, then B, or I and W.
//!
//! A [`Stage`] is compiled from a function; its backward is cut into I and W ([`BackwardSplit`]). A [`StageRun`] runs
//! it for one step, and owns the values that are kept for micro-batches under way.

mod chain;
mod cotangents;
mod cut;
mod errors;
mod local;
mod partition;
mod programs;
mod rank;
mod run;
mod slot;
mod stage;
mod sums;
mod traced;

pub use crate::backward_split::{BackwardSplit, HandedValue, Handover, Origin, Report, WeightUnit};
pub use chain::Chain;
pub use cotangents::{Cotangent, Cotangents};
pub use cut::{Cut, StagedModel};
pub use local::run;
pub use rank::{Direction, Done, Edge, Feed, Rank, Transport, run_rank};
pub use run::StageRun;
pub use slot::Slot;
pub use stage::Stage;
pub use sums::Accumulate;
