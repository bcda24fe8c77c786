//! Executors, which run the lines of a trace.
//!
//! An [`Executor`] is offered lines and claims those that it can run. Executors are asked in the user's order; a line
//! that no executor claims is decomposed, and its body is offered. The claimed lines become one [`Compiled`] program
//! with one memory plan: kernels of executors are steps of it, and the lines that `cpu` joins are fused with their
//! neighbours.
//!
//! | module | is |
//! |---|---|
//! | `partition`, `join` | offer lines and collect claims |
//! | `fusion` | makes items of lines: graphs of scalar operations, products, scans |
//! | `program` | makes steps of items with one memory plan, which is the result of [`compile`] |
//! | `control` | runs the programs of lines of control flow |
//! | [`cpu`] | runs steps over tiles, products, scans |
//! | [`cuda`] | compiles items to CUDA C and runs them on a device |
//! | [`interp`] | interprets lines, as the oracle |
//! | `transfer` | adds transfers between host memory and a device's |
//! | `host` | has named primitives (argsort, selections) |
//!
//! **Invariant:** no operator's name is read here: families are recognised from meanings, and a row that wants a
//! special kernel names it (`host:`, `kernels:`). `fusion` and `program` import no executor, and no executor imports
//! another; only this file knows all of them.

mod control;
pub mod cpu;
pub mod cuda;
mod error;
mod fusion;
mod host;
pub mod interp;
mod join;
mod kernel;
mod line;
mod loop_nest;
mod meaning;
mod partition;
mod program;
mod require;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;

pub use error::ExecError;
pub use fusion::fuse::Separate;
pub use join::JoinedPart;
pub use kernel::{Kernel, OnDevice, TensorMut, TensorRef, TransferSource, Works};
pub use line::Line;
pub(crate) use program::StepTime;
pub use program::{Compiled, Description, StepInfo, forget_threads, kept_bytes, set_kept_limit, set_threads, threads};

use crate::error::Error;
use crate::symbol::outer;
use crate::trace::Trace;
use crate::trace::{Arena, Body, BoundSymbol, ProxyId, ProxyTy};
use fulgurite_core::Name;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock};

/// Runs lines of traces.
pub trait Executor: Send + Sync {
    /// The name of the executor, by which users order executors.
    fn name(&self) -> &'static str;

    /// The claim on a prefix of `lines`, or `None` if the executor does not run the first line.
    ///
    /// A claim on several lines is a fusion: values that only these lines use need not be computed.
    fn claim(&self, lines: &[Line]) -> Option<Claim>;

    /// The operators on tensors of subclasses that the executor runs whole, as pairs of class and operator.
    fn outer(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// A kernel for a line on tensors of subclasses. It reads the fields of the arguments in order (a plain tensor
    /// stands for itself), and writes the fields of the results. With `None`, the line is unrolled to lines on the
    /// fields.
    fn claim_outer(&self, _line: &Outer<'_>) -> Option<Arc<dyn Kernel>> {
        None
    }

    /// Whether the lines that the executor claims with [`Claim::Join`] stay lines of the program. Such lines are fused
    /// even across the kernels of other executors and share one memory plan; otherwise [`Executor::join`] makes one
    /// kernel of neighbours.
    fn inlines(&self) -> bool {
        false
    }

    /// Makes one kernel of neighbouring lines that the executor claimed with [`Claim::Join`], if it does not inline
    /// them.
    ///
    /// # Errors
    /// E802 if it can't, and errors that the executor defines.
    fn join(&self, part: &JoinedPart<'_>) -> Result<Arc<dyn Kernel>, ExecError> {
        Err(ExecError::new("E802", format!("executor `{}` does not join {} lines", self.name(), part.lines.len())))
    }
}

/// A line on tensors of subclasses that is offered to executors.
pub struct Outer<'a> {
    /// The class of the first argument that has one.
    pub class: &'static str,
    /// The name of the operator.
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

/// Offers lines on tensors of subclasses to executors (by default the usual ones); their kernels are kept with the
/// lines.
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

/// Registers gradients of `op` on tensors of `class`, for programs that name this executor: for each argument a rule in
/// the language of a class's `grad`.
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

/// A claim of an executor.
pub enum Claim {
    /// The first line, to be fused with neighbours that are claimed this way; see [`Executor::inlines`].
    Join,
    /// The first `lines` lines, as one kernel.
    Kernel {
        /// The number of lines.
        lines: usize,
        /// The values that the kernel reads, in its order.
        inputs: Vec<ProxyId>,
        /// The values that the kernel writes, in its order: every value that other lines use.
        outs: Vec<ProxyId>,
        /// The kernel.
        kernel: Arc<dyn Kernel>,
    },
}

impl Claim {
    /// A claim on one line by a kernel that reads the line's tensors, then its run-time numbers, and writes its
    /// results.
    pub fn line(line: &Line, kernel: Arc<dyn Kernel>) -> Claim {
        Claim::Kernel { lines: 1, inputs: line.inputs(), outs: line.outs.clone(), kernel }
    }
}

fn registry() -> &'static Mutex<Vec<Arc<dyn Executor>>> {
    static REGISTRY: OnceLock<Mutex<Vec<Arc<dyn Executor>>>> = OnceLock::new();
    REGISTRY
        .get_or_init(|| Mutex::new(vec![Arc::new(cpu::Cpu), Arc::new(cuda::Cuda::default()), Arc::new(interp::Interp)]))
}

/// Registers an executor that programs may name; it replaces one of the same name.
pub fn register(executor: Arc<dyn Executor>) {
    let mut registry = registry().lock().unwrap_or_else(|e| e.into_inner());
    registry.retain(|e| e.name() != executor.name());
    registry.push(executor);
}

/// The executor of this name.
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

/// The executors of programs that name none, in the order in which they are asked: `cpu` and `interp`, unless
/// [`set_default`] changed them.
pub fn default() -> Vec<Arc<dyn Executor>> {
    usual().lock().unwrap_or_else(|e| e.into_inner()).clone()
}

/// Sets the executors of programs that name none.
pub fn set_default(executors: Vec<Arc<dyn Executor>>) {
    *usual().lock().unwrap_or_else(|e| e.into_inner()) = executors;
}

/// Returns the decomposition of a line, if it has one.
pub type Bodies<'a> = &'a dyn Fn(&BoundSymbol) -> Result<Option<Rc<Body>>, ExecError>;

/// Options of [`compile`].
pub struct CompileOptions<'a> {
    /// The executors, in the order in which they are asked.
    pub executors: Vec<Arc<dyn Executor>>,
    /// The number of threads that the program uses; with 0, [`threads`] decides when it runs.
    pub threads: usize,
    /// Returns the decompositions of lines that no executor claims.
    pub bodies: Bodies<'a>,
    /// Whether the program keeps the data for [`Compiled::describe`]; compiling is a little faster without.
    pub describe: bool,
    /// Whether the reasons why lines are not fused are noted.
    pub explain: bool,
    /// Whether the trace is bound at one of many combinations of sizes. An executor may then make kernels that serve
    /// other sizes too.
    pub sizes_vary: bool,
    /// Values between lines that have at least this many bytes may exist as one block of rows at a time.
    pub blocks_from: usize,
}

impl<'a> CompileOptions<'a> {
    /// Options with the default executors.
    pub fn new(bodies: Bodies<'a>) -> CompileOptions<'a> {
        CompileOptions {
            executors: default(),
            threads: 0,
            bodies,
            describe: true,
            explain: false,
            sizes_vary: false,
            blocks_from: fusion::row_blocks::LEAST,
        }
    }
}

/// Compiles a trace. [`Compiled::run`] returns the trace's outputs, then the values of its epilogue's writes, in order.
///
/// # Errors
/// E801 for a line that no executor runs, E802 for a claim that does not fit, and errors of decomposing.
pub fn compile(trace: &Trace, options: &CompileOptions<'_>) -> Result<Compiled, ExecError> {
    let claimed = transfer::place(trace, join::join(trace, partition::partition(trace, options)?, options.sizes_vary)?);
    program::build(trace, claimed, options, &cpu::Cpu)
}

/// Whether the CPU has a kernel for a line without loops to fuse; executors that join lines do not join such a line.
fn is_whole(line: &Line) -> bool {
    cpu::whole(line).is_some()
}
