//! The error function, its complement and its inverse.

use super::exponential::{EXP, exp_of_sum, expm1_flat};
use super::logarithm::ln;
use super::{horner, pick, with_sign};
use crate::math::Isa;

/// -ln erfc(x) / x - 1 for x in 0..4, relative to erf: 4e-9.
const ERF: [f32; 9] = [
    0.12837917,
    0.6366194,
    0.10277783,
    -0.019153064,
    -0.00016039722,
    0.0016670288,
    -0.0006328376,
    0.00011764149,
    -9.256291e-06,
];
/// erf(x) = x + x P(x²) below 475/512; N. Juffa's coefficients (public domain).
const NEAR: [f32; 6] = [0.12837917, -0.37612534, 1.128_199_25e-1, -0.026768135, 0.0049911942, -0.0005967617];
/// (t + 2) e^t² erfc(t) in (2 - t) / (2 + t), for t in 0..10.2: 3.5e-9.
const ERFCX: [f32; 11] = [
    1.0215827,
    0.6871607,
    0.27947176,
    0.036441807,
    -0.021505665,
    -0.00647607,
    0.0030624415,
    0.0008326974,
    -0.00059258373,
    -4.764651e-05,
    6.985718e-05,
];
/// erfinv(x) / x in w - 5/2 with w = -ln(1 - x²) below 5: 6e-9.
const INVERSE_CENTRE: [f32; 10] = [
    1.5014094,
    0.24664028,
    -0.004177387,
    -0.0012527419,
    0.00021834444,
    -4.9633427e-06,
    -3.4627055e-06,
    4.6616947e-07,
    2.3232717e-08,
    -8.790966e-09,
];
/// erfinv(x) / x in √w - 3 above: 8e-8.
const INVERSE_TAIL: [f32; 9] = [
    2.832977,
    1.0016742,
    0.009435039,
    -0.0076262434,
    0.0057655373,
    -0.003656545,
    0.0012922524,
    8.25223e-05,
    -0.00015978218,
];

/// erf for 0..=475/512.
#[inline(always)]
fn erf_near<I: Isa>(a: f32) -> f32 {
    I::fma(a, horner::<I, 6>(a * a, NEAR), a)
}

#[inline(always)]
pub(super) fn erf<I: Isa>(x: f32) -> f32 {
    // 1 - e^(ln erfc) loses no digits near 0. Beyond 4 it is 1, and x is clamped so that the polynomial cannot turn
    // back.
    let a = f32::abs(x);
    let t = pick(a > 4.0, 4.0, a);
    let ln_erfc = I::fma(-t, horner::<I, 9>(t, ERF), -t);
    with_sign(expm1_flat::<I, 5>(ln_erfc, EXP), x)
}

#[inline(always)]
pub(super) fn erfc<I: Isa>(x: f32) -> f32 {
    let a = f32::abs(x);
    let t = pick(a > 10.2, 10.2, a);
    let scaled = horner::<I, 11>((2.0 - t) / (2.0 + t), ERFCX) / (2.0 + t);
    // e^-t² with t² in two exact parts: the upper 12 bits of t square exactly.
    let high = f32::from_bits(t.to_bits() & 0xFFFF_F000);
    let low = (high - t) * (high + t);
    let tail = scaled * exp_of_sum::<I>(-high * high, low);
    let far = pick(x < 0.0, 2.0 - tail, tail);
    // The roundings above are most visible where the result is near 1.
    pick(a < 0.5, 1.0 - with_sign(erf_near::<I>(a), x), far)
}

#[inline(always)]
pub(super) fn erfinv<I: Isa>(x: f32) -> f32 {
    let w = -ln::<I>((1.0 - x) * (1.0 + x));
    let centre = horner::<I, 10>(w - 2.5, INVERSE_CENTRE);
    let tail = horner::<I, 9>(f32::sqrt(w) - 3.0, INVERSE_TAIL);
    let value = x * pick(w < 5.0, centre, tail);
    pick(f32::abs(x) == 1.0, with_sign(f32::INFINITY, x), value)
}
