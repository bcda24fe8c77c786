//! The rows that the runtime calls by name: operators of the handle, and what transforms emit.
//!
//! A database that lacks one of them links, and whoever needs it is told; codegen checks the list for `ops.yaml`.

use crate::bind::Builder;
use crate::error::{Error, ErrorKind};
use crate::symbol::{self, SymbolRef};
use crate::trace::ProxyId;
use fulgurite_core::{DType, Dim, Name, Scalar, TensorTy, Value};

/// Names of the rows.
pub const INTRINSICS: &[&str] = &[
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "remainder",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_not",
    "where",
    "cast",
    "full",
    "sum",
    "reshape",
    "expand",
    "permute",
    "copy",
    "detach",
    "cat",
    "stack",
    "pad",
    "arange",
    "scatter",
    "overwrite",
    "eye",
    "slice",
    "key_children",
    "select",
];

/// The row called `name`.
///
/// # Errors
/// E710 if no linked database has it.
pub fn get(name: &str) -> Result<SymbolRef, Error> {
    symbol::find(Name::new(name)).ok_or_else(|| lacking(name))
}

fn lacking(name: &str) -> Error {
    let claim = format!("the runtime needs a row `{name}`, which no linked database has");
    Error::new("E710", claim).kind_is(ErrorKind::UnknownSymbol { op: Name::new(name) })
}

/// The intrinsics that no linked database has.
pub fn missing() -> Vec<&'static str> {
    INTRINSICS.iter().copied().filter(|n| symbol::find(Name::new(n)).is_none()).collect()
}

/// Sizes as an argument.
pub fn sizes(shape: &[Dim]) -> Value<ProxyId> {
    Value::List(shape.iter().map(|&d| Value::size(d)).collect())
}

/// Calls of intrinsics, at the builder's place. What they don't change they give back unchanged, without a line.
impl Builder {
    fn one(&mut self, op: &str, args: Vec<Value<ProxyId>>) -> Result<ProxyId, Error> {
        self.first_of(&[op], args, Vec::new())
    }

    /// A call with one result of the first of these rows that a linked database has.
    ///
    /// # Errors
    /// E710 if none has one; what binding reports.
    pub fn first_of(
        &mut self,
        names: &[&str],
        args: Vec<Value<ProxyId>>,
        named: Vec<(Name, Value<ProxyId>)>,
    ) -> Result<ProxyId, Error> {
        let known = names.iter().find(|n| !symbol::candidates(Name::new(n)).is_empty());
        let Some(op) = known else {
            return Err(lacking(names.first().copied().unwrap_or_default()).at(self.context.place.loc));
        };
        let line = self.call_row(Name::new(op), args, named)?;
        match line.outs.first() {
            Some(p) => Ok(*p),
            None => Err(Error::new("E706", format!("`{op}` yields nothing"))),
        }
    }

    /// `a + b`
    pub fn add(&mut self, a: ProxyId, b: ProxyId) -> Result<ProxyId, Error> {
        self.one("add", vec![Value::Tensor(a), Value::Tensor(b)])
    }

    /// `a / b`
    pub fn div(&mut self, a: ProxyId, b: ProxyId) -> Result<ProxyId, Error> {
        self.one("div", vec![Value::Tensor(a), Value::Tensor(b)])
    }

    /// `x` with elements of `dtype`.
    pub fn cast(&mut self, x: ProxyId, dtype: DType) -> Result<ProxyId, Error> {
        match self.arena().tensor_ty(x) {
            Some(ty) if ty.dtype == dtype => Ok(x),
            _ => self.one("cast", vec![Value::Tensor(x), Value::DType(dtype)]),
        }
    }

    /// A tensor of this type filled with a number.
    pub fn full(&mut self, ty: &TensorTy, value: impl Into<Scalar>) -> Result<ProxyId, Error> {
        self.filled(ty, Value::Num(value.into()))
    }

    /// The same with a number that may be a symbolic size.
    pub fn filled(&mut self, ty: &TensorTy, value: Value<ProxyId>) -> Result<ProxyId, Error> {
        self.one("full", vec![sizes(&ty.shape), value, Value::DType(ty.dtype)])
    }

    /// `x` seen with a larger shape.
    pub fn expand(&mut self, x: ProxyId, shape: &[Dim]) -> Result<ProxyId, Error> {
        match self.arena().tensor_ty(x) {
            Some(ty) if ty.rank() == shape.len() && ty.shape.iter().zip(shape).all(|(a, b)| a.same(*b)) => Ok(x),
            _ => self.one("expand", vec![Value::Tensor(x), sizes(shape)]),
        }
    }

    /// `x` with these sizes.
    pub fn reshape(&mut self, x: ProxyId, shape: &[Dim]) -> Result<ProxyId, Error> {
        match self.arena().tensor_ty(x) {
            Some(ty) if ty.shape.as_slice() == shape => Ok(x),
            _ => self.one("reshape", vec![Value::Tensor(x), sizes(shape)]),
        }
    }

    /// `value` summed over the axes along which a tensor of type `like` was broadcast, in the shape of `like`.
    pub fn unbroadcast(&mut self, value: Value<ProxyId>, like: &TensorTy) -> Result<Value<ProxyId>, Error> {
        fulgurite_core::eval::tensor::Machine::unbroadcast(self, value, like)
    }

    /// `c ? a : b`, element by element.
    pub fn select(&mut self, c: Value<ProxyId>, a: Value<ProxyId>, b: Value<ProxyId>) -> Result<ProxyId, Error> {
        self.one("where", vec![c, a, b])
    }
}
