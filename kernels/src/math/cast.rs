//! Conversions between element types, by the conventions of `fulgurite_core::builtins::cast_f64`.

/// Conversion to `U`.
pub trait CastTo<U> {
    /// The value as a `U`: integers wrap; floats truncate, and those that do not fit become the smallest number.
    fn cast(self) -> U;
}

/// Plain `as`: among integers, from bool and integers to floats, and among floats.
macro_rules! plain {
    ($($from:ty => $($to:ty)*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )*)*};
}

plain! {
    u8 => u8 i8 i16 i32 i64 f32 f64;
    i8 => u8 i8 i16 i32 i64 f32 f64;
    i16 => u8 i8 i16 i32 i64 f32 f64;
    i32 => u8 i8 i16 i32 i64 f32 f64;
    i64 => u8 i8 i16 i32 i64 f32 f64;
    f32 => f32 f64;
    f64 => f32 f64;
    u16 => i32;
    u32 => i64;
    i32 => u16;
    i64 => u32;
    bool => bool u8 i8 i16 i32 i64;
}

impl CastTo<f32> for bool {
    #[inline(always)]
    fn cast(self) -> f32 {
        self as u8 as f32
    }
}

impl CastTo<f64> for bool {
    #[inline(always)]
    fn cast(self) -> f64 {
        self as u8 as f64
    }
}

macro_rules! to_bool {
    ($($from:ty)*) => {$(
        impl CastTo<bool> for $from {
            #[inline(always)]
            fn cast(self) -> bool {
                self != 0 as $from
            }
        }
    )*};
}

to_bool! { u8 i8 i16 i32 i64 f32 f64 }

/// Float to integer. `as` saturates, which costs several instructions per lane. A range test and the bare conversion
/// are two instructions, and give x86's result.
macro_rules! to_integer {
    ($($from:ty => $to:ty, $least:expr, $past:expr;)*) => {$(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                // NaN fails both tests.
                let x = if ($least..$past).contains(&self) { self } else { <$to>::MIN as $from };
                // SAFETY: x truncates to a number of the type: it lies in the open range that the tests state.
                unsafe { x.to_int_unchecked() }
            }
        }
    )*};
}

to_integer! {
    f32 => i32, -2_147_483_648.0, 2_147_483_648.0;
    // -2_147_483_648.99… still truncates to the smallest i32.
    f64 => i32, -2_147_483_648.999_999_5, 2_147_483_648.0;
    f32 => i64, -9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0;
    f64 => i64, -9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0;
}

/// Narrow integers wrap an i32.
macro_rules! to_narrow {
    ($($from:ty => $($to:ty)*;)*) => {$($(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                let word: i32 = self.cast();
                word as $to
            }
        }
    )*)*};
}

to_narrow! {
    f32 => u8 i8 i16;
    f64 => u8 i8 i16;
}
