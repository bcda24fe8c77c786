//! Kernels that examine a chunk before they choose how to compute it, and kernels of two arguments whose second is one
//! number for all elements: variant `by`.

use super::maps::entry;
use super::ops::{self, Op2};
use crate::math::Isa;
use crate::math::quick::{Divisor, Exp, Quick, Quotient};
use crate::tile::{CHUNK, Chunks, Tile, first, load, store};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;
use std::marker::PhantomData;

/// Whether the magnitudes of a chunk are 0 or in a range; those of NaN are not.
#[inline(always)]
fn within(x: &[f32; CHUNK], (least, most): (f32, f32)) -> bool {
    let (least, most) = (least.to_bits().saturating_sub(1), most.to_bits());
    let mut all = true;
    for x in x {
        let size = x.to_bits() & 0x7FFF_FFFF;
        // The subtraction wraps, so 0 becomes the largest number.
        all &= (size <= most) & (size.wrapping_sub(1) >= least);
    }
    all
}

/// The short form of `Q` for chunks that allow it.
struct Quickly<Q: Quick> {
    known: Q::Known,
    /// Whether the short form is valid for the common value.
    allowed: bool,
}

impl<Q: Quick> Quickly<Q> {
    #[inline(always)]
    fn new<I: Isa>(known: Q::Known) -> Quickly<Q> {
        Quickly { known, allowed: Q::allows::<I>(known) }
    }
}

impl<Q: Quick> Chunks for Quickly<Q> {
    #[inline(always)]
    unsafe fn chunk<I: Isa>(&self, at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8) {
        // SAFETY: the caller upholds the contract; the input and the output are of f32.
        unsafe {
            let x: [f32; CHUNK] = load(ins, 0, at, len);
            let mut y = [0.0; CHUNK];
            if self.allowed && within(&x, Q::RANGE) {
                for j in 0..CHUNK {
                    y[j] = Q::short::<I>(x[j], self.known);
                }
            } else {
                for j in 0..CHUNK {
                    y[j] = Q::long::<I>(x[j], self.known);
                }
            }
            store(outs, 0, at, len, y);
        }
    }
}

/// e^x
pub struct ExpTile;

impl Tile for ExpTile {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { Quickly::<Exp>::new::<I>(()).all::<I>(n, ins, outs) }
    }
}

/// x / y, where y is one number.
pub struct DivBy;

impl Tile for DivBy {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller upholds the contract; the second input holds an element.
        unsafe { Quickly::<Quotient>::new::<I>(Divisor::new(first(ins, 1))).all::<I>(n, ins, outs) }
    }
}

/// `O` of x and y, where y is one number.
pub struct By<O> {
    y: f32,
    builtin: PhantomData<O>,
}

impl<O: Op2<f32, Y = f32>> Chunks for By<O> {
    #[inline(always)]
    unsafe fn chunk<I: Isa>(&self, at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8) {
        // SAFETY: the caller upholds the contract; the input and the output are of f32.
        unsafe {
            let x: [f32; CHUNK] = load(ins, 0, at, len);
            let mut out = [0.0; CHUNK];
            for j in 0..CHUNK {
                out[j] = O::call::<I>(x[j], self.y);
            }
            store(outs, 0, at, len, out);
        }
    }
}

impl<O: Op2<f32, Y = f32>> Tile for By<O> {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller upholds the contract; the second input holds an element.
        unsafe { By::<O> { y: first(ins, 1), builtin: PhantomData }.all::<I>(n, ins, outs) }
    }
}

/// The entries, of f32 alone: wider elements are bound by memory.
pub(super) const QUICK: &[KernelEntry] = &[
    entry::<ExpTile>("builtin.exp", "", DType::F32),
    entry::<By<ops::add>>("builtin.add", "by", DType::F32),
    entry::<By<ops::sub>>("builtin.sub", "by", DType::F32),
    entry::<By<ops::mul>>("builtin.mul", "by", DType::F32),
    entry::<DivBy>("builtin.div", "by", DType::F32),
];
