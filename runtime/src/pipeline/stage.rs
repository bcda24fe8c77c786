//! A stage: a part of a model as a forward and the parts of its backward.

use super::cotangents::Form;
use super::programs::{Backward, Forward};
use crate::error::Error;
use crate::executors::Executor;
use crate::jit::acquire::{How, acquired};
use crate::jit::{Arguments, Stages};
use crate::tensor::{Cell, Tensor, View};
use crate::trace::{ProxyTy, Trace};
use crate::transforms::halves::{Halves, Policy};
use crate::transforms::{At, Pipeline, Remat};
use crate::tree::{Leaves, Tree, describe};
use fulgurite_core::dim::Recording;
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A tensor that a stage takes or gives.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its path in its tree.
    pub path: Arc<str>,
    /// Its type.
    pub ty: ProxyTy,
    /// Of parameters and inputs: whether a gradient is wanted. Of outputs: whether a cotangent may come.
    pub needs_grad: bool,
    /// Of parameters: a number that those share which are one parameter of the model, in different stages.
    pub tied: Option<usize>,
}

impl Slot {
    pub(super) fn new(path: &str, ty: ProxyTy) -> Slot {
        let needs_grad = matches!(ty.as_tensor(), Some(t) if t.dtype.is_float());
        Slot { path: path.into(), ty, needs_grad, tied: None }
    }
}

/// A part of a model, traced for parameters and inputs of certain types, and compiled when it first runs.
///
/// Its backward is cut when it is compiled, for each set of cotangents that are there.
pub struct Stage {
    name: String,
    pub(super) trace: Trace,
    pub(super) cells: Vec<Arc<Cell>>,
    pub(super) params: Vec<Slot>,
    pub(super) inputs: Vec<Slot>,
    pub(super) outputs: Vec<Slot>,
    pub(super) form: Form,
    pub(super) executors: Vec<Arc<dyn Executor>>,
    pub(super) pipeline: Pipeline,
    pub(super) policy: Policy,
    pub(super) forward: OnceCell<Forward>,
    pub(super) backwards: RefCell<Vec<Rc<Backward>>>,
}

impl Stage {
    /// The stage `f(parameters, inputs)`, traced for arguments of the types of these.
    ///
    /// # Errors
    /// What tracing reports.
    pub fn of<F, M, P, X>(name: &str, f: F, params: &P, inputs: &X) -> Result<Stage, Error>
    where
        P: Tree,
        X: Tree,
        (P, X): Arguments<F, M>,
    {
        let (leaves, detail) = describe(params);
        let (more, inner) = describe(inputs);
        let count = leaves.len();
        // a tree that is one tensor has no path
        let named = |path: Arc<str>, name: &str| if path.is_empty() { name.into() } else { path };
        let params_at = leaves.into_iter().zip(detail.paths).map(|(t, path)| (t, named(path, "w")));
        let inputs_at = more.into_iter().zip(inner.paths).map(|(t, path)| (t, named(path, "x")));
        let args: Vec<(Tensor, Arc<str>)> = params_at.chain(inputs_at).collect();
        let run = |handles: Vec<Tensor>| {
            let mut handles = handles.into_iter();
            let mut handles = Leaves::new(&mut handles);
            let params = params.rebuild(&mut handles);
            (params, inputs.rebuild(&mut handles)).run(&f)
        };
        let mut recording = Recording::start();
        let how = How { differentiated: true, ..How::default() };
        let (made, _) = acquired(name, &args, how, &Arc::default(), &mut recording, &mut Stages::new(false), run)?;
        let (_, results) = describe(&made.template);
        let paths: Vec<Arc<str>> = args.into_iter().map(|(_, path)| path).collect();
        let (params, inputs) = paths.split_at(count);
        Ok(Stage::new(name, made.trace, made.cells, params, inputs, &results.paths))
    }

    /// A stage of a trace whose inputs are parameters, inputs, and captured cells.
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
        Stage {
            name: name.to_owned(),
            cells,
            params: slots(0, params),
            inputs: slots(params.len(), inputs),
            outputs: results.collect(),
            form: Form::of(outputs.iter().map(|p| &**p)),
            trace,
            executors: Vec::new(),
            pipeline: Pipeline::default(),
            policy: Policy::default(),
            forward: OnceCell::new(),
            backwards: RefCell::default(),
        }
    }

    // ------------------------------------------------------------ wishes

    /// The same without gradients for these parameters, by path.
    ///
    /// # Errors
    /// E756 for a path that no parameter has.
    pub fn frozen(mut self, paths: &[&str]) -> Result<Stage, Error> {
        without(&mut self.params, paths, "parameter")?;
        Ok(self.fresh())
    }

    /// The same without gradients for these inputs, by path.
    ///
    /// # Errors
    /// E756 for a path that no input has.
    pub fn constant(mut self, paths: &[&str]) -> Result<Stage, Error> {
        without(&mut self.inputs, paths, "input")?;
        Ok(self.fresh())
    }

    /// The same where these inputs (by number) have no gradients, and these outputs no cotangents.
    pub(super) fn within(mut self, constant: impl Fn(usize) -> bool, absent: impl Fn(usize) -> bool) -> Stage {
        self.inputs.iter_mut().enumerate().for_each(|(i, slot)| slot.needs_grad &= !constant(i));
        self.outputs.iter_mut().enumerate().for_each(|(i, slot)| slot.needs_grad &= !absent(i));
        self.fresh()
    }

    /// The same with parameters tied to those of other stages: path and number.
    ///
    /// # Errors
    /// E756 for a path that no parameter has.
    pub fn tied(mut self, ties: &[(&str, usize)]) -> Result<Stage, Error> {
        for (path, tie) in ties {
            let slot = self.params.iter_mut().find(|s| *s.path == **path);
            let Some(slot) = slot else { return Err(unknown(&self.params, path, "parameter")) };
            slot.tied = Some(*tie);
        }
        Ok(self)
    }

    /// The same on these executors, in the order in which they are asked for each line.
    pub fn on(self, executors: Vec<Arc<dyn Executor>>) -> Stage {
        Stage { executors, ..self }.fresh()
    }

    /// The same where the backward keeps as much as `remat` says, and computes the rest again.
    pub fn rematerialise(mut self, remat: Remat) -> Stage {
        self.pipeline.remat = remat;
        self.fresh()
    }

    /// The same where I hands over to W what `policy` says.
    pub fn handing(self, policy: Policy) -> Stage {
        Stage { policy, ..self }.fresh()
    }

    /// The same with a transform of one's own of each joint trace: as [`Jit::transform`](crate::jit::Jit::transform) at
    /// [`At::Joint`].
    pub fn transform(
        mut self,
        name: &'static str,
        transform: impl Fn(&Trace) -> Result<Trace, Error> + Send + Sync + 'static,
    ) -> Stage {
        self.pipeline.add(At::Joint, name, Arc::new(transform));
        self.fresh()
    }

    /// The same, not compiled yet.
    fn fresh(self) -> Stage {
        Stage { forward: OnceCell::new(), backwards: RefCell::default(), ..self }
    }

    // ------------------------------------------------------------ what it is

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its parameters.
    pub fn params(&self) -> &[Slot] {
        &self.params
    }

    /// Its inputs.
    pub fn inputs(&self) -> &[Slot] {
        &self.inputs
    }

    /// Its outputs.
    pub fn outputs(&self) -> &[Slot] {
        &self.outputs
    }

    /// Which inputs have gradients that are sent on, if cotangents are there for every output that may have one. Known
    /// when the stage is compiled.
    ///
    /// # Errors
    /// What compiling reports.
    pub fn sends(&self) -> Result<Vec<bool>, Error> {
        let halves = self.halves(&self.whole_mask())?;
        Ok(halves.inputs.iter().map(Option::is_some).collect())
    }

    /// The cut backward for cotangents of these outputs.
    ///
    /// # Errors
    /// What compiling reports.
    pub fn halves(&self, mask: &[bool]) -> Result<Halves, Error> {
        Ok(self.backward(mask)?.halves(self)?.clone())
    }

    /// The outputs that may have a cotangent.
    pub fn whole_mask(&self) -> Vec<bool> {
        self.outputs.iter().map(|s| s.needs_grad).collect()
    }

    /// For how many sets of cotangents the backward was compiled.
    pub fn masks(&self) -> usize {
        self.backwards.borrow().len()
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
    match tensor.view() {
        View::Cell(cell) => Ok(cell),
        View::Poison(e) => Err(e.clone()),
        View::Traced(traced) => Err(crate::scope::stray(traced.token().is_open(), &traced.ty().to_string())),
    }
}

impl std::fmt::Debug for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (params, inputs, outputs) = (self.params.len(), self.inputs.len(), self.outputs.len());
        write!(f, "stage {}: {params} parameters, {inputs} inputs, {outputs} outputs", self.name)
    }
}
