//! Pairs of builtins that run in one kernel, and products that a sum computes itself. The inner value is never in a
//! register.

use super::super::registry;
use super::emit::{At, Class, Emit, Loc};
use super::program::Step;
use crate::executors::fusion::fuse::placed;
use crate::executors::fusion::graph::{NodeId, Op};
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::kernel::TileFn;
use fulgurite_core::lang::ast::Red;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

impl Emit<'_> {
    /// Finds the pairs: an f32 builtin on every element that another builtin reads, or a product that a sum reads, once
    /// and on the walk of its reader.
    pub(super) fn pair_up(&mut self) {
        let graph = &self.group.graph;
        let mut readers: FxHashMap<NodeId, SmallVec<[NodeId; 2]>> = FxHashMap::default();
        for (at, node) in graph.nodes.iter().enumerate().filter(|(at, _)| self.live[*at]) {
            node.op.for_each_arg(&mut |arg| readers.entry(arg).or_default().push(at as NodeId));
        }
        let outs: Vec<NodeId> = self.group.outs.iter().flat_map(placed).collect();
        let vanishes = |e: &Emit, arg: &NodeId, at: NodeId| {
            e.walk[*arg as usize] == e.walk[at as usize]
                && readers.get(arg).is_some_and(|by| by.len() == 1)
                && !e.pairs.contains_key(arg)
                && !outs.contains(arg)
        };
        for at in 0..graph.nodes.len() as NodeId {
            if let Some(product) = self.summed_product(at).filter(|product| vanishes(self, product, at)) {
                self.pairs.insert(at, product);
                self.inner_of_pairs.insert(product);
            }
            let Some((second, args)) = self.may_pair(at) else { continue };
            let has_kernel = |first| registry::pair(first, second, false, [false; 2], self.isa).is_some();
            let inner = args
                .into_iter()
                .find(|arg| self.may_pair(*arg).is_some_and(|(first, _)| has_kernel(first)) && vanishes(self, arg, at));
            if let Some(inner) = inner {
                self.pairs.insert(at, inner);
                self.inner_of_pairs.insert(inner);
            }
        }
    }

    /// A builtin of tiles and one number, which may come first if the order does not matter.
    pub(super) fn by_one(&self, b: Builtin, args: &[NodeId]) -> Option<ByOne> {
        let [x, y] = *args else { return None };
        let commutes = matches!(b, Builtin::Add | Builtin::Mul);
        let (x, y) = if commutes && self.is_one(x) && !self.is_one(y) { (y, x) } else { (x, y) };
        let f = registry::builtin_by(b, self.group.graph.node(x).ty, self.isa).filter(|_| self.is_one(y))?;
        Some(ByOne { x, y, f })
    }

    /// The product that a sum adds up, if both factors are tiles; a factor that is one number has a kernel of its own.
    fn summed_product(&self, sum: NodeId) -> Option<NodeId> {
        let (graph, at) = (&self.group.graph, sum as usize);
        let Op::Reduce { red: Red::Sum | Red::Mean, arg, mask: None, .. } = &graph.node(sum).op else { return None };
        let (Builtin::Mul, factors) = self.may_pair(*arg)? else { return None };
        let tiles = factors.iter().all(|x| self.class[*x as usize] == Class::Full);
        (self.live[at] && tiles).then_some(*arg)
    }

    /// The factors of the product that a sum computes itself.
    pub(super) fn products(&self, sum: NodeId) -> Option<[NodeId; 2]> {
        self.may_pair(*self.pairs.get(&sum)?).map(|(_, factors)| factors)
    }

    /// A builtin that has kernels for pairs, and its arguments.
    fn may_pair(&self, id: NodeId) -> Option<(Builtin, [NodeId; 2])> {
        let node = self.group.graph.node(id);
        let Op::Call(b @ (Builtin::Add | Builtin::Sub | Builtin::Mul), args) = &node.op else { return None };
        let [x, y] = *args.as_slice() else { return None };
        let full = self.live[id as usize] && self.class[id as usize] == Class::Full && node.ty == DType::F32;
        full.then_some((*b, [x, y]))
    }

    /// The arguments of a node, with those of the builtin that runs in its kernel.
    pub(super) fn args(&self, id: NodeId) -> SmallVec<[NodeId; 4]> {
        let mut args: SmallVec<[NodeId; 4]> = SmallVec::new();
        let inner = self.pairs.get(&id);
        self.group.graph.node(id).op.for_each_arg(&mut |arg| match inner {
            Some(inner) if *inner == arg => self.group.graph.node(arg).op.for_each_arg(&mut |a| args.push(a)),
            _ => args.push(arg),
        });
        args
    }

    /// The pair of a node: its operands in the order of its kernel, whether each is one number, and the kernel.
    pub(super) fn pair(&self, id: NodeId) -> Option<Pair> {
        let inner = *self.pairs.get(&id)?;
        let ((second, outer), (first, [mut x, mut y])) = (self.may_pair(id)?, self.may_pair(inner)?);
        let turned = outer[1] == inner;
        let z = if turned { outer[0] } else { outer[1] };
        if first != Builtin::Sub && self.is_one(x) && !self.is_one(y) {
            (x, y) = (y, x);
        }
        let by = [self.is_one(y), self.is_one(z)];
        let f = registry::pair(first, second, turned, by, self.isa)?;
        Some(Pair { args: [x, y, z], by: [false, by[0], by[1]], f })
    }

    /// Emits the step of a pair whose operands are ready.
    pub(super) fn push_pair(&mut self, pair: &Pair, dst: Loc) {
        let operand = |(arg, one): (&NodeId, &bool)| if *one { self.one(*arg) } else { self.operand(*arg) };
        let locs: SmallVec<[Loc; 3]> = pair.args.iter().zip(&pair.by).map(operand).collect();
        let (ins, outs) = (self.slots(&locs), self.target(dst));
        self.push(At::Tiles, Step::Kernel { f: pair.f, ins, outs, nums: 0 });
        self.cost(At::Tiles, 0.06);
    }
}

/// Two builtins in one kernel.
pub(super) struct Pair {
    /// The operands x and y of the first builtin, and z of the second.
    pub args: [NodeId; 3],
    /// For each operand, whether it is one number for all elements.
    pub by: [bool; 3],
    /// The kernel.
    f: TileFn,
}

/// A builtin whose second operand is one number for all elements.
pub(super) struct ByOne {
    /// The tile.
    pub x: NodeId,
    /// The number.
    pub y: NodeId,
    /// The kernel.
    pub f: TileFn,
}
