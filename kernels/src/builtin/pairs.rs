//! Two builtins of f32 in one kernel, the second applied to the result of the first, which saves writing and reading a
//! tile. The bits are those of two kernels in sequence.

use super::maps::entry;
use super::ops::{self, Op2};
use crate::math::Isa;
use crate::tile::{CHUNK, Chunks, Tile, first, load, store};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;
use std::marker::PhantomData;

/// `B(A(x, y), z)`; `Y` and `Z` say whether y and z are one number each for all elements.
pub struct BuiltinPair<A, B, const Y: bool, const Z: bool> {
    /// y and z, if they are one number.
    ones: [f32; 2],
    builtins: PhantomData<(A, B)>,
}

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

/// Elements of input `k`, or `one` for each of them.
///
/// # Safety
/// As [`load`].
#[inline(always)]
unsafe fn operand<const ONE: bool>(one: f32, ins: *const *const u8, k: usize, at: usize, len: usize) -> [f32; CHUNK] {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { if ONE { [one; CHUNK] } else { load(ins, k, at, len) } }
}

impl<A: Op2<f32, Y = f32>, B: Op2<f32, Y = f32>, const Y: bool, const Z: bool> Chunks for BuiltinPair<A, B, Y, Z> {
    #[inline(always)]
    unsafe fn chunk<I: Isa>(&self, at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8) {
        // SAFETY: the caller upholds the contract; inputs and the output are of f32.
        unsafe {
            let x: [f32; CHUNK] = load(ins, 0, at, len);
            let y = operand::<Y>(self.ones[0], ins, 1, at, len);
            let z = operand::<Z>(self.ones[1], ins, 2, at, len);
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
        // SAFETY: the caller upholds the contract; an input that is one number holds an element.
        unsafe {
            let ones = [if Y { first(ins, 1) } else { 0.0 }, if Z { first(ins, 2) } else { 0.0 }];
            BuiltinPair::<A, B, Y, Z> { ones, builtins: PhantomData }.all::<I>(n, ins, outs);
        }
    }
}

/// `pairs! { add: add mul …; }`: the entries of each builtin with each possible second one.
macro_rules! pairs {
    ($($a:ident: $($b:ident)*;)*) => { &[$($(
        pairs!(@ $a, stringify!($b), $b false false),
        pairs!(@ $a, concat!("by ", stringify!($b)), $b true false),
        pairs!(@ $a, concat!(stringify!($b), " by"), $b false true),
        pairs!(@ $a, concat!("by ", stringify!($b), " by"), $b true true),
    )*)*] };
    (@ $a:ident, $variant:expr, $b:ident $y:literal $z:literal) => {
        entry::<BuiltinPair<ops::$a, second::$b, $y, $z>>(concat!("builtin.", stringify!($a)), $variant, DType::F32)
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
