//! Executors: who runs the lines of a trace, and how.
//!
//! An [`Executor`] is offered lines and claims what it can run. Executors are asked in the user's order; what nobody
//! claims is decomposed and offered again. The claimed lines become one [`Compiled`] program with one memory plan:
//! kernels of executors are steps of it, and the lines that `cpu` joins are fused with their neighbours.
//!
//! | module | is |
//! |---|---|
//! | `partition`, `join` | the claims |
//! | `fusion` | lines as items: graphs of scalar operations, products, scans |
//! | `program` | items as steps with one memory plan: what [`compile`] gives |
//! | [`cpu`] | steps over tiles, products, scans |
//! | [`cuda`] | items as CUDA C, on a device |
//! | [`interp`] | the oracle |
//! | `transfer` | what moves between host memory and a device's |
//! | `host` | named primitives (argsort, selections) |
//!
//! **Invariant:** nothing here reads an operator's name: families are recognised from meanings, and a row that wants a
//! special kernel names it (`host:`, `kernels:`). `fusion` and `program` import no executor, and executors none of each
//! other: this file alone knows all of them.

pub mod cpu;
pub mod cuda;
mod error;
mod fusion;
mod host;
pub mod interp;
mod join;
mod kernel;
mod line;
mod meaning;
mod nest;
mod partition;
mod program;
mod require;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;

pub use error::ExecError;
pub use fusion::fuse::Separate;
pub use join::Part;
pub use kernel::{Kernel, OnDevice, Operand, TensorMut, TensorRef, Works};
pub use line::Line;
pub use program::{Compiled, Description, StepInfo, set_threads, threads};

use crate::error::Error;
use crate::symbol::outer;
use crate::trace::Trace;
use crate::trace::{Arena, Body, BoundSymbol, ProxyId, ProxyTy};
use fulgurite_core::Name;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};

/// Who runs lines.
pub trait Executor: Send + Sync {
    /// Its name, by which users order executors.
    fn name(&self) -> &'static str;

    /// What it runs of `lines`, starting with the first of them; `None`: not the first.
    ///
    /// A claim on several lines is a fusion: values that only they use need not be made.
    fn claim(&self, lines: &[Line]) -> Option<Claim>;

    /// The operators on tensors of subclasses that it runs whole: class, operator.
    fn outer(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// A kernel for a line that it runs whole: it reads the fields of the arguments in their order (of plain tensors,
    /// those), and writes the fields of the results. `None`: not this one, which is then taken apart.
    fn claim_outer(&self, _line: &Outer<'_>) -> Option<Arc<dyn Kernel>> {
        None
    }

    /// Whether the lines that it claims with [`Claim::Join`] stay lines of the program, which are fused even across the
    /// kernels of other executors and share its memory plan; otherwise [`Executor::join`] makes one kernel of neighbours.
    fn inlines(&self) -> bool {
        false
    }

    /// One kernel for neighbouring lines that it claimed with [`Claim::Join`], if it does not inline them.
    ///
    /// # Errors
    /// E802 where it can't; what the executor defines.
    fn join(&self, part: &Part<'_>) -> Result<Arc<dyn Kernel>, ExecError> {
        Err(ExecError::new("E802", format!("executor `{}` does not join {} lines", self.name(), part.lines.len())))
    }
}

/// A line on tensors of subclasses, on offer.
pub struct Outer<'a> {
    /// The class of its first argument that has one.
    pub class: &'static str,
    /// The operator.
    pub op: &'static str,
    /// The line.
    pub line: &'a BoundSymbol,
    arena: &'a Arena,
}

impl Outer<'_> {
    /// The type of a value of the line.
    pub fn ty(&self, p: ProxyId) -> ProxyTy {
        self.arena.ty(p)
    }
}

/// Asks executors (the usual ones if none is named) for lines on tensors of subclasses; kernels are kept with the lines.
pub(crate) fn claims<'a>(
    arena: &'a Arena,
    executors: &[Arc<dyn Executor>],
) -> impl Fn(&BoundSymbol) -> Option<&'static str> + 'a {
    let executors = if executors.is_empty() { default() } else { executors.to_vec() };
    move |line| {
        let mut class = None;
        line.for_each_arg(|p| {
            class = class.or_else(|| arena.with_ty(p, |ty| ty.subclass().map(|l| l.class.text.class)))
        });
        let outer = Outer { class: class?, op: line.symbol.name(), line, arena };
        executors.iter().find_map(|e| {
            e.outer().contains(&(outer.class, outer.op)).then_some(())?;
            arena.keep_kernel(line.id, Rc::new(e.claim_outer(&outer)?));
            Some(e.name())
        })
    }
}

/// From now on gradients of `op` on tensors of `class` are what this executor says, in programs that name it: per argument
/// a rule in the language of a class's `grad`.
///
/// # Errors
/// E810 if the executor does not run the operator itself; E006 for a rule that does not parse.
pub fn register_gradient(
    executor: &Arc<dyn Executor>,
    class: &str,
    op: &str,
    rules: &[(&str, &str)],
) -> Result<(), Error> {
    let name = executor.name();
    if !executor.outer().contains(&(class, op)) {
        let claim = format!("executor `{name}` brings a gradient of `{op}` on `{class}`, and does not run it");
        return Err(Error::new("E810", claim).help("list it in `Executor::outer`, and claim it"));
    }
    outer::add_grad(name, Name::new(class), Name::new(op), rules)
}

/// What an executor takes.
pub enum Claim {
    /// The first line, to be fused with neighbours that are claimed so too: see [`Executor::inlines`].
    Join,
    /// The first `lines` lines, as a kernel.
    Kernel {
        /// How many.
        lines: usize,
        /// What the kernel reads, in its order.
        inputs: Vec<ProxyId>,
        /// What it writes, in its order: everything that other lines use.
        outs: Vec<ProxyId>,
        /// What runs.
        kernel: Arc<dyn Kernel>,
    },
}

impl Claim {
    /// A kernel for one line: it reads the line's tensors, then its run-time numbers, and writes its results.
    pub fn line(line: &Line, kernel: Arc<dyn Kernel>) -> Claim {
        Claim::Kernel { lines: 1, inputs: line.inputs(), outs: line.outs.clone(), kernel }
    }
}

fn registry() -> &'static Mutex<Vec<Arc<dyn Executor>>> {
    static REGISTRY: OnceLock<Mutex<Vec<Arc<dyn Executor>>>> = OnceLock::new();
    REGISTRY
        .get_or_init(|| Mutex::new(vec![Arc::new(cpu::Cpu), Arc::new(cuda::Cuda::default()), Arc::new(interp::Interp)]))
}

/// Adds an executor that programs may name; one of the same name is replaced.
pub fn register(executor: Arc<dyn Executor>) {
    let mut registry = registry().lock().unwrap_or_else(|e| e.into_inner());
    registry.retain(|e| e.name() != executor.name());
    registry.push(executor);
}

/// The executor called `name`.
pub fn find(name: &str) -> Option<Arc<dyn Executor>> {
    registry().lock().unwrap_or_else(|e| e.into_inner()).iter().find(|e| e.name() == name).cloned()
}

/// The names of all executors.
pub fn names() -> Vec<&'static str> {
    registry().lock().unwrap_or_else(|e| e.into_inner()).iter().map(|e| e.name()).collect()
}

fn usual() -> &'static Mutex<Vec<Arc<dyn Executor>>> {
    static USUAL: OnceLock<Mutex<Vec<Arc<dyn Executor>>>> = OnceLock::new();
    USUAL.get_or_init(|| Mutex::new(vec![Arc::new(cpu::Cpu), Arc::new(interp::Interp)]))
}

/// The executors of programs that name none, in the order in which they are asked; `cpu` and `interp` unless
/// [`set_default`] said otherwise.
pub fn default() -> Vec<Arc<dyn Executor>> {
    usual().lock().unwrap_or_else(|e| e.into_inner()).clone()
}

/// From now on, programs that name no executors have these.
pub fn set_default(executors: Vec<Arc<dyn Executor>>) {
    *usual().lock().unwrap_or_else(|e| e.into_inner()) = executors;
}

/// Gives the decomposition of a line, if it has one.
pub type Bodies<'a> = &'a dyn Fn(&BoundSymbol) -> Result<Option<Rc<Body>>, ExecError>;

/// How to compile.
pub struct CompileOptions<'a> {
    /// Executors, in the order in which they are asked.
    pub executors: Vec<Arc<dyn Executor>>,
    /// Threads that the program uses; 0: as many as [`threads`] says when it runs.
    pub threads: usize,
    /// The decompositions of lines that nobody claims.
    pub bodies: Bodies<'a>,
    /// Whether the program keeps what [`Compiled::describe`] needs; off, compiling is a little faster.
    pub describe: bool,
    /// Whether it is noted why lines are not fused.
    pub explain: bool,
}

impl<'a> CompileOptions<'a> {
    /// On the usual executors.
    pub fn new(bodies: Bodies<'a>) -> CompileOptions<'a> {
        CompileOptions { executors: default(), threads: 0, bodies, describe: true, explain: false }
    }
}

/// Compiles a trace: [`Compiled::run`] gives the trace's outputs, then the values of its epilogue's writes, in order.
///
/// # Errors
/// E801 for a line that nobody runs, E802 for a claim that does not fit, and what decomposing reports.
pub fn compile(trace: &Trace, options: &CompileOptions<'_>) -> Result<Compiled, ExecError> {
    let claimed = transfer::place(trace, join::join(trace, partition::partition(trace, options)?)?);
    program::build(trace, claimed, options, &cpu::Cpu)
}

/// Whether the CPU has a kernel for a line that is no loops to be fused: executors that join lines leave it alone.
fn is_whole(line: &Line) -> bool {
    cpu::whole(line).is_some()
}
