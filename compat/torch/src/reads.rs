//! The tensors that a program reads. Those of others need not be kept for it: their types suffice.

use crate::typed_program::TypedProgram;
use fulgurite::trace::{BoundSymbol, ProxyId, SplitSide};
use fulgurite::{Error, transforms};
use rustc_hash::FxHashSet;
use serde_json::{Value as Json, json};

/// The answer to a request: `{"reads": [0, 2], "guards": […]}`, the numbers of the tensors.
///
/// # Errors
/// The errors of [`TypedProgram::of`] and [`TypedProgram::trace`].
pub fn answer(request: &Json) -> Result<Json, Error> {
    let traced = TypedProgram::of(request)?.trace()?;
    // a row may take a tensor that no row of its body reads
    let has_body = |line: &BoundSymbol| line.symbol.row().is_composite();
    let trace = transforms::decompose(&traced.trace, &mut |line| !has_body(line))?;
    let trace = transforms::simplify(&trace, SplitSide::Before)?;
    let mut read: FxHashSet<ProxyId> = trace.outputs().iter().copied().collect();
    trace.lines().iter().for_each(|line| line.for_each_arg(|p| _ = read.insert(p)));
    let inputs = trace.input_proxies().enumerate();
    let reads: Vec<usize> = inputs.filter(|(_, p)| read.contains(p)).map(|(i, _)| i).collect();
    Ok(json!({ "reads": reads, "guards": traced.guards() }))
}
