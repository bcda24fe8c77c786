//! Divides a fusion into kernels: reductions with results over the same dims share a kernel, together with results that
//! vary over more dims and follow them.
//!
//! The dims of the results of a kernel's reductions are its *team*: for each index over them, a team of threads folds,
//! pass after pass, and then writes. A reduction that another kernel needs is kept in memory.

use crate::executors::fusion::fuse::{Group, placed};
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{DimSet, Graph, Index, NodeId, Op};
use rustc_hash::FxHashMap;

/// A device is not busy with fewer blocks than this.
const FEW_BLOCKS: usize = 512;
/// One block is too slow for a result of more elements than this.
const LONG: usize = 32 * 1024;
/// With 32 results per block, a second kernel pays for results of more elements than this.
const TALL: usize = 512;

/// Whether a reduction needs several blocks per result. `along` says whether memory is read along the reduced dims.
fn in_parts(teams: usize, over: usize, along: bool) -> bool {
    match along {
        true => teams < FEW_BLOCKS && over > LONG,
        false => teams.div_ceil(32) < FEW_BLOCKS && over > TALL && teams * over > LONG,
    }
}

/// The kind of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One thread per element.
    Map,
    /// One team per result.
    Team,
    /// Several teams per result, one for each part.
    Parts,
    Scatter,
}

/// A kernel to be emitted.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub kind: Kind,
    /// Stages of lower levels run before this one.
    pub level: usize,
    /// The dims of the team's results.
    pub team: DimSet,
    /// The reductions by pass; those of one pass run side by side over the same dims.
    pub passes: Vec<Vec<NodeId>>,
    /// The results of the group that the stage writes.
    pub outs: Vec<usize>,
}

/// The dims of a result that have more than one index.
pub(super) fn out_dims(graph: &Graph, out: &Out) -> DimSet {
    let dims = match &out.place {
        Place::Axes(axes) => axes.iter().flatten().copied().collect(),
        // every loop over which an element, its place or its mask varies
        Place::Scatter { idx, order, .. } => {
            let nodes = placed(out).into_iter().fold(DimSet::EMPTY, |s, n| s.union(graph.node(n).dims));
            idx.iter().fold(nodes.union(order.iter().copied().collect()), |s, i| match i {
                Index::Affine(a) => s.union(a.dims()),
                Index::Node(_) => s,
            })
        }
    };
    real(graph, dims)
}

pub(super) fn real(graph: &Graph, dims: DimSet) -> DimSet {
    dims.iter().filter(|d| graph.sizes[*d as usize] > 1).collect()
}

pub(super) fn count(graph: &Graph, dims: DimSet) -> usize {
    dims.iter().map(|d| graph.sizes[d as usize]).product()
}

pub(super) fn reduced(graph: &Graph, node: NodeId) -> DimSet {
    match &graph.node(node).op {
        Op::Reduce { order, .. } => real(graph, order.iter().copied().collect()),
        _ => DimSet::EMPTY,
    }
}

/// The reductions that nodes need directly, without those behind other reductions.
fn direct(graph: &Graph, from: &[NodeId]) -> Vec<NodeId> {
    let (mut open, mut seen, mut found) = (from.to_vec(), vec![false; graph.nodes.len()], Vec::new());
    while let Some(n) = open.pop() {
        if std::mem::replace(&mut seen[n as usize], true) {
            continue;
        }
        match &graph.node(n).op {
            Op::Reduce { .. } => found.push(n),
            op => op.for_each_arg(&mut |a| open.push(a)),
        }
    }
    found.sort_unstable();
    found
}

/// The stages of a group in the order in which they run, and the reductions that are kept in memory.
///
/// `along` says for a reduction whether memory is read along its reduced dims.
pub(super) fn stages(
    group: &Group,
    outs: &[usize],
    live: &[bool],
    along: &dyn Fn(NodeId) -> bool,
) -> (Vec<Stage>, Vec<NodeId>) {
    let graph = &group.graph;
    let mut all: Vec<Stage> = Vec::new();
    // the stage and pass of each reduction
    let mut home: FxHashMap<NodeId, (usize, usize)> = FxHashMap::default();
    let mut kept: Vec<NodeId> = Vec::new();
    for (at, node) in graph.nodes.iter().enumerate() {
        let Op::Reduce { arg, mask, red, .. } = &node.op else { continue };
        if !live[at] {
            continue;
        }
        let id = at as NodeId;
        let team = real(graph, node.dims);
        let over = reduced(graph, id);
        let few = in_parts(count(graph, team), count(graph, over), along(id));
        let place = matches!(red, fulgurite_core::lang::ast::Red::ArgMax | fulgurite_core::lang::ast::Red::ArgMin);
        let kind = if few && !place { Kind::Parts } else { Kind::Team };
        let roots: Vec<NodeId> = std::iter::once(*arg).chain(*mask).collect();
        let needs = direct(graph, &roots);
        // a reduction joins the stage of one that it needs, if the results have the same dims
        let beside = |d: &NodeId| {
            let stage = &all[home[d].0];
            kind == Kind::Team && stage.kind == Kind::Team && stage.team == team
        };
        let level = needs.iter().map(|d| all[home[d].0].level + usize::from(!beside(d))).max().unwrap_or(0);
        let known =
            all.iter().position(|s| kind == Kind::Team && s.kind == Kind::Team && (s.level, s.team) == (level, team));
        let stage = known.unwrap_or_else(|| {
            all.push(Stage { kind, level, team, passes: Vec::new(), outs: Vec::new() });
            all.len() - 1
        });
        let first = needs.iter().filter(|d| home[*d].0 == stage).map(|d| home[d].1 + 1).max().unwrap_or(0);
        let passes = &mut all[stage].passes;
        let pass = (first..passes.len()).find(|p| reduced(graph, passes[*p][0]) == over).unwrap_or_else(|| {
            passes.push(Vec::new());
            passes.len() - 1
        });
        passes[pass].push(id);
        home.insert(id, (stage, pass));
        kept.extend(needs.into_iter().filter(|d| home[d].0 != stage));
        if kind == Kind::Parts {
            kept.push(id);
        }
    }
    for &at in outs {
        let out = &group.outs[at];
        let dims = out_dims(graph, out);
        let needs = direct(graph, &placed(out));
        let scatter = matches!(out.place, Place::Scatter { .. });
        let joined = needs.first().map(|d| home[d].0).filter(|s| {
            let stage = &all[*s];
            let own = needs.iter().all(|d| home[d].0 == *s);
            !scatter && own && stage.kind == Kind::Team && stage.team.within(dims)
        });
        // a result is written by a stage that reads its elements anyway
        let beside = || {
            all.iter().position(|s| {
                let passes = s.passes.iter().any(|p| s.team.union(reduced(graph, p[0])) == dims);
                s.kind == Kind::Team && s.level == 0 && passes
            })
        };
        let stage = match joined {
            Some(stage) => stage,
            None if needs.is_empty() && !scatter && beside().is_some() => beside().unwrap_or(0),
            None => {
                let level = needs.iter().map(|d| all[home[d].0].level + 1).max().unwrap_or(0);
                kept.extend(needs);
                let kind = if scatter { Kind::Scatter } else { Kind::Map };
                let known = |s: &Stage| s.kind == Kind::Map && kind == Kind::Map && (s.level, s.team) == (level, dims);
                all.iter().position(known).unwrap_or_else(|| {
                    all.push(Stage { kind, level, team: dims, passes: Vec::new(), outs: Vec::new() });
                    all.len() - 1
                })
            }
        };
        all[stage].outs.push(at);
    }
    kept.sort_unstable();
    kept.dedup();
    all.sort_by_key(|s| s.level);
    (all, kept)
}
