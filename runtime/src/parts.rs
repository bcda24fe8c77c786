//! Parts of a program, for crates that run them in an order of their own: a recorded function, a trace cut out of
//! another one, the forward and backward of a joint trace, their compiled programs, and the memory of the tensors that
//! they take.
//!
//! | item | is |
//! |---|---|
//! | [`record`], [`Recorded`] | a function as a trace |
//! | [`traced`] | a function of types as a trace, with symbolic sizes if the arguments have such |
//! | [`cut`], [`whole_forward`] | a joint trace as forward and backward; its forward before it is cut |
//! | [`CompiledPart`], [`ForwardPart`] | a part that only reads, and one that also writes to tensors in memory |
//! | [`cell_of`], [`data`], [`value`], [`write()`], [`aliases`], [`same_types`] | tensors in memory, and their types |
//! | [`line_costs`], [`bytes_of`], [`written_later`], [`Network`] | the costs and constraints of a cut |

pub use crate::jit::same_types;
pub use crate::jit::tracing::aliases;
pub use crate::transforms::custom_vjp::written as written_later;
pub use crate::transforms::remat::flow::{NEVER, Network};
pub use crate::transforms::split::forward as whole_forward;
pub use crate::transforms::{bytes_of, line_costs};

use crate::bind::Builder;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::executors::Executor;
use crate::jit::backend::Backend;
use crate::jit::program::Program;
use crate::jit::tracing::{How, acquired};
use crate::jit::{Stages, retake, shared, stages};
use crate::scope::{self, Open};
use crate::tensor::{Cell, CellKind, Tensor, View};
use crate::trace::tag::TagSet;
use crate::trace::{ProxyTy, Trace};
use crate::transforms::{Joint, Pipeline, Split};
use crate::tree::{Tree, describe, flatten};
use fulgurite_core::dim::Recording;
use std::sync::Arc;

/// A function of tensors as a trace that will be differentiated.
pub struct Recorded {
    /// The trace. Its inputs are the arguments, then the captured cells.
    pub trace: Trace,
    /// The captured cells.
    pub cells: Vec<Arc<Cell>>,
    /// The paths of the leaves of the result.
    pub results: Vec<Arc<str>>,
}

/// Records a function of tensors with these paths.
///
/// # Errors
/// Reports errors of tracing.
pub fn record<T: Tree>(
    name: &str,
    args: &[(Tensor, Arc<str>)],
    f: impl Fn(Vec<Tensor>) -> Result<T, Error>,
) -> Result<Recorded, Error> {
    let how = How { differentiated: true, ..How::default() };
    let (mut recording, mut stages) = (Recording::start(), Stages::new(false));
    let (made, _) = acquired(name, args, how, &Arc::default(), &mut recording, &mut stages, f)?;
    let results = describe(&made.template).1.paths;
    Ok(Recorded { trace: made.trace, cells: made.cells, results })
}

/// The trace of a function of values with these paths and types, as it was recorded. If sizes of the arguments are
/// symbolic, sizes of the values are polynomials of them; a [`Recording`] that the caller
/// has started receives the comparisons on which the trace relies.
///
/// # Errors
/// Reports errors of tracing.
pub fn traced<T: Tree>(
    name: &str,
    args: &[(String, ProxyTy)],
    f: impl FnOnce(Vec<Tensor>) -> Result<T, Error>,
) -> Result<Trace, Error> {
    let open = Open::new(Builder::new(name).autocasting(), Arc::default());
    let handles = args.iter().map(|(path, ty)| open.argument(path, ty.clone(), TagSet::default())).collect();
    let made = scope::in_ambient(|| f(handles))?;
    open.check()?;
    let outputs = flatten(&made).leaves().iter().map(|leaf| open.resolve(leaf)).collect::<Result<Vec<_>, _>>()?;
    Ok(open.close().builder.finish(&outputs))
}

/// Simplifies a joint trace according to `pipeline`, and cuts it into forward and backward.
///
/// # Errors
/// Errors of transforms; E722 if marks exclude each other.
pub fn cut(joint: Joint, pipeline: &Pipeline, executors: &[Arc<dyn Executor>]) -> Result<Split, Error> {
    stages::cut(joint, pipeline, executors, &mut Stages::new(false)).map(|(_, split)| split)
}

/// A compiled trace without writes.
pub struct CompiledPart(Backend);

impl CompiledPart {
    /// Compiles a trace for these executors, or the usual ones if none is named; each line is offered to them in this
    /// order.
    ///
    /// # Errors
    /// Reports errors of executors.
    pub fn new(trace: &Trace, executors: &[Arc<dyn Executor>]) -> Result<CompiledPart, Error> {
        Backend::compile(trace, executors).map(CompiledPart)
    }

    /// Runs the part on the data of its inputs, which stay unchanged. Returns the trace's outputs, then the values of
    /// its writes.
    ///
    /// # Errors
    /// Reports errors of executors, at the place of the line.
    pub fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>, Error> {
        self.0.run(inputs, &[])
    }
}

/// A compiled trace with captured cells, which may write to cells.
pub struct ForwardPart(Program);

impl ForwardPart {
    /// Compiles a trace whose last inputs are these cells.
    ///
    /// # Errors
    /// Reports errors of executors.
    pub fn new(trace: &Trace, cells: Vec<Arc<Cell>>, executors: &[Arc<dyn Executor>]) -> Result<ForwardPart, Error> {
        let backend = Backend::compile(trace, executors)?;
        Ok(ForwardPart(Program::new(trace, cells, Arc::new(backend.into()))))
    }

    /// Runs the part on arguments in memory, and writes to their cells.
    ///
    /// # Errors
    /// The error of an argument without data, and errors of executors; nothing was written then.
    pub fn run(&self, arguments: &[&Tensor]) -> Result<Vec<Buffer>, Error> {
        let mut buffers = arguments.iter().map(|t| t.data()).collect::<Result<Vec<_>, _>>()?;
        let cell = |i: usize| arguments.get(i).and_then(|t| cell_in(t)).cloned();
        let shared = arguments.iter().filter_map(|t| cell_in(t)).filter(|cell| cell.is_shared());
        let shared: Vec<Arc<Cell>> = shared.cloned().collect();
        self.0.run(None, &mut buffers, cell, &shared)
    }

    /// The inputs that the part writes.
    pub fn written(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.written()
    }
}

fn cell_in(tensor: &Tensor) -> Option<&Arc<Cell>> {
    if let View::Cell(cell) = tensor.view() { Some(cell) } else { None }
}

/// The cell of a plain tensor in memory; `None` for a tensor of a subclass.
///
/// # Errors
/// The error of a poisoned tensor; E740 or E741 for a handle of a trace.
pub fn cell_of(tensor: &Tensor) -> Result<Option<&Arc<Cell>>, Error> {
    match tensor.view() {
        View::Cell(cell) => Ok(Some(cell)),
        View::Poison(e) => Err(e.clone()),
        View::Wrapped(_) => Ok(None),
        View::Traced(traced) => Err(crate::scope::stray(traced.token().is_open(), &traced.ty().to_string())),
    }
}

/// The data of a tensor in memory.
///
/// # Errors
/// The error of a poisoned tensor; E740 or E741 for a handle of a trace.
pub fn data(tensor: &Tensor) -> Result<Buffer, Error> {
    tensor.data()
}

/// A value of this type in memory, as a user holds it.
pub fn value(ty: &ProxyTy, buffer: Buffer) -> Tensor {
    let kind = match ty {
        ProxyTy::Tensor(_) => CellKind::Tensor,
        ProxyTy::Number(_) => CellKind::Number,
        ProxyTy::Key => CellKind::Key,
    };
    Tensor::from_kind(kind, buffer)
}

/// Writes a value to each cell; every view of the written elements sees it.
///
/// # Errors
/// E749 if two of the cells show the same elements; E714 if a view shows an element twice.
pub fn write(cells: &[Arc<Cell>], values: Vec<Buffer>) -> Result<(), Error> {
    shared::write(cells, &[], &retake, || Ok(((), values)))
}
