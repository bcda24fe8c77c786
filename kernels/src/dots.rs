//! Sums over places: dot products of one operand with lines of another that may overlap, such as those of the gradient
//! of a convolution's weights, each channel apart.
//!
//! A sum is kept as [`LANES`] parts, which [`total`] adds up in one order.

use crate::line_gemm::LANES;
use crate::math::Isa;
use crate::multi::multi;

/// The operands of some sums; distances are in elements.
#[derive(Clone, Copy, Debug)]
pub struct Dots<'a> {
    /// The left operand: `rows` rows of `vectors · LANES` elements without gaps.
    pub a: *const f32,
    /// The number of rows.
    pub rows: usize,
    /// The elements of a row divided by [`LANES`], at least 1.
    pub vectors: usize,
    /// The elements of the last vector of a row that count; the others of the left operand are zeros.
    pub last: usize,
    /// The place from which the lines of the right operand are counted.
    pub b: *const f32,
    /// The distance from row to row of a line.
    pub pitch: usize,
    /// The start of each line.
    pub lines: &'a [u32],
    /// The sums so far, [`LANES`] parts for each line.
    pub to: *mut f32,
}

multi! {
    /// Adds the products with each line to its sums.
    ///
    /// # Safety
    /// The left operand has its elements, and from the start of each line on there are `rows` rows of `vectors · LANES`
    /// elements. The sums have [`LANES`] elements for each line.
    unsafe fn sums(d: &Dots<'_>) {
        let mut first = 0;
        while first < d.lines.len() {
            // as many lines at once as their sums stay in registers
            let n = [9, 5, 4, 3, 2, 1].into_iter().find(|n| *n <= d.lines.len() - first).unwrap_or(1);
            // SAFETY: the caller upholds the contract; these lines exist.
            unsafe {
                match n {
                    9 => some::<I, 9>(d, first),
                    5 => some::<I, 5>(d, first),
                    4 => some::<I, 4>(d, first),
                    3 => some::<I, 3>(d, first),
                    2 => some::<I, 2>(d, first),
                    _ => some::<I, 1>(d, first),
                }
            }
            first += n;
        }
    }
}

/// Adds the products with `N` lines from `first` on.
///
/// # Safety
/// The contract of [`sums`] holds, and these lines exist.
// Indices step through registers and memory at once, and their constant bounds let the compiler unroll the loops.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn some<I: Isa, const N: usize>(d: &Dots<'_>, first: usize) {
    let mask: [u32; LANES] = std::array::from_fn(|l| if l < d.last { u32::MAX } else { 0 });
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let lines: [*const f32; N] = std::array::from_fn(|n| d.b.add(d.lines[first + n] as usize));
        let to = d.to.add(first * LANES) as *mut [[f32; LANES]; N];
        let mut sums = to.read_unaligned();
        for r in 0..d.rows {
            let row = d.a.add(r * d.vectors * LANES);
            for v in 0..d.vectors - 1 {
                let a = (row.add(v * LANES) as *const [f32; LANES]).read_unaligned();
                for n in 0..N {
                    let x = (lines[n].add(r * d.pitch + v * LANES) as *const [f32; LANES]).read_unaligned();
                    for l in 0..LANES {
                        sums[n][l] = I::fma(a[l], x[l], sums[n][l]);
                    }
                }
            }
            // What lies after a row may be no number, so it is not multiplied by the zeros of the left operand.
            let v = d.vectors - 1;
            let a = (row.add(v * LANES) as *const [f32; LANES]).read_unaligned();
            for n in 0..N {
                let x = (lines[n].add(r * d.pitch + v * LANES) as *const [u32; LANES]).read_unaligned();
                for l in 0..LANES {
                    sums[n][l] = I::fma(a[l], f32::from_bits(x[l] & mask[l]), sums[n][l]);
                }
            }
        }
        to.write_unaligned(sums);
    }
}

/// The sum of the parts of a sum.
pub fn total(parts: &[f32; LANES]) -> f32 {
    let mut parts = *parts;
    let mut n = LANES;
    while n > 1 {
        n /= 2;
        for l in 0..n {
            parts[l] += parts[l + n];
        }
    }
    parts[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Level;

    #[test]
    fn sums_leave_out_what_lies_behind_a_row() {
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for (rows, cols, terms) in [(1usize, 1usize, 1usize), (3, 16, 2), (5, 23, 9), (2, 40, 25), (4, 7, 12)] {
                let (vectors, pitch) = (cols.div_ceil(LANES), cols + 3);
                let mut a = vec![0f32; rows * vectors * LANES];
                for r in 0..rows {
                    for j in 0..cols {
                        a[r * vectors * LANES + j] = ((r * 7 + j) % 11) as f32 - 5.0;
                    }
                }
                let lines: Vec<u32> = (0..terms).map(|k| (k % 4) as u32).collect();
                let mut b: Vec<f32> = (0..rows * pitch + 4 + vectors * LANES).map(|i| (i % 13) as f32 - 6.0).collect();
                // after the last row of the line that starts last
                b[rows * pitch..].fill(f32::NAN);
                let mut sums = vec![0f32; terms * LANES];
                let (last, to) = (cols - (vectors - 1) * LANES, sums.as_mut_ptr());
                let d = Dots { a: a.as_ptr(), rows, vectors, last, b: b.as_ptr(), pitch, lines: &lines, to };
                // SAFETY: rows have these sizes, and lines start at most 3 elements after the first.
                unsafe { sums::pick(isa)(&d) };
                for (k, parts) in sums.as_chunks::<LANES>().0.iter().enumerate() {
                    let place = |r: usize, j: usize| r * pitch + j + lines[k] as usize;
                    let each = (0..rows).flat_map(|r| (0..cols).map(move |j| (r, j)));
                    let want: f32 = each.map(|(r, j)| a[r * vectors * LANES + j] * b[place(r, j)]).sum();
                    assert_eq!(total(parts), want, "{isa:?} {rows} {cols} {terms}: {k}");
                }
            }
        }
    }
}
