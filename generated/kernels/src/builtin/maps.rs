//! Entries of the pointwise builtins.

use super::ops::{self, Map1, Map2, Select};
use crate::math::{CastTo, Elem, Isa};
use crate::tile::{CHUNK, Sizes, Step, Tile, avx2_of, avx512_of, integer, load, number, store, tile_by_steps};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;
use fulgurite_core::philox::{fill_uniform, uniform};
use std::marker::PhantomData;

/// The entry of kernel `$k`; f32 has an AVX-512 form, from which other dtypes do not gain.
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
            entry!("builtin.select", $dtype, $width, Select<$t>),
            entry!("builtin.fill", $dtype, narrow, Fill<$t>),
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

/// Integers, bool, and random numbers.
pub(super) const INTEGERS: &[KernelEntry] = &{
    const TABLE: &[KernelEntry] = table! {
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
    const RANDOM: [KernelEntry; 4] = [
        entry!("builtin.uniform", F32, wide, Uniform<f32>),
        entry!("builtin.uniform", F64, wide, Uniform<f64>),
        entry!(@ "builtin.uniform", "at", F32, UniformAt<f32>, None),
        entry!(@ "builtin.uniform", "at", F64, UniformAt<f64>, None),
    ];
    let mut all = [RANDOM[0]; TABLE.len() + RANDOM.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < RANDOM.len() { RANDOM[i] } else { TABLE[i - RANDOM.len()] };
        i += 1;
    }
    all
};

/// Number 0 everywhere: f64 bits for floats, an i64 for integers and bool.
pub struct Fill<X>(PhantomData<X>);

/// The conversion of a raw word to an element.
pub trait FromWord: Elem {
    /// The element.
    ///
    /// # Safety
    /// `nums` holds a word.
    unsafe fn from_word(nums: *const u64) -> Self;
}

macro_rules! from_word {
    ($($t:ty: $read:ident;)*) => {$(
        impl FromWord for $t {
            #[inline(always)]
            unsafe fn from_word(nums: *const u64) -> $t {
                // SAFETY: the caller's promise.
                unsafe { $read(nums, 0).cast() }
            }
        }
    )*};
}

from_word! { f32: number; f64: number; i64: integer; i32: integer; i16: integer; i8: integer; u8: integer; bool: integer; }

tile_by_steps! {
    [X: FromWord] Fill<X>;
    [X: Elem] UniformAt<X> where [f32: CastTo<X>];
}

impl<X: FromWord> Step for Fill<X> {
    const SIZES: Option<Sizes> = Some(Sizes { ins: &[], outs: &[size_of::<X>()] });
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, _: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { store(outs, 0, at, len, [X::from_word(nums); CHUNK]) }
    }
}

/// Random numbers of consecutive positions: numbers are seed, site, first position, draw.
///
/// Not a chunk kernel: the remainder of a tile must know its position.
pub struct Uniform<X>(PhantomData<X>);

impl<X: Elem> Tile for Uniform<X>
where
    f32: CastTo<X>,
{
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, _: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        const BLOCK: usize = 1024;
        let mut block = [0.0; BLOCK];
        let mut at = 0;
        // SAFETY: the caller's promise; at stays below n.
        unsafe {
            let (seed, site, start) = (*nums, *nums.add(1), *nums.add(2));
            let out = (*outs).cast::<X>();
            while at < n {
                let block = &mut block[..(n - at).min(BLOCK)];
                fill_uniform(seed, site, *nums.add(3) as u32, start.wrapping_add(at as u64), block);
                for (j, x) in block.iter().enumerate() {
                    out.add(at + j).write(x.cast());
                }
                at += BLOCK;
            }
        }
    }
}

/// Random numbers of the positions in an i64 tile: numbers are seed, site, draw.
pub struct UniformAt<X>(PhantomData<X>);

impl<X: Elem> Step for UniformAt<X>
where
    f32: CastTo<X>,
{
    const SIZES: Option<Sizes> = Some(Sizes { ins: &[8], outs: &[size_of::<X>()] });
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe {
            let (seed, site, draw) = (*nums, *nums.add(1), *nums.add(2) as u32);
            let positions: [i64; CHUNK] = load(ins, 0, at, len);
            let mut y = [X::default(); CHUNK];
            for j in 0..CHUNK {
                y[j] = uniform(seed, site, positions[j] as u64, draw).cast();
            }
            store(outs, 0, at, len, y);
        }
    }
}
