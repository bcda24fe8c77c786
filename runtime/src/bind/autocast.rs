//! Autocast: in a region with a dtype, the float arguments of a call are cast according to the autocast class of its
//! row.
//!
//! Arguments are cast when a call is bound, so dtypes are right while a function is traced. The transform
//! [`autocast`](crate::transforms::autocast) binds the lines of a finished trace again by this function.

use super::Builder;
use crate::error::Error;
use crate::symbol::SymbolRef;
use crate::trace::*;
use fulgurite_core::autocast::Class;
use fulgurite_core::lang::ast::{Access, Param};
use fulgurite_core::{DType, TensorTy, Value};

impl Builder {
    /// A call's arguments in the dtype in which it computes at the builder's place, if autocast changes any.
    pub(super) fn autocast(
        &mut self,
        symbol: SymbolRef,
        args: &[Value<ProxyId>],
    ) -> Result<Option<Vec<Value<ProxyId>>>, Error> {
        // a cast is explicit, so it stays; lines that make tensors of subclasses, take them apart or attach a custom
        // backward have no dtype of their own
        let fixed = symbol.facts().converts || symbol.port().is_some() || symbol.own().is_some() || symbol.is_control();
        if self.casts.is_none() || fixed {
            return Ok(None);
        }
        // a region around a closure whose gradient is taken applies inside too
        let Some(lower) = self.arena().autocast(self.context.region, RegionId(0)) else { return Ok(None) };
        let params = symbol.row().sig.params.len().min(args.len());
        let mut floats = Vec::new();
        for arg in &args[..params] {
            arg.for_each(&mut |p| floats.extend(self.arena().tensor_ty(*p).map(|t| t.dtype).filter(|d| is_narrow(*d))));
        }
        let Some(widest) = floats.iter().copied().reduce(wider) else { return Ok(None) };
        let to = match symbol.autocast() {
            Class::Lower => lower,
            Class::Fp32 => DType::F32,
            Class::Promote => widest,
            Class::None => return Ok(None),
        };
        // a cast makes another tensor, so a written argument is not cast
        let written = |(param, arg): (&Param, &Value<ProxyId>)| {
            let mut other = false;
            arg.for_each(&mut |p| other |= self.arena().tensor_ty(*p).is_some_and(|t| t.dtype != to));
            param.access == Access::Mut && other
        };
        if floats.iter().all(|d| *d == to) || symbol.row().sig.params.iter().zip(&args[..params]).any(written) {
            return Ok(None);
        }
        let mut args = args.to_vec();
        for arg in &mut args[..params] {
            *arg = self.cast_value(arg, to)?;
        }
        Ok(Some(args))
    }

    fn cast_value(&mut self, arg: &Value<ProxyId>, to: DType) -> Result<Value<ProxyId>, Error> {
        Ok(match arg {
            Value::Tensor(p) if self.arena().tensor_ty(*p).is_some_and(|t| is_narrow(t.dtype) && t.dtype != to) => {
                Value::Tensor(self.cast_once(*p, to)?)
            }
            Value::Type(t) if is_narrow(t.dtype) => Value::Type(TensorTy { dtype: to, ..t.clone() }),
            Value::List(items) => Value::List(items.iter().map(|i| self.cast_value(i, to)).collect::<Result<_, _>>()?),
            other => other.clone(),
        })
    }

    /// The cast of a value, made once for each gradient mode and checkpoint.
    fn cast_once(&mut self, p: ProxyId, to: DType) -> Result<ProxyId, Error> {
        let arena = self.arena().clone();
        let region = self.context.region;
        let chain = arena.region_chain(region, self.root());
        let checkpoint = chain.into_iter().find(|r| arena.region(*r).kind == RegionKind::Checkpoint);
        let key = (p, to, arena.no_grad_region(region, self.root()), checkpoint);
        if let Some(known) = self.casts.as_ref().and_then(|casts| casts.get(&key)) {
            return Ok(*known);
        }
        let cast = self.cast(p, to)?;
        arena.rename(cast, &format!("{}.{to}", arena.name(p)));
        if let Some(casts) = &mut self.casts {
            casts.insert(key, cast);
        }
        Ok(cast)
    }
}

/// Whether autocast may change this dtype; f64 is a user's explicit choice.
fn is_narrow(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// The narrowest float that represents both.
fn wider(a: DType, b: DType) -> DType {
    if a == b { a } else { DType::F32 }
}
