//! sinh, cosh and the inverse hyperbolic functions.

use super::exponential::half_exp;
use super::logarithm::{log1p, log1p_doubled};
use super::{horner, pick, with_sign};
use crate::math::Isa;

/// (sinh x - x) / x³ in x², for x ≤ 1: 8e-11.
const SINH: [f32; 4] = [0.16666667, 0.0083333505, 0.00019835871, 2.819029e-06];
/// 2²⁸: beyond, √(x² ± 1) is x, and x² would overflow.
const HUGE: f32 = 268_435_456.0;

#[inline(always)]
pub(super) fn sinh<I: Isa>(x: f32) -> f32 {
    let a = f32::abs(x);
    let z = a * a;
    let small = I::fma(a * z, horner::<I, 4>(z, SINH), a);
    let e = half_exp::<I>(a);
    with_sign(pick(a < 1.0, small, e - 0.25 / e), x)
}

#[inline(always)]
pub(super) fn cosh<I: Isa>(x: f32) -> f32 {
    let e = half_exp::<I>(f32::abs(x));
    e + 0.25 / e
}

#[inline(always)]
pub(super) fn asinh<I: Isa>(x: f32) -> f32 {
    let a = f32::abs(x);
    let huge = a > HUGE;
    let z = a * a;
    let t = a + z / (1.0 + f32::sqrt(1.0 + z));
    with_sign(log1p_doubled::<I>(pick(huge, a, t), huge), x)
}

#[inline(always)]
pub(super) fn acosh<I: Isa>(x: f32) -> f32 {
    let huge = x > HUGE;
    let t = x - 1.0;
    let value = log1p_doubled::<I>(pick(huge, x, t + f32::sqrt(t * (x + 1.0))), huge);
    pick(x < 1.0, f32::NAN, value)
}

#[inline(always)]
pub(super) fn atanh<I: Isa>(x: f32) -> f32 {
    let a = f32::abs(x);
    with_sign(0.5 * log1p::<I>(2.0 * a / (1.0 - a)), x)
}
