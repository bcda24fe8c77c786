//! Adds parts to a group as a transaction: all of them are taken back unless they are kept.
//!
//! Most attempts fail, and groups are large. So a part is added in place, and the earlier state of the group is known
//! by its lengths. Only splitting a dim changes older entries; the group is copied then.

use super::super::graph::piece::{Fragment, Out, Place};
use super::super::graph::{Affine, Axis, NodeId, ValueId};
use super::group::{Group, Member};
use super::unify::Unify;
use super::{legality, liveness};
use smallvec::SmallVec;
use std::rc::Rc;

impl Group {
    pub fn of(fragment: Rc<Fragment>) -> Group {
        let mut group = Group::default();
        let mut transaction = Transaction::of(&mut group);
        // A single fragment always fits, because its reductions end it.
        let added = transaction.add(&fragment);
        debug_assert!(added);
        transaction.keep();
        group
    }
}

/// A group with added parts that may be taken back.
pub struct Transaction<'g> {
    pub(super) group: &'g mut Group,
    /// The lengths of the group's lists before.
    dims: usize,
    nodes: usize,
    outs: usize,
    parts: usize,
    widest: Option<(usize, ValueId)>,
    /// Nodes that became needed.
    needed: Vec<NodeId>,
    /// The group before its first split.
    unsplit: Option<Box<Group>>,
    kept: bool,
}

impl<'g> Transaction<'g> {
    /// A transaction to which no part was added yet.
    pub fn of(group: &'g mut Group) -> Transaction<'g> {
        Transaction {
            dims: group.graph.sizes.len(),
            nodes: group.graph.nodes.len(),
            outs: group.outs.len(),
            parts: group.parts.len(),
            widest: group.widest,
            needed: Vec::new(),
            unsplit: None,
            kept: false,
            group,
        }
    }

    /// Adds a fragment, if its loops can be those of the group; otherwise the transaction has failed.
    pub fn add(&mut self, fragment: &Rc<Fragment>) -> bool {
        self.try_add(fragment).is_some()
    }

    fn try_add(&mut self, fragment: &Rc<Fragment>) -> Option<()> {
        let Transaction { group, needed, unsplit, .. } = self;
        // a key is read from memory, where it must be before the walk begins
        if fragment.graph.nodes.iter().any(|n| n.op.key().is_some_and(|key| group.members.contains_key(&key))) {
            return None;
        }
        let map = Unify::run(group, fragment, &mut |group, d, fast| {
            if unsplit.is_none() {
                let mut copy = Box::new(group.clone());
                needed.drain(..).for_each(|n| copy.live[n as usize] = false);
                *unsplit = Some(copy);
            }
            group.split(d, fast)
        })?;
        let affine: Vec<Affine> = map.iter().map(|digits| group.mixed_radix(digits)).collect();
        let before = group.graph.nodes.len();
        let members = &group.members;
        let nodes = fragment
            .graph
            .translate(&mut group.graph, &affine, &map, &mut |_, load| members.get(&load.value).map(|m| m.node))?;
        let axis = |a: &Axis| -> Axis { a.iter().flat_map(|d| map[*d as usize].iter().copied()).collect() };
        let made = fragment.outs.iter().map(|out| {
            let node = nodes[out.node as usize];
            let place = match &out.place {
                Place::Axes(axes) => Place::Axes(axes.iter().map(axis).collect()),
                Place::Scatter { idx, mask, how, strict, base, order } => Place::Scatter {
                    idx: idx.iter().map(|i| i.translate(&affine, &nodes)).collect::<Option<_>>()?,
                    mask: mask.map(|m| nodes[m as usize]),
                    how: *how,
                    strict: *strict,
                    base: *base,
                    order: order.iter().flat_map(|d| map[*d as usize].iter().copied()).collect(),
                },
            };
            Some(Out { value: out.value, node, place })
        });
        let made = made.collect::<Option<SmallVec<[Out; 2]>>>()?;
        group.note_readers(before);
        group.live.resize(group.graph.nodes.len(), false);
        for out in made {
            let axes: Option<Rc<[Axis]>> = match &out.place {
                Place::Axes(axes) => Some(axes.as_slice().into()),
                Place::Scatter { .. } => None,
            };
            if let Some(axes) = &axes {
                let elements =
                    axes.iter().flatten().map(|d| group.graph.sizes[*d as usize]).fold(1, usize::saturating_mul);
                if group.widest.is_none_or(|(most, _)| elements > most) {
                    group.widest = Some((elements, out.value));
                }
            }
            group.members.insert(out.value, Member { node: out.node, axes });
            if !fragment.view {
                liveness::mark(&group.graph, &out, &mut group.live, needed);
                group.outs.push(out);
            }
        }
        group.parts.push(fragment.clone());
        Some(())
    }

    /// Whether the group with its additions can run as one program.
    pub fn fits(&self) -> bool {
        legality::fits(&self.group.graph, &self.group.outs, &self.group.live)
    }

    /// Keeps the additions.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        match self.unsplit.take() {
            Some(unsplit) => *self.group = *unsplit,
            None => self.needed.iter().for_each(|n| self.group.live[*n as usize] = false),
        }
        let group = &mut *self.group;
        for part in group.parts.drain(self.parts..) {
            part.outs.iter().for_each(|out| _ = group.members.remove(&out.value));
        }
        group.outs.truncate(self.outs);
        group.live.truncate(self.nodes);
        group.forget_readers(self.nodes);
        group.graph.truncate(self.dims, self.nodes);
        group.widest = self.widest;
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::graph::{Graph, Index, Load, Op};
    use super::*;
    use fulgurite_core::DType;

    /// The fragment `to = from` of one axis: loops of `sizes` run through it, and through the axes of `to`.
    fn copy(from: ValueId, to: ValueId, sizes: &[usize]) -> Rc<Fragment> {
        let mut graph = Graph::default();
        let dims: Axis = sizes.iter().map(|n| graph.dim(*n)).collect();
        let flat = Group { graph: graph.clone(), ..Group::default() }.mixed_radix(&dims);
        let load =
            Load { value: from, idx: [Index::Affine(flat)].into_iter().collect(), outside: None, no_minus_zero: false };
        let node = graph.add(Op::Load(load), DType::F32);
        let axes = dims.iter().map(|d| Axis::from_slice(&[*d])).collect();
        Rc::new(Fragment { graph, outs: vec![Out { value: to, node, place: Place::Axes(axes) }], view: false })
    }

    /// The whole state of a group, with maps sorted by key.
    fn state(g: &Group) -> String {
        let mut members: Vec<_> = g.members.iter().map(|(v, m)| (*v, m.node, m.axes.clone())).collect();
        let mut readers: Vec<_> = g.readers.iter().collect();
        members.sort_by_key(|m| m.0);
        readers.sort();
        let known = (0..g.graph.nodes.len()).map(|n| {
            let node = &g.graph.nodes[n];
            g.graph.clone().add(node.op.clone(), node.ty) as usize == n
        });
        assert!(known.into_iter().all(|found| found), "a node is not found again");
        let (graph, parts) = (&g.graph, g.parts.len());
        format!(
            "{:?} {:?} {:?} {members:?} {readers:?} {:?} {:?} {parts}",
            graph.sizes, graph.nodes, g.outs, g.live, g.widest
        )
    }

    #[test]
    fn what_is_not_kept_leaves_no_trace() {
        let mut group = Group::of(copy(0, 1, &[6]));
        let before = state(&group);
        // additional loops, equal loops, the group's loop split in two, and all of these together
        let tries = [vec![copy(9, 2, &[5])], vec![copy(1, 2, &[6])], vec![copy(1, 2, &[2, 3])]];
        for parts in tries.iter().chain([&tries.concat()]) {
            let mut transaction = Transaction::of(&mut group);
            parts.iter().for_each(|p| _ = transaction.add(p));
            assert_ne!(state(transaction.group), before);
            drop(transaction);
            assert_eq!(state(&group), before);
        }
        let mut transaction = Transaction::of(&mut group);
        assert!(transaction.add(&copy(1, 2, &[2, 3])) && transaction.fits());
        transaction.keep();
        assert_eq!((group.outs.len(), group.parts.len(), group.reads()), (2, 2, vec![0]));
    }
}
