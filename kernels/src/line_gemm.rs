//! Products whose right operand is read line by line, wherever its lines lie: `c[i, j] = Σ_k a[i, k] · line_k[j]`.
//!
//! No operand is packed. The left one is contiguous along the sum, so that its numbers are broadcast from where they
//! are; the right one is a table of the places at which its lines start. Lines may overlap, so the windows of a
//! convolution are such lines of its padded input. A tile of the result stays in registers over the whole sum.

use crate::abi::Level;
use crate::math::Isa;
use crate::multi::multi;

/// The columns that a tile has at least, and a multiple of which it has.
pub const LANES: usize = 16;
/// At most this many rows in a tile.
pub const MOST_ROWS: usize = 8;
/// At most this many times [`LANES`] columns in a tile of several rows.
pub const MOST_VECTORS: usize = 3;
/// At most this many times [`LANES`] columns in a tile of one row, whose sums would wait for each other if they were
/// fewer.
const MOST_ALONE: usize = 6;

/// The rows of a tile of a product with `rows` rows, and at most how many times [`LANES`] columns: as many as the
/// registers hold. `None` without fused multiply-add, where this form does not pay.
pub fn tile_of(rows: usize, isa: Level) -> Option<(usize, usize)> {
    let (most, vectors) = match isa {
        Level::Avx512 => (MOST_ROWS, MOST_VECTORS),
        Level::Avx2 => (4, 1),
        Level::Baseline => return None,
    };
    let fits = [8, 4, 2, 1].into_iter().find(|n| *n <= rows.min(most))?;
    Some((fits, if fits == 1 { MOST_ALONE } else { vectors }))
}

/// The terms that are added up before their sum is added to that of the terms before them, so that long sums are not
/// rounded at their full size in every term.
const TERMS: usize = 512;

/// The operands of a tile.
#[derive(Clone, Copy, Debug)]
pub struct Tile<'a> {
    /// The rows: 1, 2, 4 or 8.
    pub rows: usize,
    /// The columns divided by [`LANES`]: at most 3, or 6 of one row.
    pub vectors: usize,
    /// The first row of the left operand, which is contiguous along the sum.
    pub a: *const f32,
    /// The distance from row to row of the left operand, in elements.
    pub row: isize,
    /// The place from which the lines of the right operand are counted.
    pub b: *const f32,
    /// The start of each line, in elements.
    pub lines: &'a [u32],
    /// The result.
    pub to: *mut f32,
    /// The distance from row to row of the result.
    pub to_row: usize,
    /// Whether the result is added to.
    pub add: bool,
}

multi! {
    /// Computes a tile.
    ///
    /// # Safety
    /// There is a line. The left operand has `rows` rows of as many elements as there are lines; every line has `vectors · LANES`
    /// elements; the result has `rows` rows of `vectors · LANES`, numbers if it is added to.
    unsafe fn tile(t: &Tile<'_>) {
        // SAFETY: the caller upholds the contract.
        unsafe {
            match (t.rows, t.vectors) {
                (8, 3) => sums::<I, 8, 3>(t),
                (8, 2) => sums::<I, 8, 2>(t),
                (8, _) => sums::<I, 8, 1>(t),
                (4, 3) => sums::<I, 4, 3>(t),
                (4, 2) => sums::<I, 4, 2>(t),
                (4, _) => sums::<I, 4, 1>(t),
                (2, 3) => sums::<I, 2, 3>(t),
                (2, 2) => sums::<I, 2, 2>(t),
                (2, _) => sums::<I, 2, 1>(t),
                (_, 6) => sums::<I, 1, 6>(t),
                (_, 5) => sums::<I, 1, 5>(t),
                (_, 4) => sums::<I, 1, 4>(t),
                (_, 3) => sums::<I, 1, 3>(t),
                (_, 2) => sums::<I, 1, 2>(t),
                _ => sums::<I, 1, 1>(t),
            }
        }
    }
}

/// Computes a tile of `M` rows and `V · LANES` columns.
///
/// # Safety
/// The contract of [`tile`] holds, with these rows and vectors.
// Indices step through registers and memory at once, and their constant bounds let the compiler unroll the loops.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn sums<I: Isa, const M: usize, const V: usize>(t: &Tile<'_>) {
    for (part, lines) in t.lines.chunks(TERMS).enumerate() {
        let mut acc = [[[0f32; LANES]; V]; M];
        let a = t.a.wrapping_add(part * TERMS);
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            for (k, start) in lines.iter().enumerate() {
                let line = t.b.add(*start as usize);
                let x: [[f32; LANES]; V] =
                    std::array::from_fn(|v| (line.add(v * LANES) as *const [f32; LANES]).read_unaligned());
                for i in 0..M {
                    let w = a.offset(i as isize * t.row).add(k).read();
                    for v in 0..V {
                        for l in 0..LANES {
                            acc[i][v][l] = I::fma(w, x[v][l], acc[i][v][l]);
                        }
                    }
                }
            }
            for i in 0..M {
                for v in 0..V {
                    let to = t.to.add(i * t.to_row + v * LANES) as *mut [f32; LANES];
                    if t.add || part > 0 {
                        let before = to.read_unaligned();
                        for l in 0..LANES {
                            acc[i][v][l] += before[l];
                        }
                    }
                    to.write_unaligned(acc[i][v]);
                }
            }
        }
    }
}

multi! {
    /// Whether all of `n` elements are finite. The loop has no branch, so that it becomes vector instructions.
    ///
    /// # Safety
    /// The elements exist.
    unsafe fn finite(at: *const f32, n: usize) -> bool {
        // SAFETY: the caller upholds the contract.
        let numbers = unsafe { std::slice::from_raw_parts(at, n) };
        numbers.iter().fold(true, |so_far, x| so_far & x.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_are_sums_over_lines_that_may_overlap() {
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for rows in [1, 2, 4, 8] {
                let wide = if rows == 1 { MOST_ALONE } else { MOST_VECTORS };
                let sizes = (1..=wide).map(|vectors| (vectors, 7)).chain([(3, 2 * TERMS + 5)]);
                for (vectors, depth) in sizes {
                    let (row, cols) = (depth + 2, vectors * LANES);
                    let lines: Vec<u32> = (0..depth).map(|k| (5 * k * k % 11) as u32).collect();
                    let a: Vec<f32> = (0..rows * row).map(|i| (i % 13) as f32 - 6.0).collect();
                    let b: Vec<f32> = (0..cols + 11).map(|i| (i % 19) as f32 - 9.0).collect();
                    let to_row = cols + 3;
                    let mut c = vec![f32::NAN; rows * to_row];
                    for add in [false, true] {
                        let (row, to) = (row as isize, c.as_mut_ptr());
                        let t =
                            Tile { rows, vectors, a: a.as_ptr(), row, b: b.as_ptr(), lines: &lines, to, to_row, add };
                        // SAFETY: rows have two elements more than lines, lines start before element 11, and the result has
                        // this size; it is added to the result of the first tile.
                        unsafe { tile::pick(isa)(&t) };
                    }
                    for i in 0..rows {
                        for j in 0..cols {
                            let want: f32 = (0..depth).map(|k| a[row * i + k] * b[lines[k] as usize + j]).sum();
                            assert_eq!(c[i * to_row + j], 2.0 * want, "{isa:?} {rows}x{vectors}: {i} {j}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn one_number_that_is_not_finite_is_found() {
        let mut numbers = vec![1f32; 100];
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            // SAFETY: the vector has this length.
            let all = |x: &[f32]| unsafe { finite::pick(isa)(x.as_ptr(), x.len()) };
            assert!(all(&numbers));
            for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                numbers[77] = x;
                assert!(!all(&numbers));
                numbers[77] = 1.0;
            }
        }
    }
}
