//! bool and the integers.

use super::{Bits, Elem, Int, Isa, Logic, Number};
use fulgurite_core::{DType, builtins};

impl Elem for bool {
    const DTYPE: DType = DType::Bool;
    #[inline(always)]
    fn add(self, y: bool) -> bool {
        self | y
    }
    #[inline(always)]
    fn mul(self, y: bool) -> bool {
        self & y
    }
    #[inline(always)]
    fn sign(self) -> bool {
        self
    }
}

impl Bits for bool {}
impl Logic for bool {}

macro_rules! integer {
    ($($dtype:ident $t:ty;)*) => {$(
        impl Elem for $t {
            const DTYPE: DType = DType::$dtype;
            #[inline(always)]
            fn add(self, y: $t) -> $t {
                self.wrapping_add(y)
            }
            #[inline(always)]
            fn mul(self, y: $t) -> $t {
                self.wrapping_mul(y)
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn sign(self) -> $t {
                ((self > 0) as $t).wrapping_sub((self < 0) as $t)
            }
        }

        impl Number for $t {
            #[inline(always)]
            fn sub(self, y: $t) -> $t {
                self.wrapping_sub(y)
            }
            #[inline(always)]
            fn neg(self) -> $t {
                self.wrapping_neg()
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn abs(self) -> $t {
                if self < 0 { self.wrapping_neg() } else { self }
            }
            #[inline(always)]
            fn floor<I: Isa>(self) -> $t {
                self
            }
            #[inline(always)]
            fn ceil<I: Isa>(self) -> $t {
                self
            }
            #[inline(always)]
            fn round<I: Isa>(self) -> $t {
                self
            }
            #[inline(always)]
            fn trunc<I: Isa>(self) -> $t {
                self
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn pow<I: Isa>(self, y: $t) -> $t {
                let one: $t = 1;
                let minus_one = one.wrapping_neg();
                if y < 0 {
                    let power = if y & 1 == 0 { one } else { self };
                    return if self == one || self == minus_one { power } else { 0 };
                }
                let (mut power, mut base, mut rest) = (one, self, y);
                while rest != 0 {
                    power = if rest & 1 == 1 { power.wrapping_mul(base) } else { power };
                    base = base.wrapping_mul(base);
                    rest >>= 1;
                }
                power
            }
            #[inline(always)]
            fn rem_trunc(self, y: $t) -> $t {
                if y == 0 { 0 } else { self.wrapping_rem(y) }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn rem_floor(self, y: $t) -> $t {
                let r = self.rem_trunc(y);
                if r != 0 && (r < 0) != (y < 0) { r.wrapping_add(y) } else { r }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn div_floor<I: Isa>(self, y: $t) -> $t {
                let q = self.div_trunc::<I>(y);
                let r = self.wrapping_sub(q.wrapping_mul(y));
                if r != 0 && (r < 0) != (y < 0) { q.wrapping_sub(1) } else { q }
            }
            #[inline(always)]
            fn div_trunc<I: Isa>(self, y: $t) -> $t {
                if y == 0 { 0 } else { self.wrapping_div(y) }
            }
        }

        impl Bits for $t {}

        impl Int for $t {
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn shl(self, y: $t) -> $t {
                if y >= 0 && (y as u64) < <$t>::BITS as u64 { self.wrapping_shl(y as u32) } else { 0 }
            }
            #[inline(always)]
            #[allow(unused_comparisons)]
            fn shr(self, y: $t) -> $t {
                let shift = if y >= 0 && (y as u64) < <$t>::BITS as u64 { y as u32 } else { <$t>::BITS - 1 };
                // Unsigned numbers have no sign bit that stays, so one more step clears the last bit.
                let last = <$t>::MIN == 0 && shift != y as u32;
                if last { 0 } else { self >> shift }
            }
            #[inline(always)]
            fn gcd(self, y: $t) -> $t {
                builtins::gcd(self as i64, y as i64) as $t
            }
            #[inline(always)]
            fn lcm(self, y: $t) -> $t {
                builtins::lcm(self as i64, y as i64, DType::$dtype) as $t
            }
        }
    )*};
}

integer! { U8 u8; I8 i8; I16 i16; I32 i32; I64 i64; }
