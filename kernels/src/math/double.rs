//! f64: the standard library's functions, lane by lane. Only the arithmetic vectorises: training runs in f32, and f64
//! serves where accuracy matters.

use super::float::{Nearest, number, real};
use super::{Isa, Number, Real, pick};
use fulgurite_core::builtins::{self, Builtin};

impl Number for f64 {
    number!(f64);
    #[inline(always)]
    fn pow<I: Isa>(self, y: f64) -> f64 {
        f64::powf(self, y)
    }
    #[inline(always)]
    fn rem_floor(self, y: f64) -> f64 {
        builtins::eval_f64(Builtin::RemFloor, &[self, y])
    }
    #[inline(always)]
    fn div_floor<I: Isa>(self, y: f64) -> f64 {
        builtins::eval_f64(Builtin::DivFloor, &[self, y])
    }
}

/// Functions of the standard library, or of the reference.
macro_rules! forward {
    ($($name:ident $path:path;)*) => {$(
        #[inline(always)]
        fn $name<I: Isa>(self) -> f64 {
            $path(self)
        }
    )*};
}

impl Real for f64 {
    real!(f64);
    forward! {
        exp f64::exp;
        exp2 f64::exp2;
        expm1 f64::exp_m1;
        ln f64::ln;
        log2 f64::log2;
        log10 f64::log10;
        log1p f64::ln_1p;
        sin f64::sin;
        cos f64::cos;
        tan f64::tan;
        asin f64::asin;
        acos f64::acos;
        atan f64::atan;
        sinh f64::sinh;
        cosh f64::cosh;
        tanh f64::tanh;
        asinh f64::asinh;
        acosh f64::acosh;
        atanh f64::atanh;
        erf builtins::erf;
        erfc builtins::erfc;
        erfinv builtins::erfinv;
        erfcx builtins::erfcx;
        lgamma builtins::lgamma;
        digamma builtins::digamma;
        i0 builtins::i0;
        i0e builtins::i0e;
        i1 builtins::i1;
        i1e builtins::i1e;
    }
    #[inline(always)]
    fn sigmoid<I: Isa>(self) -> f64 {
        let e = f64::exp(-f64::abs(self));
        (if self >= 0.0 { 1.0 } else { e }) / (1.0 + e)
    }
    #[inline(always)]
    fn atan2<I: Isa>(self, y: f64) -> f64 {
        f64::atan2(self, y)
    }
    #[inline(always)]
    fn hypot<I: Isa>(self, y: f64) -> f64 {
        f64::hypot(self, y)
    }
    #[inline(always)]
    fn nextafter<I: Isa>(self, y: f64) -> f64 {
        builtins::eval_f64(Builtin::Nextafter, &[self, y])
    }
    #[inline(always)]
    fn polygamma<I: Isa>(self, x: f64) -> f64 {
        builtins::polygamma(self, x)
    }
}
