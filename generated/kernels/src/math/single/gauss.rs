//! The error function, its complement and its inverse.

use super::exponential::{exp_of_sum, exp_within};
use super::logarithm::ln;
use super::{horner, pick, with_sign};
use crate::math::Isa;

/// erf(x) = x + x P(x²) below 475/512; N. Juffa's coefficients (public domain).
const NEAR: [f32; 6] = [0.12837917, -0.37612534, 1.128_199_25e-1, -0.026768135, 0.0049911942, -0.0005967617];
/// ln erfc(x) / x + 1 above; likewise.
const FAR: [f32; 7] =
    [-0.12871751, -0.6348467, -0.10677788, 0.024254622, -0.0038839644, 0.00038319713, -1.728_534_7e-5];
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
    let a = f32::abs(x);
    // Beyond 4 it is 1; the polynomial must not turn back.
    let t = pick(a > 4.0, 4.0, a);
    let far = 1.0 - exp_within::<I>(I::fma(t, horner::<I, 7>(t, FAR), -t));
    with_sign(pick(a > 475.0 / 512.0, far, erf_near::<I>(a)), x)
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
    // The many roundings above show most where the result is near 1.
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
