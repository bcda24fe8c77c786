//! Cotangents of lists with pieces that are zero: a joined list is padded, so that zeros are not filled in and joined.

use crate::bind::Builder;
use crate::error::Error;
use crate::intrinsics::Intrinsic;
use crate::symbol::SymbolRef;
use crate::trace::ProxyId;
use fulgurite_core::eval::tensor::Machine;
use fulgurite_core::facts::ListJoin;
use fulgurite_core::{Dim, Name, Named, Scalar, TensorTy, Value};

/// A joined list in which pieces that are only a type stand for zeros. If the pieces that are not zero are adjacent,
/// they are joined and padded; otherwise `None` is returned.
///
/// # Errors
/// Reports errors of the calls.
pub(super) fn assemble(
    b: &mut Builder,
    joins: SymbolRef,
    positional: &[Value<ProxyId>],
    named: &[Named<ProxyId>],
) -> Result<Option<Value<ProxyId>>, Error> {
    let (Some(Value::List(items)), Some(join)) = (positional.first(), joins.facts().join) else { return Ok(None) };
    let stacks = join == ListJoin::Stack;
    let live: Vec<usize> = (0..items.len()).filter(|i| matches!(items[*i], Value::Tensor(_))).collect();
    let (Some(&first), Some(&last)) = (live.first(), live.last()) else { return Ok(None) };
    let Some(types) = items.iter().map(|item| ty(b, item)).collect::<Option<Vec<TensorTy>>>() else { return Ok(None) };
    if live.len() == items.len() || last + 1 - first != live.len() {
        return Ok(None);
    }
    let dim = positional.get(1).or(named.iter().find(|(name, _)| *name == "dim").map(|(_, v)| v));
    let rank = types[0].rank() + usize::from(stacks);
    let axis = match dim {
        None | Some(Value::Absent) => 0,
        Some(Value::Num(Scalar::Int(i))) if *i < 0 => i + rank as i64,
        Some(Value::Num(Scalar::Int(i))) => *i,
        Some(_) => return Ok(None),
    };
    let Some(axis) = usize::try_from(axis).ok().filter(|a| *a < rank) else { return Ok(None) };
    let size = |i: usize| if stacks { Dim::from(1) } else { types[i].shape[axis] };
    let total = |range: std::ops::Range<usize>| range.map(size).fold(Dim::from(0), |sum, size| sum + size);
    let (before, behind) = (total(0..first), total(last + 1..items.len()));
    let at = |amount: Dim| {
        let amounts = (0..rank).map(|a| Value::size(if a == axis { amount } else { Dim::from(0) }));
        Value::List(amounts.collect())
    };
    let axis = Value::Num(Scalar::Int(axis as i64));
    let together = match (&items[first..=last], stacks) {
        ([one], false) => one.clone(),
        (several, _) => {
            b.call(Name::new(joins.name()), vec![Value::List(several.to_vec()), axis], Vec::new())?.swap_remove(0)
        }
    };
    Ok(Some(
        b.call(Name::new(Intrinsic::Pad.name()), vec![together, at(before), at(behind)], Vec::new())?.swap_remove(0),
    ))
}

fn ty(b: &Builder, item: &Value<ProxyId>) -> Option<TensorTy> {
    match item {
        Value::Tensor(p) => b.arena().tensor_ty(*p),
        Value::Type(ty) => Some(ty.clone()),
        _ => None,
    }
}
