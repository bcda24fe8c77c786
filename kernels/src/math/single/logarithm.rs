//! Logarithms: x = 2^e m with m between √½ and √2, then ln m = f - f²/2 + f³ P(f) with f = m - 1.

use super::{LN_2, horner, pick};
use crate::math::Isa;
use std::f32::consts::LOG2_E;

/// (ln(1+f) - f + f²/2) / f³ on √½-1..√2-1, relative to ln(1+f): 6e-9.
const P: [f32; 8] = [0.3333333, -0.25000823, 0.20001227, -0.16623357, 0.14201751, -0.13160184, 0.12761621, -0.07634547];
/// The bits of √½: subtracting them puts the exponent's change at √½ and √2.
const SQRT_HALF: u32 = 0x3F35_04F3;
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// log10(2), log10(e) and log2(e) - 1 in an upper part of few bits and the rest (Cephes).
const LOG10_2_HIGH: f32 = 0.300_781_25;
const LOG10_2_LOW: f32 = 2.487_456_6e-4;
const LOG10_E_HIGH: f32 = 0.433_593_75;
const LOG10_E_LOW: f32 = 7.007_319e-4;

/// (e, m) with x = 2^e m for positive, normal x.
#[inline(always)]
fn split(x: f32) -> (i32, f32) {
    let bits = x.to_bits().wrapping_sub(SQRT_HALF);
    (bits as i32 >> 23, f32::from_bits((bits & 0x7F_FFFF).wrapping_add(SQRT_HALF)))
}

/// (e, f, ln(1+f) - f) with x = 2^e (1+f), for positive x, subnormal ones too.
#[inline(always)]
fn reduce<I: Isa>(x: f32) -> (f32, f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let (e, m) = split(pick(tiny, x * 33_554_432.0, x));
    let f = m - 1.0;
    (e as f32 - pick(tiny, 25.0, 0.0), f, tail::<I>(f))
}

/// ln(1+f) - f
#[inline(always)]
fn tail<I: Isa>(f: f32) -> f32 {
    let z = f * f;
    I::fma(z * f, horner::<I, 8>(f, P), -0.5 * z)
}

/// `value` where x is positive and finite; the limits elsewhere.
#[inline(always)]
fn limits(x: f32, value: f32) -> f32 {
    let value = pick(x < f32::INFINITY, value, x);
    let value = pick(x < 0.0, f32::NAN, value);
    pick(x == 0.0, f32::NEG_INFINITY, value)
}

#[inline(always)]
pub(super) fn ln<I: Isa>(x: f32) -> f32 {
    let (e, f, t) = reduce::<I>(x);
    limits(x, I::fma(e, LN2_HIGH, f + I::fma(e, LN2_LOW, t)))
}

#[inline(always)]
pub(super) fn log2<I: Isa>(x: f32) -> f32 {
    let (e, f, t) = reduce::<I>(x);
    // (f + t) log2(e), with the 1 of log2(e) split off, which adds without rounding.
    let low = I::fma(t, LOG2_E - 1.0, f * (LOG2_E - 1.0)) + t;
    limits(x, (low + f) + e)
}

#[inline(always)]
pub(super) fn log10<I: Isa>(x: f32) -> f32 {
    let (e, f, t) = reduce::<I>(x);
    let low = I::fma(f + t, LOG10_E_LOW, e * LOG10_2_LOW);
    let value = I::fma(e, LOG10_2_HIGH, I::fma(f, LOG10_E_HIGH, I::fma(t, LOG10_E_HIGH, low)));
    limits(x, value)
}

#[inline(always)]
pub(super) fn log1p<I: Isa>(x: f32) -> f32 {
    // 1 + x = u + d exactly (two-sum); d is added to the fraction, scaled by u's exponent.
    let u = 1.0 + x;
    let v = u - 1.0;
    let d = (1.0 - (u - v)) + (x - v);
    let (e, m) = split(u);
    // 2^-e, in two factors because e reaches 128.
    let half = e >> 1;
    let scale = |n: i32| f32::from_bits((127i32.wrapping_sub(n) as u32) << 23);
    let f = (m - 1.0) + d * scale(half) * scale(e.wrapping_sub(half));
    let e = e as f32;
    let value = I::fma(e, LN2_HIGH, f + I::fma(e, LN2_LOW, tail::<I>(f)));
    let value = limits(u, value);
    // The sign of zero.
    pick(x == 0.0, x, value)
}

/// ln(1+x) + ln 2 where `double` holds.
#[inline(always)]
pub(super) fn log1p_doubled<I: Isa>(x: f32, double: bool) -> f32 {
    log1p::<I>(x) + pick(double, LN_2, 0.0)
}
