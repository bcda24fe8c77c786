//! The builtins as types, and the kernels that apply one to each element.

use super::maps::{Entries, entry};
use crate::math::{self as m, Bits, Elem, Int, Isa, Logic, Number, Real};
use crate::tile::{CHUNK, Sizes, Step, load, store, tile_by_steps};
use fulgurite_core::kernel::KernelEntry;
use std::marker::PhantomData;

/// A function of one argument.
pub trait Op1<X> {
    /// The type of the function's value.
    type Y: Elem;
    /// The value of the function at an argument; `#[inline(always)]`.
    fn call<I: Isa>(x: X) -> Self::Y;
}

/// A function of two arguments of one type.
pub trait Op2<X> {
    /// The type of the function's value.
    type Y: Elem;
    /// The value of the function at two arguments; `#[inline(always)]`.
    fn call<I: Isa>(x: X, y: X) -> Self::Y;
}

/// `O` of each element.
pub struct Map1<O, X>(PhantomData<(O, X)>);
/// `O` of each pair of elements.
pub struct Map2<O, X>(PhantomData<(O, X)>);

tile_by_steps! {
    [X: Elem, O: Op1<X>] Map1<O, X>;
    [X: Elem, O: Op2<X>] Map2<O, X>;
}

impl<X: Elem, O: Op1<X>> Step for Map1<O, X> {
    const SIZES: Sizes = Sizes { ins: &[size_of::<X>()], outs: &[size_of::<O::Y>()] };
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller upholds the contract: the arguments hold elements `at..at + len` of these types.
        unsafe {
            let x: [X; CHUNK] = load(ins, 0, at, len);
            let mut y = [O::Y::default(); CHUNK];
            for j in 0..CHUNK {
                y[j] = O::call::<I>(x[j]);
            }
            store(outs, 0, at, len, y);
        }
    }
}

impl<X: Elem, O: Op2<X>> Step for Map2<O, X> {
    const SIZES: Sizes = Sizes { ins: &[size_of::<X>(), size_of::<X>()], outs: &[size_of::<O::Y>()] };
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller upholds the contract: the arguments hold elements `at..at + len` of these types.
        unsafe {
            let x: [X; CHUNK] = load(ins, 0, at, len);
            let y: [X; CHUNK] = load(ins, 1, at, len);
            let mut z = [O::Y::default(); CHUNK];
            for j in 0..CHUNK {
                z[j] = O::call::<I>(x[j], y[j]);
            }
            store(outs, 0, at, len, z);
        }
    }
}

/// `builtins! { Real REAL { Map1 same: exp ln …; } }`: a type per builtin of `Real`, named like it, and the entries of
/// all of them as `Entries::<T>::REAL`.
macro_rules! builtins {
    ($($bound:ident $entries:ident { $($map:ident $y:ident: $($name:ident)*;)* })*) => {
        $($($(
            #[allow(non_camel_case_types)]
            #[doc = concat!("`", stringify!($name), "`")]
            pub struct $name;
            function!($map $bound $name, $y T);
        )*)*)*
        $(impl<T: $bound> Entries<T> {
            #[doc = concat!("Those of [`", stringify!($bound), "`].")]
            pub(super) const $entries: &[KernelEntry] = &[$($(
                entry::<$map<$name, T>>(concat!("builtin.", stringify!($name)), "", T::DTYPE),
            )*)*];
        })*
    };
}

macro_rules! function {
    (Map1 $bound:ident $name:ident, $y:ident $t:ident) => {
        impl<$t: $bound> Op1<$t> for $name {
            type Y = result!($y $t);
            #[inline(always)]
            fn call<I: Isa>(x: $t) -> Self::Y {
                m::$name::<I, $t>(x)
            }
        }
    };
    (Map2 $bound:ident $name:ident, $y:ident $t:ident) => {
        impl<$t: $bound> Op2<$t> for $name {
            type Y = result!($y $t);
            #[inline(always)]
            fn call<I: Isa>(x: $t, y: $t) -> Self::Y {
                m::$name::<I, $t>(x, y)
            }
        }
    };
}

macro_rules! result {
    (same $t:ident) => {
        $t
    };
    (truth $t:ident) => {
        bool
    };
}

builtins! {
    Elem ELEM {
        Map1 same: sign;
        Map1 truth: isnan isinf isfinite;
        Map2 same: add mul max min;
        Map2 truth: eq ne lt le gt ge;
    }
    Number NUMBER {
        Map1 same: neg abs floor ceil round trunc;
        Map2 same: sub pow rem_trunc rem_floor div_floor div_trunc;
    }
    Bits BITS {
        Map1 same: bitnot;
        Map2 same: bitand bitor bitxor;
    }
    Int INT {
        Map2 same: shl shr gcd lcm;
    }
    Logic LOGIC {
        Map1 same: not;
        Map2 same: and or;
    }
    Real REAL {
        Map1 same: sqrt rsqrt reciprocal exp2 expm1 ln log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh
            acosh atanh erf erfc erfinv erfcx lgamma digamma i0 i0e i1 i1e sigmoid;
        Map2 same: div atan2 hypot copysign nextafter polygamma;
    }
    Real EXP {
        Map1 same: exp;
    }
}
