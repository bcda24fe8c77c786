//! The search for blocks that a product may leave out.

use crate::executors::cpu::product::{self, Product};
use crate::executors::fusion::graph::DimSet;
use crate::executors::fusion::graph::piece::{Contract, Unused};
use crate::executors::program::host_step::{HostStep, Memory};
use crate::executors::program::threads;
use std::sync::atomic::{AtomicBool, Ordering};

/// The columns of a block of a result, and the terms of a block of an operand. The blocks of tests are small, because an
/// oracle computes the products of tests.
pub(in crate::executors::cpu) const STEP: usize = if cfg!(test) { 8 } else { 128 };
/// The operand beside the one with blocks of zeros has at least this many columns, because the search must cost little
/// beside the product.
const LEAST: usize = 16;
/// At least one in this many blocks must be left out, because parts of a product are slower than the whole.
const FEW: usize = 8;
/// An unused element has less than this share of the largest number. Multiplied by 1,024 it is less than half of the last
/// place of that number, so that its sum with a finite number is finite.
const SMALL: f32 = f32::MAX * 1e-12;

/// A product, whose left operand is the one that may have blocks of zeros, and the blocks that it leaves out.
pub(in crate::executors::cpu) struct BlockSearch {
    pub product: Product,
    pub left_out: LeftOut,
}

/// The blocks that are left out.
pub(in crate::executors::cpu) enum LeftOut {
    /// Blocks of the result that are not used, because a test fails there.
    Unused {
        tests: Vec<BlockTest>,
        /// Whether all elements are computed unless they are small.
        if_small: bool,
    },
    /// Blocks of the result where a value of its layout has zeros; the flag tells whether all
    /// elements are computed unless they are small.
    ZerosOf { value: u32, if_small: bool },
    /// Blocks of the left operand that are zeros.
    Zeros,
    /// None.
    Nothing,
}

/// A function of the row and the column of a result. An element is not used where the function is
/// negative.
pub(in crate::executors::cpu) struct BlockTest {
    base: i64,
    row: i64,
    column: i64,
}

impl BlockTest {
    /// Whether the function is not negative somewhere in a block.
    fn passes(&self, (i, i_end): (usize, usize), (j, j_end): (usize, usize)) -> bool {
        let most = |k: i64, from: usize, to: usize| k.saturating_mul(from as i64).max(k.saturating_mul(to as i64 - 1));
        self.base.saturating_add(most(self.row, i, i_end)).saturating_add(most(self.column, j, j_end)) >= 0
    }
}

impl LeftOut {
    /// The blocks of a contraction's result that are left out.
    pub fn unused(c: &Contract, product: &Product) -> Option<LeftOut> {
        let Unused { negative, zeros_of, if_small } = &c.unused;
        if product.m.size < 2 * STEP || product.n.size < 2 * STEP {
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
        let (in_a, in_b) = (product::dims_of(&c.a), product::dims_of(&c.b));
        let alone = |set: DimSet| {
            let mut dims = set.iter().filter(|d| c.sizes[*d as usize] > 1);
            dims.next().filter(|_| dims.next().is_none())
        };
        let (row, column) = (alone(in_a.minus(in_b))?, alone(in_b.minus(in_a))?);
        let of_both = negative.iter().filter(|a| a.dims().within([row, column].into_iter().collect()));
        let tests = of_both.map(|a| BlockTest { base: a.base, row: a.coef(row), column: a.coef(column) }).collect();
        Some(LeftOut::Unused { tests, if_small: *if_small })
    }

    /// Whether an operand that may have blocks of zeros is worth a search.
    pub fn zeros_pay(p: &Product) -> bool {
        let worth = p.m.size >= 2 * STEP && p.k.size >= 2 * STEP && p.n.size >= LEAST;
        worth && (p.m.a == 1 || p.k.a == 1)
    }

    /// The share of the elements that is computed in blocks of `rows` rows, if enough of them are left out.
    pub fn share(&self, product: &Product, rows: usize) -> Option<f64> {
        let LeftOut::Unused { tests, .. } = self else { return None };
        let mut computed = 0;
        for i in pieces(product.m.size, rows) {
            let used = pieces(product.n.size, STEP).filter(|j| tests.iter().all(|t| t.passes(i, *j)));
            computed += used.map(|j| (j.1 - j.0) * (i.1 - i.0)).sum::<usize>();
        }
        let share = computed as f64 / (product.m.size * product.n.size) as f64;
        (share <= 1.0 - 1.0 / FEW as f64).then_some(share)
    }

    /// Swaps rows and columns, for a product whose operands are swapped.
    pub fn transpose(&mut self) {
        if let LeftOut::Unused { tests, .. } = self {
            tests.iter_mut().for_each(|t| std::mem::swap(&mut t.row, &mut t.column));
        }
    }

    /// Whether a block of the result is used, as far as the tests show.
    pub fn uses(&self, i: (usize, usize), j: (usize, usize)) -> bool {
        match self {
            LeftOut::Unused { tests, .. } => tests.iter().all(|t| t.passes(i, j)),
            LeftOut::ZerosOf { .. } | LeftOut::Zeros | LeftOut::Nothing => true,
        }
    }
}

/// The pieces of `0..size`.
pub(in crate::executors::cpu) fn pieces(size: usize, step: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..size).step_by(step).map(move |from| (from, (from + step).min(size)))
}

/// Ranges in which neighbours are merged into one.
pub(in crate::executors::cpu) fn joined(ranges: impl Iterator<Item = (usize, usize)>) -> Vec<(usize, usize)> {
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
pub(in crate::executors::cpu) struct Matrix {
    pub at: *const f32,
    pub rows: (usize, isize),
    pub columns: (usize, isize),
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
    pub unsafe fn is_zero(&self) -> bool {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.join(|a, b| a | b, 1) == 0 }
    }

    /// Whether a few elements along the diagonal are zeros.
    ///
    /// # Safety
    /// The memory of the matrix is valid.
    pub unsafe fn seems_zero(&self) -> bool {
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

impl BlockSearch {
    /// Replaces values by the numbers of their storages.
    pub fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.product.remap(storage);
        if let LeftOut::ZerosOf { value, .. } = &mut self.left_out {
            *value = storage(*value);
        }
    }

    pub fn batches(&self) -> usize {
        self.product.outer.iter().map(|a| a.size).product()
    }

    /// The left operand of a batch: rows `i` and terms `k`.
    pub fn left(&self, memory: Memory, batch: usize, i: (usize, usize), k: (usize, usize)) -> Matrix {
        let p = &self.product;
        let at = (memory.at(p.places[0].value) as *const f32).wrapping_offset(p.offsets(batch).0);
        let at = at.wrapping_offset(i.0 as isize * p.m.a + k.0 as isize * p.k.a);
        Matrix { at, rows: (i.1 - i.0, p.m.a), columns: (k.1 - k.0, p.k.a) }
    }

    /// The matrix whose zeros leave out blocks of a batch: rows `i`, and terms or columns `j`.
    pub fn searched(&self, memory: Memory, batch: usize, i: (usize, usize), j: (usize, usize)) -> Matrix {
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

    /// Whether enough blocks of `rows` rows seem to be zeros.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds.
    pub unsafe fn seems_worth(&self, memory: Memory, rows: usize) -> bool {
        let (mut zeros, mut all) = (0, 0);
        for batch in 0..self.batches() {
            for i in pieces(self.product.m.size, rows) {
                for j in pieces(self.width(), STEP) {
                    all += 1;
                    // SAFETY: the caller upholds the contract of this function.
                    zeros += unsafe { self.searched(memory, batch, i, j).seems_zero() } as usize;
                }
            }
        }
        zeros * FEW >= all
    }

    /// Whether blocks of a batch may be left out.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds.
    pub unsafe fn allows(&self, memory: Memory, batch: usize) -> bool {
        let p = &self.product;
        // SAFETY: the caller upholds the contract of this function.
        let right = || unsafe { self.right(memory, batch).largest() };
        match self.left_out {
            LeftOut::Nothing => false,
            LeftOut::Zeros => right() < INFINITY,
            LeftOut::Unused { if_small, .. } | LeftOut::ZerosOf { if_small, .. } => {
                if !if_small {
                    return true;
                }
                let left = self.left(memory, batch, (0, p.m.size), (0, p.k.size));
                // SAFETY: the caller upholds the contract of this function.
                let (left, right) = (unsafe { left.largest() }, right());
                let most = f32::from_bits(left) * f32::from_bits(right) * p.k.size as f32;
                // NaN is not less
                left < INFINITY && right < INFINITY && most < SMALL
            }
        }
    }

    /// For each batch, whether blocks may be left out.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds.
    pub unsafe fn allowed(&self, memory: Memory, threads: usize) -> Vec<AtomicBool> {
        let p = &self.product;
        let allowed: Vec<AtomicBool> = (0..self.batches()).map(|_| AtomicBool::new(false)).collect();
        let nanos = (p.k.size * (p.n.size + p.m.size) * self.batches()) as f64 / 8.0;
        threads::share(allowed.len(), threads, nanos, &|claims| {
            for batch in claims.flatten() {
                // SAFETY: the caller upholds the contract of this function.
                allowed[batch].store(unsafe { self.allows(memory, batch) }, Ordering::Relaxed);
            }
        });
        allowed
    }

    /// The ranges of terms or columns of rows `i` of a batch that are not left out, in whole blocks. Neighbours that seem to
    /// be zeros are read as one range, because memory is faster in long lines.
    ///
    /// # Safety
    /// The contract of [`HostStep::run`] holds.
    pub unsafe fn ranges(&self, memory: Memory, batch: usize, i: (usize, usize), allowed: bool) -> Vec<(usize, usize)> {
        let size = self.width();
        if !allowed {
            return vec![(0, size)];
        }
        if let LeftOut::Unused { .. } = self.left_out {
            return joined(pieces(size, STEP).filter(|j| self.left_out.uses(i, *j)));
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
}
