//! The builtins as types, and the kernels that apply one to each element.

use crate::math::{self as m, Bits, Elem, Int, Isa, Logic, Number, Real};
use crate::tile::{CHUNK, Sizes, Step, load, store, tile_by_steps};
use std::marker::PhantomData;

/// A function of one argument.
pub trait Op1<X> {
    /// Its value's type.
    type Y: Elem;
    /// Its value; `#[inline(always)]`.
    fn call<I: Isa>(x: X) -> Self::Y;
}

/// A function of two arguments of one type.
pub trait Op2<X> {
    /// Its value's type.
    type Y: Elem;
    /// Its value; `#[inline(always)]`.
    fn call<I: Isa>(x: X, y: X) -> Self::Y;
}

/// `O` of each element.
pub struct Map1<O, X>(PhantomData<(O, X)>);
/// `O` of each pair of elements.
pub struct Map2<O, X>(PhantomData<(O, X)>);
/// `if c { x } else { y }` of each triple of elements.
pub struct Select<X>(PhantomData<X>);

tile_by_steps! {
    [X: Elem, O: Op1<X>] Map1<O, X>;
    [X: Elem, O: Op2<X>] Map2<O, X>;
    [X: Elem] Select<X>;
}

impl<X: Elem, O: Op1<X>> Step for Map1<O, X> {
    const SIZES: Option<Sizes> = Some(Sizes { ins: &[size_of::<X>()], outs: &[size_of::<O::Y>()] });
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller's promise.
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
    const SIZES: Option<Sizes> = Some(Sizes { ins: &[size_of::<X>(), size_of::<X>()], outs: &[size_of::<O::Y>()] });
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller's promise.
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

impl<X: Elem> Step for Select<X> {
    const SIZES: Option<Sizes> = Some(Sizes { ins: &[1, size_of::<X>(), size_of::<X>()], outs: &[size_of::<X>()] });
    #[inline(always)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, _: *const u64) {
        // SAFETY: the caller's promise.
        unsafe {
            let c: [u8; CHUNK] = load(ins, 0, at, len);
            let x: [X; CHUNK] = load(ins, 1, at, len);
            let y: [X; CHUNK] = load(ins, 2, at, len);
            let mut z = [X::default(); CHUNK];
            for j in 0..CHUNK {
                z[j] = m::select::<I, X>(c[j] != 0, x[j], y[j]);
            }
            store(outs, 0, at, len, z);
        }
    }
}

/// `ops1! { Real exp ln …; }`: a type per builtin of one argument, with its name.
macro_rules! ops1 {
    ($($bound:ident $y:tt: $($name:ident)*;)*) => {$($(
        #[allow(non_camel_case_types)]
        #[doc = concat!("`", stringify!($name), "`")]
        pub struct $name;
        impl<T: $bound> Op1<T> for $name {
            type Y = result!($y T);
            #[inline(always)]
            fn call<I: Isa>(x: T) -> Self::Y {
                m::$name::<I, T>(x)
            }
        }
    )*)*};
}

macro_rules! ops2 {
    ($($bound:ident $y:tt: $($name:ident)*;)*) => {$($(
        #[allow(non_camel_case_types)]
        #[doc = concat!("`", stringify!($name), "`")]
        pub struct $name;
        impl<T: $bound> Op2<T> for $name {
            type Y = result!($y T);
            #[inline(always)]
            fn call<I: Isa>(x: T, y: T) -> Self::Y {
                m::$name::<I, T>(x, y)
            }
        }
    )*)*};
}

macro_rules! result {
    (same $t:ident) => {
        $t
    };
    (truth $t:ident) => {
        bool
    };
}

ops1! {
    Elem same: sign;
    Elem truth: isnan isinf isfinite;
    Number same: neg abs floor ceil round trunc;
    Bits same: bitnot;
    Logic same: not;
    Real same: sqrt rsqrt reciprocal exp exp2 expm1 ln log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh
        acosh atanh erf erfc erfinv erfcx lgamma digamma i0 i0e i1 i1e sigmoid;
}

ops2! {
    Elem same: add mul max min;
    Elem truth: eq ne lt le gt ge;
    Number same: sub pow rem_trunc rem_floor div_floor div_trunc;
    Bits same: bitand bitor bitxor;
    Int same: shl shr gcd lcm;
    Logic same: and or;
    Real same: div atan2 hypot copysign nextafter polygamma;
}
