//! Makes stages of a model: its trace is cut at marks, or so that the work is balanced.
//!
//! Stages are consecutive parts of the trace. A value that a later stage reads is an output of every stage from the one
//! that makes it to the one before its last reader. Each stage is fed directly with the inputs of the batch that it
//! reads.

use super::chain::Chain;
use super::errors;
use super::partition::{partition, starts};
use super::rank::Done;
use super::stage::Stage;
use super::traced::{Traced, traced};
use fulgurite_runtime::Error;
use fulgurite_runtime::jit::Arguments;
use fulgurite_runtime::parts::{line_costs, written_later};
use fulgurite_runtime::tensor::Tensor;
use fulgurite_runtime::trace::{EpilogueWrite, InputCell, ProxyId, Trace, TracePart, verify};
use fulgurite_runtime::tree::{Tree, flatten};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::sync::Arc;

/// The places where a model is cut.
#[derive(Clone, Debug)]
pub enum Cut<'n> {
    /// A stage begins where a region of one of these names ([`named`](fulgurite_runtime::scope::named)) begins.
    At(&'n [&'n str]),
    /// This many stages, whose largest is as small as possible by the costs of the rows. Among cuts that are at most a
    /// twentieth worse, the one that sends the fewest bytes is taken.
    Balanced(usize),
}

/// A model as stages.
#[derive(Debug)]
pub struct StagedModel {
    chain: Chain,
    /// For each stage, the leaves of the model's parameters that belong to it.
    params: Vec<Vec<usize>>,
    /// For each stage, the leaves of the batch that are fed to it.
    fed: Vec<Vec<usize>>,
    /// For each stage, the work of its forward in additions.
    costs: Vec<f64>,
    leaves: usize,
}

impl StagedModel {
    /// The model `f(parameters, batch)` as stages, traced for arguments of the types of `params` and `batch`.
    ///
    /// # Errors
    /// E756 where the model can't be cut this way, and errors of tracing.
    pub fn cut<F, M, P, X>(name: &str, f: F, params: &P, batch: &X, cut: Cut) -> Result<StagedModel, Error>
    where
        P: Tree,
        X: Tree,
        (P, X): Arguments<F, M>,
    {
        StagedModel::cut_with(name, f, params, batch, cut, Ok)
    }

    /// Like [`StagedModel::cut`], with `stage` to configure each stage: [`Stage::on`], [`Stage::handing`], ….
    ///
    /// # Errors
    /// Reports the errors of [`StagedModel::cut`] and those of `stage`.
    pub fn cut_with<F, M, P, X>(
        name: &str,
        f: F,
        params: &P,
        batch: &X,
        cut: Cut,
        stage: impl Fn(Stage) -> Result<Stage, Error>,
    ) -> Result<StagedModel, Error>
    where
        P: Tree,
        X: Tree,
        (P, X): Arguments<F, M>,
    {
        let made = traced(name, f, params, batch)?;
        let trace = fulgurite_runtime::transforms::dce(&made.trace)?;
        let costs = line_costs(&trace)?;
        let begins = match cut {
            Cut::At(marks) => starts(&trace, marks)?,
            Cut::Balanced(stages) => partition(&trace, &costs, stages)?,
        };
        let whole = Whole { trace: &trace, made: &made, begins: &begins };
        let Parts { stages, params, fed } = whole.cut(name)?;
        let chain = Chain::new(stages.into_iter().map(stage).collect::<Result<_, _>>()?)?;
        let cost = |s: usize| costs[begins[s]..begins.get(s + 1).copied().unwrap_or(costs.len())].iter().sum();
        let costs = (0..begins.len()).map(cost).collect();
        Ok(StagedModel { chain, params, fed, costs, leaves: made.params })
    }

    /// The stages of the model.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The work of each stage's forward, in additions.
    pub fn costs(&self) -> &[f64] {
        &self.costs
    }

    /// The tensors of `params`, the model's parameters, that belong to a stage.
    pub fn params<P: Tree>(&self, stage: usize, params: &P) -> Vec<Tensor> {
        let leaves = flatten(params);
        pick(self.params.get(stage), leaves.leaves())
    }

    /// The leaves of the model's parameters that belong to a stage.
    pub fn leaves(&self, stage: usize) -> &[usize] {
        self.params.get(stage).map_or(&[], Vec::as_slice)
    }

    /// The tensors of a micro-batch that are fed to a stage.
    pub fn feed<X: Tree>(&self, stage: usize, batch: &X) -> Vec<Tensor> {
        let leaves = flatten(batch);
        pick(self.fed.get(stage), leaves.leaves())
    }

    /// The gradients of the stages that ran here, by the leaves of the model's parameters. `None` means that there is
    /// no gradient, or that the stage ran elsewhere.
    pub fn grads(&self, done: &[Done]) -> Vec<Option<Tensor>> {
        let mut grads = vec![None; self.leaves];
        for (stage, list) in done.iter().flat_map(|d| &d.grads) {
            for (leaf, grad) in self.params.get(*stage).into_iter().flatten().zip(list) {
                if let Some(grad) = grad {
                    grads[*leaf] = Some(grad.clone());
                }
            }
        }
        grads
    }
}

fn pick(list: Option<&Vec<usize>>, leaves: &[&Tensor]) -> Vec<Tensor> {
    list.into_iter().flatten().filter_map(|i| leaves.get(*i).map(|t| (*t).clone())).collect()
}

/// The stages of a model, with the leaves of the parameters and of the batch that belong to each.
#[derive(Default)]
struct Parts {
    stages: Vec<Stage>,
    params: Vec<Vec<usize>>,
    fed: Vec<Vec<usize>>,
}

/// A whole model with the first lines of its stages.
struct Whole<'t> {
    trace: &'t Trace,
    made: &'t Traced,
    begins: &'t [usize],
}

impl Whole<'_> {
    fn stages(&self) -> usize {
        self.begins.len()
    }

    fn stage_of(&self, line: usize) -> usize {
        self.begins.partition_point(|begin| *begin <= line).saturating_sub(1)
    }

    fn cut(&self, name: &str) -> Result<Parts, Error> {
        let trace = self.trace;
        let last = self.stages() - 1;
        let input: FxHashMap<ProxyId, usize> = trace.input_proxies().enumerate().map(|(i, p)| (p, i)).collect();
        let mut maker: FxHashMap<ProxyId, usize> = FxHashMap::default();
        // inputs of the model that each stage reads, and the last stage that reads each value of an earlier one
        let mut reads: Vec<FxHashSet<usize>> = vec![FxHashSet::default(); self.stages()];
        let mut until: FxHashMap<ProxyId, usize> = FxHashMap::default();
        let mut order: Vec<ProxyId> = Vec::new();
        let mut read = |stage: usize, p: ProxyId| match input.get(&p) {
            Some(i) => _ = reads[stage].insert(*i),
            None => {
                let end = until.entry(p).or_insert(stage);
                *end = stage.max(*end);
            }
        };
        for (at, line) in trace.lines().iter().enumerate() {
            let stage = self.stage_of(at);
            line.for_each_arg(|p| read(stage, p));
            for p in line.outs.iter().chain(&line.aux) {
                maker.insert(*p, stage);
                order.push(*p);
            }
        }
        trace.outputs().iter().for_each(|p| read(last, *p));
        let mut writes: Vec<Vec<EpilogueWrite>> = vec![Vec::new(); self.stages()];
        for write in trace.epilogue() {
            let stage = maker.get(&write.value).copied().unwrap_or(last);
            if let Some(other) = (0..self.stages()).find(|s| *s != stage && reads[*s].contains(&write.input)) {
                let path = &trace.inputs()[write.input].path;
                return Err(errors::shared(path, stage, other));
            }
            reads[stage].insert(write.input);
            if let Some(i) = input.get(&write.value) {
                reads[stage].insert(*i);
            }
            writes[stage].push(write.clone());
        }
        // a backward writes when its stage runs back, in an order that the ranks decide
        for (at, line) in trace.lines().iter().enumerate() {
            for i in written_later(&trace.arena, line).iter().filter_map(|p| input.get(p)) {
                let stage = self.stage_of(at);
                if let Some(other) = (0..self.stages()).find(|s| *s != stage && reads[*s].contains(i)) {
                    let path = &trace.inputs()[*i].path;
                    return Err(errors::shared(path, stage, other));
                }
            }
        }
        let sent = |stage: usize| {
            let goes_on = |p: &&ProxyId| maker[*p] <= stage && until.get(*p).is_some_and(|end| *end > stage);
            order.iter().filter(goes_on).copied().collect::<Vec<_>>()
        };
        let mut parts = Parts::default();
        let mut carried: Vec<ProxyId> = Vec::new();
        for stage in 0..self.stages() {
            let of = |range: std::ops::Range<usize>| range.filter(|i| reads[stage].contains(i)).collect::<Vec<_>>();
            // parameters, then the batch, then captured tensors
            let (own, given) = (self.made.params, self.made.paths.len());
            let (params, fed, captured) = (of(0..own), of(own..given), of(given..trace.inputs().len()));
            let outputs = if stage == last { trace.outputs().to_vec() } else { sent(stage) };
            let made = self.part(stage, [&params, &fed, &captured], &carried, &outputs, &writes[stage])?;
            let name_of = |p: &ProxyId| Arc::<str>::from(&*trace.arena.name(*p));
            let paths: Vec<Arc<str>> = params.iter().map(|i| self.made.paths[*i].clone()).collect();
            let inputs: Vec<Arc<str>> =
                carried.iter().map(name_of).chain(fed.iter().map(|i| self.made.paths[*i].clone())).collect();
            let results: Vec<Arc<str>> = match stage == last {
                true => self.made.results.clone(),
                false => (0..outputs.len()).map(|i| Arc::from(i.to_string())).collect(),
            };
            let cells = captured.iter().map(|i| self.made.cells[i - given].clone()).collect();
            let mut part = Stage::new(&format!("{name}.{stage}"), made, cells, &paths, &inputs, &results);
            for (slot, leaf) in part.of.params.iter_mut().zip(&params) {
                let shared = (0..self.stages()).any(|s| s != stage && reads[s].contains(leaf));
                slot.tied = (shared && slot.needs_grad).then_some(*leaf);
            }
            parts.stages.push(part);
            parts.params.push(params);
            parts.fed.push(fed.iter().map(|i| i - own).collect());
            carried = outputs;
        }
        Ok(parts)
    }

    /// The trace of one stage: its parameters, the values carried to it, the leaves fed to it, the tensors that it
    /// captures.
    fn part(
        &self,
        stage: usize,
        [params, fed, captured]: [&Vec<usize>; 3],
        carried: &[ProxyId],
        outputs: &[ProxyId],
        writes: &[EpilogueWrite],
    ) -> Result<Trace, Error> {
        let whole = self.trace;
        let of = |list: &[usize]| list.iter().map(|i| whole.inputs()[*i].clone()).collect::<Vec<_>>();
        let value = |p: &ProxyId| InputCell {
            proxy: *p,
            version: *p,
            alias_group: 0,
            path: whole.arena.name(*p),
            donated: true,
            constant: false,
        };
        let mut inputs = of(params);
        inputs.extend(carried.iter().map(value));
        inputs.extend(of(fed));
        inputs.extend(of(captured));
        let end = self.begins.get(stage + 1).copied().unwrap_or(whole.lines().len());
        let lines = whole.lines()[self.begins[stage]..end].to_vec();
        let position = |i: usize| {
            let proxy = whole.inputs()[i].proxy;
            inputs.iter().position(|cell| cell.proxy == proxy).unwrap_or(i)
        };
        let writes = writes.iter().map(|w| EpilogueWrite { input: position(w.input), ..w.clone() }).collect();
        let part = TracePart { inputs, lines, outputs: outputs.to_vec(), guards: Vec::new(), writes };
        let mut made = whole.part(part);
        made.name = Rc::from(format!("{}.{stage}", whole.name));
        verify::step(whole, &made)?;
        Ok(made)
    }
}
