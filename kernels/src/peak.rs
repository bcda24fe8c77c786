//! The speed of products and sums that this processor can reach, for floors of measured times.

use crate::abi::Level;

/// Multiplies and adds numbers that stay in registers, as often as the argument says, so that neither memory nor a result
/// that is not ready holds it up. Returns the number of floating-point operations, and a sum without which they would be
/// left out.
pub type Fn = unsafe fn(usize) -> (f64, f32);

/// The function for an instruction set that this CPU has.
pub fn pick(isa: Level) -> Fn {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => x86::avx512,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => x86::avx2,
        _ => baseline,
    }
}

/// The numbers of a row.
const LANES: usize = 4;
/// The rows, as many as results are under way at once.
const ROWS: usize = 10;
const FACTOR: f32 = 0.999;
const ADDEND: f32 = 0.25;

/// # Safety
/// None.
unsafe fn baseline(times: usize) -> (f64, f32) {
    let mut sums = [[1.0f32; LANES]; ROWS];
    for _ in 0..times {
        // LLVM makes a vector of a row only if it is a value of its own.
        for row in &mut sums {
            let mut next = *row;
            for x in &mut next {
                *x = *x * FACTOR + ADDEND;
            }
            *row = next;
        }
    }
    ((2 * ROWS * LANES * times) as f64, sums.as_flattened().iter().sum())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ADDEND, FACTOR, ROWS};
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn avx512(times: usize) -> (f64, f32) {
        let (factor, addend) = (_mm512_set1_ps(FACTOR), _mm512_set1_ps(ADDEND));
        let mut sums = [_mm512_set1_ps(1.0); ROWS];
        for _ in 0..times {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(*sum, factor, addend);
            }
        }
        let all = sums.into_iter().fold(_mm512_setzero_ps(), |all, sum| _mm512_add_ps(all, sum));
        ((2 * ROWS * 16 * times) as f64, _mm512_reduce_add_ps(all))
    }

    /// # Safety
    /// The CPU has AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn avx2(times: usize) -> (f64, f32) {
        let (factor, addend) = (_mm256_set1_ps(FACTOR), _mm256_set1_ps(ADDEND));
        let mut sums = [_mm256_set1_ps(1.0); ROWS];
        for _ in 0..times {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(*sum, factor, addend);
            }
        }
        let all = sums.into_iter().fold(_mm256_setzero_ps(), |all, sum| _mm256_add_ps(all, sum));
        // SAFETY: a vector has eight numbers.
        let all: [f32; 8] = unsafe { std::mem::transmute(all) };
        ((2 * ROWS * 8 * times) as f64, all.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_counts_its_operations() {
        for (isa, lanes) in Level::ALL.into_iter().zip([4.0, 8.0, 16.0]).filter(|(isa, _)| *isa <= Level::current()) {
            // SAFETY: the processor has the instruction set.
            let (operations, sum) = unsafe { pick(isa)(3) };
            let each = (0..3).fold(1.0f64, |x, _| x * 0.999 + 0.25);
            assert_eq!(operations, 2.0 * 3.0 * 10.0 * lanes);
            assert!((f64::from(sum) - 10.0 * lanes * each).abs() < 1e-2, "{isa:?}: {sum}");
        }
    }
}
