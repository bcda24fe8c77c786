//! The arguments of a batched call.

use super::Sweep;
use crate::error::Error;
use crate::intrinsics;
use crate::trace::*;
use fulgurite_core::batch::{imagines_an_axis, is_key, names_an_axis};
use fulgurite_core::lang::ast::{Access, DimKind, Elem, OptType};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{Item, Size};
use fulgurite_core::{DType, Dim, Name, Scalar, TensorTy, Value};

/// The arguments of a call, with a flag for each that is batched.
pub(super) struct Batched {
    pub flags: Vec<bool>,
    pub args: Vec<Value<ProxyId>>,
}

impl Sweep {
    /// For each parameter of a line, whether it is batched.
    pub(super) fn flags(&self, line: &BoundSymbol) -> Vec<bool> {
        let params = line.symbol.row().sig.params.len();
        line.args[..params].iter().map(|arg| self.varies(arg)).collect()
    }

    pub(super) fn varies(&self, arg: &Value<ProxyId>) -> bool {
        let mut varies = false;
        arg.for_each(&mut |p| varies |= self.values.contains_key(p) || self.keys.contains(p));
        varies
    }

    /// The arguments of a pointwise row, aligned to one rank of slices, so that the new axis is the first of all.
    pub(super) fn aligned(&mut self, line: &BoundSymbol) -> Result<Vec<Value<ProxyId>>, Error> {
        let params = line.symbol.row().sig.params.len();
        let rank_of = |arg: &Value<ProxyId>| match arg {
            Value::Tensor(p) => self.b.arena().tensor_ty(*p).map_or(0, |t| t.rank()),
            Value::Type(t) => t.rank(),
            _ => 0,
        };
        let rank = line.args[..params].iter().map(rank_of).max().unwrap_or(0);
        let mut args = line.args.clone();
        for arg in &mut args[..params] {
            let Value::Tensor(p) = *arg else { continue };
            let Some(&all) = self.values.get(&p) else {
                *arg = Value::Tensor(self.standing(p));
                continue;
            };
            let slice = self.b.arena().tensor_ty(p).map_or_else(Default::default, |t| t.shape);
            let ones = std::iter::repeat_n(Dim::from(1), rank.saturating_sub(slice.len()));
            let shape: Vec<Dim> = std::iter::once(self.size).chain(ones).chain(slice.iter().copied()).collect();
            *arg = Value::Tensor(self.b.reshape(all, &shape)?);
        }
        Ok(args)
    }

    /// The first argument that is a key of two elements of a batch: each slice has a key of its own, which no row takes.
    pub(super) fn own_key(&self, line: &BoundSymbol) -> Option<Name> {
        let mut keys = line.symbol.row().sig.params.iter().zip(&line.args).filter(|(p, _)| is_key(p));
        let differs = |arg: &Value<ProxyId>| matches!(arg, Value::Tensor(p) if self.values.contains_key(p));
        keys.find(|(_, arg)| differs(arg)).map(|(p, _)| p.name.name)
    }

    /// The arguments of any other row, for parameters with these flags. If `types` is set, `like` arguments have the
    /// batch axis too. A plain `Dim` option counts it.
    pub(super) fn slices(&mut self, line: &BoundSymbol, mut flags: Vec<bool>, types: bool) -> Result<Batched, Error> {
        let row = line.symbol.row();
        let params = row.sig.params.len();
        let mut args = line.args.clone();
        // an option that counts axes must count those of all arguments alike
        for opt in row.sig.opts.iter().filter(|o| o.ty == OptType::Dim(None)) {
            let named: Vec<usize> = (0..params).filter(|i| names_an_axis(&row.sig.params[*i], opt.name.name)).collect();
            if named.iter().any(|i| flags[*i]) {
                named.iter().for_each(|i| flags[*i] = true);
            }
        }
        for (i, param) in row.sig.params.iter().enumerate() {
            let like = param.access == Access::Like;
            flags[i] |= like && types;
            flags[i] &= is_key(param) || has_tensor(&line.args[i]);
            let imagined = imagines_an_axis(row, param);
            args[i] = if flags[i] && !is_key(param) {
                let missing = |item: usize| missing_axes(line, param.name.name, item);
                match &line.args[i] {
                    Value::List(items) => Value::List(
                        (items.iter().enumerate())
                            .map(|(n, item)| self.every(item, imagined, missing(n)))
                            .collect::<Result<_, Error>>()?,
                    ),
                    one => self.every(one, imagined, missing(0))?,
                }
            } else {
                line.args[i].map(&mut |p| self.standing(*p))
            };
        }
        for (i, opt) in row.sig.opts.iter().enumerate() {
            let counts = |param: usize| flags[param] && names_an_axis(&row.sig.params[param], opt.name.name);
            let item = line.solved.env.item(opt.name.name);
            match (&opt.ty, item) {
                (OptType::Dim(None), Some(Item::Int(dim))) if (0..params).any(counts) => {
                    args[params + i] = Value::size(*dim + Dim::from(1));
                }
                // a size of -1 is computed from the whole argument
                (OptType::Shape { .. }, Some(Item::Ints(shape))) => args[params + i] = intrinsics::sizes(shape),
                _ => {}
            }
        }
        Ok(Batched { flags, args })
    }

    /// All slices of a tensor. An axis that rank 0 only implies is made, and so are the `missing` axes along which it
    /// broadcasts.
    fn every(&mut self, arg: &Value<ProxyId>, imagined: bool, missing: usize) -> Result<Value<ProxyId>, Error> {
        let ones = |rank: usize| if imagined && rank == 1 { 1 } else { missing };
        Ok(match arg {
            Value::Tensor(p) => {
                let all = self.whole(*p)?;
                let Some(ty) = self.b.arena().tensor_ty(all) else { return Ok(Value::Tensor(all)) };
                let mut shape = ty.shape;
                shape.insert_many(1, std::iter::repeat_n(Dim::from(1), ones(shape.len())));
                Value::Tensor(self.b.reshape(all, &shape)?)
            }
            Value::Type(t) => {
                let mut ty = self.lead(t);
                ty.shape.insert_many(1, std::iter::repeat_n(Dim::from(1), ones(ty.rank())));
                Value::Type(ty)
            }
            other => other.clone(),
        })
    }

    /// The `T` arguments in the dtype in which a slice computes.
    pub(super) fn computed(
        &mut self,
        line: &BoundSymbol,
        mut args: Vec<Value<ProxyId>>,
    ) -> Result<Vec<Value<ProxyId>>, Error> {
        let to = line.solved.compute;
        for (param, arg) in line.symbol.row().sig.params.iter().zip(&mut args) {
            if matches!(param.ty.elem.as_slice(), [Elem::Var(v)] if *v == "T") {
                *arg = self.cast_all(arg, to)?;
            }
        }
        Ok(args)
    }

    fn cast_all(&mut self, arg: &Value<ProxyId>, to: DType) -> Result<Value<ProxyId>, Error> {
        Ok(match arg {
            Value::Tensor(p) if self.b.arena().tensor_ty(*p).is_some() => Value::Tensor(self.b.cast(*p, to)?),
            Value::Type(t) => Value::Type(TensorTy { dtype: to, ..t.clone() }),
            Value::List(items) => Value::List(items.iter().map(|i| self.cast_all(i, to)).collect::<Result<_, _>>()?),
            other => other.clone(),
        })
    }
}

/// The number of axes that an argument lacks of the list to which it broadcasts, if its type begins with a list.
fn missing_axes(line: &BoundSymbol, param: Name, item: usize) -> usize {
    let of = line.symbol.row().sig.params.iter().find(|p| p.name.name == param);
    let first = of.and_then(|p| p.ty.dims.as_ref()).and_then(|dims| dims.first());
    if !first.is_some_and(|d| matches!(d.kind, DimKind::Broadcast(_) | DimKind::BroadcastList(_))) {
        return 0;
    }
    let env = &line.solved.env;
    let own = env.broadcast.iter().find(|b| b.param == param && b.item == item);
    match own.map(|own| (own, env.size(own.list))) {
        Some((own, Some(Size::List(full)))) => full.len().saturating_sub(own.own.len()),
        _ => 0,
    }
}

fn has_tensor(arg: &Value<ProxyId>) -> bool {
    arg.items().iter().any(|item| matches!(item, Value::Tensor(_) | Value::Type(_)))
}

/// The options of a call on slices, changed for the call on all slices if axes are counted from the first: every axis
/// is one further after. Returns `None` if an option can't be changed so.
pub(super) fn shifted(row: &Row, line: &BoundSymbol, args: &mut [Value<ProxyId>]) -> Option<()> {
    let params = row.sig.params.len();
    let behind = |d: &Dim| Value::size(*d + Dim::from(1));
    for (opt, arg) in row.sig.opts.iter().zip(&mut args[params..]) {
        *arg = match (&opt.ty, line.solved.env.item(opt.name.name)?) {
            (OptType::Dim(Some(_)) | OptType::Gap(_), Item::Int(d)) => behind(d),
            (OptType::Dims { empty_all: true, .. }, Item::Ints(axes)) if axes.is_empty() => return None,
            (OptType::Dims { .. }, Item::Ints(axes)) => Value::List(axes.iter().map(behind).collect()),
            (OptType::Perm(_), Item::Ints(axes)) => {
                let first = Value::Num(Scalar::Int(0));
                Value::List(std::iter::once(first).chain(axes.iter().map(behind)).collect())
            }
            _ => continue,
        };
    }
    Some(())
}
