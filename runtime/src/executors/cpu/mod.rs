//! The CPU executor.
//!
//! Lines become *pieces* ([`graph`]: scalar operations over named loops, products, scans), pieces are joined into
//! *items* ([`fuse`]), items are compiled into *steps* ([`loops`]: programs over tiles; [`product`], [`scan`], kernels),
//! and steps get one memory plan ([`plan`]). Sizes are known, so all of this is done once.

mod away;
mod build;
mod compiled;
mod few;
pub mod fuse;
pub mod graph;
mod groups;
pub(crate) mod items;
pub mod kern;
pub mod kernels;
pub mod layout;
pub mod loops;
pub mod plan;
pub mod product;
mod recurrence;
pub mod scan;
mod search;
mod step;
pub mod threads;
pub mod windows;

pub(crate) use build::build;
pub use compiled::{Compiled, Description, StepInfo};
pub use fuse::Separate;
pub use threads::{set_threads, threads};

use super::{Claim, Executor, Kernel, Line};
use fulgurite_core::kernel::Special;
use std::sync::Arc;

/// The executor `cpu`.
pub struct Cpu;

impl Executor for Cpu {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        let line = lines.first()?;
        if let Some(kernel) = whole(line) {
            return Some(Claim::line(line, kernel));
        }
        line.nest()?.is_ok().then_some(Claim::Fuse)
    }
}

/// The kernel of a line that is no loops to be fused: a primitive, or the special kernel that its row names
/// (`kernels: {cpu: …}`).
pub(super) fn whole(line: &Line) -> Option<Arc<dyn Kernel>> {
    super::host::kernel(line).or_else(|| match Special::named("cpu", line.kernel("cpu")?)? {
        Special::LinearScan => recurrence::kernel(line),
        Special::Searchsorted => search::kernel(line),
        Special::MatmulGroups => groups::kernel(line),
        Special::Argsort | Special::Introselect | Special::Quickselect => None,
    })
}
