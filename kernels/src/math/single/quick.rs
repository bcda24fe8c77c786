//! Shorter forms of functions for numbers away from the ends of the exponent range, with bits equal to those of the
//! long form.

use super::{exponential, with_sign};
use crate::math::{Isa, exp};

/// A function of an element and of a value that is common to all elements.
pub trait Quick {
    /// The common value.
    type Known: Copy;
    /// The smallest and the largest magnitude for which the short form is valid; it is also valid for 0.
    const RANGE: (f32, f32);
    /// Whether the short form is valid for this common value.
    fn allows<I: Isa>(known: Self::Known) -> bool;
    /// The short form; `#[inline(always)]`.
    fn short<I: Isa>(x: f32, known: Self::Known) -> f32;
    /// The long form, for every number; `#[inline(always)]`.
    fn long<I: Isa>(x: f32, known: Self::Known) -> f32;
}

/// e^x
pub struct Exp;

impl Quick for Exp {
    type Known = ();
    const RANGE: (f32, f32) = (0.0, exponential::NORMAL);
    #[inline(always)]
    fn allows<I: Isa>(_: ()) -> bool {
        true
    }
    #[inline(always)]
    fn short<I: Isa>(x: f32, _: ()) -> f32 {
        exponential::exp_normal::<I>(x)
    }
    #[inline(always)]
    fn long<I: Isa>(x: f32, _: ()) -> f32 {
        exp::<I, f32>(x)
    }
}

/// Division of many numbers by one: a product and a correction.
///
/// With r = 1/d correctly rounded and q = x r rounded, `q + (x - q d) r` with fused operations is the correctly rounded
/// quotient (Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point division when the divisor is
/// known in advance", IEEE Transactions on Computers 53, 2004). It was tested on all pairs of mantissas of up to 13
/// bits, and on all of f32 with 1,500 divisors. No intermediate result may leave the exponent range: the quotient is
/// within 2^±121 here, and the last bit of x - q d is at least 2^(-90 - 2·24), a multiple of the smallest subnormal
/// number.
pub struct Quotient;

/// A divisor and its reciprocal.
#[derive(Clone, Copy)]
pub struct Divisor {
    d: f32,
    reciprocal: f32,
}

impl Divisor {
    /// The divisor of a number.
    #[inline(always)]
    pub fn new(d: f32) -> Divisor {
        Divisor { d, reciprocal: 1.0 / d }
    }
}

/// 2^n
const fn power(n: i32) -> f32 {
    f32::from_bits(((127 + n) as u32) << 23)
}

impl Quick for Quotient {
    type Known = Divisor;
    const RANGE: (f32, f32) = (power(-90), power(90));
    #[inline(always)]
    fn allows<I: Isa>(by: Divisor) -> bool {
        I::FMA && f32::abs(by.d) >= power(-30) && f32::abs(by.d) <= power(30)
    }
    #[inline(always)]
    fn short<I: Isa>(x: f32, by: Divisor) -> f32 {
        let first = x * by.reciprocal;
        // The sign restores -0, which the sum loses.
        with_sign(I::fma(I::fma(-first, by.d, x), by.reciprocal, first), first)
    }
    #[inline(always)]
    fn long<I: Isa>(x: f32, by: Divisor) -> f32 {
        x / by.d
    }
}
