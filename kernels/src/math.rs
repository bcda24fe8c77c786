//! The scalar functions of kernels: `m::exp::<I, _>(x)` and so on, one per scalar builtin.
//!
//! Each is branch-free where it can be (f32 throughout, but for [`rem_trunc`] and its kin) and `#[inline(always)]`, so
//! that a loop over a chunk becomes vector code of whatever instruction set the enclosing function has. The type
//! parameter `I` says which one that is: fused multiply-add and rounding are library calls without the instructions.
//!
//! **Invariant:** the arithmetic builtins (everything outside [`Real`], and [`Real::div`], [`Real::sqrt`]) give the
//! same bits for every `I`. Inside polynomials fused multiply-add is used where there is one, so the transcendental
//! functions may differ between the baseline and AVX in the last place; AVX2 and AVX-512 agree. Bounds:
//! `tests/accuracy.rs`.
//!
//! [`quick`] has shorter forms for numbers away from the ends of the exponents, with the same bits.

pub mod cast;
mod double;
mod float;
mod integer;
mod isa;
mod single;

use fulgurite_core::DType;
use std::ops::{BitAnd, BitOr, BitXor, Not};

pub use cast::CastTo;
pub use isa::{Avx2, Avx512, Baseline, Isa, Level};
pub use single::quick;

/// The operations of every element type, including bool.
pub trait Elem: Copy + PartialEq + PartialOrd + Default + Send + Sync + 'static {
    /// The dtype of these elements.
    const DTYPE: DType;
    /// Sum; integers wrap, bool is or.
    fn add(self, y: Self) -> Self;
    /// Product; integers wrap, bool is and.
    fn mul(self, y: Self) -> Self;
    /// 1, 0 or -1; NaN gives 0.
    fn sign(self) -> Self;
    /// Neither infinite nor NaN.
    #[inline(always)]
    fn isfinite(self) -> bool {
        true
    }
    /// NaN.
    #[inline(always)]
    fn isnan(self) -> bool {
        false
    }
    /// Infinite.
    #[inline(always)]
    fn isinf(self) -> bool {
        !self.isfinite() & !self.isnan()
    }
    /// The larger; NaN wins, equal arguments give the first.
    #[inline(always)]
    fn max(self, y: Self) -> Self {
        pick(y.isnan(), y, pick(y > self, y, self))
    }
    /// The smaller; NaN wins, equal arguments give the first.
    #[inline(always)]
    fn min(self, y: Self) -> Self {
        pick(y.isnan(), y, pick(y < self, y, self))
    }
}

/// Integers and floats.
///
/// Integer division by zero is refused by the executor before a kernel runs; here it gives 0.
pub trait Number: Elem {
    /// Difference; integers wrap.
    fn sub(self, y: Self) -> Self;
    /// Negation; integers wrap.
    fn neg(self) -> Self;
    /// Absolute value; integers wrap.
    fn abs(self) -> Self;
    /// Largest integer not above.
    fn floor<I: Isa>(self) -> Self;
    /// Smallest integer not below.
    fn ceil<I: Isa>(self) -> Self;
    /// Nearest integer, ties to even.
    fn round<I: Isa>(self) -> Self;
    /// Integer part.
    fn trunc<I: Isa>(self) -> Self;
    /// Power, with PyTorch's conventions.
    fn pow<I: Isa>(self, y: Self) -> Self;
    /// Remainder of truncated division: the sign is that of x.
    fn rem_trunc(self, y: Self) -> Self;
    /// Remainder of floored division: the sign is that of y.
    fn rem_floor(self, y: Self) -> Self;
    /// Floor of the exact quotient.
    fn div_floor<I: Isa>(self, y: Self) -> Self;
    /// Truncated quotient.
    fn div_trunc<I: Isa>(self, y: Self) -> Self;
}

/// bool and integers.
pub trait Bits:
    Elem + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
}

/// bool.
pub trait Logic: Bits {}

/// Integers.
pub trait Int: Bits + Number {
    /// Left shift; 0 beyond the width.
    fn shl(self, y: Self) -> Self;
    /// Arithmetic right shift; only the sign is left beyond the width.
    fn shr(self, y: Self) -> Self;
    /// Greatest common divisor; gcd(0, 0) is 0.
    fn gcd(self, y: Self) -> Self;
    /// Least common multiple; 0 if either is 0.
    fn lcm(self, y: Self) -> Self;
}

macro_rules! real {
    ($($name:ident $doc:literal)*; $($binary:ident $binary_doc:literal)*) => {
        /// Floats.
        pub trait Real: Number {
            $(#[doc = $doc] fn $name<I: Isa>(self) -> Self;)*
            $(#[doc = $binary_doc] fn $binary<I: Isa>(self, y: Self) -> Self;)*
        }
        $(#[doc = $doc] #[inline(always)] pub fn $name<I: Isa, T: Real>(x: T) -> T { x.$name::<I>() })*
        $(#[doc = $binary_doc] #[inline(always)] pub fn $binary<I: Isa, T: Real>(x: T, y: T) -> T { x.$binary::<I>(y) })*
    };
}

real! {
    sqrt "Square root."
    rsqrt "1 / √x, correctly rounded twice."
    reciprocal "1 / x."
    exp "e^x."
    exp2 "2^x."
    expm1 "e^x - 1 without cancellation."
    ln "Natural logarithm."
    log2 "Logarithm to base 2."
    log10 "Logarithm to base 10."
    log1p "ln(1 + x) without cancellation."
    sin "Sine; any argument."
    cos "Cosine; any argument."
    tan "Tangent; any argument."
    asin "Inverse sine."
    acos "Inverse cosine."
    atan "Inverse tangent."
    sinh "Hyperbolic sine."
    cosh "Hyperbolic cosine."
    tanh "Hyperbolic tangent."
    asinh "Inverse hyperbolic sine."
    acosh "Inverse hyperbolic cosine."
    atanh "Inverse hyperbolic tangent."
    erf "Error function."
    erfc "Complementary error function."
    erfinv "Inverse error function."
    erfcx "e^x² erfc(x)."
    lgamma "Logarithm of |Γ|."
    digamma "Its derivative."
    i0 "Modified Bessel function of order 0."
    i0e "e^-|x| I₀(x)."
    i1 "Modified Bessel function of order 1."
    i1e "e^-|x| I₁(x)."
    sigmoid "1 / (1 + e^-x)."
    ;
    div "Quotient."
    atan2 "Angle of the point (y, x): the first argument is the ordinate."
    hypot "√(x² + y²) without overflow."
    copysign "The magnitude of x with the sign of y."
    nextafter "The number of this type next to x in the direction of y."
    polygamma "Derivative of digamma: the order comes first."
}

macro_rules! free {
    ($($bound:ident $name:ident ($($arg:ident),*) -> $result:ident, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[inline(always)]
            pub fn $name<I: Isa, T: $bound>(x: T $(, $arg: T)*) -> free!(@ty $result T) {
                T::$name(x $(, $arg)*)
            }
        )*
    };
    (@ty same $t:ident) => { $t };
    (@ty bool $t:ident) => { bool };
}

free! {
    Elem add (y) -> same, "Sum; integers wrap, bool is or.";
    Elem mul (y) -> same, "Product; integers wrap, bool is and.";
    Elem sign () -> same, "1, 0 or -1; NaN gives 0.";
    Elem max (y) -> same, "The larger; NaN wins, equal arguments give the first.";
    Elem min (y) -> same, "The smaller; NaN wins, equal arguments give the first.";
    Elem isnan () -> bool, "Whether x is NaN.";
    Elem isinf () -> bool, "Whether x is infinite.";
    Elem isfinite () -> bool, "Whether x is neither infinite nor NaN.";
    Number sub (y) -> same, "Difference; integers wrap.";
    Number neg () -> same, "Negation; integers wrap.";
    Number abs () -> same, "Absolute value; integers wrap.";
    Number rem_trunc (y) -> same, "Remainder of truncated division: the sign is that of x.";
    Number rem_floor (y) -> same, "Remainder of floored division: the sign is that of y.";
    Int shl (y) -> same, "Left shift; 0 beyond the width.";
    Int shr (y) -> same, "Arithmetic right shift; only the sign is left beyond the width.";
    Int gcd (y) -> same, "Greatest common divisor; gcd(0, 0) is 0.";
    Int lcm (y) -> same, "Least common multiple; 0 if either is 0.";
}

macro_rules! free_with_isa {
    ($($name:ident ($($arg:ident),*), $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[inline(always)]
            pub fn $name<I: Isa, T: Number>(x: T $(, $arg: T)*) -> T {
                x.$name::<I>($($arg),*)
            }
        )*
    };
}

free_with_isa! {
    floor (), "Largest integer not above.";
    ceil (), "Smallest integer not below.";
    round (), "Nearest integer, ties to even.";
    trunc (), "Integer part.";
    pow (y), "Power, with PyTorch's conventions.";
    div_floor (y), "Floor of the exact quotient.";
    div_trunc (y), "Truncated quotient.";
}

macro_rules! operators {
    ($($bound:ident $name:ident $op:tt -> $result:ident, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[inline(always)]
            pub fn $name<I: Isa, T: $bound>(x: T, y: T) -> free!(@ty $result T) {
                x $op y
            }
        )*
    };
}

operators! {
    Elem eq == -> bool, "x = y";
    Elem ne != -> bool, "x ≠ y";
    Elem lt < -> bool, "x < y";
    Elem le <= -> bool, "x ≤ y";
    Elem gt > -> bool, "x > y";
    Elem ge >= -> bool, "x ≥ y";
    Bits bitand & -> same, "Bitwise and.";
    Bits bitor | -> same, "Bitwise or.";
    Bits bitxor ^ -> same, "Bitwise exclusive or.";
    Logic and & -> same, "Logical and; both sides are evaluated.";
    Logic or | -> same, "Logical or; both sides are evaluated.";
}

/// Bitwise complement.
#[inline(always)]
pub fn bitnot<I: Isa, T: Bits>(x: T) -> T {
    !x
}

/// Logical negation.
#[inline(always)]
pub fn not<I: Isa, T: Logic>(x: T) -> T {
    !x
}

/// x where c holds, else y.
#[inline(always)]
pub fn select<I: Isa, T: Elem>(c: bool, x: T, y: T) -> T {
    pick(c, x, y)
}

/// x where c holds, else y; both values are already computed.
///
/// An `if` between values starts as a branch, and LLVM tends to copy all following code into both arms before the
/// branch becomes a select again, so that whole polynomials are computed twice. This is a select from the start.
#[inline(always)]
fn pick<T>(c: bool, x: T, y: T) -> T {
    std::hint::select_unpredictable(c, x, y)
}

/// The value as an element of another type (conventions: `fulgurite_core::builtins::cast_f64`).
#[inline(always)]
pub fn cast<I: Isa, T: CastTo<U>, U>(x: T) -> U {
    x.cast()
}

/// The random number of this key and position (`fulgurite_core::philox`).
#[inline(always)]
pub fn uniform<T>(key: (u64, u64), position: i64, draw: u32) -> T
where
    f32: CastTo<T>,
{
    fulgurite_core::philox::uniform(key.0, key.1, position as u64, draw).cast()
}
