//! How a kernel goes over a tile: chunks of a fixed length in local arrays, which LLVM turns into straight vector code.
//!
//! A chunk is read whole before anything is written, so an output may be the same memory as an input. What is left
//! below a whole chunk is copied to a padded one and goes through the same code, so values don't depend on where in a
//! tile an element stands, and the code exists once.

use crate::math::{Avx2, Avx512, Baseline, Isa};
use fulgurite_core::kernel::TileFn;
use std::mem::MaybeUninit;

/// Elements that a kernel handles at a time: four vectors of AVX2, two of AVX-512 for f32.
pub const CHUNK: usize = 32;
/// Inputs, and outputs, that a [`Pointwise`] kernel may have.
pub const MAX_ARGS: usize = 16;

/// A kernel, to be compiled once per instruction set.
///
/// Implementations mark `run` `#[inline(always)]`: only then is it compiled with the features of the function that
/// [`baseline`], [`avx2`] or [`avx512`] puts around it.
pub trait Tile {
    /// Runs over `n` elements; `this` is the function being run.
    ///
    /// # Safety
    /// As [`TileFn`].
    unsafe fn run<I: Isa>(this: TileFn, n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64);
}

/// The kernel for any CPU.
///
/// # Safety
/// As [`TileFn`].
pub unsafe fn baseline<K: Tile>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<Baseline>(baseline::<K>, n, ins, outs, nums) }
}

/// The kernel for AVX2.
///
/// # Safety
/// As [`TileFn`]; the CPU has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
pub unsafe fn avx2<K: Tile>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<Avx2>(avx2::<K>, n, ins, outs, nums) }
}

/// The kernel for AVX-512.
///
/// # Safety
/// As [`TileFn`]; the CPU has AVX-512 F, VL, DQ and BW.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
pub unsafe fn avx512<K: Tile>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
    // SAFETY: the caller's promise.
    unsafe { K::run::<Avx512>(avx512::<K>, n, ins, outs, nums) }
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

/// A kernel that computes each element from those at the same place.
pub trait Pointwise {
    /// Bytes of an element, per input.
    const INS: &'static [usize];
    /// Bytes of an element, per output.
    const OUTS: &'static [usize];

    /// Computes the chunk from `at` on. Marked `#[inline(always)]`, as [`Tile::run`].
    ///
    /// # Safety
    /// As [`TileFn`] for elements `at..at + CHUNK`.
    unsafe fn chunk<I: Isa>(at: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64);
}

impl<P: Pointwise> Tile for P {
    #[inline(always)]
    unsafe fn run<I: Isa>(this: TileFn, n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        const { assert!(P::INS.len() <= MAX_ARGS && P::OUTS.len() <= MAX_ARGS, "too many arguments for one kernel") };
        let mut at = 0;
        // SAFETY: the caller's promise, for elements below n.
        unsafe {
            while n - at >= CHUNK {
                P::chunk::<I>(at, ins, outs, nums);
                at += CHUNK;
            }
            if at < n {
                rest(this, P::INS, P::OUTS, at, n - at, ins, outs, nums);
            }
        }
    }
}

/// One chunk of arguments, of any type.
type Buffers = [MaybeUninit<[u64; CHUNK]>; MAX_ARGS];

/// Runs `this` on the `len` elements from `at` on, in padded copies.
///
/// # Safety
/// As [`TileFn`] for elements `at..at + len`; len < CHUNK; `sizes_in` and `sizes_out` are those of the kernel.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)]
unsafe fn rest(
    this: TileFn,
    sizes_in: &[usize],
    sizes_out: &[usize],
    at: usize,
    len: usize,
    ins: *const *const u8,
    outs: *const *mut u8,
    nums: *const u64,
) {
    let mut from: Buffers = [const { MaybeUninit::uninit() }; MAX_ARGS];
    let mut to: Buffers = [const { MaybeUninit::uninit() }; MAX_ARGS];
    let mut from_at = [std::ptr::null::<u8>(); MAX_ARGS];
    let mut to_at = [std::ptr::null_mut::<u8>(); MAX_ARGS];
    // SAFETY: a buffer holds CHUNK elements of up to 8 bytes; the caller's pointers hold at + len.
    unsafe {
        for (k, size) in sizes_in.iter().enumerate() {
            let buffer = from[k].as_mut_ptr().cast::<u8>();
            (*ins.add(k)).add(at * size).copy_to_nonoverlapping(buffer, len * size);
            // Zeros are values of every element type.
            buffer.add(len * size).write_bytes(0, (CHUNK - len) * size);
            from_at[k] = buffer;
        }
        for (buffer, pointer) in to.iter_mut().zip(&mut to_at) {
            *pointer = buffer.as_mut_ptr().cast();
        }
        this(CHUNK, from_at.as_ptr(), to_at.as_ptr(), nums);
        for (k, size) in sizes_out.iter().enumerate() {
            to_at[k].copy_to_nonoverlapping((*outs.add(k)).add(at * size), len * size);
        }
    }
}

/// The chunk of input `k` from `at` on.
///
/// # Safety
/// Input `k` holds elements of type `X` up to `at + N`.
#[inline(always)]
pub unsafe fn load<X: Copy, const N: usize>(ins: *const *const u8, k: usize, at: usize) -> [X; N] {
    // SAFETY: the caller's promise.
    unsafe { (*ins.add(k)).cast::<X>().add(at).cast::<[X; N]>().read_unaligned() }
}

/// Writes `chunk` to output `k` from `at` on.
///
/// # Safety
/// Output `k` holds elements of type `Y` up to `at + N`.
#[inline(always)]
pub unsafe fn store<Y: Copy, const N: usize>(outs: *const *mut u8, k: usize, at: usize, chunk: [Y; N]) {
    // SAFETY: the caller's promise.
    unsafe { (*outs.add(k)).cast::<Y>().add(at).cast::<[Y; N]>().write_unaligned(chunk) }
}

/// A run-time number as f64.
///
/// # Safety
/// `nums` holds more than `k` words.
#[inline(always)]
pub unsafe fn number(nums: *const u64, k: usize) -> f64 {
    // SAFETY: the caller's promise.
    f64::from_bits(unsafe { *nums.add(k) })
}

/// A run-time number as i64.
///
/// # Safety
/// `nums` holds more than `k` words.
#[inline(always)]
pub unsafe fn integer(nums: *const u64, k: usize) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { *nums.add(k) as i64 }
}
