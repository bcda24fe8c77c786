//! Gradients: declared rules against derived ones, and everything that a row claims about its derivatives.

pub mod dense;
pub mod dual;
pub mod instance;
