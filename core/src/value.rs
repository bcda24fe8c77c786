//! Values of arguments, in traces, at build time and in evaluators.

use crate::{DType, Dim, Name, Scalar};
use smallvec::SmallVec;
use std::fmt;

/// Sizes of a tensor, slowest axis first.
pub type Shape = SmallVec<[Dim; 4]>;

/// The type of a tensor in the view of signatures.
#[derive(PartialEq)]
pub struct TensorTy {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Shape,
}

impl Clone for TensorTy {
    fn clone(&self) -> TensorTy {
        // Copies all sizes at once: `SmallVec::clone` copies them one by one.
        TensorTy { dtype: self.dtype, shape: Shape::from_slice(&self.shape) }
    }
}

impl TensorTy {
    /// A tensor type with these sizes.
    pub fn new<D: Into<Dim> + Copy>(dtype: DType, shape: &[D]) -> TensorTy {
        TensorTy { dtype, shape: shape.iter().map(|&d| d.into()).collect() }
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
    /// The product of the sizes of these axes, of which negative ones count from the end; `None` if one does not exist.
    /// A tensor of rank 0 counts as having one axis of size 1, as where an option names it.
    pub fn size_along(&self, axes: &[Dim]) -> Option<Dim> {
        let rank = self.rank() as i64;
        let at = |axis: &Dim| match (rank, axis.value()) {
            (0, 0 | -1) => Some(Dim::from(1)),
            (_, at) => self.shape.get(usize::try_from(if at < 0 { at + rank } else { at }).ok()?).copied(),
        };
        axes.iter().try_fold(Dim::from(1), |product, axis| Some(product * at(axis)?))
    }
    /// Whether both types are equal in every call: see [`Dim::same`].
    pub fn same(&self, other: &TensorTy) -> bool {
        let sizes = || self.shape.iter().zip(&other.shape).all(|(a, b)| a.same(*b));
        self.dtype == other.dtype && self.rank() == other.rank() && sizes()
    }
    /// Number of elements, which may be symbolic.
    pub fn elements(&self) -> Dim {
        self.shape.iter().fold(Dim::from(1), |n, d| n * *d)
    }
    /// Number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().map(|d| d.len()).product()
    }
    /// The type where `at` gives the values of atoms; `None` if a size has no value there.
    pub fn at(&self, at: &dyn Fn(&str) -> Option<i64>) -> Option<TensorTy> {
        let shape = self.shape.iter().map(|d| d.at(at)).collect::<Option<_>>()?;
        Some(TensorTy { dtype: self.dtype, shape })
    }
    /// The sizes of this call.
    pub fn sizes(&self) -> SmallVec<[usize; 6]> {
        self.shape.iter().map(|d| d.len()).collect()
    }
}

impl fmt::Display for TensorTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, d) in self.shape.iter().enumerate() {
            write!(f, "{}{d}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for TensorTy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A value with a name: an argument given by name, or a result that a rule reads.
pub type Named<V> = (Name, Value<V>);

/// An argument, option or intermediate value of the tensor language. `V` is a machine's type of tensors: a proxy in a
/// trace, an array at build time.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<V> {
    /// A tensor (or a random key, or a run-time number, as `V` says).
    Tensor(V),
    /// A tensor of which only the type is known or needed (`like` arguments).
    Type(TensorTy),
    /// A number known while tracing.
    Num(Scalar),
    /// A symbolic size (constant ones are `Num`).
    Size(Dim),
    /// A dtype.
    DType(DType),
    /// A word of an `enum` option.
    Word(Name),
    /// A text.
    Str(String),
    /// A list.
    List(Vec<Value<V>>),
    /// An optional argument or option that was not given.
    Absent,
}

impl<V> Value<V> {
    /// A size as a value.
    pub fn size(d: Dim) -> Value<V> {
        if d.is_const() { Value::Num(Scalar::Int(d.value())) } else { Value::Size(d) }
    }

    /// The value as a size, if it is an integer.
    pub fn as_dim(&self) -> Option<Dim> {
        match self {
            Value::Num(Scalar::Int(i)) => Some(Dim::from(*i)),
            Value::Size(d) => Some(*d),
            _ => None,
        }
    }

    /// The value as a list of sizes; a single size counts as a list of one.
    pub fn as_dims(&self) -> Option<Vec<Dim>> {
        match self {
            Value::List(items) => items.iter().map(Value::as_dim).collect(),
            other => other.as_dim().map(|d| vec![d]),
        }
    }

    /// Whether it is [`Value::Absent`].
    pub fn is_absent(&self) -> bool {
        matches!(self, Value::Absent)
    }

    /// The items of a list, or the value alone.
    pub fn items(&self) -> &[Value<V>] {
        match self {
            Value::List(items) => items,
            one => std::slice::from_ref(one),
        }
    }

    /// The value with every tensor replaced.
    pub fn map<W>(&self, f: &mut impl FnMut(&V) -> W) -> Value<W> {
        match self {
            Value::Tensor(v) => Value::Tensor(f(v)),
            Value::Type(t) => Value::Type(t.clone()),
            Value::Num(s) => Value::Num(*s),
            Value::Size(d) => Value::Size(*d),
            Value::DType(d) => Value::DType(*d),
            Value::Word(n) => Value::Word(*n),
            Value::Str(s) => Value::Str(s.clone()),
            Value::List(items) => Value::List(items.iter().map(|i| i.map(f)).collect()),
            Value::Absent => Value::Absent,
        }
    }

    /// The value where `at` gives the values of atoms; `None` if a size has no value there.
    pub fn at(&self, at: &dyn Fn(&str) -> Option<i64>) -> Option<Value<V>>
    where
        V: Clone,
    {
        Some(match self {
            Value::Size(d) => Value::size(d.at(at)?),
            Value::Type(t) => Value::Type(t.at(at)?),
            Value::List(items) => Value::List(items.iter().map(|i| i.at(at)).collect::<Option<_>>()?),
            other => other.clone(),
        })
    }

    /// Calls `f` on every tensor of the value, in order.
    pub fn for_each<'a>(&'a self, f: &mut impl FnMut(&'a V)) {
        match self {
            Value::Tensor(v) => f(v),
            Value::List(items) => items.iter().for_each(|i| i.for_each(f)),
            _ => {}
        }
    }
}

impl<V> From<Scalar> for Value<V> {
    fn from(s: Scalar) -> Value<V> {
        Value::Num(s)
    }
}
impl<V> From<Dim> for Value<V> {
    fn from(d: Dim) -> Value<V> {
        Value::size(d)
    }
}
impl<V> From<DType> for Value<V> {
    fn from(d: DType) -> Value<V> {
        Value::DType(d)
    }
}
