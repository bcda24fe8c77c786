//! Reductions of one tile to one element, in an order that doesn't depend on the instruction set.
//!
//! Element i goes to lane i mod [`LANES`]; each lane adds its elements in order; then lanes i and i + 32, i and i + 16,
//! … are joined. The empty tile gives the identity; max and min of nothing are the smallest and the largest value.

use crate::math::{Elem, Isa};
use crate::tile::{Tile, avx2_of, avx512_of};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;
use std::marker::PhantomData;

/// Partial results kept side by side: four vectors of AVX-512, enough to hide an addition's latency.
pub const LANES: usize = 64;

/// An associative join.
pub trait Join<X> {
    /// The neutral element.
    const IDENTITY: X;
    /// x joined with y, x coming first.
    fn join(x: X, y: X) -> X;
}

#[allow(missing_docs)]
mod joins {
    pub struct Sum;
    pub struct Prod;
    pub struct Max;
    pub struct Min;
}
use joins::{Max, Min, Prod, Sum};

macro_rules! joins {
    ($($t:ident $zero:expr, $one:expr, $least:expr, $most:expr;)*) => {$(
        joins!(@ $t Sum $zero, add; Prod $one, mul; Max $least, max; Min $most, min;);
    )*};
    (@ $t:ident $($name:ident $identity:expr, $join:ident;)*) => {$(
        impl Join<$t> for $name {
            const IDENTITY: $t = $identity;
            #[inline(always)]
            fn join(x: $t, y: $t) -> $t {
                Elem::$join(x, y)
            }
        }
    )*};
}

joins! {
    f32 0.0, 1.0, f32::NEG_INFINITY, f32::INFINITY;
    f64 0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY;
    i64 0, 1, i64::MIN, i64::MAX;
    i32 0, 1, i32::MIN, i32::MAX;
    i16 0, 1, i16::MIN, i16::MAX;
    i8 0, 1, i8::MIN, i8::MAX;
    u8 0, 1, u8::MIN, u8::MAX;
    bool false, true, false, true;
}

/// The join `J` of a whole tile.
pub struct Reduce<J, X>(PhantomData<(J, X)>);

impl<X: Elem, J: Join<X>> Tile for Reduce<J, X> {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller's promise: n elements of input, one of output.
        unsafe {
            let x = (*ins).cast::<X>();
            let mut lanes = [J::IDENTITY; LANES];
            let mut at = 0;
            while n - at >= LANES {
                let chunk = x.add(at).cast::<[X; LANES]>().read_unaligned();
                for j in 0..LANES {
                    lanes[j] = J::join(lanes[j], chunk[j]);
                }
                at += LANES;
            }
            for (j, lane) in lanes.iter_mut().enumerate().take(n - at) {
                *lane = J::join(*lane, x.add(at + j).read());
            }
            let mut width = LANES / 2;
            while width > 0 {
                for j in 0..width {
                    lanes[j] = J::join(lanes[j], lanes[j + width]);
                }
                width /= 2;
            }
            (*outs).cast::<X>().write(lanes[0]);
        }
    }
}

macro_rules! reductions {
    ($($dtype:ident $t:ident;)*) => { &[$(
        reductions!(@ "reduce.sum", $dtype, Reduce<Sum, $t>),
        reductions!(@ "reduce.prod", $dtype, Reduce<Prod, $t>),
        reductions!(@ "reduce.max", $dtype, Reduce<Max, $t>),
        reductions!(@ "reduce.min", $dtype, Reduce<Min, $t>),
    )*] };
    (@ $symbol:literal, $dtype:ident, $k:ty) => {
        KernelEntry {
            symbol: $symbol,
            variant: "",
            dtype: DType::$dtype,
            baseline: <$k as Tile>::baseline,
            avx2: avx2_of::<$k>(),
            avx512: avx512_of::<$k>(),
        }
    };
}

/// Every reduction.
pub(super) const REDUCTIONS: &[KernelEntry] = reductions! {
    F32 f32; F64 f64; I64 i64; I32 i32; I16 i16; I8 i8; U8 u8; Bool bool;
};
