//! Fusion: pieces of lines are joined greedily into programs.
//!
//! Pieces come in the order of the trace. A map joins the group that defines its inputs, or that reads them too, if
//! their loops agree and no other item would have to run in between. Two groups that a map connects are merged. Views
//! are not items: they are windows of other values. Values that cost nothing to compute (constants, masks made of
//! indices) are computed again wherever they are read.
//!
//! **Invariant:** an item is in the ancestor set of another if and only if it must run before it.

mod bits;
pub mod group;
mod legality;
mod liveness;
mod transaction;
mod unify;
pub mod views;

use super::graph::piece::{Contract, Fragment, Out, Piece, Place, Scan, Slow, Values};
use super::graph::{Affine, Axis, Graph, Index, Op, ValueId};
use crate::executors::ExecError;
use crate::executors::loop_nest::NestKernel;
use crate::trace::Role;
use bits::BitSet;
use fulgurite_core::refusals;
pub use group::{Group, live};
pub use legality::row_dims;
pub use liveness::placed;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;
use transaction::Transaction;
pub use views::Form;

/// A kernel that is not fused: it reads and writes dense values.
pub struct Opaque {
    pub kernel: Arc<dyn crate::executors::Kernel>,
    /// The values that the kernel reads.
    pub inputs: Vec<ValueId>,
    /// The values that the kernel writes.
    pub outs: Vec<ValueId>,
    /// Whether the kernel runs even if no item reads its results, because it may refuse.
    pub refuses: bool,
}

/// An item to run.
pub enum Item {
    /// A fusion, or a single map.
    Group(Group),
    /// A matrix product.
    Contract(Box<Contract>),
    Scan(Scan),
    /// A kernel that another executor brought.
    Opaque(Opaque),
}

impl Item {
    /// The values that the item reads.
    pub fn reads(&self) -> Vec<ValueId> {
        let mut out = Vec::new();
        match self {
            Item::Group(g) => return g.reads(),
            Item::Contract(c) => {
                let own = c.chunk.as_ref().map(|k| k.packed);
                out.extend([c.a.value, c.b.value].into_iter().filter(|v| Some(*v) != own));
                out.extend(c.chunk.as_ref().map(|k| k.source));
                out.extend(c.exact.iter().flat_map(|e| e.sum.reads()));
            }
            Item::Scan(s) => out.push(s.input),
            Item::Opaque(o) => out.extend(&o.inputs),
        }
        out.sort_unstable();
        out.dedup();
        out
    }

    /// The values that the item defines.
    pub fn defines(&self) -> Vec<ValueId> {
        match self {
            Item::Group(g) => g.outs.iter().map(|o| o.value).collect(),
            Item::Contract(c) => vec![c.out],
            Item::Scan(s) => vec![s.out],
            Item::Opaque(o) => o.outs.clone(),
        }
    }
}

/// About this many entries are open for further lines, because each line is compared with all of them. When there are
/// more, they are closed and run before all later ones, so a program of n lines is fused in time proportional to n.
const OPEN: usize = 2048;

struct Entry {
    item: Item,
    /// Every open entry that must run before this one, counted from the first open one.
    ancestors: BitSet,
    /// The lines that the entry runs, in the order in which they came.
    lines: Vec<u32>,
    when: When,
}

/// Whether a group has lines of the forward, or lines that are recomputed for the backward. Recomputed lines read the
/// same inputs as the forward. Fusing them with it would run them early and defeat rematerialisation, so they are never
/// fused.
#[derive(Clone, Copy, Default)]
struct When {
    forward: bool,
    again: bool,
}

impl When {
    fn of(role: Role) -> When {
        When { forward: role == Role::Forward, again: role == Role::Recompute }
    }
    fn and(self, other: When) -> When {
        When { forward: self.forward || other.forward, again: self.again || other.again }
    }
    fn may_join(self, other: When) -> bool {
        let both = self.and(other);
        !(both.forward && both.again)
    }
}

/// The reason why a line does not run in one program with a line whose result it reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Separate {
    /// The other line is a product, a scan or a kernel of its own.
    Kernel,
    /// One line is recomputed for the backward, the other belongs to the forward.
    Again,
    /// Another item has to run between the two lines: it waits for one of them, and the other waits
    /// for it.
    Between,
    /// The loops of the lines do not agree, or together they are too large for one program.
    Loops,
}

/// Two lines that are not fused.
#[derive(Clone, Copy, Debug)]
pub struct Apart {
    /// The line that reads.
    pub line: u32,
    /// A line of the item that defines the value.
    pub other: u32,
    /// The reason.
    pub why: Separate,
}

/// The result of fusion.
pub struct Fused {
    /// Pairs of lines that were not fused, if they were requested.
    pub apart: Vec<Apart>,
    /// The items in an order in which they can run, each with its lines.
    pub items: Vec<(Item, Vec<u32>)>,
    /// The layout of every value that is a window of another one.
    pub forms: FxHashMap<ValueId, Form>,
}

/// The places of values.
#[derive(Default)]
struct Defined {
    /// The entry that defines each value.
    producer: FxHashMap<ValueId, usize>,
    /// For each entry that was merged into another, that other entry.
    merged: FxHashMap<usize, usize>,
    forms: FxHashMap<ValueId, Form>,
}

impl Defined {
    /// The dense value of which a value is a window, or the value itself.
    fn root(&self, value: ValueId) -> ValueId {
        self.forms.get(&value).map_or(value, |f| f.root)
    }

    /// The entry that defines a value, or the value of which it is a window.
    fn by(&self, value: ValueId) -> Option<usize> {
        let made = self.producer.get(&value).or_else(|| self.producer.get(&self.root(value)));
        made.map(|at| self.entry(*at))
    }

    /// The entry that contains entry `at` now.
    fn entry(&self, mut at: usize) -> usize {
        while let Some(of) = self.merged.get(&at) {
            at = *of;
        }
        at
    }
}

/// Joins pieces to items.
#[derive(Default)]
pub struct Fuser {
    entries: Vec<Option<Entry>>,
    /// The first open entry.
    open: usize,
    /// The first entries of earlier ranges of open entries, in order.
    closed: Vec<usize>,
    defined: Defined,
    /// The last group that reads each value.
    reader: FxHashMap<ValueId, usize>,
    generators: FxHashMap<ValueId, Rc<Fragment>>,
    line: u32,
    when: When,
    /// Whether pairs of lines that are not fused are noted.
    pub explain: bool,
    apart: Vec<Apart>,
}

impl Fuser {
    /// Names the line whose pieces come next.
    pub fn line(&mut self, line: u32, role: Role) {
        self.line = line;
        self.when = When::of(role);
    }

    /// Adds a piece.
    pub fn piece(&mut self, piece: Piece, values: &mut Values) {
        match piece {
            Piece::Map(fragment) => self.map(fragment, values),
            Piece::Copy(fragment) => self.item(Item::Group(Group::of(Rc::new(fragment)))),
            Piece::Contract(c) => self.item(Item::Contract(c)),
            Piece::Scan(s) => self.item(Item::Scan(s)),
            Piece::Slow(s) => self.slow(s, values),
            Piece::Flat(of, flat) => self.flat(of, flat, values),
        }
    }

    /// Adds a kernel that is not fused.
    pub fn opaque(&mut self, mut opaque: Opaque, values: &mut Values) {
        for v in &mut opaque.inputs {
            *v = self.dense(*v, values);
        }
        self.item(Item::Opaque(opaque));
    }

    /// Adds a nest without a graph, which the interpreter's kernel runs.
    fn slow(&mut self, s: Slow, values: &mut Values) {
        let refuses = refusals::of_nest(&s.nest);
        let kernel = NestKernel::new(s.nest, s.tensors.len(), s.outs.len(), s.why);
        let inputs = s.tensors.iter().chain(&s.nums).copied().collect();
        self.opaque(Opaque { kernel: Arc::new(kernel), inputs, outs: s.outs, refuses }, values);
    }

    /// A dense value with the elements of `value`: the value itself, or a copy.
    pub fn dense(&mut self, value: ValueId, values: &mut Values) -> ValueId {
        self.materialise(value);
        let form = self.form(value, values);
        if form.is_dense(values.ty(value), values.ty(form.root)) {
            return value;
        }
        let ty = values.ty(value).clone();
        let copy = values.add(ty.dtype, &ty.shape);
        self.group(Rc::new(identity(value, copy, values)));
        copy
    }

    /// The layout of a value.
    pub fn form(&self, value: ValueId, values: &Values) -> Form {
        self.defined.forms.get(&value).cloned().unwrap_or_else(|| Form::dense(value, values.ty(value)))
    }

    /// Computes a value into memory that is otherwise computed again wherever it is read.
    fn materialise(&mut self, value: ValueId) {
        let root = self.defined.root(value);
        if self.defined.producer.contains_key(&root) {
            return;
        }
        if let Some(fragment) = self.generators.get(&root).cloned() {
            self.group(fragment);
        }
    }

    fn flat(&mut self, of: ValueId, flat: ValueId, values: &mut Values) {
        let source = self.dense(of, values);
        let form = self.form(source, values);
        self.defined.forms.insert(flat, Form { root: form.root, offset: 0, strides: smallvec::smallvec![1] });
    }

    fn map(&mut self, fragment: Fragment, values: &mut Values) {
        let mut fragment = self.inline(fragment);
        for out in &mut fragment.outs {
            if let Place::Scatter { base: Some(base), .. } = &mut out.place {
                *base = self.dense(*base, values);
            }
        }
        let (views, rest): (Vec<Out>, Vec<Out>) = fragment.outs.iter().cloned().partition(|out| {
            let form = |v: ValueId| (!self.generators.contains_key(&v)).then(|| self.form(v, values));
            views::as_view(&fragment, out, values, &form).is_some()
        });
        for out in views {
            let form = |v: ValueId| Some(self.form(v, values));
            let Some((source, view)) = views::as_view(&fragment, &out, values, &form) else { continue };
            self.defined.forms.insert(out.value, view);
            // Inside the group that defines the source, knowing the view as well costs nothing.
            let part = Rc::new(Fragment { graph: fragment.graph.clone(), outs: vec![out], view: true });
            if let Some(at) = self.defined.by(source) {
                self.extend(at, &part);
            }
        }
        if rest.is_empty() {
            return;
        }
        let fragment = Rc::new(Fragment { graph: fragment.graph, outs: rest, view: false });
        if is_generator(&fragment) {
            for out in &fragment.outs {
                let one = Fragment { graph: fragment.graph.clone(), outs: vec![out.clone()], view: false };
                self.generators.insert(out.value, Rc::new(one));
            }
            return;
        }
        self.group(fragment);
    }

    /// Replaces loads of generators in a fragment by the generators themselves.
    fn inline(&self, fragment: Fragment) -> Fragment {
        let loads_one = |op: &Op| matches!(op, Op::Load(l) if self.generators.contains_key(&l.value));
        if self.generators.is_empty() || !fragment.graph.nodes.iter().any(|n| loads_one(&n.op)) {
            return fragment;
        }
        let mut graph = Graph::with_dims(fragment.graph.sizes.clone());
        let map: Vec<Affine> = (0..graph.sizes.len()).map(|d| Affine::dim(d as u8)).collect();
        let order: Vec<Axis> = (0..graph.sizes.len()).map(|d| Axis::from_slice(&[d as u8])).collect();
        let nodes = fragment.graph.translate(&mut graph, &map, &order, &mut |into, load| {
            let generator = self.generators.get(&load.value)?;
            let Place::Axes(axes) = &generator.outs[0].place else { return None };
            let mut at = vec![Affine::default(); generator.graph.sizes.len()];
            for (index, axis) in load.idx.iter().zip(axes) {
                match (index, axis.as_slice()) {
                    // the load must test an index that may be out of range, even if all elements are alike
                    (Index::Affine(_), []) if load.outside.is_none() => {}
                    (Index::Affine(a), [d]) if load.outside.is_none() => at[*d as usize] = a.clone(),
                    _ => return None,
                }
            }
            let empty = vec![Axis::new(); at.len()];
            let made = generator.graph.translate(into, &at, &empty, &mut |_, _| None)?;
            Some(made[generator.outs[0].node as usize])
        });
        let Some(nodes) = nodes else { return fragment };
        let outs = fragment.outs.iter().map(|o| {
            let place = match &o.place {
                Place::Scatter { idx, mask, how, strict, base, order } => Place::Scatter {
                    idx: idx.iter().filter_map(|i| i.translate(&map, &nodes)).collect(),
                    mask: mask.map(|m| nodes[m as usize]),
                    how: *how,
                    strict: *strict,
                    base: *base,
                    order: order.clone(),
                },
                axes => axes.clone(),
            };
            Out { value: o.value, node: nodes[o.node as usize], place }
        });
        Fragment { outs: outs.collect(), graph, view: fragment.view }
    }

    /// Adds a fragment to the group that fits best, or to a new one.
    fn group(&mut self, fragment: Rc<Fragment>) {
        let reads = fragment.reads();
        for &v in &reads {
            self.materialise(v);
        }
        let producers: Vec<usize> = self.entries_of(&reads);
        let mut candidates = producers.clone();
        // The group that defines the largest value comes first, because joining it saves most memory; then the newest.
        candidates.sort_by_cached_key(|at| Reverse((self.largest(*at, &reads), *at)));
        let open = |at: &usize| *at >= self.open;
        let mut readers: Vec<usize> =
            reads.iter().filter_map(|v| Some(self.defined.entry(*self.reader.get(v)?))).filter(open).collect();
        readers.sort_unstable_by(|a, b| b.cmp(a));
        for r in readers {
            if !candidates.contains(&r) {
                candidates.push(r);
            }
        }
        let joins = |at: usize| self.entries[at].as_ref().is_none_or(|e| e.when.may_join(self.when));
        let candidates: Vec<usize> = candidates.into_iter().filter(|at| joins(*at)).collect();
        let home = candidates.into_iter().find(|at| self.may_follow(*at, &producers) && self.extend(*at, &fragment));
        let at = match home {
            Some(at) => {
                self.absorb(at, &producers);
                at
            }
            None => {
                self.item(Item::Group(Group::of(fragment.clone())));
                self.entries.len() - 1
            }
        };
        self.note(at, &fragment, &reads);
        if home.is_some() {
            for &other in &producers {
                self.merge(at, other);
            }
        }
        if self.explain {
            let others = self.entries_of(&reads);
            let apart = others.into_iter().filter(|other| *other != at).filter_map(|other| self.why(at, other));
            let apart: Vec<Apart> = apart.collect();
            self.apart.extend(apart);
        }
    }

    /// The elements of the largest of these values that the group at `at` defines.
    fn largest(&self, at: usize, values: &[ValueId]) -> usize {
        let Some(Some(Entry { item: Item::Group(group), .. })) = self.entries.get(at) else { return 0 };
        let axes = values.iter().filter_map(|v| group.members.get(v)?.axes.as_ref());
        let elements = |axes: &Rc<[Axis]>| -> usize {
            axes.iter().flatten().map(|d| group.graph.sizes[*d as usize]).fold(1, usize::saturating_mul)
        };
        axes.map(elements).max().unwrap_or(0)
    }

    /// The reason why entry `at`, which has the current line, and entry `other` are not fused.
    fn why(&self, at: usize, other: usize) -> Option<Apart> {
        let (Some(Some(a)), Some(Some(b))) = (self.entries.get(at), self.entries.get(other)) else { return None };
        let why = if !matches!(b.item, Item::Group(_)) {
            Separate::Kernel
        } else if !a.when.may_join(b.when) {
            Separate::Again
        } else if self.between(at, other) {
            Separate::Between
        } else {
            Separate::Loops
        };
        Some(Apart { line: self.line, other: b.lines.last().copied()?, why })
    }

    /// Whether an item has to run between two entries.
    fn between(&self, at: usize, other: usize) -> bool {
        let reads = |i: usize| self.entries[i].as_ref().map_or_else(Vec::new, |e| self.entries_of(&e.item.reads()));
        let waits = |before: &[usize], not: usize, forbidden: usize| {
            before
                .iter()
                .any(|p| *p != not && self.entries[*p].as_ref().is_some_and(|e| e.ancestors.has(forbidden - self.open)))
        };
        let (before, before_other) = (reads(at), reads(other));
        waits(&before, other, other) || waits(&before_other, at, at) || before_other.contains(&at)
    }

    /// Adds `fragment` to the group at `at`, if the result can be one program.
    fn extend(&mut self, at: usize, fragment: &Rc<Fragment>) -> bool {
        let Fuser { entries, defined, .. } = self;
        let Some(Some(Entry { item: Item::Group(group), .. })) = entries.get_mut(at) else { return false };
        let mut transaction = Transaction::of(group);
        // A program can't read from memory a value that it defines.
        let own = |g: &Group| g.reads_any(|v| defined.by(v) == Some(at));
        let good = transaction.add(fragment) && transaction.fits() && !own(transaction.group);
        if good {
            transaction.keep();
        }
        good
    }

    fn note(&mut self, at: usize, fragment: &Fragment, reads: &[ValueId]) {
        for out in &fragment.outs {
            self.defined.producer.insert(out.value, at);
        }
        for v in reads {
            self.reader.insert(*v, at);
        }
        if let Some(Some(e)) = self.entries.get_mut(at)
            && e.lines.last() != Some(&self.line)
        {
            e.lines.push(self.line);
            e.when = e.when.and(self.when);
        }
    }

    /// The open entries that define these values.
    fn entries_of(&self, values: &[ValueId]) -> Vec<usize> {
        let mut out: Vec<usize> =
            values.iter().filter_map(|v| self.defined.by(*v)).filter(|at| *at >= self.open).collect();
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Whether a reader of `producers` may be part of entry `at`: nothing in between depends on the entry.
    fn may_follow(&self, at: usize, producers: &[usize]) -> bool {
        producers
            .iter()
            .all(|p| *p == at || !self.entries[*p].as_ref().is_some_and(|e| e.ancestors.has(at - self.open)))
    }

    /// Notes that `producers` run before entry `at`, and before all entries that follow it.
    fn absorb(&mut self, at: usize, producers: &[usize]) {
        let mut before = BitSet::default();
        for &p in producers.iter().filter(|p| **p != at) {
            before.insert(p - self.open);
            if let Some(e) = &self.entries[p] {
                before.union(&e.ancestors);
            }
        }
        let at = at - self.open;
        for (i, e) in self.entries[self.open..].iter_mut().enumerate() {
            if let Some(e) = e
                && (i == at || e.ancestors.has(at))
            {
                e.ancestors.union(&before);
            }
        }
    }

    /// Merges entry `other` into entry `at`, if both are groups that fit and nothing runs between them.
    fn merge(&mut self, at: usize, other: usize) {
        if at == other {
            return;
        }
        let (Some(Some(a)), Some(Some(b))) = (self.entries.get(at), self.entries.get(other)) else { return };
        let (Item::Group(_), Item::Group(_)) = (&a.item, &b.item) else { return };
        if !a.when.may_join(b.when) {
            return;
        }
        let before_a = self.entries_of(&a.item.reads());
        let before_b = self.entries_of(&b.item.reads());
        if self.between(at, other) {
            return;
        }
        let Some(mut b) = self.entries[other].take() else { return };
        if !self.join(at, other, &mut b) {
            self.entries[other] = Some(b);
            return;
        }
        let open = self.open;
        for e in self.entries[open..].iter_mut().flatten() {
            if e.ancestors.has(other - open) {
                e.ancestors.remove(other - open);
                e.ancestors.insert(at - open);
            }
        }
        if let Some(a) = &mut self.entries[at] {
            a.item = b.item;
            a.ancestors.union(&b.ancestors);
            a.ancestors.remove(at - open);
            a.lines.extend(b.lines);
            a.when = a.when.and(b.when);
            a.lines.sort_unstable();
            a.lines.dedup();
        }
        // an entry that waited for one of the two now waits for all entries that the other needs
        let before: Vec<usize> = before_a.into_iter().chain(before_b).filter(|p| *p != other).collect();
        self.absorb(at, &before);
        self.defined.merged.insert(other, at);
    }

    /// Adds all parts of the group at `at` to that of `b`, which is entry `other`, if the result can be one program.
    fn join(&self, at: usize, other: usize, b: &mut Entry) -> bool {
        let Some(Some(Entry { item: Item::Group(ga), .. })) = self.entries.get(at) else { return false };
        let Item::Group(gb) = &mut b.item else { return false };
        let mut transaction = Transaction::of(gb);
        let own = |g: &Group| g.reads_any(|v| self.defined.by(v).is_some_and(|p| p == at || p == other));
        // Parts are added in an order in which they can run, so those of the definer come first.
        let good = ga.parts.iter().all(|p| transaction.add(p)) && transaction.fits() && !own(transaction.group);
        if good {
            transaction.keep();
        }
        good
    }

    fn item(&mut self, item: Item) {
        let reads = item.reads();
        for &v in &reads {
            self.materialise(v);
        }
        let at = self.entries.len();
        if at - self.open > OPEN {
            self.closed.push(self.open);
            self.open = at;
        }
        let producers = self.entries_of(&reads);
        for v in item.defines() {
            self.defined.producer.insert(v, at);
        }
        self.entries.push(Some(Entry { item, ancestors: BitSet::default(), lines: vec![self.line], when: self.when }));
        self.absorb(at, &producers);
    }

    /// Returns the items in order. `outputs` are the values that must exist in memory.
    ///
    /// # Errors
    /// E802 if items wait for each other. That would be a bug of fusion, and must not become a wrong result.
    pub fn finish(mut self, outputs: &[ValueId]) -> Result<Fused, ExecError> {
        for v in outputs {
            self.materialise(*v);
        }
        // An entry may depend on one that was made later, so entries are sorted by ancestors, and by their earliest
        // line among those that are ready.
        let mut items = Vec::new();
        self.closed.push(self.open);
        let ends: Vec<usize> = self.closed[1..].iter().copied().chain([self.entries.len()]).collect();
        for (from, to) in std::mem::take(&mut self.closed).into_iter().zip(ends) {
            self.order(from..to, &mut items)?;
        }
        Ok(Fused { items, forms: self.defined.forms, apart: self.apart })
    }

    /// Moves the entries that were open together to `items`.
    fn order(&mut self, range: std::ops::Range<usize>, items: &mut Vec<(Item, Vec<u32>)>) -> Result<(), ExecError> {
        let open = range.start;
        let mut done = BitSet::default();
        let mut left: Vec<usize> = range.filter(|i| self.entries[*i].is_some()).collect();
        left.sort_by_key(|i| self.entries[*i].as_ref().and_then(|e| e.lines.last().copied()));
        while !left.is_empty() {
            let ready = left.iter().position(|i| self.entries[*i].as_ref().is_some_and(|e| e.ancestors.within(&done)));
            // `may_follow` and `merge` keep the ancestor relation free of cycles, so some entry is ready
            let Some(ready) = ready else {
                return Err(ExecError::new(
                    "E802",
                    "two fusions of the program wait for each other: a bug in fulgurite",
                ));
            };
            let at = left.remove(ready);
            done.insert(at - open);
            if let Some(e) = self.entries[at].take() {
                items.push((e.item, e.lines));
            }
        }
        Ok(())
    }
}

/// Whether a fragment reads no memory and costs next to nothing.
fn is_generator(fragment: &Fragment) -> bool {
    let cheap = |op: &Op| !matches!(op, Op::Load(_) | Op::Uniform { .. } | Op::Reduce { .. } | Op::Row(_));
    let plain =
        fragment.outs.iter().all(|o| matches!(&o.place, Place::Axes(axes) if axes.iter().all(|a| a.len() <= 1)));
    plain && fragment.graph.nodes.iter().all(|n| cheap(&n.op)) && fragment.graph.nodes.len() <= 12
}

/// A fragment that copies a value.
fn identity(from: ValueId, to: ValueId, values: &Values) -> Fragment {
    let ty = values.ty(from).clone();
    let mut graph = Graph::default();
    let mut axes = Vec::new();
    let mut idx = smallvec::SmallVec::new();
    for &n in &ty.shape {
        if n == 1 {
            axes.push(Axis::new());
            idx.push(Index::Affine(Affine::constant(0)));
        } else {
            let d = graph.dim(n);
            axes.push(Axis::from_slice(&[d]));
            idx.push(Index::Affine(Affine::dim(d)));
        }
    }
    let node = graph
        .add(Op::Load(super::graph::Load { value: from, idx, outside: None, no_minus_zero: false }), ty.dtype.opmath());
    Fragment { graph, outs: vec![Out { value: to, node, place: Place::Axes(axes) }], view: false }
}
