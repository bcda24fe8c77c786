//! Entries of the pointwise builtins.

use super::ops::{self, Map1, Map2};
use crate::tile::{Tile, avx2_of, avx512_of};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;

/// The entry of kernel `$k`; f32 has an AVX-512 form, the rest does not gain from one.
macro_rules! entry {
    ($symbol:expr, $dtype:ident, wide, $k:ty) => {
        entry!(@ $symbol, "", $dtype, $k, avx512_of::<$k>())
    };
    ($symbol:expr, $dtype:ident, narrow, $k:ty) => {
        entry!(@ $symbol, "", $dtype, $k, None)
    };
    (@ $symbol:expr, $variant:expr, $dtype:ident, $k:ty, $avx512:expr) => {
        KernelEntry {
            symbol: $symbol,
            variant: $variant,
            dtype: DType::$dtype,
            baseline: <$k as Tile>::baseline,
            avx2: avx2_of::<$k>(),
            avx512: $avx512,
        }
    };
}

pub(super) use entry;

/// `table! { F32 f32 wide { one: neg abs …; two: add … } }`: all entries, in one constant.
macro_rules! table {
    ($($dtype:ident $t:ident $width:ident { one: $($one:ident)*; two: $($two:ident)* })*) => {
        &[$(
            $(entry!(concat!("builtin.", stringify!($one)), $dtype, $width, Map1<ops::$one, $t>),)*
            $(entry!(concat!("builtin.", stringify!($two)), $dtype, $width, Map2<ops::$two, $t>),)*
        )*]
    };
}

/// Floats; [`super::quick`] has `exp` of f32.
pub(super) const FLOATS: &[KernelEntry] = table! {
    F32 f32 wide {
        one: sign isnan isinf isfinite neg abs floor ceil round trunc sqrt rsqrt reciprocal exp2 expm1 ln log2 log10
            log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv erfcx lgamma
            digamma i0 i0e i1 i1e sigmoid;
        two: add mul max min eq ne lt le gt ge sub pow rem_trunc rem_floor div_floor div_trunc div atan2 hypot copysign
            nextafter polygamma
    }
    F64 f64 narrow {
        one: sign isnan isinf isfinite neg abs floor ceil round trunc sqrt rsqrt reciprocal exp exp2 expm1 ln log2 log10
            log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv erfcx lgamma
            digamma i0 i0e i1 i1e sigmoid;
        two: add mul max min eq ne lt le gt ge sub pow rem_trunc rem_floor div_floor div_trunc div atan2 hypot copysign
            nextafter polygamma
    }
};

/// Integers and bool.
pub(super) const INTEGERS: &[KernelEntry] = table! {
    I64 i64 narrow {
        one: sign isnan isinf isfinite neg abs floor ceil round trunc bitnot;
        two: add mul max min eq ne lt le gt ge sub pow rem_trunc rem_floor div_floor div_trunc bitand bitor bitxor shl
            shr gcd lcm
    }
    I32 i32 narrow {
        one: sign isnan isinf isfinite neg abs floor ceil round trunc bitnot;
        two: add mul max min eq ne lt le gt ge sub pow rem_trunc rem_floor div_floor div_trunc bitand bitor bitxor shl
            shr gcd lcm
    }
    I16 i16 narrow {
        one: sign isnan isinf isfinite neg abs floor ceil round trunc bitnot;
        two: add mul max min eq ne lt le gt ge sub pow rem_trunc rem_floor div_floor div_trunc bitand bitor bitxor shl
            shr gcd lcm
    }
    I8 i8 narrow {
        one: sign isnan isinf isfinite neg abs floor ceil round trunc bitnot;
        two: add mul max min eq ne lt le gt ge sub pow rem_trunc rem_floor div_floor div_trunc bitand bitor bitxor shl
            shr gcd lcm
    }
    U8 u8 narrow {
        one: sign isnan isinf isfinite neg abs floor ceil round trunc bitnot;
        two: add mul max min eq ne lt le gt ge sub pow rem_trunc rem_floor div_floor div_trunc bitand bitor bitxor shl
            shr gcd lcm
    }
    Bool bool narrow {
        one: sign isnan isinf isfinite bitnot not;
        two: add mul max min eq ne lt le gt ge bitand bitor bitxor and or
    }
};
