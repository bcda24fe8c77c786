//! Reads, checks, derives and emits an operator database.

pub mod diag;
pub mod nearest;
pub mod schema;
pub mod source;
pub mod yaml;
