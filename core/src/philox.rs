//! Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as
//! 1, 2, 3", SC 2011).
//!
//! A number is a pure function of (seed, site, position, draw), so every executor, thread count and order of evaluation
//! gives the same bits. All numbers are multiples of 2^-24 in [0, 1): exact in f32 and f64, so that the interpreter
//! (f64) and the kernels (f32) agree. A row that needs a finer number joins two draws.
//!
//! **Definition.** key = (seed low, seed high); counter = (b low, b high, site low, site high ^ reversed bits of draw)
//! with b = position / 4; the number is lane position % 4 of that block. Consecutive positions share a block, which
//! makes [`fill_uniform`] four times cheaper than one block per position. Reversing the draw's bits keeps it apart from
//! small values of the upper half of the site.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The key's increments per round: the golden ratio and the square root of 3, less 1, as 32-bit fractions.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Blocks computed side by side in [`fill_uniform`]: the widest vector of u32 that a machine has.
const BLOCKS: usize = 16;

/// One block of Philox4x32-10.
#[inline(always)]
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..ROUNDS {
        let p = a as u64 * MULTIPLIERS[0] as u64;
        let q = c as u64 * MULTIPLIERS[1] as u64;
        (a, b, c, d) = ((q >> 32) as u32 ^ b ^ k0, q as u32, (p >> 32) as u32 ^ d ^ k1, p as u32);
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [a, b, c, d]
}

#[inline(always)]
fn block(seed: u64, site: u64, index: u64, draw: u32) -> [u32; 4] {
    let counter = [index as u32, (index >> 32) as u32, site as u32, (site >> 32) as u32 ^ draw.reverse_bits()];
    philox4x32(counter, [seed as u32, (seed >> 32) as u32])
}

/// 2^-24 times the upper 24 bits.
#[inline(always)]
fn fraction(bits: u32) -> f32 {
    (bits >> 8) as i32 as f32 * (1.0 / (1 << 24) as f32)
}

/// The number in [0, 1) of this key, position and draw; a multiple of 2^-24.
#[inline(always)]
pub fn uniform(seed: u64, site: u64, position: u64, draw: u32) -> f32 {
    fraction(block(seed, site, position / 4, draw)[(position % 4) as usize])
}

/// The numbers of positions `start..start + out.len()` (positions wrap at 2^64), equal to [`uniform`] bit for bit.
///
/// Always inlined, so that kernels compile it for the instruction set of their caller.
#[inline(always)]
pub fn fill_uniform(seed: u64, site: u64, draw: u32, start: u64, out: &mut [f32]) {
    let head = out.len().min(((4 - start % 4) % 4) as usize);
    let (head, rest) = out.split_at_mut(head);
    for (i, x) in head.iter_mut().enumerate() {
        *x = uniform(seed, site, start.wrapping_add(i as u64), draw);
    }
    let first = start.wrapping_add(head.len() as u64);
    let mut index = first / 4;
    let mut groups = rest.chunks_exact_mut(4 * BLOCKS);
    for group in &mut groups {
        let words = blocks(seed, site, index, draw);
        for (i, four) in group.chunks_exact_mut(4).enumerate() {
            for (x, lane) in four.iter_mut().zip(&words) {
                *x = fraction(lane[i]);
            }
        }
        index = wrap_block(index.wrapping_add(BLOCKS as u64));
    }
    for chunk in groups.into_remainder().chunks_mut(4) {
        for (x, word) in chunk.iter_mut().zip(block(seed, site, index, draw)) {
            *x = fraction(word);
        }
        index = wrap_block(index.wrapping_add(1));
    }
}

/// The words of the blocks from `first` on, lane by lane.
///
/// Words sit in the lower halves of u64s: the products then need no conversions, and garbage in the upper halves is
/// masked away where it would count.
#[inline(always)]
fn blocks(seed: u64, site: u64, first: u64, draw: u32) -> [[u32; BLOCKS]; 4] {
    const LOW: u64 = 0xFFFF_FFFF;
    let mut words = [[0; BLOCKS]; 4];
    #[allow(clippy::needless_range_loop, reason = "i runs over four arrays")]
    for i in 0..BLOCKS {
        let index = wrap_block(first.wrapping_add(i as u64));
        let [mut a, mut b, mut c, mut d] = [index, index >> 32, site, site >> 32 ^ draw.reverse_bits() as u64];
        let [mut k0, mut k1] = [seed & LOW, seed >> 32];
        for _ in 0..ROUNDS {
            let p = (a & LOW) * MULTIPLIERS[0] as u64;
            let q = (c & LOW) * MULTIPLIERS[1] as u64;
            (a, b, c, d) = (q >> 32 ^ b ^ k0, q, p >> 32 ^ d ^ k1, p);
            k0 = k0.wrapping_add(WEYL[0] as u64);
            k1 = k1.wrapping_add(WEYL[1] as u64);
        }
        words[0][i] = a as u32;
        words[1][i] = b as u32;
        words[2][i] = c as u32;
        words[3][i] = d as u32;
    }
    words
}

/// Positions wrap at 2^64, so blocks wrap at 2^62.
#[inline(always)]
fn wrap_block(index: u64) -> u64 {
    index & (u64::MAX >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors published with Random123 (`kat_vectors`, philox4x32 10).
    #[test]
    fn known_answers() {
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
        assert_eq!(philox4x32([!0; 4], [!0; 2]), [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]);
        let pi = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344];
        assert_eq!(philox4x32(pi, [0xa4093822, 0x299f31d0]), [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]);
    }

    #[test]
    fn fill_equals_single_numbers() {
        for (start, len) in [(0, 300), (1, 257), (3, 2), (2, 0), (u32::MAX as u64 * 4 - 7, 200), (u64::MAX - 5, 150)] {
            let mut out = vec![0.0; len];
            fill_uniform(7, 11 << 32 | 5, 3, start, &mut out);
            for (i, x) in out.iter().enumerate() {
                assert_eq!(*x, uniform(7, 11 << 32 | 5, start.wrapping_add(i as u64), 3), "{start} + {i}");
            }
        }
    }

    #[test]
    fn each_argument_matters() {
        let base = uniform(1, 2, 3, 0);
        let others = [uniform(2, 2, 3, 0), uniform(1, 3, 3, 0), uniform(1, 2, 4, 0), uniform(1, 2, 3, 1)];
        assert!(others.iter().all(|x| *x != base));
        let upper =
            [uniform(1 << 32, 0, 0, 0), uniform(0, 1 << 32, 0, 0), uniform(0, 0, 1 << 34, 0), uniform(0, 0, 0, 0)];
        for (i, x) in upper.iter().enumerate() {
            assert!(upper[..i].iter().all(|y| y != x));
        }
    }

    #[test]
    fn numbers_are_uniform_and_below_one() {
        let mut out = vec![0.0; 1 << 16];
        fill_uniform(42, 0, 0, 0, &mut out);
        assert!(out.iter().all(|x| (0.0..1.0).contains(x) && (x * 16_777_216.0).fract() == 0.0));
        let n = out.len() as f64;
        let mean = out.iter().map(|x| *x as f64).sum::<f64>() / n;
        // Five standard deviations of the mean of n uniform numbers.
        assert!((mean - 0.5).abs() < 5.0 / (12.0 * n).sqrt(), "{mean}");
        assert_eq!(fraction(u32::MAX), 1.0 - f32::EPSILON / 2.0);
    }
}
