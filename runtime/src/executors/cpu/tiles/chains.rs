//! Chains of builtins that run as one step of machine code, and products that a sum computes itself. The values between
//! them are never in memory.

use super::super::registry;
use super::emit::{At, Class, Emit, Loc};
use super::fused_chain::FusedChain;
use super::program::{CHUNK, Step};
use crate::executors::fusion::fuse::placed;
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{NodeId, Op};
use fulgurite_core::DType;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::kernel::TileFn;
use fulgurite_core::lang::ast::Red;
use fulgurite_kernels::chain::{self, ChainOperand, InputForm, NoCode, Operation, TileChain};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A result of at least this many bytes, of a program that moves at least [`TRAFFIC`] bytes, is
/// written past the caches. In the caches it would evict the data that the program reads, and it
/// would leave the last cache before it is read.
const LARGE: usize = 8 << 20;
const TRAFFIC: usize = 24 << 20;

/// The nodes that read each node.
type Readers = FxHashMap<NodeId, SmallVec<[NodeId; 2]>>;

impl Emit<'_> {
    /// Finds the products that a sum reads, and the chains of builtins on every element, whose values between the
    /// builtins nothing else reads.
    pub(super) fn find_chains(&mut self) {
        let graph = &self.group.graph;
        let mut readers = Readers::default();
        for (at, node) in graph.nodes.iter().enumerate().filter(|(at, _)| self.live[*at]) {
            node.op.for_each_arg(&mut |arg| readers.entry(arg).or_default().push(at as NodeId));
        }
        let outs: FxHashSet<NodeId> = self.group.outs.iter().flat_map(placed).collect();
        for at in 0..graph.nodes.len() as NodeId {
            let alone = |product: &NodeId| {
                self.walk[*product as usize] == self.walk[at as usize]
                    && readers.get(product).is_some_and(|by| by.len() == 1)
                    && !outs.contains(product)
            };
            if let Some(product) = self.summed_product(at).filter(alone) {
                self.products.insert(at, product);
                self.vanished.insert(product);
            }
        }
        for root in (0..graph.nodes.len() as NodeId).rev() {
            if self.vanished.contains(&root) || graph.node(root).ty != DType::F32 || self.operation(root).is_none() {
                continue;
            }
            let mut members = self.members(root, &readers, &outs);
            while members.len() > 1 || !members.is_empty() && (self.leaves_caches(root) || self.has_edge()) {
                match self.compile_chain(&members) {
                    Ok(chain) => {
                        self.vanished.extend(members.iter().filter(|at| **at != root));
                        self.chains.insert(root, Rc::new(chain));
                        break;
                    }
                    // The first member becomes an operand. None of its operands is a member, because they come before it.
                    Err(NoCode::TooLarge) => _ = members.pop_first(),
                    Err(NoCode::Impossible) => return,
                }
            }
        }
    }

    /// Whether some tiles are no whole chunks. Kernels work on whole chunks, so that the elements of such a tile are copied
    /// to a register and back; machine code takes any number of elements where they are.
    fn has_edge(&self) -> bool {
        let whole = |n: usize| n.is_multiple_of(CHUNK);
        !whole(self.n.tile.0 * self.n.tile.1) || !whole(self.n.sizes[self.n.last()])
    }

    /// The largest chain that ends in `root`: the nodes that only members read, in the order of the graph. An operand
    /// comes before its readers, so all of them were examined when it is its turn.
    fn members(&self, root: NodeId, readers: &Readers, outs: &FxHashSet<NodeId>) -> BTreeSet<NodeId> {
        let (mut members, mut open) = (BTreeSet::from([root]), BTreeSet::new());
        let mut latest = Some(root);
        while let Some(at) = latest {
            if members.contains(&at) {
                open.extend(self.operation(at).into_iter().flat_map(|(_, args)| args));
            }
            latest = open.pop_last();
            if let Some(arg) = latest
                && members.len() < chain::LONGEST
                && self.operation(arg).is_some()
                && self.walk[arg as usize] == self.walk[root as usize]
                && !self.vanished.contains(&arg)
                && !outs.contains(&arg)
                && readers.get(&arg).is_some_and(|by| by.iter().all(|reader| members.contains(reader)))
            {
                members.insert(arg);
            }
        }
        members
    }

    fn compile_chain(&self, members: &BTreeSet<NodeId>) -> Result<FusedChain, NoCode> {
        let (mut args, mut chain, mut flops) = (SmallVec::new(), TileChain::default(), 0);
        let mut places: FxHashMap<NodeId, ChainOperand> = FxHashMap::default();
        for &at in members {
            let (builtin, operands) = self.operation(at).ok_or(NoCode::TooLarge)?;
            for &operand in &operands {
                places.entry(operand).or_insert_with(|| {
                    args.push(operand);
                    chain.inputs.push(self.form(operand));
                    ChainOperand::Input(args.len() - 1)
                });
            }
            places.insert(at, ChainOperand::Result(chain.operations.len()));
            chain.operations.push(Operation { builtin, args: operands.iter().map(|x| places[x]).collect() });
            flops += builtin.record().flops;
        }
        let code = chain.compile(self.isa, false)?;
        Ok(FusedChain { args, chain, code, cost: 0.03 + 0.006 * flops as f64 })
    }

    /// The form of an operand in a chain.
    fn form(&self, id: NodeId) -> InputForm {
        match self.class[id as usize] {
            Class::Scalar => InputForm::One,
            Class::Row if self.has_one_row() => InputForm::One,
            _ if self.group.graph.node(id).ty == DType::Bool => InputForm::Mask,
            _ => InputForm::Tile,
        }
    }

    /// Whether all elements of a tile belong to one row.
    fn has_one_row(&self) -> bool {
        self.n.tile.0 == 1 || self.n.row_lines() > 1
    }

    /// A builtin that a chain may have, and its arguments: it is computed for every element, of f32 or of conditions,
    /// of which there is one for each element.
    fn operation(&self, id: NodeId) -> Option<(Builtin, SmallVec<[NodeId; 4]>)> {
        let graph = &self.group.graph;
        let node = graph.node(id);
        let (builtin, args): (_, SmallVec<[NodeId; 4]>) = match &node.op {
            Op::Call(builtin, args) if *builtin != Builtin::Select => (*builtin, args.iter().copied().collect()),
            Op::Select(c, x, y) => (Builtin::Select, [*c, *x, *y].into_iter().collect()),
            _ => return None,
        };
        let full = self.live[id as usize] && self.class[id as usize] == Class::Full;
        let fits = |(k, arg): (usize, &NodeId)| {
            let condition =
                matches!(builtin, Builtin::And | Builtin::Or | Builtin::Not) || builtin == Builtin::Select && k == 0;
            match graph.node(*arg).ty {
                DType::Bool => condition && self.class[*arg as usize] == Class::Full,
                DType::F32 => !condition,
                _ => false,
            }
        };
        (full && chain::is_code(builtin) && args.iter().enumerate().all(fits)).then_some((builtin, args))
    }

    /// A builtin of tiles and one number, which may come first if the order does not matter.
    pub(super) fn by_one(&self, b: Builtin, args: &[NodeId]) -> Option<ByOne> {
        let [x, y] = *args else { return None };
        let commutes = matches!(b, Builtin::Add | Builtin::Mul);
        let (x, y) = if commutes && self.is_one(x) && !self.is_one(y) { (y, x) } else { (x, y) };
        let f = registry::builtin_by(b, self.group.graph.node(x).ty, self.isa).filter(|_| self.is_one(y))?;
        Some(ByOne { x, y, f })
    }

    /// Whether an operand is one number in a whole tile.
    pub(super) fn is_one(&self, id: NodeId) -> bool {
        match self.class[id as usize] {
            Class::Scalar => self.scalars.contains_key(&id),
            Class::Row => self.has_one_row() && self.rows.contains_key(&id),
            Class::Full => false,
        }
    }

    /// The product that a sum adds up, if both factors are tiles; a factor that is one number has a kernel of its own.
    fn summed_product(&self, sum: NodeId) -> Option<NodeId> {
        let (graph, at) = (&self.group.graph, sum as usize);
        let Op::Reduce { red: Red::Sum | Red::Mean, arg, mask: None, .. } = &graph.node(sum).op else { return None };
        let (Builtin::Mul, factors) = self.operation(*arg)? else { return None };
        let tiles = factors.iter().all(|x| self.class[*x as usize] == Class::Full);
        (self.live[at] && tiles).then_some(*arg)
    }

    /// The factors of the product that a sum computes itself.
    pub(super) fn products(&self, sum: NodeId) -> Option<SmallVec<[NodeId; 4]>> {
        self.operation(*self.products.get(&sum)?).map(|(_, factors)| factors)
    }

    /// The nodes whose tiles the step of a node reads.
    pub(super) fn args(&self, id: NodeId) -> SmallVec<[NodeId; 8]> {
        if let Some(chain) = self.chains.get(&id) {
            return chain.args.clone();
        }
        let mut args = SmallVec::new();
        match self.products(id) {
            Some(factors) => args.extend(factors),
            None => self.group.graph.node(id).op.for_each_arg(&mut |arg| args.push(arg)),
        }
        args
    }

    /// Whether a node is a result that leaves the caches before anything reads it: it is large, and nothing in this
    /// program reads it.
    fn leaves_caches(&self, root: NodeId) -> bool {
        let ty = |value| self.env.values.ty(value);
        let bytes = |value| ty(value).shape.iter().product::<usize>() * ty(value).dtype.size();
        let large = |out: &Out| {
            let whole = matches!(out.place, Place::Axes(_)) && ty(out.value).dtype == DType::F32;
            let far = (self.env.stored)(out.value) && !self.env.near.contains(&out.value);
            out.node == root && whole && far && bytes(out.value) >= LARGE
        };
        let outs = &self.group.outs;
        if !outs.iter().any(large) || outs.iter().filter(|out| placed(out).contains(&root)).count() > 1 {
            return false;
        }
        let (mut read, mut loads) = (false, FxHashSet::default());
        for (_, node) in self.group.graph.nodes.iter().enumerate().filter(|(at, _)| self.live[*at]) {
            node.op.for_each_arg(&mut |arg| read |= arg == root);
            if let Op::Load(load) = &node.op {
                loads.insert(load.value);
            }
        }
        let moved = loads.into_iter().chain(outs.iter().map(|out| out.value)).map(bytes).sum::<usize>();
        !read && moved >= TRAFFIC && self.n.sizes[self.n.last()].is_multiple_of(CHUNK)
    }

    /// Emits the step of a chain whose operands are ready.
    pub(super) fn push_chain(&mut self, root: NodeId, chain: &FusedChain, dst: Loc) {
        let operand = |(arg, form): (&NodeId, &InputForm)| match form {
            InputForm::One => self.one(*arg),
            _ => self.operand(*arg),
        };
        let locs: SmallVec<[Loc; 8]> = chain.args.iter().zip(chain.forms()).map(operand).collect();
        let (ins, outs) = (self.slots(&locs), self.target(dst));
        let past = match dst {
            Loc::Memory(_) if self.leaves_caches(root) => chain.chain.compile(self.isa, true).ok(),
            _ => None,
        };
        self.p.streams |= past.is_some();
        self.push(At::Tiles, Step::Chain { code: past.unwrap_or_else(|| chain.code.clone()), ins, outs });
        self.cost(At::Tiles, chain.cost);
    }
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
