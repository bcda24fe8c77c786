//! Meanings as loops, lowered once for all lines that share what their signature binds.

use crate::symbol::{Registered, SymbolRef};
use fulgurite_core::lang::ast::Block;
use fulgurite_core::lower::lower_with;
use fulgurite_core::nest::Nest;
use fulgurite_core::sig::{Refusal, Solved};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// Meanings that are remembered; when there are more, all are forgotten.
const MOST_KEPT: usize = 4096;

/// A meaning, and what it was made from.
struct Known {
    /// Kept, so that no other one gets its address.
    _solved: Arc<Solved>,
    places: Vec<usize>,
    nest: Arc<Nest>,
}

thread_local! {
    /// By the addresses of symbol and solved signature.
    static KNOWN: RefCell<FxHashMap<(usize, usize), Known>> = RefCell::default();
}

/// The body `block` of a row for a solved call. The tensors of its slots stand in `places`; `usize::MAX`: nowhere.
///
/// # Errors
/// What lowering refuses.
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

/// A meaning on slots as one on the tensors that are passed.
pub(super) fn renumbered(nest: Nest, places: &[usize]) -> Nest {
    if places.contains(&usize::MAX) { nest.renumbered(places) } else { nest }
}
