//! The types of sizes and axes in a user's calls: tuples that mix integers and [`Dim`]s, arrays, slices, single
//! numbers.
//!
//! They are types of their own, because Rust's arrays can't mix `usize`, [`Dim`] and `-1`, and because a wrong size
//! must become an error of the call and not of the conversion.

use crate::error::Error;
use fulgurite_core::{Dim, Name, Value};
use smallvec::SmallVec;
use std::cell::RefCell;

thread_local! {
    /// The reason of this thread's last poisoned size. Sizes are plain numbers and can't carry an error.
    static WHY: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Keeps the reason of poisoned sizes that are returned now.
pub(super) fn remember(why: Error) {
    WHY.set(Some(why));
}

/// The error of a call with a poisoned size.
pub(crate) fn poisoned_size() -> Error {
    let known = WHY.with_borrow(Clone::clone);
    known.unwrap_or_else(|| {
        Error::new("E745", "a size of this call could not be computed").note("a division by zero gives such a size")
    })
}

/// The sizes of a tensor; -1 where the operator infers a size.
///
/// It is made from tuples of up to eight `usize`, `i64`, `i32` and [`Dim`] in any mixture, from arrays, vectors and
/// slices of one of these, from a single one, and from `()` for rank 0. The default stands for an argument that is not
/// given.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ShapeArg(Option<SmallVec<[Dim; 4]>>);

impl ShapeArg {
    fn new(sizes: impl IntoIterator<Item = Dim>) -> ShapeArg {
        ShapeArg(Some(sizes.into_iter().collect()))
    }

    /// The sizes, if all are known and none is negative.
    ///
    /// # Errors
    /// E745 for other sizes.
    pub fn sizes(&self) -> Result<SmallVec<[usize; 6]>, Error> {
        let one = |d: &Dim| {
            usize::try_from(*d).map_err(|_| match d.is_poison() {
                true => poisoned_size(),
                false => Error::new("E745", format!("{d} is not a size")),
            })
        };
        self.0.iter().flatten().map(one).collect()
    }

    /// The sizes as an argument of an operator.
    pub fn value<V>(self) -> Value<V> {
        self.0.map_or(Value::Absent, |sizes| Value::List(sizes.into_iter().map(Value::size).collect()))
    }
}

macro_rules! tuples {
    ($(($($t:ident $x:ident),+))*) => {$(
        impl<$($t: Into<Dim>),+> From<($($t,)+)> for ShapeArg {
            fn from(($($x,)+): ($($t,)+)) -> ShapeArg {
                ShapeArg::new([$($x.into()),+])
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
        ShapeArg::new([])
    }
}

impl<D: Into<Dim>, const N: usize> From<[D; N]> for ShapeArg {
    fn from(sizes: [D; N]) -> ShapeArg {
        ShapeArg::new(sizes.into_iter().map(Into::into))
    }
}
impl<D: Into<Dim>> From<Vec<D>> for ShapeArg {
    fn from(sizes: Vec<D>) -> ShapeArg {
        ShapeArg::new(sizes.into_iter().map(Into::into))
    }
}
impl<D: Into<Dim> + Copy> From<&Vec<D>> for ShapeArg {
    fn from(sizes: &Vec<D>) -> ShapeArg {
        ShapeArg::from(sizes.as_slice())
    }
}
impl<D: Into<Dim> + Copy> From<&[D]> for ShapeArg {
    fn from(sizes: &[D]) -> ShapeArg {
        ShapeArg::new(sizes.iter().map(|&d| d.into()))
    }
}
impl<D: Into<Dim> + Copy, const N: usize> From<&[D; N]> for ShapeArg {
    fn from(sizes: &[D; N]) -> ShapeArg {
        ShapeArg::from(sizes.as_slice())
    }
}

/// Integers that an operator takes as a list or as one for all axes: a set of axes, a permutation, strides, paddings.
///
/// It is made from a single integer, from arrays, vectors and slices of integers, and from `()` for none. The default
/// stands for the row's default.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Dims {
    /// The argument is not given, so the row's default applies.
    #[default]
    Default,
    /// Every axis.
    All,
    /// One number for every axis, or this axis alone.
    One(Dim),
    /// These numbers.
    Each(SmallVec<[Dim; 4]>),
}

impl Dims {
    /// The integers as an argument of an operator.
    pub fn value<V>(self) -> Value<V> {
        match self {
            Dims::Default => Value::Absent,
            Dims::All => Value::Word(Name::new("all")),
            Dims::One(i) => Value::size(i),
            Dims::Each(all) => Value::List(all.into_iter().map(Value::size).collect()),
        }
    }
}

impl<D: Into<Dim>, const N: usize> From<[D; N]> for Dims {
    fn from(all: [D; N]) -> Dims {
        Dims::Each(all.into_iter().map(Into::into).collect())
    }
}
impl<D: Into<Dim>> From<Vec<D>> for Dims {
    fn from(all: Vec<D>) -> Dims {
        Dims::Each(all.into_iter().map(Into::into).collect())
    }
}
impl<D: Into<Dim> + Copy> From<&[D]> for Dims {
    fn from(all: &[D]) -> Dims {
        Dims::Each(all.iter().map(|&d| d.into()).collect())
    }
}
impl<D: Into<Dim> + Copy> From<&Vec<D>> for Dims {
    fn from(all: &Vec<D>) -> Dims {
        Dims::from(all.as_slice())
    }
}
impl<D: Into<Dim> + Copy, const N: usize> From<&[D; N]> for Dims {
    fn from(all: &[D; N]) -> Dims {
        Dims::from(all.as_slice())
    }
}
impl From<()> for Dims {
    fn from((): ()) -> Dims {
        Dims::Each(SmallVec::new())
    }
}

macro_rules! one_size {
    ($($t:ty),*) => {$(
        impl From<$t> for ShapeArg {
            fn from(size: $t) -> ShapeArg {
                ShapeArg::new([size.into()])
            }
        }
        impl From<$t> for Dims {
            fn from(one: $t) -> Dims {
                Dims::One(one.into())
            }
        }
    )*};
}
one_size!(i64, i32, usize, Dim);
