//! Joins of long lists.
//!
//! An expression that selects among n tensors costs n selections for each element. So a join or stack of many tensors
//! is bound as a tree: parts of the list are joined first, then the results.

use super::Builder;
use crate::error::Error;
use crate::intrinsics::Intrinsic;
use crate::symbol::SymbolRef;
use crate::trace::ProxyId;
use fulgurite_core::Value;

/// A list of at most this many tensors is joined at once, because the selections are cheaper than another pass over the
/// elements.
const MOST: usize = 64;
/// The number of tensors in a part.
const PART: usize = 32;

/// Whether a call's first argument is a list that is joined in parts.
pub(super) fn is_long(args: &[Value<ProxyId>]) -> bool {
    matches!(args.first(), Some(Value::List(items)) if items.len() > MOST)
}

/// The call that joins the parts of a long list, which are bound here; any other call is returned unchanged.
///
/// # Errors
/// Reports errors of binding the parts.
pub(super) fn in_parts(
    b: &mut Builder,
    symbol: SymbolRef,
    mut args: Vec<Value<ProxyId>>,
) -> Result<(SymbolRef, Vec<Value<ProxyId>>), Error> {
    let mut joins = symbol;
    while let (true, Some(_), Some(items)) = (is_long(&args), joins.facts().join, alike(b, &args)) {
        let loc = b.context.place.loc;
        // each part has the other arguments, and not the whole list
        args[0] = Value::Absent;
        let mut parts = Vec::with_capacity(items.len().div_ceil(PART));
        for part in items.chunks(PART) {
            let mut call = args.clone();
            call[0] = Value::List(part.to_vec());
            parts.push(Value::Tensor(b.bind(joins, call, loc)?[0]));
        }
        args[0] = Value::List(parts);
        // parts that are stacks have the new axis already, along which they are joined
        joins = Intrinsic::Cat.symbol()?;
    }
    Ok((joins, args))
}

/// The list of a call, if all its items are tensors of one dtype; the promotion of other lists depends on the whole
/// list.
fn alike(b: &Builder, args: &[Value<ProxyId>]) -> Option<Vec<Value<ProxyId>>> {
    let Some(Value::List(items)) = args.first() else { return None };
    let dtype = |v: &Value<ProxyId>| match v {
        Value::Tensor(p) => b.arena().tensor_ty(*p).map(|ty| ty.dtype),
        _ => None,
    };
    let first = dtype(items.first()?)?;
    items.iter().all(|item| dtype(item) == Some(first)).then(|| items.clone())
}
