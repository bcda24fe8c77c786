//! A run on several ranks: copies of the model that learn from different examples, pipelines of its stages, or both.
//!
//! | module | is |
//! |---|---|
//! | [`place`] | the role of this process: alone, a rank, or the launcher of ranks |
//! | [`launch`] | starts ranks on this machine, and ends them |
//! | `mpi` | ranks that `mpirun` started |
//! | [`agree`] | agreement of the ranks before the first step |
//! | [`plan`] | division of the work: schedule, stages, shares of a batch |
//! | [`sums`] | a stage's gradients over all copies |
//! | [`wire`] | tensors as messages |
//!
//! Rank 0 leads: it shows, measures, validates and saves, and gives the others their commands. When it saves, all
//! ranks have done the same steps, so a checkpoint is that of one process, and any number of ranks can resume it.

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
