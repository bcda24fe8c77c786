//! Calls of the rows that the runtime needs, at the builder's place.

use super::Builder;
use crate::error::Error;
use crate::intrinsics::Intrinsic::{self, *};
use crate::intrinsics::sizes;
use crate::trace::ProxyId;
use fulgurite_core::{DType, Dim, Name, Scalar, TensorTy, Value};

/// Calls of intrinsics, at the builder's place. A call that would not change its argument returns it, without a line.
impl Builder {
    fn one(&mut self, op: Intrinsic, args: Vec<Value<ProxyId>>) -> Result<ProxyId, Error> {
        let line = self.call_row(Name::new(op.name()), args, Vec::new())?;
        let nothing = || Error::new("E706", format!("`{}` yields nothing", op.name()));
        line.outs.first().copied().ok_or_else(nothing)
    }

    /// Binds `a + b`.
    pub fn add(&mut self, a: ProxyId, b: ProxyId) -> Result<ProxyId, Error> {
        self.one(Add, vec![Value::Tensor(a), Value::Tensor(b)])
    }

    /// Binds `a / b`.
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

    /// A tensor of this type filled with a number that may be a symbolic size.
    pub fn filled(&mut self, ty: &TensorTy, value: Value<ProxyId>) -> Result<ProxyId, Error> {
        self.one(Full, vec![sizes(&ty.shape), value, Value::DType(ty.dtype)])
    }

    /// `x`, expanded to a larger shape.
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

    /// `x` with its axes in this order.
    pub fn permute(&mut self, x: ProxyId, order: &[i64]) -> Result<ProxyId, Error> {
        let order = order.iter().map(|axis| Value::Num(Scalar::Int(*axis))).collect();
        self.one(Permute, vec![Value::Tensor(x), Value::List(order)])
    }

    /// Binds `c ? a : b`, element by element.
    pub fn select(&mut self, c: Value<ProxyId>, a: Value<ProxyId>, b: Value<ProxyId>) -> Result<ProxyId, Error> {
        self.one(Where, vec![c, a, b])
    }
}
