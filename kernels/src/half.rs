//! f16, bf16 and eight-bit floats: widened on load, rounded at the end of a line, narrowed on store.

use crate::abi::Level;
use crate::multi::multi;
use ::half::{f16, slice::HalfFloatSliceExt};
use fulgurite_core::kernel::TileFn;
use fulgurite_core::{DType, f8};
use std::sync::LazyLock;

/// The nearest bf16, with ties to even; NaN stays NaN.
#[inline(always)]
fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { bits >> 16 | 0x40 } else { rounded }) as u16
}

multi! {
    /// Widens bf16 to f32.
    ///
    /// # Safety
    /// The contract of [`widen_f16`] holds for bf16.
    unsafe fn widen_bf16(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: the caller's pointers hold `n` elements; they do not overlap, their types differ in width.
        unsafe {
            let (x, y) = (*ins as *const u16, *outs as *mut u32);
            for i in 0..n {
                y.add(i).write((x.add(i).read() as u32) << 16);
            }
        }
    }
}

multi! {
    /// Narrows f32 to bf16.
    ///
    /// # Safety
    /// The contract of [`narrow_f16`] holds for bf16.
    unsafe fn narrow_bf16(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: as in `widen_bf16`.
        unsafe {
            let (x, y) = (*ins as *const f32, *outs as *mut u16);
            for i in 0..n {
                y.add(i).write(to_bf16(x.add(i).read()));
            }
        }
    }
}

multi! {
    /// Rounds f32 to bf16.
    ///
    /// # Safety
    /// The contract of [`round_f16`] holds.
    unsafe fn round_bf16(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: the caller's pointers hold `n` elements. They may be equal, because each element is read before it is
        // written.
        unsafe {
            let (x, y) = (*ins as *const f32, *outs as *mut u32);
            for i in 0..n {
                y.add(i).write((to_bf16(x.add(i).read()) as u32) << 16);
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

/// The two eight-bit formats as types, so that a kernel is made for each.
pub trait Eight {
    /// The dtype of the format.
    const DTYPE: DType;
    /// The numbers of all 256 codes.
    fn table() -> &'static [f32; 256];
}

/// The format e4m3fn.
pub struct E4m3;
/// The format e5m2.
pub struct E5m2;

impl Eight for E4m3 {
    const DTYPE: DType = DType::F8E4M3FN;
    fn table() -> &'static [f32; 256] {
        static TABLE: LazyLock<[f32; 256]> = LazyLock::new(|| f8::table(DType::F8E4M3FN));
        &TABLE
    }
}
impl Eight for E5m2 {
    const DTYPE: DType = DType::F8E5M2;
    fn table() -> &'static [f32; 256] {
        static TABLE: LazyLock<[f32; 256]> = LazyLock::new(|| f8::table(DType::F8E5M2));
        &TABLE
    }
}

/// # Safety
/// The first pointer of `ins` is to `n` bytes, that of `outs` to `n` f32 that no other code uses.
unsafe fn widen_f8<E: Eight>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
    let table = E::table();
    // SAFETY: the caller's pointers hold `n` elements and do not overlap.
    unsafe {
        let (x, y) = (*ins, *outs as *mut f32);
        for i in 0..n {
            y.add(i).write(table[usize::from(x.add(i).read())]);
        }
    }
}

multi! {
    /// Narrows f32 to e4m3fn or e5m2.
    ///
    /// # Safety
    /// The first pointer of `ins` is to `n` f32, that of `outs` to room for `n` bytes that no other code uses.
    unsafe fn narrow_f8<E: Eight>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: as in `widen_f8`.
        unsafe {
            let (x, y) = (*ins as *const f32, *outs);
            for i in 0..n {
                y.add(i).write(f8::encode(x.add(i).read(), E::DTYPE));
            }
        }
    }
}

/// # Safety
/// The first pointers of `ins` and `outs` are to `n` f32, to which no other code writes; the two may be equal.
unsafe fn round_f8<E: Eight>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
    let table = E::table();
    // SAFETY: the caller's pointers hold `n` elements; each is read before it is written.
    unsafe {
        let (x, y) = (*ins as *const f32, *outs as *mut f32);
        for i in 0..n {
            y.add(i).write(table[usize::from(f8::encode(x.add(i).read(), E::DTYPE))]);
        }
    }
}

/// Widens a narrow float to f32.
pub fn widen(from: DType, isa: Level) -> TileFn {
    match from {
        DType::F16 => widen_f16,
        DType::F8E4M3FN => widen_f8::<E4m3>,
        DType::F8E5M2 => widen_f8::<E5m2>,
        _ => widen_bf16::pick(isa),
    }
}

/// Narrows f32 to a narrow float.
pub fn narrow(to: DType, isa: Level) -> TileFn {
    match to {
        DType::F16 => narrow_f16,
        DType::F8E4M3FN => narrow_f8::pick::<E4m3>(isa),
        DType::F8E5M2 => narrow_f8::pick::<E5m2>(isa),
        _ => narrow_bf16::pick(isa),
    }
}

/// Rounds f32 to the nearest value of a narrow float.
pub fn round(to: DType, isa: Level) -> TileFn {
    match to {
        DType::F16 => round_f16,
        DType::F8E4M3FN => round_f8::<E4m3>,
        DType::F8E5M2 => round_f8::<E5m2>,
        _ => round_bf16::pick(isa),
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
            DType::F8E4M3FN | DType::F8E5M2 => f8::round(x, to),
            _ => bf16::from_f32(x).to_f32(),
        }
    }

    #[test]
    fn all_halves_survive_and_all_floats_round_like_the_crate() {
        let bits: Vec<u16> = (0..=u16::MAX).collect();
        for dtype in [DType::F16, DType::BF16] {
            let mut wide = vec![0f32; bits.len()];
            let mut back = vec![0u16; bits.len()];
            // SAFETY: all hold as many elements.
            unsafe {
                widen(dtype, Level::current())(
                    bits.len(),
                    &(bits.as_ptr() as *const u8),
                    &(wide.as_mut_ptr() as *mut u8),
                    std::ptr::null(),
                );
                narrow(dtype, Level::current())(
                    bits.len(),
                    &(wide.as_ptr() as *const u8),
                    &(back.as_mut_ptr() as *mut u8),
                    std::ptr::null(),
                );
            }
            for (i, (&b, &w)) in bits.iter().zip(&wide).enumerate() {
                let exact = if dtype == DType::F16 { f16::from_bits(b).to_f32() } else { bf16::from_bits(b).to_f32() };
                assert!(w.to_bits() == exact.to_bits() || (w.is_nan() && exact.is_nan()));
                assert!(back[i] == b || exact.is_nan());
            }
            let floats: Vec<f32> = (0..100_000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9E37_79B9))).collect();
            let mut out = vec![0f32; floats.len()];
            // SAFETY: both hold as many elements.
            unsafe {
                round(dtype, Level::current())(
                    floats.len(),
                    &(floats.as_ptr() as *const u8),
                    &(out.as_mut_ptr() as *mut u8),
                    std::ptr::null(),
                )
            };
            for (x, y) in floats.iter().zip(&out) {
                let expected = rounded(*x, dtype);
                assert!(
                    y.to_bits() == expected.to_bits() || (y.is_nan() && expected.is_nan()),
                    "{x:e} {y:e} {expected:e}"
                );
            }
        }
    }
}
