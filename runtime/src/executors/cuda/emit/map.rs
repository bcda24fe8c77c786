//! Kernels with one thread per element, or per pack of adjacent elements.

use super::lines::{Linear, merged};
use super::literals;
use super::stages::{Stage, count};
use super::walk::{self, Walk};
use super::{Env, Frame, Job, Kernel, Why, index_type, linears, needed, ordered, printer};
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{Graph, NodeId};
use fulgurite_core::DType;
use serde_json::json;

const TEMPLATE: &str = include_str!("../templates/map.cu");

/// The positions at which the results of a stage are written, with their dtypes.
pub(super) fn written(graph: &Graph, outs: &[&Out], env: &Env<'_>) -> Vec<(Linear, DType)> {
    let linear = |o: &&Out| match &o.place {
        Place::Axes(axes) => Some((Linear::axes(axes, &(env.form)(o.value), &graph.sizes), env.ty(o.value).dtype)),
        Place::Scatter { .. } => None,
    };
    outs.iter().filter_map(linear).collect()
}

/// The kernel of a stage without reductions of its own.
pub(super) fn map(job: &mut Job<'_>, stage: &Stage) -> Result<Kernel, Why> {
    let Job { group, graph, env, origin, kept, sites } = job;
    let outs: Vec<&Out> = stage.outs.iter().map(|o| &group.outs[*o]).collect();
    let roots: Vec<NodeId> = outs.iter().map(|o| o.node).collect();
    let used = needed(graph, &roots, &|n| kept.contains_key(&n));
    let writes = written(graph, &outs, env);
    let mut uses = linears(graph, &used, env, kept);
    uses.extend(writes.iter().map(|w| w.0.clone()));
    let accesses: Vec<(Linear, usize)> = writes.iter().map(|(l, d)| (l.clone(), d.size())).collect();
    let loops = merged(&ordered(graph, stage.team, &accesses), &graph.sizes, &uses);
    let total = count(graph, stage.team);
    let ix = index_type(graph, &used, env, &uses.iter().collect::<Vec<_>>(), total);
    let mut p = printer(graph, env, kept, sites, ix, Vec::new());
    let walk = Walk::new(&p, &used, &[], loops, &writes);
    let inside = walk::inside(&mut p, &walk, 0, |p, inside| {
        outs.iter().for_each(|out| walk::store(p, out, inside));
    });
    let body = p.close(0).remove(0).text + &inside;
    let threads = total / walk.width;
    let thread = format!("({ix})blockIdx.x * 256 + threadIdx.x");
    let first = if walk.width > 1 { format!("{} * ({thread})", walk.width) } else { thread };
    let context =
        json!({ "ix": ix, "first": first, "flat": walk.flat(), "total": literals::size(total), "body": body });
    let grid = [threads.div_ceil(256).max(1), 1, 1];
    Frame { template: TEMPLATE, stem: "map", grid, block: [256, 1, 1] }.kernel(origin, &p.args, p.faults, context)
}
