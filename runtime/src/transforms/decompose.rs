//! Decomposition: replaces lines that are not accepted by their bodies.

use super::inline::{Redirect, inline};
use crate::bind::body_of;
use crate::error::Error;
use crate::trace::*;
use std::rc::Rc;
use std::time::Instant;

/// Replaces every line that `accept` refuses by its body, until all lines are accepted or have no body. The results
/// keep their ids, names and tags; the lines of a body get the region, the place and (by policy) the tags of the line.
///
/// # Errors
/// Reports errors of making bodies, and E730 in debug builds.
pub fn decompose(trace: &Trace, accept: &mut dyn FnMut(&BoundSymbol) -> bool) -> Result<Trace, Error> {
    let started = Instant::now();
    let mut redirect = Redirect::default();
    let mut lines = Vec::new();
    for line in &trace.lines {
        flatten(&trace.arena, line, accept, &mut redirect, &mut lines)?;
    }
    let outputs: Vec<ProxyId> = trace.outputs.iter().map(|p| redirect.get(*p)).collect();
    let mut source = trace.clone();
    source.epilogue.iter_mut().for_each(|w| w.value = redirect.get(w.value));
    super::finish(&source, "decompose", started, lines, &outputs)
}

fn flatten(
    arena: &Rc<Arena>,
    line: &Rc<BoundSymbol>,
    accept: &mut dyn FnMut(&BoundSymbol) -> bool,
    redirect: &mut Redirect,
    lines: &mut Vec<Rc<BoundSymbol>>,
) -> Result<(), Error> {
    let line = redirect.apply(line);
    if accept(&line) {
        lines.push(line);
        return Ok(());
    }
    let Some(body) = body_of(arena, &line)? else {
        lines.push(line);
        return Ok(());
    };
    for inner in inline(&line, &body, redirect) {
        flatten(arena, &inner, accept, redirect, lines)?;
    }
    Ok(())
}
