//! Reads, checks, derives and emits an operator database.
//!
//! [`pipeline::compile`] is the table of contents: read (`yaml`, `schema`) → check → derive → emit.

mod atomic;
pub mod build;
mod camel;
pub mod check;
pub mod cli;
pub mod diag;
pub mod emit;
pub mod explain;
pub mod files;
pub mod fmt;
pub mod grade;
mod known;
pub mod mutate;
pub mod nearest;
pub mod parallel;
pub mod pipeline;
pub mod pytorch;
pub mod schema;
pub mod source;
pub mod yaml;
