//! Finds the lines of a backward that each gradient needs.

use fulgurite_runtime::Error;
use fulgurite_runtime::bind::body_of;
use fulgurite_runtime::trace::*;
use fulgurite_runtime::transforms::decompose;
use rustc_hash::FxHashSet;
use std::rc::Rc;

/// The lines of the two parts of a backward.
pub(super) struct Sets {
    /// The lines of I.
    pub input: FxHashSet<BoundSymbolId>,
    /// The lines of W.
    pub weight: FxHashSet<BoundSymbolId>,
}

/// The values that `roots` need, themselves included, and the lines that make them.
fn cone(
    lines: &[Rc<BoundSymbol>],
    roots: impl Iterator<Item = ProxyId>,
) -> (FxHashSet<ProxyId>, FxHashSet<BoundSymbolId>) {
    let mut values: FxHashSet<ProxyId> = roots.collect();
    let mut ids = FxHashSet::default();
    for line in lines.iter().rev() {
        if line.outs.iter().chain(&line.aux).any(|p| values.contains(p)) {
            ids.insert(line.id);
            line.for_each_arg(|p| _ = values.insert(p));
        }
    }
    (values, ids)
}

/// Divides the lines: I holds those that gradients of inputs need, W those that only gradients of parameters need.
pub(super) fn cut(
    lines: &[Rc<BoundSymbol>],
    inputs: impl Iterator<Item = ProxyId>,
    params: impl Iterator<Item = ProxyId>,
) -> Sets {
    let input = cone(lines, inputs).1;
    let mut weight = cone(lines, params).1;
    weight.retain(|id| !input.contains(id));
    Sets { input, weight }
}

/// The backward, in which each line is replaced by its body if some of its results serve inputs and others serve
/// parameters alone. `inputs` and `params` are results of the backward. Also returns the names of such lines that can't
/// be replaced, because they have no body or are claimed by an executor.
pub(super) fn open(backward: &Trace, inputs: &[usize], params: &[usize]) -> Result<(Trace, Vec<String>), Error> {
    let mut trace = backward.clone();
    loop {
        let values = |list: &[usize]| list.iter().map(|at| trace.outputs()[*at]).collect::<Vec<_>>().into_iter();
        let (by_inputs, ids) = cone(trace.lines(), values(inputs));
        let (by_params, _) = cone(trace.lines(), values(params));
        let serves_both = |line: &&Rc<BoundSymbol>| {
            let alone = |p: &ProxyId| by_params.contains(p) && !by_inputs.contains(p);
            ids.contains(&line.id) && line.outs.iter().chain(&line.aux).any(alone)
        };
        let (mut open, mut shared) = (FxHashSet::default(), Vec::new());
        for line in trace.lines().iter().filter(serves_both) {
            match line.claimed_by.is_none() && body_of(&trace.arena, line)?.is_some() {
                true => _ = open.insert(line.id),
                false => shared.push(line.symbol.name().to_owned()),
            }
        }
        if open.is_empty() {
            return Ok((trace, shared));
        }
        trace = decompose(&trace, &mut |line| !open.contains(&line.id))?;
    }
}

/// The operators that these lines apply, in the order of the lines.
pub(super) fn names(lines: &[Rc<BoundSymbol>], ids: &FxHashSet<BoundSymbolId>) -> Vec<String> {
    lines.iter().filter(|l| ids.contains(&l.id)).map(|l| l.symbol.name().to_owned()).collect()
}
