//! The logarithm of |Γ|, its derivatives, in f64.
//!
//! Formulas from F. Olver et al., NIST Digital Library of Mathematical Functions (DLMF), numbered there. Polynomials
//! are Chebyshev interpolations of 60 digits (mpmath 1.3.0), written in powers.
//!
//! Measured against values of 60 digits (`tests/data/special.txt`): for positive arguments `lgamma` is within 4 ulp,
//! `digamma` within 2, `polygamma` of orders 1 to 4 within 5. On the negative axis all but the odd orders have a zero
//! in almost every unit interval; next to one the error is absolute, that of the terms which cancel.

use super::erf::horner;
use std::f64::consts::PI;

/// lgamma(2 + s) / s in powers of 2s, for |s| <= 1/2: 2e-17.
const LN_GAMMA: [f64; 18] = [
    0.42278433509846713,
    0.1612335167120566,
    -0.016838075263298908,
    0.0025726010534729226,
    -0.00046159693930847154,
    9.03284478395594e-05,
    -1.8636779703098573e-05,
    3.981793122286463e-06,
    -8.716991307145595e-07,
    1.94253158049944e-07,
    -4.38708276994606e-08,
    1.0012704932493954e-08,
    -2.3086641882572558e-09,
    5.350164231426595e-10,
    -1.2050236137952312e-10,
    2.8206946487921987e-11,
    -8.867306165956492e-12,
    2.0962059060600024e-12,
];
/// B₂ₖ / (2k (2k - 1)), from k = 1: Stirling's series (DLMF 5.11.1).
const STIRLING: [f64; 10] = [
    0.08333333333333333,
    -0.002777777777777778,
    0.0007936507936507937,
    -0.0005952380952380953,
    0.0008417508417508417,
    -0.0019175269175269176,
    0.00641025641025641,
    -0.029550653594771242,
    0.17964437236883057,
    -1.3924322169059011,
];
/// The positive zero of digamma, and its rounding error.
const ROOT: [f64; 2] = [1.4616321449683622, 9.549995429965697e-17];
/// digamma(x) / (x - ROOT) in powers of 2x - 3, for x in 1..2: 2e-17.
const DIGAMMA: [f64; 22] = [
    0.951055876031833,
    -0.21181371064073026,
    0.06013562106019355,
    -0.018550615381738605,
    0.005936795278433826,
    -0.0019350666647832667,
    0.000636888028319074,
    -0.00021074841215733007,
    6.995020484160625e-05,
    -2.325823828431376e-05,
    7.741156881253708e-06,
    -2.578107848270217e-06,
    8.591324222417666e-07,
    -2.8628755280038686e-07,
    9.500926192924096e-08,
    -3.166618072027162e-08,
    1.10370884388543e-08,
    -3.6788868183645545e-09,
    8.668257373761658e-10,
    -2.889363639216111e-10,
    2.4765474440031764e-10,
    -8.25512972008104e-11,
];
/// B₂ₖ / 2k, from k = 1: the series of digamma (DLMF 5.11.2).
const DIGAMMA_FAR: [f64; 10] = [
    0.08333333333333333,
    -0.008333333333333333,
    0.003968253968253968,
    -0.004166666666666667,
    0.007575757575757576,
    -0.021092796092796094,
    0.08333333333333333,
    -0.4432598039215686,
    3.0539543302701198,
    -26.456212121212122,
];
/// B₂ₖ / (2k)!, from k = 1: the corrections of Euler and Maclaurin (DLMF 2.10.1).
const EULER_MACLAURIN: [f64; 12] = [
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
    -2.174868698558062e-16,
    5.5090028283602295e-18,
    -1.3954464685812522e-19,
];
/// The least argument at which the series of [`STIRLING`] and [`DIGAMMA_FAR`] are exact to 1e-17.
const FAR: f64 = 10.0;
/// ln √(2π).
const HALF_LN_2_PI: f64 = 0.918_938_533_204_672_8;

/// lgamma(2 + s) for |s| <= 1/2.
fn around_two(s: f64) -> f64 {
    s * horner(&LN_GAMMA, 2.0 * s)
}

/// |sin πx|; x - round(x) is exact.
fn sin_pi(x: f64) -> f64 {
    let r = (x - x.round()).abs();
    // Beyond 1/4, the cosine of the complement has the smaller argument.
    if r > 0.25 { (PI * (0.5 - r)).cos() } else { (PI * r).sin() }
}

/// ln |Γ(x)|; infinite at 0, the negative integers and both infinities.
pub fn lgamma(x: f64) -> f64 {
    if x.is_nan() {
        x
    } else if x.is_infinite() || x <= 0.0 && x == x.floor() {
        f64::INFINITY
    } else if x.abs() <= 0.5 {
        // Γ(2 + x) = x (1 + x) Γ(x)
        around_two(x) - x.ln_1p() - x.abs().ln()
    } else if x < 0.0 {
        // Reflection (DLMF 5.5.3).
        (PI / (x.abs() * sin_pi(x))).ln() - lgamma(-x)
    } else if x < 1.5 {
        around_two(x - 1.0) - (x - 1.0).ln_1p()
    } else if x < FAR {
        let (mut y, mut product) = (x, 1.0);
        while y > 2.5 {
            y -= 1.0;
            product *= y;
        }
        if x > 2.5 { around_two(y - 2.0) + product.ln() } else { around_two(y - 2.0) }
    } else {
        let z = 1.0 / x;
        (x - 0.5) * (x.ln() - 1.0) + (HALF_LN_2_PI - 0.5 + z * horner(&STIRLING, z * z))
    }
}

/// The derivative of [`lgamma`]: -∞ at 0, ∞ at -0, NaN at the negative integers and at -∞, as in PyTorch.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        -1.0 / x
    } else if x < 0.0 {
        // Reflection (DLMF 5.5.4).
        let r = x - x.round();
        if r == 0.0 { f64::NAN } else { digamma(1.0 - x) - PI / (PI * r).tan() }
    } else if x < FAR {
        let (mut y, mut sum) = (x, 0.0);
        while y >= 2.0 {
            y -= 1.0;
            sum += 1.0 / y;
        }
        if y < 1.0 {
            sum -= 1.0 / y;
            y += 1.0;
        }
        sum + (y - ROOT[0] - ROOT[1]) * horner(&DIGAMMA, 2.0 * y - 3.0)
    } else {
        let z = 1.0 / x;
        x.ln() - 0.5 * z - z * z * horner(&DIGAMMA_FAR, z * z)
    }
}

/// ζ(s, q) = Σ (q + k)^-s for s >= 2 and q > 0, by Euler and Maclaurin.
fn zeta(s: f64, q: f64) -> f64 {
    // The corrections fall like ((s + 2k) / 2πa)², so they start at an `a` that leaves them at most 1e-17.
    let start = 10.0 + 0.5 * s;
    let (mut a, mut head) = (q, 0.0);
    while a < start {
        let term = a.powf(-s);
        head += term;
        // The bound also holds where both sides underflow, so the loop ends for every order and argument.
        if term <= 1e-18 * head {
            return head;
        }
        a += 1.0;
    }
    let (mut factor, mut corrections) = (s / a, 0.0);
    for (k, b) in EULER_MACLAURIN.iter().enumerate() {
        corrections += b * factor;
        let j = s + 2.0 * k as f64;
        factor *= (j + 1.0) / a * ((j + 2.0) / a);
    }
    head + a.powf(1.0 - s) * (1.0 / (s - 1.0) + (0.5 + corrections) / a)
}

/// The derivative of [`digamma`] of integer order n (0: [`digamma`] itself); NaN for any other n and at -∞.
///
/// At 0 and the negative integers it is infinite, with the sign of (-1)^(n + 1).
pub fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if !(0.0..f64::INFINITY).contains(&n) || n != n.floor() || x.is_nan() || x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    let odd = n % 2.0 == 1.0;
    let s = n + 1.0;
    let sum = if x <= 0.0 && x == x.floor() {
        f64::INFINITY
    } else if x > 0.0 {
        zeta(s, x)
    } else {
        // All terms (x + k)^-s: those right of the pole next to x, and those left of it, which end at k = 0. Distances
        // to both neighbours come from x - round(x), which is exact.
        let r = x - x.round();
        let (right, left) = if r > 0.0 { (r, 1.0 - r) } else { (1.0 + r, -r) };
        let left = zeta(s, left) - zeta(s, 1.0 - x);
        zeta(s, right) + if odd { left } else { -left }
    };
    let factorial = (1..=n.min(171.0) as u32).fold(1.0, |product, k| product * k as f64);
    // DLMF 5.15.1. A sum that underflows stays 0, as in PyTorch, though multiplying by the factorial could make it
    // normal.
    if sum == 0.0 {
        0.0
    } else if odd {
        factorial * sum
    } else {
        -factorial * sum
    }
}
