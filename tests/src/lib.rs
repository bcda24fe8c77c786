//! Shared parts of all tests: rows, valid calls of them, and the meanings of these calls.
//!
//! | module | is |
//! |---|---|
//! | [`rows`] | the databases under test |
//! | [`calls`] | valid calls of a row, made from its signature alone |
//! | [`oracle`] | the meaning of a call: the row's own text, evaluated plainly |
//! | [`bound`], [`guard`] | numbers with an error bound, numbers that record their branches |
//! | [`classes`] | the laws of every tensor subclass, also for tests in its own crate |
//! | [`bridge`] | calls on the runtime |
//! | [`recorded`] | values that PyTorch gave |
//! | [`programs`], [`products`], [`layers`] | random programs of several lines |
//! | [`draws`] | the loop over drawn cases: proptest draws, shrinks and repeats them |
//! | [`rng`] | random numbers that are equal on every machine |

// Links the database of PyTorch's calls.
use fulgurite_onnx as _;
use fulgurite_pytorch as _;

pub mod bound;
pub mod bridge;
pub mod calls;
pub mod classes;
pub mod draws;
pub mod functions;
pub mod guard;
pub mod layers;
pub mod oracle;
pub mod products;
pub mod programs;
pub mod recorded;
pub mod rng;
pub mod rows;

#[cfg(doctest)]
mod pages;
