//! Control flow of programs: choices and loops that depend on values.
//!
//! At once, they are Rust's own: only the chosen function is called, and a loop calls its body again and again. While a
//! trace is recorded, each is one line with programs of its own.

mod agreement;
mod recorded;

use super::derivatives::types;
use super::{eager, once};
use crate::error::Error;
use crate::intrinsics::Intrinsic;
use crate::scope;
use crate::tensor::Tensor;
use crate::trace::{ControlKind, ProxyId, ProxyTy, TensorType};
use crate::tree::{self, Leaves, Tree, flatten};
use agreement::{first_axis, keeps_types, no_truth, same_structure, steady};
use fulgurite_core::loc::Loc;
use fulgurite_core::{DType, Dim, Scalar, TensorTy, Value};
use recorded::{Recorded, rebuilt, together};

/// Returns `then()` if `condition`, a tensor `bool[]`, holds, and `otherwise()` if it does not. Both read what they
/// capture. The results have one structure, and the same dtypes and sizes.
///
/// At once, only the function that is chosen is called. In a trace both are recorded, as programs of one line, and the
/// program runs the one that is chosen. The gradient is a choice between the gradients of the two, so that the branch
/// that is not taken adds nothing, even where its derivative is not finite; a branch runs again in the backward.
///
/// # Errors
/// E758 if the condition is not `bool[]`, or the branches differ in types; E748 if they differ in structure; E759 for
/// what a program of a line can't do.
#[track_caller]
pub fn cond<T: Tree>(condition: &Tensor, then: impl FnOnce() -> T, otherwise: impl FnOnce() -> T) -> Result<T, Error> {
    let loc = Loc::caller();
    condition.check()?;
    if !scope::is_tracing() {
        let made = if holds(condition, loc)? { then() } else { otherwise() };
        return checked(made);
    }
    let on = scope::resolve_all(&[condition]).map_err(|e| e.at(loc))?;
    let then = Recorded::of("then", &(), loc, |()| then())?;
    let otherwise = Recorded::of("otherwise", &(), loc, |()| otherwise())?;
    same_structure(&then.template, &otherwise.template, "the branches of a `cond`", loc)?;
    let (programs, read) = together(vec![then.part, otherwise.part]);
    let kind = ControlKind::Cond;
    rebuilt(&then.template, kind, programs, on.into_iter().chain(read).collect(), loc)
}

/// Runs `body` on the carries while `condition` of them holds, at most `bound` times if a bound is given. The carries
/// keep their structure, dtypes and sizes.
///
/// A loop with a bound has a gradient, which is that of a [`scan`] over the bound whose later steps do nothing: its
/// forward keeps the carries of all steps. A loop without one has none (E711), because nothing says how much to keep.
///
/// # Errors
/// The errors of [`cond`], for the condition and for the carries.
#[track_caller]
pub fn while_loop<T: Tree>(
    bound: Option<usize>,
    init: T,
    condition: impl Fn(&T) -> Tensor,
    body: impl Fn(T) -> T,
) -> Result<T, Error> {
    let loc = Loc::caller();
    if !scope::is_tracing() {
        let mut carries = checked(init)?;
        for _ in 0..bound.unwrap_or(usize::MAX) {
            if !holds(&condition(&carries), loc)? {
                break;
            }
            let next = checked(body(tree::map(&carries, Tensor::clone)))?;
            steady(&carries, &next, "while_loop", loc)?;
            carries = next;
        }
        return Ok(carries);
    }
    let given = resolved(&init, loc)?;
    let test = Recorded::of("condition", &init, loc, |carries| condition(&carries))?;
    let step = Recorded::of("body", &init, loc, &body)?;
    steady(&init, &step.template, "while_loop", loc)?;
    let (programs, read) = together(vec![test.part, step.part]);
    let kind = ControlKind::While { carries: given.len(), bound };
    rebuilt(&init, kind, programs, given.into_iter().chain(read).collect(), loc)
}

/// Runs `body` on the carries and each slice of `xs` along the first axis, in order. Returns the last carries, and the
/// second results of the steps, stacked along a new first axis.
///
/// The gradient is a scan in the other direction. The forward keeps the carries of all steps, and each step runs again
/// in the backward: that takes the memory of the carries and the time of one more forward.
///
/// # Errors
/// The errors of [`cond`], for the carries; E758 if the tensors of `xs` have no first axis of one size.
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree>(init: C, xs: &X, body: impl Fn(C, X) -> (C, Y)) -> Result<(C, Y), Error> {
    over(init, xs, None, false, Loc::caller(), body)
}

/// Like [`scan`], from the last slice to the first; results stand where their slices do.
///
/// # Errors
/// Reports the errors of [`scan`].
#[track_caller]
pub fn scan_reverse<C: Tree, X: Tree, Y: Tree>(
    init: C,
    xs: &X,
    body: impl Fn(C, X) -> (C, Y),
) -> Result<(C, Y), Error> {
    over(init, xs, None, true, Loc::caller(), body)
}

/// Like [`scan`], of `length` steps that get no slices.
///
/// # Errors
/// Reports the errors of [`scan`].
#[track_caller]
pub fn scan_n<C: Tree, Y: Tree>(length: impl Into<Dim>, init: C, body: impl Fn(C) -> (C, Y)) -> Result<(C, Y), Error> {
    over(init, &(), Some(length.into()), false, Loc::caller(), |carries, ()| body(carries))
}

fn over<C: Tree, X: Tree, Y: Tree>(
    init: C,
    xs: &X,
    length: Option<Dim>,
    reverse: bool,
    loc: Loc,
    body: impl Fn(C, X) -> (C, Y),
) -> Result<(C, Y), Error> {
    flatten(xs).leaves().iter().try_for_each(|leaf| leaf.check())?;
    let length = match length {
        Some(length) => length,
        None => first_axis(flatten(xs).leaves(), loc)?,
    };
    if !scope::is_tracing() {
        let steps = length.value().max(0) as usize;
        return match steps {
            // only a trace knows the types of results that no step makes
            0 => once("scan", || record_scan(init, xs, length, reverse, loc, body)),
            _ => at_once(init, xs, steps, reverse, loc, body),
        };
    }
    record_scan(init, xs, length, reverse, loc, body)
}

/// Calls the body once for each slice.
fn at_once<C: Tree, X: Tree, Y: Tree>(
    init: C,
    xs: &X,
    length: usize,
    reverse: bool,
    loc: Loc,
    body: impl Fn(C, X) -> (C, Y),
) -> Result<(C, Y), Error> {
    let mut carries = checked(init)?;
    let mut made: Vec<Y> = Vec::with_capacity(length);
    for step in 0..length {
        let at = if reverse { length - 1 - step } else { step };
        let x = tree::map(xs, |x| call(Intrinsic::Select, vec![Value::Tensor(x.clone()), int(0), int(at as i64)], loc));
        let before = types(flatten(&carries).leaves());
        let (next, y) = body(carries, x);
        carries = checked(next)?;
        keeps_types(&before, &carries, "scan", loc)?;
        made.push(checked(y)?);
    }
    if reverse {
        made.reverse();
    }
    let first = made.first().ok_or_else(|| Error::bug("E709", "a scan has no step"))?;
    let mut stacks = Vec::new();
    for at in 0..flatten(first).leaves().len() {
        let parts = made.iter().map(|y| Value::Tensor(flatten(y).leaves()[at].clone())).collect();
        stacks.push(call(Intrinsic::Stack, vec![Value::List(parts)], loc));
    }
    let ys = checked(first.rebuild(&mut Leaves::new(&mut stacks.into_iter())))?;
    Ok((carries, ys))
}

fn record_scan<C: Tree, X: Tree, Y: Tree>(
    init: C,
    xs: &X,
    length: Dim,
    reverse: bool,
    loc: Loc,
    body: impl Fn(C, X) -> (C, Y),
) -> Result<(C, Y), Error> {
    let (mut given, sliced) = (resolved(&init, loc)?, resolved(xs, loc)?);
    let (carries, slices) = (given.len(), sliced.len());
    let argument = (tree::map(&init, Tensor::clone), tree::map(xs, Tensor::clone));
    let slice = |at: usize, ty: ProxyTy| match ty {
        ProxyTy::Tensor(t) if at >= carries => ProxyTy::Tensor(TensorType {
            ty: TensorTy { dtype: t.ty.dtype, shape: t.ty.shape.iter().skip(1).copied().collect() },
            ..t
        }),
        ty => ty,
    };
    let made = Recorded::on("body", &argument, slice, loc, |(carries, x)| body(carries, x))?;
    steady(&init, &made.template.0, "scan", loc)?;
    let (programs, read) = together(vec![made.part]);
    given.extend(sliced.into_iter().chain(read));
    let kind = ControlKind::Scan { carries, slices, length, reverse, keeps: false };
    rebuilt(&made.template, kind, programs, given, loc)
}

fn int(n: i64) -> Value<Tensor> {
    Value::Num(Scalar::Int(n))
}

/// The first result of an intrinsic that runs at once.
fn call(op: Intrinsic, args: Vec<Value<Tensor>>, loc: Loc) -> Tensor {
    let made = op.symbol().and_then(|symbol| eager::run(symbol, args, loc));
    let first = made.and_then(|outs| outs.into_iter().next().ok_or_else(|| Error::bug("E709", "no result")));
    first.unwrap_or_else(Tensor::poisoned)
}

/// Whether a condition holds, at once.
fn holds(condition: &Tensor, loc: Loc) -> Result<bool, Error> {
    condition.check()?;
    let is_truth = matches!(condition.ty(), Some(ProxyTy::Tensor(t)) if t.ty.rank() == 0 && t.ty.dtype == DType::Bool);
    if !is_truth {
        return Err(no_truth(&condition.type_text(), loc));
    }
    condition.item::<bool>()
}

fn checked<T: Tree>(tree: T) -> Result<T, Error> {
    flatten(&tree).leaves().iter().try_for_each(|leaf| leaf.check())?;
    Ok(tree)
}

fn resolved<T: Tree>(tree: &T, loc: Loc) -> Result<Vec<ProxyId>, Error> {
    scope::resolve_all(flatten(tree).leaves()).map_err(|e| e.at(loc))
}
