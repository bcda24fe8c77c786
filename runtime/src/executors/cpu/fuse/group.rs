//! A fusion under construction: one graph that fragments are added to, loop by loop unified.

use super::super::graph::piece::{Fragment, Out, Place};
use super::super::graph::{Affine, Axis, Dim, DimSet, Graph, Index, Load, MAX_DIMS, NodeId, Op, ValueId};
use super::{fits, needs};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::rc::Rc;

/// A value that a group defines, in the group's dims.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its elements.
    pub node: NodeId,
    /// The dims of each axis; `None`: elements are placed (scattered), so it can't be read inside.
    pub axes: Option<Rc<[Axis]>>,
}

/// Lines that run as one program.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Their operations.
    pub graph: Graph,
    /// What they define.
    pub outs: Vec<Out>,
    /// The same by value.
    pub members: FxHashMap<ValueId, Member>,
    /// The parts, to build it again inside another group.
    pub parts: Vec<Rc<Fragment>>,
}

impl Group {
    /// A group of one fragment.
    pub fn of(fragment: Rc<Fragment>) -> Group {
        let mut group = Group::default();
        // A fragment alone always fits: its reductions end it.
        let added = group.add(&fragment);
        debug_assert!(added);
        group
    }

    /// The group with a fragment added, if its loops can be those of the group.
    pub fn with(&self, fragment: &Rc<Fragment>) -> Option<Group> {
        let mut trial = self.clone();
        (trial.add(fragment) && fits::fits(&trial.graph, &trial.outs)).then_some(trial)
    }

    /// The group with all parts of another one added.
    pub fn joined(&self, other: &Group) -> Option<Group> {
        let mut trial = self.clone();
        (other.parts.iter().all(|p| trial.add(p)) && fits::fits(&trial.graph, &trial.outs)).then_some(trial)
    }

    /// Every value that it reads from memory.
    pub fn reads(&self) -> Vec<ValueId> {
        self.reads_of(&vec![true; self.graph.nodes.len()])
    }

    /// What its results need from memory.
    pub fn live_reads(&self) -> Vec<ValueId> {
        self.reads_of(&live(self))
    }

    fn reads_of(&self, of: &[bool]) -> Vec<ValueId> {
        let mut out = Vec::new();
        for (node, _) in self.graph.nodes.iter().zip(of).filter(|(_, live)| **live) {
            match &node.op {
                Op::Load(l) => out.push(l.value),
                Op::Uniform { key, .. } => out.push(*key),
                _ => {}
            }
        }
        for o in &self.outs {
            if let Place::Scatter { base: Some(b), .. } = &o.place {
                out.push(*b);
            }
        }
        out.retain(|v| !self.members.contains_key(v));
        out.sort_unstable();
        out.dedup();
        out
    }

    fn add(&mut self, fragment: &Rc<Fragment>) -> bool {
        let Some(map) = Unify::run(self, fragment) else { return false };
        let affine: Vec<Affine> = map.iter().map(|digits| self.mixed_radix(digits)).collect();
        let members = std::mem::take(&mut self.members);
        let nodes = fragment
            .graph
            .translate(&mut self.graph, &affine, &map, &mut |_, load| members.get(&load.value).map(|m| m.node));
        self.members = members;
        let Some(nodes) = nodes else { return false };
        let axis = |a: &Axis| -> Axis { a.iter().flat_map(|d| map[*d as usize].iter().copied()).collect() };
        for out in &fragment.outs {
            let node = nodes[out.node as usize];
            let (place, axes) = match &out.place {
                Place::Axes(axes) => {
                    let axes: Vec<Axis> = axes.iter().map(axis).collect();
                    (Place::Axes(axes.clone()), Some(axes.into()))
                }
                Place::Scatter { idx, mask, replace, base, order } => {
                    let idx: Option<_> = idx.iter().map(|i| i.translate(&affine, &nodes)).collect();
                    let Some(idx) = idx else { return false };
                    let order = axis(&order.iter().copied().collect()).into_iter().collect();
                    let mask = mask.map(|m| nodes[m as usize]);
                    (Place::Scatter { idx, mask, replace: *replace, base: *base, order }, None)
                }
            };
            self.members.insert(out.value, Member { node, axes });
            if !fragment.view {
                self.outs.push(Out { value: out.value, node, place });
            }
        }
        self.parts.push(fragment.clone());
        true
    }

    /// The index that runs through these dims, slowest first.
    fn mixed_radix(&self, digits: &Axis) -> Affine {
        let mut stride = 1i64;
        let mut sum = Affine::constant(0);
        for &d in digits.iter().rev() {
            // Products of extents are bounded by the number of elements of a tensor.
            sum = sum.plus(&Affine::dim(d), stride).unwrap_or_default();
            stride = stride.saturating_mul(self.graph.sizes[d as usize] as i64);
        }
        sum
    }

    /// Splits dim `d` into a slow one and a fast one of extent `fast`.
    fn split(&mut self, d: Dim, fast: usize) -> Option<(Dim, Dim)> {
        if self.graph.sizes.len() + 2 > MAX_DIMS {
            return None;
        }
        let old = std::mem::take(&mut self.graph);
        let mut graph = Graph::with_dims(old.sizes.clone());
        let hi = graph.dim(old.sizes[d as usize] / fast);
        let lo = graph.dim(fast);
        // The old dim is left without users.
        graph.sizes[d as usize] = 1;
        let digits = |x: Dim| -> Axis { if x == d { Axis::from_slice(&[hi, lo]) } else { Axis::from_slice(&[x]) } };
        let order: Vec<Axis> = (0..old.sizes.len() as Dim).map(digits).collect();
        let two = Affine::dim(lo).plus(&Affine::dim(hi), fast as i64)?;
        let map: Vec<Affine> =
            (0..old.sizes.len() as Dim).map(|x| if x == d { two.clone() } else { Affine::dim(x) }).collect();
        let nodes = old.translate(&mut graph, &map, &order, &mut |_, _| None)?;
        let axis = |a: &Axis| -> Axis { a.iter().flat_map(|x| order[*x as usize].iter().copied()).collect() };
        for out in &mut self.outs {
            out.node = nodes[out.node as usize];
            match &mut out.place {
                Place::Axes(axes) => axes.iter_mut().for_each(|a| *a = axis(a)),
                Place::Scatter { idx, mask, order, .. } => {
                    for i in idx.iter_mut() {
                        *i = i.translate(&map, &nodes)?;
                    }
                    *mask = mask.map(|m| nodes[m as usize]);
                    *order = axis(&order.iter().copied().collect()).into_iter().collect();
                }
            }
        }
        for m in self.members.values_mut() {
            m.node = nodes[m.node as usize];
            if let Some(axes) = &mut m.axes {
                *axes = axes.iter().map(axis).collect();
            }
        }
        self.graph = graph;
        Some((hi, lo))
    }
}

/// The nodes of a group that some result needs.
pub fn live(group: &Group) -> Vec<bool> {
    needs::live(&group.graph, &group.outs)
}

/// The search for a map from a fragment's dims to those of a group.
struct Unify<'a> {
    group: &'a mut Group,
    fragment: &'a Fragment,
    /// For each dim of the fragment, the group's dims that make it up.
    map: Vec<Option<Axis>>,
    /// Group dims that stand for a dim of the fragment.
    taken: DimSet,
}

impl Unify<'_> {
    fn run(group: &mut Group, fragment: &Fragment) -> Option<Vec<Axis>> {
        let map = vec![None; fragment.graph.sizes.len()];
        let mut u = Unify { group, fragment, map, taken: DimSet::EMPTY };
        u.members()?;
        u.shared_loads();
        u.positions();
        u.fresh()
    }

    /// Loads of what the group defines must be at the group's own position.
    fn members(&mut self) -> Option<()> {
        for node in &self.fragment.graph.nodes {
            let Op::Load(load) = &node.op else { continue };
            let Some(member) = self.group.members.get(&load.value) else { continue };
            let axes = member.axes.clone()?;
            if load.outside.is_some() {
                return None;
            }
            for (at, (index, axis)) in load.idx.iter().zip(axes.iter()).enumerate() {
                let Index::Affine(a) = index else { return None };
                let size: usize = axis.iter().map(|d| self.group.graph.sizes[*d as usize]).product();
                let local = a.digits(size, &self.fragment.graph.sizes)?;
                // Splitting a dim for an earlier axis changes the later ones.
                let axis = self.group.members.get(&load.value)?.axes.as_ref()?[at].clone();
                self.unify(&local, &axis)?;
            }
        }
        // All loads again, now that every split is made: they must agree with the map.
        for node in &self.fragment.graph.nodes {
            let Op::Load(load) = &node.op else { continue };
            let Some(member) = self.group.members.get(&load.value) else { continue };
            for (index, axis) in load.idx.iter().zip(member.axes.as_ref()?.iter()) {
                let Index::Affine(a) = index else { return None };
                let size: usize = axis.iter().map(|d| self.group.graph.sizes[*d as usize]).product();
                let local = a.digits(size, &self.fragment.graph.sizes)?;
                let found: Option<Vec<Dim>> = local
                    .iter()
                    .map(|d| self.map[*d as usize].clone())
                    .collect::<Option<Vec<_>>>()
                    .map(|v| v.into_iter().flatten().collect());
                if found.as_deref() != Some(axis) {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Makes the mixed-radix numbers `local` (fragment) and `axis` (group) the same loops.
    fn unify(&mut self, local: &[Dim], axis: &[Dim]) -> Option<()> {
        let mut theirs: Vec<Dim> = axis.to_vec();
        for &l in local.iter().rev() {
            let mut rest = self.fragment.graph.sizes[l as usize];
            if let Some(known) = self.map[l as usize].clone() {
                for &k in known.iter().rev() {
                    if theirs.pop()? != k {
                        return None;
                    }
                }
                continue;
            }
            let mut digits: SmallVec<[Dim; 2]> = SmallVec::new();
            while rest > 1 {
                let g = theirs.pop()?;
                if self.taken.has(g) {
                    return None;
                }
                let n = self.group.graph.sizes[g as usize];
                if rest.is_multiple_of(n) {
                    digits.insert(0, g);
                    rest /= n;
                } else if n.is_multiple_of(rest) {
                    let (hi, lo) = self.group.split(g, rest)?;
                    digits.insert(0, lo);
                    theirs.push(hi);
                    rest = 1;
                } else {
                    return None;
                }
            }
            self.taken = self.taken.union(digits.iter().copied().collect());
            self.map[l as usize] = Some(digits);
        }
        theirs.is_empty().then_some(())
    }

    /// Loops over the same axis of the same value are the same loop, where nothing speaks against it.
    fn shared_loads(&mut self) {
        let ours: Vec<Load> = loads(&self.fragment.graph);
        let theirs: Vec<Load> = loads(&self.group.graph);
        for l in &ours {
            for t in theirs.iter().filter(|t| t.value == l.value) {
                for (a, b) in l.idx.iter().zip(&t.idx) {
                    if let (Some(x), Some(y)) = (single(a), single(b)) {
                        self.offer(x, y);
                    }
                }
            }
        }
    }

    /// Loops that stand at the same place of the results, from the right.
    fn positions(&mut self) {
        let theirs: Vec<Rc<[Axis]>> = self.group.members.values().filter_map(|m| m.axes.clone()).collect();
        let Some(widest) = theirs
            .iter()
            .max_by_key(|a| a.iter().flatten().map(|d| self.group.graph.sizes[*d as usize]).product::<usize>())
        else {
            return;
        };
        let ours: Vec<Vec<Axis>> = (self.fragment.outs.iter())
            .filter_map(|o| match &o.place {
                Place::Axes(axes) => Some(axes.clone()),
                Place::Scatter { .. } => None,
            })
            .collect();
        for axes in &ours {
            for (a, b) in axes.iter().rev().zip(widest.iter().rev()) {
                for (x, y) in a.iter().rev().zip(b.iter().rev()) {
                    self.offer(*x, *y);
                }
            }
        }
    }

    fn offer(&mut self, local: Dim, group: Dim) {
        let same = self.fragment.graph.sizes[local as usize] == self.group.graph.sizes[group as usize];
        if same && self.map[local as usize].is_none() && !self.taken.has(group) {
            self.map[local as usize] = Some(Axis::from_slice(&[group]));
            self.taken = self.taken.union(DimSet::one(group));
        }
    }

    /// New dims for what is left.
    fn fresh(mut self) -> Option<Vec<Axis>> {
        let used = self.fragment.used_dims();
        for d in used.iter() {
            if self.map[d as usize].is_none() {
                if self.group.graph.sizes.len() >= MAX_DIMS {
                    return None;
                }
                let new = self.group.graph.dim(self.fragment.graph.sizes[d as usize]);
                self.map[d as usize] = Some(Axis::from_slice(&[new]));
            }
        }
        Some(self.map.into_iter().map(Option::unwrap_or_default).collect())
    }
}

impl Fragment {
    /// The dims that its nodes and results have.
    pub fn used_dims(&self) -> DimSet {
        let mut dims = DimSet::EMPTY;
        for node in &self.graph.nodes {
            dims = dims.union(node.dims);
            if let Op::Reduce { order, .. } = &node.op {
                dims = dims.union(order.iter().copied().collect());
            }
        }
        for out in &self.outs {
            match &out.place {
                Place::Axes(axes) => dims = dims.union(axes.iter().flatten().copied().collect()),
                Place::Scatter { idx, order, .. } => {
                    dims = dims.union(order.iter().copied().collect());
                    for i in idx {
                        if let Index::Affine(a) = i {
                            dims = dims.union(a.dims());
                        }
                    }
                }
            }
        }
        dims
    }
}

fn loads(graph: &Graph) -> Vec<Load> {
    graph.nodes.iter().filter_map(|n| if let Op::Load(l) = &n.op { Some(l.clone()) } else { None }).collect()
}

/// The dim that an index is.
fn single(index: &Index) -> Option<Dim> {
    match index {
        Index::Affine(a) if a.base == 0 => match a.terms.as_slice() {
            [(d, 1)] => Some(*d),
            _ => None,
        },
        _ => None,
    }
}
