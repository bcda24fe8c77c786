//! Pullbacks: a compiled function whose forward and backward run apart returns its result and a [`Pullback`].
//!
//! The joint trace is cut when the function is compiled. The backward reads shares of the forward's buffers, so writes
//! in between (by the function's own forward, or by the user) do not change them. Inputs of the program that a custom
//! backward reads or writes are cells, which are read and written when the backward runs.

use super::backend::Backend;
use super::cache::{Entry, Key, Ready};
use super::call::Inputs;
use super::derivatives::{is_float, same_types};
use super::eager::retake;
use super::program::Program;
use super::shared;
use super::stages::{self, Stages};
use super::tracing::{Acquired, How, acquired};
use super::{Arguments, Jit};
use crate::bind::Builder;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::scope;
use crate::tensor::{Cell, CellKind, Tensor, View};
use crate::trace::{EpilogueWrite, Phase, ProxyId, ProxyTy};
use crate::transforms::mutation::{self, MutationPlan};
use crate::transforms::{self, Joint, Seed, Split};
use crate::tree::{self, Leaves, Tree, flatten};
use fulgurite_core::TensorTy;
use fulgurite_core::dim::Recording;
use fulgurite_core::loc::Loc;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Instant;

/// The gradient of one argument.
enum Gradient {
    /// The gradient is this result of the backward.
    Result(usize),
    /// The gradient is zero.
    Zero(TensorTy),
    /// The argument is a key, which stands for its own gradient.
    Same,
}

/// A compiled backward.
pub(super) struct Backward {
    backend: Backend,
    /// The number of values that the forward keeps for the backward.
    kept: usize,
    inputs: usize,
    /// For each leaf of the result, the input that is its cotangent.
    cotangents: Vec<Option<usize>>,
    /// Pairs of an input of the forward, which the backward reads when it runs, and the backward's input for it.
    variables: Vec<(usize, usize)>,
    /// The inputs of the forward that the backward writes, in the order of its last results.
    writes: Vec<usize>,
    /// The gradient of each leaf of the arguments.
    grads: Vec<Gradient>,
    /// The number of results that are gradients.
    results: usize,
    plan: MutationPlan,
    names: Vec<Arc<str>>,
    /// The bytes that the backward keeps beyond the forward's inputs.
    bytes: usize,
}

/// A backward as a program whose results have gradients themselves.
pub(super) struct Graph {
    forward: Backend,
    /// The number of inputs: those of the first forward, cotangents by leaf of the result, variables.
    inputs: usize,
    cotangents: Vec<Option<usize>>,
    variables: Vec<(usize, usize)>,
    writes: Vec<usize>,
    grads: Vec<Gradient>,
    results: usize,
    backward: Arc<Backward>,
}

/// The parts of a function with a pullback besides its forward.
pub(super) struct Pulled {
    backward: Arc<Backward>,
    graph: Option<Arc<Graph>>,
    /// The types of the result, after the transforms of the function.
    result: Arc<Vec<Option<ProxyTy>>>,
}

/// The backward of one call, made by [`Jit::pullback`].
///
/// `P` is the tree of the arguments, `R` that of the result.
pub struct Pullback<P, R> {
    backward: Arc<Backward>,
    /// The structure of the arguments; its keys are the arguments' own.
    arguments: P,
    /// The types of the result.
    result: Arc<Vec<Option<ProxyTy>>>,
    kept: Vec<Buffer>,
    cells: Vec<(usize, Arc<Cell>)>,
    marker: PhantomData<fn(&R)>,
}

/// A pullback whose gradients can be differentiated again, made by [`Jit::pullback_with_graph`].
pub struct PullbackWithGraph<P, R> {
    first: Pullback<P, R>,
    graph: Option<Arc<Graph>>,
    /// The inputs of the forward at the time of the call.
    inputs: Vec<Buffer>,
    /// The structure of the result.
    form: R,
}

/// A result with its pullback.
pub type WithPullback<P, R> = Result<(R, Pullback<P, R>), Error>;
/// A result with a pullback whose gradients have a pullback too.
pub type WithGraph<P, R> = Result<(R, PullbackWithGraph<P, R>), Error>;

/// Refuses tensors of subclasses: a function with a pullback takes and returns plain tensors.
///
/// # Errors
/// E708 for a tensor of a subclass.
fn plain(leaf: &Tensor, does: &str) -> Result<(), Error> {
    let View::Wrapped(wrapped) = leaf.view() else { return Ok(()) };
    let class = wrapped.layout().class.name();
    let claim = format!("a function whose backward runs apart {does} plain tensors, not one of the class `{class}`");
    Err(Error::new("E708", claim).help("let it take and give the fields, and put them together inside of the function"))
}

impl<F> Jit<F> {
    /// Calls the function and returns the result with its pullback, for gradients that are needed later or not at all.
    /// The function is differentiated by every float tensor of its arguments; captured tensors are constant.
    ///
    /// # Errors
    /// The errors of [`Jit::call`]; E750 inside of a traced function; E711 or E712 if there is no gradient.
    #[track_caller]
    pub fn pullback<M, A: Arguments<F, M>>(&self, args: A) -> WithPullback<A, A::Returned> {
        let loc = Loc::caller();
        self.pull(args, false).map(|(value, pull)| (value, pull.first)).map_err(|e| e.at(loc))
    }

    /// Like [`Jit::pullback`], for gradients that are differentiated themselves.
    ///
    /// # Errors
    /// Reports the errors of [`Jit::pullback`].
    #[track_caller]
    pub fn pullback_with_graph<M, A: Arguments<F, M>>(&self, args: A) -> WithGraph<A, A::Returned> {
        let loc = Loc::caller();
        self.pull(args, true).map_err(|e| e.at(loc))
    }

    fn pull<M, A: Arguments<F, M>>(&self, args: A, twice: bool) -> WithGraph<A, A::Returned> {
        if scope::is_tracing() {
            let claim = "forward and backward can't run apart inside of a function that is being traced";
            return Err(Error::new("E750", claim).help("take the gradient there by `vjp` or `value_and_grad`"));
        }
        let cache = if twice { &self.graphs } else { &self.pulled };
        let v = flatten(&args);
        v.leaves().iter().try_for_each(|leaf| plain(leaf, "takes"))?;
        let entry = match cache.find(v.fingerprint(), v.leaves())? {
            Some(entry) => entry,
            None => self.compiled(cache, false, super::describe_all(|v| args.visit(v)), |key, leaves, stages| {
                let run = |handles: Vec<Tensor>| args.rebuild(&mut Leaves::new(&mut handles.into_iter())).run(&self.f);
                self.make_apart(key, leaves, stages, run, twice)
            })?,
        };
        let pulled = entry.pulled.as_ref().and_then(|pulled| pulled.downcast_ref::<Pulled>());
        let pulled = pulled.ok_or_else(|| Error::bug("E709", "a program was kept without backward"))?;
        let buffers = |leaf: &&Tensor| leaf.data().ok();
        let held: Vec<Buffer> = if twice { v.leaves().iter().filter_map(buffers).collect() } else { Vec::new() };
        let held: Vec<Buffer> = held.into_iter().chain(entry.program.captured_buffers().filter(|_| twice)).collect();
        let cells = pulled.cells(v.leaves(), &entry.program);
        let ready = Ready { entry: entry.clone(), plan: None };
        let mut values = Inputs::shares(&entry, v.leaves()).run(&ready)?;
        let kept = values.split_off(entry.kinds.len());
        let template = entry.template::<A::Returned>()?;
        let value = super::tracing::rebuild(template, &entry.kinds, values.into_iter());
        let form = |t: &Tensor| match t.view() {
            View::Cell(cell) if cell.kind() != CellKind::Key => Tensor::poisoned(Error::bug("E709", "a form was read")),
            _ => t.clone(),
        };
        let arguments = tree::map(&args, form);
        let backward = pulled.backward.clone();
        let first = Pullback { backward, arguments, result: pulled.result.clone(), kept, cells, marker: PhantomData };
        let graph = pulled.graph.clone();
        let form = tree::map(&value, form);
        Ok((value, PullbackWithGraph { first, graph, inputs: held, form }))
    }

    fn make_apart<T: Tree + Send + Sync + 'static>(
        &self,
        key: &Key,
        leaves: &[Tensor],
        stages: &mut Stages,
        f: impl Fn(Vec<Tensor>) -> Result<T, Error>,
        twice: bool,
    ) -> Result<Entry, Error> {
        let named: Vec<(Tensor, Arc<str>)> = leaves.iter().cloned().zip(key.paths().iter().cloned()).collect();
        let how = How { differentiated: true, ..How::default() };
        let (made, writes) = acquired(&self.name, &named, how, &self.pipeline, &mut Recording::start(), stages, f)?;
        let Acquired { trace, cells, template, kinds, aliases: shared, .. } = made;
        flatten(&template).leaves().iter().try_for_each(|leaf| plain(leaf, "gives"))?;
        let names = trace.inputs().iter().map(|i| Arc::from(&*i.path)).collect::<Vec<Arc<str>>>();
        let floats: Vec<usize> = (0..named.len()).filter(|&i| is_float(&named[i].0)).collect();
        let wrt: Vec<ProxyId> = floats.iter().map(|&i| trace.inputs()[i].proxy).collect();
        let result = Arc::new(trace.outputs().iter().map(|p| Some(trace.ty(*p))).collect());
        let started = Instant::now();
        let seeds = vec![Seed::Input; trace.outputs().len()];
        let joint = transforms::joint(&trace, &wrt, &seeds)?;
        stages.note("joint", &joint.trace, started.elapsed(), None);
        let types: Vec<ProxyTy> = trace.input_proxies().take(named.len()).map(|p| trace.ty(p)).collect();
        let graph = if twice { self.graph(&joint, &floats, &types, &names, stages)? } else { None };
        let (joint, split) = stages::cut(joint, &self.pipeline, &self.executors, stages)?;
        let plan = MutationPlan::from_joint(&joint, &split, &floats, &shared);
        let backward = Arc::new(self.backward(&split, plan, &floats, &types, names, stages)?);
        let started = Instant::now();
        let forward = Backend::compile(&split.forward, &self.executors)?;
        stages.compiled(split.forward.lines().len(), started.elapsed(), || forward.describe());
        let program = Program::new(&split.forward, cells, Arc::new(forward.into()));
        let mut entry = Entry::new(key.clone(), program, kinds, Box::new(template));
        entry.aliases = writes.then_some(shared);
        entry.pulled = Some(Box::new(Pulled { backward, graph, result }));
        Ok(entry)
    }

    /// The backward of a cut trace whose arguments have these types; `floats` are the arguments by which it is
    /// differentiated.
    fn backward(
        &self,
        split: &Split,
        plan: MutationPlan,
        floats: &[usize],
        types: &[ProxyTy],
        names: Vec<Arc<str>>,
        stages: &mut Stages,
    ) -> Result<Backward, Error> {
        let started = Instant::now();
        let backend = Backend::compile(&split.backward, &self.executors)?;
        stages.compiled(split.backward.lines().len(), started.elapsed(), || backend.describe());
        Ok(Backward {
            backend,
            kept: split.forward.saved,
            inputs: split.backward.inputs().len(),
            cotangents: split.cotangents.clone(),
            variables: split.variables.clone(),
            writes: split.writes.clone(),
            grads: gradients(&split.grads, floats, types),
            results: split.backward.outputs().len() - split.writes.len(),
            plan,
            names,
            bytes: split.plan.bytes,
        })
    }

    /// The backward of a joint trace as a function of the forward's inputs and cotangents, with a backward of its own.
    /// Returns `None` if it writes to an input by which it is differentiated.
    fn graph(
        &self,
        joint: &Joint,
        floats: &[usize],
        types: &[ProxyTy],
        names: &[Arc<str>],
        stages: &mut Stages,
    ) -> Result<Option<Arc<Graph>>, Error> {
        let trace = &joint.trace;
        let late = |w: &&EpilogueWrite| w.phase == Phase::Backward;
        if trace.epilogue().iter().filter(late).any(|w| floats.contains(&w.input)) {
            return Ok(None);
        }
        let grads = trace.outputs()[joint.forward_outputs..].to_vec();
        let mut b = Builder::continuing(trace);
        b.set_name(&format!("{}.backward", trace.name));
        trace.lines().iter().for_each(|l| b.push(l.clone()));
        let mut function = b.finish(&grads);
        let writes = trace.epilogue().iter().filter(late).cloned();
        function.epilogue = writes.map(|w| EpilogueWrite { phase: Phase::Forward, ..w }).collect();
        let sown = joint.cotangents.iter().map(|at| at.map(|at| trace.inputs()[at].proxy));
        let sown: Vec<Option<ProxyId>> = sown.collect();
        let mut wrt: Vec<ProxyId> = floats.iter().map(|&i| trace.inputs()[i].proxy).collect();
        wrt.extend(sown.iter().flatten());
        let second = transforms::joint(&function, &wrt, &vec![Seed::Input; grads.len()])?;
        let (second, split) = stages::cut(second, &self.pipeline, &self.executors, stages)?;
        // the leaves of (arguments, result), and those of them that are float tensors
        let mut all = types.to_vec();
        let mut active = floats.to_vec();
        for (i, out) in trace.outputs()[..joint.forward_outputs].iter().enumerate() {
            if sown[i].is_some() {
                active.push(all.len());
            }
            all.push(trace.ty(*out));
        }
        let plan = MutationPlan::from_joint(&second, &split, &[], &[]);
        let mut backward = self.backward(&split, plan, &active, &all, names.to_vec(), stages)?;
        // the results are the leaves of the arguments; a leaf without a gradient has no cotangent
        let first = gradients(&shifted(joint), floats, types);
        let sown = |g: &Gradient| match g {
            Gradient::Result(i) => split.cotangents[*i],
            _ => None,
        };
        backward.cotangents = first.iter().map(sown).collect();
        let forward = Backend::compile(&split.forward, &self.executors)?;
        Ok(Some(Arc::new(Graph {
            forward,
            inputs: trace.inputs().len(),
            cotangents: joint.cotangents.clone(),
            variables: joint.variables.clone(),
            writes: split.forward.epilogue().iter().map(|w| w.input).collect(),
            grads: first,
            results: grads.len(),
            backward: Arc::new(backward),
        })))
    }
}

/// The positions of a joint trace's gradients among its gradients alone.
fn shifted(joint: &Joint) -> Vec<Option<usize>> {
    joint.grads.iter().map(|at| at.map(|at| at - joint.forward_outputs)).collect()
}

/// The gradient of each leaf of the arguments; `found` has one entry for each of `floats`.
fn gradients(found: &[Option<usize>], floats: &[usize], types: &[ProxyTy]) -> Vec<Gradient> {
    let one = |(i, ty): (usize, &ProxyTy)| match floats.iter().position(|f| *f == i).and_then(|at| found[at]) {
        Some(at) => Gradient::Result(at),
        None => match ty {
            ProxyTy::Tensor(t) => Gradient::Zero(t.ty.clone()),
            ProxyTy::Number(d) => Gradient::Zero(TensorTy::new::<usize>(*d, &[])),
            ProxyTy::Key => Gradient::Same,
        },
    };
    types.iter().enumerate().map(one).collect()
}

impl Pulled {
    /// The cells that the backward reads or writes.
    fn cells(&self, leaves: &[&Tensor], program: &Program) -> Vec<(usize, Arc<Cell>)> {
        let graph = self.graph.iter().flat_map(|g| g.variables.iter().map(|(i, _)| *i).chain(g.writes.iter().copied()));
        let backward = &self.backward;
        let inputs = backward.variables.iter().map(|(i, _)| *i).chain(backward.writes.iter().copied()).chain(graph);
        let cell = |i: usize| match leaves.get(i).map(|leaf| leaf.view()) {
            Some(View::Cell(cell)) => Some((i, cell.clone())),
            Some(_) => None,
            None => program.captured_cell(i).map(|cell| (i, cell.clone())),
        };
        inputs.filter_map(cell).collect()
    }
}

fn cell_of(cells: &[(usize, Arc<Cell>)], input: usize) -> Result<&Arc<Cell>, Error> {
    let found = cells.iter().find(|(i, _)| *i == input).map(|(_, cell)| cell);
    found.ok_or_else(|| Error::bug("E709", "a backward lost one of its variables"))
}

/// Runs a backward that writes to cells; it writes all of them or none.
fn writing<T>(
    cells: &[(usize, Arc<Cell>)],
    writes: &[usize],
    run: impl FnOnce() -> Result<(T, Vec<Buffer>), Error>,
) -> Result<T, Error> {
    let written = writes.iter().map(|&i| cell_of(cells, i).cloned()).collect::<Result<Vec<_>, _>>()?;
    let others = cells.iter().filter(|(i, _)| !writes.contains(i)).map(|(_, cell)| cell.clone());
    shared::write(&written, &others.collect::<Vec<_>>(), &retake, run)
}

/// A tree of gradients with the structure of `like`.
fn tree_of<P: Tree>(like: &P, grads: &[Gradient], values: &[Buffer]) -> Result<P, Error> {
    let form = flatten(like);
    let one = |(gradient, leaf): (&Gradient, &&Tensor)| match gradient {
        Gradient::Result(at) => Ok(Tensor::from_buffer(values[*at].clone())),
        Gradient::Same => Ok((*leaf).clone()),
        Gradient::Zero(ty) => {
            Buffer::zeros(ty.dtype, &ty.sizes()).map(Tensor::from_buffer).map_err(|e| Error::new("E743", e.to_string()))
        }
    };
    let leaves = grads.iter().zip(form.leaves()).map(one).collect::<Result<Vec<_>, Error>>()?;
    Ok(like.rebuild(&mut Leaves::new(&mut leaves.into_iter())))
}

impl<P: Tree, R: Tree> Pullback<P, R> {
    /// Runs the backward: returns the gradients of the arguments for these cotangents of the result. Cotangents of
    /// leaves that are not float tensors are ignored. A backward that writes does so now.
    ///
    /// # Errors
    /// E748 or E712 for cotangents of another structure or other types, and errors of executors; nothing is written
    /// then.
    #[track_caller]
    pub fn run(self, cotangents: &R) -> Result<P, Error> {
        let Pullback { backward, arguments, result, kept, cells, .. } = self;
        run(&backward, &arguments, &result, kept, &cells, cotangents, true, Loc::caller())
    }

    /// Like [`Pullback::run`], for a pullback that runs again.
    ///
    /// # Errors
    /// The errors of [`Pullback::run`]; E720 if the backward writes.
    #[track_caller]
    pub fn run_keep(&self, cotangents: &R) -> Result<P, Error> {
        let loc = Loc::caller();
        let plan = &self.backward.plan;
        if !plan.bw_writes().is_empty() {
            let inputs = plan.bw_writes().iter().map(|w| w.input);
            return Err(mutation::retained(mutation::named(inputs, &self.backward.names)).at(loc));
        }
        let Pullback { backward, arguments, result, kept, cells, .. } = self;
        run(backward, arguments, result, kept.clone(), cells, cotangents, false, loc)
    }

    /// The writes of forward and backward.
    pub fn plan(&self) -> &MutationPlan {
        &self.backward.plan
    }

    /// The bytes that the backward keeps beyond the forward's inputs.
    pub fn bytes(&self) -> usize {
        self.backward.bytes
    }
}

#[allow(clippy::too_many_arguments)] // the parts of a pullback, owned or borrowed
fn run<P: Tree, R: Tree>(
    backward: &Backward,
    arguments: &P,
    result: &[Option<ProxyTy>],
    mut inputs: Vec<Buffer>,
    cells: &[(usize, Arc<Cell>)],
    cotangents: &R,
    last: bool,
    loc: Loc,
) -> Result<P, Error> {
    let given = flatten(cotangents);
    same_types(result, given.leaves(), "the cotangent", loc)?;
    inputs.truncate(backward.kept);
    let values = writing(cells, &backward.writes, || {
        fill(&mut inputs, backward.inputs, &backward.cotangents, given.leaves(), &backward.variables, cells)?;
        let donated: Vec<bool> = (0..inputs.len()).map(|i| last && i < backward.kept).collect();
        let mut values = backward.backend.run(&mut inputs, &donated)?;
        let new = values.split_off(backward.results);
        Ok((values, new))
    });
    let values = values.map_err(|e| e.at(loc))?;
    tree_of(arguments, &backward.grads, &values)
}

/// Adds cotangents and variables to a program's inputs, at their positions.
fn fill(
    inputs: &mut Vec<Buffer>,
    count: usize,
    cotangents: &[Option<usize>],
    given: &[&Tensor],
    variables: &[(usize, usize)],
    cells: &[(usize, Arc<Cell>)],
) -> Result<(), Error> {
    let nothing = Buffer::zeros(fulgurite_core::DType::U8, &[0]).map_err(|e| Error::new("E743", e.to_string()))?;
    inputs.resize(count, nothing);
    for (at, tensor) in cotangents.iter().zip(given) {
        if let Some(at) = at {
            inputs[*at] = tensor.data()?;
        }
    }
    for &(input, at) in variables {
        inputs[at] = cell_of(cells, input)?.buffer();
    }
    Ok(())
}

impl<P: Tree, R: Tree> PullbackWithGraph<P, R> {
    /// Returns the gradients with a pullback of their own, which gives the gradients by arguments and cotangents. A
    /// backward that writes does so now, and once.
    ///
    /// # Errors
    /// The errors of [`Pullback::run`]; E719 if the backward writes to an input by which it is differentiated, in which
    /// case nothing ran.
    #[track_caller]
    pub fn run(self, cotangents: &R) -> WithPullback<(P, R), P> {
        let loc = Loc::caller();
        let PullbackWithGraph { first, graph, mut inputs, form } = self;
        // the plan was made when the function was compiled
        let needing = first.backward.plan.bw_writes_needing_grad();
        if !needing.is_empty() {
            let inputs = mutation::named(needing.iter().copied(), &first.backward.names);
            return Err(mutation::needs_grad(inputs).at(loc));
        }
        let graph = graph.ok_or_else(|| Error::bug("E709", "a pullback was made without graph"))?;
        let given = flatten(cotangents);
        same_types(&first.result, given.leaves(), "the cotangent", loc)?;
        let values = writing(&first.cells, &graph.writes, || {
            fill(&mut inputs, graph.inputs, &graph.cotangents, given.leaves(), &graph.variables, &first.cells)?;
            let mut values = graph.forward.run(&mut inputs, &[])?;
            let new = values.split_off(values.len() - graph.writes.len());
            Ok((values, new))
        });
        let mut values = values.map_err(|e| e.at(loc))?;
        let kept = values.split_off(graph.results);
        let grads = tree_of(&first.arguments, &graph.grads, &values)?;
        let types = flatten(&grads).leaves().iter().map(|t| t.ty()).collect();
        let second = Pullback {
            backward: graph.backward.clone(),
            arguments: (first.arguments, form),
            result: Arc::new(types),
            kept,
            cells: first.cells,
            marker: PhantomData,
        };
        Ok((grads, second))
    }

    /// The writes of forward and backward.
    pub fn plan(&self) -> &MutationPlan {
        self.first.plan()
    }
}
