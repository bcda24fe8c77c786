//! Emits the steps and registers of a program from its graph and its loops.

use super::fused_chain::FusedChain;
use super::program::*;
use super::schedule::{Nesting, load_bytes, out_bytes, scatter_bytes, tile_elements};
use crate::executors::fusion::fuse::{Group, live, placed};
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{Affine, Dim, DimSet, Graph, Index, Load, NodeId, Op, ValueId};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::HostStep;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::rc::Rc;

/// How often a node is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    /// The node is computed once per worker.
    Scalar,
    /// The node is computed once per row.
    Row,
    /// The node is computed for every element.
    Full,
}

/// The place of a tile of a node.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Loc {
    /// The tile is in the pool of constants.
    Const(u32),
    /// The tile is a register in the workspace.
    Reg(u32),
    /// The tile is in memory, read through this cursor.
    Memory(u32),
    /// The tile is in kept rows: the offset in the workspace, and the bytes of an element.
    Kept(u32, u32),
    /// One number stands for all elements, for kernels that read a single number.
    One(SlotInit),
    /// One number stands for each row: the row register's offset in the workspace, and the bytes of an element.
    OfRow(u32, u32),
}

/// The list to which a step is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// Steps on scalars, once per worker.
    Once,
    /// Steps on rows, before or after the walk.
    Rows { after: bool },
    /// Steps on tiles.
    Tiles,
    /// Steps on the one tile of columns that all groups of lines share.
    Pattern,
}

pub(super) struct Emit<'a> {
    pub group: &'a Group,
    pub env: &'a Env<'a>,
    pub n: &'a Nesting,
    pub isa: Level,
    pub p: Program,
    pub class: Vec<Class>,
    /// The walk in which each node is computed; a row's reduction is read one walk later.
    pub walk: Vec<usize>,
    /// For each full node, whether it is read on a later walk.
    pub crosses: Vec<bool>,
    pub live: Vec<bool>,
    pub inner: DimSet,
    /// The number of elements of a tile register; `width` is that of a row register.
    pub tile: usize,
    pub width: usize,
    pub scalars: FxHashMap<NodeId, Loc>,
    pub rows: FxHashMap<NodeId, u32>,
    /// Full nodes whose values outlive their walk.
    pub lasting: FxHashMap<NodeId, Loc>,
    /// Full nodes (and splats) of the current walk.
    pub tiles: FxHashMap<NodeId, Loc>,
    /// For each slot, whether it can hold whole lines.
    pub long: Vec<bool>,
    /// For each walk, the estimated nanoseconds per element.
    pub walk_costs: Vec<f64>,
    /// The chains, by their last nodes.
    pub chains: FxHashMap<NodeId, Rc<FusedChain>>,
    /// The sums that compute a product themselves, with that product.
    pub products: FxHashMap<NodeId, NodeId>,
    /// The nodes that have no step, because a chain or a sum computes them.
    pub vanished: FxHashSet<NodeId>,
    /// Nodes that were made together with another result of their row, before their turn.
    pub made: FxHashSet<NodeId>,
    /// The free registers by size.
    pub free: FxHashMap<usize, Vec<u32>>,
    pub now: usize,
    /// The estimated nanoseconds per element of the whole domain.
    pub per_element: f64,
    /// For aliasing: the cursor, the walk, the stage of the walk and the step of every plain access.
    pub touched: Vec<(u32, usize, usize, usize)>,
}

/// The walk of every node: the latest walk of its arguments, or one more if that argument is a row's reduction.
fn walks(graph: &Graph, rows: Option<DimSet>, live: &[bool]) -> Vec<usize> {
    let mut walk = vec![0; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        if !live[at] {
            continue;
        }
        let mut latest = 0;
        node.op.for_each_arg(&mut |a| {
            let behind = rows.is_some() && matches!(graph.node(a).op, Op::Reduce { .. }) as usize == 1;
            latest = latest.max(walk[a as usize] + behind as usize);
        });
        walk[at] = latest;
    }
    walk
}

/// Whether a node costs so little that every walk that reads it computes it again.
pub(super) fn is_leaf(op: &Op) -> bool {
    match op {
        Op::Index(_) | Op::Test { .. } => true,
        Op::Load(l) => l.idx.iter().all(|i| matches!(i, Index::Affine(_))),
        _ => false,
    }
}

/// Compiles a group.
pub fn emit(group: &Group, n: &Nesting, env: &Env, isa: Level) -> Program {
    let graph = &group.graph;
    let live = live(group);
    let inner = n.inner();
    let walk = walks(graph, n.rows, &live);
    let mut class = vec![Class::Scalar; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        let mut depends = !node.dims.meet(real(graph)).is_empty() || matches!(node.op, Op::Reduce { .. });
        node.op.for_each_arg(&mut |a| depends |= class[a as usize] != Class::Scalar);
        class[at] = if !node.dims.meet(inner).is_empty() {
            Class::Full
        } else if depends {
            Class::Row
        } else {
            Class::Scalar
        };
    }
    let mut crosses = vec![false; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        if live[at] {
            node.op.for_each_arg(&mut |a| {
                if class[a as usize] == Class::Full && walk[at] > walk[a as usize] {
                    crosses[a as usize] = true;
                }
            });
        }
    }
    for out in group.outs.iter().filter(|o| matches!(o.place, Place::Scatter { .. })) {
        let args = placed(out);
        let last = args.iter().map(|n| walk[*n as usize]).max().unwrap_or(0);
        for n in args.into_iter().filter(|n| class[*n as usize] == Class::Full && walk[*n as usize] < last) {
            crosses[n as usize] = true;
        }
    }
    let mut e = Emit {
        group,
        env,
        n,
        isa,
        p: Program { sizes: n.sizes.clone(), outer: n.outer, tile: n.tile, ..Program::default() },
        class,
        walk,
        crosses,
        live,
        inner,
        tile: tile_elements(n),
        width: 0,
        scalars: FxHashMap::default(),
        rows: FxHashMap::default(),
        lasting: FxHashMap::default(),
        tiles: FxHashMap::default(),
        long: Vec::new(),
        walk_costs: Vec::new(),
        chains: FxHashMap::default(),
        products: FxHashMap::default(),
        vanished: FxHashSet::default(),
        made: FxHashSet::default(),
        free: FxHashMap::default(),
        now: 0,
        per_element: 0.0,
        touched: Vec::new(),
    };
    e.find_chains();
    e.blocks();
    e.run();
    e.p
}

fn real(graph: &Graph) -> DimSet {
    (0..graph.sizes.len() as Dim).filter(|d| graph.sizes[*d as usize] > 1).collect()
}

/// At most this many bytes are touched by several walks over a block of rows, because the rest of the first-level cache
/// holds registers.
const BLOCK_BYTES: usize = 36 * 1024;
/// A unit of work has at least this many elements.
const UNIT: usize = 16 * 1024;
/// A panel has at least this many elements; a slice has at most `MOST_PANELS` panels.
const PANEL: usize = 64 * 1024;
const MOST_PANELS: usize = 32;

impl Emit<'_> {
    /// Chooses the rows per walk, the units of work and the panels.
    fn blocks(&mut self) {
        let (last, rows) = (self.n.sizes[self.n.last()], self.n.sizes[self.n.outer]);
        let (tb, _) = self.n.tile;
        let walks = 1 + self.walk.iter().zip(&self.live).filter(|(_, l)| **l).map(|(w, _)| *w).max().unwrap_or(0);
        let row = last * self.n.row_lines();
        let has_segs = self.n.last() > self.n.outer + 1;
        let fits = BLOCK_BYTES / (padded(row) * self.bytes_of_walks()).max(1);
        let block = if has_segs {
            1
        } else if walks == 1 {
            // a unit, which is one block at least, is not larger than it must be, or few rows would not be divided
            (UNIT / row.max(1)).clamp(1, 64)
        } else {
            fits.clamp(1, 64)
        };
        let tb = if has_segs { 1 } else { tb };
        self.p.block = (block / tb * tb).max(tb).min(rows.next_multiple_of(tb));
        self.p.unit_rows = UNIT.div_ceil(row).next_multiple_of(self.p.block).min(rows.next_multiple_of(self.p.block));
        // Long lines are divided only if no step needs whole rows.
        let whole_rows = walks > 1 || self.n.rows.is_some();
        self.p.unit_cols = if whole_rows || last <= 2 * UNIT { last } else { UNIT };
        if self.p.unit_cols < last {
            self.p.block = tb;
            self.p.unit_rows = tb;
        }
        self.width = padded(self.p.block).max(self.tile);
        self.p.sequential = !self.group.outs.iter().all(|o| self.units_apart(o));
        self.slices();
    }

    /// The bytes that walks touch per element of a row: kept rows, results and inputs, together with the inputs of the
    /// next block.
    pub(super) fn bytes_of_walks(&self) -> usize {
        let graph = &self.group.graph;
        let mut bytes = 0;
        for (at, node) in graph.nodes.iter().enumerate().filter(|(at, _)| self.live[*at]) {
            let moves = self.class[at] == Class::Full && !node.dims.minus(self.inner).is_empty();
            bytes += match &node.op {
                Op::Load(load) if moves => 2 * self.env.values.ty(load.value).dtype.size(),
                op if self.crosses[at] && !is_leaf(op) => node.ty.size(),
                _ => 0,
            };
        }
        for out in self.group.outs.iter().filter(|o| (self.env.stored)(o.value)) {
            if self.class[out.node as usize] == Class::Full && matches!(out.place, Place::Axes(_)) {
                bytes += self.env.values.ty(out.value).dtype.size();
            }
        }
        bytes
    }

    /// Whether units write to disjoint places: each loop that is divided among them is an axis of the result.
    fn units_apart(&self, out: &Out) -> bool {
        let Place::Scatter { idx, .. } = &out.place else { return true };
        let (row, last) = (self.p.row(), self.p.last());
        let divided = |l: usize| match l {
            l if l == row => self.p.row_units() > 1,
            l if l == last => self.p.col_units() > 1,
            l => l < row && self.p.sizes[l] > 1,
        };
        let alone = |l: usize| {
            idx.iter().any(|i| match i {
                Index::Affine(a) => {
                    let coefs = self.n.affine(a).coefs;
                    coefs.iter().enumerate().all(|(k, c)| (*c != 0) == (k == l))
                }
                Index::Node(_) => false,
            })
        };
        (0..=last).filter(|l| divided(*l)).all(alone)
    }

    /// Finds the loops over which every accumulated result varies, and the panels within them.
    fn slices(&mut self) {
        let graph = &self.group.graph;
        let mut prefix = usize::MAX;
        for out in &self.group.outs {
            let node = graph.node(out.node);
            if !self.accumulates(out.node) || !(self.env.stored)(out.value) {
                continue;
            }
            // The row loop is sliced only if units are single rows.
            let single = self.p.unit_rows == 1;
            let most = if single { self.n.outer + 1 } else { self.n.outer };
            let common = (0..most).take_while(|l| self.n.loops[*l].iter().all(|d| node.dims.has(*d))).count();
            prefix = prefix.min(common);
        }
        self.p.slice_loops = if prefix == usize::MAX { 0 } else { prefix };
        let slice_units = (self.p.units() / self.p.slices().max(1)).max(1);
        let elements = self.p.unit_rows * self.n.row_lines() * self.p.unit_cols;
        let panels = (slice_units * elements / PANEL).clamp(1, MOST_PANELS);
        self.p.panel = if prefix == usize::MAX { 1 } else { slice_units.div_ceil(panels) };
    }

    /// Whether a node is a reduction into accumulators.
    pub(super) fn accumulates(&self, node: NodeId) -> bool {
        match &self.group.graph.node(node).op {
            Op::Reduce { order, .. } => {
                let over: DimSet = order.iter().copied().collect();
                self.n.rows != Some(over.meet(real(&self.group.graph)))
            }
            _ => false,
        }
    }

    fn run(&mut self) {
        let order: Vec<NodeId> = (0..self.live.len() as NodeId).filter(|i| self.live[*i as usize]).collect();
        for &id in &order {
            if self.class[id as usize] == Class::Scalar {
                self.scalar(id);
            }
        }
        let late = self.group.outs.iter().filter(|out| self.is_late(out));
        let late: Vec<(usize, Out)> = late.map(|out| (self.walk[out.node as usize] + 1, out.clone())).collect();
        let walk = order.iter().map(|i| self.walk[*i as usize]);
        let walks = 1 + walk.chain(late.iter().map(|(walk, _)| *walk)).max().unwrap_or(0);
        for now in 0..walks {
            self.now = now;
            self.p.phases.push(Phase::default());
            self.tiles.clear();
            let before = self.per_element;
            let last_use = self.last_uses(now);
            for &id in &order {
                if self.walk[id as usize] != now || self.vanished.contains(&id) {
                    continue;
                }
                match (&self.group.graph.node(id).op, self.class[id as usize]) {
                    (Op::Reduce { .. }, _) => self.reduction(id),
                    (_, Class::Scalar) => {}
                    (_, Class::Row) => self.row(id),
                    // Leaves are computed where they are read, or stored.
                    (op, Class::Full) if is_leaf(op) => {}
                    (_, Class::Full) => self.full(id, &last_use),
                }
                self.stores(id);
                self.release(id, &last_use);
            }
            for (_, out) in late.iter().filter(|(walk, _)| *walk == now) {
                self.store_out(out);
            }
            self.scatters(now);
            self.fold_lines();
            self.moves();
            self.reset();
            self.walk_costs.push(self.per_element - before);
        }
        self.asks();
        self.finish_cost();
        self.aliases();
    }

    /// The last reader, on this walk, of every full node.
    fn last_uses(&self, now: usize) -> FxHashMap<NodeId, NodeId> {
        let mut last = FxHashMap::default();
        for at in 0..self.live.len() as NodeId {
            if self.live[at as usize] && self.walk[at as usize] == now && !self.vanished.contains(&at) {
                last.extend(self.args(at).into_iter().map(|a| (a, at)));
            }
        }
        for out in &self.group.outs {
            if let Place::Scatter { .. } = out.place {
                // Scattering comes after all other steps, so these registers stay until the walk ends.
                for n in placed(out) {
                    last.insert(n, NodeId::MAX);
                }
            }
        }
        last
    }

    /// Frees the registers whose last reader is `id`.
    fn release(&mut self, id: NodeId, last_use: &FxHashMap<NodeId, NodeId>) {
        let mut dead = self.args(id);
        if !last_use.contains_key(&id) {
            dead.push(id);
        }
        for a in dead {
            let over = last_use.get(&a).is_none_or(|l| *l == id);
            if self.class[a as usize] == Class::Full && over {
                self.drop_tile(a);
            }
        }
    }

    pub(super) fn drop_tile(&mut self, id: NodeId) {
        if let Some(Loc::Reg(at)) = self.tiles.remove(&id) {
            let bytes = self.tile * self.group.graph.node(id).ty.size();
            self.free.entry(bytes).or_default().push(at);
        }
    }

    /// Frees all registers at the end of a walk.
    fn reset(&mut self) {
        for i in &mut self.phase().in_place {
            // A value written on this walk was read from registers; on the next walk it is read from memory.
            i.reads = !i.writes;
        }
        let tiles: Vec<(NodeId, Loc)> = self.tiles.drain().collect();
        for (id, loc) in tiles {
            if let Loc::Reg(at) = loc {
                let bytes = self.tile * self.group.graph.node(id).ty.size();
                self.free.entry(bytes).or_default().push(at);
            }
        }
        for list in self.free.values_mut() {
            list.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// Reserves a permanent piece of the workspace.
    pub(super) fn reserve(&mut self, bytes: usize) -> u32 {
        let at = self.p.work;
        self.p.work += bytes.next_multiple_of(64);
        at as u32
    }

    /// Allocates a tile register.
    pub(super) fn register(&mut self, ty: DType) -> u32 {
        let bytes = self.tile * ty.size();
        match self.free.get_mut(&bytes).and_then(Vec::pop) {
            Some(at) => at,
            None => self.reserve(bytes),
        }
    }

    pub(super) fn phase(&mut self) -> &mut Phase {
        let now = self.now;
        &mut self.p.phases[now]
    }

    pub(super) fn push(&mut self, at: At, step: Step) {
        match at {
            At::Once => self.p.once.push(step),
            At::Rows { after: false } => self.phase().before.push(step),
            At::Rows { after: true } => self.phase().after.push(step),
            At::Tiles => {
                // The slots of a step are contiguous and were made just before it.
                let long = match &step {
                    Step::Kernel { ins, .. } | Step::Chain { ins, .. } => self.long[*ins as usize..].iter().all(|l| *l),
                    Step::Fold { src, .. } | Step::Accumulate { src, .. } => {
                        self.long[*src as usize..].iter().all(|l| *l)
                    }
                    _ => false,
                };
                self.phase().tiled |= !long;
                self.phase().tiles.push(step);
            }
            At::Pattern => self.p.patterns.push(step),
        }
    }

    /// Makes contiguous slots for operands.
    pub(super) fn slots(&mut self, locs: &[Loc]) -> Slot {
        let first = self.p.slots.len() as Slot;
        for loc in locs {
            let slot = self.p.slots.len() as Slot;
            let init = match *loc {
                Loc::Const(at) => SlotInit::Const(at),
                Loc::Reg(at) => SlotInit::Work(at),
                Loc::Kept(at, bytes) => {
                    let elem = bytes as usize;
                    let line = self.p.kept_pitch() * elem;
                    self.phase().kept.push(Kept { slot, at, line, elem });
                    SlotInit::Moving
                }
                Loc::OfRow(at, bytes) => {
                    // If a row has several lines, a block has one row.
                    let line = if self.p.has_segs() { 0 } else { bytes as usize };
                    self.phase().kept.push(Kept { slot, at, line, elem: 0 });
                    SlotInit::Moving
                }
                Loc::Memory(cursor) => {
                    self.touch(cursor, At::Tiles);
                    self.in_place(cursor, slot);
                    SlotInit::Moving
                }
                Loc::One(init) => init,
            };
            self.p.slots.push(init);
            self.long.push(!matches!(loc, Loc::Reg(_) | Loc::Const(_)));
        }
        first
    }

    fn in_place(&mut self, cursor: u32, slot: Slot) {
        let bytes = self.p.cursors[cursor as usize].bytes;
        if !self.phase().in_place.iter().any(|i| i.cursor == cursor) {
            let edge = self.reserve(self.tile * bytes);
            let slots = SmallVec::new();
            let new = InPlace { cursor, bytes, slots, edge, reads: true, writes: false, ahead: true };
            self.phase().in_place.push(new);
        }
        if let Some(i) = self.phase().in_place.iter_mut().find(|i| i.cursor == cursor) {
            i.slots.push(slot);
        }
    }

    /// The offset of a constant's tile in the pool.
    pub(super) fn constant(&mut self, bits: [u8; 8], bytes: usize) -> u32 {
        let lines = (self.width * bytes).div_ceil(64);
        let at = self.p.consts.len();
        let mut line = CacheLine([0; 64]);
        for i in 0..64 / bytes {
            line.0[i * bytes..(i + 1) * bytes].copy_from_slice(&bits[..bytes]);
        }
        self.p.consts.extend(std::iter::repeat_n(line, lines));
        (at * 64) as u32
    }

    pub(super) fn cursor(&mut self, value: ValueId, at: Lin, writes: bool) -> u32 {
        let root = (self.env.form)(value).root;
        let bytes = self.env.values.ty(value).dtype.size();
        let new = Cursor { value: root, at, bytes, writes, sought: false };
        if let Some(i) = self.p.cursors.iter().position(|c| *c == new) {
            return i as u32;
        }
        self.p.cursors.push(new);
        (self.p.cursors.len() - 1) as u32
    }

    pub(super) fn load_cursor(&mut self, load: &Load) -> u32 {
        let at = self.n.lin(&load_bytes(load, self.env, self.group.graph.sizes.len()));
        self.cursor(load.value, at, false)
    }

    /// Whether tiles of a cursor have the same layout in memory as in registers, and no other worker writes them.
    pub(super) fn lies_like_register(&self, cursor: u32) -> bool {
        let c = &self.p.cursors[cursor as usize];
        let (line, last) = (self.n.line_loop(), self.n.last());
        let (tb, tc) = self.n.tile;
        let dense = c.at.coefs[last] == c.bytes as i64;
        let alone = !c.writes || c.is_own(&self.n.sizes);
        alone && dense && (tb == 1 || (tc == self.n.sizes[last] && c.at.coefs[line] == (tc * c.bytes) as i64))
    }

    /// The axes along which a guarded access may leave its tensor.
    pub(super) fn guards(&self, idx: &[Index], shape: &[usize]) -> Vec<(Lin, i64)> {
        let sizes = &self.group.graph.sizes;
        let outside = |a: &Affine, n: usize| {
            let (lo, hi) = a.range(sizes);
            lo < 0 || hi >= n as i64
        };
        (idx.iter().zip(shape))
            .filter_map(|(i, n)| match i {
                Index::Affine(a) if outside(a, *n) => Some((self.n.affine(a), *n as i64)),
                _ => None,
            })
            .collect()
    }

    /// Writes a node's stored results.
    fn stores(&mut self, id: NodeId) {
        let outs: Vec<_> = self.group.outs.iter().filter(|o| o.node == id && !self.is_late(o)).cloned().collect();
        for out in outs {
            if !self.accumulates(id) {
                self.store_out(&out);
            }
        }
    }

    /// Whether a result repeats a row's reduction along the row; it is known only once the walk that computes it is
    /// over.
    fn is_late(&self, out: &Out) -> bool {
        let Place::Axes(axes) = &out.place else { return false };
        let along: DimSet = axes.iter().flatten().copied().collect();
        matches!(self.group.graph.node(out.node).op, Op::Reduce { .. })
            && !self.accumulates(out.node)
            && !along.meet(self.inner).is_empty()
    }

    /// Writes a result that is not a sum over walks.
    fn store_out(&mut self, out: &Out) {
        let Place::Axes(axes) = &out.place else { return };
        if !(self.env.stored)(out.value) {
            return;
        }
        let bytes = self.env.values.ty(out.value).dtype.size() as i64;
        let at = self.n.lin(&out_bytes(out.value, axes, self.env, &self.group.graph.sizes, bytes));
        let cursor = self.cursor(out.value, at, true);
        self.store(out.node, out.value, axes.iter().flatten().copied().collect(), cursor);
    }

    /// Scatters the results that are complete on this walk.
    fn scatters(&mut self, now: usize) {
        for out in self.group.outs.clone() {
            let Place::Scatter { idx, mask, how, strict, base, .. } = &out.place else { continue };
            if placed(&out).iter().map(|n| self.walk[*n as usize]).max() != Some(now) {
                continue;
            }
            let base = base.map(|b| (self.env.form)(b).root);
            self.p.prefill.push(Prefill { value: out.value, base });
            let at = self.n.lin(&scatter_bytes(out.value, idx, self.env, self.group.graph.sizes.len()));
            let cursor = self.cursor(out.value, at, true);
            self.scatter(&out, idx, *mask, (*how, *strict), cursor);
        }
    }

    /// Writes a node along `dims`: its own dims, and those along which it repeats.
    fn store(&mut self, id: NodeId, value: ValueId, dims: DimSet, cursor: u32) {
        let dtype = self.env.values.ty(value).dtype;
        let half = dtype.opmath() != dtype;
        let at = if !dims.meet(self.inner).is_empty() || self.class[id as usize] == Class::Full {
            At::Tiles
        } else if self.class[id as usize] == Class::Row {
            At::Rows { after: matches!(self.group.graph.node(id).op, Op::Reduce { .. }) }
        } else if dims.iter().any(|d| self.group.graph.sizes[d as usize] > 1) {
            At::Rows { after: false }
        } else {
            At::Once
        };
        let f = fulgurite_kernels::copy::store(dtype.size(), self.isa);
        if at != At::Tiles {
            let mut from = match at {
                At::Once => self.scalars.get(&id).copied(),
                _ => self.rows.get(&id).map(|r| Loc::Reg(*r)).or(self.scalars.get(&id).copied()),
            };
            if half && let Some(loc) = from {
                let narrow = Loc::Reg(self.reserve(self.width * dtype.size()));
                let (ins, outs) = (self.slots(&[loc]), self.slots(&[narrow]));
                self.push(
                    at,
                    Step::Kernel { f: fulgurite_kernels::narrow::narrow(dtype, self.isa), ins, outs, nums: 0 },
                );
                from = Some(narrow);
            }
            if let Some(loc) = from {
                let src = self.slots(&[loc]);
                self.touch(cursor, at);
                self.push(at, Step::Store { f, cursor, src });
            }
            return;
        }
        if self.lasting.get(&id) == Some(&Loc::Memory(cursor)) {
            return;
        }
        let mut loc = self.operand(id);
        let direct = self.lies_like_register(cursor);
        if half {
            let to = if direct { Loc::Memory(cursor) } else { Loc::Reg(self.reserve(self.tile * dtype.size())) };
            let (ins, outs) = (self.slots(&[loc]), self.target(to));
            self.push(
                At::Tiles,
                Step::Kernel { f: fulgurite_kernels::narrow::narrow(dtype, self.isa), ins, outs, nums: 0 },
            );
            if direct {
                return;
            }
            loc = to;
        }
        let src = self.slots(&[loc]);
        self.touch(cursor, At::Tiles);
        self.push(At::Tiles, Step::Store { f, cursor, src });
        self.per_element += 0.03;
    }

    /// Notes that the next step reads or writes a cursor.
    pub(super) fn touch(&mut self, cursor: u32, at: At) {
        if self.p.phases.is_empty() {
            return self.touched.push((cursor, 0, 0, 0));
        }
        let (stage, step) = match at {
            At::Once | At::Pattern => (0, 0),
            At::Rows { after: false } => (1, self.phase().before.len()),
            At::Tiles => (2, self.phase().tiles.len()),
            At::Rows { after: true } => (3, self.phase().after.len()),
        };
        let now = if stage == 0 { 0 } else { self.now };
        self.touched.push((cursor, now, stage, step));
    }

    /// The slot to which a step writes.
    pub(super) fn target(&mut self, loc: Loc) -> Slot {
        let slot = self.slots(&[loc]);
        self.written(loc);
        slot
    }

    /// Notes that a step writes an operand in place.
    pub(super) fn written(&mut self, loc: Loc) {
        if let Loc::Memory(cursor) = loc
            && let Some(i) = self.phase().in_place.iter_mut().find(|i| i.cursor == cursor)
        {
            i.writes = true;
        }
    }

    fn finish_cost(&mut self) {
        let elements: f64 = self.p.sizes.iter().map(|n| *n as f64).product();
        self.p.cost = 60.0 + elements * self.per_element + self.p.traffic() as f64 / 16.0;
    }
}
