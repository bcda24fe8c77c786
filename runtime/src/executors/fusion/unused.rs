//! Elements of a product that no step uses. Each reader drops them by a condition on its indices,
//! as a causal mask drops the scores of later keys, or multiplies them by a weight that is zero, as
//! the gradient of a softmax does.
//!
//! The search assumes that a condition `t >= 0` fails, or that a loaded element is zero. From that
//! it derives the values of the nodes that select by the condition, and of nodes whose arguments
//! are then `-inf` or zero. A load is unused if no result of the group, and no reduction inside of
//! it, needs the load any more. Reductions count as results here, because the assumption is about
//! one element, and a reduction reads many.

use super::fuse::{Form, Group, Item, live, placed};
use super::graph::piece::{Contract, Unused, Values};
use super::graph::{Affine, Dim, Graph, Index, Load, NodeId, Op, ValueId};
use fulgurite_core::Scalar;
use fulgurite_core::builtins::Builtin;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Products with fewer elements are not worth the search. Tests have small products.
const LEAST: usize = if cfg!(test) { 16 * 16 } else { 128 * 128 };

/// At most this many conditions of a group are tried, because each is a walk over the group's nodes.
const MOST: usize = 8;

/// The largest constant by which an unused element may be multiplied before it meets a zero.
const MOST_FACTOR: f64 = 1024.0;

/// A load of a product's result in a group.
struct Reader<'g> {
    group: &'g Group,
    /// The live nodes of the group, in order.
    live: Vec<NodeId>,
    node: NodeId,
    load: &'g Load,
}

/// Notes in each product the elements of its result that no item uses; `outputs` are used.
pub(super) fn note(
    items: &mut [(Item, Vec<u32>)],
    outputs: &[ValueId],
    values: &Values,
    form: &dyn Fn(ValueId) -> Form,
) {
    let mut readers: FxHashMap<ValueId, SmallVec<[usize; 2]>> = FxHashMap::default();
    for (at, (item, _)) in items.iter().enumerate() {
        if let Item::Contract(c) = item
            && values.ty(c.out).elements() >= LEAST
        {
            readers.insert(c.out, SmallVec::new());
        }
        for v in item.reads() {
            if let Some(of) = readers.get_mut(&form(v).root) {
                of.push(at);
            }
        }
    }
    for v in outputs {
        readers.remove(&form(*v).root);
    }
    if readers.is_empty() {
        return;
    }
    let mut writer: FxHashMap<ValueId, usize> = FxHashMap::default();
    for (at, (item, _)) in items.iter().enumerate() {
        writer.extend(item.defines().into_iter().map(|v| (v, at)));
    }
    let found: Vec<(usize, Unused)> = items
        .iter()
        .enumerate()
        .filter_map(|(at, (item, _))| {
            let Item::Contract(c) = item else { return None };
            let groups = readers.get(&c.out)?.iter().map(|r| match &items[*r].0 {
                Item::Group(group) => Some(group),
                _ => None,
            });
            let loads = loads(c, groups.collect::<Option<Vec<_>>>()?, form);
            let earlier = |v: ValueId| writer.get(&v).is_none_or(|by| *by < at);
            unused(c, &loads, values, form).or_else(|| zeros_of(c, &loads, values, form, &earlier)).map(|u| (at, u))
        })
        .collect();
    for (at, unused) in found {
        if let Item::Contract(c) = &mut items[at].0 {
            c.unused = unused;
        }
    }
}

/// The live loads of a product's result.
fn loads<'g>(c: &Contract, groups: Vec<&'g Group>, form: &dyn Fn(ValueId) -> Form) -> Vec<Reader<'g>> {
    let mut all = Vec::new();
    for group in groups {
        let live: Vec<NodeId> = (0..).zip(live(group)).filter(|(_, live)| *live).map(|(node, _)| node).collect();
        for &node in &live {
            if let Op::Load(load) = &group.graph.node(node).op
                && form(load.value).root == c.out
            {
                all.push(Reader { group, live: live.clone(), node, load });
            }
        }
    }
    all
}

/// The elements that no load uses because a condition of the indices fails, if there are such.
fn unused(c: &Contract, loads: &[Reader<'_>], values: &Values, form: &dyn Fn(ValueId) -> Form) -> Option<Unused> {
    let mut all: Option<Unused> = None;
    for reader in loads {
        let here = of_load(c, reader, values, form)?;
        let both = match all {
            None => here,
            Some(before) => Unused {
                negative: before.negative.into_iter().filter(|a| here.negative.contains(a)).collect(),
                if_small: before.if_small || here.if_small,
                ..Unused::default()
            },
        };
        all = Some(both).filter(|u| !u.negative.is_empty());
        all.as_ref()?;
    }
    all
}

/// The elements of a product's result that a load of a group does not use.
fn of_load(c: &Contract, reader: &Reader<'_>, values: &Values, form: &dyn Fn(ValueId) -> Form) -> Option<Unused> {
    let graph = &reader.group.graph;
    let digits = Digits::of(c, reader.load, graph, values, form)?;
    let tests = reader.live.iter().filter_map(|n| match &graph.node(*n).op {
        Op::Test { affine, equal: false } => Some((*n, affine)),
        _ => None,
    });
    let mut all = Unused::default();
    let contains = containing(graph, reader.node, &reader.live);
    for (test, affine) in tests.take(MOST) {
        let Some(negative) = digits.translate(affine) else { continue };
        let assumed = Assumed { graph, node: test, known: Known::Holds(false), load: reader.node, contains: &contains };
        if let Some(if_small) = assumed.leaves_out(reader) {
            all.negative.push(negative);
            all.if_small |= if_small;
        }
    }
    (!all.negative.is_empty()).then_some(all)
}

/// The value with whose zeros the only load of a product's result is multiplied, if there is one that is written earlier.
fn zeros_of(
    c: &Contract,
    loads: &[Reader<'_>],
    values: &Values,
    form: &dyn Fn(ValueId) -> Form,
    earlier: &dyn Fn(ValueId) -> bool,
) -> Option<Unused> {
    let [reader] = loads else { return None };
    let graph = &reader.group.graph;
    let at = position(reader.load, form)?;
    // The load runs once through the result.
    at.digits(values.ty(c.out).elements(), &graph.sizes)?;
    let contains = containing(graph, reader.node, &reader.live);
    reader.live.iter().find_map(|&node| {
        let Op::Load(other) = &graph.node(node).op else { return None };
        let root = form(other.value).root;
        let same = values.ty(root) == values.ty(c.out) && position(other, form).as_ref() == Some(&at);
        if root == c.out || !same || !earlier(root) {
            return None;
        }
        let assumed = Assumed { graph, node, known: Known::Zero, load: reader.node, contains: &contains };
        let if_small = assumed.leaves_out(reader)?;
        Some(Unused { zeros_of: Some(root), if_small, ..Unused::default() })
    })
}

/// For each node of a graph, whether it needs a load at the same element: a reduction needs it at others.
fn containing(graph: &Graph, load: NodeId, live: &[NodeId]) -> Vec<bool> {
    let mut contains = vec![false; graph.nodes.len()];
    contains[load as usize] = true;
    for &n in live.iter().filter(|n| !matches!(graph.node(**n).op, Op::Reduce { .. })) {
        let mut found = contains[n as usize];
        graph.node(n).op.for_each_arg(&mut |a| found |= contains[a as usize]);
        contains[n as usize] = found;
    }
    contains
}

/// The position of a load's element in the dense value, if it is an expression of the dims.
fn position(load: &Load, form: &dyn Fn(ValueId) -> Form) -> Option<Affine> {
    if load.outside.is_some() {
        return None;
    }
    let at = form(load.value);
    let mut position = Affine::constant(at.offset);
    for (index, stride) in load.idx.iter().zip(&at.strides) {
        let Index::Affine(a) = index else { return None };
        position = position.plus(a, *stride)?;
    }
    Some(position)
}

/// For each dim of a group that is a digit of a load's position in a product's result, the dim of the product that is
/// the same digit.
struct Digits(SmallVec<[(Dim, Dim); 4]>);

impl Digits {
    fn of(c: &Contract, load: &Load, graph: &Graph, values: &Values, form: &dyn Fn(ValueId) -> Form) -> Option<Digits> {
        let position = position(load, form)?;
        // The load runs once through the result, so its digits are those of the position.
        let own = position.digits(values.ty(c.out).elements(), &graph.sizes)?;
        let mut of_product: SmallVec<[(i64, usize, Dim); 4]> = SmallVec::new();
        let mut stride = 1i64;
        for &d in c.axes.iter().flatten().rev() {
            let size = c.sizes[d as usize];
            of_product.push((stride, size, d));
            stride = stride.checked_mul(size as i64)?;
        }
        let same = |d: Dim| {
            let digit = (position.coef(d), graph.sizes[d as usize]);
            of_product.iter().find(|(stride, size, _)| (*stride, *size) == digit).map(|p| (d, p.2))
        };
        Some(Digits(own.iter().filter_map(|d| same(*d)).collect()))
    }

    /// An expression of the group's dims as one of the product's.
    fn translate(&self, affine: &Affine) -> Option<Affine> {
        let known = |d: Dim| self.0.iter().find(|(own, _)| *own == d).map(|(_, other)| Affine::dim(*other));
        let mut all = Affine::constant(affine.base);
        for (d, coefficient) in &affine.terms {
            all = all.plus(&known(*d)?, *coefficient)?;
        }
        Some(all)
    }
}

/// The knowledge of a node's value at an element for which the assumption holds.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    Nothing,
    Holds(bool),
    /// The node is -inf or NaN, whatever else is known.
    Lowest,
    /// The node is zero or NaN.
    Zero,
}

/// A graph at an element for which a fact about a node is assumed, and a load of that element.
struct Assumed<'g> {
    graph: &'g Graph,
    node: NodeId,
    /// The assumed fact: a condition fails, or a loaded element is zero.
    known: Known,
    load: NodeId,
    /// For each node, whether it needs the load at the same element.
    contains: &'g [bool],
}

impl Assumed<'_> {
    /// Whether the group does not use the load's element; then, whether that needs the element to be small.
    fn leaves_out(&self, reader: &Reader<'_>) -> Option<bool> {
        let known = self.known(&reader.live);
        let mut open: Vec<NodeId> = reader.group.outs.iter().flat_map(placed).collect();
        for &n in &reader.live {
            if let Op::Reduce { arg, mask, .. } = &self.graph.node(n).op {
                open.push(*arg);
                open.extend(*mask);
            }
        }
        let mut seen = vec![false; self.graph.nodes.len()];
        let mut if_small = false;
        while let Some(n) = open.pop() {
            if n == self.load {
                return None;
            }
            if std::mem::replace(&mut seen[n as usize], true) || matches!(known[n as usize], Known::Holds(_)) {
                continue;
            }
            match &self.graph.node(n).op {
                Op::Reduce { .. } => {}
                Op::Select(condition, a, b) => match known[*condition as usize] {
                    Known::Holds(holds) => open.push(if holds { *a } else { *b }),
                    _ => open.extend([*condition, *a, *b]),
                },
                Op::Call(Builtin::Mul, factors) => {
                    let vanishes = |zero: NodeId, other: NodeId| {
                        known[zero as usize] == Known::Zero && !self.contains[zero as usize] && self.is_small(other)
                    };
                    if vanishes(factors[0], factors[1]) || vanishes(factors[1], factors[0]) {
                        if_small = true;
                    } else {
                        open.extend(factors);
                    }
                }
                op => op.for_each_arg(&mut |a| open.push(a)),
            }
        }
        Some(if_small)
    }

    /// The knowledge of each node.
    fn known(&self, live: &[NodeId]) -> Vec<Known> {
        let mut known = vec![Known::Nothing; self.graph.nodes.len()];
        for &n in live {
            let of = |a: NodeId| known[a as usize];
            let truth = |a: NodeId| match of(a) {
                Known::Holds(holds) => Some(holds),
                _ => None,
            };
            known[n as usize] = match &self.graph.node(n).op {
                _ if n == self.node => self.known,
                Op::Const(bits) => match bits.scalar() {
                    Scalar::Bool(holds) => Known::Holds(holds),
                    Scalar::Float(f64::NEG_INFINITY) => Known::Lowest,
                    Scalar::Float(0.0) => Known::Zero,
                    _ => Known::Nothing,
                },
                Op::Select(condition, a, b) => match truth(*condition) {
                    Some(holds) => of(if holds { *a } else { *b }),
                    None if of(*a) == of(*b) => of(*a),
                    None => Known::Nothing,
                },
                Op::Cast(a) if self.graph.node(n).ty.is_float() => match of(*a) {
                    known @ (Known::Lowest | Known::Zero) => known,
                    _ => Known::Nothing,
                },
                Op::Call(Builtin::And, xs) => match (truth(xs[0]), truth(xs[1])) {
                    (Some(false), _) | (_, Some(false)) => Known::Holds(false),
                    (Some(true), Some(true)) => Known::Holds(true),
                    _ => Known::Nothing,
                },
                Op::Call(Builtin::Or, xs) => match (truth(xs[0]), truth(xs[1])) {
                    (Some(true), _) | (_, Some(true)) => Known::Holds(true),
                    (Some(false), Some(false)) => Known::Holds(false),
                    _ => Known::Nothing,
                },
                Op::Call(Builtin::Not, xs) => truth(xs[0]).map_or(Known::Nothing, |holds| Known::Holds(!holds)),
                // a finite number, an infinity or NaN beside -inf: the result is -inf, or NaN
                Op::Call(Builtin::Sub, xs) if of(xs[0]) == Known::Lowest => Known::Lowest,
                Op::Call(Builtin::Add, xs) if xs.iter().any(|x| of(*x) == Known::Lowest) => Known::Lowest,
                Op::Call(Builtin::Exp, xs) if of(xs[0]) == Known::Lowest => Known::Zero,
                Op::Call(Builtin::Mul, xs) if xs.iter().any(|x| of(*x) == Known::Zero) => Known::Zero,
                Op::Call(Builtin::Div, xs) if of(xs[0]) == Known::Zero => Known::Zero,
                _ => Known::Nothing,
            };
        }
        known
    }

    /// Whether a node is finite if the load's element is small and everything else is as it is: a small multiple of the
    /// element, perhaps added to one other number. Longer sums could overflow by their roundings.
    fn is_small(&self, n: NodeId) -> bool {
        if !self.contains[n as usize] || self.is_multiple(n) {
            return true;
        }
        let Op::Call(Builtin::Add | Builtin::Sub, xs) = &self.graph.node(n).op else { return false };
        let other = |x: NodeId| !self.contains[x as usize];
        (self.is_multiple(xs[0]) && other(xs[1])) || (other(xs[0]) && self.is_multiple(xs[1]))
    }

    /// Whether a node is the load's element, or a multiple of it by one constant.
    fn is_multiple(&self, n: NodeId) -> bool {
        let factor = |a: NodeId| self.graph.as_const(a).is_some_and(|c| c.as_f64().abs() <= MOST_FACTOR);
        match &self.graph.node(n).op {
            Op::Call(Builtin::Neg, xs) => xs[0] == self.load,
            Op::Call(Builtin::Mul, xs) => {
                (factor(xs[0]) && xs[1] == self.load) || (factor(xs[1]) && xs[0] == self.load)
            }
            _ => n == self.load,
        }
    }
}
