//! Unrolls reductions of small windows, so that elements of the result are computed side by side, not those of a
//! window.

use super::{Affine, Axis, Dim, DimSet, Graph, Index, NodeId, Op};
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::ast::Red;
use fulgurite_core::{DType, Scalar};
use fulgurite_kernels::reduce;
use smallvec::smallvec;

/// At most this many elements in a window that is unrolled, because each becomes nodes.
const MOST: usize = 64;
/// Larger windows are unrolled only if they overlap: others are read from end to end, each element once.
const FEW: usize = 16;
/// At most this many nodes may result, because each becomes a step of a program and takes time to compile.
const MOST_NODES: usize = 1024;

/// A reduction: its kind, type, argument, mask, and loops, slowest first.
pub(super) struct Reduce<'a> {
    pub red: Red,
    pub ty: DType,
    pub arg: NodeId,
    pub mask: Option<NodeId>,
    pub order: &'a [Dim],
}

/// The unrolled reduction, if it slides a small window over its inputs: another graph, and its node there.
pub(super) fn window(graph: &Graph, r: &Reduce) -> Option<(Graph, NodeId)> {
    let sizes: Vec<usize> = r.order.iter().map(|d| graph.sizes[*d as usize]).collect();
    let count: usize = sizes.iter().product();
    let over: DimSet = r.order.iter().copied().collect();
    let slides = graph.nodes.iter().any(|n| match &n.op {
        Op::Load(l) => l.idx.iter().any(|i| match i {
            Index::Affine(a) => !a.dims().meet(over).is_empty() && !a.dims().within(over),
            Index::Node(_) => false,
        }),
        _ => false,
    });
    let many = count > MOST || (count > FEW && !overlap(graph, over));
    if !slides || many || count * graph.nodes.len() > MOST_NODES {
        return None;
    }
    let mut out = Graph::with_dims(graph.sizes.clone());
    let node = unrolled(graph, r, &mut out)?;
    Some((out, node))
}

/// Adds a reduction element by element to a graph that has the same dims; returns its node there.
fn unrolled(graph: &Graph, r: &Reduce, out: &mut Graph) -> Option<NodeId> {
    let sizes: Vec<usize> = r.order.iter().map(|d| graph.sizes[*d as usize]).collect();
    let count: usize = sizes.iter().product();
    let same: Vec<Axis> = (0..graph.sizes.len() as Dim).map(|d| smallvec![d]).collect();
    let wide = accumulator(r.red, graph.node(r.arg).ty, count);
    let mut so_far: Option<Folded> = None;
    for flat in 0..count {
        let mut map: Vec<Affine> = (0..graph.sizes.len() as Dim).map(Affine::dim).collect();
        let mut rest = flat;
        for (d, n) in r.order.iter().zip(&sizes).rev() {
            map[*d as usize] = Affine::constant((rest % n) as i64);
            rest /= n;
        }
        let nodes = graph.translate(out, &map, &same, &mut |_, _| None)?;
        let (arg, mask) = (nodes[r.arg as usize], r.mask.map(|m| nodes[m as usize]));
        let arg = out.add(Op::Cast(arg), wide);
        so_far = Some(fold(out, r.red, so_far, (arg, mask), flat));
    }
    let Folded { value, at, .. } = so_far?;
    let node = match r.red {
        Red::ArgMax | Red::ArgMin => at,
        Red::Mean => {
            let n = out.constant(Scalar::Float(count as f64), wide);
            out.add(Op::Call(Builtin::Div, smallvec![value, n]), wide)
        }
        _ => value,
    };
    Some(out.add(Op::Cast(node), r.ty))
}

/// The graph with other reductions of few elements unrolled: those over dims by which conditions choose, such as a sum over
/// tensors that were joined. Each element is then one of the tensors, without a choice. Returns the new number of each node.
///
/// A reduction over one of the `fixed` dims, which results have, stays as it is. So does one that no result needs.
pub fn choices(graph: &Graph, live: &[bool], fixed: DimSet) -> Option<(Graph, Vec<NodeId>)> {
    let chosen: Vec<NodeId> =
        (0..graph.nodes.len() as NodeId).filter(|n| live[*n as usize] && is_choice(graph, *n, fixed)).collect();
    if chosen.is_empty() {
        return None;
    }
    let mut out = Graph::with_dims(graph.sizes.clone());
    let mut at: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for (n, node) in graph.nodes.iter().enumerate() {
        let new = match &node.op {
            Op::Reduce { red, arg, mask, order } if chosen.contains(&(n as NodeId)) => {
                let mut before = Graph::with_dims(graph.sizes.clone());
                before.nodes = graph.nodes[..n].to_vec();
                let reduce = Reduce { red: *red, ty: node.ty, arg: *arg, mask: *mask, order };
                unrolled(&before, &reduce, &mut out)?
            }
            op => out.add(op.with_args(&mut |a| at[a as usize]), node.ty),
        };
        at.push(new);
    }
    Some((out, at))
}

/// Whether a node reduces few elements, of which a condition of the reduced dims chooses.
fn is_choice(graph: &Graph, node: NodeId, fixed: DimSet) -> bool {
    let Op::Reduce { arg, mask: None, order, .. } = &graph.node(node).op else { return false };
    let over: DimSet = order.iter().copied().collect();
    let count: usize = order.iter().map(|d| graph.sizes[*d as usize]).fold(1, usize::saturating_mul);
    if count > FEW || count * node as usize > MOST_NODES || !over.meet(fixed).is_empty() {
        return false;
    }
    let (mut open, mut seen, mut chooses) = (vec![*arg], vec![false; graph.nodes.len()], false);
    while let Some(n) = open.pop() {
        if std::mem::replace(&mut seen[n as usize], true) {
            continue;
        }
        match &graph.node(n).op {
            Op::Reduce { .. } => return false,
            Op::Test { affine, .. } => chooses |= !affine.dims().is_empty() && affine.dims().within(over),
            op => op.for_each_arg(&mut |a| open.push(a)),
        }
    }
    chooses
}

/// Whether each window over these dims reaches the start of the next one, along every axis where windows slide.
fn overlap(graph: &Graph, over: DimSet) -> bool {
    let loads = graph.nodes.iter().filter_map(|n| if let Op::Load(l) = &n.op { Some(l) } else { None });
    let indices = loads.flat_map(|l| &l.idx).filter_map(|i| if let Index::Affine(a) = i { Some(a) } else { None });
    indices.filter(|a| !a.dims().within(over)).all(|a| {
        let (within, between): (Vec<_>, Vec<_>) = a.terms.iter().partition(|t| over.has(t.0));
        let steps = |d: Dim| (graph.sizes[d as usize] as u64).saturating_sub(1);
        let reach = within.iter().map(|(d, c)| steps(*d).saturating_mul(c.unsigned_abs())).fold(0, u64::saturating_add);
        within.is_empty() || between.iter().all(|(_, c)| c.unsigned_abs() <= reach)
    })
}

/// The type in which `count` elements are added or multiplied. Few floats keep their own precision, as they do in a line
/// of [`fulgurite_kernels::reduce`] and in PyTorch.
fn accumulator(red: Red, ty: DType, count: usize) -> DType {
    match red {
        Red::Sum | Red::Mean | Red::Prod if !ty.is_float() => DType::I64,
        Red::Sum | Red::Mean | Red::Prod if count >= reduce::FEW => DType::F64,
        Red::Sum | Red::Mean | Red::Prod => ty.opmath(),
        _ => ty,
    }
}

/// The reduction of the elements so far: the value, its position, and whether any element took part (`None` means
/// certainly).
struct Folded {
    value: NodeId,
    at: NodeId,
    any: Option<NodeId>,
}

/// Folds in the element with number `flat`, with the condition under which it takes part.
fn fold(g: &mut Graph, red: Red, so_far: Option<Folded>, (arg, mask): (NodeId, Option<NodeId>), flat: usize) -> Folded {
    let ty = g.node(arg).ty;
    let at = g.constant(Scalar::Int(flat as i64), DType::I64);
    let Some(Folded { value, at: before, any }) = so_far else { return Folded { value: arg, at, any: mask } };
    let mut call = |b: Builtin, x: NodeId, y: NodeId, ty: DType| g.add(Op::Call(b, smallvec![x, y]), ty);
    let both = match red {
        Red::Sum | Red::Mean => Builtin::Add,
        Red::Prod => Builtin::Mul,
        Red::Max => Builtin::Max,
        Red::Min => Builtin::Min,
        Red::Any => Builtin::Or,
        Red::All => Builtin::And,
        Red::ArgMax | Red::ArgMin | Red::First | Red::Last | Red::Only => {
            // The element is strictly better, or it is the first NaN: the one so far is a number, and not as good.
            let (better, as_good) =
                if red == Red::ArgMax { (Builtin::Gt, Builtin::Ge) } else { (Builtin::Lt, Builtin::Le) };
            let mut takes = if ty.is_float() {
                let (keeps, number) =
                    (call(as_good, value, arg, DType::Bool), call(Builtin::Eq, value, value, DType::Bool));
                let takes = g.add(Op::Call(Builtin::Not, smallvec![keeps]), DType::Bool);
                g.add(Op::Call(Builtin::And, smallvec![takes, number]), DType::Bool)
            } else {
                call(better, arg, value, DType::Bool)
            };
            if let Some(any) = any {
                let none = g.add(Op::Call(Builtin::Not, smallvec![any]), DType::Bool);
                takes = g.add(Op::Call(Builtin::Or, smallvec![none, takes]), DType::Bool);
            }
            if let Some(mask) = mask {
                takes = g.add(Op::Call(Builtin::And, smallvec![mask, takes]), DType::Bool);
            }
            let any = any.zip(mask).map(|(a, m)| g.add(Op::Call(Builtin::Or, smallvec![a, m]), DType::Bool));
            return Folded {
                value: g.add(Op::Select(takes, arg, value), ty),
                at: g.add(Op::Select(takes, at, before), DType::I64),
                any,
            };
        }
    };
    Folded { value: call(both, value, arg, ty), at, any: None }
}

#[cfg(test)]
mod tests {
    use super::super::Load;
    use super::*;

    #[test]
    fn steps_at_the_ends_of_i64_are_compared() {
        for (within, between, overlaps) in [(i64::MIN, 1, true), (1, i64::MIN, false), (i64::MAX, i64::MIN, true)] {
            let mut graph = Graph::default();
            let (own, summed) = (graph.dim(4), graph.dim(3));
            let window = Affine::dim(own).times(between).unwrap().plus(&Affine::dim(summed), within).unwrap();
            let idx = [Index::Affine(window)].into_iter().collect();
            graph.add(Op::Load(Load { value: 0, idx, outside: None, no_minus_zero: false }), DType::F32);
            assert_eq!(overlap(&graph, DimSet::one(summed)), overlaps);
        }
    }
}
