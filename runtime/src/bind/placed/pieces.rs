//! Calls on the pieces of one rank, and the proof that they compute the pieces of the whole call's results.

use super::{Operand, Placed, own};
use crate::bind::{Builder, body};
use crate::error::Error;
use crate::intrinsics::Intrinsic;
use crate::symbol::Registered;
use crate::tensor::static_value;
use crate::trace::*;
use fulgurite_core::lang::ast::{DimKind, OptType, Type};
use fulgurite_core::loop_nest::{Nest, NestOut};
use fulgurite_core::lower::lower_with;
use fulgurite_core::sharding::{Fold, Place, Way, piece};
use fulgurite_core::signature::{self, ArgTy, OutTy, Size, Solved};
use fulgurite_core::{DType, Dim, Name, TensorTy, Value};
use std::rc::Rc;

/// Whether an argument is a tensor that loops load, and not a number.
pub(super) fn is_loaded(arena: &Arena, v: &Value<ProxyId>) -> bool {
    match v {
        Value::Tensor(p) => !matches!(arena.arg_ty(*p), ArgTy::Number(_)),
        Value::Type(_) => true,
        _ => false,
    }
}

/// Whether calls on pieces follow this way: the loops of a call on tensors of other sizes must be those of the whole,
/// resized. Returns whether options that are sizes must be those of pieces.
pub(super) fn can(call: &Placed, nest: &Nest, way: &Way) -> Option<bool> {
    let Some(extent) = way.extent(nest) else { return Some(false) };
    let ranks = call.ranks as i64;
    if way.outs.contains(&Place::Partial(Fold::Avg)) && extent % ranks != 0 {
        // the mean of means over pieces of different sizes is not the mean
        return None;
    }
    let to = extent + 1;
    let same = |sizes: bool| {
        let solved = probe(call, way, to, sizes)?;
        let row = call.line.symbol.row();
        let nest = lower_with(row, row.index_body()?, &solved, &Registered).ok()?;
        Some(nest)
    };
    let wanted = way.resized(nest, to);
    let sizes = [false, true].into_iter().find(|sizes| same(*sizes).is_some_and(|found| found == wanted))?;
    // an axis of one element could broadcast or be dropped
    let one = |rank| piece(extent as usize, call.ranks, rank) == 1;
    if extent == 1 || !(0..call.ranks).any(one) {
        return Some(sizes);
    }
    let ranks_of = |solved: &Solved| types(&solved.outs).iter().map(TensorTy::rank).collect::<Vec<_>>();
    let solved = probe(call, way, 1, sizes)?;
    (ranks_of(&solved) == ranks_of(&call.line.solved)).then_some(sizes)
}

/// The tensor types of results.
pub(super) fn types(outs: &[OutTy]) -> Vec<TensorTy> {
    outs.iter().flat_map(OutTy::tensors).cloned().collect()
}

/// Solves the call on types, with `to` elements along the axis that is cut.
fn probe(call: &Placed, way: &Way, to: i64, sizes: bool) -> Option<Solved> {
    let row = call.line.symbol.row();
    let outs = call.outs();
    let mut at = 0;
    let mut tensor = |_: &Value<ProxyId>| -> Value<ArgTy> {
        at += 1;
        let operand = &call.operands[at - 1];
        match (&operand.ty, way.ins[at - 1]) {
            (None, _) => Value::Tensor(ArgTy::Key),
            (Some(ty), Place::Shard(axis)) => Value::Tensor(ArgTy::Tensor(resized(ty, axis, to))),
            (Some(ty), _) if operand.held.is_none() => Value::Type(like(ty, &outs, way, to)),
            (Some(ty), _) => Value::Tensor(ArgTy::Tensor(ty.clone())),
        }
    };
    let mut args: Vec<Value<ArgTy>> = Vec::new();
    for (i, arg) in call.line.args.iter().enumerate() {
        let loaded = |v: &Value<ProxyId>| i < row.sig.params.len() && matches!(v, Value::Tensor(_) | Value::Type(_));
        args.push(match arg {
            Value::List(items) if items.iter().any(loaded) => Value::List(items.iter().map(&mut tensor).collect()),
            Value::Tensor(_) if let Some(dtype) = call.number(i) => Value::Tensor(ArgTy::Number(dtype)),
            v if loaded(v) => tensor(v),
            other => static_value(other),
        });
    }
    if sizes {
        localise(call, &mut args, way, &|_| to);
    }
    signature::solve_types(row, &args).ok()
}

/// Whether the decomposition computes with equal numbers on the pieces of the first rank and on the whole, whose lines
/// are `lines`. A mean that divides by the size of an axis that is cut does not.
pub(super) fn same_numbers(call: &Placed, arena: &Rc<Arena>, way: &Way, lines: &[Rc<BoundSymbol>]) -> bool {
    let piece = || {
        let mut at = 0;
        let mut first = |v: &Value<ProxyId>| {
            if !is_loaded(arena, v) {
                return v.clone();
            }
            at += 1;
            let Some((_, pieces)) = &call.operands[at - 1].held else { return v.clone() };
            let mut ty = arena.ty(pieces[0]);
            if let ProxyTy::Tensor(t) = &mut ty {
                t.subclass = None;
            }
            Value::Tensor(arena.proxy("piece", ty))
        };
        let mut args = Vec::new();
        for arg in &call.line.args {
            args.push(match arg {
                Value::List(items) => Value::List(items.iter().map(&mut first).collect()),
                one => first(one),
            });
        }
        let mut b = Builder::on(arena, call.line.symbol.name());
        let accepted = b.accept(call.line.symbol, args).ok()?;
        let line = b.record_as(accepted, false, &mut |_, hint, ty| Ok(arena.proxy(hint, ty))).ok()?;
        let made = line.outs.iter().chain(&line.aux).map(|p| arena.tensor_ty(*p));
        let wanted = call.outs().into_iter().zip(&way.outs).map(|(ty, place)| own(&ty, *place, call.ranks, 0));
        let (mut body, _) = body::run(arena, &line).ok()??;
        made.eq(wanted).then(|| alike(arena, lines, &body.take_from(0)))
    };
    piece() == Some(true)
}

/// Whether two programs call equal operators with equal numbers and options; shapes and sizes may differ.
fn alike(arena: &Rc<Arena>, a: &[Rc<BoundSymbol>], b: &[Rc<BoundSymbol>]) -> bool {
    let one = |(a, b): (&Rc<BoundSymbol>, &Rc<BoundSymbol>)| {
        let sig = &a.symbol.row().sig;
        let sized = |i: usize| {
            let opt = i.checked_sub(sig.params.len()).and_then(|i| sig.opts.get(i));
            opt.is_some_and(|o| matches!(o.ty, OptType::Shape { .. } | OptType::Size(_)))
        };
        let args = || a.args.iter().zip(&b.args).enumerate().all(|(i, (a, b))| sized(i) || same_number(a, b));
        let body = |line: &BoundSymbol| body::body_of(arena, line).ok().flatten();
        let bodies = || matches!((body(a), body(b)), (Some(a), Some(b)) if alike(arena, &a.lines, &b.lines));
        std::ptr::eq(a.symbol, b.symbol) && args() && (!a.symbol.row().is_composite() || bodies())
    };
    a.len() == b.len() && a.iter().zip(b).all(one)
}

fn same_number(a: &Value<ProxyId>, b: &Value<ProxyId>) -> bool {
    match (a, b) {
        (Value::Tensor(_) | Value::Type(_), Value::Tensor(_) | Value::Type(_)) => true,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_number(a, b)),
        (a, b) => a == b,
    }
}

fn resized(ty: &TensorTy, axis: usize, to: i64) -> TensorTy {
    let mut ty = ty.clone();
    ty.shape[axis] = Dim::from(to);
    ty
}

/// The type of an argument of which only the type is read: it has the sizes of a piece of the result that has its
/// shape.
fn like(ty: &TensorTy, outs: &[TensorTy], way: &Way, to: i64) -> TensorTy {
    let cut = |(out, place): (&TensorTy, &Place)| match place {
        Place::Shard(axis) if out.shape == ty.shape => Some(*axis),
        _ => None,
    };
    outs.iter().zip(&way.outs).find_map(cut).map_or_else(|| ty.clone(), |axis| resized(ty, axis, to))
}

/// The axis along which the first result is cut.
fn cut_axis(way: &Way) -> Option<usize> {
    way.outs.first().and_then(|place| if let Place::Shard(axis) = place { Some(*axis) } else { None })
}

/// Replaces options that are sizes of cut tensors by the sizes of pieces; `piece` has the number of elements of a
/// piece.
fn localise<V>(call: &Placed, args: &mut [Value<V>], way: &Way, piece: &dyn Fn(usize) -> i64) {
    let sig = &call.line.symbol.row().sig;
    let ins = call
        .operands
        .iter()
        .zip(&way.ins)
        .filter_map(|(o, place)| Some((&sig.params[o.param].ty, o.ty.clone()?, place)));
    let outs = sig.outs.iter().map(|o| &o.ty).zip(call.outs()).zip(&way.outs).map(|((t, ty), place)| (t, ty, place));
    let cut: Vec<(&Type, TensorTy, usize)> = ins
        .chain(outs)
        .filter_map(|(t, ty, place)| if let Place::Shard(axis) = place { Some((t, ty, *axis)) } else { None })
        .collect();
    let opts = args.iter_mut().skip(sig.params.len());
    for (opt, value) in sig.opts.iter().zip(opts) {
        let sized = cut.iter().find_map(|(t, ty, axis)| match &opt.ty {
            OptType::Shape { list, .. } => Some((axis.checked_sub(first_axis(call, t, *list)?)?, ty.shape[*axis])),
            OptType::Size(_) if value.as_dim() == Some(ty.shape[*axis]) => Some((0, ty.shape[*axis])),
            _ => None,
        });
        let Some((at, size)) = sized else { continue };
        let local = Value::size(Dim::from(piece(size.len())));
        match value {
            Value::List(items) if at < items.len() => items[at] = local,
            Value::List(_) => {}
            one => *one = local,
        }
    }
}

/// The axis of a tensor of this type at which a list of axes begins.
fn first_axis(call: &Placed, ty: &Type, list: Name) -> Option<usize> {
    let mut at = 0;
    for dim in ty.dims.as_ref()? {
        match &dim.kind {
            DimKind::List { name, axes: None, .. } if name.name == list => return Some(at),
            DimKind::List { name, axes: None, .. } => match call.line.solved.env.size(name.name)? {
                Size::List(sizes) => at += sizes.len(),
                _ => return None,
            },
            DimKind::One { .. } => at += 1,
            _ => return None,
        }
    }
    None
}

impl Placed<'_> {
    /// The dtype of a number that is known only at run time.
    fn number(&self, arg: usize) -> Option<DType> {
        let sig = &self.line.symbol.row().sig;
        let opts = sig.opts.iter().map(|o| o.name.name);
        let name = sig.params.iter().map(|p| p.name.name).chain(opts).nth(arg)?;
        match self.line.solved.env.item(name)? {
            signature::Item::Runtime(_, dtype) => Some(*dtype),
            _ => None,
        }
    }

    /// Runs the operator on the pieces of one rank, with options for pieces if `sizes`.
    pub(super) fn on_rank(
        &self,
        b: &mut Builder,
        (way, sizes): (&Way, bool),
        rank: usize,
        locals: &[Option<Vec<ProxyId>>],
    ) -> Result<Vec<ProxyId>, Error> {
        let outs = self.outs();
        let axis = cut_axis(way);
        let extent = |o: &Operand, p: &Place| match p {
            Place::Shard(a) => o.ty.as_ref().map(|t| t.shape[*a].len()),
            _ => None,
        };
        let cut = self.operands.iter().zip(&way.ins).find_map(|(o, p)| extent(o, p));
        let empty = cut.is_some_and(|n| piece(n, self.ranks, rank) == 0);
        if empty && let Some(Place::Partial(_)) = way.outs.first() {
            // the piece is empty, so its partial result is the neutral element
            let one = |(ty, place): (&TensorTy, &Place)| match place {
                Place::Partial(fold) => b.full(ty, fold.identity(ty.dtype)),
                _ => b.full(ty, 0.0),
            };
            return outs.iter().zip(&way.outs).map(one).collect();
        }
        let local = |n: usize| piece(n, self.ranks, rank) as i64;
        let to = axis.and_then(|a| Some(local(outs.first()?.shape.get(a)?.len())));
        let mut at = 0;
        let arena = b.arena().clone();
        let mut leaf = |v: &Value<ProxyId>| {
            if !is_loaded(&arena, v) {
                return v.clone();
            }
            at += 1;
            match (&locals[at - 1], v, to) {
                (Some(locals), _, _) => Value::Tensor(locals[rank]),
                (None, Value::Type(ty), Some(to)) => Value::Type(like(ty, &outs, way, to)),
                _ => v.clone(),
            }
        };
        let params = self.line.symbol.row().sig.params.len();
        let mut args: Vec<Value<ProxyId>> = Vec::new();
        for (i, arg) in self.line.args.iter().enumerate() {
            args.push(match arg {
                _ if i >= params => arg.clone(),
                Value::List(items) => Value::List(items.iter().map(&mut leaf).collect()),
                one => leaf(one),
            });
        }
        if sizes {
            localise(self, &mut args, way, &local);
        }
        let call = b.accept(self.line.symbol, args)?;
        let made = b.record_as(call, true, &mut |_, hint, ty| Ok(arena.proxy(hint, ty)))?;
        Ok(made.outs.iter().chain(&made.aux).copied().collect())
    }
}

/// If a call is a reshape that maps pieces of its argument to pieces of its result, that way.
pub(super) fn reshaped(call: &Placed, nest: &Nest) -> Option<Way> {
    let mut held = call.operands.iter().enumerate().filter_map(|(t, o)| Some((t, o.ty.as_ref()?, o.place()?)));
    let (Some((at, ty, Place::Shard(axis))), None) = (held.next(), held.next()) else { return None };
    let [out] = call.outs().try_into().ok()?;
    let shape = out.shape.iter().map(|d| Value::size(*d)).collect();
    let reshape = Intrinsic::Reshape.symbol().ok()?.row();
    let args = [Value::Tensor(ArgTy::Tensor(ty.clone())), Value::List(shape)];
    let solved = signature::solve_types(reshape, &args).ok()?;
    let known = lower_with(reshape, reshape.index_body()?, &solved, &Registered).ok()?;
    let own = |o: &NestOut| o.expr.renamed(&|t| if t == at { 0 } else { usize::MAX }, &|v| v);
    let (a, b) = (known.outs.first()?, nest.outs.first()?);
    if known.vars != nest.vars || (&a.axes, &a.expr) != (&b.axes, &own(b)) {
        return None;
    }
    let sizes = |shape: &[Dim]| shape.iter().map(|d| d.len()).collect::<Vec<_>>();
    let (from, to) = (sizes(&ty.shape), sizes(&out.shape));
    let around = |shape: &[usize], a: usize| {
        let behind: usize = shape[a + 1..].iter().product();
        (shape[..a].iter().product::<usize>(), shape[a].div_ceil(call.ranks) * behind)
    };
    let axis_of = (0..to.len()).find(|&e| to[e] > 1 && around(&to, e) == around(&from, axis))?;
    let place = |t| if t == at { Place::Shard(axis) } else { Place::Replicate };
    let ins = (0..call.operands.len()).map(place).collect();
    Some(Way { ins, outs: vec![Place::Shard(axis_of)], cut: None })
}
