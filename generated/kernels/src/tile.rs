//! How a kernel goes over a tile: chunks of a fixed length in local arrays, which LLVM turns into vector code, and the
//! same code once more on a padded chunk for what is left.
//!
//! A chunk is read whole before anything is written, so an output may be the same memory as an input. Every element
//! takes the same path, so values don't depend on where in a tile an element stands.

use crate::math::{Avx2, Avx512, Baseline, Isa};
use fulgurite_core::kernel::TileFn;

/// Elements that a kernel handles at a time: four vectors of AVX2, two of AVX-512 for f32.
pub const CHUNK: usize = 32;

/// A kernel, to be compiled once per instruction set.
///
/// Implementations mark `run` `#[inline(always)]`: only then is it compiled with the features of the function that
/// [`baseline`], [`avx2`] and [`avx512`] put around it.
pub trait Tile {
    /// Runs over `n` elements.
    ///
    /// # Safety
    /// As [`TileFn`].
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64);
}

/// The kernel for any CPU.
///
/// # Safety
/// As [`TileFn`].
pub unsafe fn baseline<K: Tile>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<Baseline>(n, ins, outs, nums) }
}

/// The kernel for AVX2 and FMA.
///
/// # Safety
/// As [`TileFn`]; the CPU has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn avx2<K: Tile>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<Avx2>(n, ins, outs, nums) }
}

/// The kernel for AVX-512.
///
/// # Safety
/// As [`TileFn`]; the CPU has AVX-512 F, VL, DQ and BW.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
pub unsafe fn avx512<K: Tile>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<Avx512>(n, ins, outs, nums) }
}

/// The AVX2 form of a kernel, on architectures that have one.
pub const fn avx2_of<K: Tile>() -> Option<TileFn> {
    #[cfg(target_arch = "x86_64")]
    return Some(avx2::<K>);
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The AVX-512 form of a kernel, on architectures that have one.
pub const fn avx512_of<K: Tile>() -> Option<TileFn> {
    #[cfg(target_arch = "x86_64")]
    return Some(avx512::<K>);
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Elements `at..` of input `k`: a whole chunk, or `len` elements and copies of the first for padding.
///
/// # Safety
/// Input `k` holds elements of type `X` up to `at + len`, `len` in 1..=N.
#[inline(always)]
pub unsafe fn load<X: Copy, const N: usize>(ins: *const *const u8, k: usize, at: usize, len: usize) -> [X; N] {
    // SAFETY: the caller's promise; elements need not be aligned to the chunk, only read one after the other.
    unsafe {
        let from = (*ins.add(k)).cast::<X>().add(at);
        if len == N {
            return from.cast::<[X; N]>().read_unaligned();
        }
        let mut chunk = [from.read_unaligned(); N];
        let mut j = 1;
        while j < len {
            chunk[j] = from.add(j).read_unaligned();
            j += 1;
        }
        chunk
    }
}

/// Writes `len` elements of `chunk` to output `k` from `at` on.
///
/// # Safety
/// Output `k` holds elements of type `Y` up to `at + len`, `len` in 1..=N.
#[inline(always)]
pub unsafe fn store<Y: Copy, const N: usize>(outs: *const *mut u8, k: usize, at: usize, len: usize, chunk: [Y; N]) {
    // SAFETY: the caller's promise.
    unsafe {
        let to = (*outs.add(k)).cast::<Y>().add(at);
        if len == N {
            to.cast::<[Y; N]>().write_unaligned(chunk);
            return;
        }
        let mut j = 0;
        while j < len {
            to.add(j).write_unaligned(chunk[j]);
            j += 1;
        }
    }
}

/// One step of a kernel: the elements `at..at + len`. `len` is a constant `N` but for the last step.
pub trait Step {
    /// Runs the step.
    ///
    /// # Safety
    /// As [`Tile::run`] for elements `at..at + len`.
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64);
}

/// Steps over all elements.
///
/// # Safety
/// As [`Tile::run`].
#[inline(always)]
pub unsafe fn steps<I: Isa, S: Step>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
    let mut at = 0;
    // SAFETY: the caller's promise; at + len ≤ n throughout.
    unsafe {
        while at + CHUNK <= n {
            S::step::<I>(at, CHUNK, ins, outs, nums);
            at += CHUNK;
        }
        if at < n {
            S::step::<I>(at, n - at, ins, outs, nums);
        }
    }
}
