//! The speed of products and sums that this processor can reach, for floors of measured times.

use crate::abi::Level;
use crate::multi::multi;

multi! {
    /// Multiplies and adds `times` times numbers that stay in registers, so that neither memory nor a result that is not
    /// ready holds it up. Returns the number of floating-point operations, and a sum without which they would be
    /// left out.
    ///
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn multiply_add(times: usize) -> (f64, f32) {
        const LANES: usize = 16;
        // AVX2 has half as many registers of half the size.
        let rows = if I::LEVEL == Level::Avx512 { 8 } else { 5 };
        let mut sums = [[1.0f32; LANES]; 8];
        for _ in 0..times {
            for row in &mut sums[..rows] {
                for x in row {
                    *x = I::fma(*x, 0.999, 0.25);
                }
            }
        }
        let sum = sums.iter().flatten().sum();
        ((2 * rows * LANES * times) as f64, sum)
    }
}
