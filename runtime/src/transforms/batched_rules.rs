//! Gradient rules of batched rows.
//!
//! A batched row has the rules that are derived from its meaning. If none can be derived, the row of which it is the
//! batched form has a written one, which is run on stand-ins for one slice and then batched.

use super::rules::{self, Site};
use super::vmap::vmap;
use crate::bind::Builder;
use crate::error::Error;
use crate::symbol::{self, BatchedSymbol};
use crate::trace::*;
use fulgurite_core::batch::names_an_axis;
use fulgurite_core::lang::ast::OptType;
use fulgurite_core::signature::Item;
use fulgurite_core::{Dim, TensorTy, Value};

/// The cotangent of parameter `i` of a line, by a rule of its row, or of the row of which that is the batched form;
/// `None` if neither has a rule. The value is `Absent` if the cotangent is zero.
///
/// # Errors
/// Reports errors of calls in the rule.
pub(super) fn vjp(b: &mut Builder, site: Site, i: usize) -> Result<Option<Value<ProxyId>>, Error> {
    if let Some(value) = rules::vjp(b, site, i)? {
        return Ok(Some(value));
    }
    let line = site.line;
    let Some(batch) = symbol::batch_of(line.symbol) else { return Ok(None) };
    let mut inner = b.nested(line.symbol.name());
    inner.context = b.context.clone();
    let mut slice = Slice { inner, given: Vec::new(), size: None };
    let Some(args) = slice.args(line, &batch) else { return Ok(None) };
    let call = slice.inner.solve(batch.of, args)?;
    let (outs, aux) = (line.outs.len(), !line.aux.is_empty());
    let all: Vec<ProxyId> = line.outs.iter().chain(&line.aux).copied().collect();
    let mut stands = Vec::new();
    let arena = slice.inner.arena().clone();
    let made = slice.inner.record_as(call, aux, &mut |_, hint, ty| {
        stands.push(arena.proxy(hint, ty));
        Ok(stands[stands.len() - 1])
    })?;
    slice.inner.take_from(0);
    for (stand, whole) in stands.iter().zip(&all) {
        slice.given.push(*whole);
        slice.inner.add_input(*stand, &arena.name(*whole));
    }
    let mut flow = Vec::with_capacity(outs);
    for ct in site.flow {
        flow.push(match ct {
            Some(ct) => slice.stand_in(*ct),
            None => None,
        });
    }
    let Some(value) = vjp(&mut slice.inner, Site { line: &made, flow: &flow, ..site }, i)? else { return Ok(None) };
    slice.whole(b, value, batch.flags[i]).map(Some)
}

/// A rule on one slice.
struct Slice {
    inner: Builder,
    /// The batches for whose slices the inputs stand.
    given: Vec<ProxyId>,
    /// The number of slices.
    size: Option<Dim>,
}

impl Slice {
    /// The stand-in for one slice of a batch.
    fn stand_in(&mut self, whole: ProxyId) -> Option<ProxyId> {
        let arena = self.inner.arena().clone();
        let ProxyTy::Tensor(mut t) = arena.ty(whole) else { return Some(whole) };
        let size = (!t.ty.shape.is_empty()).then(|| t.ty.shape.remove(0))?;
        self.size = Some(size);
        self.given.push(whole);
        Some(self.inner.input(&arena.name(whole), ProxyTy::Tensor(t)))
    }

    /// The arguments of a batched call for one slice.
    fn args(&mut self, line: &BoundSymbol, batch: &BatchedSymbol) -> Option<Vec<Value<ProxyId>>> {
        let sig = &batch.of.row().sig;
        let mut args = line.args.clone();
        if batch.sized {
            args.pop();
        }
        let (params, opts) = args.split_at_mut(sig.params.len());
        for (arg, _) in params.iter_mut().zip(&batch.flags).filter(|(_, flag)| **flag) {
            *arg = self.one(arg)?;
        }
        for (opt, arg) in sig.opts.iter().zip(opts) {
            let counts = |(i, flag): (usize, &bool)| *flag && names_an_axis(&sig.params[i], opt.name.name);
            if opt.ty == OptType::Dim(None)
                && batch.flags.iter().enumerate().any(counts)
                && let Some(Item::Int(dim)) = line.solved.env.item(opt.name.name)
            {
                *arg = Value::size(*dim - Dim::from(1));
            }
        }
        Some(args)
    }

    fn one(&mut self, arg: &Value<ProxyId>) -> Option<Value<ProxyId>> {
        Some(match arg {
            Value::Tensor(p) => Value::Tensor(self.stand_in(*p)?),
            Value::Type(t) => {
                Value::Type(TensorTy { dtype: t.dtype, shape: t.shape.iter().skip(1).copied().collect() })
            }
            Value::List(items) => Value::List(items.iter().map(|i| self.one(i)).collect::<Option<_>>()?),
            other => other.clone(),
        })
    }

    /// The rule's value for all slices; for an argument that they share, the sum over slices.
    fn whole(self, b: &mut Builder, value: Value<ProxyId>, own: bool) -> Result<Value<ProxyId>, Error> {
        let mut outs = Vec::new();
        value.for_each(&mut |p| outs.push(*p));
        let Some(size) = self.size.filter(|_| !outs.is_empty()) else { return Ok(value) };
        let arena = self.inner.arena().clone();
        let trace = self.inner.finish(&outs);
        let made = vmap(&trace, &vec![true; trace.inputs.len()], size)?;
        let mut results = b.splice(&made, &self.given)?.into_iter();
        let mut fault = Ok(());
        let value = value.map(&mut |slice| {
            let whole = results.next().unwrap_or(*slice);
            let summed = match arena.tensor_ty(*slice) {
                Some(ty) if !own => b.unbroadcast(Value::Tensor(whole), &ty),
                _ => Ok(Value::Tensor(whole)),
            };
            match summed {
                Ok(Value::Tensor(p)) => p,
                Ok(_) => whole,
                Err(e) => {
                    fault = Err(e);
                    whole
                }
            }
        });
        fault.map(|()| value)
    }
}
