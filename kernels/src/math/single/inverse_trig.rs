//! asin, acos, atan, atan2.

use super::{horner, pick, with_sign};
use crate::math::Isa;
use std::f32::consts::{FRAC_PI_2, PI};

/// (asin x - x) / x³ in x², for x ≤ 1/2: 5e-10.
const ASIN: [f32; 6] = [0.16666663, 0.075004295, 0.044523615, 0.031799506, 0.014335053, 0.037806362];
/// (atan x - x) / x³ in x², for x ≤ 1: 5e-9.
const ATAN: [f32; 9] =
    [-0.33333313, 0.19998842, -0.14266346, 0.10958582, -0.08410654, 0.05791354, -0.03099129, 0.0107485, -0.0017437012];
/// π/2 - FRAC_PI_2 and π - PI.
const FRAC_PI_2_LOW: f32 = -4.371_139e-8;
const PI_LOW: f32 = -8.742_278e-8;

/// asin of 0..=1/2.
#[inline(always)]
fn asin_core<I: Isa>(x: f32, z: f32) -> f32 {
    I::fma(x * z, horner::<I, 6>(z, ASIN), x)
}

#[inline(always)]
pub(super) fn asin<I: Isa>(x: f32) -> f32 {
    // Above 1/2: π/2 - 2 asin √((1 - x) / 2).
    let a = f32::abs(x);
    let large = a > 0.5;
    let z = pick(large, 0.5 * (1.0 - a), a * a);
    let p = asin_core::<I>(pick(large, f32::sqrt(z), a), z);
    with_sign(pick(large, FRAC_PI_2 - (2.0 * p - FRAC_PI_2_LOW), p), x)
}

#[inline(always)]
pub(super) fn acos<I: Isa>(x: f32) -> f32 {
    let a = f32::abs(x);
    let large = a > 0.5;
    let z = pick(large, 0.5 * (1.0 - a), a * a);
    let p = asin_core::<I>(pick(large, f32::sqrt(z), a), z);
    let near_one = pick(x > 0.0, 2.0 * p, PI - (2.0 * p - PI_LOW));
    let middle = FRAC_PI_2 - (with_sign(p, x) - FRAC_PI_2_LOW);
    pick(large, near_one, middle)
}

/// atan of 0..=1.
#[inline(always)]
fn atan_core<I: Isa>(x: f32) -> f32 {
    let z = x * x;
    I::fma(x * z, horner::<I, 9>(z, ATAN), x)
}

#[inline(always)]
pub(super) fn atan<I: Isa>(x: f32) -> f32 {
    let a = f32::abs(x);
    let large = a > 1.0;
    let p = atan_core::<I>(pick(large, 1.0 / a, a));
    with_sign(pick(large, FRAC_PI_2 - (p - FRAC_PI_2_LOW), p), x)
}

/// The angle of the point (x, y).
#[inline(always)]
pub(super) fn atan2<I: Isa>(y: f32, x: f32) -> f32 {
    let (a, b) = (f32::abs(x), f32::abs(y));
    let steep = b > a;
    let (small, large) = (pick(steep, a, b), pick(steep, b, a));
    let ratio = small / large;
    // 0/0 is the origin; ∞/∞ a diagonal.
    let ratio = pick(large == 0.0, 0.0, ratio);
    let ratio = pick(small == f32::INFINITY, 1.0, ratio);
    let p = atan_core::<I>(ratio);
    let p = pick(steep, FRAC_PI_2 - (p - FRAC_PI_2_LOW), p);
    let p = pick(x.is_sign_negative(), PI - (p - PI_LOW), p);
    let p = pick(f32::is_nan(x) | f32::is_nan(y), f32::NAN, p);
    with_sign(p, y)
}
