//! Writes to tensors of the traces that are open: new versions of values, never memory.
//!
//! A handle that is a view remembers what it is a view of. A write to it makes a new version of its base, in which the
//! elements that the view shows are replaced, and every other view of that base is taken of the new version when it is
//! used next. Which elements a view shows is found by taking the same view of the positions 0, 1, 2, …, so that a row
//! needs nothing but its meaning to be written through.

use super::{Frame, STACK, capture, resolve};
use crate::bind::Builder;
use crate::error::{Error, ErrorKind};
use crate::intrinsics;
use crate::tensor::{Alias, Tensor, Traced, View};
use crate::trace::{ProxyId, RegionKind};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Scalar, TensorTy, Value};
use std::sync::atomic::Ordering;

/// Makes `value`, which has the type of `target`, its new version in the innermost open trace; `None` if there is none.
/// `fresh`: nothing else stands for `value`, so it may be called after the target.
pub(crate) fn write(target: &Tensor, value: &Tensor, fresh: bool, loc: Loc) -> Option<Result<(), Error>> {
    STACK.with_borrow_mut(|stack| {
        let top = stack.len().checked_sub(1)?;
        stack[top].builder.context.place.loc = loc;
        let done = resolve(stack, top, value).and_then(|new| {
            if fresh {
                let arena = stack[top].builder.arena().clone();
                let old = resolve(stack, top, target)?;
                let name = arena.name(old);
                let base = name.split('@').next().unwrap_or(&name);
                let version = stack[top].builder.count_version(old);
                arena.rename(new, &format!("{base}@{version}"));
            }
            put(stack, top, target, new, false, loc)
        });
        Some(done.map_err(|e| e.at(loc)))
    })
}

/// Keeps the first error of a write until the trace is closed.
pub(crate) fn fail(error: &Error) {
    STACK.with_borrow_mut(|stack| {
        if let Some(frame) = stack.last_mut() {
            frame.failed.get_or_insert_with(|| error.clone());
        }
    });
}

/// The proxy of a handle: of a view, that of its base as it is now.
pub(super) fn current(stack: &mut [Frame], depth: usize, traced: &Traced) -> Result<ProxyId, Error> {
    let Some((alias, base)) = traced.alias().and_then(|a| Some((a, a.base()?))) else { return Ok(traced.proxy()) };
    let base = resolve(stack, depth, base)?;
    if base.0 != alias.of.load(Ordering::Relaxed) {
        let outs = apply(&mut stack[depth].builder, alias, base)?;
        traced.set_proxy(outs[alias.at]);
        alias.of.store(base.0, Ordering::Relaxed);
    }
    Ok(traced.proxy())
}

/// The view of another base.
fn apply(b: &mut Builder, alias: &Alias, base: ProxyId) -> Result<Vec<ProxyId>, Error> {
    let mut args: Vec<Value<ProxyId>> = Vec::new();
    for arg in &alias.args {
        // a view has one tensor
        args.push(arg.map(&mut |_| base));
    }
    let before = b.context.place;
    let outs = b.bind(alias.symbol, args, alias.loc);
    b.context.place = before;
    outs
}

/// Gives a handle a new version. `quiet`: by way of a detached alias, so that no gradient goes to what is written.
fn put(stack: &mut [Frame], top: usize, target: &Tensor, new: ProxyId, quiet: bool, loc: Loc) -> Result<(), Error> {
    match target.view() {
        View::Poison(e) => Err(e.clone()),
        View::Cell(cell) => {
            let old = capture(stack, top, cell);
            let new = version(stack, top, old, new, quiet)?;
            set(&mut stack[top].builder, old, new);
            Ok(())
        }
        View::Traced(traced) => {
            let old = resolve(stack, top, target)?;
            let Some((alias, base)) = traced.alias().and_then(|a| Some((a, a.base()?))) else {
                own_slice(stack, top, traced)?;
                let new = version(stack, top, old, new, quiet)?;
                traced.set_proxy(new);
                set(&mut stack[top].builder, old, new);
                return Ok(());
            };
            let detached = alias.symbol.name() == "detach";
            let whole = resolve(stack, top, base)?;
            let replaced = if detached { new } else { replaced(&mut stack[top].builder, alias, whole, new, loc)? };
            put(stack, top, base, replaced, quiet || detached, loc)?;
            // the view of the new base is what was written: nothing to take again
            let base = resolve(stack, top, base)?;
            traced.set_proxy(new);
            alias.of.store(base.0, Ordering::Relaxed);
            Ok(())
        }
    }
}

/// Refuses a write from inside a batch to a value of a trace around it, which all slices share.
fn own_slice(stack: &[Frame], top: usize, traced: &Traced) -> Result<(), Error> {
    let inside = stack[..=top].iter().rev().take_while(|frame| frame.token.id() != traced.token().id());
    if inside.into_iter().all(|frame| !frame.slice) {
        return Ok(());
    }
    let name = stack[top].builder.arena().name(traced.proxy());
    let claim = format!("`{name}` is the same for all slices of a batch, and is written inside of it");
    let help = "return the value from the closure, or pass the tensor to `vmap` so that each slice has its own";
    Err(Error::new("E728", claim).help(help))
}

/// Inputs whose value was `old` have this one from now on.
fn set(b: &mut Builder, old: ProxyId, new: ProxyId) {
    b.inputs_mut().iter_mut().filter(|input| input.version == old).for_each(|input| input.version = new);
}

/// The new version of a value that is no view: where no gradient is to go to what is written, the old version's
/// cotangent is the new one's.
fn version(stack: &mut [Frame], top: usize, old: ProxyId, new: ProxyId, quiet: bool) -> Result<ProxyId, Error> {
    let frame = &mut stack[top];
    let b = &mut frame.builder;
    let without = b.arena().no_grad_region(b.context.region, b.root()).is_some();
    if quiet || without {
        if !b.arena().is_float(old) {
            return Ok(new);
        }
        let symbol = intrinsics::get("overwrite")?;
        let place = b.context.place.loc;
        let name = b.arena().name(new);
        let args = vec![Value::Tensor(old), Value::Tensor(new)];
        let out = b.within(RegionKind::EnableGrad, place, |b| b.bind(symbol, args, place))?[0];
        b.arena().rename(out, &name);
        return Ok(out);
    }
    let leaves = &b.inputs()[..frame.leaves.min(b.inputs().len())];
    if let Some(index) = leaves.iter().position(|l| l.version == old).filter(|_| b.arena().is_float(old)) {
        let name = leaves[index].path.to_string();
        let claim = format!("`{name}` is written, and a gradient is taken by it");
        let kind = ErrorKind::LeafMutation { index, name };
        let help = "write to it inside `no_grad`, to a copy, or don't differentiate by it";
        return Err(Error::new("E713", claim).kind_is(kind).help(help));
    }
    Ok(new)
}

/// `whole` with what a view shows replaced by `part`.
fn replaced(b: &mut Builder, alias: &Alias, whole: ProxyId, part: ProxyId, loc: Loc) -> Result<ProxyId, Error> {
    let arena = b.arena().clone();
    let nothing = || Error::bug("E709", "a view of something that is no tensor");
    let (base, seen) = (arena.tensor_ty(whole).ok_or_else(nothing)?, arena.tensor_ty(part).ok_or_else(nothing)?);
    if seen.numel() > base.numel() {
        let claim = format!("a view by `{}` shows elements several times, so it can't be written", alias.symbol.name());
        return Err(Error::new("E714", claim).help("write to the tensor that it is a view of, or to a copy"));
    }
    let int = |i: usize| Value::Num(Scalar::Int(i as i64));
    let sizes = |ty: &TensorTy| intrinsics::sizes(&ty.shape);
    let flat = |b: &mut Builder, x: ProxyId| {
        let shape = Value::List(vec![Value::Num(Scalar::Int(-1))]);
        Ok::<_, Error>(b.bind(intrinsics::get("reshape")?, vec![Value::Tensor(x), shape], loc)?[0])
    };
    // which elements the view shows: the same view of the positions
    let positions = b.within(RegionKind::NoGrad, loc, |b| {
        let count = b.bind(intrinsics::get("arange")?, vec![int(base.numel())], loc)?[0];
        let grid = b.bind(intrinsics::get("reshape")?, vec![Value::Tensor(count), sizes(&base)], loc)?[0];
        let shown = apply(b, alias, grid)?[alias.at];
        flat(b, shown)
    })?;
    let (old, new) = (flat(b, whole)?, flat(b, part)?);
    let args = vec![Value::Tensor(old), Value::Tensor(positions), Value::Tensor(new), int(0)];
    let put = b.bind(intrinsics::get("scatter")?, args, loc)?[0];
    let back = b.bind(intrinsics::get("reshape")?, vec![Value::Tensor(put), sizes(&base)], loc)?[0];
    let name = arena.name(whole);
    let version = b.count_version(whole);
    arena.rename(back, &format!("{}@{version}", name.split('@').next().unwrap_or(&name)));
    Ok(back)
}
