//! Makes items of lines: values, pieces, fusions. Every executor that compiles several lines at once begins here.

use super::fuse::{Apart, Form, Fused, Fuser, Group, Item, Opaque, live};
use super::graph::affine::Affine;
use super::graph::convert::{LineIo, convert};
use super::graph::piece::{Out, Piece, Place, Values};
use super::graph::row::RowKernel;
use super::graph::{Axis, DimSet, Index, NodeId, Op, ValueId, unroll};
use crate::executors::line::stored;
use crate::executors::require::{Assert, Check};
use crate::executors::{ExecError, Line};
use crate::trace::{BoundSymbolId, ProxyId, Role, Trace};
use fulgurite_core::DType;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

/// The line that an item came from.
pub(crate) struct Named {
    pub id: BoundSymbolId,
    pub name: &'static str,
    pub executor: &'static str,
    /// The file and line of its row.
    pub place: (&'static str, u32),
    /// The values in which the line reads or places elements by an index tensor, to find the line of a wrong index.
    pub picks: Vec<ValueId>,
}

/// The capabilities of an executor.
#[derive(Clone, Copy)]
pub(crate) struct Ways {
    /// The kernel of a pointwise line's row, if the executor uses one and it exists.
    pub row_kernel: fn(&Line) -> Option<RowKernel>,
    /// Whether products take operands that are both f16, or both bf16, in their own layout, even if earlier lines
    /// widened them.
    pub halves: bool,
    /// Whether products of f32 take an operand that slides, in its own layout.
    pub slides: bool,
}

/// Lines that are being made into items.
pub(crate) struct Items<'t> {
    trace: &'t Trace,
    pub values: Values,
    pub of_proxy: FxHashMap<ProxyId, ValueId>,
    pub lines: Vec<Named>,
    /// For each f32 value with the elements of an f16 or bf16 value, that value.
    widened: FxHashMap<ValueId, ValueId>,
    fuser: Fuser,
    ways: Ways,
    executor: &'static str,
}

/// Items in the order in which they run, with the layout of their values.
pub(crate) struct Made {
    pub items: Vec<(Item, Vec<u32>)>,
    /// The values that must exist in memory.
    pub needed: FxHashSet<ValueId>,
    /// Pairs of lines that were not fused, if they were requested.
    pub apart: Vec<Apart>,
    forms: FxHashMap<ValueId, Form>,
}

impl Made {
    /// The layout of a value.
    pub fn form(&self, v: ValueId, values: &Values) -> Form {
        self.forms.get(&v).cloned().unwrap_or_else(|| Form::dense(v, values.ty(v)))
    }

    /// Whether a value must exist in memory of its own.
    pub fn stored(&self, v: ValueId) -> bool {
        self.needed.contains(&v) && !self.forms.contains_key(&v)
    }
}

/// The environment in which an item is compiled.
pub struct Env<'a> {
    /// The types of values.
    pub values: &'a Values,
    /// The layout of a value.
    pub form: &'a dyn Fn(ValueId) -> Form,
    /// Whether a value that the item defines must exist in memory.
    pub stored: &'a dyn Fn(ValueId) -> bool,
    /// Values that stay in the caches, because a block of rows of them exists at a time.
    pub near: &'a [ValueId],
}

/// Values, the value of each proxy, lines, and items.
type Finished = (Values, FxHashMap<ProxyId, ValueId>, Vec<Named>, Made);

impl<'t> Items<'t> {
    pub fn new(trace: &'t Trace, executor: &'static str, ways: Ways) -> Items<'t> {
        Items {
            trace,
            values: Values::default(),
            of_proxy: FxHashMap::default(),
            lines: Vec::new(),
            widened: FxHashMap::default(),
            fuser: Fuser::default(),
            ways,
            executor,
        }
    }

    /// Notes pairs of lines that are not fused, with the reason.
    pub fn explain(&mut self) {
        self.fuser.explain = true;
    }

    pub fn value(&mut self, p: ProxyId) -> ValueId {
        let (trace, values) = (self.trace, &mut self.values);
        *self.of_proxy.entry(p).or_insert_with(|| {
            let (dtype, shape) = stored(&trace.arena.ty(p));
            values.add(dtype, &shape)
        })
    }

    /// Adds a line that is fused; `root` returns the proxy as which a proxy was defined. Conditions on indices are left
    /// to the line's scatters, if it has scatters.
    ///
    /// # Errors
    /// E802 if the line has no meaning as loops.
    pub fn line(&mut self, line: &Line, checks: &[Check], root: &dyn Fn(ProxyId) -> ProxyId) -> Result<(), ExecError> {
        let mut pieces = self.pieces(line, root)?;
        for check in checks {
            let index = |tensor: usize| self.of_proxy.get(&root(*line.tensors.get(tensor)?)).copied();
            let asked = check.range().and_then(|(tensor, size)| Some((index(tensor)?, size)));
            if !asked.is_some_and(|(index, size)| pieces.iter_mut().any(|piece| asks(piece, index, size, &self.values)))
            {
                self.check(line, check, root);
            }
        }
        self.named(line);
        if let Some(named) = self.lines.last_mut() {
            named.picks = pieces.iter().flat_map(picked).collect();
        }
        for mut piece in pieces {
            if self.ways.halves {
                self.widened.extend(widening(&piece, &self.values));
                self.multiply_halves(&mut piece);
            }
            self.fuser.piece(piece, &mut self.values);
        }
        Ok(())
    }

    /// Lets a product take its operands as they were before they were widened. Programs widen the operands of products
    /// so that terms added to a product are added in f32, and the product of the halves has equal elements in f32.
    fn multiply_halves(&self, piece: &mut Piece) {
        let Piece::Contract(c) = piece else { return };
        let source = |v: ValueId| self.widened.get(&v).copied();
        if let (Some(a), Some(b), None, None) = (source(c.a.value), source(c.b.value), &c.chunk, &c.exact)
            && self.values.ty(a).dtype == self.values.ty(b).dtype
        {
            (c.a.value, c.b.value) = (a, b);
        }
    }

    fn pieces(&mut self, line: &Line, root: &dyn Fn(ProxyId) -> ProxyId) -> Result<Vec<Piece>, ExecError> {
        let nest = match line.nest() {
            Some(nest) => nest?,
            None => {
                return Err(
                    ExecError::new("E802", format!("`{}` has no meaning that can be fused", line.name())).at(line.id())
                );
            }
        };
        if !line.symbol.effects.writes.is_empty() {
            let what = format!("`{}` writes its arguments: functionalise the trace before it is compiled", line.name());
            return Err(ExecError::new("E802", what).at(line.id()));
        }
        let io = LineIo {
            tensors: line.tensors.iter().map(|p| self.value(root(*p))).collect(),
            nums: line.nums.iter().map(|p| self.value(root(*p))).collect(),
            outs: line.wanted(nest.outs.len()).into_iter().map(|p| p.map(|p| self.value(p))).collect(),
            row: (self.ways.row_kernel)(line),
            halves: self.ways.halves,
            slides: self.ways.slides,
            nest,
        };
        Ok(convert(&io, &mut self.values))
    }

    /// Adds a condition: its truth as a value, and a step that fails if it is false.
    pub fn check(&mut self, line: &Line, check: &Check, root: &dyn Fn(ProxyId) -> ProxyId) {
        self.named(line);
        let shape: SmallVec<[usize; 6]> =
            check.nest.outs.iter().flat_map(|o| &o.shape).map(|d| d.value() as usize).collect();
        let holds = self.values.add(DType::Bool, &shape);
        let io = LineIo {
            tensors: line.tensors.iter().map(|p| self.value(root(*p))).collect(),
            nums: line.nums.iter().map(|p| self.value(root(*p))).collect(),
            outs: vec![Some(holds)],
            row: None,
            halves: false,
            slides: false,
            nest: check.nest.clone(),
        };
        for piece in convert(&io, &mut self.values) {
            self.fuser.piece(piece, &mut self.values);
        }
        let assert = Assert { message: check.message.clone(), code: check.code() };
        let assert = Opaque { kernel: Arc::new(assert), inputs: vec![holds], outs: Vec::new(), refuses: true };
        self.fuser.opaque(assert, &mut self.values);
    }

    fn named(&mut self, line: &Line) {
        self.fuser.line(self.lines.len() as u32, line.symbol.place.role);
        let text = &line.symbol.symbol.text;
        let (id, name, place) = (line.id(), line.name(), (text.file, text.line));
        self.lines.push(Named { id, name, executor: self.executor, place, picks: Vec::new() });
    }

    /// Adds a kernel that another executor brought for a line.
    pub fn kernel(&mut self, id: BoundSymbolId, executor: &'static str, opaque: Opaque) {
        self.fuser.line(self.lines.len() as u32, Role::Forward);
        self.lines.push(Named { id, name: "", executor, place: ("", 0), picks: Vec::new() });
        self.fuser.opaque(opaque, &mut self.values);
    }

    /// A dense value with the elements of a proxy.
    pub fn dense(&mut self, p: ProxyId) -> ValueId {
        let v = self.value(p);
        self.fuser.dense(v, &mut self.values)
    }

    /// Returns the items that `outputs` need, in a program with these inputs.
    ///
    /// # Errors
    /// E802, as [`Fuser::finish`] reports it, and E811 if an item reads a value that no item before it writes.
    pub fn finish(self, inputs: &[ValueId], outputs: &[ValueId]) -> Result<Finished, ExecError> {
        let Items { trace, values, of_proxy, lines, fuser, .. } = self;
        let Fused { items, forms, apart } = fuser.finish(outputs)?;
        let form = |v: ValueId| forms.get(&v).cloned().unwrap_or_else(|| Form::dense(v, values.ty(v)));
        let (mut items, needed) = prune(items, outputs, &form);
        for (item, _) in &mut items {
            if let Item::Group(group) = item {
                unroll_choices(group);
            }
        }
        super::unused::note(&mut items, outputs, &values, &form);
        if let Some((value, of)) = unwritten(&items, inputs, outputs, &values, &form) {
            let name = of_proxy.iter().find(|(_, v)| **v == value).map(|(p, _)| trace.arena.name(*p));
            let claim = format!("the program reads `{}` before it is written", name.as_deref().unwrap_or("a value"));
            let error = ExecError::new("E811", claim);
            return Err(of.and_then(|l| lines.get(l as usize)).map_or(error.clone(), |l| error.at(l.id)));
        }
        Ok((values, of_proxy, lines, Made { items, needed, apart, forms }))
    }
}

/// Unrolls reductions over tensors that the group itself joins, if it does not store the joined tensor.
fn unroll_choices(group: &mut Group) {
    let fixed = group.outs.iter().fold(DimSet::EMPTY, |all, out| match &out.place {
        Place::Axes(axes) => all.union(axes.iter().flatten().copied().collect()),
        Place::Scatter { order, .. } => all.union(order.iter().copied().collect()),
    });
    let Some((graph, at)) = unroll::choices(&group.graph, &live(group), fixed) else { return };
    group.graph = graph;
    for out in &mut group.outs {
        out.node = at[out.node as usize];
        if let Place::Scatter { idx, mask, .. } = &mut out.place {
            idx.iter_mut().for_each(|i| {
                if let Index::Node(n) = i {
                    *n = at[*n as usize];
                }
            });
            *mask = mask.map(|m| at[m as usize]);
        }
    }
}

/// The f32 value that a piece makes, with the f16 or bf16 value that has its elements at equal positions, if the piece
/// only widens.
fn widening(piece: &Piece, values: &Values) -> Option<(ValueId, ValueId)> {
    let Piece::Map(fragment) = piece else { return None };
    let [out] = fragment.outs.as_slice() else { return None };
    let Place::Axes(axes) = &out.place else { return None };
    let Op::Load(load) = &fragment.graph.node(out.node).op else { return None };
    let (from, to) = (values.ty(load.value), values.ty(out.value));
    let same = |(axis, index): (&Axis, &Index)| match (axis.as_slice(), index) {
        ([], Index::Affine(a)) => a.as_constant() == Some(0),
        ([d], Index::Affine(a)) => *a == Affine::dim(*d),
        _ => false,
    };
    let widens = matches!(from.dtype, DType::F16 | DType::BF16) && to.dtype == DType::F32 && from.shape == to.shape;
    let whole = load.outside.is_none() && axes.len() == load.idx.len() && axes.iter().zip(&load.idx).all(same);
    (widens && whole).then_some((out.value, load.value))
}

/// The values whose elements a piece reads or places by computed indices.
fn picked(piece: &Piece) -> Vec<ValueId> {
    let Piece::Map(fragment) = piece else { return Vec::new() };
    let computed = |idx: &[Index]| idx.iter().any(|i| matches!(i, Index::Node(_)));
    let loads = fragment.graph.nodes.iter().filter_map(|n| match &n.op {
        Op::Load(l) if computed(&l.idx) => Some(l.value),
        _ => None,
    });
    let placed = fragment.outs.iter().filter(|o| matches!(&o.place, Place::Scatter { idx, .. } if computed(idx)));
    loads.chain(placed.map(|o| o.value)).collect()
}

/// Whether a piece scatters an element for each element of `index`, along an axis of this size; then an index out of
/// range becomes an error of the scatter.
fn asks(piece: &mut Piece, index: ValueId, size: i64, values: &Values) -> bool {
    let Piece::Map(fragment) = piece else { return false };
    let elements: usize = values.ty(index).shape.iter().product();
    let graph = &fragment.graph;
    // each element has its own loops, and these run over nothing else, so no element is left out
    let is_index = |n: NodeId| match &graph.node(n).op {
        Op::Load(l) if l.value == index && l.outside.is_none() => {
            let alone = |i: &Index| match i {
                Index::Affine(a) => a.dims().iter().next().filter(|d| *a == Affine::dim(*d)),
                Index::Node(_) => None,
            };
            let dims: Option<Vec<_>> = l.idx.iter().map(alone).collect();
            dims.is_some_and(|dims| {
                let all: FxHashSet<_> = dims.iter().copied().collect();
                all.len() == dims.len()
                    && dims.iter().map(|d| graph.sizes[*d as usize]).fold(1, usize::saturating_mul) == elements
            })
        }
        _ => false,
    };
    for out in &mut fragment.outs {
        let shape = &values.ty(out.value).shape;
        let Place::Scatter { idx, mask: None, strict, .. } = &mut out.place else { continue };
        let mut named = idx.iter().enumerate().filter_map(|(axis, i)| match i {
            Index::Node(n) => Some((axis, *n)),
            Index::Affine(_) => None,
        });
        if let (Some((axis, n)), None) = (named.next(), named.next())
            && shape[axis] as i64 == size
            && is_index(n)
        {
            *strict = true;
            return true;
        }
    }
    false
}

/// The first value that an item or an output reads before an item has written it, with a line of the reader.
fn unwritten(
    items: &[(Item, Vec<u32>)],
    inputs: &[ValueId],
    outputs: &[ValueId],
    values: &Values,
    form: &dyn Fn(ValueId) -> Form,
) -> Option<(ValueId, Option<u32>)> {
    // a value without elements is never read
    let lacks = |written: &FxHashSet<ValueId>, v: ValueId| {
        let root = form(v).root;
        values.ty(root).elements() > 0 && !written.contains(&root)
    };
    let mut written: FxHashSet<ValueId> = inputs.iter().map(|v| form(*v).root).collect();
    for (item, lines) in items {
        let reads = match item {
            Item::Group(g) => g.live_reads(),
            other => other.reads(),
        };
        if let Some(v) = reads.into_iter().find(|v| lacks(&written, *v)) {
            return Some((v, lines.last().copied()));
        }
        written.extend(item.defines().into_iter().map(|v| form(v).root));
    }
    outputs.iter().find(|v| lacks(&written, **v)).map(|v| (*v, None))
}

/// Drops items and results that no output needs and that can't refuse; returns the dense values that are needed.
fn prune(
    items: Vec<(Item, Vec<u32>)>,
    outputs: &[ValueId],
    form: &dyn Fn(ValueId) -> Form,
) -> (Vec<(Item, Vec<u32>)>, FxHashSet<ValueId>) {
    let mut needed: FxHashSet<ValueId> = outputs.iter().map(|v| form(*v).root).collect();
    let mut kept = Vec::new();
    for (mut item, lines) in items.into_iter().rev() {
        let refuses = match &mut item {
            Item::Group(g) => {
                g.keep(&|o: &Out| needed.contains(&o.value) && form(o.value).root == o.value);
                // a result that is computed only because it may refuse needs memory too
                needed.extend(g.outs.iter().map(|o| o.value));
                !g.outs.is_empty()
            }
            Item::Opaque(o) => o.refuses,
            Item::Contract(_) | Item::Scan(_) => false,
        };
        if !refuses && !item.defines().iter().any(|v| needed.contains(v)) {
            continue;
        }
        let reads = match &item {
            Item::Group(g) => g.live_reads(),
            other => other.reads(),
        };
        needed.extend(reads.into_iter().map(|v| form(v).root));
        // A kernel writes all of its results, whether or not they are wanted.
        needed.extend(if matches!(item, Item::Opaque(_)) { item.defines() } else { Vec::new() });
        kept.push((item, lines));
    }
    kept.reverse();
    (kept, needed)
}
