//! Kernels of scatters: elements go to places that other elements name.
//!
//! One thread runs per index over the loops that lead to places of their own. It runs through the other loops in order,
//! so that the result equals that of sequential loops. If those threads would be few, the elements of one place are
//! chained first, and one thread runs through each chain.

use super::lines::{self, Linear, Loop, decode, merged};
use super::literals;
use super::stages::{Stage, count};
use super::{Action, Frame, Job, Kernel, Why, index_type, linears, needed, printer};
use super::{chains, places::Loops};
use crate::executors::fusion::fuse::placed;
use crate::executors::fusion::graph::piece::{Out, Place};
use crate::executors::fusion::graph::{Index, ValueId};
use fulgurite_core::builtins::cuda::stored_type;
use fulgurite_core::kernel::Combine;
use serde_json::json;
use std::fmt::Write;

const TEMPLATE: &str = include_str!("../templates/scatter.cu");

/// The actions of an output whose elements are scattered: the initial content, then the kernel.
pub(super) fn scatter(job: &mut Job<'_>, stage: &Stage) -> Result<Vec<Action>, Why> {
    let (group, env) = (job.group, job.env);
    let mut actions = Vec::new();
    for at in &stage.outs {
        let out = &group.outs[*at];
        let Place::Scatter { base, .. } = &out.place else { continue };
        let to = (env.form)(out.value).root;
        actions.push(match base {
            Some(base) => Action::Copy { to, from: (env.form)(*base).root },
            None => Action::Zero(to),
        });
        let loops = Loops::of(&group.graph, out);
        let links = chains::links(job, out, &loops)?;
        let chained = links.as_ref().map(|l| l.1);
        actions.extend(links.map(|(kernel, _)| Action::Launch(kernel)));
        actions.push(Action::Launch(kernel(job, out, &loops, chained)?));
    }
    Ok(actions)
}

/// Emits the kernel; `chained` holds the chains of elements for one place, if there are any.
fn kernel(job: &mut Job<'_>, out: &Out, loops: &Loops, chained: Option<ValueId>) -> Result<Kernel, Why> {
    let Job { graph, env, origin, kept, sites, .. } = job;
    let Place::Scatter { idx, mask, how, .. } = &out.place else { return Err("nothing is placed".to_owned()) };
    let nodes = placed(out);
    let used = needed(graph, &nodes, &|n| kept.contains_key(&n));
    let form = (env.form)(out.value);
    let place = Linear::indices(idx, &form, graph.sizes.len());
    let mut uses = linears(graph, &used, env, kept);
    uses.push(place.clone());
    for index in idx {
        if let Index::Affine(a) = index {
            uses.push(Linear::affine(a, graph.sizes.len()));
        }
    }
    let turns = count(graph, loops.inner.iter().copied().collect());
    let (outer, inner) = (merged(&loops.outer, &graph.sizes, &uses), merged(&loops.inner, &graph.sizes, &uses));
    let total = count(graph, loops.outer.iter().copied().collect()) * if chained.is_some() { turns } else { 1 };
    let ix = index_type(graph, &used, env, &uses.iter().collect::<Vec<_>>(), total.max(turns));
    let mut p = printer(graph, env, kept, sites, ix, outer.clone());
    // the number of the first element of a chain is the slowest part of a thread's index
    let first = chained.map(|_| Loop { dims: Default::default(), size: turns, called: Some("first") });
    let of_thread: Vec<Loop> = first.into_iter().chain(outer.iter().cloned()).collect();
    p.levels[0].text = decode(&of_thread, "f", ix, "  ");
    let links = chained.map(|links| p.pointer(links, false));
    if let Some(links) = &links {
        let _ = writeln!(p.levels[0].text, "  if ({links}[first] < 0) return;");
    }
    let pointer = p.pointer(form.root, true);
    let ty = env.ty(out.value);
    // the statements for one element
    p.levels.push(super::printer::Level::new(inner.clone(), "    "));
    let mut inside: Vec<String> = Vec::new();
    if let Some(mask) = mask {
        let mask = p.value(*mask);
        inside.push(mask);
    }
    let mut more = Vec::new();
    for (axis, index) in idx.iter().enumerate() {
        let size = ty.shape[axis];
        let at = match index {
            Index::Affine(a) => {
                let (lo, hi) = a.range(&graph.sizes);
                if lo >= 0 && hi < size as i64 {
                    continue;
                }
                p.linear(&Linear::affine(a, graph.sizes.len()), 1)
            }
            Index::Node(n) => {
                let at = p.value(*n);
                more.push(match form.strides[axis] {
                    1 => format!("({at})"),
                    stride => format!("{} * ({at})", literals::wide(stride)),
                });
                at
            }
        };
        inside.push(format!("fg_inside({at}, {})", literals::wide(size)));
    }
    let loops: Vec<_> = outer.iter().chain(&inner).cloned().collect();
    let element = format!("{pointer}[{}]", lines::text(&place, &loops, &more));
    let value = super::walk::stored(&mut p, out.node, ty.dtype);
    let half = stored_type(ty.dtype).starts_with("fg_");
    let with = |f: &str| match half {
        true => format!("fg_to<{}>::from({f}((float){element}, (float){value}))", stored_type(ty.dtype)),
        false => format!("{f}({element}, {value})"),
    };
    let value = match how {
        Combine::Replace => value.clone(),
        Combine::Add => with("fg_add"),
        Combine::Times => with("fg_mul"),
        Combine::Larger => with("fg_max"),
        Combine::Smaller => with("fg_min"),
    };
    let levels = p.close(1);
    let condition = if inside.is_empty() { String::new() } else { format!("if ({}) ", inside.join(" && ")) };
    let body = &mut p.levels[0].text;
    let _ = match &links {
        Some(links) => writeln!(body, "  for ({ix} g = first; g >= 0; g = fg_after({links}[g])) {{"),
        None => writeln!(body, "  for ({ix} g = 0; g < {}; ++g) {{", literals::size(turns)),
    };
    body.push_str(&decode(&inner, "g", ix, "    "));
    body.push_str(&levels[0].text);
    let _ = writeln!(body, "    {condition}{element} = {value};\n  }}");
    let body = p.close(0).remove(0).text;
    let context = json!({ "ix": ix, "total": literals::size(total), "body": body });
    let grid = [total.div_ceil(256).max(1), 1, 1];
    Frame { template: TEMPLATE, stem: "scatter", grid, block: [256, 1, 1] }.kernel(origin, &p.args, p.faults, context)
}
