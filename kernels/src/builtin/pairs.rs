//! Two builtins of f32 in one kernel, the second applied to the result of the first, which saves writing and reading a
//! tile. The bits are those of two kernels in sequence.

use super::maps::entry;
use super::ops::{self, Op2};
use crate::math::Isa;
use crate::tile::{CHUNK, Tile, avx2_of, avx512_of, load, store};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;
use std::marker::PhantomData;

/// `B(A(x, y), z)`; `Y` and `Z` say whether y and z are one number each for all elements.
pub struct BuiltinPair<A, B, const Y: bool, const Z: bool>(PhantomData<(A, B)>);

/// z - x: a difference whose second operand is the result of the first builtin.
#[allow(non_camel_case_types)]
pub struct from;

impl Op2<f32> for from {
    type Y = f32;
    #[inline(always)]
    fn call<I: Isa>(x: f32, z: f32) -> f32 {
        z - x
    }
}

/// The value of input `k`, if the input is one number.
///
/// # Safety
/// If `ONE`, input `k` holds an element.
#[inline(always)]
unsafe fn one<const ONE: bool>(ins: *const *const u8, k: usize) -> f32 {
    // SAFETY: the caller's promise.
    unsafe { if ONE { (*ins.add(k)).cast::<f32>().read_unaligned() } else { 0.0 } }
}

/// Elements of input `k`, or `one` for each of them.
///
/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn operand<const ONE: bool>(one: f32, ins: *const *const u8, k: usize, at: usize, len: usize) -> [f32; CHUNK] {
    // SAFETY: the caller's promise.
    unsafe { if ONE { [one; CHUNK] } else { load(ins, k, at, len) } }
}

impl<A: Op2<f32, Y = f32>, B: Op2<f32, Y = f32>, const Y: bool, const Z: bool> BuiltinPair<A, B, Y, Z> {
    /// The elements `at..at + len`; a function, because a closure is not compiled for the instruction set around it.
    ///
    /// # Safety
    /// As [`load`].
    #[inline(always)]
    unsafe fn chunk<I: Isa>(ones: [f32; 2], at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let x: [f32; CHUNK] = load(ins, 0, at, len);
            let (y, z) = (operand::<Y>(ones[0], ins, 1, at, len), operand::<Z>(ones[1], ins, 2, at, len));
            let mut out = [0.0; CHUNK];
            for j in 0..CHUNK {
                out[j] = B::call::<I>(A::call::<I>(x[j], y[j]), z[j]);
            }
            store(outs, 0, at, len, out);
        }
    }
}

impl<A: Op2<f32, Y = f32>, B: Op2<f32, Y = f32>, const Y: bool, const Z: bool> Tile for BuiltinPair<A, B, Y, Z> {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        let whole = n / CHUNK * CHUNK;
        let mut at = 0;
        // SAFETY: the caller's promise; at + len ≤ n throughout.
        unsafe {
            // The numbers are read before any output is written, since an output may share the memory of an input.
            let ones = [one::<Y>(ins, 1), one::<Z>(ins, 2)];
            while at < whole {
                Self::chunk::<I>(ones, at, CHUNK, ins, outs);
                at += CHUNK;
            }
            if at < n {
                Self::chunk::<I>(ones, at, n - at, ins, outs);
            }
        }
    }
}

/// `pairs! { add: add mul …; }`: the entries of each builtin with each possible second one.
macro_rules! pairs {
    ($($a:ident: $($b:ident)*;)*) => { &[$($(
        pairs!(@ $a, concat!(stringify!($b)), $b false false),
        pairs!(@ $a, concat!("by ", stringify!($b)), $b true false),
        pairs!(@ $a, concat!(stringify!($b), " by"), $b false true),
        pairs!(@ $a, concat!("by ", stringify!($b), " by"), $b true true),
    )*)*] };
    (@ $a:ident, $variant:expr, $b:ident $y:literal $z:literal) => {
        entry!(
            @ concat!("builtin.", stringify!($a)), $variant, F32, BuiltinPair<ops::$a, second::$b, $y, $z>,
            avx512_of::<BuiltinPair<ops::$a, second::$b, $y, $z>>()
        )
    };
}

/// The possible second builtins.
mod second {
    pub use super::from;
    pub use super::ops::{add, mul, sub};
}

/// The entries. The symbol is the first builtin and the variant is the second, with `by` beside each builtin whose
/// second argument is one number: `by add`, `sub by`.
pub(super) const PAIRS: &[KernelEntry] = pairs! {
    add: add mul sub from;
    mul: add mul sub from;
    sub: add mul sub from;
};
