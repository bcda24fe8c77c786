//! Tiles of dot products: `c[i, j] = Σ_k a[i, k] · b[j, k]`, where both operands are contiguous along the sum.
//!
//! They compute the last columns of a product that are fewer than a vector, of which a tile of
//! [`line_gemm`](crate::line_gemm) would compute a whole one. A sum is kept as [`LANES`] parts.

use crate::abi::Level;
use crate::dots::total;
use crate::line_gemm::LANES;
use crate::math::Isa;
use crate::multi::multi;

/// At most this many columns in a tile, because the sums of four rows then stay in registers.
pub const MOST_COLUMNS: usize = 5;
/// The work besides that of the terms, in steps of one vector: the parts of a sum are added up.
const EXTRA: usize = 8;

/// The rows of a tile with this many columns: as many as the registers hold.
pub fn rows_of(columns: usize, isa: Level) -> usize {
    match (isa, columns) {
        (Level::Avx512, 1 | 2) => 8,
        (Level::Avx512, _) => 4,
        // a vector takes two or four registers
        (Level::Avx2, 1 | 2) => 2,
        _ => 1,
    }
}

/// Whether `columns` columns of `rows` rows are computed faster as dot products than as one vector, by sums of `depth`
/// terms. Their terms are copied one by one first, for all rows.
pub fn pays(rows: usize, columns: usize, depth: usize) -> bool {
    rows * columns * (depth.div_ceil(LANES) + EXTRA) + columns * depth < rows * depth
}

/// The operands of a tile.
#[derive(Clone, Copy, Debug)]
pub struct DotTile {
    /// The rows: 1, 2, 4 or 8; 8 with at most two columns.
    pub rows: usize,
    /// The columns, from 1 to [`MOST_COLUMNS`].
    pub columns: usize,
    /// The number of terms.
    pub depth: usize,
    /// The first row of the left operand.
    pub a: *const f32,
    /// The distance from row to row of the left operand.
    pub row: isize,
    /// The first column of the right operand. Columns lie as far apart as their terms take in whole vectors.
    pub b: *const f32,
    /// The result.
    pub to: *mut f32,
    /// The distance from row to row of the result.
    pub to_row: usize,
}

multi! {
    /// Computes a tile.
    ///
    /// # Safety
    /// The left operand has `rows` rows of `depth` elements, the right one `columns` columns of as many, and the result
    /// `rows` rows of `columns`.
    unsafe fn dot_tile(t: &DotTile) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            match (t.rows, t.columns) {
                (8, 1) => dots::<I, 8, 1>(t),
                (8, _) => dots::<I, 8, 2>(t),
                (4, 1) => dots::<I, 4, 1>(t),
                (4, 2) => dots::<I, 4, 2>(t),
                (4, 3) => dots::<I, 4, 3>(t),
                (4, 4) => dots::<I, 4, 4>(t),
                (4, _) => dots::<I, 4, 5>(t),
                (2, 1) => dots::<I, 2, 1>(t),
                (2, 2) => dots::<I, 2, 2>(t),
                (2, 3) => dots::<I, 2, 3>(t),
                (2, 4) => dots::<I, 2, 4>(t),
                (2, _) => dots::<I, 2, 5>(t),
                (_, 1) => dots::<I, 1, 1>(t),
                (_, 2) => dots::<I, 1, 2>(t),
                (_, 3) => dots::<I, 1, 3>(t),
                (_, 4) => dots::<I, 1, 4>(t),
                _ => dots::<I, 1, 5>(t),
            }
        }
    }
}

/// Computes a tile of `M` rows and `N` columns.
///
/// # Safety
/// The contract of [`dot_tile`] holds, with these rows and columns.
// Indices step through registers and memory at once, and their constant bounds let the compiler unroll the loops.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn dots<I: Isa, const M: usize, const N: usize>(t: &DotTile) {
    let (vectors, rest) = (t.depth / LANES, t.depth % LANES);
    let pitch = t.depth.next_multiple_of(LANES);
    let mut acc = [[[0f32; LANES]; N]; M];
    // SAFETY: the caller upholds the contract of this function; the last terms are read one by one.
    unsafe {
        for v in 0..vectors {
            let y: [[f32; LANES]; N] =
                std::array::from_fn(|j| (t.b.add(j * pitch + v * LANES) as *const [f32; LANES]).read_unaligned());
            for i in 0..M {
                let x = (t.a.offset(i as isize * t.row).add(v * LANES) as *const [f32; LANES]).read_unaligned();
                for j in 0..N {
                    for l in 0..LANES {
                        acc[i][j][l] = I::fma(x[l], y[j][l], acc[i][j][l]);
                    }
                }
            }
        }
        for i in 0..M {
            for j in 0..N {
                let mut sum = total(&acc[i][j]);
                for k in t.depth - rest..t.depth {
                    let x = t.a.offset(i as isize * t.row).add(k).read();
                    sum = I::fma(x, t.b.add(j * pitch + k).read(), sum);
                }
                t.to.add(i * t.to_row + j).write(sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_dot_products_that_read_nothing_behind_a_row() {
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for columns in 1..=MOST_COLUMNS {
                let most = rows_of(columns, isa);
                for rows in [1, 2, 4, 8].into_iter().filter(|rows| *rows <= most) {
                    for depth in [1usize, 15, 16, 17, 100] {
                        let (row, pitch) = (depth + 3, depth.next_multiple_of(LANES));
                        let mut a = vec![f32::NAN; rows * row];
                        let mut b = vec![f32::NAN; columns * pitch];
                        for k in 0..depth {
                            (0..rows).for_each(|i| a[i * row + k] = ((3 * i + k) % 13) as f32 - 6.0);
                            (0..columns).for_each(|j| b[j * pitch + k] = ((5 * j + k) % 11) as f32 - 5.0);
                        }
                        // the rows end where the memory does
                        a.truncate((rows - 1) * row + depth);
                        let to_row = columns + 2;
                        let mut c = vec![0f32; rows * to_row];
                        let to = c.as_mut_ptr();
                        let (row_step, b_at) = (row as isize, b.as_ptr());
                        let t = DotTile { rows, columns, depth, a: a.as_ptr(), row: row_step, b: b_at, to, to_row };
                        // SAFETY: the operands and the result have these sizes.
                        unsafe { dot_tile::pick(isa)(&t) };
                        for i in 0..rows {
                            for j in 0..columns {
                                let want: f32 = (0..depth).map(|k| a[i * row + k] * b[j * pitch + k]).sum();
                                assert_eq!(c[i * to_row + j], want, "{isa:?} {rows}x{columns}x{depth}: {i} {j}");
                            }
                        }
                    }
                }
            }
        }
    }
}
