//! x^y through f64: 2^(y log2 |x|), with a logarithm accurate to 1e-12, because y multiplies its error by up to 150.

use super::{horner64, pick};
use crate::math::Isa;

/// 2 atanh(s) / (s ln 2) in s²: 8e-14.
const LOG2: [f64; 6] = [
    2.8853900817778495,
    0.9617966941142547,
    0.5770779420750959,
    0.4122092838714003,
    0.31990432209829334,
    0.2829209059473691,
];
/// 2^r for |r| ≤ 1/2: 4e-11.
const EXP2: [f64; 8] = [
    0.9999999999616884,
    0.6931471807284337,
    0.24022651198170034,
    0.05550410353466001,
    0.00961802725048123,
    0.0013333922541673227,
    0.00015469292228075806,
    1.5201928657274308e-05,
];
/// The bits of √½ in f64.
const SQRT_HALF: u64 = 0x3FE6_A09E_667F_3BCD;
/// Adding 1.5·2⁵² rounds to an integer in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// log2 of a positive f32, subnormal or not: in f64 it is normal.
#[inline(always)]
fn log2<I: Isa>(x: f32) -> f64 {
    let bits = (x as f64).to_bits().wrapping_sub(SQRT_HALF);
    // The exponent, converted through the magic number: there is no vector conversion from i64 before AVX-512.
    let e = f64::from_bits(((bits as i64 >> 52) as u64).wrapping_add(MAGIC.to_bits())) - MAGIC;
    let f = f64::from_bits((bits & 0xF_FFFF_FFFF_FFFF).wrapping_add(SQRT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    I::fma64(s, horner64::<I, 6>(s * s, LOG2), e)
}

/// 2^z, rounded once to f32.
#[inline(always)]
fn exp2<I: Isa>(z: f64) -> f32 {
    let z = pick(-200.0 > z, -200.0, z);
    let z = pick(200.0 < z, 200.0, z);
    let t = z + MAGIC;
    let p = horner64::<I, 8>(z - (t - MAGIC), EXP2);
    let power = f64::from_bits(t.to_bits().wrapping_add(1023) << 52);
    (p * power) as f32
}

#[inline(always)]
pub(super) fn pow<I: Isa>(x: f32, y: f32) -> f32 {
    let a = f32::abs(x);
    let log = log2::<I>(a);
    let log = pick(a == 0.0, f64::NEG_INFINITY, log);
    let log = pick(a < f32::INFINITY, log, a as f64);
    let power = exp2::<I>(log * y as f64);
    // |x| = 1 gives 1 also for infinite and NaN y, where the product above is NaN.
    let one = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (f32::abs(y) == f32::INFINITY));
    let power = pick(one, 1.0, power);
    let whole = crate::math::trunc::<I, f32>(y) == y;
    let half = 0.5 * y;
    let odd = whole & (crate::math::trunc::<I, f32>(half) != half);
    let sign = pick(odd, x.to_bits() & 0x8000_0000, 0);
    let power = f32::from_bits(power.to_bits() ^ sign);
    // A finite negative base has a real power only for integers.
    let undefined = (x < 0.0) & (x > f32::NEG_INFINITY) & !whole & !f32::is_nan(y);
    pick(undefined, f32::NAN, power)
}
