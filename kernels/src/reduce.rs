//! Sums, products and extrema of lines, and their accumulators.
//!
//! A line is reduced in blocks of [`BLOCK`] elements. Each block is folded in [`LANES`] interleaved lanes, which are
//! then folded in halves, or one element after another if there are few. Blocks are combined in order, in f64 or i64.
//! The order of operations depends on the length of the line alone, not on the instruction set, the threads or the
//! fusion.

use crate::abi::Level;
use crate::multi::multi;
use fulgurite_core::DType;
use fulgurite_core::lang::ast::Red;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128;

/// The elements that are reduced together in the element's own precision.
pub const BLOCK: usize = 256;
/// The interleaved partial results within a block.
pub const LANES: usize = 32;
/// Lines shorter than this are folded one element after another, so that sums of few elements equal PyTorch's to the
/// last bit.
const FEW: usize = 8;

/// A number type in which lanes or blocks are accumulated.
pub trait Accumulator: Copy + PartialOrd {
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;
    /// A number below or equal to every number.
    const LEAST: Self;
    /// A number above or equal to every number.
    const MOST: Self;
    /// The sum; integers wrap.
    fn plus(self, other: Self) -> Self;
    /// The product; integers wrap.
    fn times(self, other: Self) -> Self;
    /// The larger number; NaN wins.
    fn larger(self, other: Self) -> Self;
    /// The smaller number; NaN wins.
    fn smaller(self, other: Self) -> Self;
    /// NaN, or 0 for integers.
    const NAN: Self;
    /// Whether the number is NaN.
    fn is_nan(self) -> bool;
    /// Folds the lanes in halves.
    #[inline(always)]
    fn fold_halves<F: Fold>(lanes: &[Self; LANES]) -> Self {
        let mut lanes = *lanes;
        let mut half = LANES / 2;
        while half > 0 {
            for j in 0..half {
                lanes[j] = F::step(lanes[j], lanes[j + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

macro_rules! float_num {
    ($($t:ty $({ $($own:item)* })?)+) => {$(
        impl Accumulator for $t {
            const NAN: $t = <$t>::NAN;
            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }
            $($($own)*)?
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const LEAST: $t = <$t>::NEG_INFINITY;
            const MOST: $t = <$t>::INFINITY;
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn larger(self, other: $t) -> $t {
                if other > self || other != other { other } else { self }
            }
            #[inline(always)]
            fn smaller(self, other: $t) -> $t {
                if other < self || other != other { other } else { self }
            }
        }
    )+};
}
float_num! {
    f32 {
        // From the plain loop, LLVM would make operations on pairs of lanes.
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn fold_halves<F: Fold>(lanes: &[f32; LANES]) -> f32 {
            use std::arch::x86_64::*;
            // SAFETY: every x86-64 has SSE; four lanes are read at multiples of four below `LANES`.
            unsafe {
                let four = |at: usize| _mm_loadu_ps(lanes.as_ptr().add(4 * at));
                let [a, b, c, d] = std::array::from_fn(|at| F::four(four(at), four(at + 4)));
                let all = F::four(F::four(a, c), F::four(b, d));
                let pair = F::four(all, _mm_movehl_ps(all, all));
                _mm_cvtss_f32(F::four(pair, _mm_shuffle_ps::<1>(pair, pair)))
            }
        }
    }
    f64
}

impl Accumulator for i64 {
    const NAN: i64 = 0;
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
    const ZERO: i64 = 0;
    const ONE: i64 = 1;
    const LEAST: i64 = i64::MIN;
    const MOST: i64 = i64::MAX;
    #[inline(always)]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn times(self, other: i64) -> i64 {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn larger(self, other: i64) -> i64 {
        self.max(other)
    }
    #[inline(always)]
    fn smaller(self, other: i64) -> i64 {
        self.min(other)
    }
}

/// A register type, with the types of its lanes and its accumulators.
pub trait Reducible: Copy {
    /// The type of lanes.
    type Lane: Accumulator;
    /// The type of accumulators, f64 or i64.
    type Acc: Accumulator;
    /// Converts an element to a lane.
    fn lane(self) -> Self::Lane;
    /// Converts a lane to an accumulator.
    fn acc(lane: Self::Lane) -> Self::Acc;
}

macro_rules! elem {
    ($($t:ty: $lane:ty, $acc:ty;)+) => {$(
        impl Reducible for $t {
            type Lane = $lane;
            type Acc = $acc;
            #[inline(always)]
            fn lane(self) -> $lane {
                self as $lane
            }
            #[inline(always)]
            fn acc(lane: $lane) -> $acc {
                lane as $acc
            }
        }
    )+};
}
elem! {
    u8: i64, i64;
    i8: i64, i64;
    i16: i64, i64;
    i32: i64, i64;
    i64: i64, i64;
    f32: f32, f64;
    f64: f64, f64;
}

/// A way to combine two numbers into one.
pub trait Fold {
    /// Whether NaN wins over numbers, which a comparison alone does not ensure.
    const NAN_WINS: bool;
    /// The neutral element.
    fn start<N: Accumulator>() -> N;
    /// Combines two numbers.
    fn step<N: Accumulator>(a: N, b: N) -> N;
    /// Combines two numbers that are not NaN, an accumulator and an element, in one instruction.
    fn step_numbers<N: Accumulator>(a: N, b: N) -> N;
    /// Like `step_numbers`, for four lanes.
    #[cfg(target_arch = "x86_64")]
    fn four(a: __m128, b: __m128) -> __m128;
}

macro_rules! fold {
    ($($name:ident: $start:ident, $step:ident, $numbers:expr, $four:ident, $nan_wins:literal;)+) => {$(
        #[doc = concat!("By `", stringify!($step), "`.")]
        pub struct $name;
        impl Fold for $name {
            const NAN_WINS: bool = $nan_wins;
            #[inline(always)]
            fn start<N: Accumulator>() -> N {
                N::$start
            }
            #[inline(always)]
            fn step<N: Accumulator>(a: N, b: N) -> N {
                a.$step(b)
            }
            #[inline(always)]
            fn step_numbers<N: Accumulator>(a: N, b: N) -> N {
                $numbers(a, b)
            }
            #[cfg(target_arch = "x86_64")]
            #[inline(always)]
            fn four(a: __m128, b: __m128) -> __m128 {
                // SAFETY: every x86-64 has SSE.
                unsafe { std::arch::x86_64::$four(a, b) }
            }
        }
    )+};
}
fold! {
    Sum: ZERO, plus, N::plus, _mm_add_ps, false;
    Prod: ONE, times, N::times, _mm_mul_ps, false;
    Max: LEAST, larger, |a, b| if b > a { b } else { a }, _mm_max_ps, true;
    Min: MOST, smaller, |a, b| if b < a { b } else { a }, _mm_min_ps, true;
}

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
}

/// A line of elements in memory.
#[derive(Clone, Copy)]
struct Line<T>(*const T);

impl<T: Reducible> Source for Line<T> {
    type T = T;
    #[inline(always)]
    unsafe fn at(self, i: usize) -> T::Lane {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.0.add(i).read() }.lane()
    }
    #[inline(always)]
    unsafe fn from(self, i: usize) -> Line<T> {
        // SAFETY: the caller upholds the contract of this function.
        Line(unsafe { self.0.add(i) })
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
}

/// Folds a block of up to [`BLOCK`] elements lane by lane: `ROWS` times [`LANES`] elements, then the rest. The compiler
/// knows the number of rows, so LLVM makes whole vectors.
///
/// # Safety
/// `x` holds `ROWS * LANES + rest` elements.
#[inline(always)]
#[allow(clippy::needless_range_loop)]
unsafe fn fold_block<S: Source, F: Fold, const ROWS: usize>(x: S, rest: usize) -> <S::T as Reducible>::Lane {
    // SAFETY: the caller upholds the contract of this function.
    let at = |i: usize, j: usize| unsafe { x.at(i * LANES + j) };
    let mut lanes = [F::start::<<S::T as Reducible>::Lane>(); LANES];
    let mut nan = [false; LANES];
    for j in 0..LANES {
        for i in 0..ROWS {
            let x = at(i, j);
            lanes[j] = F::step_numbers(lanes[j], x);
            nan[j] |= F::NAN_WINS && x.is_nan();
        }
    }
    if rest > 0 {
        for j in 0..rest {
            let x = at(ROWS, j);
            lanes[j] = F::step_numbers(lanes[j], x);
            nan[j] |= F::NAN_WINS && x.is_nan();
        }
    }
    if nan.iter().fold(false, |any, x| any | x) {
        return Accumulator::NAN;
    }
    Accumulator::fold_halves::<F>(&lanes)
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
unsafe fn fold_into<S: Source, F: Fold>(x: S, n: usize, acc: *mut u8) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let acc = acc as *mut <S::T as Reducible>::Acc;
        let mut total = acc.read();
        let mut at = 0;
        while at < n {
            let x = x.from(at);
            let k = (n - at).min(BLOCK);
            let folded = match k / LANES {
                0 if k < FEW => fold_few::<S, F>(x, k),
                0 => fold_block::<S, F, 0>(x, k),
                1 => fold_block::<S, F, 1>(x, k - LANES),
                2 => fold_block::<S, F, 2>(x, k - 2 * LANES),
                3 => fold_block::<S, F, 3>(x, k - 3 * LANES),
                4 => fold_block::<S, F, 4>(x, k - 4 * LANES),
                5 => fold_block::<S, F, 5>(x, k - 5 * LANES),
                6 => fold_block::<S, F, 6>(x, k - 6 * LANES),
                7 => fold_block::<S, F, 7>(x, k - 7 * LANES),
                _ => fold_block::<S, F, 8>(x, 0),
            };
            total = F::step(total, <S::T as Reducible>::acc(folded));
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
            acc.add(i).write(F::step(acc.add(i).read(), <S::T as Reducible>::acc(x.at(i))));
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
        unsafe { fold_into::<_, F>(Line(src as *const T), n, acc) }
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
    /// Adds the products of two lines of f32 to an accumulator, with the bits that [`line`] gives for these products.
    ///
    /// # Safety
    /// `x` and `y` hold `n` registers of f32, `acc` one accumulator that no other code uses.
    unsafe fn products(x: *const u8, y: *const u8, n: usize, acc: *mut u8) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { fold_into::<_, Sum>(Products(x as *const f32, y as *const f32), n, acc) }
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
    /// The contract of [`line`] or [`products`] holds for those elements; `lines` holds a pointer for each line.
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

/// Runs `$body` with the fold of a reduction; any and all are the maximum and minimum of 0 and 1.
macro_rules! with_fold {
    ($red:expr, $f:ident => $body:expr) => {
        match $red {
            Red::Prod => {
                type $f = Prod;
                $body
            }
            Red::Max | Red::Any | Red::ArgMax => {
                type $f = Max;
                $body
            }
            Red::Min | Red::All | Red::ArgMin => {
                type $f = Min;
                $body
            }
            _ => {
                type $f = Sum;
                $body
            }
        }
    };
}

/// The function that folds a line of registers of `dtype`.
pub fn fold_line(red: Red, dtype: DType, isa: Level) -> line::Fn {
    super::with_register!(dtype, T => with_fold!(red, F => line::pick::<T, F>(isa)))
}

/// The function that folds a line into a line of accumulators.
pub fn fold_columns(red: Red, dtype: DType, isa: Level) -> columns::Fn {
    super::with_register!(dtype, T => with_fold!(red, F => columns::pick::<T, F>(isa)))
}

/// The function that sums products of f32, over lines or element by element.
pub fn fold_products(columns: bool, isa: Level) -> products::Fn {
    if columns { product_columns::pick(isa) } else { products::pick(isa) }
}

/// The bits of the neutral accumulator of a reduction.
pub fn start(red: Red, float: bool) -> u64 {
    with_fold!(red, F => if float { F::start::<f64>().to_bits() } else { F::start::<i64>() as u64 })
}

/// The state of a search for the position of an extremum.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtremumPosition {
    /// The bits of the extremum, an f64 or i64.
    best: u64,
    /// The position of the extremum.
    pub at: i64,
    /// Whether any element was seen.
    seen: u64,
}

impl ExtremumPosition {
    /// The state before any element; its position is 0.
    pub const NONE: ExtremumPosition = ExtremumPosition { best: 0, at: 0, seen: 0 };
}

/// Registers that have an order, for positions of extrema.
pub trait Ordered: Reducible {
    /// The element as bits of f64 or i64.
    fn bits(self) -> u64;
    /// The element of these bits.
    fn from_bits(bits: u64) -> Self;
    /// Whether this element is strictly better, for the maximum or the minimum; NaN is best.
    fn beats(self, other: Self, max: bool) -> bool;
}

macro_rules! ordered {
    ($($t:ty: $wide:ty, $to:expr, $from:expr;)+) => {$(
        impl Ordered for $t {
            fn bits(self) -> u64 {
                let to: fn($wide) -> u64 = $to;
                to(self as $wide)
            }
            fn from_bits(bits: u64) -> $t {
                let from: fn(u64) -> $wide = $from;
                from(bits) as $t
            }
            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn beats(self, other: $t, max: bool) -> bool {
                let (nan, other_nan) = (self != self, other != other);
                if max { self > other || (nan && !other_nan) } else { self < other || (nan && !other_nan) }
            }
        }
    )+};
}
ordered! {
    u8: i64, |x| x as u64, |b| b as i64;
    i8: i64, |x| x as u64, |b| b as i64;
    i16: i64, |x| x as u64, |b| b as i64;
    i32: i64, |x| x as u64, |b| b as i64;
    i64: i64, |x| x as u64, |b| b as i64;
    f32: f64, f64::to_bits, f64::from_bits;
    f64: f64, f64::to_bits, f64::from_bits;
}

multi! {
    /// Continues the search for the first extremum with elements at positions from `from` on for which `mask` holds.
    ///
    /// # Safety
    /// `src` holds `n` registers of `T`, `mask` holds `n` bytes or is null, `acc` holds one [`ExtremumPosition`] that no other code
    /// uses.
    unsafe fn extremum<T: Ordered>(src: *const u8, mask: *const u8, n: usize, from: i64, max: bool, acc: *mut u8) {
        // SAFETY: the caller's pointers hold `n` elements (a null mask means all) and one `ExtremumPosition`.
        unsafe {
            let x = src as *const T;
            let arg = &mut *(acc as *mut ExtremumPosition);
            if mask.is_null() && n > 0 {
                // Most blocks hold no better element, so the block's extremum is found before its position.
                let mut best = x.read();
                for i in 1..n {
                    let v = x.add(i).read();
                    best = if v.beats(best, max) { v } else { best };
                }
                if arg.seen != 0 && !best.beats(T::from_bits(arg.best), max) {
                    return;
                }
            }
            for i in 0..n {
                if !mask.is_null() && mask.add(i).read() == 0 {
                    continue;
                }
                let v = x.add(i).read();
                if arg.seen == 0 || v.beats(T::from_bits(arg.best), max) {
                    *arg = ExtremumPosition { best: v.bits(), at: from + i as i64, seen: 1 };
                }
            }
        }
    }
}

/// The function that searches registers of `dtype`.
pub fn search(dtype: DType, isa: Level) -> extremum::Fn {
    super::with_register!(dtype, T => extremum::pick::<T>(isa))
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
            DType::U8 | DType::I8 | DType::F8E4M3FN | DType::F8E5M2 | DType::U4X2 => dst.write(int as u8),
            DType::I16 | DType::F16 | DType::BF16 => (dst as *mut i16).write(int as i16),
            DType::I32 => (dst as *mut i32).write(int as i32),
            DType::I64 | DType::C64 | DType::C128 => (dst as *mut i64).write(int),
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
            let all: Vec<f64> = [Level::Baseline, Level::Avx2, Level::Avx512]
                .into_iter()
                .filter(|isa| *isa <= Level::current())
                .map(|isa| sum(&x[..n], isa))
                .collect();
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
        for isa in [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().filter(|isa| *isa <= Level::current()) {
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

    #[test]
    fn extrema_are_first_and_nan_wins() {
        let find = |x: &[f32], mask: Option<&[u8]>, max: bool| {
            let mut arg = ExtremumPosition::NONE;
            let at = &mut arg as *mut ExtremumPosition as *mut u8;
            let mask = mask.map_or(std::ptr::null(), |m| m.as_ptr());
            // SAFETY: the slices hold their elements.
            unsafe { search(DType::F32, Level::current())(x.as_ptr() as *const u8, mask, x.len(), 0, max, at) };
            arg.at
        };
        assert_eq!(find(&[1., 3., 3., 2.], None, true), 1);
        assert_eq!(find(&[1., f32::NAN, 3., f32::NAN], None, true), 1);
        assert_eq!(find(&[1., f32::NAN, 0.], None, false), 1);
        assert_eq!(find(&[f32::NEG_INFINITY; 3], None, true), 0);
        assert_eq!(find(&[5., f32::NEG_INFINITY, 4.], Some(&[0, 1, 0]), true), 1);
    }
}
