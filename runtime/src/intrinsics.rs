//! The rows that the runtime calls by name: operators of the handle, and what transforms emit.
//!
//! A database that lacks one of them links, and whoever needs it is told; codegen checks the list for `ops.yaml`.

use crate::bind::Builder;
use crate::error::{Error, ErrorKind};
use crate::symbol::{self, SymbolRef};
use crate::trace::ProxyId;
use fulgurite_core::{DType, Dim, Name, Scalar, TensorTy, Value};

/// A row that the runtime calls by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Intrinsic {
    Add,
    Sub,
    Mul,
    Div,
    Neg,
    Remainder,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    LogicalAnd,
    LogicalOr,
    LogicalNot,
    Where,
    Cast,
    Full,
    Sum,
    Reshape,
    Expand,
    Permute,
    Copy,
    Detach,
    Cat,
    Stack,
    Pad,
    Arange,
    Scatter,
    Overwrite,
    Eye,
    Slice,
    KeyChildren,
    Select,
    AllGather,
    AllReduce,
    AllToAll,
    ReduceScatter,
    Pieces,
    Redistribute,
}

use Intrinsic::*;

impl Intrinsic {
    /// All of them.
    pub const ALL: &[Intrinsic] = &[
        Add,
        Sub,
        Mul,
        Div,
        Neg,
        Remainder,
        Eq,
        Ne,
        Lt,
        Le,
        Gt,
        Ge,
        LogicalAnd,
        LogicalOr,
        LogicalNot,
        Where,
        Cast,
        Full,
        Sum,
        Reshape,
        Expand,
        Permute,
        Copy,
        Detach,
        Cat,
        Stack,
        Pad,
        Arange,
        Scatter,
        Overwrite,
        Eye,
        Slice,
        KeyChildren,
        Select,
        AllGather,
        AllReduce,
        AllToAll,
        ReduceScatter,
        Pieces,
        Redistribute,
    ];

    /// The name of the row.
    pub const fn name(self) -> &'static str {
        match self {
            Add => "add",
            Sub => "sub",
            Mul => "mul",
            Div => "div",
            Neg => "neg",
            Remainder => "remainder",
            Eq => "eq",
            Ne => "ne",
            Lt => "lt",
            Le => "le",
            Gt => "gt",
            Ge => "ge",
            LogicalAnd => "logical_and",
            LogicalOr => "logical_or",
            LogicalNot => "logical_not",
            Where => "where",
            Cast => "cast",
            Full => "full",
            Sum => "sum",
            Reshape => "reshape",
            Expand => "expand",
            Permute => "permute",
            Copy => "copy",
            Detach => "detach",
            Cat => "cat",
            Stack => "stack",
            Pad => "pad",
            Arange => "arange",
            Scatter => "scatter",
            Overwrite => "overwrite",
            Eye => "eye",
            Slice => "slice",
            KeyChildren => "key_children",
            Select => "select",
            AllGather => "all_gather",
            AllReduce => "all_reduce",
            AllToAll => "all_to_all",
            ReduceScatter => "reduce_scatter",
            Pieces => "pieces",
            Redistribute => "redistribute",
        }
    }

    /// The intrinsic that a row is.
    pub fn of(symbol: SymbolRef) -> Option<Intrinsic> {
        Intrinsic::ALL.iter().copied().find(|i| i.name() == symbol.name())
    }

    /// The row.
    ///
    /// # Errors
    /// E710 if no linked database has it.
    pub fn symbol(self) -> Result<SymbolRef, Error> {
        get(self.name())
    }
}

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
    let names = Intrinsic::ALL.iter().map(|i| i.name());
    names.filter(|n| symbol::find(Name::new(n)).is_none()).collect()
}

/// Sizes as an argument.
pub fn sizes(shape: &[Dim]) -> Value<ProxyId> {
    Value::List(shape.iter().map(|&d| Value::size(d)).collect())
}

/// Calls of intrinsics, at the builder's place. What they don't change they give back unchanged, without a line.
impl Builder {
    fn one(&mut self, op: Intrinsic, args: Vec<Value<ProxyId>>) -> Result<ProxyId, Error> {
        let line = self.call_row(Name::new(op.name()), args, Vec::new())?;
        let nothing = || Error::new("E706", format!("`{}` yields nothing", op.name()));
        line.outs.first().copied().ok_or_else(nothing)
    }

    /// `a + b`
    pub fn add(&mut self, a: ProxyId, b: ProxyId) -> Result<ProxyId, Error> {
        self.one(Add, vec![Value::Tensor(a), Value::Tensor(b)])
    }

    /// `a / b`
    pub fn div(&mut self, a: ProxyId, b: ProxyId) -> Result<ProxyId, Error> {
        self.one(Div, vec![Value::Tensor(a), Value::Tensor(b)])
    }

    /// `x` with elements of `dtype`.
    pub fn cast(&mut self, x: ProxyId, dtype: DType) -> Result<ProxyId, Error> {
        match self.arena().tensor_ty(x) {
            Some(ty) if ty.dtype == dtype => Ok(x),
            _ => self.one(Cast, vec![Value::Tensor(x), Value::DType(dtype)]),
        }
    }

    /// A tensor of this type filled with a number.
    pub fn full(&mut self, ty: &TensorTy, value: impl Into<Scalar>) -> Result<ProxyId, Error> {
        self.filled(ty, Value::Num(value.into()))
    }

    /// The same with a number that may be a symbolic size.
    pub fn filled(&mut self, ty: &TensorTy, value: Value<ProxyId>) -> Result<ProxyId, Error> {
        self.one(Full, vec![sizes(&ty.shape), value, Value::DType(ty.dtype)])
    }

    /// `x` seen with a larger shape.
    pub fn expand(&mut self, x: ProxyId, shape: &[Dim]) -> Result<ProxyId, Error> {
        match self.arena().tensor_ty(x) {
            Some(ty) if ty.rank() == shape.len() && ty.shape.iter().zip(shape).all(|(a, b)| a.same(*b)) => Ok(x),
            _ => self.one(Expand, vec![Value::Tensor(x), sizes(shape)]),
        }
    }

    /// `x` with these sizes.
    pub fn reshape(&mut self, x: ProxyId, shape: &[Dim]) -> Result<ProxyId, Error> {
        match self.arena().tensor_ty(x) {
            Some(ty) if ty.shape.as_slice() == shape => Ok(x),
            _ => self.one(Reshape, vec![Value::Tensor(x), sizes(shape)]),
        }
    }

    /// `value` summed over the axes along which a tensor of type `like` was broadcast, in the shape of `like`.
    pub fn unbroadcast(&mut self, value: Value<ProxyId>, like: &TensorTy) -> Result<Value<ProxyId>, Error> {
        fulgurite_core::eval::tensor::Machine::unbroadcast(self, value, like)
    }

    /// `c ? a : b`, element by element.
    pub fn select(&mut self, c: Value<ProxyId>, a: Value<ProxyId>, b: Value<ProxyId>) -> Result<ProxyId, Error> {
        self.one(Where, vec![c, a, b])
    }
}
