//! Rematerialisation under a budget: a minimum cut of the forward.
//!
//! A value is either kept, at the price of its bytes, or computed again, at the price of its line's work; a value that
//! is computed again needs its arguments, kept or computed again. For one exchange rate between work and bytes, the
//! best choice is a minimum cut of a network in which every value is an edge (as in rematerialisation by minimum cut,
//! Jain et al. 2020, and PyTorch's min-cut partitioner, but with work as a price and not as a list of forbidden
//! operators). The budget is reached by trying rates.

use super::super::cost::{Costs, bytes};
use super::Forward;
use super::flow::{NEVER, Network};
use crate::error::Error;
use crate::trace::tag::Tag;
use crate::trace::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// The number of rates, each half of the one before, starting with a byte that is worth next to no work.
const STEPS: u32 = 48;

/// The values that the backward computes again so that it keeps at most `budget` bytes, if that is possible, and as few
/// bytes as possible otherwise.
///
/// # Errors
/// Reports errors of making bodies and of lowering.
pub(super) fn recomputed(forward: &Forward, costs: &mut Costs, budget: usize) -> Result<FxHashSet<ProxyId>, Error> {
    let mut graph = Graph::of(forward, costs)?;
    // the cheaper work is, the fewer bytes are kept, so the highest price of work that fits the budget is searched
    let (mut low, mut high) = (0, STEPS);
    while low < high {
        let middle = (low + high) / 2;
        match graph.choose(middle).1 <= budget as u64 {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(graph.choose(low).0)
}

/// The forward as a network.
struct Graph {
    net: Network,
    source: usize,
    sink: usize,
    values: Vec<Held>,
    /// For each edge (by number / 2), its price.
    prices: Vec<Price>,
}

/// A value that may be computed again, as an edge.
struct Held {
    proxy: ProxyId,
    start: usize,
    end: usize,
    /// The price of keeping the value; nothing if it is kept anyway.
    bytes: u64,
}

#[derive(Clone, Copy)]
enum Price {
    Bytes(u64),
    Work(f64),
    Never,
}

impl Graph {
    /// Collects the lines that make the values which the backward reads, back to the inputs.
    fn of(forward: &Forward, costs: &mut Costs) -> Result<Graph, Error> {
        let trace = forward.trace();
        let mut net = Network::default();
        let (source, sink) = (net.node(), net.node());
        let mut graph = Graph { net, source, sink, values: Vec::new(), prices: Vec::new() };
        let mut ends: FxHashMap<ProxyId, (usize, usize)> = FxHashMap::default();
        let mut open = Vec::new();
        for line in forward.backward() {
            line.for_each_arg(|p| open.push((p, sink)));
        }
        let outputs: FxHashSet<ProxyId> = trace.outputs[..forward.joint.forward_outputs].iter().copied().collect();
        let mut lines: FxHashMap<BoundSymbolId, usize> = FxHashMap::default();
        while let Some((p, reader)) = open.pop() {
            // inputs, and values of a surrounding trace, exist anyway
            let Some(line) = forward.maker.get(&p) else { continue };
            if let Some((_, end)) = ends.get(&p) {
                graph.edge(*end, reader, Price::Never);
                continue;
            }
            let (start, end) = (graph.net.node(), graph.net.node());
            ends.insert(p, (start, end));
            let free = outputs.contains(&p) || trace.arena.tags(p).contains(Tag::MUST_SAVE);
            let bytes = if free { 0 } else { bytes(&trace.arena, p).max(1) as u64 };
            graph.values.push(Held { proxy: p, start, end, bytes });
            graph.edge(start, end, Price::Bytes(bytes));
            graph.edge(end, reader, Price::Never);
            let node = match lines.get(&line.id) {
                Some(node) => *node,
                None => {
                    let node = graph.net.node();
                    lines.insert(line.id, node);
                    let price = price(forward, line, costs)?;
                    graph.edge(source, node, price);
                    line.for_each_arg(|a| open.push((a, node)));
                    node
                }
            };
            graph.edge(node, start, Price::Never);
        }
        Ok(graph)
    }

    fn edge(&mut self, from: usize, to: usize, price: Price) {
        // `choose` sets the capacities
        self.net.edge(from, to, 0);
        self.prices.push(price);
    }

    /// The values that are computed again, and the bytes that are kept. A byte is worth `2^step` additions times 2^-24.
    fn choose(&mut self, step: u32) -> (FxHashSet<ProxyId>, u64) {
        let rate = 2f64.powi(24 - step as i32);
        let prices = &self.prices;
        self.net.reset(|edge| match prices[edge / 2] {
            Price::Bytes(n) => n,
            Price::Work(w) => (w * rate).min(NEVER as f64 / 4.0) as u64,
            Price::Never => NEVER,
        });
        let near = self.net.cut(self.source, self.sink);
        let (mut again, mut kept) = (FxHashSet::default(), 0);
        for value in &self.values {
            if !near[value.start] {
                again.insert(value.proxy);
            } else if !near[value.end] {
                kept += value.bytes;
            }
        }
        (again, kept)
    }
}

/// The price of running a line again: its work, and an addition per byte that it makes.
fn price(forward: &Forward, line: &BoundSymbol, costs: &mut Costs) -> Result<Price, Error> {
    let trace = forward.trace();
    let tags = trace.arena.effective_tags(line, trace.root);
    if !line.effects.writes.is_empty() || tags.contains(Tag::NO_AUTO_RECOMPUTE) {
        return Ok(Price::Never);
    }
    let Some(work) = costs.of(&trace.arena, line)? else { return Ok(Price::Never) };
    let moved: usize = line.outs.iter().map(|p| bytes(&trace.arena, *p)).sum();
    Ok(Price::Work(if work == 0.0 { 0.0 } else { work + moved as f64 }))
}
