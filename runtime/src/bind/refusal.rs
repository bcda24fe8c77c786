//! Decides whether a line may refuse at run time, which is an effect, so that no transform removes the line.

use super::body;
use crate::symbol::Registered;
use crate::trace::{Arena, Body, BoundSymbol, ProxyId, RegionId};
use fulgurite_core::dim::estimating;
use fulgurite_core::lower::lower_with;
use fulgurite_core::row::Meaning;
use fulgurite_core::signature::Solved;
use fulgurite_core::{refusals, runtime_checks};
use rustc_hash::FxHashMap;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// At most this many answers are cached, to bound memory; when there are more, all are dropped.
const MOST_KEPT: usize = 4096;

/// Answers by the addresses of symbol and solved signature; the signature is held so that its address is not reused.
type Known = FxHashMap<(usize, usize), (Arc<Solved>, bool)>;

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Whether a line may refuse at run time: an index in a tensor may be out of range, an integer may be divided by zero,
/// or a condition of the row reads elements. `false` is certain.
pub fn may_refuse(arena: &Arena, line: &BoundSymbol) -> bool {
    let any = |body: &Body| body.lines.iter().any(|inner| may_refuse(arena, inner));
    if let Some(body) = &line.dispatch {
        return any(body);
    }
    if let Some(control) = arena.control(line) {
        return control.programs.iter().flat_map(|p| &p.lines).any(|inner| may_refuse(arena, inner));
    }
    if line.symbol.port().is_some() || line.symbol.own().is_some() || !line.symbol.may_refuse() {
        return false;
    }
    if let Some(Some(body)) = line.body.get() {
        return any(body);
    }
    let key = (std::ptr::from_ref(line.symbol) as usize, Arc::as_ptr(&line.solved) as usize);
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&key).map(|(_, may)| *may)) {
        return known;
    }
    // the test must not bind sizes, because it decides nothing
    let may = estimating(|| solved(arena, line));
    KNOWN.with_borrow_mut(|known| {
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.insert(key, (line.solved.clone(), may));
    });
    may
}

/// The answer for a line's solved signature.
fn solved(arena: &Arena, line: &BoundSymbol) -> bool {
    let row = line.symbol.row();
    match &row.meaning {
        Meaning::Decomp(_) => in_body(arena, line),
        Meaning::Host(_) => false,
        Meaning::Expr(block) | Meaning::View(block) => {
            // a line that can't be lowered here is refused when it is compiled
            runtime_checks::open(row, &line.solved).map_or(true, |open| !open.is_empty())
                || lower_with(row, block, &line.solved, &Registered).map_or(true, |nest| refusals::of_nest(&nest))
        }
    }
}

/// Whether a composite may refuse, because a line of its body may. The body is made on an arena of its own, so that no
/// names are used up.
fn in_body(arena: &Arena, line: &BoundSymbol) -> bool {
    let apart = Arena::new();
    let mut map: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
    let mut stand_in = |p: ProxyId| *map.entry(p).or_insert_with(|| apart.proxy("x", arena.ty(p)));
    let args = line.args.iter().map(|a| a.map(&mut |p| stand_in(*p))).collect();
    let probe =
        BoundSymbol { args, body: OnceCell::new(), own_tags: Default::default(), region: RegionId(0), ..line.clone() };
    match body::run(&Rc::clone(&apart), &probe) {
        Ok(Some((builder, _))) => builder.lines().iter().any(|inner| may_refuse(&apart, inner)),
        Ok(None) => false,
        Err(_) => true,
    }
}
