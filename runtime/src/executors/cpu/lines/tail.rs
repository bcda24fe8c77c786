//! The last columns of a block that are fewer than a vector: they are computed as dot products, because a tile would
//! compute a whole vector for them.

use fulgurite_kernels::abi::Level;
use fulgurite_kernels::dot_tile::{DotTile, MOST_COLUMNS, dot_tile, pays, rows_of};
use fulgurite_kernels::line_gemm::LANES;

/// At most this many columns, because more are nearly a vector.
pub(super) const MOST: usize = 12;

/// The last columns of blocks.
pub(super) struct Tail {
    rows: usize,
    depth: usize,
    compute: dot_tile::Fn,
    isa: Level,
}

/// Columns whose terms lie side by side.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    /// The first column.
    pub at: *mut f32,
    /// The number of columns.
    pub columns: usize,
}

impl Tail {
    /// The last columns of products with this many rows and terms.
    pub fn new(rows: usize, depth: usize, isa: Level) -> Tail {
        Tail { rows, depth, compute: dot_tile::pick(isa), isa }
    }

    /// Lets no columns be computed as dot products.
    pub fn leave_out(&mut self) {
        (self.rows, self.depth) = (0, 0);
    }

    /// How many of the last of `count` columns are computed as dot products.
    pub fn of(&self, count: usize) -> usize {
        columns(count, self.rows, self.depth)
    }

    /// The elements of the packed columns of a block.
    pub fn room(&self) -> usize {
        let most = if pays(self.rows, 1, self.depth) { MOST } else { 0 };
        most * self.depth.next_multiple_of(LANES)
    }

    /// Copies columns from lines to `to`.
    ///
    /// # Safety
    /// `origin` is the first column, and every line has the columns; `to` has room for them.
    pub unsafe fn pack(&self, origin: *const f32, lines: &[u32], to: Packed) {
        let pitch = self.depth.next_multiple_of(LANES);
        for (k, line) in lines.iter().enumerate() {
            let from = origin.wrapping_add(*line as usize);
            for column in 0..to.columns {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { to.at.add(column * pitch + k).write(from.add(column).read()) };
            }
        }
    }

    /// Computes the columns of `rows` rows.
    ///
    /// # Safety
    /// The rows start at `a`, `row` apart, and have the terms; `to` has room for rows of the columns, `to_row` apart.
    pub unsafe fn compute(
        &self,
        (a, row, rows): (*const f32, isize, usize),
        b: Packed,
        (to, to_row): (*mut f32, usize),
    ) {
        let pitch = self.depth.next_multiple_of(LANES);
        let groups = b.columns.div_ceil(MOST_COLUMNS);
        for group in 0..groups {
            let (first, end) = (b.columns * group / groups, b.columns * (group + 1) / groups);
            let step = rows_of(end - first, self.isa).min(rows);
            for i in (0..rows).step_by(step) {
                let tile = DotTile {
                    rows: step,
                    columns: end - first,
                    depth: self.depth,
                    a: a.wrapping_offset(i as isize * row),
                    row,
                    b: b.at.wrapping_add(first * pitch),
                    to: to.wrapping_add(i * to_row + first),
                    to_row,
                };
                // SAFETY: the caller upholds the contract; rows are a power of two, and so is the step.
                unsafe { (self.compute)(&tile) };
            }
        }
    }
}

/// How many of the last of `count` columns of `rows` rows are computed as dot products by sums of `depth` terms.
fn columns(count: usize, rows: usize, depth: usize) -> usize {
    let rest = count % LANES;
    if (1..=MOST).contains(&rest) && pays(rows, rest, depth) { rest } else { 0 }
}

/// The work of one of `rows` rows of `count` columns, in steps of one vector.
pub(super) fn work(count: usize, rows: usize, depth: usize) -> f64 {
    let rest = columns(count, rows, depth);
    (((count - rest).div_ceil(LANES) * depth) + rest * depth.div_ceil(LANES)) as f64
}
