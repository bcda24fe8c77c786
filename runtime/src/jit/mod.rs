//! Compiled functions: a function is traced at its first call with arguments of certain types, and the program serves
//! later calls.
//!
//! A call flattens its arguments, compares their types and fixed parts with those of the program used last, and runs
//! that program. Otherwise the function is traced on stand-ins (`tracing`), the trace goes through the pipeline
//! ([`stages`]), and the program is cached with its result, a tree into which later results are put.
//!
//! **Invariant:** a call that finds its program formats nothing, and allocates only its results.

pub(crate) mod backend;
mod batching;
mod cache;
mod caching;
mod call;
mod control;
mod custom;
mod derivatives;
pub(crate) mod eager;
mod inside;
mod jacobian;
pub(crate) mod program;
mod pullback;
mod set;
pub(crate) mod shared;
mod specialisation;
pub mod stages;
pub mod stats;
mod traceable;
pub(crate) mod tracing;
mod two_part;

pub use batching::{vmap, vmap_with};
pub use caching::Caching;
pub use control::{cond, scan, scan_n, scan_reverse, while_loop};
pub use custom::custom_vjp;
pub use derivatives::{Loss, grad, hvp, jvp, try_value_and_grad, value_and_grad, vjp};
pub use jacobian::{hessian, jacobian, jacobian_forward, jacobian_reverse};
pub use pullback::{Pullback, PullbackWithGraph, WithGraph, WithPullback};
pub use stages::{CompileStage, LineMark, Stages};
pub use stats::{Miss, Stats};
pub use traceable::{Arguments, Many, One, Outcome, Traceable, UpdateArguments};

use crate::error::Error;
use crate::executors::Executor;
use crate::scope;
use crate::tensor::Tensor;
use crate::trace::Trace;
use crate::transforms::{At, Pipeline, Remat};
use crate::tree::{self, Tree, Visitor, flatten, flatten_apart, rebuild_apart};
pub use derivatives::same_types;
pub(crate) use eager::retake;

use cache::{Cache, Entry, Key, Ready, StateFacts};
use fulgurite_core::dim::Recording;
use fulgurite_core::loc::Loc;
use program::Program;
use specialisation::Family;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tracing::{Acquired, How, acquire, acquired};

/// A function that is compiled for the types of its arguments when it is called, made by [`jit`].
pub struct Jit<F> {
    f: F,
    name: String,
    keep: bool,
    executors: Vec<Arc<dyn Executor>>,
    pipeline: Arc<Pipeline>,
    caching: Caching,
    cache: Cache,
    /// The programs with a pullback; `graphs` has those whose pullback has a gradient.
    pulled: Cache,
    graphs: Cache,
    hits: AtomicU64,
    misses: Mutex<Vec<Miss>>,
    /// The program that was compiled last.
    latest: Mutex<Option<Arc<Entry>>>,
    /// The number of plans that were made for other sizes, and the time that they took.
    plans: Mutex<(u64, Duration)>,
    /// The stages of the last compilation and its error, if it failed.
    failed: Mutex<Option<(Stages, Error)>>,
}

/// A compiled version of `f`, a function of owned trees.
///
/// Arguments are taken by value: `|model: Model, x: Tensor| …`. Several threads may call the function. Side effects of
/// `f` other than calls of operators happen when it is traced, not at each call; captured tensors in memory are read at
/// each call.
pub fn jit<F>(f: F) -> Jit<F> {
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let name = path.rsplit("::").next().filter(|name| name.starts_with(char::is_alphabetic)).unwrap_or("f");
    let name = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    Jit {
        f,
        name,
        keep: false,
        executors: Vec::new(),
        pipeline: Arc::default(),
        caching: Caching::default(),
        cache: Cache::default(),
        pulled: Cache::default(),
        graphs: Cache::default(),
        hits: AtomicU64::new(0),
        misses: Mutex::default(),
        latest: Mutex::default(),
        plans: Mutex::default(),
        failed: Mutex::default(),
    }
}

impl<F> Jit<F> {
    /// Sets the name of the function, which traces show.
    pub fn named(self, name: &str) -> Self {
        Jit { name: name.to_owned(), ..self }
    }

    /// Keeps the text of every stage of programs compiled from now on.
    pub fn keep_traces(self) -> Self {
        Jit { keep: true, ..self }
    }

    /// Compiles for these executors; each line is offered to them in this order.
    pub fn on(mut self, executors: Vec<Arc<dyn Executor>>) -> Self {
        Arc::make_mut(&mut self.pipeline).executors = executors.iter().map(|e| e.name()).collect();
        Jit { executors, ..self }
    }

    /// Chooses the calls for which a program serves again.
    pub fn caching(self, caching: Caching) -> Self {
        Jit { caching, ..self }
    }

    /// Lets gradients keep as many values for their backward as `remat` says, and compute the others again. The remark
    /// of the stage `rematerialised` has the decision.
    pub fn rematerialise(mut self, remat: Remat) -> Self {
        Arc::make_mut(&mut self.pipeline).remat = remat;
        self
    }

    /// Adds a transform to the pipeline: a function from trace to trace, which mostly uses
    /// [`Rewriter::each`](crate::bind::Rewriter::each). It keeps the inputs and the number of results. Its trace is
    /// verified in every build, and an error names `name`.
    pub fn transform(
        mut self,
        at: At,
        name: &'static str,
        transform: impl Fn(&Trace) -> Result<Trace, Error> + Send + Sync + 'static,
    ) -> Self {
        Arc::make_mut(&mut self.pipeline).add(at, name, Arc::new(transform));
        self
    }

    /// Calls the function. Arguments are moved in, and memory that is not shared is reused.
    ///
    /// # Errors
    /// The first error of an argument; errors of tracing, compiling or running; the function's own error.
    #[track_caller]
    pub fn call<M, A: Arguments<F, M>>(&self, args: A) -> Result<A::Returned, Error> {
        let loc = Loc::caller();
        self.called(args).map_err(|e| e.at(loc))
    }

    fn called<M, A: Arguments<F, M>>(&self, args: A) -> Result<A::Returned, Error> {
        if scope::is_tracing() {
            let result = match self.wishes_inside()? {
                None => scope::named(&self.name, || args.run(&self.f))?,
                Some(wishes) => self.inside(wishes, &args, |args| tree::map(args, Tensor::clone).run(&self.f))?,
            };
            return inside::apart(&result);
        }
        let (ready, inputs) = {
            let v = flatten_apart(&args);
            let ready = match self.find(&v)? {
                Some(ready) => ready,
                None => self.compile(
                    describe_all(|v| args.visit(v)),
                    |handles| rebuild_apart(&args, &mut handles.into_iter()).run(&self.f),
                    |_, _| StateFacts::default(),
                )?,
            };
            let inputs = call::Inputs::shares(&ready.entry, v.leaves());
            (ready, inputs)
        };
        // from here on the buffers are unique, unless other handles share their tensors
        drop(args);
        let values = inputs.run(&ready).map_err(|e| self.promised(e))?;
        let template = ready.entry.template::<A::Returned>()?;
        Ok(tracing::rebuild(template, &ready.entry.kinds, values.into_iter()))
    }

    /// Calls a function `Fn(S, B) -> (S, R)` on a state, and replaces the state by the returned one.
    ///
    /// The state's memory is reused where its tensors are not shared. Keys of the state that the function returns
    /// unchanged advance to the keys that follow them, so that the next call draws other numbers.
    ///
    /// # Errors
    /// The errors of [`Jit::call`]; the state is then unchanged. Only if memory lacks in the middle of a run (E806), the
    /// tensors that the run had begun to overwrite have this error as their value.
    #[track_caller]
    pub fn update<S, B>(&self, state: &mut S, batch: B) -> Result<B::Returned, Error>
    where
        S: Tree + Send + Sync + 'static,
        B: UpdateArguments<F, S>,
    {
        let loc = Loc::caller();
        self.updated(state, batch).map_err(|e| e.at(loc))
    }

    fn updated<S, B>(&self, state: &mut S, batch: B) -> Result<B::Returned, Error>
    where
        S: Tree + Send + Sync + 'static,
        B: UpdateArguments<F, S>,
    {
        if scope::is_tracing() {
            let owned = tree::map(state, Tensor::clone);
            let before: Vec<Tensor> = flatten(&owned).leaves().iter().map(|t| (*t).clone()).collect();
            let (next, result) = match self.wishes_inside()? {
                None => scope::named(&self.name, || batch.run(&self.f, owned))?,
                Some(wishes) => self.inside(wishes, &(owned, batch), |args| {
                    let (state, batch) = tree::map(args, Tensor::clone);
                    batch.run(&self.f, state)
                })?,
            };
            let (next, result) = inside::apart(&(next, result))?;
            *state = inside::moved_on(&before, &next)?;
            return Ok(result);
        }
        let ready = {
            let mut v = flatten_apart(&*state);
            batch.visit(&mut v);
            match self.find(&v)? {
                Some(ready) => ready,
                None => {
                    let run = |handles: Vec<Tensor>| {
                        let mut handles = handles.into_iter();
                        let state = rebuild_apart(&*state, &mut handles);
                        let batch = rebuild_apart(&batch, &mut handles);
                        batch.run(&self.f, state)
                    };
                    let described = describe_all(|v| {
                        v.part(0, &*state);
                        v.part(1, &batch);
                    });
                    self.compile(described, run, |(next, _), trace| StateFacts::of(&*state, next, trace))?
                }
            }
        };
        call::update(&ready, state, batch).map_err(|e| self.promised(e))
    }

    fn find(&self, v: &Visitor) -> Result<Option<Ready>, Error> {
        let found = match self.caching {
            Caching::Constant | Caching::Symbolic => self.cache.find(v.fingerprint(), v.leaves())?,
            Caching::SameInput => {
                v.leaves().iter().try_for_each(|leaf| tracing::leaf_ty(leaf).map(drop))?;
                self.cache.newest().filter(|entry| entry.key.is_here())
            }
            Caching::Off => None,
        };
        let Some(entry) = found else { return Ok(None) };
        let plan = match &entry.family {
            Some(family) => match self.plan(family, &specialisation::sizes(v.leaves()))? {
                Some(plan) => Some(plan),
                None => return Ok(None),
            },
            None => None,
        };
        self.hits.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Ready { entry, plan }))
    }

    /// The plan for these sizes, or `None` if the program turns out not to serve them.
    fn plan(&self, family: &Family, sizes: &specialisation::Sizes) -> Result<Option<Arc<two_part::Plan>>, Error> {
        if let Some(plan) = family.known(sizes) {
            return Ok(Some(plan));
        }
        let started = Instant::now();
        match family.plan(sizes) {
            Ok(plan) => {
                let mut plans = self.plans.lock().unwrap_or_else(|e| e.into_inner());
                *plans = (plans.0 + 1, plans.1 + started.elapsed());
                Ok(Some(plan))
            }
            Err(_) if !family.admits(sizes) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Adds the user's promise to an error of a run.
    fn promised(&self, e: Error) -> Error {
        match (self.caching, e.code()) {
            (Caching::SameInput, "E803") => e
                .note("with `Caching::SameInput` the first program serves every call")
                .help("pass arguments like those of the first call, or choose `Caching::Constant`"),
            _ => e,
        }
    }

    /// Traces and compiles the function for these arguments.
    fn compile<T: Tree + Send + Sync + 'static>(
        &self,
        arguments: Visitor,
        f: impl Fn(Vec<Tensor>) -> Result<T, Error>,
        facts: impl Fn(&T, &Trace) -> StateFacts,
    ) -> Result<Ready, Error> {
        let symbolic = self.caching == Caching::Symbolic;
        let make = |key: &Key, leaves: &[Tensor], stages: &mut Stages| self.make(key, leaves, stages, &f, &facts);
        self.compiled(&self.cache, symbolic, arguments, make).map(|entry| Ready { entry, plan: None })
    }

    /// Makes a program and caches it; a failure is remembered with its stages.
    fn compiled(
        &self,
        cache: &Cache,
        symbolic: bool,
        arguments: Visitor,
        make: impl Fn(&Key, &[Tensor], &mut Stages) -> Result<Entry, Error>,
    ) -> Result<Arc<Entry>, Error> {
        let started = Instant::now();
        let mut stages = Stages::new(self.keep);
        let mark = arguments.fingerprint();
        let leaves: Vec<Tensor> = arguments.leaves().iter().map(|t| (*t).clone()).collect();
        let key = Key::new(symbolic, mark, &leaves, arguments.into_detail());
        let mut reasons = match self.caching {
            Caching::Off => vec!["nothing is kept".to_owned()],
            _ => cache.reason(&key),
        };
        let mut made = make(&key, &leaves, &mut stages);
        if let (Err(e), true) = (&made, symbolic) {
            // a program for exactly these sizes, or its error, which then speaks of numbers
            stages = Stages::new(self.keep);
            let why = format!("symbolic sizes can't be: {}", e.claim());
            made = make(&key.constant(), &leaves, &mut stages);
            reasons.push(why);
        }
        let mut failed = self.failed.lock().unwrap_or_else(|e| e.into_inner());
        match made {
            Ok(mut entry) => {
                *failed = None;
                entry.stages = stages;
                let mut misses = self.misses.lock().unwrap_or_else(|e| e.into_inner());
                if misses.len() < stats::REMEMBERED {
                    misses.push(Miss { reasons, time: started.elapsed() });
                }
                if self.caching == Caching::Off {
                    cache.clear();
                }
                let entry = cache.insert(entry);
                *self.latest.lock().unwrap_or_else(|e| e.into_inner()) = Some(entry.clone());
                Ok(entry)
            }
            Err(error) => {
                *failed = Some((stages, error.clone()));
                Err(error)
            }
        }
    }

    fn make<T: Tree + Send + Sync + 'static>(
        &self,
        key: &Key,
        leaves: &[Tensor],
        stages: &mut Stages,
        f: impl Fn(Vec<Tensor>) -> Result<T, Error>,
        facts: impl Fn(&T, &Trace) -> StateFacts,
    ) -> Result<Entry, Error> {
        let named: Vec<(Tensor, Arc<str>)> = leaves.iter().cloned().zip(key.paths().iter().cloned()).collect();
        let how = How { symbolic: key.is_symbolic(), ..How::default() };
        let mut recording = Recording::start();
        let (made, writes) = acquired(&self.name, &named, how, &self.pipeline, &mut recording, stages, f)?;
        let facts = facts(&made.template, &made.trace);
        let Acquired { trace, cells, template, kinds, aliases, atoms } = made;
        let (program, family) = match how.symbolic {
            false => (Program::compile(trace, cells, &self.executors, &self.pipeline, stages)?, None),
            true => {
                let trace = stages::run(trace, &self.pipeline, &self.executors, stages)?;
                let family = Family::new(&trace, &atoms, key.sizes(), recording.finish(), &self.executors);
                let program = Program::planned(&trace, cells, stages, || family.first())?;
                (program, Some(family))
            }
        };
        let mut entry = Entry::new(key.clone(), program, kinds, Box::new(template));
        entry.aliases = writes.then_some(aliases);
        entry.state = facts;
        entry.family = family;
        Ok(entry)
    }

    // ------------------------------------------------------------ statistics

    /// The numbers of calls and compilations, with the reasons.
    pub fn stats(&self) -> Stats {
        let misses = self.misses.lock().unwrap_or_else(|e| e.into_inner()).clone();
        let (plans, plan_time) = *self.plans.lock().unwrap_or_else(|e| e.into_inner());
        let programs = [&self.cache, &self.pulled, &self.graphs].iter().map(|cache| cache.len()).sum();
        Stats { hits: self.hits.load(Ordering::Relaxed), programs, misses, plans, plan_time }
    }

    /// The stages of the program that was compiled last; if that failed, the stages until the failure.
    pub fn stages(&self) -> Vec<CompileStage> {
        if let Some((stages, _)) = &*self.failed.lock().unwrap_or_else(|e| e.into_inner()) {
            return stages.list().to_vec();
        }
        self.newest().map_or_else(Vec::new, |entry| entry.stages.list().to_vec())
    }

    /// The error of the last compilation, if it failed.
    pub fn failure(&self) -> Option<Error> {
        self.failed.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map(|(_, error)| error.clone())
    }

    /// The trace of a stage of the last compilation (the last stage of that name), if traces are kept: `acquired`,
    /// `joint` for each gradient taken, `simplified`. The stage `compiled` has the list of steps, `partial` a trace
    /// that failed.
    pub fn trace(&self, stage: &str) -> Option<String> {
        self.stages().into_iter().rev().find(|s| s.name == stage)?.text
    }

    /// The name of the function, which traces show.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The executors to which lines are offered; without any, the usual ones.
    pub fn executors(&self) -> &[Arc<dyn Executor>] {
        &self.executors
    }

    /// The conditions on arguments for the program that was compiled last: one line each, then the guards on symbolic
    /// sizes.
    pub fn prologue(&self) -> Option<String> {
        self.newest().map(|entry| entry.to_string())
    }

    fn newest(&self) -> Option<Arc<Entry>> {
        self.latest.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// Drops all programs.
    pub fn clear(&self) {
        [&self.cache, &self.pulled, &self.graphs].iter().for_each(|cache| cache.clear());
        *self.latest.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }
}

impl<F> std::fmt::Debug for Jit<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "jit({}): {}", self.name, self.stats())
    }
}

fn describe_all<'a>(show: impl FnOnce(&mut Visitor<'a>)) -> Visitor<'a> {
    let mut v = Visitor::detailed().apart();
    show(&mut v);
    v
}

/// Traces and runs a function without arguments.
fn once<T: Tree>(name: &str, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let mut stages = Stages::new(false);
    let made = acquire(name, &[], How::default(), &Arc::default(), &mut stages, |_| f())?;
    let program = Program::compile_once(made.trace, made.cells)?;
    let values = program.run(None, &mut Vec::new(), |_| None, &[])?;
    Ok(tracing::rebuild(&made.template, &made.kinds, values.into_iter()))
}
