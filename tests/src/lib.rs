//! What the tests of the whole project share: rows, valid calls of them, and what those calls mean.
//!
//! | module | is |
//! |---|---|
//! | [`rows`] | the database under test |
//! | [`calls`] | valid calls of a row, made from its signature alone |
//! | [`oracle`] | what a call means: the row's own text, evaluated plainly |
//! | [`bound`], [`guard`] | numbers with an error bound, numbers that remember their branches |
//! | [`classes`] | what holds of every tensor subclass: for its own crate's tests too |
//! | [`bridge`] | the same calls on the runtime |
//! | [`recorded`] | values that PyTorch gave |
//! | [`draws`] | the loop over drawn cases: proptest draws, shrinks and repeats them |
//! | [`rng`] | random numbers that are the same everywhere |

pub mod bound;
pub mod bridge;
pub mod calls;
pub mod classes;
pub mod draws;
pub mod functions;
pub mod guard;
pub mod oracle;
pub mod programs;
pub mod recorded;
pub mod rng;
pub mod rows;

#[cfg(doctest)]
mod pages;
