//! Claimed lines to a program: values, pieces, items, steps, plan.

use super::compiled::{Compiled, Output, Parts, StepInfo};
use super::fuse::{Form, Fuser, Item, Opaque};
use super::graph::ValueId;
use super::graph::convert::{LineIo, convert};
use super::graph::piece::Values;
use super::graph::row::RowKernel;
use super::kern::Isa;
use super::layout::Layout;
use super::loops::{self, Env};
use super::product::Product;
use super::scan::ScanStep;
use super::step::{KernelStep, Step};
use super::windows::Windows;
use crate::executors::line::stored;
use crate::executors::partition::{Claimed, Partition};
use crate::executors::require::{Assert, Check};
use crate::executors::{CompileOptions, ExecError, Line};
use crate::trace::Trace;
use crate::trace::{BoundSymbolId, ProxyId};
use fulgurite_core::DType;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::Arc;

/// What stands behind the items' lines.
struct Named {
    id: BoundSymbolId,
    name: &'static str,
    executor: &'static str,
}

struct Build<'t> {
    trace: &'t Trace,
    values: Values,
    of_proxy: FxHashMap<ProxyId, ValueId>,
    lines: Vec<Named>,
    fuser: Fuser,
}

/// Compiles claimed lines.
pub(crate) fn build(trace: &Trace, partition: Partition, options: &CompileOptions<'_>) -> Result<Compiled, ExecError> {
    let mut b = Build {
        trace,
        values: Values::default(),
        of_proxy: FxHashMap::default(),
        lines: Vec::new(),
        fuser: Fuser::default(),
    };
    let inputs: Vec<ValueId> = trace.inputs.iter().map(|i| b.value(i.proxy)).collect();
    let Partition { claimed, same } = partition;
    let root = |mut p: ProxyId| {
        while let Some(&q) = same.get(&p) {
            p = q;
        }
        p
    };
    for claimed in claimed {
        b.fuser.line(b.lines.len() as u32);
        match claimed {
            Claimed::Fuse(line) => b.line(&line, &root)?,
            Claimed::Check(line, check) => b.check(&line, check, &root),
            Claimed::Kernel { lines, executor, kernel, inputs, outs } => {
                let inputs = inputs.into_iter().map(|p| b.value(root(p))).collect();
                let outs: Vec<ValueId> = outs.into_iter().map(|p| b.value(p)).collect();
                b.lines.push(Named { id: lines[0], name: "", executor });
                b.fuser.opaque(Opaque { kernel, inputs, outs }, &mut b.values);
            }
        }
    }
    let results: Vec<ProxyId> =
        trace.outputs.iter().chain(trace.epilogue.iter().map(|w| &w.value)).map(|p| root(*p)).collect();
    let mut outputs = Vec::new();
    for p in results {
        let v = b.value(p);
        outputs.push(b.fuser.dense(v, &mut b.values));
    }
    b.finish(&inputs, &outputs, options)
}

impl Build<'_> {
    fn value(&mut self, p: ProxyId) -> ValueId {
        let (trace, values) = (self.trace, &mut self.values);
        *self.of_proxy.entry(p).or_insert_with(|| {
            let (dtype, shape) = stored(&trace.arena.ty(p));
            values.add(dtype, &shape)
        })
    }

    fn line(&mut self, line: &Line, root: &dyn Fn(ProxyId) -> ProxyId) -> Result<(), ExecError> {
        let nest = match line.nest() {
            Some(nest) => nest?,
            None => {
                return Err(
                    ExecError::new("E802", format!("`{}` has no meaning that can be fused", line.name())).at(line.id())
                );
            }
        };
        if !line.symbol.effects.writes.is_empty() {
            let what = format!("`{}` writes its arguments: functionalise the trace before it is compiled", line.name());
            return Err(ExecError::new("E802", what).at(line.id()));
        }
        self.lines.push(Named { id: line.id(), name: line.name(), executor: "cpu" });
        let io = LineIo {
            tensors: line.tensors.iter().map(|p| self.value(root(*p))).collect(),
            nums: line.nums.iter().map(|p| self.value(root(*p))).collect(),
            outs: line.wanted(nest.outs.len()).into_iter().map(|p| p.map(|p| self.value(p))).collect(),
            site: line.site(),
            row: RowKernel::of(line),
            nest,
        };
        for piece in convert(&io, &mut self.values) {
            self.fuser.piece(piece, &mut self.values);
        }
        Ok(())
    }

    /// A condition: its truth as a value, and a step that fails if it is false.
    fn check(&mut self, line: &Line, check: Check, root: &dyn Fn(ProxyId) -> ProxyId) {
        self.lines.push(Named { id: line.id(), name: line.name(), executor: "cpu" });
        let shape: SmallVec<[usize; 6]> =
            check.nest.outs.iter().flat_map(|o| &o.shape).map(|d| d.value() as usize).collect();
        let holds = self.values.add(DType::Bool, &shape);
        let io = LineIo {
            tensors: line.tensors.iter().map(|p| self.value(root(*p))).collect(),
            nums: line.nums.iter().map(|p| self.value(root(*p))).collect(),
            outs: vec![Some(holds)],
            site: 0,
            row: None,
            nest: check.nest,
        };
        for piece in convert(&io, &mut self.values) {
            self.fuser.piece(piece, &mut self.values);
        }
        let assert = Assert { message: check.message };
        self.fuser.opaque(Opaque { kernel: Arc::new(assert), inputs: vec![holds], outs: Vec::new() }, &mut self.values);
    }

    fn finish(
        self,
        inputs: &[ValueId],
        outputs: &[ValueId],
        options: &CompileOptions<'_>,
    ) -> Result<Compiled, ExecError> {
        let Build { trace, values, of_proxy, lines, fuser, .. } = self;
        let fused = fuser.finish(outputs);
        let form = |v: ValueId| fused.forms.get(&v).cloned().unwrap_or_else(|| Form::dense(v, values.ty(v)));
        let (items, needed) = prune(fused.items, outputs, &form);
        let stored = |v: ValueId| needed.contains(&v) && !fused.forms.contains_key(&v);
        let env = Env { values: &values, form: &form, stored: &stored };
        let isa = Isa::here();
        let mut steps: Vec<(Step, Vec<u32>)> = Vec::new();
        for (item, lines) in items {
            let step = match item {
                Item::Group(g) => match Windows::padded(&g, &env, isa) {
                    Some(copy) => Step::Windows(Box::new(copy)),
                    None => Step::Program(Box::new(loops::compile(&g, &env, isa))),
                },
                Item::Contract(c) => Step::Product(Box::new(Product::new(&c, &values, &form, isa))),
                Item::Scan(s) => Step::Scan(Box::new(ScanStep::new(&s, &values, &form))),
                Item::Opaque(o) => {
                    let ty = |v: &ValueId| (form(*v).root, values.ty(*v).dtype, values.ty(*v).shape.clone());
                    let (inputs, outs) = (o.inputs.iter().map(ty).collect(), o.outs.iter().map(ty).collect());
                    Step::Kernel(Box::new(KernelStep { kernel: o.kernel, inputs, outs }))
                }
            };
            steps.push((step, lines));
        }
        let roots: Vec<ValueId> = outputs.iter().map(|v| form(*v).root).collect();
        let mut layout = Layout::new(&values, inputs, &roots);
        for (at, (step, _)) in steps.iter().enumerate() {
            layout.step(at, step);
        }
        let layout = layout.place();
        let mut infos = Vec::new();
        for (step, of) in &mut steps {
            step.remap(&|v| layout.number[&v]);
            let of: Vec<&Named> = of.iter().filter_map(|l| lines.get(*l as usize)).collect();
            infos.push(StepInfo {
                executor: of.first().map_or("cpu", |n| n.executor),
                what: if options.describe { step.describe() } else { String::new() },
                lines: of.iter().map(|n| n.id).collect(),
                rows: of.iter().map(|n| n.name).collect(),
                bytes: step.traffic(),
                nanos: step.cost(),
            });
        }
        let proxies: FxHashMap<ValueId, ProxyId> = of_proxy.iter().map(|(p, v)| (*v, *p)).collect();
        let label = |v: &ValueId| proxies.get(v).map(|p| trace.arena.name(*p).to_string());
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
            scratch: layout.scratch,
            storages: layout.storages,
            arena: layout.arena,
            peak: layout.peak,
            blocks: layout.blocks,
            donations: layout.donations,
            threads: options.threads,
        }))
    }
}

/// Drops items and results that nobody needs; the dense values that are needed.
fn prune(
    items: Vec<(Item, Vec<u32>)>,
    outputs: &[ValueId],
    form: &dyn Fn(ValueId) -> Form,
) -> (Vec<(Item, Vec<u32>)>, FxHashSet<ValueId>) {
    let mut needed: FxHashSet<ValueId> = outputs.iter().map(|v| form(*v).root).collect();
    let mut kept = Vec::new();
    for (mut item, lines) in items.into_iter().rev() {
        if let Item::Group(g) = &mut item {
            g.outs.retain(|o| needed.contains(&o.value) && form(o.value).root == o.value);
            if g.outs.is_empty() {
                continue;
            }
        } else if !item.defines().is_empty() && !item.defines().iter().any(|v| needed.contains(v)) {
            // A kernel without results is a check.
            continue;
        }
        let reads = match &item {
            Item::Group(g) => g.live_reads(),
            other => other.reads(),
        };
        needed.extend(reads.into_iter().map(|v| form(v).root));
        // A kernel writes all that it gives, wanted or not.
        needed.extend(if matches!(item, Item::Opaque(_)) { item.defines() } else { Vec::new() });
        kept.push((item, lines));
    }
    kept.reverse();
    (kept, needed)
}
