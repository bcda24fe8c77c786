//! Products of matrices that leave out blocks: those of the result that no step uses ([`Unused`]), and those of an operand
//! that are zeros, which the other operand can't make anything but zeros as long as it is finite. Masked attention has
//! both: half of its scores, and half of its weights.
//!
//! Blocks of zeros are found while the product runs. A few elements of each block tell first whether the search is worth
//! it, so that a product without zeros costs no more than before.

use super::product::{Product, ProductLoop, matrix};
use crate::executors::fusion::graph::DimSet;
use crate::executors::fusion::graph::piece::{Contract, Unused};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{HostStep, Memory, Stopped};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rows of a block. Each block of rows is a task, whatever the number of threads, so that results do not depend on
/// it. The blocks of tests are small, because an oracle computes the products of tests.
const ROWS: usize = if cfg!(test) { 16 } else { 256 };
/// The columns of a block of a result, and the terms of a block of an operand.
const STEP: usize = ROWS / 2;
/// The operand beside the one with blocks of zeros has at least this many columns, because the search must cost little
/// beside the product.
const LEAST: usize = 16;
/// At least one in this many blocks must be left out, because parts of a product are slower than the whole.
const FEW: usize = 8;
/// An unused element has less than this share of the largest number. Multiplied by 1,024 it is less than half of the last
/// place of that number, so that its sum with a finite number is finite.
const SMALL: f32 = f32::MAX * 1e-12;

/// The step of a product that may leave out blocks.
struct BlockProduct {
    /// The whole product.
    whole: Box<dyn HostStep>,
    /// The loops of the product, whose left operand is the one that may have blocks of zeros.
    product: Product,
    left_out: LeftOut,
}

/// The blocks that are left out.
enum LeftOut {
    /// Those of the result that are not used.
    Unused {
        /// For each block of rows, the ranges of columns that are computed.
        columns: Vec<Vec<(usize, usize)>>,
        /// Whether all elements are computed unless they are small.
        if_small: bool,
        /// The share of elements that is computed.
        share: f64,
    },
    /// Those of the result where a value of its layout has zeros; whether all elements are computed unless they are small.
    ZerosOf { value: u32, if_small: bool },
    /// Those of the left operand that are zeros.
    Zeros,
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
    if let Some(left_out) = unused_blocks(c, &product) {
        return Box::new(BlockProduct { whole, product, left_out });
    }
    if product.n.size > product.m.size {
        product.swap();
    }
    let [m, n, k] = [product.m, product.n, product.k];
    let worth = m.size >= 2 * STEP && k.size >= 2 * STEP && n.size >= LEAST;
    if worth && (m.a == 1 || k.a == 1) {
        return Box::new(BlockProduct { whole, product, left_out: LeftOut::Zeros });
    }
    whole
}

/// The blocks of the result that are computed, if others are left out.
fn unused_blocks(c: &Contract, product: &Product) -> Option<LeftOut> {
    let Unused { negative, zeros_of, if_small } = &c.unused;
    let (rows, columns) = (product.m.size, product.n.size);
    if rows < 2 * STEP || columns < 2 * STEP {
        return None;
    }
    if let Some(value) = zeros_of {
        let worth = product.k.size >= LEAST && (product.m.c == 1 || product.n.c == 1);
        return worth.then_some(LeftOut::ZerosOf { value: *value, if_small: *if_small });
    }
    if negative.is_empty() {
        return None;
    }
    // The loops of rows and columns are one dim each, so that a dim is a position.
    let (in_a, in_b) = (super::product::dims_of(&c.a), super::product::dims_of(&c.b));
    let alone = |set: DimSet| {
        let mut dims = set.iter().filter(|d| c.sizes[*d as usize] > 1);
        dims.next().filter(|_| dims.next().is_none())
    };
    let (row, column) = (alone(in_a.minus(in_b))?, alone(in_b.minus(in_a))?);
    let tests: Vec<_> = negative.iter().filter(|a| a.dims().within([row, column].into_iter().collect())).collect();
    let used = |(i, i_end): (usize, usize), (j, j_end): (usize, usize)| {
        tests.iter().all(|test| {
            let most = |d, from: usize, to: usize| {
                let k: i64 = test.coef(d);
                k.saturating_mul(from as i64).max(k.saturating_mul(to as i64 - 1))
            };
            test.base.saturating_add(most(row, i, i_end)).saturating_add(most(column, j, j_end)) >= 0
        })
    };
    let mut computed = 0;
    let blocks: Vec<Vec<(usize, usize)>> = pieces(rows, ROWS)
        .map(|i| {
            let ranges = joined(pieces(columns, STEP).filter(|j| used(i, *j)));
            computed += ranges.iter().map(|r| (r.1 - r.0) * (i.1 - i.0)).sum::<usize>();
            ranges
        })
        .collect();
    let share = computed as f64 / (rows * columns) as f64;
    let worth = share <= 1.0 - 1.0 / FEW as f64;
    worth.then_some(LeftOut::Unused { columns: blocks, if_small: *if_small, share })
}

/// The pieces of `0..size`.
fn pieces(size: usize, step: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..size).step_by(step).map(move |from| (from, (from + step).min(size)))
}

/// Ranges of which neighbours are one range.
fn joined(ranges: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
    let mut all: Vec<(usize, usize)> = Vec::new();
    for (from, to) in ranges {
        match all.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => all.push((from, to)),
        }
    }
    all
}

/// A matrix in memory: a pointer to its first element, and for rows and columns the number and the stride.
#[derive(Clone, Copy)]
struct Matrix {
    at: *const f32,
    rows: (usize, isize),
    columns: (usize, isize),
}

impl Matrix {
    /// Joins the magnitudes of all elements by `join`, line by line, until `enough` of a line.
    ///
    /// # Safety
    /// The memory of the matrix is valid.
    unsafe fn join(&self, join: impl Fn(u32, u32) -> u32, enough: u32) -> u32 {
        let (lines, line) = if self.columns.1 == 1 { (self.rows, self.columns) } else { (self.columns, self.rows) };
        let mut all = 0;
        for i in 0..lines.0 as isize {
            let from = self.at.wrapping_offset(i * lines.1);
            let of_line = if line.1 == 1 {
                // SAFETY: the caller upholds the contract of this function.
                let line = unsafe { std::slice::from_raw_parts(from, line.0) };
                line.iter().fold(0, |all, x| join(all, magnitude(*x)))
            } else {
                let at = |j: usize| from.wrapping_offset(j as isize * line.1);
                // SAFETY: the caller upholds the contract of this function.
                (0..line.0).fold(0, |all, j| join(all, magnitude(unsafe { at(j).read() })))
            };
            all = join(all, of_line);
            if all >= enough {
                break;
            }
        }
        all
    }

    /// The largest magnitude of an element.
    ///
    /// # Safety
    /// The memory of the matrix is valid.
    unsafe fn largest(&self) -> u32 {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.join(u32::max, INFINITY) }
    }

    /// Whether all elements are zeros.
    ///
    /// # Safety
    /// The memory of the matrix is valid.
    unsafe fn is_zero(&self) -> bool {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.join(|a, b| a | b, 1) == 0 }
    }

    /// Whether a few elements along the diagonal are zeros.
    ///
    /// # Safety
    /// The memory of the matrix is valid.
    unsafe fn seems_zero(&self) -> bool {
        (0..8).all(|i| {
            let (row, column) = (i * (self.rows.0 - 1) / 7, i * (self.columns.0 - 1) / 7);
            let at = self.at.wrapping_offset(row as isize * self.rows.1 + column as isize * self.columns.1);
            // SAFETY: the caller upholds the contract of this function.
            magnitude(unsafe { at.read() }) == 0
        })
    }
}

/// The bits of a number without its sign; they are in the order of the magnitudes, with NaN last.
fn magnitude(x: f32) -> u32 {
    x.to_bits() & !(1 << 31)
}

/// The bits of infinity: those of finite numbers are less.
const INFINITY: u32 = 0x7f80_0000;

impl BlockProduct {
    fn batches(&self) -> usize {
        self.product.outer.iter().map(|a| a.size).product()
    }

    /// The left operand of a batch: rows `i` and terms `k`.
    fn left(&self, memory: Memory, batch: usize, i: (usize, usize), k: (usize, usize)) -> Matrix {
        let p = &self.product;
        let at = (memory.at(p.places[0].value) as *const f32).wrapping_offset(p.offsets(batch).0);
        let at = at.wrapping_offset(i.0 as isize * p.m.a + k.0 as isize * p.k.a);
        Matrix { at, rows: (i.1 - i.0, p.m.a), columns: (k.1 - k.0, p.k.a) }
    }

    /// The matrix whose zeros leave out blocks of a batch: rows `i`, and terms or columns `j`.
    fn searched(&self, memory: Memory, batch: usize, i: (usize, usize), j: (usize, usize)) -> Matrix {
        let LeftOut::ZerosOf { value, .. } = self.left_out else { return self.left(memory, batch, i, j) };
        let p = &self.product;
        // The value has the layout of the result.
        let at = (memory.at(value) as *const f32).wrapping_offset(p.offsets(batch).2);
        let at = at.wrapping_offset(i.0 as isize * p.m.c + j.0 as isize * p.n.c);
        Matrix { at, rows: (i.1 - i.0, p.m.c), columns: (j.1 - j.0, p.n.c) }
    }

    /// The number of terms, or of columns, of which some are left out.
    fn width(&self) -> usize {
        if let LeftOut::Zeros = self.left_out { self.product.k.size } else { self.product.n.size }
    }

    /// The right operand of a batch.
    fn right(&self, memory: Memory, batch: usize) -> Matrix {
        let p = &self.product;
        let at = (memory.at(p.places[1].value) as *const f32).wrapping_offset(p.offsets(batch).1);
        Matrix { at, rows: (p.k.size, p.k.b), columns: (p.n.size, p.n.b) }
    }

    /// Whether enough blocks seem to be zeros.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds.
    unsafe fn seems_worth(&self, memory: Memory) -> bool {
        let (mut zeros, mut all) = (0, 0);
        for batch in 0..self.batches() {
            for i in pieces(self.product.m.size, ROWS) {
                for j in pieces(self.width(), STEP) {
                    all += 1;
                    // SAFETY: the caller upholds the contract of this function.
                    zeros += unsafe { self.searched(memory, batch, i, j).seems_zero() } as usize;
                }
            }
        }
        zeros * FEW >= all
    }

    /// For each batch, whether blocks may be left out.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds.
    unsafe fn allowed(&self, memory: Memory, threads: usize) -> Vec<AtomicBool> {
        let p = &self.product;
        let whole = match self.left_out {
            LeftOut::Unused { if_small, .. } | LeftOut::ZerosOf { if_small, .. } => !if_small,
            LeftOut::Zeros => false,
        };
        let allowed: Vec<AtomicBool> = (0..self.batches()).map(|_| AtomicBool::new(whole)).collect();
        if whole {
            return allowed;
        }
        let nanos = (p.k.size * (p.n.size + p.m.size) * self.batches()) as f64 / 8.0;
        threads::share(allowed.len(), threads, nanos, &|claims| {
            for batch in claims.flatten() {
                // SAFETY: the caller upholds the contract of this function.
                let right = unsafe { self.right(memory, batch).largest() };
                let fits = match self.left_out {
                    LeftOut::Zeros => right < INFINITY,
                    LeftOut::Unused { .. } | LeftOut::ZerosOf { .. } => {
                        let left = self.left(memory, batch, (0, p.m.size), (0, p.k.size));
                        // SAFETY: the caller upholds the contract of this function.
                        let left = unsafe { left.largest() };
                        let most = f32::from_bits(left) * f32::from_bits(right) * p.k.size as f32;
                        // NaN is not less
                        left < INFINITY && right < INFINITY && most < SMALL
                    }
                };
                allowed[batch].store(fits, Ordering::Relaxed);
            }
        });
        allowed
    }

    /// The ranges of terms or columns of rows `i` of a batch that are not left out, in whole blocks. Neighbours that seem to
    /// be zeros are read as one range, because memory is faster in long lines.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds.
    unsafe fn ranges(&self, memory: Memory, batch: usize, i: (usize, usize), allowed: bool) -> Vec<(usize, usize)> {
        let size = self.width();
        if !allowed {
            return vec![(0, size)];
        }
        if let LeftOut::Unused { columns, .. } = &self.left_out {
            return columns[i.0 / ROWS].clone();
        }
        // SAFETY: the caller upholds the contract of this function.
        let seems = |j: &(usize, usize)| unsafe { self.searched(memory, batch, i, *j).seems_zero() };
        // SAFETY: the caller upholds the contract of this function.
        let is = |j: &(usize, usize)| unsafe { self.searched(memory, batch, i, *j).is_zero() };
        let zeros = joined(pieces(size, STEP).filter(|k| seems(k))).into_iter().flat_map(|all| {
            let whole = is(&all);
            let blocks = pieces(all.1 - all.0, STEP).map(move |j| (all.0 + j.0, all.0 + j.1));
            blocks.filter(move |j| whole || is(j))
        });
        let mut ranges = Vec::new();
        let mut from = 0;
        for (zero, end) in zeros.chain([(size, size)]) {
            if zero > from {
                ranges.push((from, zero));
            }
            from = end;
        }
        ranges
    }

    /// Computes a block of rows of a batch.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds, and no other thread writes these rows.
    unsafe fn rows(&self, memory: Memory, batch: usize, number: usize, allowed: bool) {
        let p = &self.product;
        let i = (number * ROWS, (number * ROWS + ROWS).min(p.m.size));
        let m = ProductLoop { size: i.1 - i.0, ..p.m };
        let (a, b, c) = p.offsets(batch);
        let at = |place: usize, offset: isize| (memory.at(p.places[place].value) as *mut f32).wrapping_offset(offset);
        let (a, b, c) = (at(0, a + i.0 as isize * m.a), at(1, b), at(2, c + i.0 as isize * m.c));
        // SAFETY: the caller upholds the contract of this function.
        let ranges = unsafe { self.ranges(memory, batch, i, allowed) };
        if let LeftOut::Zeros = self.left_out {
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
unsafe fn zeros(c: *mut f32, m: ProductLoop, n: ProductLoop, (from, to): (usize, usize)) {
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
        if let LeftOut::ZerosOf { value, .. } = self.left_out {
            touches.push(value);
        }
        touches
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.whole.remap(storage);
        self.product.remap(storage);
        if let LeftOut::ZerosOf { value, .. } = &mut self.left_out {
            *value = storage(*value);
        }
    }

    unsafe fn run(&self, memory: Memory, sizes: &[usize], scratch: *mut u8, threads: usize) -> Result<(), Stopped> {
        // SAFETY: the caller upholds the contract of this function; tasks write different rows of a batch.
        unsafe {
            if !matches!(self.left_out, LeftOut::Unused { .. }) && !self.seems_worth(memory) {
                return self.whole.run(memory, sizes, scratch, threads);
            }
            let allowed = self.allowed(memory, threads);
            let blocks = self.product.m.size.div_ceil(ROWS);
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
        match self.left_out {
            LeftOut::Unused { share, .. } => self.whole.cost() * share,
            _ => self.whole.cost(),
        }
    }

    fn flops(&self) -> f64 {
        match self.left_out {
            LeftOut::Unused { share, .. } => self.whole.flops() * share,
            _ => self.whole.flops(),
        }
    }

    fn traffic(&self) -> usize {
        self.whole.traffic()
    }

    fn describe(&self) -> String {
        match self.left_out {
            LeftOut::Unused { share, .. } => {
                format!("{}, {:.0} % of its blocks unused", self.whole.describe(), 100.0 * (1.0 - share))
            }
            LeftOut::ZerosOf { .. } => format!("{}, but where its reader has zeros", self.whole.describe()),
            LeftOut::Zeros => self.whole.describe(),
        }
    }
}
