//! Runs kernels in tests.
#![allow(dead_code)]

use fulgurite_core::DType;
use fulgurite_core::kernel::{KernelEntry, TileFn};
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::builtin::KERNELS;

/// The levels that this machine has.
pub fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|level| *level <= Level::detect())
}

/// The forms of `entry` that this machine runs.
pub fn forms(entry: &KernelEntry) -> Vec<(Level, TileFn)> {
    let mut forms = vec![(Level::Baseline, entry.baseline)];
    let machine = Level::detect();
    forms.extend(entry.avx2.filter(|_| machine >= Level::Avx2).map(|f| (Level::Avx2, f)));
    forms.extend(entry.avx512.filter(|_| machine >= Level::Avx512).map(|f| (Level::Avx512, f)));
    forms
}

/// The entry with this name.
pub fn entry(symbol: &str, variant: &str, dtype: DType) -> &'static KernelEntry {
    KERNELS
        .iter()
        .find(|e| e.symbol == symbol && e.variant == variant && e.dtype == dtype)
        .unwrap_or_else(|| panic!("no kernel {symbol} {variant} {dtype}"))
}

/// Runs a kernel on slices; the output has `n` elements.
pub fn run<X: Copy, Y: Copy + Default>(f: TileFn, n: usize, ins: &[&[X]], nums: &[u64]) -> Vec<Y> {
    let mut out = vec![Y::default(); n];
    let ins: Vec<*const u8> = ins.iter().map(|x| x.as_ptr().cast()).collect();
    let outs = [out.as_mut_ptr().cast::<u8>()];
    // SAFETY: tests pass slices of at least n elements of the kernel's types.
    unsafe { f(n, ins.as_ptr(), outs.as_ptr(), nums.as_ptr()) };
    out
}

/// A small generator of test values (an LCG's upper bits).
pub struct Lcg(pub u64);

impl Lcg {
    /// The next 32 bits.
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}
