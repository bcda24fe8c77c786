//! Products with few rows: one to eight vectors times a matrix that is read once, in the order in which it is stored.
//!
//! `gemm` packs its operands, which pays only if they are used often, and does not divide a single row among threads.
//! There are two forms: the matrix is contiguous along the sum (dot products of its rows with the vectors), or along
//! the result (its rows are added up). Elements are f32.

use crate::abi::Level;
use crate::math::Isa;
use crate::multi::multi;
use crate::prefetch::prefetch_near;

/// At most eight vectors, because more make the packing of `gemm` pay.
pub const MOST: usize = 8;

/// The elements that are handled side by side.
const LANES: usize = 32;

/// A product of vectors and a matrix: `c[i, j] = Σ_k a[i, k] · b[k, j]`, with strides in elements.
#[derive(Clone, Copy, Debug)]
pub struct SmallGemm {
    /// The number of vectors, at most [`MOST`].
    pub rows: usize,
    /// The number of result elements per vector.
    pub cols: usize,
    /// The number of summed elements.
    pub depth: usize,
    /// The strides of the vectors by `(i, k)`.
    pub a: (isize, isize),
    /// The strides of the matrix by `(k, j)`.
    pub b: (isize, isize),
    /// The strides of the result by `(i, j)`.
    pub c: (isize, isize),
}

impl SmallGemm {
    /// Whether one of the two forms applies.
    pub fn fits(&self) -> bool {
        let along_sum = self.b.0 == 1 && self.depth >= LANES;
        let along_result = self.b.1 == 1 && self.c.1 == 1 && self.cols >= LANES;
        self.rows <= MOST && (along_sum || along_result)
    }

    /// Whether the vectors are contiguous.
    pub fn lies(&self) -> bool {
        self.a.1 == 1 && (self.rows == 1 || self.a.0 == self.depth as isize)
    }

    /// Computes columns `from..to` of the result. `packed` has room for `rows · depth` elements, unless
    /// [`SmallGemm::lies`].
    ///
    /// # Safety
    /// The pointers are to operands of these sizes and strides, and [`SmallGemm::fits`] holds.
    pub unsafe fn run(&self, a: *const f32, b: *const f32, c: *mut f32, from: usize, to: usize, packed: *mut f32) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let mut vectors = a;
            if !self.lies() {
                for i in 0..self.rows {
                    for k in 0..self.depth {
                        let x = a.offset(i as isize * self.a.0 + k as isize * self.a.1).read();
                        packed.add(i * self.depth + k).write(x);
                    }
                }
                vectors = packed;
            }
            let along_sum = self.b.0 == 1 && self.depth >= LANES;
            let f = if along_sum { dots::pick(Level::current()) } else { sums::pick(Level::current()) };
            f(self, vectors, b, c, from, to);
        }
    }
}

multi! {
    /// Multiplies by a matrix that is contiguous along the sum.
    ///
    /// # Safety
    /// `a` has `p.rows` contiguous vectors of `p.depth` elements; `b` and `c` are operands of the sizes and strides of
    /// `p`, with `p.b.0 == 1`. No other thread writes to columns `from..to` of `c`, which lie in `0..p.cols`.
    unsafe fn dots(p: &SmallGemm, a: *const f32, b: *const f32, c: *mut f32, from: usize, to: usize) {
        // SAFETY: the caller upholds the contract; each `row` is that of a column, which exists.
        unsafe {
            for j in from..to {
                let row = b.offset(j as isize * p.b.1);
                match p.rows {
                    1 => dot_rows::<I, 1>(p, a, row, c, j),
                    2 => dot_rows::<I, 2>(p, a, row, c, j),
                    3 => dot_rows::<I, 3>(p, a, row, c, j),
                    4 => dot_rows::<I, 4>(p, a, row, c, j),
                    5 => dot_rows::<I, 5>(p, a, row, c, j),
                    6 => dot_rows::<I, 6>(p, a, row, c, j),
                    7 => dot_rows::<I, 7>(p, a, row, c, j),
                    _ => dot_rows::<I, 8>(p, a, row, c, j),
                }
            }
        }
    }
}

/// Computes `M` rows of `a` times one row of the matrix, into column `j` of `c`.
///
/// # Safety
/// The contract of [`dots`] holds; `p.rows` is `M`, `j` is one of the columns, and `row` points to the matrix at it.
// Indices step through registers and memory at once, and their constant bounds let the compiler unroll the loops.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn dot_rows<I: Isa, const M: usize>(p: &SmallGemm, a: *const f32, row: *const f32, c: *mut f32, j: usize) {
    let mut acc = [[0f32; LANES]; M];
    let whole = p.depth / LANES * LANES;
    let mut k = 0;
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        while k < whole {
            let w = (row.add(k) as *const [f32; LANES]).read_unaligned();
            for i in 0..M {
                let x = (a.add(i * p.depth + k) as *const [f32; LANES]).read_unaligned();
                for l in 0..LANES {
                    acc[i][l] = I::fma(x[l], w[l], acc[i][l]);
                }
            }
            k += LANES;
        }
        for l in 0..p.depth - whole {
            let w = row.add(whole + l).read();
            for i in 0..M {
                acc[i][l] = I::fma(a.add(i * p.depth + whole + l).read(), w, acc[i][l]);
            }
        }
        for (i, lanes) in acc.iter_mut().enumerate() {
            let mut half = LANES / 2;
            while half > 0 {
                for l in 0..half {
                    lanes[l] += lanes[l + half];
                }
                half /= 2;
            }
            c.offset(i as isize * p.c.0 + j as isize * p.c.1).write(lanes[0]);
        }
    }
}

/// The rows of the matrix that are added up in one pass over the result.
const DEEP: usize = 4;
/// The columns of the result that one pass covers, so that they stay in the first-level cache.
const WIDE: usize = 1024;

multi! {
    /// Multiplies by a matrix that is contiguous along the result.
    ///
    /// # Safety
    /// The contract of [`dots`] holds, but with `p.b.1 == 1` and `p.c.1 == 1`.
    unsafe fn sums(p: &SmallGemm, a: *const f32, b: *const f32, c: *mut f32, from: usize, to: usize) {
        // SAFETY: the caller upholds the contract; a pass covers columns `j0..j0 + n` of `from..to`.
        unsafe {
            let mut j0 = from;
            while j0 < to {
                let n = WIDE.min(to - j0);
                for i in 0..p.rows {
                    std::ptr::write_bytes(c.offset(i as isize * p.c.0).add(j0), 0, n);
                }
                let mut k = 0;
                while k < p.depth {
                    let deep = DEEP.min(p.depth - k);
                    let rows: [*const f32; DEEP] =
                        std::array::from_fn(|d| b.offset((k + d.min(deep - 1)) as isize * p.b.0).add(j0));
                    for i in 0..p.rows {
                        let x: [f32; DEEP] =
                            std::array::from_fn(|d| if d < deep { a.add(i * p.depth + k + d).read() } else { 0.0 });
                        let next = if i == 0 { DEEP as isize * p.b.0 } else { 0 };
                        add_rows::<I>(c.offset(i as isize * p.c.0).add(j0), &rows, &x, deep, n, next);
                    }
                    k += deep;
                }
                j0 += n;
            }
        }
    }
}

/// `y += Σ_d x[d] · rows[d]`. The rows `next` elements further arrive meanwhile, unless it is 0: they lie too far apart to
/// be foreseen.
///
/// # Safety
/// `y` and the first `deep` of `rows` have `n` elements; no other thread writes to `y`.
#[inline(always)]
unsafe fn add_rows<I: Isa>(
    y: *mut f32,
    rows: &[*const f32; DEEP],
    x: &[f32; DEEP],
    deep: usize,
    n: usize,
    next: isize,
) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let mut j = 0;
        if deep == DEEP {
            while j + LANES <= n {
                let mut acc = (y.add(j) as *const [f32; LANES]).read_unaligned();
                for d in 0..DEEP {
                    let at = rows[d].add(j);
                    if next != 0 {
                        prefetch_near(at.wrapping_offset(next) as *const u8, LANES * size_of::<f32>());
                    }
                    let w = (at as *const [f32; LANES]).read_unaligned();
                    for l in 0..LANES {
                        acc[l] = I::fma(x[d], w[l], acc[l]);
                    }
                }
                (y.add(j) as *mut [f32; LANES]).write_unaligned(acc);
                j += LANES;
            }
        }
        while j < n {
            let mut acc = y.add(j).read();
            for d in 0..deep {
                acc = I::fma(x[d], rows[d].add(j).read(), acc);
            }
            y.add(j).write(acc);
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_equal_their_definition_and_any_division_of_columns() {
        for (rows, cols, depth) in [(1, 40, 64), (3, 33, 70), (8, 100, 32), (5, 1100, 37)] {
            let a: Vec<f32> = (0..rows * depth).map(|i| (i % 17) as f32 * 0.25 - 2.0).collect();
            let w: Vec<f32> = (0..depth * cols).map(|i| (i % 23) as f32 * 0.125 - 1.0).collect();
            // the matrix is stored by columns, then by rows
            for b in [(1, depth as isize), (cols as isize, 1)] {
                let p = SmallGemm { rows, cols, depth, a: (depth as isize, 1), b, c: (cols as isize, 1) };
                assert!(p.fits());
                let mut packed = vec![0f32; rows * depth];
                let mut run = |cuts: &[usize]| {
                    let mut c = vec![f32::NAN; rows * cols];
                    for w2 in cuts.windows(2) {
                        // SAFETY: the vectors have these sizes.
                        unsafe { p.run(a.as_ptr(), w.as_ptr(), c.as_mut_ptr(), w2[0], w2[1], packed.as_mut_ptr()) };
                    }
                    c
                };
                let c = run(&[0, cols]);
                assert_eq!(c, run(&[0, 32.min(cols), cols]));
                for i in 0..rows {
                    for j in 0..cols {
                        let at = |k: usize| (k as isize * b.0 + j as isize * b.1) as usize;
                        let want: f64 = (0..depth).map(|k| a[i * depth + k] as f64 * w[at(k)] as f64).sum();
                        assert!((c[i * cols + j] as f64 - want).abs() < 1e-4, "{i} {j}");
                    }
                }
            }
        }
    }
}
