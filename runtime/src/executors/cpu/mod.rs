//! The CPU executor: it makes steps of items, and runs kernels for lines that are not loops.
//!
//! Fusions become programs over `tiles` of `tile_kernels`, or copies and sums of windows (`im2col`). Products become
//! matrix products (`lines`, also for windows; `product` for other layouts and dtypes, `small_gemm` for few rows,
//! `blocks` if parts of them are unused or zero, `quantised_gemm` for weights quantised in groups).
//! `scan`s run along lines. Items with large values between them run block by block (`row_blocks`).

mod blocks;
mod im2col;
mod lines;
mod product;
mod quantised_gemm;
mod recurrence;
mod registry;
mod row_blocks;
mod row_kernel;
mod scan;
mod search;
mod tiles;

pub use fulgurite_kernels::abi::Level;
use fulgurite_kernels::line_gemm;

use super::fusion::fuse::{Group, Item};
use super::fusion::graph::piece::{Contract, Scan};
use super::fusion::items::{Env, Ways};
use super::fusion::row_blocks::RowGroup;
use super::program::host_step::{HostStep, Linker};
use super::{Claim, Executor, Kernel, Line};
use fulgurite_core::kernel::Special;
use im2col::Im2col;
use product::Product;
use scan::ScanStep;
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
        line.nest()?.is_ok().then_some(Claim::Join)
    }

    fn inlines(&self) -> bool {
        true
    }
}

impl Linker for Cpu {
    fn name(&self) -> &'static str {
        Executor::name(self)
    }

    fn ways(&self) -> Ways {
        Ways { row_kernel: row_kernel::of, halves: false, slides: line_gemm::tile_of(1, Level::current()).is_some() }
    }

    fn group(&self, group: &Group, env: &Env<'_>) -> Box<dyn HostStep> {
        let isa = Level::current();
        match Im2col::padded(group, env, isa).or_else(|| Im2col::added(group, env, isa)) {
            Some(copy) => Box::new(copy),
            None => Box::new(tiles::compile(group, env, isa)),
        }
    }

    fn product(&self, product: &Contract, env: &Env<'_>) -> Box<dyn HostStep> {
        let isa = Level::current();
        let whole = lines::step(product, env, isa).unwrap_or_else(|| Box::new(Product::new(product, env, isa)));
        blocks::step(product, env, isa, whole)
    }

    fn scan(&self, scan: &Scan, env: &Env<'_>) -> Box<dyn HostStep> {
        Box::new(ScanStep::new(scan, env.values, env.form))
    }

    fn row_blocks(
        &self,
        items: &[(Item, Vec<u32>)],
        group: &RowGroup,
        env: &Env<'_>,
    ) -> Result<Box<dyn HostStep>, usize> {
        row_blocks::step(items, group, env, Level::current())
    }
}

/// The kernel of a line that has no loops to fuse: a primitive on the host, or the special kernel that its row names
/// (`kernels: {cpu: …}`).
pub(super) fn whole(line: &Line) -> Option<Arc<dyn Kernel>> {
    super::host::kernel(line).or_else(|| match Special::named("cpu", line.kernel("cpu")?)? {
        Special::LinearScan => recurrence::kernel(line),
        Special::Searchsorted => search::kernel(line),
        Special::MatmulGroups => quantised_gemm::kernel(line),
        Special::Argsort | Special::Introselect | Special::Introsort | Special::Quickselect => None,
    })
}
