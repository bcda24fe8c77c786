//! The interface of CPU tile kernels: what codegen emits, what the CPU executor calls.

use crate::DType;

/// A kernel over one tile: `n` elements of dense typed arrays of the compute dtype.
///
/// f16 and bf16 never appear (the executor converts tiles to f32); bool is a `u8` of 0 or 1. `nums` are the run-time
/// numbers as raw 64-bit words (f64 bits, or i64).
///
/// # Safety
/// Every pointer of `ins` is readable and every pointer of `outs` writable for `n` elements of the kernel's dtypes; an
/// output may equal an input exactly but not overlap it otherwise; `nums` holds as many words as the kernel reads; the
/// CPU has the instruction set that the function was compiled for.
pub type TileFn = unsafe fn(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64);

/// One kernel in up to three instruction sets.
#[derive(Clone, Copy)]
pub struct KernelEntry {
    /// The row, or `builtin.exp` and the like.
    pub symbol: &'static str,
    /// Static options and presence that chose the branch: `approximate=tanh`, `hi=absent`; casts: `f32>i64`.
    pub variant: &'static str,
    /// Compute dtype.
    pub dtype: DType,
    /// For any CPU of the architecture.
    pub baseline: TileFn,
    /// With AVX2 and FMA.
    pub avx2: Option<TileFn>,
    /// With AVX-512 (F, VL, DQ, BW).
    pub avx512: Option<TileFn>,
}
