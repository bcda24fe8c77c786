//! Chooses the hand-over with the fewest bytes: a minimum cut between the values that exist after I and the values that
//! W reads, where W may run cheap lines of I again.

use super::cones::Sets;
use fulgurite_core::row::Meaning;
use fulgurite_runtime::parts::{NEVER, Network, bytes_of};
use fulgurite_runtime::trace::tag::Tag;
use fulgurite_runtime::trace::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// The lines of I that W runs again. `counts` says whether keeping an input of the backward costs memory.
pub(super) fn again(
    backward: &Trace,
    sets: &Sets,
    params: &[ProxyId],
    counts: impl Fn(ProxyId) -> bool,
) -> FxHashSet<BoundSymbolId> {
    let arena = &backward.arena;
    let mut net = Network::default();
    let (source, sink) = (net.node(), net.node());
    // each value has one node where it is made and one where it is read; the edge between them is the cost of keeping
    // it
    let mut nodes: FxHashMap<ProxyId, (usize, usize)> = FxHashMap::default();
    let mut value = |net: &mut Network, p: ProxyId| {
        *nodes.entry(p).or_insert_with(|| {
            let ends = (net.node(), net.node());
            // keeping a byte costs as much as running 64 lines again
            let price = if counts(p) { bytes_of(arena, p) as u64 * 64 + 1 } else { 1 };
            net.edge(ends.0, ends.1, price);
            ends
        })
    };
    for cell in backward.inputs() {
        let (start, _) = value(&mut net, cell.proxy);
        net.edge(source, start, NEVER);
    }
    let mut lines: Vec<(Rc<BoundSymbol>, usize)> = Vec::new();
    for line in backward.lines().iter().filter(|l| sets.input.contains(&l.id)) {
        let node = net.node();
        if is_cheap(backward, line) {
            // of two equal cuts, the one that runs fewer lines again wins
            net.edge(source, node, 1);
            line.for_each_arg(|p| {
                let (_, end) = value(&mut net, p);
                net.edge(end, node, NEVER);
            });
        } else {
            net.edge(source, node, NEVER);
        }
        for p in line.outs.iter().chain(&line.aux) {
            let (start, _) = value(&mut net, *p);
            net.edge(node, start, NEVER);
        }
        lines.push((line.clone(), node));
    }
    let mut needed: FxHashSet<ProxyId> = params.iter().copied().collect();
    let weight = backward.lines().iter().filter(|l| sets.weight.contains(&l.id));
    weight.for_each(|l| l.for_each_arg(|p| _ = needed.insert(p)));
    for (_, end) in needed.iter().filter_map(|p| nodes.get(p)) {
        net.edge(*end, sink, NEVER);
    }
    let near = net.cut(source, sink);
    // lines after the cut whose results W needs run again
    let mut again = FxHashSet::default();
    for (line, node) in lines.iter().rev() {
        let wanted = |p: &ProxyId| needed.contains(p) && nodes.get(p).is_some_and(|(start, _)| !near[*start]);
        if !near[*node] && line.outs.iter().chain(&line.aux).any(wanted) {
            again.insert(line.id);
            line.for_each_arg(|p| _ = needed.insert(p));
        }
    }
    again
}

/// Whether a line costs next to nothing to run twice: it is a view or pointwise, draws no random numbers and writes
/// nothing.
fn is_cheap(backward: &Trace, line: &BoundSymbol) -> bool {
    let row = line.symbol.row();
    let tags = backward.arena.effective_tags(line, backward.root);
    let plain =
        line.effects.writes.is_empty() && !line.symbol.row().takes_key() && !tags.contains(Tag::NO_AUTO_RECOMPUTE);
    plain && line.claimed_by.is_none() && (matches!(row.meaning, Meaning::View(_)) || row.is_pointwise())
}
