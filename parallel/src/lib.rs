//! Distributed work: stages of a model and their schedules, ranks and the carriers of their messages.
//!
//! | module | is |
//! |---|---|
//! | [`pipeline`] | stages of a model that run apart |
//! | [`schedule`] | schedules of pipelines as data: made, checked, simulated |
//! | [`comm`] | ranks: processes that work on one job |
//!
//! The crate stands on [`fulgurite_runtime::parts`]; the crate `fulgurite` re-exports it.

mod backward_split;
pub mod comm;
pub mod pipeline;
pub mod schedule;
