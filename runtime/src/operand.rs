//! Operands of operators: tensors and plain numbers; and `+ - * /` on handles.

use crate::api;
use crate::intrinsics::Intrinsic;
use crate::tensor::{Key, Tensor};
use fulgurite_core::{Dim, Scalar, Value};
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// Writes for which no row has an in-place variant.
pub trait InPlace {
    /// Writes the elements of `value` to the tensor, broadcast and cast to its type; every view of this memory sees
    /// them. See [`api::write`].
    fn copy_(&self, value: &Tensor) -> Tensor;
}

impl InPlace for Tensor {
    #[track_caller]
    fn copy_(&self, value: &Tensor) -> Tensor {
        api::copy(self, value)
    }
}

/// A tensor, or a number where a tensor would do.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor nor a number",
    note = "operators take `Tensor`, `&Tensor`, `f32`, `f64`, `i32`, `i64`, `usize`, `bool` and `Dim`"
)]
pub trait Operand {
    /// The operand as an argument of an operator.
    fn arg(self) -> Value<Tensor>;
}

impl Operand for Tensor {
    fn arg(self) -> Value<Tensor> {
        Value::Tensor(self)
    }
}
impl Operand for &Tensor {
    fn arg(self) -> Value<Tensor> {
        Value::Tensor(self.clone())
    }
}
impl Operand for &mut Tensor {
    fn arg(self) -> Value<Tensor> {
        Value::Tensor(self.clone())
    }
}
impl Operand for Dim {
    fn arg(self) -> Value<Tensor> {
        Value::size(self)
    }
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Operand for $t {
            fn arg(self) -> Value<Tensor> {
                Value::Num(Scalar::from(self))
            }
        }
    )*};
}
numbers!(f64, f32, i64, i32, usize, bool);

/// An optional operand: made from a number, from `&Tensor`, or from `()` for none.
#[derive(Clone, Debug, Default)]
pub enum Limit {
    /// No operand.
    #[default]
    None,
    /// A number.
    Number(Scalar),
    /// A tensor.
    Tensor(Tensor),
}

impl Limit {
    /// The operand as an argument of an operator.
    pub fn arg(self) -> Value<Tensor> {
        match self {
            Limit::None => Value::Absent,
            Limit::Number(x) => Value::Num(x),
            Limit::Tensor(t) => Value::Tensor(t),
        }
    }
}

impl From<()> for Limit {
    fn from((): ()) -> Limit {
        Limit::None
    }
}
impl From<&Tensor> for Limit {
    fn from(t: &Tensor) -> Limit {
        Limit::Tensor(t.clone())
    }
}
impl From<Tensor> for Limit {
    fn from(t: Tensor) -> Limit {
        Limit::Tensor(t)
    }
}

macro_rules! from_number {
    ($($t:ty),*) => {$(
        impl From<$t> for Limit {
            fn from(x: $t) -> Limit {
                Limit::Number(Scalar::from(x))
            }
        }
    )*};
}
from_number!(f64, f32, i64, i32, bool);

/// A number, or a size that may be symbolic: `arange(5)`, `arange(t)` for `let [b, t] = x.dims()`.
pub struct Number(Value<Tensor>);

impl Number {
    /// The number as an option of an operator; a size that carries an error is refused there.
    pub fn value(self) -> Value<Tensor> {
        self.0
    }
}

impl From<Dim> for Number {
    fn from(size: Dim) -> Number {
        Number(Value::size(size))
    }
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl From<$t> for Number {
            fn from(x: $t) -> Number {
                Number(Value::Num(Scalar::from(x)))
            }
        }
    )*};
}
number!(f64, f32, i64, i32, usize, bool, Scalar);

/// A random key, by value or by reference.
pub trait KeyArg {
    /// The key as an argument of an operator.
    fn arg(self) -> Value<Tensor>;
}
impl KeyArg for Key {
    fn arg(self) -> Value<Tensor> {
        Value::Tensor(self.handle().clone())
    }
}
impl KeyArg for &Key {
    fn arg(self) -> Value<Tensor> {
        Value::Tensor(self.handle().clone())
    }
}
impl KeyArg for &mut Key {
    fn arg(self) -> Value<Tensor> {
        Value::Tensor(self.handle().clone())
    }
}

// ---------------------------------------------------------------- operators of the language

// Only one float type and one integer type may be on the left. Then `1.0 - &x` has a type before the literal has one,
// so `(1.0 - &x).sqrt()` and `-(2 * &x)` compile. With f32 or i64 in addition, rustc asks for annotations there
// (E0282).

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $row:ident;)*) => {$(
        impl<O: Operand> $trait<O> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor {
                api::intrinsic(Intrinsic::$row, vec![Value::Tensor(self), other.arg()])
            }
        }
        impl<O: Operand> $trait<O> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: O) -> Tensor {
                api::intrinsic(Intrinsic::$row, vec![self.arg(), other.arg()])
            }
        }
        /// Replaces the handle by the result; other handles of the old tensor keep it.
        impl<O: Operand> $assign<O> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: O) {
                *self = api::intrinsic(Intrinsic::$row, vec![(&*self).arg(), other.arg()]);
            }
        }
        // one float type and one integer type: with two, rustc knows the type of `1.0 - x` too late for `(1.0 -
        // x).sum()`
        operators!(@left $trait $method $row f64 i32);
    )*};
    (@left $trait:ident $method:ident $row:ident $($t:ty)*) => {$(
        impl $trait<Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                api::intrinsic(Intrinsic::$row, vec![self.arg(), Value::Tensor(other)])
            }
        }
        impl $trait<&Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                api::intrinsic(Intrinsic::$row, vec![self.arg(), other.arg()])
            }
        }
    )*};
}
operators! {
    Add add AddAssign add_assign Add;
    Sub sub SubAssign sub_assign Sub;
    Mul mul MulAssign mul_assign Mul;
    Div div DivAssign div_assign Div;
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        api::intrinsic(Intrinsic::Neg, vec![Value::Tensor(self)])
    }
}
impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        api::intrinsic(Intrinsic::Neg, vec![self.arg()])
    }
}

/// The sum of no tensors is the number 0.
impl std::iter::Sum for Tensor {
    #[track_caller]
    fn sum<I: Iterator<Item = Tensor>>(mut items: I) -> Tensor {
        let mut total = match items.next() {
            Some(first) => first,
            None => return Tensor::from(0.0),
        };
        for item in items {
            total += item;
        }
        total
    }
}
impl<'t> std::iter::Sum<&'t Tensor> for Tensor {
    #[track_caller]
    fn sum<I: Iterator<Item = &'t Tensor>>(items: I) -> Tensor {
        items.cloned().sum()
    }
}
