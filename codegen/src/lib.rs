//! Reads, checks, derives and emits an operator database.
//!
//! [`pipeline::compile`] is the table of contents: read (`yaml`, `schema`) → check → derive → emit.
//!
//! Tools that test the checks of databases, such as the one that makes wrong rows, use these modules:
//!
//! | module | gives |
//! |---|---|
//! | [`check`], [`check::rows`] | the checks of a database; the rows that calls of a name may mean |
//! | [`check::cases`], [`check::dtypes`] | calls of a row, drawn from its signature |
//! | [`check::points::run`] | a call with data: its results and gradients |
//! | [`examples`] | calls of a row with data, for tests and for documentation |
//! | [`check::recorded`] | recorded calls of PyTorch, and whether rows give equal results |

pub mod build;
mod camel;
pub mod check;
pub mod diag;
pub mod emit;
pub mod examples;
pub mod files;
pub mod grade;
pub mod known;
pub mod libraries;
pub mod nearest;
pub mod parallel;
pub mod pipeline;
pub mod schema;
pub mod source;
pub mod yaml;
