//! Compiles claimed lines to a program: items, steps, plan.

use super::compiled::{Compiled, Output, Parts, StepInfo};
use super::host_step::Linker;
use super::kept::Keep;
use super::layout::{Layout, Placed, Where};
use super::row_steps::RowSteps;
use super::step::Step;
use crate::executors::fusion::fuse::{Item, Opaque};
use crate::executors::fusion::graph::{Graph, ValueId};
use crate::executors::fusion::items::{Env, Items, Named};
use crate::executors::fusion::row_blocks::Ordered;
use crate::executors::partition::{Claimed, Partition, root};
use crate::executors::{CompileOptions, ExecError};
use crate::trace::{ProxyId, Trace};
use rustc_hash::FxHashMap;

/// Compiles claimed lines; `linker` makes the steps of items.
pub(crate) fn build(
    trace: &Trace,
    partition: Partition,
    options: &CompileOptions<'_>,
    linker: &dyn Linker,
) -> Result<Compiled, ExecError> {
    let mut b = Items::new(trace, linker.name(), linker.ways());
    if options.explain {
        b.explain();
    }
    let inputs: Vec<ValueId> = trace.inputs.iter().map(|i| b.value(i.proxy)).collect();
    let Partition { claimed, same, at } = partition;
    let root = |p| root(&same, p);
    for claimed in claimed {
        match claimed {
            Claimed::Join(line, checks, _) => b.line(&line, &checks, &root)?,
            Claimed::Check(line, check) => b.check(&line, &check, &root),
            Claimed::Kernel { lines, executor, kernel, inputs, outs, refuses } => {
                let inputs = inputs.into_iter().map(|p| b.value(root(p))).collect();
                let outs = outs.into_iter().map(|p| b.value(p)).collect();
                b.kernel(lines[0], executor, Opaque { kernel, inputs, outs, refuses });
            }
        }
    }
    let results: Vec<ProxyId> =
        trace.outputs.iter().chain(trace.epilogue.iter().map(|w| &w.value)).map(|p| root(*p)).collect();
    let results = results.into_iter().map(|p| at.get(&p).copied().unwrap_or(p));
    let mut outputs = Vec::new();
    for p in results {
        outputs.push(b.dense(p));
    }
    finish(trace, b, &inputs, &outputs, options, linker)
}

fn finish(
    trace: &Trace,
    items: Items<'_>,
    inputs: &[ValueId],
    outputs: &[ValueId],
    options: &CompileOptions<'_>,
    linker: &dyn Linker,
) -> Result<Compiled, ExecError> {
    let (values, of_proxy, lines, mut made) = items.finish(inputs, outputs)?;
    let items = std::mem::take(&mut made.items);
    let form = |v: ValueId| made.form(v, &values);
    let stored = |v: ValueId| made.stored(v);
    let env = Env { values: &values, form: &form, stored: &stored, near: &[] };
    for (item, of) in &items {
        if let Item::Group(g) = item {
            let line = of.first().and_then(|l| lines.get(*l as usize)).map(|l| l.id);
            countable(&g.graph).map_err(|e| ExecError { line: e.line.or(line), ..e })?;
        }
    }
    let mut blocks = RowSteps::of(&items, outputs, &env, (linker, options.blocks_from));
    let mut single: Vec<Option<(Item, Vec<u32>)>> = items.into_iter().map(Some).collect();
    let mut steps: Vec<(Step, Vec<u32>)> = Vec::new();
    for ordered in std::mem::take(&mut blocks.order) {
        let at = match ordered {
            Ordered::Group(number) => {
                steps.extend(blocks.take(number).map(|(step, of)| (Step::Host(step), of)));
                continue;
            }
            Ordered::Item(at) => at,
        };
        let Some((item, of)) = single[at].take() else { continue };
        let step = match item {
            Item::Group(g) => Step::Host(linker.group(&g, &env)),
            Item::Contract(c) => Step::Host(linker.product(&c, &env)),
            Item::Scan(s) => Step::Host(linker.scan(&s, &env)),
            Item::Opaque(o) => {
                let ty = |v: &ValueId| (form(*v).root, values.ty(*v).dtype, values.ty(*v).shape.clone());
                let (inputs, outs) = (o.inputs.iter().map(ty).collect(), o.outs.iter().map(ty).collect());
                Step::of_kernel(o.kernel, inputs, outs)
            }
        };
        steps.push((step, of));
    }
    let roots: Vec<ValueId> = outputs.iter().map(|v| form(*v).root).collect();
    let mut layout = Layout::new(&values, inputs, &roots);
    for (at, (step, _)) in steps.iter().enumerate() {
        layout.step(at, step);
    }
    let mut layout = layout.place();
    let proxies: FxHashMap<ValueId, ProxyId> = of_proxy.iter().map(|(p, v)| (*v, *p)).collect();
    let label = |v: &ValueId| proxies.get(v).map(|p| trace.arena.name(*p).to_string());
    let mut infos = Vec::new();
    let mut blame = FxHashMap::default();
    for (at, (step, of)) in steps.iter_mut().enumerate() {
        step.remap(&|v| layout.number[&v]);
        let of: Vec<&Named> = of.iter().filter_map(|l| lines.get(*l as usize)).collect();
        for (named, v) in of.iter().flat_map(|n| n.picks.iter().map(move |v| (n, v))) {
            let storage = layout.number.get(&form(*v).root);
            storage.map(|storage| blame.entry((at, *storage)).or_insert(named.id));
        }
        let (what, inner) = match &*step {
            _ if !options.describe => (String::new(), Vec::new()),
            Step::Host(step) => (step.describe(), Vec::new()),
            Step::Device(step) => (step.describe(&|v| label(&layout.roots[v as usize])), step.kernel.steps()),
        };
        infos.push(StepInfo {
            executor: of.first().map_or(linker.name(), |n| n.executor),
            what,
            steps: inner,
            lines: of.iter().map(|n| n.id).collect(),
            rows: of.iter().map(|n| n.name).collect(),
            bytes: step.traffic(),
            flops: step.flops(),
            nanos: step.cost(),
        });
    }
    let keeps = keeps(&mut steps, &mut layout);
    let id = |line: u32| lines.get(line as usize).map(|l| l.id);
    let apart = made.apart.iter().filter_map(|a| Some((id(a.line)?, id(a.other)?, a.why))).collect();
    let output = |v: &ValueId| Output {
        storage: layout.number[&form(*v).root],
        dtype: values.ty(*v).dtype,
        shape: values.ty(*v).shape.clone(),
    };
    Ok(Compiled::new(Parts {
        inputs: inputs.iter().map(|v| (values.ty(*v).dtype, values.ty(*v).shape.clone())).collect(),
        outputs: outputs.iter().map(output).collect(),
        labels: layout.roots.iter().map(label).collect(),
        steps: steps.into_iter().map(|s| s.0).collect(),
        infos,
        blame,
        apart,
        layout,
        keeps,
        threads: options.threads,
    }))
}

/// The inputs of which steps can use prepared copies, with storages for the copies.
fn keeps(steps: &mut [(Step, Vec<u32>)], layout: &mut Placed) -> Vec<Keep> {
    let mut keeps = Vec::new();
    for (at, (step, _)) in steps.iter_mut().enumerate() {
        let Step::Host(step) = step else { continue };
        let Some((value, bytes)) = step.keeps() else { continue };
        let Where::Input(input) = layout.storages[value as usize].place else { continue };
        let storage = layout.add_kept(bytes);
        step.keep(storage);
        keeps.push(Keep { step: at, input: input as usize, storage, bytes });
    }
    keeps
}

/// At most this many steps in a nest of loops, because sizes in bytes and positions that are computed from it, at most
/// 64 per step, must fit the machine's integers.
const MOST_STEPS: usize = isize::MAX as usize / 64;

/// Refuses a node whose loops would not end on any machine: an option may make a window wide, whatever the size of its
/// tensor.
fn countable(graph: &Graph) -> Result<(), ExecError> {
    for node in &graph.nodes {
        let sizes: Vec<usize> = node.dims.iter().map(|d| graph.sizes[d as usize]).collect();
        let steps = sizes.iter().try_fold(1usize, |steps, n| steps.checked_mul(*n));
        if !sizes.contains(&0) && steps.is_none_or(|steps| steps > MOST_STEPS) {
            let loops: Vec<String> = sizes.iter().map(usize::to_string).collect();
            let claim = format!("loops of {} steps are more than can be counted", loops.join(" x "));
            return Err(ExecError::new("E806", claim).help("take smaller sizes, or a window no wider than the tensor"));
        }
    }
    Ok(())
}
