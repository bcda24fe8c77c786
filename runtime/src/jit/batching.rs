//! Batching: a closure for one example is called on all examples at once.

use super::derivatives::{Closure, Recorded};
use super::{Outcome, once};
use crate::error::{Error, ErrorKind};
use crate::intrinsics::Intrinsic;
use crate::scope;
use crate::tensor::Tensor;
use crate::trace::{ProxyTy, TensorType};
use crate::transforms;
use crate::tree::{Leaves, Tree, describe, flatten};
use fulgurite_core::loc::Loc;
use fulgurite_core::{Dim, Name, Value, counted};
use std::time::Instant;

/// Runs `f` on every slice of `p` along the first axis of its tensors, as one program, and stacks the results along a
/// new first axis. Tensors that `f` captures are shared by all slices. A key in `p` gives every slice draws of its own;
/// a captured key gives all slices equal draws.
///
/// # Errors
/// E727 if the tensors of `p` have no first axis of one size; E726 or E728; the closure's own error; the first error
/// that a result carries.
#[track_caller]
pub fn vmap<P: Tree, O: Outcome>(p: &P, f: impl FnOnce(&P) -> O) -> Result<O::Tree, Error> {
    let loc = Loc::caller();
    let axes = vec![Some(0); flatten(p).leaves().len()];
    batch(p, &axes, loc, f)
}

/// Like [`vmap`], along these axes: one entry per leaf of `p`, in order. Negative axes count from the end, and `None`
/// marks a leaf that all slices share.
///
/// # Errors
/// The errors of [`vmap`]; E727 if there are more or fewer axes than leaves.
#[track_caller]
pub fn vmap_with<P: Tree, O: Outcome>(p: &P, axes: &[Option<i64>], f: impl FnOnce(&P) -> O) -> Result<O::Tree, Error> {
    batch(p, axes, Loc::caller(), f)
}

fn batch<P: Tree, O: Outcome>(
    p: &P,
    axes: &[Option<i64>],
    loc: Loc,
    f: impl FnOnce(&P) -> O,
) -> Result<O::Tree, Error> {
    if !scope::is_tracing() {
        return once("vmap", || batch(p, axes, loc, f));
    }
    let Slices { size, axes } = slices(p, axes).map_err(|e| e.at(loc))?;
    let p = &fronted(p, &axes, loc)?;
    let stand_in = |i: usize, ty: ProxyTy| match (ty, axes[i]) {
        (ProxyTy::Tensor(mut t), Some(_)) => {
            t.ty.shape.remove(0);
            ProxyTy::Tensor(t)
        }
        (other, _) => other,
    };
    let closure = Closure::on("vmap", p, Recorded::Slice(&stand_in), loc, |p| f(p).outcome())?;
    let mut flags: Vec<bool> = axes.iter().map(Option::is_some).collect();
    flags.resize(closure.trace.inputs.len(), false);
    let started = Instant::now();
    let made = closure.placed(transforms::vmap(&closure.trace, &flags, size)?);
    if let Some(write) = made.epilogue.iter().find(|w| matches!(axes.get(w.input), Some(Some(axis)) if *axis != 0)) {
        let path = &made.inputs[write.input].path;
        let claim = format!("`{path}` is written, and it is batched along another axis than the first");
        return Err(refuse(claim).help("transpose it before, and batch it along axis 0").at(loc));
    }
    scope::note("vmap", &made, started.elapsed(), None);
    let values = closure.splice(p, &made, std::iter::empty())?;
    Ok(closure.template.rebuild(&mut Leaves::new(&mut values.iter().cloned())))
}

/// The number of slices, and for each leaf the axis along which it is sliced; `None` if all slices share it.
struct Slices {
    size: Dim,
    axes: Vec<Option<usize>>,
}

fn slices<P: Tree>(p: &P, axes: &[Option<i64>]) -> Result<Slices, Error> {
    let (leaves, detail) = describe(p);
    if leaves.len() != axes.len() {
        let (given, of) = (counted(axes.len(), "axis was", "axes were"), counted(leaves.len(), "leaf", "leaves"));
        let claim = format!("{given} given for {of}");
        return Err(refuse(claim).help("one entry per tensor and key, in the order of the tree"));
    }
    let mut first: Option<(Dim, &str)> = None;
    let mut found = Vec::with_capacity(axes.len());
    for ((leaf, path), axis) in leaves.iter().zip(&detail.paths).zip(axes) {
        leaf.check()?;
        let named = if path.is_empty() { "the argument" } else { path };
        if let (Some(_), Some(class)) = (axis, leaf.ty().as_ref().and_then(|ty| ty.subclass()).map(|l| l.class.name()))
        {
            return Err(refuse(format!("{named} is a `{class}`, which can't be batched yet")).help("batch its fields"));
        }
        let (Some(axis), Some(ty)) = (*axis, leaf.ty()) else {
            found.push(None);
            continue;
        };
        let shape = match ty {
            ProxyTy::Tensor(TensorType { ty, .. }) => ty.shape,
            // each slice has a key of its own
            ProxyTy::Key => {
                found.push(Some(0));
                continue;
            }
            ProxyTy::Number(_) => {
                found.push(None);
                continue;
            }
        };
        let rank = shape.len() as i64;
        let at = if axis < 0 { axis + rank } else { axis };
        let Some(&size) = usize::try_from(at).ok().and_then(|at| shape.get(at)) else {
            let axes = counted(rank, "axis", "axes");
            let claim = format!("`{named}` has {axes}, it can't be batched along axis {axis}");
            return Err(refuse(claim).help("capture what is the same for all slices, or say `None` with `vmap_with`"));
        };
        match first {
            Some((have, of)) if have != size => {
                let claim = format!("`{of}` has {have} slices, `{named}` has {size}");
                return Err(refuse(claim).help("what is batched together has one size along its batch axis"));
            }
            Some(_) => {}
            None => first = Some((size, named)),
        }
        found.push(Some(at as usize));
    }
    let Some((size, _)) = first else {
        let claim = "nothing says how many slices there are: no tensor is batched";
        return Err(refuse(claim.to_owned()).help("pass the tensors of all examples as `vmap(&xs, |x| …)`"));
    };
    Ok(Slices { size, axes: found })
}

fn refuse(claim: String) -> Error {
    Error::new("E727", claim).kind_is(ErrorKind::Refused { op: Name::new("vmap"), arg: None })
}

/// The tree with the batch axis of each leaf moved to the front.
fn fronted<P: Tree>(p: &P, axes: &[Option<usize>], loc: Loc) -> Result<P, Error> {
    let mut leaves = Vec::new();
    for (leaf, axis) in flatten(p).leaves().iter().zip(axes) {
        leaves.push(match axis {
            Some(axis) if *axis > 0 => {
                let rest = (0..leaf.rank()).filter(|a| a != axis);
                permuted(leaf, &std::iter::once(*axis).chain(rest).collect::<Vec<_>>(), loc)?
            }
            _ => (*leaf).clone(),
        });
    }
    Ok(p.rebuild(&mut Leaves::new(&mut leaves.into_iter())))
}

/// `x` with its axes in this order.
pub(super) fn permuted(x: &Tensor, order: &[usize], loc: Loc) -> Result<Tensor, Error> {
    let order = order.iter().map(|a| Value::size(Dim::from(*a))).collect();
    call(Intrinsic::Permute, vec![Value::Tensor(x.clone()), Value::List(order)], loc)
}

/// A call of a row with one result, in the open trace.
pub(super) fn call(row: Intrinsic, args: Vec<Value<Tensor>>, loc: Loc) -> Result<Tensor, Error> {
    let outs = scope::record(row.symbol()?, &args, loc).transpose()?;
    outs.and_then(|outs| outs.into_iter().next()).ok_or_else(|| Error::bug("E709", "no trace is open"))
}
