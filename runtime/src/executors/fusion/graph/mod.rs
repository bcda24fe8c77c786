//! Graphs: scalar operations over named dims, the form in which executors fuse and schedule.
//!
//! A node is a value that varies over a set of dims (loops). A pointwise operation varies over the dims of its
//! arguments, a reduction over fewer, a load over those of its indices. There are no axes and no layouts: broadcasting,
//! permuting and reshaping only change which dims an access uses. Equal nodes are one node.
//!
//! [`convert`] makes graphs from nests, [`super::fuse`] joins them, executors run them.

pub mod affine;
mod contract;
pub mod convert;
mod factor;
mod filter;
pub mod piece;
mod reduce;
pub mod row;
mod simplify;
pub mod slide;
pub(super) mod unroll;
mod vars;
mod windows;

pub use affine::{Affine, Dim, DimSet, MAX_DIMS};

use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::refusals::INTEGER_DIVISIONS;
use fulgurite_core::{DType, Name, Scalar};
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::rc::Rc;

/// The number of a node in a graph.
pub type NodeId = u32;

/// The number of a value (a tensor) of a program.
pub type ValueId = u32;

/// The dims that form one axis of a value, slowest first: none for size 1, several for merged axes.
pub type Axis = SmallVec<[Dim; 2]>;

/// The operation of a node. Register types are those of computations: bool, the integers, f32, f64.
// Loads are the most frequent nodes and the largest; boxing them would cost an allocation for most nodes.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A constant of the node's type.
    Const(Bits),
    /// The value of an index expression, as i64.
    Index(Affine),
    /// Whether an index expression is zero (`equal`) or at least zero.
    Test {
        /// The expression that is compared with zero.
        affine: Affine,
        /// Whether the comparison is `== 0`; otherwise it is `>= 0`.
        equal: bool,
    },
    /// An element of a value; f16 and bf16 are widened to f32.
    Load(Load),
    Call(Builtin, SmallVec<[NodeId; 3]>),
    /// A call of a row's own kernel.
    Row(RowCall),
    /// A conversion to the node's type.
    Cast(NodeId),
    /// An f32 rounded to f16 or bf16.
    Round(NodeId, DType),
    /// A selection `if .0 { .1 } else { .2 }`.
    Select(NodeId, NodeId, NodeId),
    /// A reduction of a node over dims. Positions of extrema count the dims of `order`, slowest first.
    Reduce {
        /// The reduction: sum, prod, mean, max, min, any, all, argmax or argmin.
        red: Red,
        /// The node that is reduced.
        arg: NodeId,
        /// The mask of elements that take part, for positions of extrema; other reductions use neutral elements.
        mask: Option<NodeId>,
        /// The reduced dims, in row-major order.
        order: SmallVec<[Dim; 4]>,
    },
    /// A random number.
    Uniform {
        key: ValueId,
        /// The position of the number.
        position: NodeId,
        /// The number of the draw.
        draw: u32,
    },
}

/// A number as bits, so that nodes can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bits(pub u8, pub u64);

impl From<Scalar> for Bits {
    fn from(s: Scalar) -> Bits {
        let (kind, bits) = s.key_bits();
        Bits(kind, bits)
    }
}

impl Bits {
    /// The number.
    pub fn scalar(self) -> Scalar {
        match self.0 {
            0 => Scalar::Bool(self.1 != 0),
            1 => Scalar::Int(self.1 as i64),
            _ => Scalar::Float(f64::from_bits(self.1)),
        }
    }
}

/// An access to a value: one index per axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Load {
    pub value: ValueId,
    /// The indices.
    pub idx: SmallVec<[Index; 4]>,
    /// The element that stands for positions out of range. With `None`, affine indices are in range and others are
    /// tested.
    pub outside: Option<Bits>,
    /// Whether no element is -0, as in sums that start from +0.
    pub no_minus_zero: bool,
}

/// An index along one axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Index {
    /// An affine expression of the dims.
    Affine(Affine),
    /// An i64 node.
    Node(NodeId),
}

/// A call of a row's own kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RowCall {
    /// The name of the row.
    pub symbol: Name,
    /// The variant of the kernel.
    pub variant: Name,
    /// The dtype in which the kernel computes.
    pub dtype: DType,
    /// The arguments.
    pub args: SmallVec<[NodeId; 3]>,
    /// The run-time numbers as words, which are known now.
    pub nums: SmallVec<[u64; 2]>,
    /// The number of the result.
    pub out: u8,
    /// The number of results of the kernel.
    pub outs: u8,
}

/// An operation, its register type, the dims over which it varies, and whether it may stop the program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// The register type.
    pub ty: DType,
    /// The dims over which the node varies.
    pub dims: DimSet,
    /// Whether the node, or one that it depends on, may stop the program by an index out of range or by dividing an
    /// integer by zero.
    pub stops: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The extents of the dims, none of them 0.
    pub sizes: Vec<usize>,
    /// The nodes, arguments before their users. They are shared, because fusion tries many graphs that have most nodes
    /// in common.
    pub nodes: Vec<Rc<Node>>,
    /// The newest node of each hash.
    known: FxHashMap<u64, NodeId>,
}

impl Graph {
    /// A graph with dims of these extents and no nodes.
    pub fn with_dims(sizes: Vec<usize>) -> Graph {
        Graph { sizes, ..Graph::default() }
    }

    /// Adds a dim.
    pub fn dim(&mut self, size: usize) -> Dim {
        self.sizes.push(size);
        (self.sizes.len() - 1) as Dim
    }

    /// The node that computes `op`: an existing equal one, or a new one.
    pub fn add(&mut self, op: Op, ty: DType) -> NodeId {
        if let Some(same) = self.simplify(&op, ty) {
            return same;
        }
        if let Some(cheaper) = self.rewritten(&op) {
            return self.add(cheaper, ty);
        }
        let dims = self.dims_of(&op);
        let mut stops = self.may_stop(&op, ty);
        op.for_each_arg(&mut |a| stops |= self.node(a).stops);
        let node = Node { op, ty, dims, stops };
        let hash = FxBuildHasher.hash_one(&node);
        if let Some(&id) = self.known.get(&hash)
            && *self.nodes[id as usize] == node
        {
            return id;
        }
        let id = self.nodes.len() as NodeId;
        self.known.insert(hash, id);
        self.nodes.push(Rc::new(node));
        id
    }

    /// Restores the graph to its first `dims` dims and `nodes` nodes.
    pub fn truncate(&mut self, dims: usize, nodes: usize) {
        for (at, node) in self.nodes.iter().enumerate().skip(nodes) {
            let hash = FxBuildHasher.hash_one(&**node);
            if self.known.get(&hash) == Some(&(at as NodeId)) {
                self.known.remove(&hash);
            }
        }
        self.nodes.truncate(nodes);
        self.sizes.truncate(dims);
    }

    pub fn constant(&mut self, s: Scalar, ty: DType) -> NodeId {
        let s = fulgurite_core::builtins::cast_scalar(s, ty);
        self.add(Op::Const(s.into()), ty)
    }

    /// The node with this number.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// The value, if a node is a constant.
    pub fn as_const(&self, id: NodeId) -> Option<Scalar> {
        match self.node(id).op {
            Op::Const(b) => Some(b.scalar()),
            _ => None,
        }
    }

    fn dims_of(&self, op: &Op) -> DimSet {
        let mut dims = match op {
            Op::Index(a) | Op::Test { affine: a, .. } => a.dims(),
            Op::Load(l) => l.idx.iter().fold(DimSet::EMPTY, |s, i| match i {
                Index::Affine(a) => s.union(a.dims()),
                Index::Node(_) => s,
            }),
            _ => DimSet::EMPTY,
        };
        op.for_each_arg(&mut |a| dims = dims.union(self.node(a).dims));
        if let Op::Reduce { order, .. } = op {
            dims = dims.minus(order.iter().copied().collect());
        }
        dims
    }

    /// Whether the operation itself may stop the program.
    pub fn may_stop(&self, op: &Op, ty: DType) -> bool {
        match op {
            // the first element exists, because values without elements are not read
            Op::Load(l) => {
                let computed = |i: &Index| matches!(i, Index::Node(n) if self.as_const(*n) != Some(Scalar::Int(0)));
                l.outside.is_none() && l.idx.iter().any(computed)
            }
            Op::Call(builtin, args) if ty.is_int() && INTEGER_DIVISIONS.contains(builtin) => {
                args.get(1).is_none_or(|d| self.as_const(*d).is_none_or(|c| c.as_i64() == 0))
            }
            _ => false,
        }
    }

    /// Copies the nodes of `self` into a graph with other dims: `map` has the expression of each dim there, and `order`
    /// the dims that form it, slowest first. `inline` may return a node for a load, whose indices are translated
    /// already.
    ///
    /// Returns the new number of each node, or `None` if an index leaves i64.
    pub fn translate(
        &self,
        into: &mut Graph,
        map: &[Affine],
        order: &[Axis],
        inline: &mut dyn FnMut(&mut Graph, &Load) -> Option<NodeId>,
    ) -> Option<Vec<NodeId>> {
        let mut at: Vec<NodeId> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let affine = |a: &Affine| a.substitute(&mut |d| &map[d as usize]);
            let op = match &node.op {
                Op::Load(l) => {
                    let idx = l.idx.iter().map(|i| i.translate(map, &at)).collect::<Option<_>>()?;
                    let load = Load { idx, ..l.clone() };
                    if let Some(id) = inline(into, &load) {
                        at.push(id);
                        continue;
                    }
                    Op::Load(load)
                }
                Op::Index(a) => {
                    let a = affine(a)?;
                    match a.as_constant() {
                        Some(i) => Op::Const(Scalar::Int(i).into()),
                        None => Op::Index(a),
                    }
                }
                Op::Test { affine: a, equal } => {
                    let a = affine(a)?;
                    match decided(&a, *equal, &into.sizes) {
                        Some(holds) => Op::Const(Scalar::Bool(holds).into()),
                        None => Op::Test { affine: a, equal: *equal },
                    }
                }
                Op::Reduce { red, arg, mask, order: dims } => Op::Reduce {
                    red: *red,
                    arg: at[*arg as usize],
                    mask: mask.map(|m| at[m as usize]),
                    order: dims.iter().flat_map(|d| order[*d as usize].iter().copied()).collect(),
                },
                other => other.with_args(&mut |a| at[a as usize]),
            };
            at.push(into.add(op, node.ty));
        }
        Some(at)
    }
}

/// The value of the test `affine == 0` (`equal`) or `affine >= 0`, if the extents decide it.
pub fn decided(affine: &Affine, equal: bool, sizes: &[usize]) -> Option<bool> {
    match (affine.range(sizes), equal) {
        ((0, 0), true) => Some(true),
        ((lo, hi), true) => (lo > 0 || hi < 0).then_some(false),
        ((lo, hi), false) => (lo >= 0 || hi < 0).then_some(lo >= 0),
    }
}

impl Index {
    /// The index with other dims and other node numbers.
    pub fn translate(&self, map: &[Affine], nodes: &[NodeId]) -> Option<Index> {
        Some(match self {
            Index::Affine(a) => Index::Affine(a.substitute(&mut |d| &map[d as usize])?),
            Index::Node(n) => Index::Node(nodes[*n as usize]),
        })
    }
}

impl Op {
    /// Calls `f` on every argument, including indices.
    pub fn for_each_arg(&self, f: &mut impl FnMut(NodeId)) {
        match self {
            Op::Const(_) | Op::Index(_) | Op::Test { .. } => {}
            Op::Load(l) => l.idx.iter().for_each(|i| {
                if let Index::Node(n) = i {
                    f(*n)
                }
            }),
            Op::Call(_, args) => args.iter().for_each(|a| f(*a)),
            Op::Row(r) => r.args.iter().for_each(|a| f(*a)),
            Op::Cast(a) | Op::Round(a, _) => f(*a),
            Op::Select(c, a, b) => [c, a, b].into_iter().for_each(|a| f(*a)),
            Op::Reduce { arg, mask, .. } => {
                f(*arg);
                if let Some(m) = mask {
                    f(*m);
                }
            }
            Op::Uniform { position, .. } => f(*position),
        }
    }

    /// The operation with other arguments.
    pub fn with_args(&self, f: &mut impl FnMut(NodeId) -> NodeId) -> Op {
        let mut op = self.clone();
        match &mut op {
            Op::Const(_) | Op::Index(_) | Op::Test { .. } => {}
            Op::Load(l) => l.idx.iter_mut().for_each(|i| {
                if let Index::Node(n) = i {
                    *n = f(*n)
                }
            }),
            Op::Call(_, args) => args.iter_mut().for_each(|a| *a = f(*a)),
            Op::Row(r) => r.args.iter_mut().for_each(|a| *a = f(*a)),
            Op::Cast(a) | Op::Round(a, _) => *a = f(*a),
            Op::Select(c, a, b) => [c, a, b].into_iter().for_each(|a| *a = f(*a)),
            Op::Reduce { arg, mask, .. } => {
                *arg = f(*arg);
                if let Some(m) = mask {
                    *m = f(*m);
                }
            }
            Op::Uniform { position, .. } => *position = f(*position),
        }
        op
    }
}
