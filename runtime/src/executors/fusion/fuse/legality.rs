//! Decides whether a graph can run as one program without doing work twice.
//!
//! A program walks over rows. The result of a reduction may be used inside the program only if it reduces whole rows. A
//! value that varies over fewer loops than the program must be constant along rows, or cost nothing.

use super::super::graph::piece::{Out, Place};
use super::super::graph::{DimSet, Graph, Index, Node, NodeId, Op};
use super::liveness::placed;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::kernel::Combine;
use fulgurite_core::lang::ast::Red;
use std::rc::Rc;

/// At most this many nodes in a program, because the registers of more leave the first-level cache.
const MAX_NODES: usize = 512;

/// At most this many loops in a program, because an executor holds their indices in arrays of a fixed length.
const MAX_LOOPS: usize = 14;

/// At most this many large values that a program reads side by side, because memory delivers only as many streams at
/// full speed.
const MAX_STREAMS: usize = 8;

/// The number of elements that stay in the second-level cache.
const CACHED: usize = 256 * 1024;

/// At most this many elements in a row that is kept between passes, because its scratch must stay in the second-level
/// cache.
pub const MAX_ROW: usize = 32 * 1024;

/// The loops of rows: the reduced dims of those reductions whose results are used inside, or repeated in a result.
///
/// Returns `None` if they differ.
pub fn row_dims(graph: &Graph, outs: &[Out]) -> Option<Option<DimSet>> {
    if !graph.nodes.iter().any(|n| matches!(n.op, Op::Reduce { .. })) {
        return Some(None);
    }
    let mut used = vec![false; graph.nodes.len()];
    for node in &graph.nodes {
        node.op.for_each_arg(&mut |a| used[a as usize] = true);
    }
    for out in outs.iter().filter(|o| matches!(o.place, Place::Axes(_))) {
        let more = out_dims(graph, out).minus(graph.node(out.node).dims);
        used[out.node as usize] |= more.iter().any(|d| graph.sizes[d as usize] > 1);
    }
    let mut rows: Option<DimSet> = None;
    for (at, node) in graph.nodes.iter().enumerate() {
        let Op::Reduce { red, order, .. } = &node.op else { continue };
        // Positions of extrema are found along rows.
        if !used[at] && !matches!(red, Red::ArgMax | Red::ArgMin) {
            continue;
        }
        let over: DimSet = order.iter().copied().collect();
        if rows.is_some_and(|r| r != over) {
            return None;
        }
        rows = Some(over);
    }
    Some(rows)
}

/// Whether a graph with these results, and the nodes that they need, can run as one program.
pub fn fits(graph: &Graph, outs: &[Out], live: &[bool]) -> bool {
    if graph.nodes.len() > MAX_NODES {
        return false;
    }
    let Some(rows) = row_dims(graph, outs) else { return false };
    let size = |d: DimSet| d.iter().map(|d| graph.sizes[d as usize]).fold(1, usize::saturating_mul);
    if rows.is_some_and(|r| size(r) > MAX_ROW) {
        return false;
    }
    let mut all = DimSet::EMPTY;
    for (node, live) in graph.nodes.iter().zip(live) {
        if *live {
            all = all.union(node.dims);
        }
    }
    for out in outs {
        all = all.union(out_dims(graph, out));
    }
    let streams = |(node, live): &(&Rc<Node>, &bool)| **live && matches!(node.op, Op::Load(_)) && !node.dims.is_empty();
    let streams = graph.nodes.iter().zip(live).filter(streams).count();
    if streams > MAX_STREAMS && streams.saturating_mul(size(all)) > CACHED {
        return false;
    }
    if all.len() > MAX_LOOPS || rows.is_some_and(|r| !runs_along(graph, live, r)) {
        return false;
    }
    let real = |d: DimSet| d.iter().filter(|d| graph.sizes[*d as usize] > 1).collect::<DimSet>();
    let cheap = |dims: DimSet| match rows {
        // Values are constant along rows, and not repeated for other rows.
        Some(r) if dims == all.minus(r) => true,
        // Without rows, a value that varies only over slower loops is computed once per line, which is cheap beside the
        // rest.
        _ => {
            let repeated = size(all) / size(dims).max(1);
            let few = size(dims) * 16 <= size(all);
            few && repeated >= 16 && constant_along_lines(graph, outs, dims, all, rows)
        }
    };
    for (node, live) in graph.nodes.iter().zip(live) {
        let once = node.dims == all || node.dims.is_empty() || is_free(&node.op);
        // A reduction that ends here reads values that exist anyway.
        if *live && !once && !matches!(node.op, Op::Reduce { .. }) && !cheap(node.dims) {
            return false;
        }
    }
    // A copy is free where it is read, but not where it is stored: additional loops would store it again.
    for out in outs.iter().filter(|o| matches!(o.place, Place::Axes(_)) && is_copy(graph, o.node)) {
        let own = out_dims(graph, out);
        if real(own) != real(all) && !cheap(own) {
            return false;
        }
    }
    // A scatter adds its elements once for every run of the loops, so additional loops would add them again.
    let again = |o: &Out| matches!(o.place, Place::Scatter { .. }) && real(out_dims(graph, o)) != real(all);
    if outs.iter().any(again) {
        return false;
    }
    for (node, _) in graph.nodes.iter().zip(live).filter(|(_, live)| **live) {
        let Op::Reduce { order, .. } = &node.op else { continue };
        let over: DimSet = order.iter().copied().collect();
        let loops = real(node.dims.union(over));
        let by_row = rows.is_some_and(|r| over == r || loops == real(all.minus(r)));
        if !by_row && loops != real(all) {
            return false;
        }
    }
    // A reduction is finished only after the walk that scatters elements.
    let unfinished = |n: NodeId| matches!(graph.node(n).op, Op::Reduce { .. });
    if outs.iter().any(|o| matches!(o.place, Place::Scatter { .. }) && placed(o).into_iter().any(unfinished)) {
        return false;
    }
    // Elements that replace each other have an order of their own.
    let ordered = outs.iter().any(|o| matches!(o.place, Place::Scatter { how: Combine::Replace, .. }));
    !(ordered && outs.len() > 1)
}

/// Whether most reads run along rows, so that walking over rows is walking over memory.
fn runs_along(graph: &Graph, live: &[bool], rows: DimSet) -> bool {
    let (mut along, mut across) = (0usize, 0usize);
    for (node, live) in graph.nodes.iter().zip(live) {
        let Op::Load(l) = &node.op else { continue };
        let Some(Index::Affine(last)) = l.idx.last() else { continue };
        let Some(fastest) = last.terms.iter().min_by_key(|t| t.1.unsigned_abs()) else { continue };
        if *live && !node.dims.meet(rows).is_empty() {
            let elements: usize = node.dims.iter().map(|d| graph.sizes[d as usize]).fold(1, usize::saturating_mul);
            *if rows.has(fastest.0) { &mut along } else { &mut across } += elements;
        }
    }
    along >= across
}

/// Whether values over `dims` do not vary along the fastest loop, so that they are computed once per line.
fn constant_along_lines(graph: &Graph, outs: &[Out], dims: DimSet, all: DimSet, rows: Option<DimSet>) -> bool {
    match rows {
        // Values are not repeated for rows that differ in loops outside of `dims`.
        Some(r) => dims.meet(r).is_empty() && dims.within(all.minus(r)),
        None => {
            // The fastest loop is the last dim of the widest result.
            let fastest = (outs.iter())
                .filter_map(|o| match &o.place {
                    Place::Axes(axes) if graph.node(o.node).dims == all => axes.iter().flatten().last().copied(),
                    _ => None,
                })
                .next();
            fastest.is_some_and(|f| !dims.has(f))
        }
    }
}

/// Operations that cost next to nothing if they are repeated: addresses, constants, conditions, or a conversion on load.
fn is_free(op: &Op) -> bool {
    let condition = |b: &Builtin| matches!(b, Builtin::And | Builtin::Or | Builtin::Not);
    match op {
        Op::Const(_) | Op::Index(_) | Op::Test { .. } | Op::Load(_) | Op::Cast(_) | Op::Round(..) => true,
        Op::Call(builtin, _) => condition(builtin),
        _ => false,
    }
}

/// Whether a result is a loaded value, at most converted.
fn is_copy(graph: &Graph, node: NodeId) -> bool {
    match &graph.node(node).op {
        Op::Load(_) => true,
        Op::Cast(from) | Op::Round(from, ..) => is_copy(graph, *from),
        _ => false,
    }
}

/// The loops over which a result is stored.
fn out_dims(graph: &Graph, out: &Out) -> DimSet {
    match &out.place {
        Place::Axes(axes) => axes.iter().flatten().copied().collect(),
        Place::Scatter { idx, order, .. } => {
            let nodes = placed(out).into_iter().map(|n| graph.node(n).dims);
            let affine = idx.iter().filter_map(|i| if let Index::Affine(a) = i { Some(a.dims()) } else { None });
            nodes.chain(affine).fold(order.iter().copied().collect(), DimSet::union)
        }
    }
}
