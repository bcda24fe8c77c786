//! Emits the steps of single nodes.

use super::super::registry;
use super::emit::{At, Class, Emit, Loc, is_leaf};
use super::fused_chain::FusedChain;
use super::program::*;
use super::schedule::{load_bytes, out_bytes};
use crate::executors::fusion::fuse::Form;
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{DimSet, Index, Load, NodeId, Op, RowCall};
use fulgurite_core::builtins::{Builtin, cast_scalar};
use fulgurite_core::kernel::Combine;
use fulgurite_core::kernel::TileFn;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::{DType, storage};
use fulgurite_kernels::chain::InputForm;
use fulgurite_kernels::reduce;
use fulgurite_kernels::reduce::FoldFn;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

impl Emit<'_> {
    /// Emits a node that is computed once per worker, in a register as wide as a tile.
    pub(super) fn scalar(&mut self, id: NodeId) {
        let node = self.group.graph.node(id).clone();
        let loc = match &node.op {
            Op::Const(bits) => {
                let (bytes, size) = stored_bits(bits.scalar(), node.ty);
                Loc::Const(self.constant(bytes, size))
            }
            _ => {
                let dst = Loc::Reg(self.reserve(self.width * node.ty.size()));
                self.compute(id, At::Once, dst);
                dst
            }
        };
        self.scalars.insert(id, loc);
    }

    /// Emits a node that is computed once per row.
    pub(super) fn row(&mut self, id: NodeId) {
        let dst = self.reserve(self.width * self.group.graph.node(id).ty.size());
        self.compute(id, At::Rows { after: false }, Loc::Reg(dst));
        self.rows.insert(id, dst);
    }

    /// Emits a node that is computed for every element.
    pub(super) fn full(&mut self, id: NodeId, last_use: &FxHashMap<NodeId, NodeId>) {
        if self.made.remove(&id) {
            return;
        }
        let node = self.group.graph.node(id).clone();
        if let Op::Load(load) = &node.op
            && let Some(cursor) = self.seek(load)
        {
            return self.sought(id, load, cursor);
        }
        // Arguments come first, because leaves need registers of their own.
        let args = self.args(id);
        let chain = self.chains.get(&id).cloned();
        let by_one = match &node.op {
            Op::Call(b, xs) if chain.is_none() => self.by_one(*b, xs).map(|by| by.y),
            _ => None,
        };
        if let Some(chain) = &chain {
            for (arg, _) in chain.args.iter().zip(chain.forms()).filter(|(_, form)| **form != InputForm::One) {
                self.operand(*arg);
            }
        } else if !matches!(&node.op, Op::Call(b, xs) if self.row_test(*b, xs).is_some()) {
            for &a in args.iter().filter(|a| by_one != Some(**a)) {
                self.operand(a);
            }
        }
        let dst = match self.destination(id) {
            Some(loc) => {
                self.lasting.insert(id, loc);
                loc
            }
            None => {
                // A kernel may overwrite an argument that is read for the last time.
                let plain = matches!(node.op, Op::Call(..) | Op::Cast(_) | Op::Round(..) | Op::Select(..));
                let over =
                    |a: &NodeId| last_use.get(a) == Some(&id) && self.group.graph.node(*a).ty.size() == node.ty.size();
                let reuse = args.iter().copied().find(|a| plain && self.class[*a as usize] == Class::Full && over(a));
                match reuse.and_then(|a| self.tiles.get(&a).copied()) {
                    Some(loc @ Loc::Reg(_)) => {
                        // The register changes its owner, so the argument no longer frees it.
                        let a = reuse.unwrap_or(id);
                        self.tiles.insert(id, loc);
                        self.every(id, chain.as_deref(), loc);
                        self.tiles.remove(&a);
                        return;
                    }
                    _ => Loc::Reg(self.register(node.ty)),
                }
            }
        };
        self.every(id, chain.as_deref(), dst);
        self.tiles.insert(id, dst);
    }

    /// Emits the step that computes a node for every element.
    fn every(&mut self, id: NodeId, chain: Option<&FusedChain>, dst: Loc) {
        match chain {
            Some(chain) => self.push_chain(id, chain, dst),
            None => self.compute(id, At::Tiles, dst),
        }
    }

    /// The place of a node that must outlive the walk, in memory or in kept rows.
    fn destination(&mut self, id: NodeId) -> Option<Loc> {
        let ty = self.group.graph.node(id).ty;
        let outs: Vec<Out> = self.group.outs.iter().filter(|o| o.node == id).cloned().collect();
        for out in &outs {
            let Place::Axes(axes) = &out.place else { continue };
            if !(self.env.stored)(out.value) || self.env.values.ty(out.value).dtype != ty {
                continue;
            }
            let at = self.n.lin(&out_bytes(out.value, axes, self.env, &self.group.graph.sizes, ty.size() as i64));
            let cursor = self.cursor(out.value, at, true);
            if self.lies_like_register(cursor) {
                return Some(Loc::Memory(cursor));
            }
        }
        if !self.crosses[id as usize] {
            return None;
        }
        let lines = self.p.block * self.n.row_lines();
        let at = self.reserve((lines * self.p.kept_pitch() + CHUNK) * ty.size());
        Some(Loc::Kept(at, ty.size() as u32))
    }

    /// The tile of a node on this walk; leaves and splats are computed here.
    pub(super) fn operand(&mut self, id: NodeId) -> Loc {
        if let Some(loc) = self.tiles.get(&id).or(self.scalars.get(&id)).or(self.lasting.get(&id)) {
            return *loc;
        }
        let node = self.group.graph.node(id).clone();
        let loc = match self.class[id as usize] {
            Class::Row => {
                // This register is not shared, because it is filled before the tiles of a line, whatever they do.
                let dst = Loc::Reg(self.reserve(self.tile * node.ty.size()));
                let (src, bytes) = (self.rows.get(&id).copied().unwrap_or(0), node.ty.size());
                let slot = self.slots(&[dst]);
                let f = fulgurite_kernels::fill::splat(bytes, self.isa);
                self.phase().lines.push(Step::Splat { f, dst: slot, src, bytes: bytes as u32 });
                dst
            }
            _ if is_leaf(&node.op) => return self.leaf(id),
            // Scalars were computed before; any other operand was computed on this walk or is kept.
            _ => Loc::Reg(0),
        };
        self.tiles.insert(id, loc);
        loc
    }

    /// Recognises positions that are compared with one number per row, such as a search for the label of a row: then
    /// one place of a line is marked, and nothing is compared. Returns the positions and the row register.
    fn row_test(&self, b: Builtin, args: &[NodeId]) -> Option<(Lin, u32)> {
        let (Builtin::Eq, [x, y]) = (b, args) else { return None };
        [(x, y), (y, x)].into_iter().find_map(|(position, number)| {
            let Op::Index(affine) = &self.group.graph.node(*position).op else { return None };
            let row = *self.rows.get(number)?;
            let fits = self.class[*number as usize] == Class::Row
                && self.class[*position as usize] == Class::Full
                && self.group.graph.node(*number).ty == DType::I64;
            fits.then(|| (self.n.affine(affine), row))
        })
    }

    /// The place of the first element of an operand that is one number.
    pub(super) fn one(&mut self, id: NodeId) -> Loc {
        match (self.scalars.get(&id), self.rows.get(&id)) {
            (Some(Loc::Const(at)), _) => Loc::One(SlotInit::Const(*at)),
            (Some(Loc::Reg(at)), _) => Loc::One(SlotInit::Work(*at)),
            (_, row) => Loc::OfRow(row.copied().unwrap_or(0), self.group.graph.node(id).ty.size() as u32),
        }
    }

    fn leaf(&mut self, id: NodeId) -> Loc {
        let node = self.group.graph.node(id).clone();
        if let Op::Load(load) = &node.op {
            let half = self.env.values.ty(load.value).dtype != node.ty;
            let cursor = self.load_cursor(load);
            if load.outside.is_none() && !half && self.lies_like_register(cursor) {
                let loc = Loc::Memory(cursor);
                self.tiles.insert(id, loc);
                return loc;
            }
            let at = &self.p.cursors[cursor as usize].at;
            let repeats = at.coefs[..self.n.last()].iter().all(|c| *c == 0);
            if load.outside.is_none() && self.n.tile.0 > 1 && self.n.tile.1 == self.n.sizes[self.n.last()] && repeats {
                let dst = Loc::Reg(self.reserve(self.tile * node.ty.size()));
                self.compute(id, At::Pattern, dst);
                // The tile is made once and serves all walks.
                self.lasting.insert(id, dst);
                return dst;
            }
        }
        let dst = Loc::Reg(self.register(node.ty));
        self.compute(id, At::Tiles, dst);
        self.tiles.insert(id, dst);
        dst
    }

    fn arg(&mut self, id: NodeId, at: At) -> Loc {
        match at {
            At::Tiles | At::Pattern => self.operand(id),
            At::Once => self.scalars.get(&id).copied().unwrap_or(Loc::Reg(0)),
            At::Rows { .. } => match self.rows.get(&id) {
                Some(r) => Loc::Reg(*r),
                None => self.scalars.get(&id).copied().unwrap_or(Loc::Reg(0)),
            },
        }
    }

    /// Emits the steps that compute a node into `dst`.
    fn compute(&mut self, id: NodeId, at: At, dst: Loc) {
        let node = self.group.graph.node(id).clone();
        match &node.op {
            Op::Const(_) | Op::Reduce { .. } => {}
            Op::Index(a) => {
                let (lin, dst) = (self.n.affine(a), self.target(dst));
                self.push(at, Step::Index { f: fulgurite_kernels::fill::positions::pick(self.isa), dst, lin });
                self.cost(at, 0.1);
            }
            Op::Test { affine, equal } => {
                let (lin, dst) = (self.n.affine(affine), self.target(dst));
                self.push(at, Step::Test { dst, lin, with: None, equal: *equal });
                self.cost(at, 0.02);
            }
            Op::Load(load) => self.load(load, node.ty, at, dst),
            Op::Call(b, args) => self.call(*b, args, node.ty, at, dst),
            Op::Row(call) => self.row_call(call, at, dst),
            Op::Cast(a) => {
                let from = self.group.graph.node(*a).ty;
                self.kernel(fulgurite_kernels::cast::cast(from, node.ty, self.isa), &[*a], at, dst);
                self.cost(at, 0.06);
            }
            Op::Round(a, to) => {
                self.kernel(fulgurite_kernels::narrow::round(*to, self.isa), &[*a], at, dst);
                self.cost(at, 0.08);
            }
            Op::Select(c, a, b) => {
                self.kernel(fulgurite_kernels::select::select(node.ty.size(), self.isa), &[*c, *a, *b], at, dst);
                self.cost(at, 0.05);
            }
            Op::Uniform { key, position, draw } => {
                let index = match &self.group.graph.node(*position).op {
                    Op::Index(a) => Some(self.n.affine(a)),
                    _ => None,
                };
                let positions = match index {
                    Some(lin) => Positions::Lin(lin),
                    None => {
                        let loc = self.arg(*position, at);
                        Positions::Slot(self.slots(&[loc]))
                    }
                };
                let form: Form = (self.env.form)(*key);
                let lin = Lin { base: form.offset * 8, coefs: SmallVec::from_elem(0, self.n.loops.len()) };
                let key = self.cursor(*key, lin, false);
                let dst = self.target(dst);
                let f = fulgurite_kernels::fill::uniform_run::pick(self.isa);
                self.push(at, Step::Uniform { f, dst, key, draw: *draw, at: positions });
                self.cost(at, 0.8);
            }
        }
    }

    pub(super) fn cost(&mut self, at: At, per_element: f64) {
        if at == At::Tiles {
            self.per_element += per_element;
        }
    }

    fn kernel(&mut self, f: TileFn, args: &[NodeId], at: At, dst: Loc) {
        let locs: SmallVec<[Loc; 4]> = args.iter().map(|a| self.arg(*a, at)).collect();
        let (ins, outs) = (self.slots(&locs), self.target(dst));
        self.push(at, Step::Kernel { f, ins, outs, nums: 0 });
    }

    // A divisor is tested unless it is known not to be 0; the condition below states exactly that.
    #[allow(clippy::nonminimal_bool)]
    fn call(&mut self, b: Builtin, args: &[NodeId], ty: DType, at: At, dst: Loc) {
        if let (At::Tiles, Some((lin, with))) = (at, self.row_test(b, args)) {
            let dst = self.target(dst);
            self.cost(at, 0.02);
            return self.push(at, Step::Test { dst, lin, with: Some(with), equal: true });
        }
        let from = self.group.graph.node(args[0]).ty;
        let divides = matches!(b, Builtin::DivFloor | Builtin::DivTrunc | Builtin::RemFloor | Builtin::RemTrunc);
        if divides && from.is_int() && !self.group.graph.as_const(args[1]).is_some_and(|s| s.as_i64() != 0) {
            let loc = self.arg(args[1], at);
            let src = self.slots(&[loc]);
            self.push(at, Step::NonZero { src, dtype: from, builtin: b });
        }
        self.cost(at, 0.03 + 0.014 * b.record().flops as f64 * if from.size() > 4 { 2.0 } else { 1.0 });
        if let (At::Tiles, Some(by)) = (at, self.by_one(b, args)) {
            let locs = [self.arg(by.x, at), self.one(by.y)];
            let (ins, outs) = (self.slots(&locs), self.target(dst));
            return self.push(at, Step::Kernel { f: by.f, ins, outs, nums: 0 });
        }
        if let Some(f) = registry::builtin(b, from, self.isa) {
            return self.kernel(f, args, at, dst);
        }
        self.cost(at, 5.0);
        let locs: SmallVec<[Loc; 4]> = args.iter().map(|a| self.arg(*a, at)).collect();
        let (ins, outs) = (self.slots(&locs), self.target(dst));
        self.push(at, Step::Scalar { builtin: b, arity: args.len() as u8, ins, outs, from, to: ty });
    }

    /// Emits a row's kernel, which computes all results of the row at once.
    fn row_call(&mut self, call: &RowCall, at: At, dst: Loc) {
        let Some(f) = registry::find(call.symbol.as_str(), call.variant.as_str(), call.dtype, self.isa) else { return };
        let locs: SmallVec<[Loc; 4]> = call.args.iter().map(|a| self.arg(*a, at)).collect();
        let ins = self.slots(&locs);
        let outs: SmallVec<[Loc; 4]> =
            (0..call.outs).map(|k| if k == call.out { dst } else { self.beside(call, k, at) }).collect();
        let slots = self.slots(&outs);
        // notes of values that are written in place exist only now
        outs.iter().for_each(|loc| self.written(*loc));
        let nums = self.p.nums.len() as u32;
        self.p.nums.extend(&call.nums);
        self.push(at, Step::Kernel { f, ins, outs: slots, nums });
        self.cost(at, 0.4);
    }

    /// The place of another result of a row's kernel.
    fn beside(&mut self, call: &RowCall, out: u8, at: At) -> Loc {
        let wanted = Op::Row(RowCall { out, ..call.clone() });
        let graph = &self.group.graph;
        let made_here = |id: &NodeId| {
            let at = *id as usize;
            graph.nodes[at].op == wanted
                && self.live[at]
                && self.class[at] == Class::Full
                && self.walk[at] == self.now
                && !self.made.contains(id)
        };
        let other = (0..graph.nodes.len() as NodeId).find(|id| at == At::Tiles && made_here(id));
        let Some(id) = other else {
            // no node reads this result, so it goes to a register of its own
            return Loc::Reg(self.reserve(self.width.max(self.tile) * 8));
        };
        let loc = match self.destination(id) {
            Some(loc) => {
                self.lasting.insert(id, loc);
                loc
            }
            None => Loc::Reg(self.register(self.group.graph.node(id).ty)),
        };
        self.tiles.insert(id, loc);
        self.made.insert(id);
        loc
    }

    /// Emits a load of elements from memory into a register.
    fn load(&mut self, load: &Load, ty: DType, at: At, dst: Loc) {
        let stored = self.env.values.ty(load.value).dtype;
        let half = stored != ty;
        let cursor = self.load_cursor(load);
        // f16 and bf16 go through a register of their own.
        let raw = match (half, at) {
            (false, _) => dst,
            (true, At::Tiles)
                if load.outside.is_none() && is_leaf(&Op::Load(load.clone())) && self.lies_like_register(cursor) =>
            {
                Loc::Memory(cursor)
            }
            (true, _) => Loc::Reg(self.reserve(self.width.max(self.tile) * stored.size())),
        };
        let coords: Vec<Coord> = self.coords(load, at);
        debug_assert!(
            load.outside.is_some() && coords.is_empty()
                || self.guards(&load.idx, &self.env.values.ty(load.value).shape).is_empty(),
            "{load:?} leaves its tensor without a guard"
        );
        if let Some(outside) = load.outside.filter(|_| coords.is_empty()) {
            let shape = self.env.values.ty(load.value).shape.clone();
            let axes = self.guards(&load.idx, &shape);
            let (value, _) = stored_bits(outside.scalar(), stored);
            let guarded = GuardedLoad {
                f: fulgurite_kernels::copy::load(stored.size(), self.isa),
                fill: fulgurite_kernels::fill::splat(stored.size(), self.isa),
                cursor,
                dst: self.target(raw),
                axes,
                value,
            };
            self.push(at, Step::Guarded(Box::new(guarded)));
            self.cost(at, 0.15);
        } else if !coords.is_empty() {
            let dst = self.target(raw);
            let f = Gathers {
                tile: fulgurite_kernels::gather::gather_fn(stored.size(), self.isa),
                line: fulgurite_kernels::gather::gather_line_fn(stored.size(), self.isa),
                outside: fulgurite_kernels::gather::outside::pick(self.isa),
            };
            self.push(at, Step::Gather { f, cursor, coords, dst });
            self.cost(at, 1.0);
        } else if raw != Loc::Memory(cursor) {
            self.touch(cursor, at);
            let dst = self.target(raw);
            self.push(at, Step::Load { f: fulgurite_kernels::copy::load(stored.size(), self.isa), cursor, dst });
            self.cost(at, 0.08);
        }
        if half {
            let (ins, outs) = (self.slots(&[raw]), self.target(dst));
            self.push(at, Step::Kernel { f: fulgurite_kernels::narrow::widen(stored, self.isa), ins, outs, nums: 0 });
            self.cost(at, 0.04);
        }
    }

    fn coords(&mut self, load: &Load, at: At) -> Vec<Coord> {
        let form = (self.env.form)(load.value);
        let ty = self.env.values.ty(load.value).clone();
        let mut coords = Vec::new();
        for (axis, index) in load.idx.iter().enumerate() {
            if let Index::Node(n) = index {
                let loc = self.arg(*n, at);
                let slot = self.slots(&[loc]);
                coords.push(Coord {
                    slot,
                    stride: form.strides[axis] * ty.dtype.size() as i64,
                    size: ty.shape[axis] as i64,
                    axis,
                });
            }
        }
        coords
    }

    /// The cursor of an indexed access whose indices vary by row only; a seek moves it once per line.
    fn seek(&mut self, load: &Load) -> Option<u32> {
        if self.n.tile.0 != 1 || load.outside.is_some() || load.idx.iter().all(|i| matches!(i, Index::Affine(_))) {
            return None;
        }
        let (form, ty) = ((self.env.form)(load.value), self.env.values.ty(load.value).clone());
        let bytes = ty.dtype.size();
        let mut coords = Vec::new();
        for (axis, index) in load.idx.iter().enumerate() {
            let Index::Node(n) = index else { continue };
            let slot = *self.rows.get(n)?;
            coords.push(Coord { slot, stride: form.strides[axis] * bytes as i64, size: ty.shape[axis] as i64, axis });
        }
        let at = self.n.lin(&load_bytes(load, self.env, self.group.graph.sizes.len()));
        let cursor = self.p.cursors.len() as u32;
        self.p.cursors.push(Cursor { value: form.root, at, bytes, writes: false, sought: true });
        self.phase().lines.push(Step::Seek { cursor, coords });
        Some(cursor)
    }

    /// Emits a node that reads through a moved cursor.
    fn sought(&mut self, id: NodeId, load: &Load, cursor: u32) {
        let (ty, stored) = (self.group.graph.node(id).ty, self.env.values.ty(load.value).dtype);
        let lasting = self.destination(id);
        if let Some(loc) = lasting {
            self.lasting.insert(id, loc);
        }
        let like = self.lies_like_register(cursor);
        self.per_element += 0.05;
        if stored == ty && like && lasting.is_none() {
            self.tiles.insert(id, Loc::Memory(cursor));
            return;
        }
        let dst = lasting.unwrap_or_else(|| Loc::Reg(self.register(ty)));
        let raw = match (stored == ty, like) {
            (true, _) => dst,
            (false, true) => Loc::Memory(cursor),
            (false, false) => Loc::Reg(self.reserve(self.tile * stored.size())),
        };
        if raw != Loc::Memory(cursor) {
            let dst = self.target(raw);
            self.push(At::Tiles, Step::Load { f: fulgurite_kernels::copy::load(stored.size(), self.isa), cursor, dst });
        }
        if stored != ty {
            let (ins, outs) = (self.slots(&[raw]), self.target(dst));
            self.push(
                At::Tiles,
                Step::Kernel { f: fulgurite_kernels::narrow::widen(stored, self.isa), ins, outs, nums: 0 },
            );
        }
        self.tiles.insert(id, dst);
    }

    /// Emits a reduction into the accumulators of its rows, or into those of the panel.
    pub(super) fn reduction(&mut self, id: NodeId) {
        let node = self.group.graph.node(id).clone();
        let Op::Reduce { red, arg, mask, order } = &node.op else { return };
        let from = self.group.graph.node(*arg).ty;
        let count: usize = order.iter().map(|d| self.group.graph.sizes[*d as usize]).fold(1, usize::saturating_mul);
        self.per_element += 0.08;
        if self.accumulates(id) {
            return self.accumulate(id, *red, *arg, count);
        }
        let position = matches!(red, Red::ArgMax | Red::ArgMin);
        let bytes = if position { size_of::<reduce::ExtremumPosition>() } else { 8 };
        let acc = self.reserve(self.width * bytes);
        let start = (!position).then(|| reduce::start(*red, from.is_float()));
        self.phase().before.push(Step::Clear { acc, start });
        let products = self.products(id);
        let locs: SmallVec<[Loc; 2]> = match products {
            Some(ref xs) => xs.iter().map(|x| self.operand(*x)).collect(),
            None => [self.operand(*arg)].into_iter().collect(),
        };
        let src = self.slots(&locs);
        let step = if position {
            let mask = mask.map(|m| {
                let loc = self.operand(m);
                self.slots(&[loc])
            });
            Step::Search {
                f: reduce::search(from, self.isa),
                src,
                bytes: from.size(),
                mask,
                max: *red == Red::ArgMax,
                acc,
            }
        } else {
            Step::Fold { f: self.fold(*red, from, false, products.is_some()), src, bytes: from.size(), acc }
        };
        self.push(At::Tiles, step);
        let dst = self.reserve(self.width * node.ty.size());
        let red = (!position).then_some(*red);
        self.phase().after.push(Step::Finish { acc, red, dtype: node.ty, count, dst });
        self.rows.insert(id, dst);
    }

    /// The fold of a line, or of the products of two lines, into one accumulator or element by element.
    fn fold(&self, red: Red, from: DType, columns: bool, products: bool) -> FoldFn {
        match (products, columns) {
            (true, columns) => FoldFn::Products(reduce::fold_products(columns, self.isa)),
            (false, true) => FoldFn::One(reduce::fold_columns(red, from, self.isa)),
            (false, false) => FoldFn::One(reduce::fold_line(red, from, self.isa)),
        }
    }

    fn accumulate(&mut self, id: NodeId, red: Red, arg: NodeId, count: usize) {
        let node = self.group.graph.node(id).clone();
        let Op::Reduce { order, .. } = &node.op else { return };
        let from = self.group.graph.node(arg).ty;
        let touched: DimSet = node.dims.union(order.iter().copied().collect()).union(self.group.graph.node(arg).dims);
        let at = if touched.meet(self.inner).is_empty() { At::Rows { after: false } } else { At::Tiles };
        let fast = match at {
            At::Tiles => self.n.last(),
            _ => self.n.outer,
        };
        for out in self.group.outs.iter().filter(|o| o.node == id).cloned().collect::<Vec<_>>() {
            let Place::Axes(axes) = &out.place else { continue };
            if !(self.env.stored)(out.value) {
                continue;
            }
            let strides = self.n.lin(&out_bytes(out.value, axes, self.env, &self.group.graph.sizes, 1));
            let varies = |l: usize| self.n.loops[l].iter().any(|d| node.dims.has(*d));
            let first = self.p.slice_loops;
            let mut lin = Lin { base: 0, coefs: SmallVec::from_elem(0, self.n.loops.len()) };
            let mut len = 1;
            let mut inner = Vec::new();
            for l in (first..self.n.loops.len()).rev().filter(|l| varies(*l)) {
                lin.coefs[l] = len as i64;
                len *= self.n.sizes[l];
                inner.insert(0, (self.n.sizes[l], strides.coefs[l]));
            }
            let slices = (0..first).map(|l| (self.n.sizes[l], strides.coefs[l])).collect();
            let columns = lin.coefs[fast] != 0;
            let products = self.products(id);
            let f = self.fold(red, from, columns, products.is_some());
            let acc = self.p.accs.len() as u32;
            let first = self.p.acc_len();
            self.p.accs.push(Acc {
                value: out.value,
                red,
                float: from.is_float(),
                dtype: node.ty,
                count,
                at: lin,
                len,
                slices,
                inner,
            });
            let locs: SmallVec<[Loc; 2]> = match products {
                Some(ref xs) => xs.iter().map(|x| self.arg(*x, at)).collect(),
                None => [self.arg(arg, at)].into_iter().collect(),
            };
            let src = self.slots(&locs);
            self.push(at, Step::Accumulate { acc, first, f, src, bytes: from.size() });
        }
    }

    /// Emits a scatter: elements go to the places that their indices name.
    pub(super) fn scatter(
        &mut self,
        out: &Out,
        idx: &[Index],
        mask: Option<NodeId>,
        (how, strict): (Combine, bool),
        cursor: u32,
    ) {
        let ty = self.env.values.ty(out.value).clone();
        let form = (self.env.form)(out.value);
        let graph = &self.group.graph;
        let mut dims = graph.node(out.node).dims;
        if let Place::Scatter { order, .. } = &out.place {
            dims = dims.union(order.iter().copied().collect());
        }
        for i in idx {
            dims = dims.union(match i {
                Index::Affine(a) => a.dims(),
                Index::Node(n) => graph.node(*n).dims,
            });
        }
        let at = if dims.meet(self.inner).is_empty() { At::Rows { after: false } } else { At::Tiles };
        let axes = self.guards(idx, &ty.shape);
        let nodes: Vec<(usize, NodeId)> = idx
            .iter()
            .enumerate()
            .filter_map(|(axis, i)| if let Index::Node(n) = i { Some((axis, *n)) } else { None })
            .collect();
        let last = self.n.last();
        let by_rows = at == At::Tiles
            && self.n.tile.0 == 1
            && mask.is_none()
            && matches!(how, Combine::Add | Combine::Replace)
            && self.p.cursors[cursor as usize].at.coefs[last] == ty.dtype.size() as i64
            && axes.iter().all(|(l, _)| l.coefs[last] == 0)
            && nodes.iter().all(|(_, n)| self.rows.contains_key(n));
        let coords = nodes
            .into_iter()
            .map(|(axis, n)| {
                let slot = if by_rows {
                    self.rows[&n]
                } else {
                    let loc = self.arg(n, at);
                    self.slots(&[loc])
                };
                Coord { slot, stride: form.strides[axis] * ty.dtype.size() as i64, size: ty.shape[axis] as i64, axis }
            })
            .collect();
        let loc = self.arg(out.node, at);
        let src = self.slots(&[loc]);
        let mask = mask.map(|m| {
            let loc = self.arg(m, at);
            self.slots(&[loc])
        });
        let step = Scatter {
            f: fulgurite_kernels::gather::scatter_fn(ty.dtype),
            named: fulgurite_kernels::gather::scatter_line_fn(ty.dtype),
            line: fulgurite_kernels::gather::add_line_fn(ty.dtype, self.isa),
            bytes: ty.dtype.size(),
            cursor,
            src,
            coords,
            axes,
            mask,
            how,
            strict: strict.then(|| fulgurite_kernels::gather::outside::pick(self.isa)),
            rows: by_rows,
        };
        self.push(at, Step::Scatter(Box::new(step)));
        self.per_element += if by_rows { 0.1 } else { 1.5 };
    }
}

/// A number in its stored form, and its size in bytes.
pub fn stored_bits(s: fulgurite_core::Scalar, dtype: DType) -> ([u8; 8], usize) {
    (storage::encode(cast_scalar(s, dtype), dtype).to_ne_bytes(), dtype.size())
}
