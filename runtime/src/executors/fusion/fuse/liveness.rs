//! Liveness: the nodes that results need.

use super::super::graph::piece::{Out, Place};
use super::super::graph::{Graph, Index, NodeId};
use smallvec::SmallVec;

/// The nodes that a result needs directly: its elements, and for scattered elements their places.
pub fn placed(out: &Out) -> SmallVec<[NodeId; 4]> {
    let mut nodes: SmallVec<[NodeId; 4]> = SmallVec::from_slice(&[out.node]);
    if let Place::Scatter { idx, mask, .. } = &out.place {
        nodes.extend(idx.iter().filter_map(|i| if let Index::Node(n) = i { Some(*n) } else { None }));
        nodes.extend(*mask);
    }
    nodes
}

/// Marks the nodes that a result needs, and notes those that were not marked before.
pub fn mark(graph: &Graph, out: &Out, live: &mut [bool], new: &mut Vec<NodeId>) {
    let mut open: Vec<NodeId> = placed(out).into_vec();
    while let Some(n) = open.pop() {
        if !std::mem::replace(&mut live[n as usize], true) {
            new.push(n);
            graph.node(n).op.for_each_arg(&mut |a| open.push(a));
        }
    }
}

/// For each node, whether some result needs it.
pub fn live(graph: &Graph, outs: &[Out]) -> Vec<bool> {
    let mut live = vec![false; graph.nodes.len()];
    let mut mark = |n: NodeId| live[n as usize] = true;
    for out in outs {
        placed(out).into_iter().for_each(&mut mark);
    }
    for at in (0..live.len()).rev() {
        if live[at] {
            graph.nodes[at].op.for_each_arg(&mut |a| live[a as usize] = true);
        }
    }
    live
}
