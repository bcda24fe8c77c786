//! Kernels that look at a tile before they choose how to compute it, and those of two arguments, the second of which is
//! one number for all elements: variant `by`.

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

/// Whether the magnitudes of a tile are 0 or in a range; those of NaN are not.
///
/// # Safety
/// `x` points to `n` elements.
#[inline(always)]
unsafe fn within(x: *const f32, n: usize, (least, most): (f32, f32)) -> bool {
    let mut high = [0u32; CHUNK];
    let mut low = [u32::MAX; CHUNK];
    let mut see = |j: usize, x: f32| {
        let size = x.to_bits() & 0x7FFF_FFFF;
        high[j] = high[j].max(size);
        // One below 0 is the largest number.
        low[j] = low[j].min(size.wrapping_sub(1));
    };
    let whole = n / CHUNK * CHUNK;
    let mut at = 0;
    // SAFETY: the caller's promise; at + j < n throughout.
    unsafe {
        while at < whole {
            for j in 0..CHUNK {
                see(j, x.add(at + j).read_unaligned());
            }
            at += CHUNK;
        }
        for j in 0..n - whole {
            see(j, x.add(whole + j).read_unaligned());
        }
    }
    let high = high.iter().fold(0, |a, b| a.max(*b));
    let low = low.iter().fold(u32::MAX, |a, b| a.min(*b));
    high <= most.to_bits() && low >= least.to_bits().saturating_sub(1)
}

/// The short form of `Q` for tiles that allow it.
///
/// # Safety
/// As [`map`].
#[inline(always)]
unsafe fn quick<I: Isa, Q: Quick>(n: usize, ins: *const *const u8, outs: *const *mut u8, known: Q::Known) {
    // SAFETY: the caller's promise.
    unsafe {
        if Q::allows::<I>(known) && within((*ins).cast(), n, Q::RANGE) {
            map(n, ins, outs, |x| Q::short::<I>(x, known))
        } else {
            map(n, ins, outs, |x| Q::long::<I>(x, known))
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

/// Their entries, of f32 alone: longer elements wait for memory.
pub(super) const QUICK: &[KernelEntry] = &[
    entry!(@ "builtin.exp", "", F32, ExpTile, avx512_of::<ExpTile>()),
    entry!(@ "builtin.add", "by", F32, AddBy, avx512_of::<AddBy>()),
    entry!(@ "builtin.sub", "by", F32, SubBy, avx512_of::<SubBy>()),
    entry!(@ "builtin.mul", "by", F32, MulBy, avx512_of::<MulBy>()),
    entry!(@ "builtin.div", "by", F32, DivBy, avx512_of::<DivBy>()),
];
