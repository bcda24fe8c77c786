//! Records a function of parameters and inputs as a trace.

use super::errors;
use fulgurite_runtime::Error;
use fulgurite_runtime::jit::Arguments;
use fulgurite_runtime::parts::{Recorded, aliases, record};
use fulgurite_runtime::tensor::{Cell, Tensor};
use fulgurite_runtime::trace::Trace;
use fulgurite_runtime::tree::{Leaves, Tree, describe};
use std::sync::Arc;

/// A recorded function `f(parameters, inputs)`.
pub(super) struct Traced {
    /// The trace. Its inputs are the leaves of the parameters, then the leaves of the inputs, then captured cells.
    pub trace: Trace,
    pub cells: Vec<Arc<Cell>>,
    /// The paths of the leaves of parameters and inputs.
    pub paths: Vec<Arc<str>>,
    /// The number of leaves that are parameters.
    pub params: usize,
    /// The paths of the leaves of the result.
    pub results: Vec<Arc<str>>,
}

/// Records `f` for arguments of the types of `params` and `inputs`.
///
/// # Errors
/// Reports errors of tracing.
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
    let Recorded { trace, cells, results } = record(name, &args, run)?;
    if trace.writes() {
        let (tensors, paths): (Vec<&Tensor>, Vec<&str>) = args.iter().map(|(t, path)| (t, &**path)).unzip();
        apart(name, &tensors, &paths)?;
    }
    let paths = args.into_iter().map(|(_, path)| path).collect();
    Ok(Traced { trace, cells, paths, params: count, results })
}

/// Refuses one tensor in the place of two arguments, for a stage that writes to its arguments.
///
/// # Errors
/// E756 for such a tensor.
pub(super) fn apart(name: &str, tensors: &[&Tensor], paths: &[&str]) -> Result<(), Error> {
    let same = aliases(tensors.iter().copied()).into_iter().enumerate().find(|(i, first)| i != first);
    let Some((i, first)) = same else { return Ok(()) };
    let claim =
        format!("`{}` and `{}` are one tensor, and the stage `{name}` writes to its arguments", paths[first], paths[i]);
    Err(errors::misfit(claim).help("copy one of them"))
}
