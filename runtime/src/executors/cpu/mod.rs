//! The CPU executor.
//!
//! Lines become *pieces* ([`graph`]: scalar operations over named loops, products, scans), pieces are joined into
//! *items* ([`fuse`]), items are compiled into *steps* ([`loops`]: programs over tiles; [`product`], [`scan`], kernels),
//! and steps get one memory plan ([`plan`]). Sizes are known, so all of this is done once.

mod build;
pub mod fuse;
pub mod graph;
pub mod kern;
pub mod kernels;
pub mod layout;
pub mod loops;
pub mod plan;
pub mod product;
pub mod scan;
pub mod threads;

pub(crate) use build::build;
pub use kern::fill::site_word;
pub use kernels::register_kernels;
pub use threads::{set_threads, threads};

use super::{Claim, Executor, Line};

/// The executor `cpu`.
pub struct Cpu;

impl Executor for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        let line = lines.first()?;
        if let Some(kernel) = super::host::kernel(line) {
            return Some(Claim::line(line, kernel));
        }
        let nest = line.nest()?.ok()?;
        // accesses through index tensors are left to the oracle: the tiles' gather is not right yet (README)
        (!nest.outs.iter().any(|o| is_gathered(&o.expr))).then_some(Claim::Fuse)
    }
}

/// Whether an element is read at a place that another element names.
fn is_gathered(e: &fulgurite_core::nest::SExpr) -> bool {
    use fulgurite_core::nest::{SExpr, SOp, SOutside};
    fn reads(e: &SExpr) -> bool {
        match e.op() {
            SOp::Load { .. } | SOp::Uniform { .. } => true,
            SOp::Call(_, args) => args.iter().any(reads),
            SOp::Cast(a) | SOp::Detach(a) => reads(a),
            SOp::Select(c, a, b) => [c, a, b].into_iter().any(reads),
            _ => false,
        }
    }
    match e.op() {
        SOp::Load { idx, outside, .. } => {
            idx.iter().any(reads) || matches!(outside, SOutside::Value(v) if is_gathered(v))
        }
        SOp::Call(_, args) => args.iter().any(is_gathered),
        SOp::Cast(a) | SOp::Detach(a) => is_gathered(a),
        SOp::Select(c, a, b) => [c, a, b].into_iter().any(is_gathered),
        SOp::Reduce { body, filter, otherwise, .. } => {
            std::iter::once(body).chain(filter).chain(otherwise).any(is_gathered)
        }
        _ => false,
    }
}
