//! Static values, and the reasons why there is none.

use super::Refusal;
use crate::lang::ast::Span;
use crate::{DType, Dim, Name, Scalar, Value};
use smallvec::SmallVec;

/// Sizes or axes.
pub type Dims = SmallVec<[Dim; 4]>;

/// A static value.
#[derive(Clone, Debug, PartialEq)]
pub enum Val {
    /// An integer.
    Int(Dim),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A word.
    Word(Name),
    /// A dtype.
    DType(DType),
    /// A text.
    Str(String),
    /// Integers.
    List(Dims),
    /// Nothing.
    Absent,
}

impl Val {
    /// The static value; `None` for an absent one, a tensor or a type.
    pub fn of<V>(value: &Value<V>) -> Option<Val> {
        Some(match value {
            Value::Num(s) => (*s).into(),
            Value::Size(d) => Val::Int(*d),
            Value::DType(d) => Val::DType(*d),
            Value::Word(w) => Val::Word(*w),
            Value::Str(s) => Val::Str(s.clone()),
            Value::List(items) => Val::List(items.iter().map(Value::as_dim).collect::<Option<_>>()?),
            Value::Tensor(_) | Value::Type(_) | Value::Absent => return None,
        })
    }
}

/// The reason why there is no static value.
#[derive(Clone, Debug)]
pub enum Stop {
    /// The expression depends on elements, indices or run-time numbers.
    NotStatic,
    /// The expression has no meaning for this call.
    Refused(Refusal),
}

impl Stop {
    /// This stop at this part of the rule's text, unless a smaller part is already set.
    pub fn at(self, span: Span) -> Stop {
        match self {
            Stop::Refused(r) => Stop::Refused(r.at(span)),
            Stop::NotStatic => Stop::NotStatic,
        }
    }
}

impl From<Refusal> for Stop {
    fn from(r: Refusal) -> Stop {
        Stop::Refused(r)
    }
}

/// The result of a static evaluation.
pub type Static<T> = Result<T, Stop>;

/// The context of an expression: inside `..( )` at an axis, inside `List< >` at an item.
#[derive(Clone, Copy, Debug, Default)]
pub struct At {
    /// The axis of a zip.
    pub axis: Option<usize>,
    /// The item of a list (`i`).
    pub item: Option<usize>,
}

impl Val {
    /// The value in a message.
    fn shown(&self) -> String {
        match self {
            Val::Int(d) => format!("the number {d}"),
            Val::Float(f) => format!("the number {f}"),
            Val::Bool(b) => format!("`{b}`"),
            Val::Word(word) => format!("`{word}`"),
            Val::Str(text) => format!("the text `{text}`"),
            Val::DType(dtype) => format!("the dtype {dtype}"),
            Val::List(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                format!("the list [{}]", items.join(", "))
            }
            _ => "this value".to_owned(),
        }
    }
    /// The value as an integer.
    pub fn int(&self) -> Static<Dim> {
        match self {
            Val::Int(d) => Ok(*d),
            Val::Bool(b) => Ok(Dim::from(*b as i64)),
            other => Err(bad(format!("{} is not an integer", other.shown()))),
        }
    }
    /// The value as a number.
    pub fn float(&self) -> Static<f64> {
        match self {
            Val::Int(d) => Ok(d.value() as f64),
            Val::Float(f) => Ok(*f),
            Val::Bool(b) => Ok(*b as i64 as f64),
            other => Err(bad(format!("{} is not a number", other.shown()))),
        }
    }
    /// The value as a truth value.
    pub fn bool(&self) -> Static<bool> {
        match self {
            Val::Bool(b) => Ok(*b),
            other => Err(bad(format!("{} is not a truth value", other.shown()))),
        }
    }
    /// The value as integers; a single integer is a list of one.
    pub fn list(&self) -> Static<Dims> {
        match self {
            Val::List(l) => Ok(SmallVec::from_slice(l)),
            Val::Int(d) => Ok(SmallVec::from_slice(&[*d])),
            other => Err(bad(format!("{} is not a list", other.shown()))),
        }
    }
    /// The value as a scalar.
    pub fn scalar(&self) -> Static<Scalar> {
        match self {
            Val::Int(d) => Ok(Scalar::Int(d.value())),
            Val::Float(f) => Ok(Scalar::Float(*f)),
            Val::Bool(b) => Ok(Scalar::Bool(*b)),
            other => Err(bad(format!("{} is not a number", other.shown()))),
        }
    }
}

impl From<Scalar> for Val {
    fn from(s: Scalar) -> Val {
        match s {
            Scalar::Bool(b) => Val::Bool(b),
            Scalar::Int(i) => Val::Int(Dim::from(i)),
            Scalar::Float(f) => Val::Float(f),
        }
    }
}

/// The refusal of an expression without a meaning for this call.
pub(super) fn bad(message: impl Into<String>) -> Stop {
    Stop::Refused(Refusal::new("E706", message))
}

/// The value of the constant called `name`.
pub fn constant(name: Name) -> Option<Scalar> {
    Some(match name.as_str() {
        "PI" => Scalar::Float(std::f64::consts::PI),
        "E" => Scalar::Float(std::f64::consts::E),
        "FRAC_1_SQRT_2" => Scalar::Float(std::f64::consts::FRAC_1_SQRT_2),
        "inf" => Scalar::Float(f64::INFINITY),
        "nan" => Scalar::Float(f64::NAN),
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        _ => return None,
    })
}
