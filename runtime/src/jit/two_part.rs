//! Programs in two parts: a head that depends on the sizes of calls, and a tail that does not, such as an optimiser's
//! step.
//!
//! The *tail* is compiled once and serves every plan. Later calls are not known when a function is compiled, so the
//! sizes that they change are guessed: those of arguments that are not returned. A batch is used up, while trained
//! parameters are results as well. If the guess is wrong, the program is planned as a whole.

use super::backend::Backend;
use crate::bind::SymbolicTrace;
use crate::bind::symbolic::Sizes;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::executors::Executor;
use crate::trace::{ProxyId, Trace};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// A tail with fewer lines than this saves less than passing values between the parts costs.
const FEWEST: usize = 8;

/// A finished trace in two parts.
pub(super) struct Parts {
    head: SymbolicTrace,
    tail: Arc<Backend>,
    join: Arc<Join>,
    /// The atoms whose values are numbers in the tail.
    settled: FxHashSet<String>,
}

/// The connection of the two parts.
struct Join {
    /// The inputs of the tail: inputs of the program, or results of the head.
    reads: Vec<Source>,
    /// The results of the program.
    results: Vec<Source>,
}

#[derive(Clone, Copy)]
enum Source {
    Input(usize),
    Head(usize),
    Tail(usize),
}

impl Source {
    /// The value, if it exists before the tail runs.
    fn early(self, inputs: &[Buffer], head: &[Buffer]) -> Option<Buffer> {
        match self {
            Source::Input(i) => inputs.get(i).cloned(),
            Source::Head(i) => head.get(i).cloned(),
            Source::Tail(_) => None,
        }
    }
}

/// Takes the buffer out, and leaves an empty one in its place.
fn lend(buffer: &mut Buffer) -> Option<Buffer> {
    let nothing = Buffer::stale(buffer.dtype(), &[0]).ok()?;
    Some(std::mem::replace(buffer, nothing))
}

/// The programs that run for one combination of sizes.
// There is one plan per program and sizes.
#[allow(clippy::large_enum_variant)]
pub(crate) enum Plan {
    /// A single program.
    Whole(Backend),
    /// Two programs, one after the other.
    Two(Two),
}

/// A head and a tail.
pub(crate) struct Two {
    head: Backend,
    tail: Arc<Backend>,
    join: Arc<Join>,
}

impl Parts {
    /// The parts of a trace that was made at `sizes`, or `None` if there is no tail that pays.
    ///
    /// # Errors
    /// The errors of [`SymbolicTrace::at`], and of [`Backend::compile`] for the tail.
    pub fn of(
        trace: &SymbolicTrace,
        atoms: &[String],
        sizes: Sizes,
        executors: &[Arc<dyn Executor>],
    ) -> Result<Option<Parts>, Error> {
        let settled = trace.atoms_that_come_back(sizes);
        let in_tail = trace.tail(&|name| if settled.contains(name) { sizes(name) } else { None });
        if settled.len() == atoms.len() || in_tail.iter().filter(|t| **t).count() < FEWEST {
            return Ok(None);
        }
        let (head, tail) = trace.cut(&in_tail);
        let place = |list: &[ProxyId], p: ProxyId| list.iter().position(|o| *o == p);
        let source = |p: ProxyId| match (place(&head.outputs, p), place(&tail.outputs, p)) {
            (_, Some(at)) => Source::Tail(at),
            (Some(at), None) => Source::Head(at),
            (None, None) => Source::Input(p.0 as usize),
        };
        let reads = tail.inputs.iter().map(|p| source(*p)).collect();
        let join = Join { reads, results: trace.results().map(source).collect() };
        let tail = Arc::new(Backend::compile(&tail.trace.at(sizes)?, executors)?);
        Ok(Some(Parts { head: head.trace, tail, join: Arc::new(join), settled }))
    }

    /// Whether one tail serves both sizes.
    pub fn serves(&self, a: Sizes, b: Sizes) -> bool {
        self.settled.iter().all(|atom| a(atom) == b(atom))
    }

    /// The head at sizes for which the tail serves.
    ///
    /// # Errors
    /// Reports the errors of [`SymbolicTrace::at`].
    pub fn head_at(&self, sizes: Sizes) -> Result<Trace, Error> {
        self.head.at(sizes)
    }

    pub fn plan(&self, head: Backend) -> Plan {
        Plan::Two(Two { head, tail: self.tail.clone(), join: self.join.clone() })
    }
}

impl From<Backend> for Plan {
    fn from(backend: Backend) -> Plan {
        Plan::Whole(backend)
    }
}

impl Plan {
    /// Runs the programs, as [`Backend::run`] does.
    ///
    /// # Errors
    /// Reports the errors of [`Backend::run`].
    pub fn run(&self, inputs: &mut [Buffer], donated: &[bool]) -> Result<Vec<Buffer>, Error> {
        match self {
            Plan::Whole(backend) => backend.run(inputs, donated),
            Plan::Two(two) => two.run(inputs, donated),
        }
    }

    /// The steps as text, as [`Backend::describe`] returns them.
    pub fn describe(&self) -> String {
        match self {
            Plan::Whole(backend) => backend.describe(),
            Plan::Two(two) => format!("{}{}", two.head.describe(), two.tail.describe()),
        }
    }
}

impl Two {
    fn run(&self, inputs: &mut [Buffer], donated: &[bool]) -> Result<Vec<Buffer>, Error> {
        let Join { reads, results } = &*self.join;
        // the head must not take the memory of inputs, because they must still exist if the tail fails
        let head = self.head.run(inputs, &[])?;
        let mut out: Vec<Option<Buffer>> = results.iter().map(|r| r.early(inputs, &head)).collect();
        let mut head: Vec<Option<Buffer>> = head.into_iter().map(Some).collect();
        let mut given = Vec::with_capacity(reads.len());
        let mut free = Vec::with_capacity(reads.len());
        for read in reads {
            let (buffer, gone) = match *read {
                Source::Input(i) if donated.get(i) == Some(&true) => (lend(&mut inputs[i]), true),
                Source::Input(i) => (Some(inputs[i].clone()), false),
                Source::Head(i) | Source::Tail(i) => (head.get_mut(i).and_then(Option::take), true),
            };
            given.push(buffer.ok_or_else(|| Error::bug("E709", "a value of the tail is nowhere"))?);
            free.push(gone);
        }
        // results of the head that have no reader are dropped before the tail needs memory
        drop(head);
        let values = self.tail.run(&mut given, &free);
        for (read, buffer) in reads.iter().zip(given) {
            if let Source::Input(i) = *read {
                inputs[i] = buffer;
            }
        }
        let values = values?;
        for (result, at) in out.iter_mut().zip(results) {
            if let Source::Tail(i) = *at {
                *result = values.get(i).cloned();
            }
        }
        // results are not shared
        drop(values);
        out.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| Error::bug("E709", "a result is nowhere"))
    }
}
