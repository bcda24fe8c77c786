//! Sums, products and extrema of lines, and their accumulators.
//!
//! A line is reduced in blocks of [`BLOCK`] elements. Each block is folded in [`LANES`] interleaved lanes, which are
//! then folded in halves, or one element after another if there are few. Blocks are combined in order, in f64 or i64.
//! The order of operations depends on the length of the line alone, not on the instruction set, the threads or the
//! fusion.

mod accumulator;
mod fold;
mod position;

use crate::abi::Level;
use crate::math::{CastTo, Isa};
use crate::multi::multi;
use crate::{with_fold, with_register};
use fulgurite_core::DType;
use fulgurite_core::lang::ast::Red;

pub use accumulator::{Accumulator, Reducible};
pub use fold::{Fold, Max, Min, Prod, Sum};
pub use position::{ExtremumPosition, extremum, search};

/// The elements that are reduced together in the element's own precision.
pub const BLOCK: usize = 256;
/// The interleaved partial results within a block.
pub const LANES: usize = 32;
/// Lines shorter than this are folded one element after another, so that sums of few elements equal PyTorch's to the
/// last bit.
pub const FEW: usize = 8;

/// A source of elements for a fold.
trait Source: Copy {
    /// The register type of the source.
    type T: Reducible;
    /// Element `i`, as a lane.
    ///
    /// # Safety
    /// The source holds more than `i` elements.
    unsafe fn at(self, i: usize) -> <Self::T as Reducible>::Lane;
    /// The rest of the source from element `i` on.
    ///
    /// # Safety
    /// The source holds at least `i` elements.
    unsafe fn from(self, i: usize) -> Self;
    /// The first `n` elements, fewer than [`LANES`], and neutral elements behind them.
    ///
    /// # Safety
    /// The source holds `n` elements.
    unsafe fn end<I: Isa, F: Fold>(self, n: usize) -> [<Self::T as Reducible>::Lane; LANES];
}

/// A line of elements in memory.
#[derive(Clone, Copy)]
struct Line<T>(*const T);

impl<T: Reducible> Source for Line<T> {
    type T = T;
    #[inline(always)]
    unsafe fn at(self, i: usize) -> T::Lane {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.0.add(i).read() }.cast()
    }
    #[inline(always)]
    unsafe fn from(self, i: usize) -> Line<T> {
        // SAFETY: the caller upholds the contract of this function.
        Line(unsafe { self.0.add(i) })
    }
    #[inline(always)]
    unsafe fn end<I: Isa, F: Fold>(self, n: usize) -> [T::Lane; LANES] {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { T::end::<I, F>(self.0, n) }
    }
}

/// The products of two lines, rounded as elements are.
#[derive(Clone, Copy)]
struct Products(*const f32, *const f32);

impl Source for Products {
    type T = f32;
    #[inline(always)]
    unsafe fn at(self, i: usize) -> f32 {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.0.add(i).read() * self.1.add(i).read() }
    }
    #[inline(always)]
    unsafe fn from(self, i: usize) -> Products {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { Products(self.0.add(i), self.1.add(i)) }
    }
    // Only sums have such a source, and zeros have the product zero, which is neutral.
    #[inline(always)]
    unsafe fn end<I: Isa, F: Fold>(self, n: usize) -> [f32; LANES] {
        // SAFETY: the caller upholds the contract of this function.
        let (x, mut y) = unsafe { (f32::end::<I, Sum>(self.0, n), f32::end::<I, Sum>(self.1, n)) };
        for (y, x) in y.iter_mut().zip(x) {
            *y *= x;
        }
        y
    }
}

/// The partial results of a block, one for each lane, and the lanes that met a NaN.
struct Lanes<L> {
    totals: [L; LANES],
    nan: [bool; LANES],
}

impl<L: Accumulator> Lanes<L> {
    /// Folds `ROWS` times [`LANES`] elements, lane by lane. The compiler knows the number of rows, so LLVM makes whole
    /// vectors.
    ///
    /// # Safety
    /// `x` holds `ROWS * LANES` elements.
    #[inline(always)]
    unsafe fn of<S: Source<T: Reducible<Lane = L>>, F: Fold, const ROWS: usize>(x: S) -> Lanes<L> {
        let mut lanes = Lanes { totals: [F::start(); LANES], nan: [false; LANES] };
        for j in 0..LANES {
            for i in 0..ROWS {
                // SAFETY: the caller upholds the contract of this function.
                lanes.add::<F>(j, unsafe { x.at(i * LANES + j) });
            }
        }
        lanes
    }

    #[inline(always)]
    fn add<F: Fold>(&mut self, j: usize, x: L) {
        self.totals[j] = F::step_numbers(self.totals[j], x);
        self.nan[j] |= F::NAN_WINS && x.isnan();
    }

    #[inline(always)]
    fn total<F: Fold>(&self) -> L {
        if self.nan.iter().fold(false, |any, x| any | x) {
            return Accumulator::NAN;
        }
        Accumulator::fold_halves::<F>(&self.totals)
    }
}

/// Folds a block of up to [`BLOCK`] elements. Blocks that are not full have one end, which is most of the code of a fold.
///
/// # Safety
/// `x` holds `n` elements.
#[inline(always)]
unsafe fn fold_block<I: Isa, S: Source, F: Fold>(x: S, n: usize) -> <S::T as Reducible>::Lane {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let mut lanes = match n / LANES {
            0 => Lanes::of::<S, F, 0>(x),
            1 => Lanes::of::<S, F, 1>(x),
            2 => Lanes::of::<S, F, 2>(x),
            3 => Lanes::of::<S, F, 3>(x),
            4 => Lanes::of::<S, F, 4>(x),
            5 => Lanes::of::<S, F, 5>(x),
            6 => Lanes::of::<S, F, 6>(x),
            7 => Lanes::of::<S, F, 7>(x),
            _ => return Lanes::of::<S, F, 8>(x).total::<F>(),
        };
        // Neutral elements change no lane: none is the zero below zero, because all start at the neutral element.
        let end = x.from(n / LANES * LANES).end::<I, F>(n % LANES);
        for (j, x) in end.iter().enumerate() {
            lanes.add::<F>(j, *x);
        }
        lanes.total::<F>()
    }
}

const _: () = assert!(BLOCK == 8 * LANES && LANES == 32);

/// Folds a line of fewer than [`FEW`] elements in their order.
///
/// # Safety
/// `x` holds `n` elements.
#[inline(always)]
unsafe fn fold_few<S: Source, F: Fold>(x: S, n: usize) -> <S::T as Reducible>::Lane {
    // SAFETY: the caller upholds the contract of this function.
    (0..n).fold(F::start(), |total, i| F::step(total, unsafe { x.at(i) }))
}

/// Folds a line of any length into an accumulator.
///
/// # Safety
/// `x` holds `n` elements, `acc` one accumulator that no other code uses.
#[inline(always)]
unsafe fn fold_into<I: Isa, S: Source, F: Fold>(x: S, n: usize, acc: *mut u8) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let acc = acc as *mut <S::T as Reducible>::Acc;
        let mut total = acc.read();
        let mut at = 0;
        while at < n {
            let x = x.from(at);
            let k = (n - at).min(BLOCK);
            let folded = if k < FEW { fold_few::<S, F>(x, k) } else { fold_block::<I, S, F>(x, k) };
            total = F::step(total, folded.cast());
            at += k;
        }
        acc.write(total);
    }
}

/// Folds each element of a line into its own accumulator.
///
/// # Safety
/// `x` holds `n` elements, `acc` holds `n` accumulators that no other code uses.
#[inline(always)]
unsafe fn fold_apart<S: Source, F: Fold>(x: S, n: usize, acc: *mut u8) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let acc = acc as *mut <S::T as Reducible>::Acc;
        for i in 0..n {
            acc.add(i).write(F::step(acc.add(i).read(), x.at(i).cast()));
        }
    }
}

multi! {
    /// Folds a line into an accumulator.
    ///
    /// # Safety
    /// `src` holds `n` registers of `T`, `acc` one accumulator that no other code uses.
    unsafe fn line<T: Reducible, F: Fold>(src: *const u8, n: usize, acc: *mut u8) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { fold_into::<I, _, F>(Line(src as *const T), n, acc) }
    }
}

multi! {
    /// Folds each element of a line into its own accumulator.
    ///
    /// # Safety
    /// `src` holds `n` registers of `T`, `acc` holds `n` accumulators that no other code uses.
    unsafe fn columns<T: Reducible, F: Fold>(src: *const u8, n: usize, acc: *mut u8) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { fold_apart::<_, F>(Line(src as *const T), n, acc) }
    }
}

multi! {
    /// Adds the products of two lines of f32 to an accumulator, with the bits that `line` gives for these products.
    ///
    /// # Safety
    /// `x` and `y` hold `n` registers of f32, `acc` one accumulator that no other code uses.
    unsafe fn products(x: *const u8, y: *const u8, n: usize, acc: *mut u8) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { fold_into::<I, _, Sum>(Products(x as *const f32, y as *const f32), n, acc) }
    }
}

multi! {
    /// Adds each product of two lines of f32 to its own accumulator.
    ///
    /// # Safety
    /// `x` and `y` hold `n` registers of f32, `acc` holds `n` accumulators that no other code uses.
    unsafe fn product_columns(x: *const u8, y: *const u8, n: usize, acc: *mut u8) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { fold_apart::<_, Sum>(Products(x as *const f32, y as *const f32), n, acc) }
    }
}

/// A fold of one line, or of the products of two lines, into one accumulator or one per element.
#[derive(Clone, Copy, Debug)]
pub enum FoldFn {
    /// A fold of one line.
    One(line::Fn),
    /// A fold of the products of two lines.
    Products(products::Fn),
}

impl FoldFn {
    /// Folds `n` elements from byte `from` on of the lines whose pointers are at `lines`.
    ///
    /// # Safety
    /// The contract of `line` or [`products`] holds for those elements; `lines` holds a pointer for each line.
    #[inline(always)]
    pub unsafe fn call(self, lines: *const *mut u8, from: usize, n: usize, acc: *mut u8) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let line = |k: usize| lines.add(k).read().add(from) as *const u8;
            match self {
                FoldFn::One(f) => f(line(0), n, acc),
                FoldFn::Products(f) => f(line(0), line(1), n, acc),
            }
        }
    }

    /// The number of lines that the fold reads.
    pub fn lines(self) -> u32 {
        match self {
            FoldFn::One(_) => 1,
            FoldFn::Products(_) => 2,
        }
    }
}

/// The function that folds a line of registers of `dtype`.
pub fn fold_line(red: Red, dtype: DType, isa: Level) -> line::Fn {
    with_register!(dtype, T => with_fold!(red, F => line::pick::<T, F>(isa)))
}

/// The function that folds a line into a line of accumulators.
pub fn fold_columns(red: Red, dtype: DType, isa: Level) -> columns::Fn {
    with_register!(dtype, T => with_fold!(red, F => columns::pick::<T, F>(isa)))
}

/// The function that sums products of f32, over lines or element by element.
pub fn fold_products(columns: bool, isa: Level) -> products::Fn {
    if columns { product_columns::pick(isa) } else { products::pick(isa) }
}

/// The bits of the neutral accumulator of a reduction.
pub fn start(red: Red, float: bool) -> u64 {
    with_fold!(red, F => if float { F::start::<f64>().bits() } else { F::start::<i64>().bits() })
}

/// Writes an accumulator as a register of `dtype`.
///
/// # Safety
/// `dst` holds one element.
pub unsafe fn finish(dtype: DType, bits: u64, dst: *mut u8) {
    let int = bits as i64;
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        match dtype {
            DType::F32 => (dst as *mut f32).write(f64::from_bits(bits) as f32),
            DType::F64 => (dst as *mut f64).write(f64::from_bits(bits)),
            DType::Bool => dst.write((int != 0) as u8),
            _ => match dtype.size() {
                1 => dst.write(int as u8),
                2 => (dst as *mut i16).write(int as i16),
                4 => (dst as *mut i32).write(int as i32),
                _ => (dst as *mut i64).write(int),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(x: &[f32], isa: Level) -> f64 {
        let mut acc = start(Red::Sum, true);
        // SAFETY: the slice holds its elements.
        unsafe {
            fold_line(Red::Sum, DType::F32, isa)(x.as_ptr() as *const u8, x.len(), &mut acc as *mut u64 as *mut u8)
        };
        f64::from_bits(acc)
    }

    #[test]
    fn sums_do_not_depend_on_the_instruction_set() {
        let x: Vec<f32> = (0..2000).map(|i| ((i * 7919) % 1000) as f32 * 1e-3 - 0.3).collect();
        for n in [0, 1, 31, 32, 33, 255, 256, 257, 1000, 2000] {
            let all: Vec<f64> =
                Level::ALL.into_iter().filter(|isa| *isa <= Level::current()).map(|isa| sum(&x[..n], isa)).collect();
            assert!(all.windows(2).all(|w| w[0].to_bits() == w[1].to_bits()), "{n}: {all:?}");
            let exact: f64 = x[..n].iter().map(|x| *x as f64).sum();
            assert!((all[0] - exact).abs() <= 1e-5 * n as f64);
        }
    }

    #[test]
    fn sums_of_products_have_the_bits_of_products_that_are_summed() {
        let x: Vec<f32> = (0..2000).map(|i| ((i * 7919) % 1000) as f32 * 1e-3 - 0.3).collect();
        let y: Vec<f32> = (0..2000).map(|i| ((i * 104_729) % 997) as f32 * 1e-2 - 2.0).collect();
        let both: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
        let lines = [x.as_ptr() as *mut u8, y.as_ptr() as *mut u8];
        for isa in Level::ALL.into_iter().filter(|isa| *isa <= Level::current()) {
            for n in [0, 1, 7, 31, 32, 33, 255, 256, 257, 1000, 2000] {
                let of = |columns| FoldFn::Products(fold_products(columns, isa));
                let mut acc = start(Red::Sum, true);
                // SAFETY: both lines hold n elements.
                unsafe { of(false).call(lines.as_ptr(), 0, n, &mut acc as *mut u64 as *mut u8) };
                assert_eq!(f64::from_bits(acc).to_bits(), sum(&both[..n], isa).to_bits(), "{isa:?} {n}");
                let mut accs = vec![1.0; n];
                // SAFETY: as above, and there are n accumulators.
                unsafe { of(true).call(lines.as_ptr(), 0, n, accs.as_mut_ptr() as *mut u8) };
                assert!(accs.iter().zip(&both).all(|(acc, x)| *acc == 1.0 + f64::from(*x)), "{isa:?} {n}");
            }
        }
    }
}
