//! Kernels that examine a chunk before they choose how to compute it, and kernels of two arguments whose second is one
//! number for all elements: variant `by`.

use super::maps::entry;
use crate::math::Isa;
use crate::math::quick::{Divisor, Exp, Quick, Quotient};
use crate::tile::{CHUNK, Tile, avx2_of, avx512_of, load, store};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;

/// `f` of each element of the first argument.
///
/// # Safety
/// Input 0 and output 0 hold `n` elements of f32.
#[inline(always)]
unsafe fn map(n: usize, ins: *const *const u8, outs: *const *mut u8, f: impl Fn(f32) -> f32) {
    let all = |x: [f32; CHUNK]| {
        let mut y = [0.0; CHUNK];
        for j in 0..CHUNK {
            y[j] = f(x[j]);
        }
        y
    };
    let whole = n / CHUNK * CHUNK;
    let mut at = 0;
    // SAFETY: the caller's promise; at + len ≤ n throughout.
    unsafe {
        while at < whole {
            store(outs, 0, at, CHUNK, all(load(ins, 0, at, CHUNK)));
            at += CHUNK;
        }
        if at < n {
            store(outs, 0, at, n - at, all(load(ins, 0, at, n - at)));
        }
    }
}

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

/// A chunk; a function, because a closure is not compiled for the instruction set around it.
#[inline(always)]
fn chunk<I: Isa, Q: Quick>(x: [f32; CHUNK], allowed: bool, known: Q::Known) -> [f32; CHUNK] {
    let mut y = [0.0; CHUNK];
    if allowed && within(&x, Q::RANGE) {
        for j in 0..CHUNK {
            y[j] = Q::short::<I>(x[j], known);
        }
    } else {
        for j in 0..CHUNK {
            y[j] = Q::long::<I>(x[j], known);
        }
    }
    y
}

/// The short form of `Q` for chunks that allow it.
///
/// # Safety
/// As [`map`].
#[inline(always)]
unsafe fn quick<I: Isa, Q: Quick>(n: usize, ins: *const *const u8, outs: *const *mut u8, known: Q::Known) {
    let allowed = Q::allows::<I>(known);
    let whole = n / CHUNK * CHUNK;
    let mut at = 0;
    // SAFETY: the caller's promise; at + len ≤ n throughout.
    unsafe {
        while at < whole {
            store(outs, 0, at, CHUNK, chunk::<I, Q>(load(ins, 0, at, CHUNK), allowed, known));
            at += CHUNK;
        }
        if at < n {
            store(outs, 0, at, n - at, chunk::<I, Q>(load(ins, 0, at, n - at), allowed, known));
        }
    }
}

/// The second argument: one number.
///
/// # Safety
/// Input 1 holds an element of f32.
#[inline(always)]
unsafe fn second(ins: *const *const u8) -> f32 {
    // SAFETY: the caller's promise.
    unsafe { (*ins.add(1)).cast::<f32>().read_unaligned() }
}

macro_rules! tiles {
    ($($name:ident ($n:ident $ins:ident $outs:ident) $body:expr;)*) => {$(
        #[doc = concat!("See the entries: `", stringify!($name), "`.")]
        pub struct $name;
        impl Tile for $name {
            #[inline(always)]
            unsafe fn run<I: Isa>($n: usize, $ins: *const *const u8, $outs: *const *mut u8, _: *const u64) {
                // SAFETY: the caller's promise; a second argument holds an element at least.
                unsafe { $body }
            }
        }
    )*};
}

tiles! {
    ExpTile (n ins outs) quick::<I, Exp>(n, ins, outs, ());
    AddBy (n ins outs) { let y = second(ins); map(n, ins, outs, |x| x + y) };
    SubBy (n ins outs) { let y = second(ins); map(n, ins, outs, |x| x - y) };
    MulBy (n ins outs) { let y = second(ins); map(n, ins, outs, |x| x * y) };
    DivBy (n ins outs) quick::<I, Quotient>(n, ins, outs, Divisor::new(second(ins)));
}

/// The entries, of f32 alone: wider elements are bound by memory.
pub(super) const QUICK: &[KernelEntry] = &[
    entry!(@ "builtin.exp", "", F32, ExpTile, avx512_of::<ExpTile>()),
    entry!(@ "builtin.add", "by", F32, AddBy, avx512_of::<AddBy>()),
    entry!(@ "builtin.sub", "by", F32, SubBy, avx512_of::<SubBy>()),
    entry!(@ "builtin.mul", "by", F32, MulBy, avx512_of::<MulBy>()),
    entry!(@ "builtin.div", "by", F32, DivBy, avx512_of::<DivBy>()),
];
