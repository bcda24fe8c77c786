//! What f32 and f64 have in common.

use super::{Elem, pick};
use fulgurite_core::DType;

/// Rounding without an instruction for it.
pub(super) trait Nearest {
    /// The nearest integer, ties to even; `#[inline(always)]`.
    fn nearest(self) -> Self;
}

macro_rules! elem {
    ($($dtype:ident $t:ident;)*) => {$(
        impl Elem for $t {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn add(self, y: $t) -> $t {
                self + y
            }
            #[inline(always)]
            fn mul(self, y: $t) -> $t {
                self * y
            }
            #[inline(always)]
            fn sign(self) -> $t {
                pick(self < 0.0, -1.0, pick(self > 0.0, 1.0, 0.0))
            }
            #[inline(always)]
            fn isfinite(self) -> bool {
                $t::abs(self) < $t::INFINITY
            }
            #[inline(always)]
            fn isnan(self) -> bool {
                $t::is_nan(self)
            }
        }

        impl Nearest for $t {
            #[inline(always)]
            fn nearest(self) -> $t {
                // The |x| from which every float is an integer.
                const INTEGRAL: $t = (1u64 << ($t::MANTISSA_DIGITS - 1)) as $t;
                let a = $t::abs(self);
                let rounded = pick(a < INTEGRAL, (a + INTEGRAL) - INTEGRAL, a);
                $t::copysign(rounded, self)
            }
        }
    )*};
}
elem! { F32 f32; F64 f64; }

/// Functions of `Number`: arithmetic and rounding.
macro_rules! number {
    ($t:ident) => {
        #[inline(always)]
        fn sub(self, y: $t) -> $t {
            self - y
        }
        #[inline(always)]
        fn neg(self) -> $t {
            -self
        }
        #[inline(always)]
        fn abs(self) -> $t {
            $t::abs(self)
        }
        #[inline(always)]
        fn floor<I: Isa>(self) -> $t {
            if I::ROUND {
                return $t::floor(self);
            }
            let r = self.nearest();
            $t::copysign(pick(r > self, r - 1.0, r), self)
        }
        #[inline(always)]
        fn ceil<I: Isa>(self) -> $t {
            if I::ROUND {
                return $t::ceil(self);
            }
            let r = self.nearest();
            $t::copysign(pick(r < self, r + 1.0, r), self)
        }
        #[inline(always)]
        fn round<I: Isa>(self) -> $t {
            if I::ROUND { $t::round_ties_even(self) } else { self.nearest() }
        }
        #[inline(always)]
        fn trunc<I: Isa>(self) -> $t {
            if I::ROUND {
                return $t::trunc(self);
            }
            let a = $t::abs(self);
            let r = a.nearest();
            $t::copysign(pick(r > a, r - 1.0, r), self)
        }
        #[inline(always)]
        fn rem_trunc(self, y: $t) -> $t {
            // The result is exact for any ratio, which takes a loop in a library; there is no vector form.
            self % y
        }
        #[inline(always)]
        fn div_trunc<I: Isa>(self, y: $t) -> $t {
            Number::trunc::<I>(self / y)
        }
    };
}
pub(super) use number;

/// Functions of `Real` that are instructions, or a few of them.
macro_rules! real {
    ($t:ident) => {
        #[inline(always)]
        fn sqrt<I: Isa>(self) -> $t {
            $t::sqrt(self)
        }
        #[inline(always)]
        fn rsqrt<I: Isa>(self) -> $t {
            1.0 / $t::sqrt(self)
        }
        #[inline(always)]
        fn reciprocal<I: Isa>(self) -> $t {
            1.0 / self
        }
        #[inline(always)]
        fn div<I: Isa>(self, y: $t) -> $t {
            self / y
        }
        #[inline(always)]
        fn copysign<I: Isa>(self, y: $t) -> $t {
            $t::copysign(self, y)
        }
    };
}
pub(super) use real;
