//! The ways to combine two numbers into one.

use super::Accumulator;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128;

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
                N::$step(a, b)
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
    Sum: ZERO, add, N::add, _mm_add_ps, false;
    Prod: ONE, mul, N::mul, _mm_mul_ps, false;
    Max: LEAST, max, |a, b| if b > a { b } else { a }, _mm_max_ps, true;
    Min: MOST, min, |a, b| if b < a { b } else { a }, _mm_min_ps, true;
}

/// Runs `$body` with the fold of a reduction; any and all are the maximum and minimum of 0 and 1.
#[macro_export]
macro_rules! with_fold {
    ($red:expr, $f:ident => $body:expr) => {{
        use $crate::core::lang::ast::Red;
        match $red {
            Red::Prod => {
                type $f = $crate::reduce::Prod;
                $body
            }
            Red::Max | Red::Any | Red::ArgMax => {
                type $f = $crate::reduce::Max;
                $body
            }
            Red::Min | Red::All | Red::ArgMin => {
                type $f = $crate::reduce::Min;
                $body
            }
            _ => {
                type $f = $crate::reduce::Sum;
                $body
            }
        }
    }};
}
