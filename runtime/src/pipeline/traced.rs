//! A function of parameters and inputs as a trace.

use crate::error::Error;
use crate::jit::acquire::{How, acquired};
use crate::jit::{Arguments, Stages};
use crate::tensor::{Cell, Tensor};
use crate::trace::Trace;
use crate::tree::{Leaves, Tree, describe};
use fulgurite_core::dim::Recording;
use std::sync::Arc;

/// A function `f(parameters, inputs)`, recorded.
pub(super) struct Traced {
    /// Its inputs: the leaves of the parameters, those of the inputs, captured cells.
    pub trace: Trace,
    pub cells: Vec<Arc<Cell>>,
    /// The paths of the leaves of both.
    pub paths: Vec<Arc<str>>,
    /// How many of them are parameters.
    pub params: usize,
    /// The paths of the leaves of the result.
    pub results: Vec<Arc<str>>,
}

/// Records it for arguments of the types of these.
///
/// # Errors
/// What tracing reports.
pub(super) fn traced<F, M, P, X>(name: &str, f: F, params: &P, inputs: &X) -> Result<Traced, Error>
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
    let own = leaves.into_iter().zip(detail.paths).map(|(t, path)| (t, named(path, "w")));
    let given = more.into_iter().zip(inner.paths).map(|(t, path)| (t, named(path, "x")));
    let args: Vec<(Tensor, Arc<str>)> = own.chain(given).collect();
    let run = |handles: Vec<Tensor>| {
        let mut handles = handles.into_iter();
        let mut handles = Leaves::new(&mut handles);
        let params = params.rebuild(&mut handles);
        (params, inputs.rebuild(&mut handles)).run(&f)
    };
    let how = How { differentiated: true, ..How::default() };
    let (mut recording, mut stages) = (Recording::start(), Stages::new(false));
    let (made, _) = acquired(name, &args, how, &Arc::default(), &mut recording, &mut stages, run)?;
    let results = describe(&made.template).1.paths;
    let paths = args.into_iter().map(|(_, path)| path).collect();
    Ok(Traced { trace: made.trace, cells: made.cells, paths, params: count, results })
}
