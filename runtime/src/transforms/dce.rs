//! Dead code: lines whose results nobody reads go, dead results of the others are marked.

use crate::error::Error;
use crate::trace::*;
use rustc_hash::FxHashSet;
use std::rc::Rc;
use std::time::Instant;

/// Removes the lines that no output and no write to an input needs. Regions without lines vanish with them.
///
/// # Errors
/// E730 (debug builds).
pub fn dce(trace: &Trace) -> Result<Trace, Error> {
    let started = Instant::now();
    let roots = trace.outputs.iter().copied().chain(trace.epilogue.iter().map(|w| w.value));
    let lines = live(&trace.lines, roots);
    super::finish(trace, "dce", started, lines, &trace.outputs)
}

/// The lines that make `roots`, and what these lines read; dead results and unused auxiliary results are marked.
pub(super) fn live(lines: &[Rc<BoundSymbol>], roots: impl Iterator<Item = ProxyId>) -> Vec<Rc<BoundSymbol>> {
    let mut read: FxHashSet<ProxyId> = roots.collect();
    let mut kept = Vec::new();
    for line in lines.iter().rev() {
        if !line.outs.iter().chain(&line.aux).any(|o| read.contains(o)) {
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
