//! A cache of solved signatures, so that equal calls share them.
//!
//! A model repeats its blocks, a program its steps. Calls that share a solved signature also share everything that
//! follows from it alone, such as their meaning as loops.
//!
//! **Invariant:** only calls without symbolic sizes are shared, because solving the others records guards.

use crate::symbol::SymbolRef;
use crate::trace::words::Words;
use crate::trace::{Arena, ProxyId};
use fulgurite_core::Value;
use fulgurite_core::signature::{self, Refusal, Solved};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// At most this many calls are cached, to bound memory; when there are more, all are dropped.
const MOST_KEPT: usize = 4096;

thread_local! {
    static KNOWN: RefCell<FxHashMap<Box<[u64]>, Arc<Solved>>> = RefCell::default();
}

/// Solves the signature of `symbol` for these arguments.
///
/// # Errors
/// Reports refusals of the signature.
pub(super) fn solve(symbol: SymbolRef, args: &[Value<ProxyId>], arena: &Arena) -> Result<Arc<Solved>, Refusal> {
    let mut key = Words::default();
    key.push(std::ptr::from_ref(symbol) as u64);
    args.iter().for_each(|arg| key.value(arg, &mut |p, words| arena.with_ty(p, |ty| words.ty(ty))));
    let known = KNOWN.with_borrow(|known| known.get(key.words.as_slice()).cloned());
    if let (Some(solved), false) = (known, key.symbolic) {
        return Ok(solved);
    }
    let solved = Arc::new(signature::solve(symbol.row(), args, &|p: &ProxyId| arena.arg_ty(*p))?);
    if !key.symbolic {
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST_KEPT {
                known.clear();
            }
            known.insert(key.words.into_boxed_slice(), solved.clone());
        });
    }
    Ok(solved)
}
