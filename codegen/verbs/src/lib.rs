//! The verbs of the command `cargo ops`.
//!
//! They stand apart from `fulgurite-codegen` because build scripts and macros compile that one, and use none of them.
//!
//! | module | gives |
//! |---|---|
//! | [`claim`] | a claim about a row, and how far it holds |
//! | [`cli`] | the command `cargo ops`, to which tools add verbs; files, faults and colours of its verbs |
//! | [`explain`] | what is known of a row: on the terminal, as JSON, and for the page of all rows |
//! | [`export`] | packages of rows for other frameworks |
//! | [`fmt`] | the canonical form of a database |
//! | [`json_schema`] | the JSON Schema of databases |

pub mod claim;
pub mod cli;
pub mod explain;
pub mod export;
pub mod fmt;
pub mod json_schema;
