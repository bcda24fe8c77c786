//! Sine, cosine and tangent for every f32, without a branch for large arguments.
//!
//! x = m 2^k with an integer m below 2²⁴. For each of the 256 exponents a table holds 2^k·2/π mod 4 as two f64: an
//! upper part of 29 bits, so that its product with m is exact, and the rest. Quadrant and remainder then have an
//! absolute error below 2^-56 of a quadrant, while no f32 lies nearer than 2^-31 to a multiple of π/2.

use super::{horner, pick};
use crate::math::Isa;

include!("two_over_pi.rs");

/// Adding 1.5·2⁵² rounds to an integer in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;
/// (sin r - r) / r³ in r², relative to sin r: 6e-9.
const SIN: [f32; 3] = [-0.16666655, 0.008332099, -0.00019503628];
/// (cos r - 1 + r²/2) / r⁴ in r²: 2e-10.
const COS: [f32; 3] = [0.041666653, -0.0013887652, 2.4463501e-05];

/// (q, r) with |x| = (4 n + q) π/2 + r, |r| ≤ π/4. NaN and infinite x give NaN.
#[inline(always)]
fn reduce<I: Isa>(x: f32) -> (u32, f32) {
    let bits = x.to_bits() & 0x7FFF_FFFF;
    let [high, low] = TWO_OVER_PI[(bits >> 23) as usize & 0xFF];
    let m = ((bits & 0x7F_FFFF | 0x80_0000) as i32) as f64;
    let a = m * high;
    let t = I::fma64(m, low, a) + MAGIC;
    let r = I::fma64(m, low, a - (t - MAGIC)) * std::f64::consts::FRAC_PI_2;
    (t.to_bits() as u32, r as f32)
}

/// sin r and cos r for |r| ≤ π/4.
#[inline(always)]
fn sin_cos<I: Isa>(r: f32) -> (f32, f32) {
    let z = r * r;
    let sin = I::fma(z * r, horner::<I, 3>(z, SIN), r);
    let cos = I::fma(z * z, horner::<I, 3>(z, COS), I::fma(z, -0.5, 1.0));
    (sin, cos)
}

/// x with its sign flipped where bit 1 of `flip` is set.
#[inline(always)]
fn flip_sign(x: f32, flip: u32) -> f32 {
    f32::from_bits(x.to_bits() ^ (flip & 2) << 30)
}

/// Below this, sin x and tan x are x; it also covers subnormals, for which the table has no entry.
const TINY: f32 = 2e-4;

#[inline(always)]
pub(super) fn sin<I: Isa>(x: f32) -> f32 {
    let (q, r) = reduce::<I>(x);
    let (s, c) = sin_cos::<I>(r);
    let value = flip_sign(pick(q & 1 == 0, s, c), q);
    let value = f32::from_bits(value.to_bits() ^ x.to_bits() & 0x8000_0000);
    pick(f32::abs(x) < TINY, x, value)
}

#[inline(always)]
pub(super) fn cos<I: Isa>(x: f32) -> f32 {
    let (q, r) = reduce::<I>(x);
    let (s, c) = sin_cos::<I>(r);
    flip_sign(pick(q & 1 == 0, c, s), q.wrapping_add(1))
}

#[inline(always)]
pub(super) fn tan<I: Isa>(x: f32) -> f32 {
    let (q, r) = reduce::<I>(x);
    let (s, c) = sin_cos::<I>(r);
    let even = q & 1 == 0;
    let (numerator, denominator) = (pick(even, s, -c), pick(even, c, s));
    let value = numerator / denominator;
    let value = f32::from_bits(value.to_bits() ^ x.to_bits() & 0x8000_0000);
    pick(f32::abs(x) < TINY, x, value)
}
