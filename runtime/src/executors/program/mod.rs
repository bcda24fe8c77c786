//! Programs: claimed lines as steps with one memory plan.
//!
//! Lines become items ([`super::fusion`]), items become steps ([`host_step`]: an executor's `Linker` makes them;
//! [`device_step`]: kernels and transfers on devices), and steps get one memory plan ([`layout`], [`plan`]). Sizes are known, so all of this is done once.
//!
//! **Invariant:** no executor is imported here; what runs is known by traits.

mod build;
mod compiled;
mod device_step;
pub(crate) mod host_step;
mod layout;
pub(crate) mod plan;
mod step;
pub(crate) mod threads;

pub(crate) use build::build;
pub use compiled::{Compiled, Description, StepInfo};
pub use threads::{set_threads, threads};
