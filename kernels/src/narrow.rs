//! Numbers that are stored otherwise than they compute, such as bf16: widened on load, rounded at the end of a line,
//! narrowed on store.

use crate::abi::Level;
use crate::cast::cast_tile;
use crate::math::CastTo;
use crate::multi::multi;
use ::half::{f16, slice::HalfFloatSliceExt};
use fulgurite_core::kernel::TileFn;
use fulgurite_core::{DType, minifloat};
use std::sync::LazyLock;

/// The bits of a bf16.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bf16(u16);

impl CastTo<f32> for Bf16 {
    #[inline(always)]
    fn cast(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

impl CastTo<Bf16> for f32 {
    /// The nearest bf16, with ties to even; NaN stays NaN.
    #[inline(always)]
    fn cast(self) -> Bf16 {
        let bits = self.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        Bf16((if self.is_nan() { bits >> 16 | 0x40 } else { rounded }) as u16)
    }
}

multi! {
    /// Rounds f32 to bf16.
    ///
    /// # Safety
    /// The contract of `round_f16` holds.
    unsafe fn round_bf16(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: the caller's pointers hold `n` elements. They may be equal, because each element is read before it is
        // written.
        unsafe {
            let (x, y) = (*ins as *const f32, *outs as *mut f32);
            for i in 0..n {
                let nearest: Bf16 = x.add(i).read().cast();
                y.add(i).write(nearest.cast());
            }
        }
    }
}

/// # Safety
/// The first pointer of `ins` is to `n` f16, that of `outs` to `n` f32 that no other code uses.
unsafe fn widen_f16(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
    // SAFETY: the caller's pointers hold `n` elements and do not overlap. The methods of slices use F16C if the CPU has
    // it.
    unsafe {
        let x = std::slice::from_raw_parts(*ins as *const f16, n);
        x.convert_to_f32_slice(std::slice::from_raw_parts_mut(*outs as *mut f32, n));
    }
}

/// # Safety
/// The first pointer of `ins` is to `n` f32, that of `outs` to `n` f16 that no other code uses.
unsafe fn narrow_f16(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
    // SAFETY: as in `widen_f16`.
    unsafe {
        let y = std::slice::from_raw_parts_mut(*outs as *mut f16, n);
        y.convert_from_f32_slice(std::slice::from_raw_parts(*ins as *const f32, n));
    }
}

/// # Safety
/// The first pointers of `ins` and `outs` are to `n` f32, to which no other code writes; the two may be equal.
unsafe fn round_f16(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
    let mut part = [f16::ZERO; 64];
    // SAFETY: the caller's pointers hold `n` elements; each group is read before it is written.
    unsafe {
        let (x, y) = (*ins as *const f32, *outs as *mut f32);
        let mut at = 0;
        while at < n {
            let k = (n - at).min(part.len());
            part[..k].convert_from_f32_slice(std::slice::from_raw_parts(x.add(at), k));
            part[..k].convert_to_f32_slice(std::slice::from_raw_parts_mut(y.add(at), k));
            at += k;
        }
    }
}

/// The code of a number in a format of four or eight bits: the float of [`FORMATS`] with this index.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Minifloat<const FORMAT: usize>(u8);

const FORMATS: [DType; 6] =
    [DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F8E5M2FNUZ, DType::F8E8M0FNU, DType::F4E2M1FN];

impl<const FORMAT: usize> Minifloat<FORMAT> {
    /// The numbers of all 256 codes.
    fn table() -> &'static [f32; 256] {
        static TABLES: LazyLock<[[f32; 256]; FORMATS.len()]> = LazyLock::new(|| FORMATS.map(minifloat::table));
        &TABLES[FORMAT]
    }
}

impl<const FORMAT: usize> CastTo<Minifloat<FORMAT>> for f32 {
    #[inline(always)]
    fn cast(self) -> Minifloat<FORMAT> {
        Minifloat(minifloat::encode(self, const { FORMATS[FORMAT] }))
    }
}

/// # Safety
/// The first pointer of `ins` is to `n` bytes, that of `outs` to `n` f32 that no other code uses.
unsafe fn widen_minifloat<const FORMAT: usize>(
    n: usize,
    ins: *const *const u8,
    outs: *const *mut u8,
    _nums: *const u64,
) {
    let table = Minifloat::<FORMAT>::table();
    // SAFETY: the caller's pointers hold `n` elements and do not overlap.
    unsafe {
        let (x, y) = (*ins, *outs as *mut f32);
        for i in 0..n {
            y.add(i).write(table[usize::from(x.add(i).read())]);
        }
    }
}

/// # Safety
/// The first pointers of `ins` and `outs` are to `n` f32, to which no other code writes; the two may be equal.
unsafe fn round_minifloat<const FORMAT: usize>(
    n: usize,
    ins: *const *const u8,
    outs: *const *mut u8,
    _nums: *const u64,
) {
    let table = Minifloat::<FORMAT>::table();
    // SAFETY: the caller's pointers hold `n` elements; each is read before it is written.
    unsafe {
        let (x, y) = (*ins as *const f32, *outs as *mut f32);
        for i in 0..n {
            let nearest: Minifloat<FORMAT> = x.add(i).read().cast();
            y.add(i).write(table[usize::from(nearest.0)]);
        }
    }
}

/// Runs `$body` with `$f` as the index of a dtype in [`FORMATS`].
macro_rules! with_format {
    ($dtype:expr, $f:ident => $body:expr) => {
        with_format!(@ $dtype, $f => $body, 1 2 3 4 5)
    };
    (@ $dtype:expr, $f:ident => $body:expr, $($at:literal)*) => {
        match $dtype {
            $(dtype if dtype == FORMATS[$at] => {
                const $f: usize = $at;
                $body
            })*
            _ => {
                const $f: usize = 0;
                $body
            }
        }
    };
}

/// An integer without its upper `ABOVE` bits; a signed one is extended by its sign.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Low<T, const ABOVE: u32>(T);

macro_rules! low {
    ($($t:ty)*) => {$(
        impl<const ABOVE: u32> CastTo<Low<$t, ABOVE>> for $t {
            #[inline(always)]
            fn cast(self) -> Low<$t, ABOVE> {
                Low(self << ABOVE >> ABOVE)
            }
        }
    )*};
}
low! { u8 i8 u32 u64 }

/// Widens numbers that are stored otherwise than they compute to their compute dtype. It is not inlined, so that its
/// kernels are compiled in this crate.
#[inline(never)]
pub fn widen(from: DType, isa: Level) -> TileFn {
    match from {
        DType::F16 => widen_f16,
        DType::BF16 => cast_tile::pick::<Bf16, f32>(isa),
        DType::I2 | DType::I4 => cast_tile::pick::<i8, i8>(isa),
        DType::U2 | DType::U4 => cast_tile::pick::<u8, u8>(isa),
        DType::U16 => cast_tile::pick::<u16, i32>(isa),
        DType::U32 => cast_tile::pick::<u32, i64>(isa),
        DType::U64 => cast_tile::pick::<i64, i64>(isa),
        _ => with_format!(from, F => widen_minifloat::<F>),
    }
}

/// Stores numbers of the compute dtype of a dtype. It is not inlined, so that its kernels are compiled in this crate.
#[inline(never)]
pub fn narrow(to: DType, isa: Level) -> TileFn {
    match to {
        DType::F16 => narrow_f16,
        DType::BF16 => cast_tile::pick::<f32, Bf16>(isa),
        DType::U16 => cast_tile::pick::<i32, u16>(isa),
        DType::U32 => cast_tile::pick::<i64, u32>(isa),
        DType::I2 | DType::I4 | DType::U2 | DType::U4 | DType::U64 => round(to, isa),
        _ => with_format!(to, F => cast_tile::pick::<f32, Minifloat<F>>(isa)),
    }
}

/// Rounds numbers of the compute dtype of a dtype to its numbers: floats to the nearest, integers to their low bits. It
/// is not inlined, so that its kernels are compiled in this crate.
#[inline(never)]
pub fn round(to: DType, isa: Level) -> TileFn {
    match to {
        DType::F16 => round_f16,
        DType::BF16 => round_bf16::pick(isa),
        DType::I2 => cast_tile::pick::<i8, Low<i8, 6>>(isa),
        DType::I4 => cast_tile::pick::<i8, Low<i8, 4>>(isa),
        DType::U2 => cast_tile::pick::<u8, Low<u8, 6>>(isa),
        DType::U4 => cast_tile::pick::<u8, Low<u8, 4>>(isa),
        DType::U16 => cast_tile::pick::<u32, Low<u32, 16>>(isa),
        DType::U32 => cast_tile::pick::<u64, Low<u64, 32>>(isa),
        DType::U64 => cast_tile::pick::<i64, i64>(isa),
        _ => with_format!(to, F => round_minifloat::<F>),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::half::bf16;

    /// An f32 rounded to a narrow float.
    fn rounded(x: f32, to: DType) -> f32 {
        match to {
            DType::F16 => f16::from_f32(x).to_f32(),
            DType::BF16 => bf16::from_f32(x).to_f32(),
            _ => minifloat::round(x, to),
        }
    }

    #[test]
    fn floats_round_to_the_nearest_narrow_number() {
        let floats: Vec<f32> = (0..100_000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9E37_79B9))).collect();
        for dtype in [DType::F16, DType::BF16].into_iter().chain(FORMATS) {
            let mut out = vec![0f32; floats.len()];
            let (x, y) = (floats.as_ptr() as *const u8, out.as_mut_ptr() as *mut u8);
            // SAFETY: both hold as many elements.
            unsafe { round(dtype, Level::current())(floats.len(), &x, &y, std::ptr::null()) };
            for (x, y) in floats.iter().zip(&out) {
                let expected = rounded(*x, dtype);
                let same = y.to_bits() == expected.to_bits() || (y.is_nan() && expected.is_nan());
                assert!(same, "{dtype} {x:e} {y:e} {expected:e}");
            }
        }
    }
}
