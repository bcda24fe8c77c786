//! A stage: a part of a model as a forward and the parts of its backward.

use super::cotangents::Form;
use super::programs::Programs;
use super::slot::Slot;
use super::traced::{Traced, traced};
use crate::backward_split::{BackwardSplit, Handover};
use fulgurite_runtime::Error;
use fulgurite_runtime::executors::Executor;
use fulgurite_runtime::jit::Arguments;
use fulgurite_runtime::parts;
use fulgurite_runtime::tensor::{Cell, Tensor};
use fulgurite_runtime::trace::Trace;
use fulgurite_runtime::transforms::{At, Remat};
use fulgurite_runtime::tree::Tree;
use std::sync::Arc;

/// A part of a model, traced for parameters and inputs of certain types, and compiled when it first runs.
///
/// The backward is cut when it is compiled, once for each set of cotangents.
pub struct Stage {
    name: String,
    pub(super) form: Form,
    pub(super) of: Programs,
}

impl Stage {
    /// The stage `f(parameters, inputs)`, traced for arguments of the types of `params` and `inputs`.
    ///
    /// # Errors
    /// Reports errors of tracing.
    pub fn of<F, M, P, X>(name: &str, f: F, params: &P, inputs: &X) -> Result<Stage, Error>
    where
        P: Tree,
        X: Tree,
        (P, X): Arguments<F, M>,
    {
        let Traced { trace, cells, paths, params, results } = traced(name, f, params, inputs)?;
        let (params, inputs) = paths.split_at(params);
        Ok(Stage::new(name, trace, cells, params, inputs, &results))
    }

    /// Makes a stage of a trace whose inputs are parameters, then inputs, then captured cells.
    pub(super) fn new(
        name: &str,
        trace: Trace,
        cells: Vec<Arc<Cell>>,
        params: &[Arc<str>],
        inputs: &[Arc<str>],
        outputs: &[Arc<str>],
    ) -> Stage {
        let ty = |at: usize| trace.ty(trace.inputs()[at].proxy);
        let slots = |from: usize, paths: &[Arc<str>]| {
            paths.iter().enumerate().map(|(i, path)| Slot::new(path, ty(from + i))).collect::<Vec<_>>()
        };
        let results = outputs.iter().zip(trace.outputs()).map(|(path, p)| Slot::new(path, trace.ty(*p)));
        let form = Form::of(outputs.iter().map(|p| &**p));
        let (params, inputs) = (slots(0, params), slots(params.len(), inputs));
        let of = Programs::new(trace.clone(), cells, params, inputs, results.collect());
        Stage { name: name.to_owned(), form, of }
    }

    // ------------------------------------------------------------ options

    /// Leaves out the gradients of these parameters, by path.
    ///
    /// # Errors
    /// E756 for a path that no parameter has.
    pub fn frozen(mut self, paths: &[&str]) -> Result<Stage, Error> {
        without(&mut self.of.params, paths, "parameter")?;
        Ok(self.fresh())
    }

    /// Leaves out the gradients of these inputs, by path.
    ///
    /// # Errors
    /// E756 for a path that no input has.
    pub fn constant(mut self, paths: &[&str]) -> Result<Stage, Error> {
        without(&mut self.of.inputs, paths, "input")?;
        Ok(self.fresh())
    }

    /// Leaves out the gradients of these inputs, by number, and the cotangents of these outputs.
    pub(super) fn within(mut self, constant: impl Fn(usize) -> bool, absent: impl Fn(usize) -> bool) -> Stage {
        self.of.inputs.iter_mut().enumerate().for_each(|(i, slot)| slot.needs_grad &= !constant(i));
        self.of.outputs.iter_mut().enumerate().for_each(|(i, slot)| slot.needs_grad &= !absent(i));
        self.fresh()
    }

    /// Ties parameters to those of other stages, each by its path and a number.
    ///
    /// # Errors
    /// E756 for a path that no parameter has.
    pub fn tied(mut self, ties: &[(&str, usize)]) -> Result<Stage, Error> {
        for (path, tie) in ties {
            let slot = self.of.params.iter_mut().find(|s| *s.path == **path);
            let Some(slot) = slot else { return Err(unknown(&self.of.params, path, "parameter")) };
            slot.tied = Some(*tie);
        }
        Ok(self)
    }

    /// Compiles the stage for these executors; each line is offered to them in this order.
    pub fn on(mut self, executors: Vec<Arc<dyn Executor>>) -> Stage {
        self.of.executors = executors;
        self.fresh()
    }

    /// Lets the backward keep as many values as `remat` says, and compute the others again.
    pub fn rematerialise(mut self, remat: Remat) -> Stage {
        self.of.pipeline.remat = remat;
        self.fresh()
    }

    /// Chooses the values that I hands over to W.
    pub fn handing(mut self, policy: Handover) -> Stage {
        self.of.policy = policy;
        self.fresh()
    }

    /// Adds a transform of each joint trace, as [`Jit::transform`](fulgurite_runtime::jit::Jit::transform) does at
    /// [`At::Joint`].
    pub fn transform(
        mut self,
        name: &'static str,
        transform: impl Fn(&Trace) -> Result<Trace, Error> + Send + Sync + 'static,
    ) -> Stage {
        self.of.pipeline.add(At::Joint, name, Arc::new(transform));
        self.fresh()
    }

    /// Drops the compiled programs.
    fn fresh(mut self) -> Stage {
        self.of.forget();
        self
    }

    // ------------------------------------------------------------ parts

    /// The name of the stage.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters of the stage.
    pub fn params(&self) -> &[Slot] {
        &self.of.params
    }

    /// The inputs of the stage.
    pub fn inputs(&self) -> &[Slot] {
        &self.of.inputs
    }

    /// The outputs of the stage.
    pub fn outputs(&self) -> &[Slot] {
        &self.of.outputs
    }

    /// For each input, whether its gradient is sent to the stage before, if there is a cotangent for every output that
    /// may have one. This is known once the stage is compiled.
    ///
    /// # Errors
    /// Reports errors of compiling.
    pub fn sends(&self) -> Result<Vec<bool>, Error> {
        let backward_split = self.backward_split(&self.whole_mask())?;
        Ok(backward_split.inputs.iter().map(Option::is_some).collect())
    }

    /// The backward for cotangents of these outputs, cut into I and W.
    ///
    /// # Errors
    /// Reports errors of compiling.
    pub fn backward_split(&self, mask: &[bool]) -> Result<BackwardSplit, Error> {
        Ok(self.of.backward(mask)?.backward_split(&self.of)?.clone())
    }

    /// The outputs that may have a cotangent.
    pub fn whole_mask(&self) -> Vec<bool> {
        self.of.mask()
    }

    /// The number of sets of cotangents for which a backward was compiled.
    pub fn masks(&self) -> usize {
        self.of.masks()
    }
}

fn unknown(slots: &[Slot], path: &str, what: &str) -> Error {
    let known: Vec<&str> = slots.iter().map(|s| &*s.path).collect();
    super::errors::misfit(format!("no {what} is called `{path}`")).note(format!("there are {}", known.join(", ")))
}

fn without(slots: &mut [Slot], paths: &[&str], what: &str) -> Result<(), Error> {
    for path in paths {
        match slots.iter_mut().find(|s| *s.path == **path) {
            Some(slot) => slot.needs_grad = false,
            None => return Err(unknown(slots, path, what)),
        }
    }
    Ok(())
}

/// The cell of a tensor in memory.
pub(super) fn cell_of(tensor: &Tensor) -> Result<&Arc<Cell>, Error> {
    parts::cell_of(tensor)?.ok_or_else(|| {
        let class =
            tensor.ty().and_then(|ty| ty.subclass().map(|layout| layout.class.name().to_string())).unwrap_or_default();
        let claim = format!("a stage takes plain tensors, a `{class}` was given");
        super::errors::misfit(claim).help("pass its fields")
    })
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (params, inputs, outputs) = (self.of.params.len(), self.of.inputs.len(), self.of.outputs.len());
        write!(f, "stage {}: {params} parameters, {inputs} inputs, {outputs} outputs", self.name)
    }
}
