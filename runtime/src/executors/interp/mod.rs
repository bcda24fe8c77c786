//! The interpreter, which serves as the oracle: it evaluates every line's meaning element by element in f64. It is slow
//! and simple.
//!
//! It evaluates loops over scalar expressions by `fulgurite_core::eval::loop_nest`. Each result is
//! rounded to its dtype once, so it differs from another executor's result by the roundings within
//! a line.

use super::loop_nest::NestKernel;
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
        Some(Claim::line(line, Arc::new(NestKernel::new(nest, line.tensors.len(), line.outs.len(), ""))))
    }
}
