//! The loop of a kernel over a tile: chunks of a fixed length in local arrays, which LLVM turns into straight vector
//! code.
//!
//! A chunk is read completely before its output is written, so an output may be the memory of an input. The last
//! incomplete chunk is padded and goes through the code of whole chunks, so values do not depend on the position of an
//! element in a tile.

use crate::math::{Avx2, Avx512, Baseline, Isa, Level};
use fulgurite_core::kernel::TileFn;
use std::mem::MaybeUninit;

/// Elements that a kernel handles at a time: four vectors of AVX2, two of AVX-512 for f32.
pub const CHUNK: usize = 32;
/// At most this many inputs, and outputs, of a [`Step`], because their pointers are kept in arrays.
pub const MAX_ARGS: usize = 16;

/// A kernel that is compiled once per instruction set.
///
/// Implementations mark `run` `#[inline(always)]`, so that it is compiled with the target features of the enclosing
/// method. The forms are methods, not functions of this module, because rustc compiles a method in the unit of its
/// type: a changed row recompiles only its own kernels.
pub trait Tile {
    /// Runs over `n` elements.
    ///
    /// # Safety
    /// The contract of [`TileFn`] holds.
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64);

    /// The kernel for any CPU.
    ///
    /// # Safety
    /// The contract of [`TileFn`] holds.
    unsafe fn baseline(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { Self::run::<Baseline>(n, ins, outs, nums) }
    }

    /// The kernel for AVX2.
    ///
    /// # Safety
    /// The contract of [`TileFn`] holds; the CPU has AVX2, FMA and F16C.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn avx2(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { Self::run::<Avx2>(n, ins, outs, nums) }
    }

    /// The kernel for AVX-512.
    ///
    /// # Safety
    /// The contract of [`TileFn`] holds; the CPU has AVX-512 F, VL, DQ and BW.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
    unsafe fn avx512(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { Self::run::<Avx512>(n, ins, outs, nums) }
    }
}

/// The AVX2 form of a kernel, on architectures that have one.
pub const fn avx2_of<K: Tile>() -> Option<TileFn> {
    #[cfg(target_arch = "x86_64")]
    return Some(K::avx2);
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The AVX-512 form of a kernel, on architectures that have one.
pub const fn avx512_of<K: Tile>() -> Option<TileFn> {
    #[cfg(target_arch = "x86_64")]
    return Some(K::avx512);
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// The form of a kernel that belongs to `I`.
#[inline(always)]
fn form<I: Isa, K: Tile>() -> TileFn {
    match I::LEVEL {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => K::avx512,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => K::avx2,
        _ => K::baseline,
    }
}

/// Bytes of an element of each input and output.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Per input.
    pub ins: &'static [usize],
    /// Per output.
    pub outs: &'static [usize],
}

/// A kernel that computes each element from those at the same place; [`steps`] is its [`Tile::run`].
pub trait Step: Tile {
    /// With them, the elements below a whole chunk run in padded copies through the one copy of the code.
    const SIZES: Sizes;

    /// Computes the elements `at..at + len`, where `len` is the constant [`CHUNK`]. Marked `#[inline(always)]`, as
    /// [`Tile::run`].
    ///
    /// # Safety
    /// The contract of [`TileFn`] holds for elements `at..at + len`.
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64);
}

/// Steps over `n` elements.
///
/// # Safety
/// The contract of [`TileFn`] holds.
#[inline(always)]
pub unsafe fn steps<I: Isa, S: Step>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
    let sizes = const {
        assert!(S::SIZES.ins.len() <= MAX_ARGS && S::SIZES.outs.len() <= MAX_ARGS, "too many arguments for one kernel");
        S::SIZES
    };
    let mut at = 0;
    // SAFETY: the caller upholds the contract; at + len ≤ n throughout.
    unsafe {
        while n - at >= CHUNK {
            S::step::<I>(at, CHUNK, ins, outs, nums);
            at += CHUNK;
        }
        if at < n {
            rest(form::<I, S>(), sizes, at, n - at, ins, outs, nums);
        }
    }
}

/// A computation of chunks that holds values of its own: those are read before any output is written, since an output
/// may share the memory of an input.
pub(crate) trait Chunks {
    /// Computes the elements `at..at + len`; `#[inline(always)]`. It is a method, because a closure is not compiled for
    /// the instruction set around it.
    ///
    /// # Safety
    /// The contract of [`TileFn`] holds for elements `at..at + len`; `len` is in `1..=CHUNK`.
    unsafe fn chunk<I: Isa>(&self, at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8);

    /// Computes `n` elements.
    ///
    /// # Safety
    /// The contract of [`TileFn`] holds.
    #[inline(always)]
    unsafe fn all<I: Isa>(&self, n: usize, ins: *const *const u8, outs: *const *mut u8) {
        let whole = n / CHUNK * CHUNK;
        let mut at = 0;
        // SAFETY: the caller upholds the contract; at + len ≤ n throughout.
        unsafe {
            while at < whole {
                self.chunk::<I>(at, CHUNK, ins, outs);
                at += CHUNK;
            }
            if at < n {
                self.chunk::<I>(at, n - at, ins, outs);
            }
        }
    }
}

/// The number in the first element of input `k`.
///
/// # Safety
/// Input `k` holds an element of f32.
#[inline(always)]
pub(crate) unsafe fn first(ins: *const *const u8, k: usize) -> f32 {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { (*ins.add(k)).cast::<f32>().read_unaligned() }
}

/// One chunk of arguments, of any type.
type Buffers = [MaybeUninit<[u64; CHUNK]>; MAX_ARGS];

/// Runs `this` on the `len` elements from `at` on, in padded copies.
///
/// # Safety
/// The contract of [`TileFn`] holds for elements `at..at + len`; len < CHUNK; `sizes` are those of the kernel.
#[inline(never)]
unsafe fn rest(
    this: TileFn,
    sizes: Sizes,
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
        for (k, size) in sizes.ins.iter().enumerate() {
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
        for (k, size) in sizes.outs.iter().enumerate() {
            to_at[k].copy_to_nonoverlapping((*outs.add(k)).add(at * size), len * size);
        }
    }
}

/// Elements `at..` of input `k`: a whole chunk, or `len` of them and copies of the first for padding.
///
/// # Safety
/// Input `k` holds elements of type `X` up to `at + len`, `len` in 1..=N.
#[inline(always)]
pub unsafe fn load<X: Copy, const N: usize>(ins: *const *const u8, k: usize, at: usize, len: usize) -> [X; N] {
    // SAFETY: the caller's promise.
    unsafe {
        let from = (*ins.add(k)).cast::<X>().add(at);
        if len == N {
            return from.cast::<[X; N]>().read_unaligned();
        }
        let mut chunk = [from.read_unaligned(); N];
        for (j, x) in chunk.iter_mut().enumerate().take(len) {
            *x = from.add(j).read_unaligned();
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
            return to.cast::<[Y; N]>().write_unaligned(chunk);
        }
        for (j, y) in chunk.iter().enumerate().take(len) {
            to.add(j).write_unaligned(*y);
        }
    }
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

/// The [`Tile`] of types that are a [`Step`].
macro_rules! tile_by_steps {
    ($([$($generics:tt)*] $t:ty $(where [$($bounds:tt)*])?;)*) => {$(
        impl<$($generics)*> $crate::tile::Tile for $t $(where $($bounds)*)? {
            #[inline(always)]
            unsafe fn run<I: $crate::math::Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
                // SAFETY: the caller's promise.
                unsafe { $crate::tile::steps::<I, Self>(n, ins, outs, nums) }
            }
        }
    )*};
}
pub(crate) use tile_by_steps;
