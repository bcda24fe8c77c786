//! Moves rectangles of f32 from one layout to another, in blocks if the layouts are transposed.

use crate::abi::Level;
use crate::math::Isa;
use crate::multi::multi;

/// The rows and columns of a block that is transposed in registers.
const BLOCK: usize = 8;

/// A rectangle of elements that moves from one layout to another; distances are in elements.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// The first element.
    pub from: *const f32,
    /// The distances from row to row and from column to column.
    pub from_steps: (isize, isize),
    /// The first element of the copy.
    pub to: *mut f32,
    /// The distances in the copy.
    pub to_steps: (isize, isize),
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub cols: usize,
}

multi! {
    /// Copies a rectangle.
    ///
    /// # Safety
    /// The rectangle's elements exist, and so do those of the copy, which does not overlap them.
    unsafe fn move_to(m: &Moved) {
        // SAFETY: the caller upholds the contract; a rectangle with rows as columns is the same one.
        unsafe {
            if m.from_steps.1 == 1 && m.to_steps.1 == 1 {
                straight(m);
            } else if m.from_steps.1 == 1 && m.to_steps.0 == 1 {
                transposed::<I>(m);
            } else if m.from_steps.0 == 1 && m.to_steps.1 == 1 {
                transposed::<I>(&Moved {
                    from_steps: (m.from_steps.1, 1),
                    to_steps: (1, m.to_steps.0),
                    rows: m.cols,
                    cols: m.rows,
                    ..*m
                });
            } else {
                one_by_one(m, (0, 0), (m.rows, m.cols));
            }
        }
    }
}

/// Copies rows that are contiguous on both sides.
///
/// # Safety
/// The contract of [`move_to`] holds.
#[inline(always)]
unsafe fn straight(m: &Moved) {
    for i in 0..m.rows as isize {
        // SAFETY: the caller upholds the contract.
        unsafe {
            let (from, to) = (m.from.offset(i * m.from_steps.0), m.to.offset(i * m.to_steps.0));
            match m.cols {
                16.. => row::<16>(from, to, m.cols),
                8.. => row::<8>(from, to, m.cols),
                4.. => row::<4>(from, to, m.cols),
                _ => (0..m.cols).for_each(|j| to.add(j).write(from.add(j).read())),
            }
        }
    }
}

/// Copies `n` elements, at least `N`, `N` at once; the last `N` may overlap those before them.
///
/// # Safety
/// The elements exist, and so do those of the copy, which does not overlap them.
#[inline(always)]
unsafe fn row<const N: usize>(from: *const f32, to: *mut f32, n: usize) {
    let mut j = 0;
    while j < n {
        let at = j.min(n - N);
        // SAFETY: the caller upholds the contract; `at + N` is at most `n`.
        unsafe { (to.add(at) as *mut [f32; N]).write_unaligned((from.add(at) as *const [f32; N]).read_unaligned()) };
        j += N;
    }
}

/// Copies rows `at.0..end.0` and columns `at.1..end.1`, element by element.
///
/// # Safety
/// The contract of [`move_to`] holds.
#[inline(always)]
unsafe fn one_by_one(m: &Moved, at: (usize, usize), end: (usize, usize)) {
    for j in at.1 as isize..end.1 as isize {
        for i in at.0 as isize..end.0 as isize {
            // SAFETY: the caller upholds the contract.
            unsafe {
                let x = m.from.offset(i * m.from_steps.0 + j * m.from_steps.1).read();
                m.to.offset(i * m.to_steps.0 + j * m.to_steps.1).write(x);
            }
        }
    }
}

/// Copies rows that are contiguous in the source to columns that are contiguous in the copy.
///
/// # Safety
/// The contract of [`move_to`] holds.
#[inline(always)]
pub(crate) unsafe fn transposed<I: Isa>(m: &Moved) {
    if I::LEVEL < Level::Avx2 || m.rows.min(m.cols) < BLOCK {
        // SAFETY: the caller upholds the contract.
        return unsafe { one_by_one(m, (0, 0), (m.rows, m.cols)) };
    }
    // SAFETY: the caller upholds the contract; blocks lie within the rectangle, and the instruction set is there.
    unsafe {
        // Columns of blocks write whole lines of the copy one after the other. The last block overlaps the one before it.
        for j in (0..m.cols).step_by(BLOCK).map(|j| j.min(m.cols - BLOCK)) {
            for i in (0..m.rows).step_by(BLOCK).map(|i| i.min(m.rows - BLOCK)) {
                let from = m.from.offset(i as isize * m.from_steps.0 + j as isize);
                let to = m.to.offset(i as isize + j as isize * m.to_steps.1);
                #[cfg(target_arch = "x86_64")]
                block(from, m.from_steps.0, to, m.to_steps.1);
                #[cfg(not(target_arch = "x86_64"))]
                let _ = (from, to);
            }
        }
    }
}

/// Transposes a block of eight rows and columns.
///
/// # Safety
/// The CPU has AVX; eight rows of eight elements, `row` apart, exist at `from`, and as many columns, `col` apart, at `to`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline]
unsafe fn block(from: *const f32, row: isize, to: *mut f32, col: isize) {
    use std::arch::x86_64::*;
    // SAFETY: the caller upholds the contract.
    let r: [__m256; BLOCK] = std::array::from_fn(|i| unsafe { _mm256_loadu_ps(from.offset(i as isize * row)) });
    // Pairs of rows, then of pairs, then of halves.
    let mut pairs = r;
    let mut fours = r;
    for i in 0..4 {
        pairs[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for i in [0, 4] {
        fours[i] = _mm256_shuffle_ps::<0x44>(pairs[i], pairs[i + 2]);
        fours[i + 1] = _mm256_shuffle_ps::<0xEE>(pairs[i], pairs[i + 2]);
        fours[i + 2] = _mm256_shuffle_ps::<0x44>(pairs[i + 1], pairs[i + 3]);
        fours[i + 3] = _mm256_shuffle_ps::<0xEE>(pairs[i + 1], pairs[i + 3]);
    }
    for i in 0..4 {
        let (low, high) = (fours[i], fours[i + 4]);
        // SAFETY: the caller upholds the contract.
        unsafe {
            _mm256_storeu_ps(to.offset(i as isize * col), _mm256_permute2f128_ps::<0x20>(low, high));
            _mm256_storeu_ps(to.offset((i as isize + 4) * col), _mm256_permute2f128_ps::<0x31>(low, high));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_move_between_any_layouts() {
        let source: Vec<f32> = (0..60 * 60).map(|i| i as f32).collect();
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for (rows, cols) in [(1, 1), (3, 40), (33, 17), (48, 50)] {
                for (from_steps, to_steps) in [((60, 1), (60, 1)), ((60, 1), (1, 60)), ((1, 60), (60, 1))] {
                    let mut copy = vec![-1f32; 60 * 60];
                    let (from, to) = (source.as_ptr(), copy.as_mut_ptr());
                    // SAFETY: rows and columns are fewer than 60.
                    unsafe { move_to::pick(isa)(&Moved { from, from_steps, to, to_steps, rows, cols }) };
                    let place = |steps: (isize, isize), i: usize, j: usize| i * steps.0 as usize + j * steps.1 as usize;
                    for i in 0..rows {
                        for j in 0..cols {
                            assert_eq!(copy[place(to_steps, i, j)], source[place(from_steps, i, j)], "{isa:?} {i} {j}");
                        }
                    }
                    assert_eq!(copy.iter().filter(|x| **x >= 0.0).count(), rows * cols);
                }
            }
        }
    }
}
