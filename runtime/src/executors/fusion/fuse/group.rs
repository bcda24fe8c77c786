//! A fusion under construction: one graph, to which fragments are added with their loops unified.

use super::super::graph::piece::{Fragment, Out, Place};
use super::super::graph::{Affine, Axis, Dim, DimSet, Graph, Index, MAX_DIMS, NodeId, Op, ValueId};
use super::liveness;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::rc::Rc;

/// A value that a group defines, in the group's dims.
#[derive(Clone, Debug)]
pub struct Member {
    /// The node of its elements.
    pub node: NodeId,
    /// The dims of each axis; `None` if its elements are scattered, so that the group can't read it.
    pub axes: Option<Rc<[Axis]>>,
}

/// Lines that run as one program.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The operations of the lines.
    pub graph: Graph,
    /// The results of the lines.
    pub outs: Vec<Out>,
    /// The results by value, and values that are only other names of their elements.
    pub(super) members: FxHashMap<ValueId, Member>,
    /// The fragments of which the group was made, to build it again inside another group.
    pub(super) parts: Vec<Rc<Fragment>>,
    /// The nodes that read each value from memory, in order.
    pub(super) readers: FxHashMap<ValueId, SmallVec<[NodeId; 2]>>,
    /// For each node, whether some result needs it.
    pub(super) live: Vec<bool>,
    /// The first of the members with the most elements, and the number of elements.
    pub(super) widest: Option<(usize, ValueId)>,
}

impl Group {
    /// Every value that the group reads from memory.
    pub fn reads(&self) -> Vec<ValueId> {
        self.foreign(self.readers.keys().copied().collect())
    }

    /// Whether `f` holds for some value that the group reads from memory.
    pub fn reads_any(&self, f: impl Fn(ValueId) -> bool) -> bool {
        let loaded = self.readers.keys().copied().filter(|v| !self.members.contains_key(v));
        loaded.chain(self.outs.iter().filter_map(base)).any(f)
    }

    /// The values that the group's results need from memory.
    pub fn live_reads(&self) -> Vec<ValueId> {
        let live = live(self);
        let nodes = self.graph.nodes.iter().zip(live).filter(|(_, live)| *live);
        self.foreign(nodes.filter_map(|(n, _)| n.op.reads()).collect())
    }

    /// The loaded values among `values` that the group does not define itself, and the bases of its
    /// scatters, in order. A base is copied before the first walk: even a base that the group
    /// defines is read from memory, before it is written. So the group that defines a base is not
    /// the group that scatters onto it. A key is read from memory as well.
    fn foreign(&self, mut values: Vec<ValueId>) -> Vec<ValueId> {
        let is_key = |v: ValueId| self.graph.nodes.iter().any(|n| n.op.key() == Some(v));
        values.retain(|v| !self.members.contains_key(v) || is_key(*v));
        values.extend(self.outs.iter().filter_map(base));
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Drops the results that are not `needed`, except for those that a node which may stop the program depends on.
    pub fn keep(&mut self, needed: &dyn Fn(&Out) -> bool) {
        let (mut kept, rest): (Vec<Out>, Vec<Out>) = std::mem::take(&mut self.outs).into_iter().partition(needed);
        let mut live = liveness::live(&self.graph, &kept);
        for out in rest {
            let strict = matches!(out.place, Place::Scatter { strict: true, .. });
            let stops = liveness::placed(&out).iter().any(|n| self.graph.node(*n).stops);
            let mut new = Vec::new();
            if strict || stops {
                liveness::mark(&self.graph, &out, &mut live, &mut new);
            }
            let itself = |n: &NodeId| self.graph.may_stop(&self.graph.node(*n).op, self.graph.node(*n).ty);
            if strict || new.iter().any(itself) {
                kept.push(out);
            }
        }
        self.outs = kept;
    }

    /// Notes the nodes from `from` on as readers.
    pub(super) fn note_readers(&mut self, from: usize) {
        for (at, node) in self.graph.nodes.iter().enumerate().skip(from) {
            if let Some(value) = node.op.reads() {
                self.readers.entry(value).or_default().push(at as NodeId);
            }
        }
    }

    /// Removes the nodes from `from` on from the readers.
    pub(super) fn forget_readers(&mut self, from: usize) {
        for node in &self.graph.nodes[from..] {
            let Some(value) = node.op.reads() else { continue };
            let Some(nodes) = self.readers.get_mut(&value) else { continue };
            nodes.retain(|n| (*n as usize) < from);
            if nodes.is_empty() {
                self.readers.remove(&value);
            }
        }
    }

    /// The index that runs through these dims, slowest first.
    pub(super) fn mixed_radix(&self, digits: &Axis) -> Affine {
        let mut stride = 1i64;
        let mut sum = Affine::constant(0);
        for &d in digits.iter().rev() {
            // Products of extents are at most the number of elements of a tensor.
            sum = sum.plus(&Affine::dim(d), stride).unwrap_or_default();
            stride = stride.saturating_mul(self.graph.sizes[d as usize] as i64);
        }
        sum
    }

    /// Splits dim `d` into a slow one and a fast one of extent `fast`.
    pub(super) fn split(&mut self, d: Dim, fast: usize) -> Option<(Dim, Dim)> {
        if self.graph.sizes.len() + 2 > MAX_DIMS {
            return None;
        }
        let old = std::mem::take(&mut self.graph);
        let mut graph = Graph::with_dims(old.sizes.clone());
        let hi = graph.dim(old.sizes[d as usize] / fast);
        let lo = graph.dim(fast);
        // The old dim has no users any more.
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
        self.live = liveness::live(&self.graph, &self.outs);
        self.readers.clear();
        self.note_readers(0);
        Some((hi, lo))
    }
}

/// For each node of a group, whether some result needs it.
pub fn live(group: &Group) -> Vec<bool> {
    liveness::live(&group.graph, &group.outs)
}

/// The value that is in memory before elements are scattered onto it.
fn base(out: &Out) -> Option<ValueId> {
    match out.place {
        Place::Scatter { base, .. } => base,
        Place::Axes(_) => None,
    }
}

impl Op {
    /// The value that the node reads from memory, if it reads one.
    fn reads(&self) -> Option<ValueId> {
        match self {
            Op::Load(l) => Some(l.value),
            _ => self.key(),
        }
    }

    /// The key from which the node draws.
    pub(super) fn key(&self) -> Option<ValueId> {
        if let Op::Uniform { key, .. } = self { Some(*key) } else { None }
    }
}

impl Fragment {
    /// Every value that the fragment reads from memory.
    pub fn reads(&self) -> Vec<ValueId> {
        let nodes = self.graph.nodes.iter().filter_map(|n| n.op.reads());
        let mut out: Vec<ValueId> = nodes.chain(self.outs.iter().filter_map(base)).collect();
        out.retain(|v| self.outs.iter().all(|o| o.value != *v));
        out.sort_unstable();
        out.dedup();
        out
    }

    /// The dims that the nodes and results have.
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
