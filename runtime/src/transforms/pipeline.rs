//! What stands between tracing and execution, as the user of a compiled function wishes: how much gradients keep, and
//! transforms of his own.

use super::remat::Remat;
use crate::error::{Error, ErrorKind};
use crate::trace::verify;
use crate::trace::{BoundSymbol, ProxyTy, Tag, Trace};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Where in the pipeline a transform stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// Before differentiation: each closure whose gradient is taken, and the function itself.
    Acquired,
    /// After differentiation: each joint trace, rematerialised.
    Joint,
    /// The simplified program, before executors claim its lines.
    Simplified,
}

/// A transform: trace to trace.
pub type Transform = dyn Fn(&Trace) -> Result<Trace, Error> + Send + Sync;

/// The wishes of one compiled function.
#[derive(Clone, Default)]
pub struct Pipeline {
    /// What gradients keep.
    pub remat: Remat,
    /// The names of the executors, whose gradients of operators on tensors of subclasses come first.
    pub executors: Vec<&'static str>,
    transforms: Vec<(At, &'static str, Arc<Transform>)>,
}

impl Pipeline {
    /// Adds a transform behind those that stand at `at` already.
    pub fn add(&mut self, at: At, name: &'static str, transform: Arc<Transform>) {
        self.transforms.push((at, name, transform));
    }

    /// Whether a transform stands at `at`.
    pub fn has(&self, at: At) -> bool {
        self.transforms.iter().any(|(a, ..)| *a == at)
    }

    /// The wishes for what a compiled function called inside of another one records: its own transforms see its lines
    /// first, then those of the function around it; a budget of its own is that of the gradients that it takes.
    pub fn inside(&self, around: &Pipeline) -> Pipeline {
        let own = self.transforms.iter().filter(|(at, ..)| *at != At::Simplified);
        Pipeline {
            remat: if self.remat == Remat::Marked { around.remat } else { self.remat },
            executors: around.executors.clone(),
            transforms: own.chain(&around.transforms).cloned().collect(),
        }
    }

    /// Runs the transforms at `at`; `note` sees what each made. What they have seen is tagged, so that each line is
    /// edited once: a trace holds those of the closures inside it, which were seen apart.
    ///
    /// # Errors
    /// What a transform reports; E730, with its name, where it made a bad trace.
    pub fn apply(
        &self,
        at: At,
        trace: Trace,
        mut note: impl FnMut(&'static str, &Trace, Instant),
    ) -> Result<Trace, Error> {
        let mut trace = trace;
        if !self.has(at) {
            return Ok(trace);
        }
        trace.seen = at.seen();
        for (_, name, transform) in self.transforms.iter().filter(|(a, ..)| *a == at) {
            let started = Instant::now();
            let mut made = transform(&trace).map_err(|e| e.note(format!("in the transform `{name}`")))?;
            made.provenance.made_by = name;
            same_ends(name, &trace, &made)?;
            // whoever wrote it, the program that runs is sound: in release builds too
            verify::changed(&trace, &made)?;
            note(name, &made, started);
            trace = made;
        }
        trace.seen = None;
        self.mark(at, &mut trace);
        Ok(trace)
    }

    /// Tags the lines of a trace as seen by the transforms at `at`, if there are any.
    pub(crate) fn mark(&self, at: At, trace: &mut Trace) {
        let Some(tag) = at.seen().filter(|_| self.has(at)) else { return };
        for line in &mut trace.lines {
            if !line.own_tags.contains(tag) {
                *line = Rc::new(BoundSymbol { own_tags: line.own_tags.with(tag), ..(**line).clone() });
            }
        }
    }
}

impl At {
    /// The tag of lines that its transforms have seen; none where they see each program once, as a whole.
    fn seen(self) -> Option<Tag> {
        match self {
            At::Acquired => Some(Tag::SEEN_ACQUIRED),
            At::Joint => Some(Tag::SEEN_JOINT),
            At::Simplified => None,
        }
    }
}

/// Callers know inputs by position and identity, outputs by position.
fn same_ends(transform: &'static str, before: &Trace, after: &Trace) -> Result<(), Error> {
    let claim = if !before.input_proxies().eq(after.input_proxies()) {
        "its inputs are not those of the trace that it was given"
    } else if before.outputs.len() != after.outputs.len() {
        "it has another number of results than the trace that it was given"
    } else {
        return same_sizes(transform, before, after);
    };
    Err(bad(transform, after, claim))
}

/// Results may change dtype, as casts make them, but not their sizes: what they are given to was bound for those.
fn same_sizes(transform: &'static str, before: &Trace, after: &Trace) -> Result<(), Error> {
    for (was, is) in before.outputs.iter().zip(&after.outputs) {
        let (was, now) = (before.ty(*was), after.ty(*is));
        let same = match (&was, &now) {
            (ProxyTy::Tensor(a), ProxyTy::Tensor(b)) => a.ty.shape == b.ty.shape,
            _ => was == now,
        };
        if !same {
            let name = after.arena.name(*is);
            return Err(bad(transform, after, &format!("its result `{name}` is {now}, and was {was}")));
        }
    }
    Ok(())
}

fn bad(transform: &'static str, trace: &Trace, claim: &str) -> Error {
    let claim = format!("`{transform}` made a bad trace `{}`: {claim}", trace.name);
    Error::new("E730", claim).kind_is(ErrorKind::BadTrace { transform })
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.transforms.iter().map(|(at, name, _)| (at, name)).collect();
        f.debug_struct("Pipeline").field("remat", &self.remat).field("transforms", &names).finish()
    }
}
