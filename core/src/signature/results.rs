//! The types of results, once sizes, options and dtypes are bound.

use super::Refusal;
use super::const_eval::{self, At, Stop};
use super::env::{Env, Size};
use super::shapes::{self, implicit_list};
use super::types::OutTy;
use crate::lang::ast::*;
use crate::row::Row;
use crate::{DType, Dim, TensorTy};
use smallvec::SmallVec;

/// At most this many items of a result list, because every item is a value of its own in a trace.
pub const MOST_ITEMS: usize = 1 << 16;

/// At most this many axes of a result. The work on an element grows with them, and some walks over axes are recursive.
pub const MOST_AXES: usize = 256;

/// The types of `outs`; `result` is the dtype of `T` in results.
///
/// # Errors
/// E704 for sizes that no tensor has.
pub(super) fn types(row: &Row, env: &mut Env, outs: &[Out], result: DType) -> Result<Vec<OutTy>, Stop> {
    let mut types = Vec::with_capacity(outs.len());
    for out in outs {
        types.push(one(row, env, out, result)?);
    }
    Ok(types)
}

fn one(row: &Row, env: &mut Env, out: &Out, result: DType) -> Result<OutTy, Stop> {
    let dtype = match out.ty.elem.first() {
        Some(Elem::Var(v)) if *v == "T" => result,
        Some(e) => const_eval::elem_dtype(env, e)?,
        None => result,
    };
    let tensor = |env: &mut Env, item: Option<usize>| -> Result<TensorTy, Stop> {
        let shape = match &out.ty.dims {
            None => match env.size(implicit_list()) {
                Some(Size::List(l)) => SmallVec::from_slice(l),
                _ => SmallVec::new(),
            },
            Some(dims) => {
                let axes = shapes::build(env, dims, At { axis: None, item })?;
                let mut sizes: SmallVec<[Dim; 4]> = axes.iter().map(|a| a.size).collect();
                // The imagined axis of a rank-0 argument is removed again.
                if sizes.len() == 1 && imagined(row, env, dims, item.unwrap_or(0)) {
                    if !sizes[0].is(1) {
                        let message =
                            format!("`{}`: a tensor of rank 0 has no axis for a result of size {}", row.op, sizes[0]);
                        return Err(Refusal::new("E704", message).into());
                    }
                    sizes.clear();
                }
                sizes
            }
        };
        if shape.len() > MOST_AXES {
            let message = format!("`{}`: the result would have {} axes", row.op, shape.len());
            return Err(Refusal::new("E704", message).help(format!("at most {MOST_AXES} axes are possible")).into());
        }
        if let Some(bad) = shape.iter().find(|d| **d < Dim::from(0)) {
            return Err(Refusal::new("E704", format!("`{}`: the result would have a size of {bad}", row.op)).into());
        }
        if !fits(&shape, dtype) {
            let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let sizes = sizes.join(", ");
            let message =
                format!("`{}`: the result would be {dtype}[{sizes}], more bytes than memory has places", row.op);
            return Err(Refusal::new("E704", message)
                .help("ask for smaller sizes: a tensor has less than 2^63 bytes")
                .into());
        }
        Ok(TensorTy { dtype, shape })
    };
    Ok(match &out.ty.list {
        None if out.is_from_body() => OutTy::FromBody,
        None => OutTy::Tensor(tensor(env, None)?),
        Some(ListLen::Expr(len)) => {
            let n = const_eval::eval(env, len, At::default())?.int()?.len();
            if n > MOST_ITEMS {
                let message =
                    format!("`{}`: the result would be a list of {n} tensors, at most {MOST_ITEMS} can be", row.op);
                return Err(Refusal::new("E704", message).into());
            }
            OutTy::List((0..n).map(|i| tensor(env, Some(i))).collect::<Result<_, Stop>>()?)
        }
        Some(_) => OutTy::FromBody,
    })
}

/// Whether the bytes of such a tensor, and every offset into it, fit i64, so that executors can multiply its sizes
/// unchecked. A size of 0 does not make the other sizes small. Symbolic sizes are checked once they are known.
fn fits(shape: &[Dim], dtype: DType) -> bool {
    let mut sizes = shape.iter().filter(|d| d.is_const()).map(|d| d.value().max(1));
    sizes.try_fold(dtype.size() as i64, i64::checked_mul).is_some()
}

/// Whether the one axis of a result corresponds to the axis that rank-0 arguments are taken to have: an option names it
/// there, and no argument of rank 1 has it.
fn imagined(row: &Row, env: &Env, dims: &[DimPat], item: usize) -> bool {
    if env.scalar_axis.is_empty() {
        return false;
    }
    let (scalars, real): (Vec<&Param>, Vec<&Param>) = row.sig.params.iter().partition(|p| {
        let item = if p.ty.list.is_some() { item } else { 0 };
        env.scalar_axis.contains(&(p.name.name, item))
    });
    let Some((before, size)) = first(dims, false) else { return false };
    // The axis stands at the position of the scalars' imagined axis: an axis in front of it belongs to a batch.
    let stands =
        scalars.iter().any(|p| first(p.ty.dims.as_deref().unwrap_or_default(), true).is_some_and(|(b, _)| b == before));
    // Whether an option names an axis of an argument that has the result's size, or with `any` any size.
    let names = |p: &Param, any: bool| {
        let mut dims = p.ty.dims.iter().flatten();
        dims.any(|d| matches!(&d.kind, DimKind::One { size: s, at: Some(_), .. } if any || s == size))
    };
    // `..P, M, ..Q` of `x: T[..P, N@dim, ..Q]` has a size of its own: then any vector among the arguments gives the
    // axis.
    let alone = !scalars.iter().any(|p| names(p, false));
    // An absent optional argument has no axes.
    let given = |p: &&Param| env.tensor(p.name.name).is_some();
    stands && !real.into_iter().filter(given).any(|p| names(p, alone))
}

/// The first axis with a size of its own (if `by_option`, one that an option names), and the axes before it.
fn first(dims: &[DimPat], by_option: bool) -> Option<(&[DimPat], &Expr)> {
    dims.iter().enumerate().find_map(|(i, d)| match &d.kind {
        DimKind::One { size, at, .. } if at.is_some() || !by_option => Some((&dims[..i], size)),
        _ => None,
    })
}
