//! A run on several ranks: copies of the model that learn from different examples, pipelines of its stages, or both.
//!
//! | module | is |
//! |---|---|
//! | [`place`] | what this process is: alone, a rank, or who starts the ranks |
//! | [`launch`] | starts ranks on this machine, and ends them |
//! | `mpi` | ranks that `mpirun` started |
//! | [`agree`] | before the first step: whether all are about to do the same |
//! | [`plan`] | who does what: schedule, stages, shares of a batch |
//! | [`crew`] | one rank's part of a step |
//! | [`sums`] | a stage's gradients over all copies |
//! | [`wire`] | tensors as messages |
//!
//! Rank 0 leads: it shows, measures, validates and saves, and tells the others what to do next. All ranks have done the
//! same steps when it saves, so a checkpoint is that of one process, and is carried on by any number of ranks.

mod agree;
mod crew;
mod launch;
#[cfg(feature = "mpi")]
mod mpi;
mod place;
mod plan;
mod sums;
mod wire;

pub use agree::agree;
pub use crew::{Crew, follow};
pub use launch::launch;
pub use place::{Place, neighbours, place};
pub use plan::Plan;
