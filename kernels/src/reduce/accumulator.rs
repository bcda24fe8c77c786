//! The numbers in which lanes and blocks are accumulated.

use super::{Fold, LANES};
use crate::math::{CastTo, Elem, Isa, Level};

/// A number type in which lanes or blocks are accumulated; [`Elem`] has sums, products and extrema.
pub trait Accumulator: Elem {
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;
    /// A number below or equal to every number.
    const LEAST: Self;
    /// A number above or equal to every number.
    const MOST: Self;
    /// NaN, or 0 for integers.
    const NAN: Self;
    /// The number as bits.
    fn bits(self) -> u64;
    /// The number of these bits.
    fn from_bits(bits: u64) -> Self;
    /// Folds the lanes in halves.
    #[inline(always)]
    fn fold_halves<F: Fold>(lanes: &[Self; LANES]) -> Self {
        let mut lanes = *lanes;
        let mut half = LANES / 2;
        while half > 0 {
            for j in 0..half {
                lanes[j] = F::step(lanes[j], lanes[j + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

impl Accumulator for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const LEAST: f32 = f32::NEG_INFINITY;
    const MOST: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }
    // From the plain loop, LLVM would make operations on pairs of lanes.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn fold_halves<F: Fold>(lanes: &[f32; LANES]) -> f32 {
        use std::arch::x86_64::*;
        // SAFETY: every x86-64 has SSE; four lanes are read at multiples of four below `LANES`.
        unsafe {
            let four = |at: usize| _mm_loadu_ps(lanes.as_ptr().add(4 * at));
            let [a, b, c, d] = std::array::from_fn(|at| F::four(four(at), four(at + 4)));
            let all = F::four(F::four(a, c), F::four(b, d));
            let pair = F::four(all, _mm_movehl_ps(all, all));
            _mm_cvtss_f32(F::four(pair, _mm_shuffle_ps::<1>(pair, pair)))
        }
    }
}

impl Accumulator for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const LEAST: f64 = f64::NEG_INFINITY;
    const MOST: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
}

impl Accumulator for i64 {
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    const LEAST: i64 = i64::MIN;
    const MOST: i64 = i64::MAX;
    const NAN: i64 = 0;
    #[inline(always)]
    fn bits(self) -> u64 {
        self as u64
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> i64 {
        bits as i64
    }
}

/// A register type, with the types of its lanes and its accumulators.
pub trait Reducible: Elem + CastTo<<Self as Reducible>::Lane> {
    /// The type of lanes.
    type Lane: Accumulator + CastTo<Self::Acc>;
    /// The type of accumulators, f64 or i64.
    type Acc: Accumulator + CastTo<Self>;
    /// The `n` elements at `x`, fewer than [`LANES`], as lanes, and neutral elements behind them.
    ///
    /// # Safety
    /// `x` holds `n` elements.
    #[inline(always)]
    unsafe fn end<I: Isa, F: Fold>(x: *const Self, n: usize) -> [Self::Lane; LANES] {
        let mut end = [F::start(); LANES];
        for (j, lane) in end.iter_mut().enumerate().take(n) {
            // SAFETY: the caller upholds the contract of this function.
            *lane = unsafe { x.add(j).read() }.cast();
        }
        end
    }
}

macro_rules! reducible {
    ($($t:ty: $lane:ty, $acc:ty $(, $end:ident)?;)+) => {$(
        impl Reducible for $t {
            type Lane = $lane;
            type Acc = $acc;
            $(#[cfg(target_arch = "x86_64")]
            #[inline(always)]
            unsafe fn end<I: Isa, F: Fold>(x: *const $t, n: usize) -> [$lane; LANES] {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { $end::<I, F>(x, n) }
            })?
        }
    )+};
}

/// [`Reducible::end`] by loads under masks: lanes that were written one by one would be read as vectors only after a wait.
///
/// # Safety
/// `x` holds `n` elements; the processor has the instructions of `I`, for which this function is compiled.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn masked<I: Isa, F: Fold>(x: *const f32, n: usize) -> [f32; LANES] {
    use std::arch::x86_64::*;
    let mut end: [f32; LANES] = [F::start(); LANES];
    // SAFETY: the caller upholds the contract of this function; masks leave out elements that are not there, and a
    // vector of lanes lies within the array.
    unsafe {
        match I::LEVEL {
            Level::Avx512 => {
                let mask = (1u32 << n) - 1;
                for half in 0..2 {
                    let lanes = end.as_mut_ptr().add(16 * half);
                    let there = (mask >> (16 * half)) as __mmask16;
                    let found = _mm512_mask_loadu_ps(_mm512_loadu_ps(lanes), there, x.wrapping_add(16 * half));
                    _mm512_storeu_ps(lanes, found);
                }
            }
            Level::Avx2 => {
                for part in 0..4 {
                    let lanes = end.as_mut_ptr().add(8 * part);
                    let number =
                        _mm256_add_epi32(_mm256_set1_epi32(8 * part as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
                    let there = _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), number);
                    let found = _mm256_maskload_ps(x.wrapping_add(8 * part), there);
                    _mm256_storeu_ps(
                        lanes,
                        _mm256_blendv_ps(_mm256_loadu_ps(lanes), found, _mm256_castsi256_ps(there)),
                    );
                }
            }
            Level::Baseline => {
                for (j, lane) in end.iter_mut().enumerate().take(n) {
                    *lane = x.add(j).read();
                }
            }
        }
    }
    end
}
reducible! {
    u8: i64, i64;
    i8: i64, i64;
    i16: i64, i64;
    i32: i64, i64;
    i64: i64, i64;
    f32: f32, f64, masked;
    f64: f64, f64;
}
