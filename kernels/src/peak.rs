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
        #[cfg(target_arch = "x86_64")]
        Level::Baseline => x86::sse,
        #[cfg(not(target_arch = "x86_64"))]
        _ => scalar,
    }
}

/// The vectors, as many as results are under way at once.
const VECTORS: usize = 10;
const FACTOR: f32 = 0.999;
const ADDEND: f32 = 0.25;

/// One number at a time, so that the compiler's vectors decide: on these processors the peak may be higher.
///
/// # Safety
/// None.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn scalar(times: usize) -> (f64, f32) {
    let mut sums = [1.0f32; 4 * VECTORS];
    for _ in 0..times {
        sums = sums.map(|x| x * FACTOR + ADDEND);
    }
    ((2 * sums.len() * times) as f64, sums.iter().sum())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ADDEND, FACTOR, VECTORS};
    use std::arch::x86_64::*;

    /// The function of an instruction set, whose vectors have this number of lanes.
    macro_rules! multiply_add {
        ($name:ident $features:literal $lanes:literal $all:ident |$sum:ident, $factor:ident, $addend:ident| $next:expr) => {
            #[doc = concat!("# Safety\nThe CPU has `", $features, "`.")]
            #[target_feature(enable = $features)]
            pub(super) unsafe fn $name(times: usize) -> (f64, f32) {
                let ($factor, $addend) = ($all(FACTOR), $all(ADDEND));
                let mut sums = [$all(1.0); VECTORS];
                for _ in 0..times {
                    for sum in &mut sums {
                        let $sum = *sum;
                        *sum = $next;
                    }
                }
                // SAFETY: a vector consists of its numbers.
                let all: [[f32; $lanes]; VECTORS] = unsafe { std::mem::transmute(sums) };
                ((2 * VECTORS * $lanes * times) as f64, all.as_flattened().iter().sum())
            }
        };
    }

    multiply_add!(avx512 "avx512f" 16 _mm512_set1_ps |x, f, a| _mm512_fmadd_ps(x, f, a));
    multiply_add!(avx2 "avx2,fma" 8 _mm256_set1_ps |x, f, a| _mm256_fmadd_ps(x, f, a));
    multiply_add!(sse "sse2" 4 _mm_set1_ps |x, f, a| _mm_add_ps(_mm_mul_ps(x, f), a));
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
