//! Programs: claimed lines as steps with one memory plan.
//!
//! Lines become items ([`super::fusion`]), and items become steps: an executor's `Linker` makes
//! those in host memory ([`host_step`]), kernels and transfers on devices are [`device_step`]s. The
//! steps get one memory plan ([`layout`], [`plan`]). Inputs that do not change are copied once to
//! the order in which steps read them ([`kept`]). Sizes are known, so all of this is done once.
//!
//! **Invariant:** no executor is imported here; steps are known by traits.

mod build;
mod compiled;
mod device_step;
pub(crate) mod host_step;
mod kept;
mod layout;
pub(crate) mod plan;
mod poison;
mod row_steps;
mod step;
pub(crate) mod threads;

pub(crate) use build::build;
pub(crate) use compiled::StepTime;
pub use compiled::{Compiled, Description, StepInfo};
pub use kept::{kept_bytes, set_kept_limit};
pub use threads::{forget_threads, set_threads, threads};
