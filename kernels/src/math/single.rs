//! f32: branch-free functions that vectorise. `tests/accuracy.rs` has their bounds in ulp, measured on every 257th bit
//! pattern against f64. Polynomial coefficients are minimax fits (Remez, 40 digits) unless a source is named.

mod exponential;
mod gauss;
mod hyperbolic;
mod inverse_trig;
mod logarithm;
mod power;
pub mod quick;
mod trig;

use super::float::{Nearest, number, real};
use super::{Isa, Number, Real, pick};
use fulgurite_core::builtins;
use std::f32::consts::LN_2;

/// Horner's rule, lowest coefficient first.
#[inline(always)]
fn horner<I: Isa, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = I::fma(sum, x, coefficients[i]);
    }
    sum
}

/// Horner's rule in f64.
#[inline(always)]
fn horner64<I: Isa, const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = I::fma64(sum, x, coefficients[i]);
    }
    sum
}

/// |x| with the sign of `sign`.
#[inline(always)]
fn with_sign(x: f32, sign: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0x7FFF_FFFF | sign.to_bits() & 0x8000_0000)
}

impl Number for f32 {
    number!(f32);
    #[inline(always)]
    fn pow<I: Isa>(self, y: f32) -> f32 {
        power::pow::<I>(self, y)
    }
    #[inline(always)]
    fn rem_floor(self, y: f32) -> f32 {
        let r = self % y;
        if (r != 0.0) & ((y < 0.0) != (r < 0.0)) { r + y } else { r }
    }
    #[inline(always)]
    fn div_floor<I: Isa>(self, y: f32) -> f32 {
        let r = self % y;
        let exact = (self - r) / y;
        let q = if (r != 0.0) & ((y < 0.0) != (r < 0.0)) { exact - 1.0 } else { exact };
        let floor = Number::floor::<I>(q);
        let nearest = if q - floor > 0.5 { floor + 1.0 } else { floor };
        let ratio = self / y;
        let signed = if q == 0.0 { with_sign(0.0, ratio) } else { nearest };
        if y == 0.0 { ratio } else { signed }
    }
}

/// Functions of the modules below.
macro_rules! forward {
    ($($module:ident: $($name:ident)*;)*) => {$($(
        #[inline(always)]
        fn $name<I: Isa>(self) -> f32 {
            $module::$name::<I>(self)
        }
    )*)*};
}

/// Rare functions, computed by the reference in f64.
macro_rules! widen {
    ($($name:ident)*) => {$(
        #[inline(always)]
        fn $name<I: Isa>(self) -> f32 {
            builtins::$name(self as f64) as f32
        }
    )*};
}

impl Real for f32 {
    real!(f32);
    widen! { erfcx lgamma digamma i0 i0e i1 i1e }
    forward! {
        exponential: exp exp2 expm1 tanh sigmoid;
        logarithm: ln log2 log10 log1p;
        trig: sin cos tan;
        inverse_trig: asin acos atan;
        hyperbolic: sinh cosh asinh acosh atanh;
        gauss: erf erfc erfinv;
    }
    #[inline(always)]
    fn atan2<I: Isa>(self, y: f32) -> f32 {
        inverse_trig::atan2::<I>(self, y)
    }
    #[inline(always)]
    fn hypot<I: Isa>(self, y: f32) -> f32 {
        let (a, b) = (self as f64, y as f64);
        let length = f64::sqrt(a * a + b * b) as f32;
        // An infinite side wins over a NaN.
        let infinite = (f32::abs(self) == f32::INFINITY) | (f32::abs(y) == f32::INFINITY);
        pick(infinite, f32::INFINITY, length)
    }
    #[inline(always)]
    fn nextafter<I: Isa>(self, y: f32) -> f32 {
        // Equal arguments give the second; a NaN stays one.
        let level = if self == y { y } else { self + y };
        if self < y {
            self.next_up()
        } else if self > y {
            self.next_down()
        } else {
            level
        }
    }
    #[inline(always)]
    fn polygamma<I: Isa>(self, x: f32) -> f32 {
        builtins::polygamma(self as f64, x as f64) as f32
    }
}
