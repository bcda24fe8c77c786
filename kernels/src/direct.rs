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

/// The function for an instruction set that this CPU has, if masked loads are among its instructions, and for windows
/// that are `step` columns apart.
pub fn pick(isa: Level, step: usize) -> Option<Fn> {
    match (isa, step) {
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512, 1) => Some(avx512::<1>),
        #[cfg(target_arch = "x86_64")]
        (Level::Avx512, 2) => Some(avx512::<2>),
        #[cfg(target_arch = "x86_64")]
        (Level::Avx2, 1) => Some(avx2::<1>),
        #[cfg(target_arch = "x86_64")]
        (Level::Avx2, 2) => Some(avx2::<2>),
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
    /// The contract of [`MaskedVector::mask`] holds.
    unsafe fn zeros() -> Self;

    /// The elements that the lanes `lo..hi` read if they are two apart: those of the first vector, and of the next.
    ///
    /// # Safety
    /// The contract of [`MaskedVector::mask`] holds.
    unsafe fn evens(lo: usize, hi: usize) -> [Self::Mask; 2];

    /// The elements at `from` of these lanes; zeros in the others.
    ///
    /// # Safety
    /// The contract of [`MaskedVector::mask`] holds; the elements of the lanes exist.
    unsafe fn read(from: *const f32, lanes: Self::Mask) -> Self;

    /// The elements of even places of a vector and the next.
    ///
    /// # Safety
    /// The contract of [`MaskedVector::mask`] holds.
    unsafe fn halved(self, next: Self) -> Self;

    /// Adds `factor` times the elements.
    ///
    /// # Safety
    /// The contract of [`MaskedVector::mask`] holds.
    unsafe fn add(self, factor: f32, elements: Self) -> Self;

    /// Writes the lanes to `to`.
    ///
    /// # Safety
    /// The contract of [`MaskedVector::mask`] holds; the elements of the lanes exist.
    unsafe fn write(self, to: *mut f32, lanes: Self::Mask);
}

/// Computes the sums of a plane, block by block of columns. Windows are `STEP` columns apart, one or two.
///
/// # Safety
/// The CPU has the instructions of the vector; the plane and the sums have these sizes, and do not overlap.
#[inline(always)]
unsafe fn sums<V: MaskedVector, const STEP: usize>(p: &Plane<'_>) {
    let terms = &p.terms[..p.terms.len().min(MOST_TERMS)];
    let least = terms.iter().map(|t| t.row).min().unwrap_or(0);
    let most = terms.iter().map(|t| t.row).max().unwrap_or(0);
    let (end, together) = (p.windows.0 as isize, TOGETHER as isize);
    for first in (0..p.windows.1).step_by(V::COUNT) {
        // SAFETY: the caller upholds the contract; only lanes within the plane are read, and within the sums written.
        unsafe {
            let there = V::mask(0, (p.windows.1 - first).min(V::COUNT));
            let mut inside = [[there; 2]; MOST_TERMS];
            for (masks, term) in inside.iter_mut().zip(terms) {
                // the lanes whose columns are at least 0, and below the size of the plane
                let column = (first * STEP) as isize + term.column;
                let lanes = |from: isize| (from.max(0) as usize).div_ceil(STEP).min(V::COUNT);
                let (lo, hi) = (lanes(-column), lanes(p.size.1 as isize - column));
                *masks = if STEP == 1 { [V::mask(lo.min(hi), hi), there] } else { V::evens(lo.min(hi), hi) };
            }
            let mut row = 0;
            while row < end {
                if end < together {
                    rows::<V, STEP, 1, true>(p, terms, &inside, there, (row, first));
                    row += 1;
                    continue;
                }
                // The last rows are computed with some before them, whose sums are written a second time.
                row = row.min(end - together);
                let inner = row * p.step + least >= 0 && (row + together - 1) * p.step + most < p.size.0 as isize;
                if inner {
                    rows::<V, STEP, TOGETHER, false>(p, terms, &inside, there, (row, first));
                } else {
                    rows::<V, STEP, TOGETHER, true>(p, terms, &inside, there, (row, first));
                }
                row += together;
            }
        }
    }
}

/// Computes the sums of `N` rows from `row` on in the columns `there` from `first` on; `inside` are the elements within
/// the plane, by term. At an `EDGE`, terms may lie in rows outside of the plane.
///
/// # Safety
/// The contract of [`sums`] holds; the plane has these rows and columns.
#[inline(always)]
unsafe fn rows<V: MaskedVector, const STEP: usize, const N: usize, const EDGE: bool>(
    p: &Plane<'_>,
    terms: &[WindowTerm],
    inside: &[[V::Mask; 2]; MOST_TERMS],
    there: V::Mask,
    (row, first): (isize, usize),
) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let mut sums = [V::zeros(); N];
        for (masks, term) in inside.iter().zip(terms) {
            let at = row * p.step + term.row;
            let from = p.from.wrapping_offset(at * p.row + (first * STEP) as isize + term.column);
            for (i, sum) in sums.iter_mut().enumerate() {
                let down = i as isize * p.step;
                if EDGE && (at + down) as usize >= p.size.0 {
                    continue;
                }
                let from = from.wrapping_offset(down * p.row);
                let mut elements = V::read(from, masks[0]);
                if STEP == 2 {
                    elements = elements.halved(V::read(from.wrapping_add(V::COUNT), masks[1]));
                }
                *sum = sum.add(term.factor, elements);
            }
        }
        for (i, sum) in sums.into_iter().enumerate() {
            sum.write(p.to.wrapping_offset((row + i as isize) * p.to_row + first as isize), there);
        }
    }
}

/// Sixteen numbers.
///
/// # Safety
/// The CPU has AVX-512 F; the contract of [`sums`] holds.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,fma")]
unsafe fn avx512<const STEP: usize>(p: &Plane<'_>) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { sums::<x86::Wide, STEP>(p) }
}

/// Eight numbers.
///
/// # Safety
/// The CPU has AVX2 and FMA; the contract of [`sums`] holds.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const STEP: usize>(p: &Plane<'_>) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { sums::<x86::Narrow, STEP>(p) }
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
        unsafe fn evens(lo: usize, hi: usize) -> [u16; 2] {
            let elements = (((1u64 << (2 * hi)) - (1u64 << (2 * lo))) & 0x5555_5555) as u32;
            [elements as u16, (elements >> 16) as u16]
        }

        #[inline(always)]
        unsafe fn read(from: *const f32, lanes: u16) -> Wide {
            // SAFETY: the caller upholds the contract of this function; other lanes are not touched.
            Wide(unsafe { _mm512_maskz_loadu_ps(lanes, from) })
        }

        #[inline(always)]
        unsafe fn halved(self, next: Wide) -> Wide {
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                Wide(_mm512_permutex2var_ps(self.0, even, next.0))
            }
        }

        #[inline(always)]
        unsafe fn add(self, factor: f32, elements: Wide) -> Wide {
            // SAFETY: the caller upholds the contract of this function.
            Wide(unsafe { _mm512_fmadd_ps(_mm512_set1_ps(factor), elements.0, self.0) })
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
        unsafe fn evens(lo: usize, hi: usize) -> [__m256i; 2] {
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                // lanes stand at the even places; others have a number that no lane has
                let half = |first: i32| _mm256_setr_epi32(first, 99, first + 1, 99, first + 2, 99, first + 3, 99);
                let below = |n: usize, lane| _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane);
                [half(0), half(4)].map(|lane| _mm256_andnot_si256(below(lo, lane), below(hi, lane)))
            }
        }

        #[inline(always)]
        unsafe fn read(from: *const f32, lanes: __m256i) -> Narrow {
            // SAFETY: the caller upholds the contract of this function; other lanes are not touched.
            Narrow(unsafe { _mm256_maskload_ps(from, lanes) })
        }

        #[inline(always)]
        unsafe fn halved(self, next: Narrow) -> Narrow {
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                let even = _mm256_shuffle_ps::<0x88>(self.0, next.0);
                Narrow(_mm256_castpd_ps(_mm256_permute4x64_pd::<0xD8>(_mm256_castps_pd(even))))
            }
        }

        #[inline(always)]
        unsafe fn add(self, factor: f32, elements: Narrow) -> Narrow {
            // SAFETY: the caller upholds the contract of this function.
            Narrow(unsafe { _mm256_fmadd_ps(_mm256_set1_ps(factor), elements.0, self.0) })
        }

        #[inline(always)]
        unsafe fn write(self, to: *mut f32, lanes: __m256i) {
            // SAFETY: the caller upholds the contract of this function; other lanes are not touched.
            unsafe { _mm256_maskstore_ps(to, lanes, self.0) }
        }
    }
}
