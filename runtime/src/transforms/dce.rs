//! Dead code elimination: removes lines whose results have no reader, and marks the dead results of other lines.
//!
//! A refusal is an effect: a line that may refuse at run time stays, whether or not its results are read.

use crate::bind::may_refuse;
use crate::error::Error;
use crate::trace::*;
use rustc_hash::FxHashSet;
use std::rc::Rc;
use std::time::Instant;

/// Removes the lines that no output and no write to an input needs, and that can't refuse. Regions without lines vanish
/// with them.
///
/// # Errors
/// E730 in debug builds.
pub fn dce(trace: &Trace) -> Result<Trace, Error> {
    let started = Instant::now();
    let roots = trace.outputs.iter().copied().chain(trace.epilogue.iter().map(|w| w.value));
    let lines = live(&trace.lines, roots, &|line| refuses(&trace.arena, line));
    super::finish(trace, "dce", started, lines, &trace.outputs)
}

/// Whether a line must stay because it may refuse. A line that runs again for the backward refuses only if its original
/// did.
pub(super) fn refuses(arena: &Arena, line: &BoundSymbol) -> bool {
    line.place.role != Role::Recompute && may_refuse(arena, line)
}

/// The lines that make `roots`, the lines that have an `effect`, and the lines that these read. Dead results and unused
/// auxiliary results are marked.
pub(super) fn live(
    lines: &[Rc<BoundSymbol>],
    roots: impl Iterator<Item = ProxyId>,
    effect: &dyn Fn(&BoundSymbol) -> bool,
) -> Vec<Rc<BoundSymbol>> {
    let mut read: FxHashSet<ProxyId> = roots.collect();
    let mut kept = Vec::new();
    for line in lines.iter().rev() {
        if !line.outs.iter().chain(&line.aux).any(|o| read.contains(o)) && !effect(line) {
            continue;
        }
        let unread = line.outs.iter().take(64).enumerate().filter(|(_, o)| !read.contains(o));
        let dead = unread.fold(0u64, |bits, (i, _)| bits | 1 << i);
        let idle_aux = !line.aux.is_empty() && !line.aux.iter().any(|o| read.contains(o));
        line.for_each_arg(|p| _ = read.insert(p));
        kept.push(if dead == line.dead && !idle_aux {
            line.clone()
        } else {
            let aux = if idle_aux { Vec::new() } else { line.aux.clone() };
            Rc::new(BoundSymbol { dead, aux, ..(**line).clone() })
        });
    }
    kept.reverse();
    kept
}
