//! Parts added to a group on trial: all of it is taken back unless it is kept.
//!
//! Most tries fail, and groups are large: so a part is added in place, and what a group was is known by how much of it
//! there was. Only splitting a dim changes what was there before; a copy is made then.

use super::super::graph::piece::{Fragment, Out, Place};
use super::super::graph::{Affine, Axis, NodeId, ValueId};
use super::group::{Group, Member};
use super::unify::Unify;
use super::{fits, needs};
use smallvec::SmallVec;
use std::rc::Rc;

impl Group {
    /// A group of one fragment.
    pub fn of(fragment: Rc<Fragment>) -> Group {
        let mut group = Group::default();
        let mut trial = Trial::of(&mut group);
        // A fragment alone always fits: its reductions end it.
        let added = trial.add(&fragment);
        debug_assert!(added);
        trial.keep();
        group
    }
}

/// A group with parts that may be taken back.
pub struct Trial<'g> {
    pub(super) group: &'g mut Group,
    /// What there was before.
    dims: usize,
    nodes: usize,
    outs: usize,
    parts: usize,
    widest: Option<(usize, ValueId)>,
    /// Nodes that were not needed before.
    needed: Vec<NodeId>,
    /// The group before its first split.
    unsplit: Option<Box<Group>>,
    kept: bool,
}

impl<'g> Trial<'g> {
    /// A trial to which nothing was added.
    pub fn of(group: &'g mut Group) -> Trial<'g> {
        Trial {
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

    /// Adds a fragment, if its loops can be those of the group; otherwise the trial has failed.
    pub fn add(&mut self, fragment: &Rc<Fragment>) -> bool {
        self.try_add(fragment).is_some()
    }

    fn try_add(&mut self, fragment: &Rc<Fragment>) -> Option<()> {
        let Trial { group, needed, unsplit, .. } = self;
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
                Place::Scatter { idx, mask, replace, base, order } => Place::Scatter {
                    idx: idx.iter().map(|i| i.translate(&affine, &nodes)).collect::<Option<_>>()?,
                    mask: mask.map(|m| nodes[m as usize]),
                    replace: *replace,
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
                let elements = axes.iter().flatten().map(|d| group.graph.sizes[*d as usize]).product();
                if group.widest.is_none_or(|(most, _)| elements > most) {
                    group.widest = Some((elements, out.value));
                }
            }
            group.members.insert(out.value, Member { node: out.node, axes });
            if !fragment.view {
                needs::mark(&group.graph, &out, &mut group.live, needed);
                group.outs.push(out);
            }
        }
        group.parts.push(fragment.clone());
        Some(())
    }

    /// Whether what there is now can run as one program.
    pub fn fits(&self) -> bool {
        fits::fits(&self.group.graph, &self.group.outs, &self.group.live)
    }

    /// What was added stays.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Trial<'_> {
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
