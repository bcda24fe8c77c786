//! What users write for sizes and axes: tuples that mix integers and [`Dim`]s, arrays, slices, single numbers.
//!
//! They are types of their own because Rust's arrays can't mix `usize`, [`Dim`] and `-1`, and because a wrong size must
//! become an error of the call, not of the conversion.

use crate::error::Error;
use fulgurite_core::{Dim, Name, Scalar, Value};
use smallvec::SmallVec;
use std::cell::RefCell;

thread_local! {
    /// Why the last poisoned size of this thread is one. Sizes are plain numbers and can't carry it.
    static WHY: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Keeps the reason for the poisoned sizes that are handed out now.
pub(super) fn remember(why: Error) {
    WHY.set(Some(why));
}

/// The error of a call that was given a poisoned size.
pub(crate) fn poisoned_size() -> Error {
    let known = WHY.with_borrow(Clone::clone);
    known.unwrap_or_else(|| {
        Error::new("E745", "a size of this call could not be computed").note("a division by zero gives such a size")
    })
}

/// Sizes of a tensor; -1 where the operator says that it is inferred.
///
/// Made from tuples of up to eight `usize`, `i64`, `i32` and [`Dim`] in any mixture, from arrays, vectors and slices of
/// one of them, from a single one, and from `()` for rank 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeArg(pub SmallVec<[Dim; 6]>);

impl ShapeArg {
    /// The sizes, if all are known and none is negative.
    ///
    /// # Errors
    /// E745 otherwise.
    pub fn sizes(&self) -> Result<SmallVec<[usize; 6]>, Error> {
        let one = |d: &Dim| {
            usize::try_from(*d).map_err(|_| match d.is_poison() {
                true => poisoned_size(),
                false => Error::new("E745", format!("{d} is not a size")),
            })
        };
        self.0.iter().map(one).collect()
    }

    /// As an argument of an operator.
    pub fn value<V>(self) -> Value<V> {
        Value::List(self.0.into_iter().map(Value::size).collect())
    }
}

macro_rules! tuples {
    ($(($($t:ident $x:ident),+))*) => {$(
        impl<$($t: Into<Dim>),+> From<($($t,)+)> for ShapeArg {
            fn from(($($x,)+): ($($t,)+)) -> ShapeArg {
                ShapeArg(SmallVec::from_slice(&[$($x.into()),+]))
            }
        }
    )*};
}
tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
    (A a, B b, C c, D d, E e, F f, G g)
    (A a, B b, C c, D d, E e, F f, G g, H h)
}

impl From<()> for ShapeArg {
    fn from((): ()) -> ShapeArg {
        ShapeArg(SmallVec::new())
    }
}

impl<D: Into<Dim>, const N: usize> From<[D; N]> for ShapeArg {
    fn from(sizes: [D; N]) -> ShapeArg {
        ShapeArg(sizes.into_iter().map(Into::into).collect())
    }
}
impl<D: Into<Dim>> From<Vec<D>> for ShapeArg {
    fn from(sizes: Vec<D>) -> ShapeArg {
        ShapeArg(sizes.into_iter().map(Into::into).collect())
    }
}
impl<D: Into<Dim> + Copy> From<&Vec<D>> for ShapeArg {
    fn from(sizes: &Vec<D>) -> ShapeArg {
        ShapeArg::from(sizes.as_slice())
    }
}
impl<D: Into<Dim> + Copy> From<&[D]> for ShapeArg {
    fn from(sizes: &[D]) -> ShapeArg {
        ShapeArg(sizes.iter().map(|&d| d.into()).collect())
    }
}
impl<D: Into<Dim> + Copy, const N: usize> From<&[D; N]> for ShapeArg {
    fn from(sizes: &[D; N]) -> ShapeArg {
        ShapeArg::from(sizes.as_slice())
    }
}

/// An integer that counts axes or steps: `i64`, `i32` or `usize`.
pub trait Axis: Copy {
    /// It as i64 (a `usize` beyond that saturates, and the operator refuses it).
    fn axis(self) -> i64;
}
impl Axis for i64 {
    fn axis(self) -> i64 {
        self
    }
}
impl Axis for i32 {
    fn axis(self) -> i64 {
        self as i64
    }
}
impl Axis for usize {
    fn axis(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

/// A set of axes: some, or all. `[1].into()`, `vec.into()`, `1.into()`, `Dims::All`.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Dims {
    /// Every axis.
    #[default]
    All,
    /// These; negative ones count from the last.
    These(Vec<i64>),
}

impl Dims {
    /// As an argument of an operator.
    pub fn value<V>(self) -> Value<V> {
        match self {
            Dims::All => Value::Word(Name::new("all")),
            Dims::These(axes) => ints(&axes),
        }
    }
}

/// Integers, one per axis, or one for all of them: strides, paddings, permutations.
#[derive(Clone, Debug, PartialEq)]
pub enum Ints {
    /// The same everywhere.
    One(i64),
    /// One each.
    Each(Vec<i64>),
}

impl Ints {
    /// As an argument of an operator.
    pub fn value<V>(self) -> Value<V> {
        match self {
            Ints::One(i) => Value::Num(Scalar::Int(i)),
            Ints::Each(all) => ints(&all),
        }
    }
}

fn ints<V>(all: &[i64]) -> Value<V> {
    Value::List(all.iter().map(|&i| Value::Num(Scalar::Int(i))).collect())
}

macro_rules! integers {
    ($name:ident, $many:path, $one:expr) => {
        impl<I: Axis, const N: usize> From<[I; N]> for $name {
            fn from(all: [I; N]) -> $name {
                $many(all.iter().map(|i| i.axis()).collect())
            }
        }
        impl<I: Axis> From<Vec<I>> for $name {
            fn from(all: Vec<I>) -> $name {
                $many(all.iter().map(|i| i.axis()).collect())
            }
        }
        impl<I: Axis> From<&[I]> for $name {
            fn from(all: &[I]) -> $name {
                $many(all.iter().map(|i| i.axis()).collect())
            }
        }
        impl<I: Axis> From<&Vec<I>> for $name {
            fn from(all: &Vec<I>) -> $name {
                $many(all.iter().map(|i| i.axis()).collect())
            }
        }
        impl<I: Axis, const N: usize> From<&[I; N]> for $name {
            fn from(all: &[I; N]) -> $name {
                $many(all.iter().map(|i| i.axis()).collect())
            }
        }
        impl From<()> for $name {
            fn from((): ()) -> $name {
                $many(Vec::new())
            }
        }
        integers!(@one $name, $one, i64, i32, usize);
    };
    (@one $name:ident, $one:expr, $($t:ty),*) => {$(
        impl From<$t> for $name {
            fn from(i: $t) -> $name {
                $one(i.axis())
            }
        }
    )*};
}
integers!(Dims, Dims::These, |i| Dims::These(vec![i]));
integers!(Ints, Ints::Each, Ints::One);

macro_rules! one_size {
    ($($t:ty),*) => {$(
        impl From<$t> for ShapeArg {
            fn from(size: $t) -> ShapeArg {
                ShapeArg(SmallVec::from_slice(&[size.into()]))
            }
        }
    )*};
}
one_size!(i64, i32, usize, Dim);
