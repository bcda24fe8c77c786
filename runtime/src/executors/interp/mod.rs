//! The oracle: every line by its meaning, element by element, in f64. Slow and obvious.
//!
//! It runs what `fulgurite_core::eval::nest` evaluates: loops over scalar expressions. Each result is rounded to its
//! dtype once, so a line differs from another executor's by what that one rounds in between.

use super::nest::NestKernel;
use super::{Claim, Executor, Line};
use std::sync::Arc;

/// The executor `interp`.
pub struct Interp;

impl Executor for Interp {
    fn name(&self) -> &'static str {
        "interp"
    }

    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        let line = lines.first()?;
        if let Some(kernel) = super::host::kernel(line) {
            return Some(Claim::line(line, kernel));
        }
        let nest = line.nest()?.ok()?;
        Some(Claim::line(line, Arc::new(NestKernel::new(nest, line.tensors.len(), line.outs.len()))))
    }
}
