//! Sums over windows of several channels at once, for products of one row such as depthwise convolutions: a vector has one
//! place of [`LANES`] channels, so that narrow planes fill it.

use crate::math::Isa;
use crate::multi::multi;

/// The channels of a vector.
pub const LANES: usize = 16;
/// At most this many windows of a row are summed together, because their sums and a factor stay in registers.
pub const MOST: usize = 8;

/// Windows over planes whose channels lie side by side, with room around them, and their sums.
#[derive(Clone, Copy, Debug)]
pub struct ChannelPlanes<'a> {
    /// The first term of the first window.
    pub from: *const f32,
    /// The distances in elements from window to window, down and across.
    pub steps: (usize, usize),
    /// The distance of each term from the first, in elements.
    pub terms: &'a [u32],
    /// The factors of each term.
    pub factors: *const f32,
    /// The first sum; those of a row of windows follow each other, and so do the rows.
    pub to: *mut f32,
    /// The rows and columns of windows.
    pub windows: (usize, usize),
}

multi! {
    /// Computes the sums, term by term in the order of the terms.
    ///
    /// # Safety
    /// Each window has its terms; there are [`LANES`] factors for each term; the sums have room and overlap no operand.
    unsafe fn window_sums(p: &ChannelPlanes<'_>) {
        // AVX-512 has 32 registers of a whole vector, the others 16 of a half.
        let most = if I::LEVEL == Level::Avx512 { MOST } else { MOST / 2 };
        let blocks = p.windows.1.div_ceil(most);
        for row in 0..p.windows.0 {
            for block in 0..blocks {
                let (first, end) = (p.windows.1 * block / blocks, p.windows.1 * (block + 1) / blocks);
                let from = p.from.wrapping_add(row * p.steps.0 + first * p.steps.1);
                let to = p.to.wrapping_add((row * p.windows.1 + first) * LANES);
                // SAFETY: the caller upholds the contract; these windows exist.
                unsafe {
                    match end - first {
                        8 => sums::<I, 8>(p, from, to),
                        7 => sums::<I, 7>(p, from, to),
                        6 => sums::<I, 6>(p, from, to),
                        5 => sums::<I, 5>(p, from, to),
                        4 => sums::<I, 4>(p, from, to),
                        3 => sums::<I, 3>(p, from, to),
                        2 => sums::<I, 2>(p, from, to),
                        _ => sums::<I, 1>(p, from, to),
                    }
                }
            }
        }
    }
}

/// Computes the sums of `N` windows of a row.
///
/// # Safety
/// The contract of [`window_sums`] holds; `from` is the first term of the first of them, `to` its sum.
// Indices step through registers and memory at once, and their constant bounds let the compiler unroll the loops.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
unsafe fn sums<I: Isa, const N: usize>(p: &ChannelPlanes<'_>, from: *const f32, to: *mut f32) {
    let mut sums = [[0.0f32; LANES]; N];
    for (term, at) in p.terms.iter().enumerate() {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let factors = (p.factors.add(term * LANES) as *const [f32; LANES]).read_unaligned();
            for i in 0..N {
                let elements = (from.add(*at as usize + i * p.steps.1) as *const [f32; LANES]).read_unaligned();
                for lane in 0..LANES {
                    sums[i][lane] = I::fma(factors[lane], elements[lane], sums[i][lane]);
                }
            }
        }
    }
    for i in 0..N {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { (to.add(i * LANES) as *mut [f32; LANES]).write_unaligned(sums[i]) };
    }
}
