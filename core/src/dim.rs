//! Sizes: a value in the current call and, for a symbolic size, the polynomial that it stands for.
//!
//! A size always has a value: that of the call that is being traced. A symbolic size also has an expression over atoms;
//! arithmetic builds expressions, and comparisons record guards. Reading the plain value of a symbolic size records a
//! guard that fixes it, so that no code relies on a value unrecorded. Only [`Dim::hint`] records no guard; it is for
//! uses that decide nothing, such as messages.

mod guard;
mod poly;

pub use guard::{DimGuard, Recording, estimating, recorded};

use guard::{Is, record};
use poly::{Poly, floor_div, floor_rem};
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// A size, an index bound or a length.
#[derive(Clone, Copy)]
pub struct Dim {
    value: i64,
    /// `None`: a constant; [`POISON`]: the size of an error; otherwise the interned polynomial.
    sym: Option<&'static Poly>,
}

static POISON: Poly = Poly::ZERO;

impl Dim {
    /// The size that stands for an error: arithmetic preserves it, reading its value fails.
    pub fn poison() -> Dim {
        Dim { value: 0, sym: Some(&POISON) }
    }

    /// A symbolic size called `name`, whose value in this call is `value`, not negative.
    pub fn atom(name: &str, value: i64) -> Dim {
        Dim { value, sym: Some(Poly::atom(name).interned()) }
    }

    /// The value in this call. Reading it fixes a symbolic size to this number by a guard.
    #[inline]
    pub fn value(self) -> i64 {
        if self.sym.is_some() {
            self.fix();
        }
        self.value
    }

    /// Records the guard that a symbolic size has its current value.
    #[cold]
    fn fix(self) {
        if let Some(p) = self.symbol()
            && let Some(difference) = p.plus(-1, &Poly::constant(self.value))
        {
            record(difference, Is::Equal);
        }
    }

    /// The value in this call without a guard, for uses that do not affect the meaning of a program: messages, costs.
    pub fn hint(self) -> i64 {
        self.value
    }

    /// The value as a length; negative values (which no checked size has) become 0.
    #[inline]
    pub fn len(self) -> usize {
        self.value().max(0) as usize
    }

    /// Whether a length of this size is empty.
    pub fn is_empty(self) -> bool {
        self <= Dim::from(0i64)
    }

    /// Whether the size equals this number; for a symbolic size, only the answer is guarded.
    pub fn is(self, number: i64) -> bool {
        self == Dim::from(number)
    }

    /// Whether the size is 1 in every call, so that it broadcasts without a guard.
    pub fn is_unit(self) -> bool {
        self.is_const() && self.value == 1
    }

    /// Whether both sizes have one expression, hence are equal in every call; records no guard.
    pub fn same(self, other: Dim) -> bool {
        self.symbol_word() == other.symbol_word() && self.value == other.value
    }

    /// Whether the size is equal in all calls.
    #[inline]
    pub fn is_const(self) -> bool {
        self.sym.is_none()
    }

    /// Whether the size stands for an error.
    pub fn is_poison(self) -> bool {
        self.sym.is_some_and(|p| std::ptr::eq(p, &POISON))
    }

    /// A word that only sizes of the same expression share; 0 for constants.
    pub fn symbol_word(self) -> usize {
        self.sym.map_or(0, |p| std::ptr::from_ref(p) as usize)
    }

    /// The size where `at` gives the values of atoms; `None` if it has no value there.
    pub fn at(self, at: &dyn Fn(&str) -> Option<i64>) -> Option<Dim> {
        match self.symbol() {
            _ if self.is_poison() => None,
            Some(p) => p.value(at).map(Dim::from),
            None => Some(self),
        }
    }

    fn symbol(self) -> Option<&'static Poly> {
        self.sym.filter(|p| !std::ptr::eq(*p, &POISON))
    }

    /// The size as a polynomial.
    fn poly(self) -> Poly {
        self.symbol().map_or_else(|| Poly::constant(self.value), Poly::clone)
    }

    fn op(self, op: DimOp, other: Dim) -> Dim {
        if self.is_poison() || other.is_poison() {
            return Dim::poison();
        }
        let (a, b) = (self.value, other.value);
        let value = match op {
            // An overflow saturates: a size that wrapped could look like one that fits.
            DimOp::Add => Some(a.saturating_add(b)),
            DimOp::Sub => Some(a.saturating_sub(b)),
            DimOp::Mul => Some(a.saturating_mul(b)),
            DimOp::Div => floor_div(a, b),
            DimOp::Rem => floor_rem(a, b),
        };
        let Some(value) = value else { return Dim::poison() };
        if self.is_const() && other.is_const() {
            return Dim { value, sym: None };
        }
        self.symbolic(op, other, value)
    }

    #[cold]
    fn symbolic(self, op: DimOp, other: Dim, value: i64) -> Dim {
        let (p, q) = (self.poly(), other.poly());
        let made = match op {
            DimOp::Add => p.plus(1, &q),
            DimOp::Sub => p.plus(-1, &q),
            DimOp::Mul => p.times(&q),
            // A symbolic divisor may be 0 in another call.
            DimOp::Div if !other.is(0) => p.floor_div(&q),
            DimOp::Rem if !other.is(0) => p.floor_rem(&q),
            DimOp::Div | DimOp::Rem => None,
        };
        match made {
            Some(p) if p.as_constant() == Some(value) => Dim::from(value),
            Some(p) => Dim { value, sym: Some(p.interned()) },
            // The expression would be too large, so both sizes are fixed to their values.
            None => {
                self.value();
                other.value();
                Dim::from(value)
            }
        }
    }

    /// Compares two sizes. A comparison that holds for all sizes is decided without a guard; otherwise `guard` says
    /// which relation to record of the difference.
    #[inline]
    fn compare(self, other: Dim, guard: impl FnOnce(Ordering) -> Is) -> Option<Ordering> {
        if self.is_const() && other.is_const() {
            return Some(self.value.cmp(&other.value));
        }
        self.compare_symbols(other, guard)
    }

    #[cold]
    fn compare_symbols(self, other: Dim, guard: impl FnOnce(Ordering) -> Is) -> Option<Ordering> {
        if self.is_poison() || other.is_poison() {
            return None;
        }
        let ordering = self.value.cmp(&other.value);
        let Some(difference) = self.poly().plus(-1, &other.poly()) else {
            self.value();
            other.value();
            return Some(ordering);
        };
        if difference.as_constant().is_none() {
            record(difference, guard(ordering));
        }
        Some(ordering)
    }

    /// The symbolic size that is the larger one for all values of atoms, if either is.
    fn never_below(self, other: Dim) -> Option<Dim> {
        if self.is_const() && other.is_const() || self.is_poison() || other.is_poison() {
            return None;
        }
        let (p, q) = (self.poly(), other.poly());
        let above = |a: &Poly, b: &Poly| a.plus(-1, b).is_some_and(|d| d.never_negative());
        if above(&p, &q) { Some(self) } else { above(&q, &p).then_some(other) }
    }

    /// The larger size; a guard records which one it was.
    pub fn max(self, other: Dim) -> Dim {
        if let Some(larger) = self.never_below(other) {
            return larger;
        }
        if self >= other { self } else { other }
    }

    /// The smaller size; a guard records which one it was.
    pub fn min(self, other: Dim) -> Dim {
        if let Some(larger) = self.never_below(other) {
            return if larger.same(self) { other } else { self };
        }
        if self <= other { self } else { other }
    }
}

/// Operations on sizes; division and remainder floor.
#[derive(Clone, Copy)]
enum DimOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

impl PartialEq for Dim {
    #[inline]
    fn eq(&self, other: &Dim) -> bool {
        let guard = |o| if o == Ordering::Equal { Is::Equal } else { Is::Unequal };
        self.compare(*other, guard) == Some(Ordering::Equal) || self.is_poison() && other.is_poison()
    }
}

/// A comparison of symbolic sizes answers for this call, and records the answer as a guard.
impl PartialOrd for Dim {
    fn partial_cmp(&self, other: &Dim) -> Option<Ordering> {
        self.compare(*other, |o| match o {
            Ordering::Equal => Is::Equal,
            Ordering::Less => Is::Below,
            Ordering::Greater => Is::Above,
        })
    }
    fn lt(&self, other: &Dim) -> bool {
        self.compare(*other, |o| if o.is_lt() { Is::Below } else { Is::NotBelow }).is_some_and(Ordering::is_lt)
    }
    fn ge(&self, other: &Dim) -> bool {
        self.compare(*other, |o| if o.is_lt() { Is::Below } else { Is::NotBelow }).is_some_and(Ordering::is_ge)
    }
    fn gt(&self, other: &Dim) -> bool {
        self.compare(*other, |o| if o.is_gt() { Is::Above } else { Is::NotAbove }).is_some_and(Ordering::is_gt)
    }
    fn le(&self, other: &Dim) -> bool {
        self.compare(*other, |o| if o.is_gt() { Is::Above } else { Is::NotAbove }).is_some_and(Ordering::is_le)
    }
}

/// Comparisons with plain numbers, on either side.
macro_rules! compared_with {
    ($($number:ty),*) => {$(
        impl PartialEq<$number> for Dim {
            fn eq(&self, other: &$number) -> bool {
                *self == Dim::from(*other)
            }
        }
        impl PartialOrd<$number> for Dim {
            fn partial_cmp(&self, other: &$number) -> Option<Ordering> {
                self.partial_cmp(&Dim::from(*other))
            }
            fn lt(&self, other: &$number) -> bool {
                *self < Dim::from(*other)
            }
            fn le(&self, other: &$number) -> bool {
                *self <= Dim::from(*other)
            }
            fn gt(&self, other: &$number) -> bool {
                *self > Dim::from(*other)
            }
            fn ge(&self, other: &$number) -> bool {
                *self >= Dim::from(*other)
            }
        }
        impl PartialEq<Dim> for $number {
            fn eq(&self, other: &Dim) -> bool {
                Dim::from(*self) == *other
            }
        }
        impl PartialOrd<Dim> for $number {
            fn partial_cmp(&self, other: &Dim) -> Option<Ordering> {
                Dim::from(*self).partial_cmp(other)
            }
            fn lt(&self, other: &Dim) -> bool {
                Dim::from(*self) < *other
            }
            fn le(&self, other: &Dim) -> bool {
                Dim::from(*self) <= *other
            }
            fn gt(&self, other: &Dim) -> bool {
                Dim::from(*self) > *other
            }
            fn ge(&self, other: &Dim) -> bool {
                Dim::from(*self) >= *other
            }
        }
    )*};
}
compared_with!(i32, i64, usize);

macro_rules! operator {
    ($trait:ident, $method:ident, $op:ident) => {
        impl<D: Into<Dim>> $trait<D> for Dim {
            type Output = Dim;
            fn $method(self, other: D) -> Dim {
                self.op(DimOp::$op, other.into())
            }
        }
        operator!($trait, $method, $op: i64, usize, i32);
    };
    ($trait:ident, $method:ident, $op:ident: $($number:ty),*) => {$(
        impl $trait<Dim> for $number {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                Dim::from(self).op(DimOp::$op, other)
            }
        }
    )*};
}
operator!(Add, add, Add);
operator!(Sub, sub, Sub);
operator!(Mul, mul, Mul);
operator!(Div, div, Div);
operator!(Rem, rem, Rem);

impl Neg for Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        Dim::from(0i64) - self
    }
}

impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim { value, sym: None }
    }
}
impl From<i32> for Dim {
    fn from(value: i32) -> Dim {
        Dim::from(value as i64)
    }
}
impl From<usize> for Dim {
    fn from(value: usize) -> Dim {
        // A number beyond i64 saturates: wrapped it would be negative, and -1 has a meaning for many options.
        Dim::from(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// A size that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASize;

impl fmt::Display for NotASize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this size stands for an error made earlier, or is negative")
    }
}
impl std::error::Error for NotASize {}

impl TryFrom<Dim> for usize {
    type Error = NotASize;
    fn try_from(d: Dim) -> Result<usize, NotASize> {
        if d.is_poison() { Err(NotASize) } else { usize::try_from(d.value()).map_err(|_| NotASize) }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_poison() {
            return f.write_str("?");
        }
        match self.symbol() {
            None => write!(f, "{}", self.value),
            Some(p) => write!(f, "{p}"),
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
