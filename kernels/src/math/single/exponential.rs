//! e^x and functions derived from it.
//!
//! x = n ln 2 + r with |r| ≤ ln 2 / 2; n comes out of the low bits of x log2(e) + 1.5·2²³, so nothing is converted to
//! integers, and e^r is a polynomial.

use super::{LN_2, horner, pick, with_sign};
use crate::math::Isa;
use std::f32::consts::LOG2_E;

/// Adding 1.5·2²³ rounds to an integer in the low bits; 254 is the bias of two exponents.
const MAGIC: f32 = 12_582_912.0 + 254.0;
/// ln 2 in two parts; the upper has 9 bits, so its product with n is exact (Cephes).
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// (e^r - 1 - r) / r², relative to e^r: 3e-9.
pub(super) const EXP: [f32; 5] = [0.49999994, 0.16666521, 0.04166839, 0.008368717, 0.0013814612];
/// (e^r - 1 - r) / r², relative to e^r - 1: 5e-10.
const EXPM1: [f32; 6] = [0.5, 0.16666667, 0.04166624, 0.008333286, 0.0013948593, 0.00019907585];

/// (t, r) with x = n ln 2 + r and n + 254 in the low bits of t.
#[inline(always)]
fn reduce<I: Isa>(x: f32) -> (f32, f32) {
    let t = I::fma(x, LOG2_E, MAGIC);
    let n = t - MAGIC;
    (t, I::fma(n, -LN2_LOW, I::fma(n, -LN2_HIGH, x)))
}

/// p 2^n for n in -252..=254, as two factors, so that subnormal results round once and large ones overflow. The two
/// exponents add up to n + 254; the higher bits of t are shifted out.
#[inline(always)]
fn scale(p: f32, t: f32) -> f32 {
    let sum = t.to_bits();
    let half = sum >> 1;
    p * f32::from_bits(half << 23) * f32::from_bits(sum.wrapping_sub(half) << 23)
}

/// e^r for |r| ≤ ln 2 / 2.
#[inline(always)]
fn exp_core<I: Isa>(r: f32) -> f32 {
    I::fma(r, I::fma(r, horner::<I, 5>(r, EXP), 1.0), 1.0)
}

/// x within low..=high; NaN stays.
#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = pick(low > x, low, x);
    pick(high < x, high, x)
}

/// x clamped to where e^x is neither 0 nor infinite, with a small margin.
#[inline(always)]
fn clamp_exp(x: f32) -> f32 {
    clamp(x, -105.0, 90.0)
}

#[inline(always)]
pub(super) fn exp<I: Isa>(x: f32) -> f32 {
    let (t, r) = reduce::<I>(clamp_exp(x));
    scale(exp_core::<I>(r), t)
}

/// [`MAGIC`] without bias.
const UNBIASED: f32 = 12_582_912.0;
/// The |x| up to which e^x and all intermediate results are normal: |n| ≤ 124, and the polynomial is at least 0.7.
pub(super) const NORMAL: f32 = 86.0;

/// [`exp`] for |x| up to [`NORMAL`]: 2^n is added to the exponent of the polynomial, which gives bits equal to those of
/// the two products.
#[inline(always)]
pub(super) fn exp_normal<I: Isa>(x: f32) -> f32 {
    let t = I::fma(x, LOG2_E, UNBIASED);
    let n = t - UNBIASED;
    let p = exp_core::<I>(I::fma(n, -LN2_LOW, I::fma(n, -LN2_HIGH, x)));
    f32::from_bits(p.to_bits().wrapping_add(t.to_bits() << 23))
}

/// e^(x + low) for a small correction `low`.
#[inline(always)]
pub(super) fn exp_of_sum<I: Isa>(x: f32, low: f32) -> f32 {
    let (t, r) = reduce::<I>(clamp_exp(x));
    scale(exp_core::<I>(r + low), t)
}

/// e^x / 2, which overflows later than e^x.
#[inline(always)]
pub(super) fn half_exp<I: Isa>(x: f32) -> f32 {
    let (t, r) = reduce::<I>(clamp_exp(x));
    // The integer below: t has no fraction bits.
    scale(exp_core::<I>(r), t - 1.0)
}

#[inline(always)]
pub(super) fn exp2<I: Isa>(x: f32) -> f32 {
    let x = clamp(x, -151.0, 129.0);
    let t = x + MAGIC;
    scale(exp_core::<I>((x - (t - MAGIC)) * LN_2), t)
}

#[inline(always)]
pub(super) fn expm1<I: Isa>(x: f32) -> f32 {
    // e^-18 is less than half an ulp of 1.
    let (t, r) = reduce::<I>(clamp(x, -18.0, 89.0));
    let p = I::fma(r * r, horner::<I, 6>(r, EXPM1), r);
    // 2^(n-1) p + (2^(n-1) - 1/2), so that n = 128 does not overflow in between. The exponent n - 1 has the bias 127.
    let power = f32::from_bits(t.to_bits().wrapping_sub(128) << 23);
    with_sign(2.0 * I::fma(power, p, power - 0.5), x)
}

/// [`UNBIASED`] with the bias of one exponent.
const BIASED: f32 = 12_582_912.0 + 127.0;

/// e^x - 1 for |x| ≤ 20, without the sign of zero, for functions that flatten for large |x|. ln 2 is one number with an
/// error of 2e-9, which causes a relative error of 2e-9 |x| / ln 2 in e^x. `p` is (e^r - 1 - r) / r².
#[inline(always)]
pub(super) fn expm1_flat<I: Isa, const N: usize>(x: f32, p: [f32; N]) -> f32 {
    let t = I::fma(x, LOG2_E, BIASED);
    let r = I::fma(t - BIASED, -LN_2, x);
    let p = I::fma(r * r, horner::<I, N>(r, p), r);
    let power = f32::from_bits(t.to_bits() << 23);
    I::fma(power, p, power - 1.0)
}

#[inline(always)]
pub(super) fn tanh<I: Isa>(x: f32) -> f32 {
    // e / (e + 2) with e = e^2|x| - 1. Beyond 9.5 the quotient rounds to 1; clamping keeps subnormals away.
    let a = f32::abs(x);
    let e = expm1_flat::<I, 6>(2.0 * pick(a > 9.5, 9.5, a), EXPM1);
    with_sign(e / (e + 2.0), x)
}

#[inline(always)]
pub(super) fn sigmoid<I: Isa>(x: f32) -> f32 {
    // One exponential whose argument is never positive: nothing overflows, and small results keep their digits.
    let e = exp::<I>(-f32::abs(x));
    let numerator = pick(x >= 0.0, 1.0, e);
    numerator / (1.0 + e)
}
