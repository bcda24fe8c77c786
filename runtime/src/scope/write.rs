//! Writes to tensors of open traces: they make new versions of values, and never change memory.
//!
//! A handle that is a view remembers its base. A write to it makes a new version of the base, in which the elements
//! that the view shows are replaced; every other view of that base is taken again of the new version when it is used
//! next. The elements of a view are found by taking the view of the positions 0, 1, 2, …, so any row that is a view can
//! be written through by its meaning alone.

use super::captures::{address, capture, capture_value, for_writing, intermediate, value};
use super::{Frame, overlaps, resolve, resolved, with_stack};
use crate::bind::Builder;
use crate::error::{Error, ErrorKind};
use crate::intrinsics;
use crate::intrinsics::Intrinsic;
use crate::symbol::Port;
use crate::tensor::{Tensor, Traced, View, ViewCall, note_write, shows_twice};
use crate::trace::{Phase, ProxyId, RegionKind};
use fulgurite_core::dim::estimating;
use fulgurite_core::loc::Loc;
use fulgurite_core::{Dim, Scalar, TensorTy, Value};
use rustc_hash::FxHashSet;

/// Makes `value`, which has the type of `target`, its new version in the innermost open trace; `None` if there is no
/// open trace. `fresh` says that nothing else refers to `value`, so it may be named after the target.
pub(crate) fn write(target: &Tensor, value: &Tensor, fresh: bool, loc: Loc) -> Option<Result<(), Error>> {
    with_stack(|stack| {
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
            put(stack, top, target, (new, fresh), Mode::Write, loc)
        });
        Some(done.map_err(|e| e.at(loc)))
    })
}

/// Keeps the first error of a write until the trace is closed.
pub(crate) fn fail(error: &Error) {
    with_stack(|stack| {
        if let Some(frame) = stack.last_mut() {
            frame.failed.get_or_insert_with(|| error.clone());
        }
    });
}

/// The effect of a new version on gradients.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// The new version is the written value.
    Write,
    /// The write went through a detached alias, so no gradient flows to the written value.
    Quiet,
    /// The closure that wrote has handled gradients already.
    Done,
}

/// Assigns a value that an added closure wrote to a tensor of surrounding traces, or to one in memory.
///
/// # Errors
/// Reports the errors of [`write`].
pub(crate) fn assign(target: &Tensor, new: ProxyId, loc: Loc) -> Result<(), Error> {
    with_stack(|stack| match stack.len().checked_sub(1) {
        Some(top) => put(stack, top, target, (new, false), Mode::Done, loc),
        None => Err(Error::bug("E709", "no trace is open")),
    })
}

/// Like [`assign`] within this stack, for a view that an operator wrote.
pub(super) fn assign_in(stack: &mut [Frame], top: usize, target: &Tensor, new: ProxyId, loc: Loc) -> Result<(), Error> {
    put(stack, top, target, (new, true), Mode::Write, loc)
}

/// The tensors by which an open trace is differentiated, among these. The innermost trace remembers all of them as
/// written by a backward.
pub(crate) fn leaves_among(written: &[&Tensor]) -> Vec<(usize, String)> {
    with_stack(|stack| {
        let Some(top) = stack.len().checked_sub(1) else { return Vec::new() };
        let mut found = Vec::new();
        for tensor in written {
            found.extend(leaf(stack, top, tensor));
            if let Ok(proxy) = resolve(stack, top, tensor) {
                let frame = &mut stack[top];
                let inputs = frame.builder.inputs().iter().enumerate();
                let late = inputs.filter(|(_, input)| input.version == proxy).map(|(at, _)| at);
                frame.late.extend(late);
            }
        }
        found.sort();
        found.dedup();
        found
    })
}

/// For a handle that is an input of an open trace: the phase in which a write would happen now, the number of the
/// input, and its name.
pub(crate) fn place(target: &Tensor) -> Option<(Phase, usize, String)> {
    with_stack(|stack| {
        let base = base_of(target);
        let late = stack.iter().any(|f| f.captured.fresh);
        let (frame, at) = match base.view() {
            View::Poison(_) | View::Wrapped(_) => return None,
            View::Cell(_) if stack.is_empty() => return None,
            // memory is an input of the program itself
            View::Cell(_) => (0, capture(stack, 0, base)),
            View::Traced(traced) => {
                let frame = stack.iter().position(|f| f.token.id() == traced.token().id())?;
                let inputs = stack[frame].builder.inputs();
                (frame, inputs.iter().position(|i| i.version == traced.proxy())?)
            }
        };
        let path = stack[frame].builder.inputs()[at].path.to_string();
        Some((if late { Phase::Backward } else { Phase::Forward }, at, path))
    })
}

/// Whether two of these handles are one tensor, or views of one.
pub(crate) fn overlap<'t>(tensors: impl Iterator<Item = &'t Tensor>) -> bool {
    let mut seen = FxHashSet::default();
    let known = |t: &Tensor| match t.view() {
        View::Poison(_) => false,
        View::Wrapped(wrapped) => overlap(wrapped.fields().iter()) || !seen.insert(address(t)),
        _ => !seen.insert(address(base_of(t))),
    };
    let mut tensors = tensors;
    tensors.any(known)
}

/// The base at the end of a chain of views.
fn base_of(target: &Tensor) -> &Tensor {
    let mut base = target;
    while let Some((_, of)) = viewed(base) {
        base = of;
    }
    base
}

/// The proxy of a handle; for a view, it is taken of the present version of its base.
pub(super) fn current(stack: &mut [Frame], depth: usize, tensor: &Tensor, traced: &Traced) -> Result<ProxyId, Error> {
    let own = stack[depth].token.id() == traced.token().id();
    if own && traced.alias().is_some() && traced.is_current() {
        return Ok(traced.proxy());
    }
    // a program of a line writes nothing, so a view has one value in it; taken again, it would be in other regions
    if !own && stack[depth].program && traced.alias().is_some() {
        let outer = depth.checked_sub(1).ok_or_else(|| Error::bug("E709", "a program without a trace around it"))?;
        let value = resolve(stack, outer, tensor)?;
        return Ok(capture_value(stack, depth, tensor, value));
    }
    // views are taken from the base at the end to the handle, in a loop because chains may be long
    let (mut views, mut base) = (Vec::new(), tensor);
    while let Some((_, of)) = viewed(base) {
        views.push(base);
        base = of;
    }
    if views.is_empty() {
        return Ok(value(stack, depth, tensor));
    }
    let mut of = resolve(stack, depth, base)?;
    for view in views.into_iter().rev() {
        of = taken(stack, depth, view, of)?;
    }
    Ok(of)
}

/// The proxy of a view whose base is `base` now.
fn taken(stack: &mut [Frame], depth: usize, view: &Tensor, base: ProxyId) -> Result<ProxyId, Error> {
    let View::Traced(traced) = view.view() else { return Ok(base) };
    let Some(alias) = traced.alias() else { return Ok(base) };
    let own = stack[depth].token.id() == traced.token().id();
    if base == traced.of() {
        if own {
            traced.set_of(base);
        }
        return Ok(traced.proxy());
    }
    if own {
        let args = resolved(stack, depth, &alias.args, Some(base))?;
        let outs = apply(&mut stack[depth].builder, alias, args)?;
        traced.set_proxy(outs[alias.at]);
        traced.set_of(base);
        return Ok(traced.proxy());
    }
    // a handle of another trace keeps its value there
    if let Some((of, taken)) = stack[depth].captured.views.get(&address(view))
        && *of == base
    {
        return Ok(*taken);
    }
    let args = resolved(stack, depth, &alias.args, Some(base))?;
    let taken = apply(&mut stack[depth].builder, alias, args)?[alias.at];
    stack[depth].captured.views.insert(address(view), (base, taken));
    Ok(taken)
}

/// Takes the view again, with these arguments.
fn apply(b: &mut Builder, alias: &ViewCall, args: Vec<Value<ProxyId>>) -> Result<Vec<ProxyId>, Error> {
    let before = b.context.place;
    // the view has its gradient wherever it is used first after the write
    let outs = b.outside(|b| b.bind(alias.symbol, args, alias.loc));
    b.context.place = before;
    outs
}

/// Gives a handle a new version, together with whether nothing else refers to that value.
fn put(
    stack: &mut [Frame],
    top: usize,
    target: &Tensor,
    (new, fresh): (ProxyId, bool),
    mode: Mode,
    loc: Loc,
) -> Result<(), Error> {
    note_write();
    let traced = match target.view() {
        View::Poison(e) => return Err(e.clone()),
        View::Cell(_) => None,
        View::Wrapped(wrapped) => {
            // a tensor of a subclass is written by its fields
            let fields = stack[top].builder.flatten(new)?;
            let each = wrapped.fields().iter().zip(fields);
            return each.into_iter().try_for_each(|(field, new)| put(stack, top, field, (new, true), mode, loc));
        }
        View::Traced(traced) => Some(traced),
    };
    let own = |stack: &[Frame]| traced.filter(|t| t.token().id() == stack[top].token.id());
    if let Some((alias, of)) = viewed(target) {
        let (views, base) = chain(target);
        let (quiet, moved): (Vec<&ViewCall>, Vec<&ViewCall>) = views.into_iter().partition(|a| a.symbol.facts().stops);
        let mode = if !quiet.is_empty() && mode == Mode::Write { Mode::Quiet } else { mode };
        let whole = resolve(stack, top, base)?;
        let new = match own(stack) {
            Some(traced) => tagged(&mut stack[top].builder, traced.proxy(), (new, fresh))?,
            None => new,
        };
        let replaced = match moved.is_empty() {
            true => (new, fresh),
            false => {
                let args = moved.iter().map(|view| resolved(stack, top, &view.args, Some(whole)));
                let args = args.collect::<Result<Vec<_>, Error>>()?;
                let moved: Vec<_> = moved.into_iter().zip(args).collect();
                (replaced(&mut stack[top].builder, &moved, alias, whole, new, loc)?, true)
            }
        };
        put(stack, top, base, replaced, mode, loc)?;
        // the view of the new base is the written value, so it need not be taken again
        let base = resolve(stack, top, of)?;
        match own(stack) {
            Some(traced) => {
                traced.set_proxy(new);
                traced.set_of(base);
            }
            None => _ = stack[top].captured.views.insert(address(target), (base, new)),
        }
        return Ok(());
    }
    match own(stack) {
        Some(traced) => {
            let old = traced.proxy();
            given_to_backward(stack, top, old)?;
            let new = version(stack, top, target, old, new, mode)?;
            let new = tagged(&mut stack[top].builder, old, (new, fresh))?;
            traced.set_proxy(new);
            set(&mut stack[top].builder, old, new);
        }
        None => {
            traced.map_or(Ok(()), |traced| own_slice(stack, top, traced))?;
            let at = for_writing(stack, top, target)?;
            let old = stack[top].builder.inputs()[at].version;
            let new = version(stack, top, target, old, new, mode)?;
            let new = tagged(&mut stack[top].builder, old, (new, fresh))?;
            set(&mut stack[top].builder, old, new);
        }
    }
    Ok(())
}

/// The new version with the tags that a write leaves on a value; it is copied if other handles refer to it.
fn tagged(b: &mut Builder, old: ProxyId, (new, fresh): (ProxyId, bool)) -> Result<ProxyId, Error> {
    let arena = b.arena().clone();
    let (kept, have) = (arena.tags(old).at_write(), arena.tags(new));
    if have.union(kept) == have {
        return Ok(new);
    }
    let place = b.context.place.loc;
    let new = match fresh {
        true => new,
        false => b.bind(Intrinsic::Copy.symbol()?, vec![Value::Tensor(new)], place)?[0],
    };
    arena.set_tags(new, have.union(kept));
    Ok(new)
}

/// Refuses a write from inside a batch to a value of a surrounding trace, because all slices share it.
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

/// Replaces `old` as the present value of inputs by `new`.
fn set(b: &mut Builder, old: ProxyId, new: ProxyId) {
    b.inputs_mut().iter_mut().filter(|input| input.version == old).for_each(|input| input.version = new);
}

/// Refuses a write to the inputs of a backward: cotangents, and values that the forward kept for it.
fn given_to_backward(stack: &[Frame], top: usize, old: ProxyId) -> Result<(), Error> {
    let frame = &stack[top];
    if !frame.captured.fresh || frame.program {
        return Ok(());
    }
    let inputs = frame.builder.inputs();
    let given = &inputs[..inputs.len() - frame.captured.handles.len()];
    let Some(at) = given.iter().position(|input| input.proxy == old) else { return Ok(()) };
    match at.checked_sub(frame.kept) {
        None => Err(intermediate(stack, old)),
        Some(output) => {
            let claim = format!("a backward writes to the cotangent of result {output}");
            Err(Error::new("E717", claim)
                .kind_is(ErrorKind::CotangentMutation { output })
                .note("others may read the same cotangent")
                .help("write to a copy of it: `ct.copy()`"))
        }
    }
}

/// The input of a trace at or below frame `top` that a handle is, if the trace is differentiated by it.
fn leaf(stack: &[Frame], top: usize, target: &Tensor) -> Option<(usize, String)> {
    let View::Traced(traced) = base_of(target).view() else { return None };
    let frame = stack[..=top].iter().find(|f| f.token.id() == traced.token().id())?;
    let inputs = frame.builder.inputs();
    let leaves = &inputs[..frame.leaves.min(inputs.len())];
    let index = leaves.iter().position(|l| l.version == traced.proxy() && frame.builder.arena().is_float(l.version))?;
    Some((index, leaves[index].path.to_string()))
}

/// The new version of a value that is not a view. If no gradient may flow to the written value, the old version's
/// cotangent is the new one's.
fn version(
    stack: &mut [Frame],
    top: usize,
    target: &Tensor,
    old: ProxyId,
    new: ProxyId,
    mode: Mode,
) -> Result<ProxyId, Error> {
    if mode == Mode::Done {
        return Ok(new);
    }
    let b = &mut stack[top].builder;
    let without = b.arena().no_grad_region(b.context.region, b.root()).is_some();
    if mode == Mode::Quiet || without {
        if !b.arena().is_float(old) {
            return Ok(new);
        }
        let symbol = Intrinsic::Overwrite.symbol()?;
        let place = b.context.place.loc;
        let name = b.arena().name(new);
        let args = vec![Value::Tensor(old), Value::Tensor(new)];
        let out = b.within(RegionKind::EnableGrad, place, |b| b.bind(symbol, args, place))?[0];
        b.arena().rename(out, &name);
        return Ok(out);
    }
    // a backward runs without gradients; if it is itself differentiated, the trace that takes it over refuses the write
    let in_backward = stack[..=top].iter().any(|f| f.captured.fresh);
    if let Some((index, name)) = leaf(stack, top, target).filter(|_| !in_backward) {
        let claim = format!("`{name}` is written, and a gradient is taken by it");
        let kind = ErrorKind::LeafMutation { index, name };
        let help = "write to it inside `no_grad`, to a copy, or don't differentiate by it";
        return Err(Error::new("E713", claim).kind_is(kind).help(help));
    }
    Ok(new)
}

/// The base of a view, and the call by which it was taken.
fn viewed(target: &Tensor) -> Option<(&ViewCall, &Tensor)> {
    let View::Traced(traced) = target.view() else { return None };
    let alias = traced.alias()?;
    Some((alias, alias.base()?))
}

/// The views by which a handle shows elements of a tensor, in the order in which they were taken, and that tensor. A
/// field of a class is replaced as a whole, so a chain of views ends at a field.
fn chain(target: &Tensor) -> (Vec<&ViewCall>, &Tensor) {
    let (mut views, mut base) = (Vec::new(), target);
    while let Some((alias, of)) = viewed(base) {
        let field = is_field(alias);
        if field && !views.is_empty() {
            break;
        }
        views.push(alias);
        base = of;
        if field {
            break;
        }
    }
    views.reverse();
    (views, base)
}

fn is_field(alias: &ViewCall) -> bool {
    matches!(alias.symbol.port(), Some((_, Port::Flatten)))
}

/// The tensor `whole`, in which the elements that a chain of views, with their arguments, shows are replaced by `part`;
/// `shown_by` is the last view. It takes one scatter, however many views are in the chain.
fn replaced(
    b: &mut Builder,
    views: &[(&ViewCall, Vec<Value<ProxyId>>)],
    shown_by: &ViewCall,
    whole: ProxyId,
    part: ProxyId,
    loc: Loc,
) -> Result<ProxyId, Error> {
    let arena = b.arena().clone();
    if let (true, Some(layout)) = (is_field(shown_by), arena.ty(whole).subclass()) {
        let mut fields = b.flatten(whole)?;
        fields[shown_by.at] = part;
        return b.unflatten(layout, &fields);
    }
    let base = arena.tensor_ty(whole).ok_or_else(|| Error::bug("E709", "a view of something that is no tensor"))?;
    let int = |i: usize| Value::Num(Scalar::Int(i as i64));
    let sizes = |ty: &TensorTy| intrinsics::sizes(&ty.shape);
    let flat = |b: &mut Builder, x: ProxyId| {
        let shape = Value::List(vec![Value::Num(Scalar::Int(-1))]);
        Ok::<_, Error>(b.bind(Intrinsic::Reshape.symbol()?, vec![Value::Tensor(x), shape], loc)?[0])
    };
    // the elements of the views are found by taking the views of the positions
    let positions = b.within(RegionKind::NoGrad, loc, |b| {
        let count = b.bind(Intrinsic::Arange.symbol()?, vec![Value::size(base.elements())], loc)?[0];
        let mut shown = b.bind(Intrinsic::Reshape.symbol()?, vec![Value::Tensor(count), sizes(&base)], loc)?[0];
        for (view, args) in views {
            let elements = |p: ProxyId| arena.tensor_ty(p).map(|ty| ty.elements());
            let of = elements(shown);
            shown = apply(b, view, ViewCall::with_base(args, shown))?[view.at];
            // a part that is smaller than the whole here, and not empty, does not repeat elements at other sizes either
            let part = estimating(|| elements(shown) < of && elements(shown) > Some(Dim::from(0)));
            if !part && elements(shown) > of {
                return Err(shows_twice(view.symbol.name()));
            }
            overlaps::check(b, view)?;
        }
        flat(b, shown)
    })?;
    let (old, new) = (flat(b, whole)?, flat(b, part)?);
    let args = vec![Value::Tensor(old), Value::Tensor(positions), Value::Tensor(new), int(0)];
    let put = b.bind(Intrinsic::Scatter.symbol()?, args, loc)?[0];
    let back = b.bind(Intrinsic::Reshape.symbol()?, vec![Value::Tensor(put), sizes(&base)], loc)?[0];
    let name = arena.name(whole);
    let version = b.count_version(whole);
    arena.rename(back, &format!("{}@{version}", name.split('@').next().unwrap_or(&name)));
    Ok(back)
}
