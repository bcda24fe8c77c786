//! Fuzz targets: every reader of the project is given inputs without sense, and laws say what must hold of its answer.
//!
//! | module | gives |
//! |---|---|
//! | [`target`] | what a target is: seeds, a mutator, laws, limits |
//! | [`targets`] | the targets, one file each |
//! | [`grammar`] | mutators that know texts, rows, JSON, messages, archives |
//! | [`draws`] | random choices by a fixed seed |
//! | [`campaign`] | draws inputs, runs them, keeps those that show something new |
//! | [`trial`] | runs one input, and measures its time and memory |
//! | [`memory`] | the allocator that counts |
//! | [`coverage`] | the counters of an instrumented build |
//! | [`finding`] | an input that breaks a law: saved, and made smaller |
//! | [`supervisor`] | runs a campaign in a process of its own, because an input may end it |
//!
//! README.md beside this crate says how to run them.

pub mod campaign;
pub mod coverage;
pub mod draws;
pub mod finding;
pub mod grammar;
pub mod memory;
pub mod supervisor;
pub mod target;
pub mod targets;
pub mod trial;

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;
