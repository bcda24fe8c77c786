//! Conversions between compute dtypes, and between the half types and f32.

use crate::math::{CastTo, Elem, Isa};
use crate::tile::{CHUNK, Sizes, Step, Tile, avx2_of, avx512_of, load, store, tile_by_steps};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;
use std::marker::PhantomData;

/// Each element of `X` as a `Y`.
pub struct Cast<X, Y>(PhantomData<(X, Y)>);

tile_by_steps! {
    [X: Elem + CastTo<Y>, Y: Elem] Cast<X, Y>;
    [H: Half] Widen<H>;
    [H: Half] Narrow<H>;
}

impl<X: Elem + CastTo<Y>, Y: Elem> Step for Cast<X, Y> {
    const SIZES: Option<Sizes> = Some(Sizes { ins: &[size_of::<X>()], outs: &[size_of::<Y>()] });
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller's promise.
        unsafe {
            let x: [X; CHUNK] = load(ins, 0, at, len);
            let mut y = [Y::default(); CHUNK];
            for j in 0..CHUNK {
                y[j] = x[j].cast();
            }
            store(outs, 0, at, len, y);
        }
    }
}

/// bf16 bits to f32: the upper half of its bits.
#[inline(always)]
fn widen_bf16(h: u16) -> f32 {
    f32::from_bits((h as u32) << 16)
}

/// f32 to bf16 bits, nearest even; NaN stays NaN.
#[inline(always)]
fn narrow_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    (if x.is_nan() { bits >> 16 | 0x40 } else { rounded }) as u16
}

/// f16 bits to f32, without the conversion instruction so that the compiler can vectorise it anywhere.
#[inline(always)]
fn widen_f16(h: u16) -> f32 {
    let sign = (h as u32 & 0x8000) << 16;
    let magnitude = (h as u32 & 0x7FFF) << 13;
    // The exponent's bias moves by 112: one product, exact for subnormals too. 2^112
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    // Infinity and NaN have the largest exponent.
    let special = f32::from_bits(magnitude | 0x7F80_0000);
    let value = if h & 0x7C00 == 0x7C00 { special } else { scaled };
    f32::from_bits(value.to_bits() | sign)
}

/// f32 to f16 bits, nearest even; beyond the largest f16 infinity, NaN stays NaN.
#[inline(always)]
fn narrow_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let a = bits & 0x7FFF_FFFF;
    // Normal results: the bias changes, and the 13 dropped bits round.
    let normal = a.wrapping_sub(112 << 23).wrapping_add(0xFFF + (a >> 13 & 1)) >> 13;
    // Subnormal results: adding 0.5 aligns the last bit of f16 with that of the sum, so the hardware rounds as needed.
    let subnormal = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if a < 113 << 23 { subnormal } else { normal };
    let large = if a > 0x7F80_0000 { 0x7E00 } else { 0x7C00 };
    // 65520 and more round to infinity.
    (if a >= 0x477F_F000 { large } else { finite }) as u16 | sign
}

/// A half type's conversion.
pub trait Half {
    /// Converts to f32.
    fn widen(h: u16) -> f32;
    /// Converts from f32, to nearest even.
    fn narrow(x: f32) -> u16;
}

/// f16, as bits.
pub struct F16;
/// bf16, as bits.
pub struct Bf16;

impl Half for F16 {
    #[inline(always)]
    fn widen(h: u16) -> f32 {
        widen_f16(h)
    }
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        narrow_f16(x)
    }
}

impl Half for Bf16 {
    #[inline(always)]
    fn widen(h: u16) -> f32 {
        widen_bf16(h)
    }
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        narrow_bf16(x)
    }
}

/// A half tile to f32.
pub struct Widen<H>(PhantomData<H>);
/// An f32 tile to half.
pub struct Narrow<H>(PhantomData<H>);

impl<H: Half> Step for Widen<H> {
    const SIZES: Option<Sizes> = Some(Sizes { ins: &[2], outs: &[4] });
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller's promise.
        unsafe {
            let x: [u16; CHUNK] = load(ins, 0, at, len);
            let mut y = [0.0; CHUNK];
            for j in 0..CHUNK {
                y[j] = H::widen(x[j]);
            }
            store(outs, 0, at, len, y);
        }
    }
}

impl<H: Half> Step for Narrow<H> {
    const SIZES: Option<Sizes> = Some(Sizes { ins: &[4], outs: &[2] });
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller's promise.
        unsafe {
            let x: [f32; CHUNK] = load(ins, 0, at, len);
            let mut y = [0; CHUNK];
            for j in 0..CHUNK {
                y[j] = H::narrow(x[j]);
            }
            store(outs, 0, at, len, y);
        }
    }
}

macro_rules! cast_entry {
    ($variant:expr, $dtype:ident, $k:ty, $avx512:expr) => {
        KernelEntry {
            symbol: "builtin.cast",
            variant: $variant,
            dtype: DType::$dtype,
            baseline: <$k as Tile>::baseline,
            avx2: avx2_of::<$k>(),
            avx512: $avx512,
        }
    };
}

/// All pairs: the outer list times the inner one.
macro_rules! pairs {
    ($($from:ident $x:ident)*; $to:tt) => { &[$(pairs!(@row $from $x $to)),*] };
    (@row $from:ident $x:ident { $($to:ident $y:ident)* }) => {
        [$(cast_entry!(concat!(stringify!($x), ">", stringify!($y)), $from, Cast<$x, $y>, None)),*]
    };
}

const PAIRS: &[[KernelEntry; 8]] = pairs! {
    Bool bool U8 u8 I8 i8 I16 i16 I32 i32 I64 i64 F32 f32 F64 f64;
    { Bool bool U8 u8 I8 i8 I16 i16 I32 i32 I64 i64 F32 f32 F64 f64 }
};

const HALVES: [KernelEntry; 4] = [
    cast_entry!("f16>f32", F32, Widen<F16>, avx512_of::<Widen<F16>>()),
    cast_entry!("bf16>f32", F32, Widen<Bf16>, avx512_of::<Widen<Bf16>>()),
    cast_entry!("f32>f16", F32, Narrow<F16>, avx512_of::<Narrow<F16>>()),
    cast_entry!("f32>bf16", F32, Narrow<Bf16>, avx512_of::<Narrow<Bf16>>()),
];

/// Every conversion.
pub(super) const CASTS: &[KernelEntry] = &{
    let mut all = [HALVES[0]; 64 + HALVES.len()];
    let mut i = 0;
    while i < all.len() {
        all[i] = if i < 64 { PAIRS[i / 8][i % 8] } else { HALVES[i - 64] };
        i += 1;
    }
    all
};
