//! Which lines which gradients need.

use fulgurite_runtime::Error;
use fulgurite_runtime::bind::body_of;
use fulgurite_runtime::trace::*;
use fulgurite_runtime::transforms::decompose;
use rustc_hash::FxHashSet;
use std::rc::Rc;

/// The lines of the two parts.
pub(super) struct Sets {
    /// Lines of I.
    pub input: FxHashSet<BoundSymbolId>,
    /// Lines of W.
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

/// I: what the inputs' gradients need. W: what the parameters' need besides.
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

/// The backward with those lines opened into their bodies of which some results serve inputs and others parameters alone
/// (`inputs`, `params`: results of the backward). What can't be opened is named: a line without a body, or a claimed one.
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

/// What these lines apply, in order.
pub(super) fn names(lines: &[Rc<BoundSymbol>], ids: &FxHashSet<BoundSymbolId>) -> Vec<String> {
    lines.iter().filter(|l| ids.contains(&l.id)).map(|l| l.symbol.name().to_owned()).collect()
}
