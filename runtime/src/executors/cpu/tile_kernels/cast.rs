//! Casts between register types, as `fulgurite_core::builtins::cast_scalar` defines them.

use super::{Isa, multi, with_register};
use fulgurite_core::DType;
use fulgurite_core::kernel::TileFn;

/// A register type that converts to `B`.
pub trait To<B>: Copy {
    /// Converts the register.
    fn to(self) -> B;
}

/// Casts between numbers by `as`: integers wrap, floats round once.
macro_rules! by_as {
    ($($a:ty => $($b:ty)+;)*) => {$($(
        impl To<$b> for $a {
            #[inline(always)]
            fn to(self) -> $b {
                self as $b
            }
        }
    )+)*};
}
by_as! {
    u8 => u8 i8 i16 i32 i64 f32 f64;
    i8 => u8 i8 i16 i32 i64 f32 f64;
    i16 => u8 i8 i16 i32 i64 f32 f64;
    i32 => u8 i8 i16 i32 i64 f32 f64;
    i64 => u8 i8 i16 i32 i64 f32 f64;
    f32 => f32 f64;
    f64 => f32 f64;
}

/// Casts from floats to integers truncate; a number that does not fit becomes the smallest integer, which then wraps.
macro_rules! truncating {
    ($($f:ty, $below:expr, $above:expr, $wide_below:expr, $wide_above:expr;)*) => {$(
        impl To<i32> for $f {
            #[inline(always)]
            fn to(self) -> i32 {
                // NaN fails both comparisons.
                if self > $below && self < $above {
                    // SAFETY: within the range of i32 after truncation.
                    unsafe { self.to_int_unchecked::<i32>() }
                } else {
                    i32::MIN
                }
            }
        }
        impl To<i64> for $f {
            // One end of this range is open, so the comparison stays as it is written above.
            #[allow(clippy::manual_range_contains)]
            #[inline(always)]
            fn to(self) -> i64 {
                if self >= $wide_below && self < $wide_above {
                    // SAFETY: within the range of i64.
                    unsafe { self.to_int_unchecked::<i64>() }
                } else {
                    i64::MIN
                }
            }
        }
        truncating!(narrow $f: u8 i8 i16);
    )*};
    (narrow $f:ty: $($t:ty)+) => {$(
        impl To<$t> for $f {
            #[inline(always)]
            fn to(self) -> $t {
                To::<i32>::to(self) as $t
            }
        }
    )+};
}
truncating! {
    f32, -2_147_483_904.0f32, 2_147_483_648.0f32, -9_223_372_036_854_775_808.0f32, 9_223_372_036_854_775_808.0f32;
    f64, -2_147_483_649.0f64, 2_147_483_648.0f64, -9_223_372_036_854_775_808.0f64, 9_223_372_036_854_775_808.0f64;
}

multi! {
    /// Casts one tile.
    ///
    /// # Safety
    /// The first pointer of `ins` is to `n` elements of `A`, that of `outs` to room for `n` elements of `B`, which no
    /// other code uses. The two may be equal if the types have one width.
    unsafe fn cast_tile<A: To<B>, B: Copy>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: the caller's pointers hold `n` elements and do not overlap unless the types have one width.
        unsafe {
            let (x, y) = (*ins as *const A, *outs as *mut B);
            for i in 0..n {
                y.add(i).write(x.add(i).read().to());
            }
        }
    }
}

/// Casts to bool: a number other than zero is true.
pub trait Truth: Copy {
    /// Whether the number is not zero.
    fn truth(self) -> u8;
}
macro_rules! truth {
    ($($t:ty)+) => {$(
        impl Truth for $t {
            #[inline(always)]
            fn truth(self) -> u8 {
                (self != (0 as $t)) as u8
            }
        }
    )+};
}
truth!(u8 i8 i16 i32 i64 f32 f64);

multi! {
    /// Casts one tile to bool.
    ///
    /// # Safety
    /// The contract of [`cast_tile`] holds for bytes.
    unsafe fn truth_tile<A: Truth>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: as in `cast_tile`.
        unsafe {
            let (x, y) = (*ins as *const A, *outs);
            for i in 0..n {
                y.add(i).write(x.add(i).read().truth());
            }
        }
    }
}

/// The cast from one register type to another.
pub fn cast(from: DType, to: DType, isa: Isa) -> TileFn {
    if to == DType::Bool {
        return with_register!(from, A => truth_tile::pick::<A>(isa));
    }
    with_register!(from, A => with_register!(to, B => cast_tile::pick::<A, B>(isa)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use fulgurite_core::Scalar;
    use fulgurite_core::builtins::cast_scalar;

    #[test]
    fn casts_agree_with_the_definition() {
        let registers = [DType::Bool, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F32, DType::F64];
        let numbers = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.9,
            -1.9,
            127.0,
            128.0,
            255.0,
            256.0,
            300.7,
            -129.0,
            32768.5,
            2147483647.0,
            2147483648.0,
            -2147483648.0,
            -2147483649.0,
            -2147483648.5,
            4e9,
            9.3e18,
            -9.3e18,
            1e300,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        for from in registers {
            for to in registers {
                for x in numbers {
                    let x = cast_scalar(Scalar::Float(x), from);
                    let source = Buffer::number(x, from).unwrap();
                    let target = Buffer::zeros(to, &[]).unwrap();
                    // SAFETY: both hold one element.
                    unsafe {
                        cast(from, to, Isa::here())(
                            1,
                            &(source.block().unwrap().data() as *const u8),
                            &target.block().unwrap().data(),
                            std::ptr::null(),
                        )
                    };
                    let expected = cast_scalar(x, to);
                    let found = target.item().unwrap();
                    let same = found == expected || (found.as_f64().is_nan() && expected.as_f64().is_nan());
                    assert!(same, "{from} {x} as {to}: {found}, not {expected}");
                }
            }
        }
    }
}
