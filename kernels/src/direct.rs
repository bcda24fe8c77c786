//! Sums over windows of one plane that read the plane where it lies: for products of one row, such as depthwise
//! convolutions, whose windows are used once, so that a copy with room around them costs more than the sums.
//!
//! Elements of a window outside of the plane are zeros: masked loads read them.

use crate::abi::Level;

/// At most this many terms, because their masks are held in an array.
pub const MOST_TERMS: usize = 64;

/// The rows of sums that are computed together, so that one addition need not wait for the one before it.
const TOGETHER: usize = 4;

/// A term of every window.
#[derive(Clone, Copy, Debug)]
pub struct WindowTerm {
    /// The row of the term in the first window; it may lie outside of the plane.
    pub row: isize,
    /// The column of the term in the first window; it may lie outside of the plane.
    pub column: isize,
    /// The number by which the element is multiplied.
    pub factor: f32,
}

/// The windows of a plane and their sums.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    /// The first element of the plane, whose columns are contiguous.
    pub from: *const f32,
    /// The rows and columns of the plane.
    pub size: (usize, usize),
    /// The distance in elements from row to row.
    pub row: isize,
    /// The distance in rows from window to window.
    pub step: isize,
    /// The first sum, whose columns are contiguous.
    pub to: *mut f32,
    /// The rows and columns of the windows.
    pub windows: (usize, usize),
    /// The distance in elements from row to row of the sums.
    pub to_row: isize,
    /// The terms, at most [`MOST_TERMS`].
    pub terms: &'a [WindowTerm],
}

/// Computes the sums of a plane.
pub type Fn = unsafe fn(&Plane<'_>);

/// The function for an instruction set that this CPU has, if masked loads are among its instructions.
pub fn pick(isa: Level) -> Option<Fn> {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => Some(avx512),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Some(avx2),
        _ => None,
    }
}

/// A vector of numbers.
trait MaskedVector: Copy {
    const COUNT: usize;
    /// A set of lanes.
    type Mask: Copy;

    /// The lanes `lo..hi`.
    ///
    /// # Safety
    /// The CPU has the instructions of the vector.
    unsafe fn mask(lo: usize, hi: usize) -> Self::Mask;

    /// Zeros.
    ///
    /// # Safety
    /// As [`MaskedVector::mask`].
    unsafe fn zeros() -> Self;

    /// Adds `factor` times the elements at `from`, which are zeros in the other lanes.
    ///
    /// # Safety
    /// As [`MaskedVector::mask`]; the elements of the lanes exist.
    unsafe fn add(self, factor: f32, from: *const f32, lanes: Self::Mask) -> Self;

    /// Writes the lanes to `to`.
    ///
    /// # Safety
    /// As [`MaskedVector::mask`]; the elements of the lanes exist.
    unsafe fn write(self, to: *mut f32, lanes: Self::Mask);
}

/// Computes the sums of a plane, block by block of columns.
///
/// # Safety
/// The CPU has the instructions of the vector; the plane and the sums have these sizes, and do not overlap.
#[inline(always)]
unsafe fn sums<V: MaskedVector>(p: &Plane<'_>) {
    let terms = &p.terms[..p.terms.len().min(MOST_TERMS)];
    let least = terms.iter().map(|t| t.row).min().unwrap_or(0);
    let most = terms.iter().map(|t| t.row).max().unwrap_or(0);
    for first in (0..p.windows.1).step_by(V::COUNT) {
        // SAFETY: the caller upholds the contract; only lanes within the plane are read, and within the sums written.
        unsafe {
            let there = V::mask(0, (p.windows.1 - first).min(V::COUNT));
            let mut inside = [there; MOST_TERMS];
            for (mask, term) in inside.iter_mut().zip(terms) {
                let column = first as isize + term.column;
                let lo = (-column).clamp(0, V::COUNT as isize);
                let hi = (p.size.1 as isize - column).clamp(lo, V::COUNT as isize);
                *mask = V::mask(lo as usize, hi as usize);
            }
            let (mut row, end) = (0, p.windows.0 as isize);
            while row < end {
                let many = row + TOGETHER as isize <= end && row * p.step + least >= 0;
                let last = (row + TOGETHER as isize - 1) * p.step + most;
                row += if many && last < p.size.0 as isize {
                    rows::<V, TOGETHER>(p, terms, &inside, there, (row, first))
                } else {
                    rows::<V, 1>(p, terms, &inside, there, (row, first))
                } as isize;
            }
        }
    }
}

/// Computes the sums of `N` rows from `row` on in the columns `there` from `first` on; `inside` are the columns within the
/// plane, by term. All terms of several rows lie in rows of the plane. Returns the number of rows.
///
/// # Safety
/// The contract of [`sums`] holds; the plane has these rows and columns.
#[inline(always)]
unsafe fn rows<V: MaskedVector, const N: usize>(
    p: &Plane<'_>,
    terms: &[WindowTerm],
    inside: &[V::Mask; MOST_TERMS],
    there: V::Mask,
    (row, first): (isize, usize),
) -> usize {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let mut sums = [V::zeros(); N];
        for (mask, term) in inside.iter().zip(terms) {
            let at = row * p.step + term.row;
            if N == 1 && at as usize >= p.size.0 {
                continue;
            }
            let from = p.from.wrapping_offset(at * p.row + first as isize + term.column);
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = sum.add(term.factor, from.wrapping_offset(i as isize * p.step * p.row), *mask);
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            sum.write(p.to.wrapping_offset((row + i as isize) * p.to_row + first as isize), there);
        }
    }
    N
}

/// Sixteen numbers.
///
/// # Safety
/// The CPU has AVX-512 F; the contract of [`sums`] holds.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
unsafe fn avx512(p: &Plane<'_>) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { sums::<x86::Wide>(p) }
}

/// Eight numbers.
///
/// # Safety
/// The CPU has AVX2 and FMA; the contract of [`sums`] holds.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(p: &Plane<'_>) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { sums::<x86::Narrow>(p) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::MaskedVector;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(super) struct Wide(__m512);

    impl MaskedVector for Wide {
        const COUNT: usize = 16;
        type Mask = u16;

        #[inline(always)]
        unsafe fn mask(lo: usize, hi: usize) -> u16 {
            ((1u32 << hi) - (1u32 << lo)) as u16
        }

        #[inline(always)]
        unsafe fn zeros() -> Wide {
            // SAFETY: the caller upholds the contract of this function.
            Wide(unsafe { _mm512_setzero_ps() })
        }

        #[inline(always)]
        unsafe fn add(self, factor: f32, from: *const f32, lanes: u16) -> Wide {
            // SAFETY: the caller upholds the contract of this function; other lanes are not touched.
            Wide(unsafe { _mm512_fmadd_ps(_mm512_set1_ps(factor), _mm512_maskz_loadu_ps(lanes, from), self.0) })
        }

        #[inline(always)]
        unsafe fn write(self, to: *mut f32, lanes: u16) {
            // SAFETY: the caller upholds the contract of this function; other lanes are not touched.
            unsafe { _mm512_mask_storeu_ps(to, lanes, self.0) }
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Narrow(__m256);

    impl MaskedVector for Narrow {
        const COUNT: usize = 8;
        type Mask = __m256i;

        #[inline(always)]
        unsafe fn mask(lo: usize, hi: usize) -> __m256i {
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
                let below = |n: usize| _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane);
                _mm256_andnot_si256(below(lo), below(hi))
            }
        }

        #[inline(always)]
        unsafe fn zeros() -> Narrow {
            // SAFETY: the caller upholds the contract of this function.
            Narrow(unsafe { _mm256_setzero_ps() })
        }

        #[inline(always)]
        unsafe fn add(self, factor: f32, from: *const f32, lanes: __m256i) -> Narrow {
            // SAFETY: the caller upholds the contract of this function; other lanes are not touched.
            Narrow(unsafe { _mm256_fmadd_ps(_mm256_set1_ps(factor), _mm256_maskload_ps(from, lanes), self.0) })
        }

        #[inline(always)]
        unsafe fn write(self, to: *mut f32, lanes: __m256i) {
            // SAFETY: the caller upholds the contract of this function; other lanes are not touched.
            unsafe { _mm256_maskstore_ps(to, lanes, self.0) }
        }
    }
}
