//! Tensors of subclasses taken apart: lines on them become lines on their fields.
//!
//! Run once, after differentiation, on whole programs. An executor may claim a line on tensors of subclasses before: it
//! then runs on the fields of its arguments. What was put together and is taken apart again is left out.

use super::expand::{Redirect, inline};
use crate::error::Error;
use crate::executors::Executor;
use crate::symbol::Port;
use crate::trace::*;
use fulgurite_core::Value;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Whether something in the trace is of a subclass.
pub fn has_subclasses(trace: &Trace) -> bool {
    trace.lines.iter().any(|l| l.dispatch.is_some() || l.symbol.port().is_some())
}

/// The program on the fields. Inputs and outputs are plain already: whoever made the trace took them apart.
///
/// # Errors
/// E730 (debug builds), also where an input or output is of a subclass.
pub fn unroll(trace: &Trace, _executors: &[Arc<dyn Executor>]) -> Result<Trace, Error> {
    if !has_subclasses(trace) {
        return Ok(trace.clone());
    }
    let started = Instant::now();
    let mut unroll = Unroll { redirect: Redirect::default(), fields: FxHashMap::default(), lines: Vec::new() };
    trace.lines.iter().for_each(|line| unroll.line(line));
    let Unroll { redirect, lines, .. } = unroll;
    let outputs: Vec<ProxyId> = trace.outputs.iter().map(|p| redirect.get(*p)).collect();
    let mut source = trace.clone();
    source.epilogue.iter_mut().for_each(|w| w.value = redirect.get(w.value));
    super::finish(&source, "unroll", started, lines, &outputs)
}

struct Unroll {
    redirect: Redirect,
    /// The fields of what was put together.
    fields: FxHashMap<ProxyId, Vec<ProxyId>>,
    lines: Vec<Rc<BoundSymbol>>,
}

impl Unroll {
    fn line(&mut self, line: &Rc<BoundSymbol>) {
        let line = self.redirect.apply(line);
        match (line.symbol.port(), &line.dispatch) {
            (Some((_, Port::Unflatten)), _) => {
                let mut fields = Vec::new();
                line.for_each_arg(|p| fields.push(p));
                self.fields.insert(line.outs[0], fields);
            }
            (Some((_, Port::Flatten)), _) => {
                let of = line.args.first().and_then(|a| if let Value::Tensor(p) = a { self.fields.get(p) } else { None });
                match of.cloned() {
                    Some(fields) => {
                        line.outs.iter().zip(fields).for_each(|(out, field)| self.redirect.insert(*out, field));
                    }
                    None => self.lines.push(line),
                }
            }
            (_, Some(body)) => inline(&line, body, &mut self.redirect).iter().for_each(|inner| self.line(inner)),
            (_, None) => self.lines.push(line),
        }
    }
}
