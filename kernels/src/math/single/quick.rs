//! Functions that are shorter where no number is near the ends of the exponents, with the bits of the long form.

use super::{exponential, with_sign};
use crate::math::{Isa, exp};

/// A function of an element and of what is the same for all of them.
pub trait Quick {
    /// What is the same for all.
    type Known: Copy;
    /// Smallest and largest magnitude for which the short form is good; it is good for 0.
    const RANGE: (f32, f32);
    /// Whether the short form is good for this.
    fn allows<I: Isa>(known: Self::Known) -> bool;
    /// The short form; `#[inline(always)]`.
    fn short<I: Isa>(x: f32, known: Self::Known) -> f32;
    /// The form for every number; `#[inline(always)]`.
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

/// Many numbers divided by one: a product and a correction.
///
/// With r = 1/d correctly rounded and q = x r rounded, `q + (x - q d) r` with fused operations is the correctly rounded
/// quotient (known, say Brisebarre, Muller, Raina, "Accelerating correctly rounded floating-point division when the
/// divisor is known in advance", IEEE Transactions on Computers 53, 2004; all pairs of mantissas of up to 13 bits were
/// tried, and all of f32 by 1,500 divisors). Nothing may leave the exponents on the way: the quotient is within 2^±121
/// here, and the last bit of x - q d is at least 2^(-90 - 2·24), a multiple of the smallest subnormal number.
pub struct Quotient;

/// A divisor and its reciprocal.
#[derive(Clone, Copy)]
pub struct Divisor {
    d: f32,
    reciprocal: f32,
}

impl Divisor {
    /// Of a number.
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
        // -0 comes back as 0.
        with_sign(I::fma(I::fma(-first, by.d, x), by.reciprocal, first), first)
    }
    #[inline(always)]
    fn long<I: Isa>(x: f32, by: Divisor) -> f32 {
        x / by.d
    }
}
