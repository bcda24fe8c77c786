//! Rematerialisation by checkpoint regions and tags.
//!
//! The inside of a checkpoint region is computed again for its own gradient. A value that leaves the outermost region
//! and that a gradient outside of it reads is kept, and then serves inside too.

use super::Forward;
use crate::error::{Error, ErrorKind};
use crate::trace::tag::{self, Tag};
use crate::trace::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// The values that the backward computes again because the user marked them.
///
/// # Errors
/// E722 if the backward reads an input that is tagged `no_save`, or a value is tagged both `must_save` and `no_save`.
pub(super) fn recomputed(forward: &Forward) -> Result<FxHashSet<ProxyId>, Error> {
    let trace = forward.trace();
    let arena = &trace.arena;
    let made = forward.lines().flat_map(|l| l.outs.iter().chain(&l.aux).map(|p| (*p, l.place.loc)));
    for (p, loc) in made {
        tag::save_at_all(arena.tags(p), &arena.name(p), "rematerialise").map_err(|e| e.at(loc))?;
    }
    let mut region: FxHashMap<BoundSymbolId, Option<RegionId>> = FxHashMap::default();
    let mut found = FxHashSet::default();
    let mut marked = FxHashSet::default();
    for line in &trace.lines {
        let around = outermost(trace, line.region);
        region.insert(line.id, around);
        let by_tag = || {
            arena.effective_tags(line, trace.root).contains(Tag::RECOMPUTE)
                || line.outs.iter().chain(&line.aux).any(|p| arena.tags(*p).contains(Tag::NO_SAVE))
        };
        if forward.ids.contains(&line.id) && line.effects.writes.is_empty() && (around.is_some() || by_tag()) {
            marked.insert(line.id);
        }
    }
    check_inputs(forward)?;
    if marked.is_empty() {
        return Ok(found);
    }
    // for each value that the backward reads, the outermost checkpoints of the lines that are differentiated
    let mut readers: FxHashMap<ProxyId, Vec<Option<RegionId>>> = FxHashMap::default();
    for line in forward.backward() {
        let own = line.origin.and_then(|id| region.get(&id).copied()).flatten();
        line.for_each_arg(|p| readers.entry(p).or_default().push(own));
    }
    for line in forward.lines().rev().filter(|l| marked.contains(&l.id)) {
        let own = region[&line.id];
        let again = |p: &&ProxyId| {
            let inside = |all: &Vec<Option<RegionId>>| own.is_none() || all.iter().all(|r| *r == own);
            readers.get(p).is_some_and(inside) && !arena.tags(**p).contains(Tag::MUST_SAVE)
        };
        let values: Vec<ProxyId> = line.outs.iter().chain(&line.aux).filter(again).copied().collect();
        if !values.is_empty() {
            line.for_each_arg(|p| readers.entry(p).or_default().push(own));
            found.extend(values);
        }
    }
    Ok(found)
}

/// The outermost checkpoint around a region, within the trace.
fn outermost(trace: &Trace, id: RegionId) -> Option<RegionId> {
    let chain = trace.arena.region_chain(id, trace.root);
    chain.into_iter().rfind(|r| trace.arena.region(*r).kind == RegionKind::Checkpoint)
}

/// Refuses inputs that are tagged `no_save`, because inputs can't be computed again.
fn check_inputs(forward: &Forward) -> Result<(), Error> {
    let trace = forward.trace();
    let refused = |p: ProxyId| trace.arena.tags(p).contains(Tag::NO_SAVE) && !forward.maker.contains_key(&p);
    let inputs: FxHashSet<ProxyId> = trace.input_proxies().filter(|p| refused(*p)).collect();
    let mut read = None;
    for line in forward.backward().filter(|_| !inputs.is_empty()) {
        line.for_each_arg(|p| read = read.or(inputs.contains(&p).then_some((p, line.place.loc))));
    }
    let Some((p, loc)) = read else { return Ok(()) };
    let of = trace.arena.name(p).to_string();
    let claim =
        format!("the input `{of}` is tagged `no_save`, but the backward reads it, and an input can't be rebuilt");
    let kind = ErrorKind::TagConflict { tags: vec![Tag::NO_SAVE.name()], of, transform: "rematerialise" };
    Err(Error::new("E722", claim).kind_is(kind).at(loc))
}
