//! Items that run block by block: each block of rows goes through all of them, so that large values between them exist
//! only as one block, in the caches.
//!
//! The scores of attention are such values: two products and a softmax make and use them, and each of these items reads
//! and writes the rows of a block alone. If a value is used again in a later part of the program, as the weights of
//! attention are in the backward, the items that make it run again there.

use super::fuse::{Form, Item};
use super::graph::ValueId;
use super::graph::piece::{Place, Values};
use fulgurite_core::DType;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// Smaller values, in bytes, stay in the caches anyway.
pub const LEAST: usize = 16 << 20;
/// A value is made again for a later part of the program if that takes at most this many operations per byte: it then costs
/// about as much as writing the value to memory and reading it again.
const AGAIN: usize = 64;

/// Items that run block by block.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowGroup {
    /// The numbers of the items, in order. The first ones may belong to an earlier group too: they run again.
    pub items: Vec<usize>,
    /// The dense values that exist as blocks only.
    pub inside: Vec<ValueId>,
    /// The first of `items` that no earlier group has.
    pub own: usize,
}

/// The facts about the items from which groups are formed.
pub(crate) struct Found<'a> {
    pub items: &'a [(Item, Vec<u32>)],
    /// The values that leave the program.
    pub outputs: &'a [ValueId],
    pub values: &'a Values,
    pub form: &'a dyn Fn(ValueId) -> Form,
    /// The least bytes of a value that exists as blocks only.
    pub least: usize,
    /// The values that can't exist as blocks only.
    pub barred: &'a FxHashSet<ValueId>,
}

/// The values of the items.
struct Flow {
    reads: Vec<Vec<ValueId>>,
    writes: Vec<Vec<ValueId>>,
    /// For each candidate, the item that writes it.
    writer: FxHashMap<ValueId, usize>,
    /// For each candidate, the items that read it.
    readers: FxHashMap<ValueId, Vec<usize>>,
}

impl Found<'_> {
    /// The groups of items that run block by block.
    pub fn groups(&self) -> Vec<RowGroup> {
        let root = |v: ValueId| (self.form)(v).root;
        let leaves: FxHashSet<ValueId> = self.outputs.iter().map(|v| root(*v)).collect();
        let mut writer = FxHashMap::default();
        for (at, (item, _)) in self.items.iter().enumerate() {
            for v in candidates(item) {
                let ty = self.values.ty(v);
                let large = ty.dtype == DType::F32 && ty.shape.len() > 1 && ty.bytes() >= self.least;
                if large && root(v) == v && !leaves.contains(&v) {
                    writer.insert(v, at);
                }
            }
        }
        if writer.is_empty() {
            return Vec::new();
        }
        let roots = |all: Vec<ValueId>| {
            let all: BTreeSet<ValueId> = all.into_iter().map(root).collect();
            all.into_iter().collect::<Vec<_>>()
        };
        let reads: Vec<_> = self.items.iter().map(|(item, _)| roots(reads(item))).collect();
        let writes: Vec<_> = self.items.iter().map(|(item, _)| roots(item.defines())).collect();
        let readers = writer.keys().map(|v| (*v, Vec::new())).collect();
        let mut flow = Flow { reads, writes, writer, readers };
        for (at, values) in flow.reads.iter().enumerate() {
            values.iter().for_each(|v| {
                if let Some(readers) = flow.readers.get_mut(v) {
                    readers.push(at);
                }
            });
        }
        let by_rows = |at: &usize| works_by_rows(&self.items[*at].0);
        let mut inside: BTreeSet<ValueId> = flow.writer.keys().copied().collect();
        inside.retain(|v| {
            let readers = &flow.readers[v];
            let possible = !readers.is_empty() && !self.barred.contains(v);
            possible && readers.iter().chain([&flow.writer[v]]).all(by_rows)
        });
        loop {
            let parts = flow.parts(&inside, self.values);
            let before = inside.len();
            for (items, values) in &parts {
                let stage = flow.stages(items, values);
                let again = |v: &ValueId| flow.readers[v].iter().any(|r| stage[r] > stage[&flow.writer[v]]);
                let costly = values.iter().filter(|v| again(v) && self.costs_too_much(&flow, **v, values));
                costly.for_each(|v| _ = inside.remove(v));
            }
            if inside.len() < before {
                continue;
            }
            let mut groups: Vec<RowGroup> = parts.iter().flat_map(|part| self.stages(&flow, part)).collect();
            // An item that is in no group reads whole values, so a group must not keep one of them as blocks.
            let single = |v: &ValueId| {
                let with = |g: &RowGroup, items: &[usize], at| g.inside.contains(v) && items.contains(&at);
                let kept = groups.iter().any(|g| with(g, &g.items[g.own..], flow.writer[v]));
                kept && !flow.readers[v].iter().all(|r| groups.iter().any(|g| with(g, &g.items, *r)))
            };
            let whole: Vec<ValueId> = inside.iter().copied().filter(single).collect();
            if whole.is_empty() {
                groups.sort_by_key(|g| g.items[g.own]);
                return groups;
            }
            inside.retain(|v| !whole.contains(v));
        }
    }

    /// Whether a value costs too much to be made again, with the values inside of which it is made.
    fn costs_too_much(&self, flow: &Flow, value: ValueId, inside: &BTreeSet<ValueId>) -> bool {
        let (mut seen, mut open, mut operations) = (FxHashSet::default(), vec![value], 0usize);
        while let Some(v) = open.pop() {
            let at = flow.writer[&v];
            if !seen.insert(at) {
                continue;
            }
            if let Item::Contract(c) = &self.items[at].0 {
                operations = operations.saturating_add(2 * c.sizes.iter().product::<usize>());
            }
            open.extend(flow.reads[at].iter().filter(|v| inside.contains(v)));
        }
        operations / self.values.ty(value).bytes().max(1) > AGAIN
    }

    /// The values inside of a group that one of its items reads or writes; all, if it has none of its own.
    pub fn touched(&self, item: usize, group: &RowGroup) -> Vec<ValueId> {
        let item = &self.items[item].0;
        let all = reads(item).into_iter().chain(item.defines()).map(|v| (self.form)(v).root);
        let touched: Vec<ValueId> = all.filter(|v| group.inside.contains(v)).collect();
        if touched.is_empty() { group.inside.clone() } else { touched }
    }

    /// The groups of one part of the program: items that depend on others, which depend on items of the part, form a later
    /// group.
    fn stages(&self, flow: &Flow, part: &(BTreeSet<usize>, BTreeSet<ValueId>)) -> Vec<RowGroup> {
        let (items, inside) = part;
        let stage = flow.stages(items, inside);
        let last = items.iter().map(|i| stage[i]).max().unwrap_or(0);
        let mut groups = Vec::new();
        for number in 0..=last {
            let own: BTreeSet<usize> = items.iter().copied().filter(|i| stage[i] == number).collect();
            let mut again = BTreeSet::new();
            let mut open: Vec<usize> = own.iter().copied().collect();
            while let Some(at) = open.pop() {
                for v in flow.reads[at].iter().filter(|v| inside.contains(v)) {
                    let writer = flow.writer[v];
                    if !own.contains(&writer) && again.insert(writer) {
                        open.push(writer);
                    }
                }
            }
            let all: Vec<usize> = again.iter().chain(&own).copied().collect();
            let mut values: Vec<ValueId> =
                all.iter().flat_map(|i| &flow.writes[*i]).copied().filter(|v| inside.contains(v)).collect();
            values.dedup();
            let product = all.iter().any(|i| matches!(self.items[*i].0, Item::Contract(_)));
            if all.len() > 1 && !values.is_empty() && product {
                groups.push(RowGroup { own: again.len(), items: all, inside: values });
            }
        }
        groups
    }
}

impl Flow {
    /// Items that candidates connect, and these candidates, which have rows of one length.
    fn parts(&self, inside: &BTreeSet<ValueId>, values: &Values) -> Vec<(BTreeSet<usize>, BTreeSet<ValueId>)> {
        let key = |v: ValueId| (values.ty(v).elements(), values.ty(v).shape.last().copied());
        let mut parts: Vec<(BTreeSet<usize>, BTreeSet<ValueId>)> = Vec::new();
        // An item can't run in blocks of two lengths; those of larger values save more.
        let mut inside: Vec<&ValueId> = inside.iter().collect();
        inside.sort_by_key(|v| (Reverse(values.ty(**v).bytes()), **v));
        for v in inside {
            let mut items: BTreeSet<usize> = self.readers[v].iter().copied().chain([self.writer[v]]).collect();
            let mut all = BTreeSet::from([*v]);
            let (met, rest): (Vec<_>, Vec<_>) = parts.drain(..).partition(|(of, _)| !of.is_disjoint(&items));
            parts = rest;
            if met.iter().all(|(_, with)| with.iter().all(|w| key(*w) == key(*v))) {
                for (of, with) in met {
                    items.extend(of);
                    all.extend(with);
                }
                parts.push((items, all));
            } else {
                parts.extend(met);
            }
        }
        parts
    }

    /// The stage of each item of a part: how many times the part has to finish all of its blocks
    /// before the item can run. An item waits in this way if it depends on a value that is not
    /// `inside` and that items of the part make.
    fn stages(&self, part: &BTreeSet<usize>, inside: &BTreeSet<ValueId>) -> FxHashMap<usize, usize> {
        let first = part.first().copied().unwrap_or(0);
        let last = part.last().copied().unwrap_or(0);
        // For each value that depends on the part: the stage of the item that writes it, and whether it is of the part.
        let mut of_value: FxHashMap<ValueId, (usize, bool)> = FxHashMap::default();
        let mut stage = FxHashMap::default();
        for at in first..=last {
            let own = part.contains(&at);
            // A value that is not a block is complete when all blocks are done.
            let block = |v: &ValueId| own && inside.contains(v);
            let known = self.reads[at].iter().filter_map(|v| Some((of_value.get(v)?, block(v))));
            let of = known.map(|((stage, of_part), block)| stage + usize::from(*of_part && !block)).max();
            if own {
                stage.insert(at, of.unwrap_or(0));
            }
            if own || of.is_some() {
                let of = (of.unwrap_or(0), own);
                self.writes[at].iter().for_each(|v| _ = of_value.insert(*v, of));
            }
        }
        stage
    }
}

/// The values that an item reads.
pub(crate) fn reads(item: &Item) -> Vec<ValueId> {
    match item {
        Item::Group(g) => g.live_reads(),
        other => other.reads(),
    }
}

/// The values that an item writes whole.
fn candidates(item: &Item) -> Vec<ValueId> {
    match item {
        Item::Contract(c) => vec![c.out],
        Item::Group(g) => g.outs.iter().filter(|o| matches!(o.place, Place::Axes(_))).map(|o| o.value).collect(),
        Item::Scan(_) | Item::Opaque(_) => Vec::new(),
    }
}

/// Whether an item may run block by block: a fusion without scatters, or a product of matrices.
fn works_by_rows(item: &Item) -> bool {
    match item {
        Item::Contract(c) => c.exact.is_none() && c.chunk.is_none() && c.a.lies(&c.sizes) && c.b.lies(&c.sizes),
        Item::Group(g) => g.outs.iter().all(|o| matches!(o.place, Place::Axes(_))),
        Item::Scan(_) | Item::Opaque(_) => false,
    }
}

/// An order of items and groups in which every value is written before it is read; `None` if groups
/// wait for each other. Where there is a choice, a group stands where the last of its items was.
pub(crate) fn order(found: &Found<'_>, groups: &[RowGroup]) -> Option<Vec<Ordered>> {
    if groups.is_empty() {
        return Some((0..found.items.len()).map(Ordered::Item).collect());
    }
    let mut of_item: FxHashMap<usize, usize> = FxHashMap::default();
    for (number, group) in groups.iter().enumerate() {
        group.items[group.own..].iter().for_each(|i| _ = of_item.insert(*i, number));
    }
    let single = (0..found.items.len()).filter(|at| !of_item.contains_key(at)).map(Ordered::Item);
    let nodes: Vec<Ordered> = single.chain((0..groups.len()).map(Ordered::Group)).collect();
    let items = |node: &Ordered| match node {
        Ordered::Item(at) => vec![*at],
        Ordered::Group(number) => groups[*number].items.clone(),
    };
    let place = |node: &Ordered| items(node).last().copied().unwrap_or(0);
    let root = |v: ValueId| (found.form)(v).root;
    let inside = |node: &Ordered, v: ValueId| matches!(node, Ordered::Group(g) if groups[*g].inside.contains(&v));
    let mut writer: FxHashMap<ValueId, usize> = FxHashMap::default();
    for (n, node) in nodes.iter().enumerate() {
        let own = match node {
            Ordered::Item(at) => vec![*at],
            Ordered::Group(number) => groups[*number].items[groups[*number].own..].to_vec(),
        };
        let written = own.iter().flat_map(|i| found.items[*i].0.defines()).map(root);
        written.for_each(|v| _ = writer.insert(v, n));
    }
    // For each node, the nodes that wait for it, and the number of those for which it waits.
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut missing = vec![0usize; nodes.len()];
    for (n, node) in nodes.iter().enumerate() {
        let read = items(node).into_iter().flat_map(|i| reads(&found.items[i].0)).map(root);
        let from: BTreeSet<usize> =
            read.filter(|v| !inside(node, *v)).filter_map(|v| writer.get(&v).copied()).collect();
        for of in from.into_iter().filter(|of| *of != n) {
            waiting[of].push(n);
            missing[n] += 1;
        }
    }
    let ready = (0..nodes.len()).filter(|n| missing[*n] == 0);
    let mut open: BinaryHeap<Reverse<(usize, usize)>> = ready.map(|n| Reverse((place(&nodes[n]), n))).collect();
    let mut order = Vec::new();
    while let Some(Reverse((_, n))) = open.pop() {
        order.push(nodes[n]);
        for &next in &waiting[n] {
            missing[next] -= 1;
            if missing[next] == 0 {
                open.push(Reverse((place(&nodes[next]), next)));
            }
        }
    }
    (order.len() == nodes.len()).then_some(order)
}

/// An item, or a group of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordered {
    Item(usize),
    Group(usize),
}
