//! Meanings as loops, lowered once for all lines that share their solved signature.

use crate::symbol::{Registered, SymbolRef};
use fulgurite_core::lang::ast::Block;
use fulgurite_core::loop_nest::Nest;
use fulgurite_core::lower::lower_with;
use fulgurite_core::signature::{Refusal, Solved};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// At most this many meanings are cached, to bound memory; when there are more, all are dropped.
const MOST_KEPT: usize = 4096;

/// A cached meaning with its key.
struct Known {
    /// The signature is held so that its address is not reused.
    _solved: Arc<Solved>,
    places: Vec<usize>,
    nest: Arc<Nest>,
}

thread_local! {
    /// The cache, by the addresses of the symbol and the solved signature.
    static KNOWN: RefCell<FxHashMap<(usize, usize), Known>> = RefCell::default();
}

/// The body `block` of a row for a solved call. `places` has the position of each slot's tensor; `usize::MAX` stands
/// for none.
///
/// # Errors
/// Reports refusals of lowering.
pub(super) fn nest(
    symbol: SymbolRef,
    block: &Block,
    solved: &Arc<Solved>,
    places: &[usize],
) -> Result<Arc<Nest>, Refusal> {
    let key = (std::ptr::from_ref(symbol) as usize, Arc::as_ptr(solved) as usize);
    let known = KNOWN.with_borrow(|known| known.get(&key).filter(|k| k.places == places).map(|k| k.nest.clone()));
    if let Some(nest) = known {
        return Ok(nest);
    }
    let nest = Arc::new(renumbered(lower_with(symbol.row(), block, solved, &Registered)?, places));
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(key, Known { _solved: solved.clone(), places: places.to_vec(), nest: nest.clone() });
    });
    Ok(nest)
}

/// A meaning on slots, renumbered to the tensors that are passed.
pub(super) fn renumbered(nest: Nest, places: &[usize]) -> Nest {
    if places.contains(&usize::MAX) { nest.renumbered(places) } else { nest }
}
