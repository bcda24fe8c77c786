//! Sizes: a value now, and (where it came from a symbolic size) the polynomial that it stands for.
//!
//! A size always has a value: the one of the call that is being traced. A symbolic size also names an expression over
//! atoms; arithmetic builds expressions, comparisons record guards. Code that asks for the value therefore works the
//! same on both, and what it relied on stands in the guards.
//!
//! Only constants are made so far (`Dim::from`); [`Dim::atom`] is the door for symbolic sizes.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// A size, an index bound or a length.
#[derive(Clone, Copy)]
pub struct Dim {
    value: i64,
    /// 0: a constant; [`POISON`]: an error was met; otherwise 1 + the index of an expression.
    sym: u32,
}

const POISON: u32 = u32::MAX;

/// What a symbolic size is made of.
#[derive(Clone, PartialEq, Debug)]
pub enum DimExpr {
    /// A size of an input, by name.
    Atom(String),
    /// An operation on two sizes.
    Op(DimOp, Dim, Dim),
}

/// Operations on sizes; division and remainder floor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum DimOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// A comparison that a trace relied on.
#[derive(Clone, PartialEq, Debug)]
pub struct DimGuard {
    /// Left side.
    pub left: Dim,
    /// How they compared.
    pub ordering: std::cmp::Ordering,
    /// Right side.
    pub right: Dim,
}

#[derive(Default)]
struct Table {
    exprs: Vec<DimExpr>,
    guards: Vec<DimGuard>,
}

thread_local! {
    static TABLE: RefCell<Table> = RefCell::default();
}

impl Dim {
    /// The size that stands for an error: arithmetic keeps it, reading it fails.
    pub fn poison() -> Dim {
        Dim { value: 0, sym: POISON }
    }

    /// A symbolic size called `name` whose value now is `value`.
    pub fn atom(name: &str, value: i64) -> Dim {
        Dim::symbolic(value, DimExpr::Atom(name.to_owned()))
    }

    fn symbolic(value: i64, expr: DimExpr) -> Dim {
        TABLE.with_borrow_mut(|t| {
            let at = t.exprs.iter().position(|e| *e == expr).unwrap_or_else(|| {
                t.exprs.push(expr);
                t.exprs.len() - 1
            });
            Dim { value, sym: at as u32 + 1 }
        })
    }

    /// Its value in this call.
    pub fn value(self) -> i64 {
        self.value
    }

    /// Its value as a length; negative values (which no checked size has) are 0.
    pub fn len(self) -> usize {
        self.value.max(0) as usize
    }

    /// Whether it is the length of nothing.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether it is the same in every call.
    pub fn is_const(self) -> bool {
        self.sym == 0
    }

    /// Whether it stands for an error.
    pub fn is_poison(self) -> bool {
        self.sym == POISON
    }

    /// What it is made of, if symbolic.
    pub fn expr(self) -> Option<DimExpr> {
        if self.sym == 0 || self.sym == POISON {
            return None;
        }
        TABLE.with_borrow(|t| t.exprs.get(self.sym as usize - 1).cloned())
    }

    /// The comparisons of symbolic sizes made on this thread since the last call.
    pub fn take_guards() -> Vec<DimGuard> {
        TABLE.with_borrow_mut(|t| std::mem::take(&mut t.guards))
    }

    fn op(self, op: DimOp, other: Dim) -> Dim {
        if self.is_poison() || other.is_poison() {
            return Dim::poison();
        }
        let (a, b) = (self.value, other.value);
        let value = match op {
            DimOp::Add => a.wrapping_add(b),
            DimOp::Sub => a.wrapping_sub(b),
            DimOp::Mul => a.wrapping_mul(b),
            DimOp::Div | DimOp::Rem if b == 0 => return Dim::poison(),
            DimOp::Div => a.wrapping_div(b) - (a.wrapping_rem(b) != 0 && (a < 0) != (b < 0)) as i64,
            DimOp::Rem => a.wrapping_sub(
                b.wrapping_mul(a.wrapping_div(b) - (a.wrapping_rem(b) != 0 && (a < 0) != (b < 0)) as i64),
            ),
        };
        if self.is_const() && other.is_const() {
            Dim { value, sym: 0 }
        } else {
            Dim::symbolic(value, DimExpr::Op(op, self, other))
        }
    }

    /// The larger one; which it was is guarded.
    pub fn max(self, other: Dim) -> Dim {
        if self >= other { self } else { other }
    }

    /// The smaller one; which it was is guarded.
    pub fn min(self, other: Dim) -> Dim {
        if self <= other { self } else { other }
    }
}

impl PartialEq for Dim {
    fn eq(&self, other: &Dim) -> bool {
        (self.sym == other.sym && self.value == other.value)
            || self.partial_cmp(other) == Some(std::cmp::Ordering::Equal)
    }
}

/// Comparing symbolic sizes answers for this call and records what was relied on.
impl PartialOrd for Dim {
    fn partial_cmp(&self, other: &Dim) -> Option<std::cmp::Ordering> {
        if self.is_poison() || other.is_poison() {
            return None;
        }
        let ordering = self.value.cmp(&other.value);
        if !(self.is_const() && other.is_const()) {
            TABLE.with_borrow_mut(|t| t.guards.push(DimGuard { left: *self, ordering, right: *other }));
        }
        Some(ordering)
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $op:ident) => {
        impl<D: Into<Dim>> $trait<D> for Dim {
            type Output = Dim;
            fn $method(self, other: D) -> Dim {
                self.op(DimOp::$op, other.into())
            }
        }
        impl $trait<Dim> for i64 {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                Dim::from(self).op(DimOp::$op, other)
            }
        }
        impl $trait<Dim> for usize {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                Dim::from(self).op(DimOp::$op, other)
            }
        }
        impl $trait<Dim> for i32 {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                Dim::from(self).op(DimOp::$op, other)
            }
        }
    };
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
        Dim { value, sym: 0 }
    }
}
impl From<i32> for Dim {
    fn from(value: i32) -> Dim {
        Dim::from(value as i64)
    }
}
impl From<usize> for Dim {
    fn from(value: usize) -> Dim {
        Dim::from(value as i64)
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
        if d.is_poison() { Err(NotASize) } else { usize::try_from(d.value).map_err(|_| NotASize) }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_poison() {
            return f.write_str("?");
        }
        match self.expr() {
            None => write!(f, "{}", self.value),
            Some(DimExpr::Atom(name)) => f.write_str(&name),
            Some(DimExpr::Op(op, a, b)) => {
                let op = match op {
                    DimOp::Add => "+",
                    DimOp::Sub => "-",
                    DimOp::Mul => "*",
                    DimOp::Div => "/",
                    DimOp::Rem => "%",
                };
                write!(f, "({a} {op} {b})")
            }
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
