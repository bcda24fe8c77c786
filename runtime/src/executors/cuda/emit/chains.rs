//! Chains the elements that go to one place, so that one thread runs through each chain.

use super::lines::{self, Linear, decode, merged};
use super::literals;
use super::places::Loops;
use super::printer::Level;
use super::stages::count;
use super::{Frame, Job, Kernel, Why, index_type, linears, needed, printer};
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{DimSet, Index, NodeId, ValueId};
use fulgurite_core::DType;
use serde_json::json;

const TEMPLATE: &str = include_str!("../templates/chains.cu");

/// With at least this many threads a device is busy without chains.
const ENOUGH: usize = 1 << 16;

/// Chains pay from `FEWEST` elements on. At most `MOST` elements are chained, because each is
/// compared with the others.
const FEWEST: usize = 8;
const MOST: usize = 1 << 16;

/// The kernel that chains the elements of an output, and the value that holds the links. Returns `None` if each thread
/// with places of its own runs through all elements.
pub(super) fn links(job: &mut Job<'_>, out: &Out, loops: &Loops) -> Result<Option<(Kernel, ValueId)>, Why> {
    let Job { graph, env, origin, kept, sites, .. } = job;
    let Place::Scatter { idx, .. } = &out.place else { return Ok(None) };
    let (outer, inner): (DimSet, DimSet) =
        (loops.outer.iter().copied().collect(), loops.inner.iter().copied().collect());
    let total = count(graph, inner);
    let nodes: Vec<NodeId> = idx.iter().filter_map(|i| if let Index::Node(n) = i { Some(*n) } else { None }).collect();
    // places that depend on the thread would give each thread chains of its own
    let shared = nodes.iter().all(|n| graph.node(*n).dims.meet(outer).is_empty());
    if !shared || count(graph, outer) >= ENOUGH || !(FEWEST..=MOST).contains(&total) {
        return Ok(None);
    }
    let used = needed(graph, &nodes, &|n| kept.contains_key(&n));
    let form = (env.form)(out.value);
    let mut place = Linear::indices(idx, &form, graph.sizes.len());
    outer.iter().for_each(|d| place.coefs[d as usize] = 0);
    let mut uses = linears(graph, &used, env, kept);
    uses.push(place.clone());
    let inner = merged(&loops.inner, &graph.sizes, &uses);
    let ix = index_type(graph, &used, env, &uses.iter().collect::<Vec<_>>(), total);
    let mut p = printer(graph, env, kept, sites, ix, Vec::new());
    p.levels.push(Level::new(inner.clone(), "    "));
    let mut more = Vec::new();
    for (index, stride) in idx.iter().zip(&form.strides) {
        if let Index::Node(n) = index {
            let at = p.value(*n);
            more.push(format!("{} * ({at})", literals::wide(*stride)));
        }
    }
    let text = lines::text(&place, &inner, &more);
    let links = env.add(DType::I32, &[total]);
    let pointer = p.pointer(links, true);
    let of_element = p.close(1).remove(0).text;
    let body = p.close(0).remove(0).text + &decode(&inner, "g", ix, "    ") + &of_element;
    let context = json!({ "ix": ix, "count": literals::size(total), "place": text, "links": pointer, "body": body });
    let grid = [total.div_ceil(256), 1, 1];
    let frame = Frame { template: TEMPLATE, stem: "chains", grid, block: [256, 1, 1] };
    Ok(Some((frame.kernel(origin, &p.args, p.faults, context)?, links)))
}
