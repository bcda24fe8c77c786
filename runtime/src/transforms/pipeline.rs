//! The options of a compiled function between tracing and execution: the values that gradients keep, and the user's
//! transforms.

use super::remat::Remat;
use crate::error::{Error, ErrorKind};
use crate::trace::verify;
use crate::trace::{BoundSymbol, ProxyTy, Tag, Trace};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// The place of a transform in the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// Before differentiation: the transform sees each closure whose gradient is taken, and the function itself.
    Acquired,
    /// After differentiation: the transform sees each joint trace, rematerialised.
    Joint,
    /// At the end: the transform sees the simplified program, before executors claim its lines.
    Simplified,
}

/// A transform: trace to trace.
pub type Transform = dyn Fn(&Trace) -> Result<Trace, Error> + Send + Sync;

/// The options of one compiled function.
#[derive(Clone, Default)]
pub struct Pipeline {
    /// The values that gradients keep.
    pub remat: Remat,
    /// The names of the executors, whose gradients of operators on tensors of subclasses are used first.
    pub executors: Vec<&'static str>,
    transforms: Vec<(At, &'static str, Arc<Transform>)>,
}

impl Pipeline {
    /// Adds a transform after those at `at`.
    pub fn add(&mut self, at: At, name: &'static str, transform: Arc<Transform>) {
        self.transforms.push((at, name, transform));
    }

    /// Whether there is a transform at `at`.
    pub fn has(&self, at: At) -> bool {
        self.transforms.iter().any(|(a, ..)| *a == at)
    }

    /// The options for recording a compiled function that is called inside of another one. Its own transforms see its
    /// lines first, then those of the surrounding function. Its own budget applies to the gradients that it takes.
    pub fn inside(&self, around: &Pipeline) -> Pipeline {
        let own = self.transforms.iter().filter(|(at, ..)| *at != At::Simplified);
        Pipeline {
            remat: if self.remat == Remat::Marked { around.remat } else { self.remat },
            executors: around.executors.clone(),
            transforms: own.chain(&around.transforms).cloned().collect(),
        }
    }

    /// Runs the transforms at `at`; `note` receives the result of each. Lines that they have seen are tagged, so that
    /// each line is edited once: a trace contains the lines of closures inside it, which were seen separately.
    ///
    /// # Errors
    /// Reports errors of transforms, and E730 with the name of a transform that made an invalid trace.
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
            // a user's transform is verified in release builds too, so that the program is sound
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
    /// The tag of lines that transforms at this place have seen; none where they see each program once, as a whole.
    fn seen(self) -> Option<Tag> {
        match self {
            At::Acquired => Some(Tag::SEEN_ACQUIRED),
            At::Joint => Some(Tag::SEEN_JOINT),
            At::Simplified => None,
        }
    }
}

/// Checks the inputs and outputs: callers know inputs by position and identity, outputs by position.
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

/// Checks that results keep their sizes, for which their readers were bound. They may change dtype, as casts do.
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
