//! What the tests of the whole project share: rows, valid calls of them, and what those calls mean.
//!
//! | module | is |
//! |---|---|
//! | [`rows`] | the database under test |
//! | [`calls`] | valid calls of a row, made from its signature alone |
//! | [`oracle`] | what a call means: the row's own text, evaluated plainly |
//! | [`bound`], [`guard`] | numbers with an error bound, numbers that remember their branches |
//! | [`bridge`] | the same calls on the runtime |
//! | [`recorded`] | values that PyTorch gave |
//! | [`rng`] | random numbers that are the same everywhere |

pub mod bound;
pub mod bridge;
pub mod calls;
pub mod guard;
pub mod oracle;
pub mod recorded;
pub mod rng;
pub mod rows;

/// The programs of README.md, so that they compile and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
