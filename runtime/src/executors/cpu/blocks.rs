//! Products of matrices that leave out blocks: blocks of the result that no step uses ([`Unused`]),
//! and blocks of an operand that are zeros. As long as the other operand is finite, zeros
//! contribute nothing. Masked attention has both: half of its scores are unused, and half of its
//! weights are zeros.
//!
//! Blocks of zeros are found while the product runs. A few elements of each block show first
//! whether the search pays, so that a product without zeros costs no more than without the search.

mod search;

use super::product::{Product, ProductLoop, matrix};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{HostStep, Memory, Stopped};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
pub(super) use search::{BlockSearch, LeftOut, Matrix, STEP, joined, pieces};
use std::sync::atomic::Ordering;

/// The rows of a block. Each block of rows is a task, whatever the number of threads, so that results do not depend on
/// it.
const ROWS: usize = 2 * STEP;

/// The step of a product that may leave out blocks.
struct BlockProduct {
    /// The whole product.
    whole: Box<dyn HostStep>,
    search: BlockSearch,
    /// The share of elements that is computed, if that is known.
    share: f64,
}

/// The step of a contraction, of which `whole` computes all blocks.
pub fn step(c: &Contract, env: &Env<'_>, isa: Level, whole: Box<dyn HostStep>) -> Box<dyn HostStep> {
    let single = |v: u32| env.values.ty(v).dtype == DType::F32;
    let matrices = c.a.lies(&c.sizes) && c.b.lies(&c.sizes) && c.exact.is_none() && c.chunk.is_none();
    if !matrices || ![c.a.value, c.b.value, c.out].into_iter().all(single) {
        return whole;
    }
    let mut product = Product::new(c, env, isa);
    if !product.is_one_sum() {
        return whole;
    }
    let unused = LeftOut::unused(c, &product).and_then(|left_out| match left_out {
        LeftOut::Unused { .. } => left_out.share(&product, ROWS).map(|share| (left_out, share)),
        _ => Some((left_out, 1.0)),
    });
    if let Some((left_out, share)) = unused {
        return Box::new(BlockProduct { whole, search: BlockSearch { product, left_out }, share });
    }
    if product.n.size > product.m.size {
        product.swap();
    }
    if LeftOut::zeros_pay(&product) {
        let search = BlockSearch { product, left_out: LeftOut::Zeros };
        return Box::new(BlockProduct { whole, search, share: 1.0 });
    }
    whole
}

impl BlockProduct {
    /// Computes a block of rows of a batch.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds, and no other thread writes these rows.
    unsafe fn rows(&self, memory: Memory, batch: usize, number: usize, allowed: bool) {
        let p = &self.search.product;
        let i = (number * ROWS, (number * ROWS + ROWS).min(p.m.size));
        let m = ProductLoop { size: i.1 - i.0, ..p.m };
        let (a, b, c) = p.offsets(batch);
        let at = |place: usize, offset: isize| (memory.at(p.places[place].value) as *mut f32).wrapping_offset(offset);
        let (a, b, c) = (at(0, a + i.0 as isize * m.a), at(1, b), at(2, c + i.0 as isize * m.c));
        // SAFETY: the caller upholds the contract of this function.
        let ranges = unsafe { self.search.ranges(memory, batch, i, allowed) };
        if let LeftOut::Zeros = self.search.left_out {
            if ranges.is_empty() {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { zeros(c, m, p.n, (0, p.n.size)) };
            }
            for (at, (from, to)) in ranges.into_iter().enumerate() {
                let (k, first) = (ProductLoop { size: to - from, ..p.k }, from as isize);
                let (a, b) = (a.wrapping_offset(first * k.a), b.wrapping_offset(first * k.b));
                // SAFETY: the caller upholds the contract of this function.
                unsafe { matrix([m, p.n, k], (a as *const f32, b as *const f32, c), at > 0) };
            }
            return;
        }
        let mut end = 0;
        for (from, to) in ranges {
            let (n, first) = (ProductLoop { size: to - from, ..p.n }, from as isize);
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                zeros(c, m, p.n, (end, from));
                matrix([m, n, p.k], (a, b.wrapping_offset(first * n.b), c.wrapping_offset(first * n.c)), false);
            }
            end = to;
        }
        // SAFETY: the caller upholds the contract of this function.
        unsafe { zeros(c, m, p.n, (end, p.n.size)) };
    }
}

/// Writes zeros to columns `from..to` of rows of a result.
///
/// # Safety
/// From `c` on, the result has these rows and columns, and no other thread writes them.
pub(super) unsafe fn zeros(c: *mut f32, m: ProductLoop, n: ProductLoop, (from, to): (usize, usize)) {
    for i in 0..m.size as isize {
        let row = c.wrapping_offset(i * m.c + from as isize * n.c);
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            if n.c == 1 {
                std::ptr::write_bytes(row, 0, to - from);
            } else {
                (0..(to - from) as isize).for_each(|j| row.wrapping_offset(j * n.c).write(0.0));
            }
        }
    }
}

impl HostStep for BlockProduct {
    fn touches(&self) -> Vec<u32> {
        let mut touches = self.whole.touches();
        if let LeftOut::ZerosOf { value, .. } = self.search.left_out {
            touches.push(value);
        }
        touches
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.whole.remap(storage);
        self.search.remap(storage);
    }

    fn keeps(&self) -> Option<(u32, usize)> {
        self.whole.keeps()
    }

    fn keep(&mut self, storage: u32) {
        self.whole.keep(storage);
    }

    unsafe fn prepare(&self, memory: Memory, threads: usize) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.whole.prepare(memory, threads) };
    }

    unsafe fn run(&self, memory: Memory, sizes: &[usize], scratch: *mut u8, threads: usize) -> Result<(), Stopped> {
        // SAFETY: the caller upholds the contract of this function; tasks write different rows of a batch.
        unsafe {
            if !matches!(self.search.left_out, LeftOut::Unused { .. }) && !self.search.seems_worth(memory, ROWS) {
                return self.whole.run(memory, sizes, scratch, threads);
            }
            let allowed = self.search.allowed(memory, threads);
            let blocks = self.search.product.m.size.div_ceil(ROWS);
            threads::share(allowed.len() * blocks, threads, self.cost(), &|claims| {
                for task in claims.flatten() {
                    let batch = task / blocks;
                    self.rows(memory, batch, task % blocks, allowed[batch].load(Ordering::Relaxed));
                }
            });
        }
        Ok(())
    }

    fn cost(&self) -> f64 {
        self.whole.cost() * self.share
    }

    fn flops(&self) -> f64 {
        self.whole.flops() * self.share
    }

    fn traffic(&self) -> usize {
        self.whole.traffic()
    }

    fn describe(&self) -> String {
        match self.search.left_out {
            LeftOut::Unused { .. } => {
                format!("{}, {:.0} % of its blocks unused", self.whole.describe(), 100.0 * (1.0 - self.share))
            }
            LeftOut::ZerosOf { .. } => format!("{}, but where its reader has zeros", self.whole.describe()),
            LeftOut::Zeros | LeftOut::Nothing => self.whole.describe(),
        }
    }
}
