//! Programs of executors, with the user's places for their errors.

use crate::bind;
use crate::buffer::Buffer;
use crate::error::{Error, ErrorKind};
use crate::executors::{self, CompileOptions, Compiled, ExecError, Executor};
use crate::profile;
use crate::trace::{Arena, BoundSymbol, BoundSymbolId, Role, Trace};
use fulgurite_core::Name;
use fulgurite_core::loc::Loc;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A compiled trace.
pub(crate) struct Backend {
    /// A number that no other program of the process has.
    number: u64,
    compiled: Compiled,
    places: FxHashMap<BoundSymbolId, Place>,
}

/// The facts about a line that an error reports.
#[derive(Clone, Copy)]
struct Place {
    op: &'static str,
    loc: Loc,
    role: Role,
    /// The row of the line from which a transform made this one.
    of: Option<&'static str>,
}

impl Backend {
    /// Compiles a trace for these executors, or the usual ones if none is named; each line is offered to them in this
    /// order.
    pub fn compile(trace: &Trace, executors: &[Arc<dyn Executor>]) -> Result<Backend, Error> {
        Backend::compiled(trace, executors, false)
    }

    /// Like [`Backend::compile`], for one of many combinations of sizes ([`CompileOptions::sizes_vary`]).
    pub fn compile_for_sizes(trace: &Trace, executors: &[Arc<dyn Executor>]) -> Result<Backend, Error> {
        Backend::compiled(trace, executors, true)
    }

    fn compiled(trace: &Trace, executors: &[Arc<dyn Executor>], sizes_vary: bool) -> Result<Backend, Error> {
        let mut places: FxHashMap<BoundSymbolId, Place> = FxHashMap::default();
        note_places(&trace.arena, &trace.lines, &mut places);
        let places = RefCell::new(places);
        let failed = RefCell::new(None);
        let bodies = |line: &BoundSymbol| match bind::body_of(&trace.arena, line) {
            Ok(body) => {
                let mut places = places.borrow_mut();
                let outer = Some(line.symbol.name());
                body.iter().flat_map(|b| &b.lines).for_each(|l| _ = places.insert(l.id, place(l, outer)));
                Ok(body)
            }
            Err(error) => {
                let why = ExecError::new(error.code(), error.claim().to_owned()).at(line.id);
                failed.borrow_mut().get_or_insert(error);
                Err(why)
            }
        };
        let mut options = CompileOptions { sizes_vary, ..CompileOptions::new(&bodies) };
        if !executors.is_empty() {
            options.executors = executors.to_vec();
        }
        let compiled = executors::compile(trace, &options);
        let (places, failed) = (places.into_inner(), failed.into_inner());
        let compiled = compiled.map_err(|e| failed.unwrap_or_else(|| in_place(e, &places)))?;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Ok(Backend { number: NEXT.fetch_add(1, Ordering::Relaxed), compiled, places })
    }

    /// Runs the program. Returns the trace's outputs, then the values of its writes. Inputs marked `donated` may be
    /// overwritten if they are not shared.
    ///
    /// # Errors
    /// Reports errors of executors, at the place of the line.
    pub fn run(&self, inputs: &mut [Buffer], donated: &[bool]) -> Result<Vec<Buffer>, Error> {
        if profile::is_on() {
            return self.run_profiled(inputs, donated);
        }
        let values = match donated.contains(&true) {
            true => self.compiled.run_donating(inputs, donated),
            false => self.compiled.run(inputs),
        };
        values.map_err(|e| in_place(e, &self.places))
    }

    #[cold]
    fn run_profiled(&self, inputs: &mut [Buffer], donated: &[bool]) -> Result<Vec<Buffer>, Error> {
        let mut times = Vec::new();
        let values = self.compiled.run_timed(inputs, donated, &mut times);
        profile::record(self.number, &self.compiled, &times, &|step| {
            let mut places: Vec<Loc> = Vec::new();
            for place in step.lines.iter().filter_map(|id| self.places.get(id)) {
                if place.loc != Loc::NOWHERE && !places.contains(&place.loc) {
                    places.push(place.loc);
                }
            }
            places
        });
        values.map_err(|e| in_place(e, &self.places))
    }

    /// The steps of the program as text.
    pub fn describe(&self) -> String {
        self.compiled.describe().to_string()
    }
}

/// Notes the places of lines, and of the lines of their programs.
fn note_places(arena: &Arena, lines: &[Rc<BoundSymbol>], places: &mut FxHashMap<BoundSymbolId, Place>) {
    for line in lines {
        let of = line.origin.and_then(|id| arena.op(id));
        places.insert(line.id, place(line, of));
        if let Some(control) = arena.control(line) {
            control.programs.iter().for_each(|program| note_places(arena, &program.lines, places));
        }
    }
}

fn place(line: &BoundSymbol, of: Option<&'static str>) -> Place {
    Place { op: line.symbol.name(), loc: line.place.loc, role: line.place.role, of }
}

/// Converts an executor's error to a user's error, at the user's call and with the operator.
fn in_place(e: ExecError, places: &FxHashMap<BoundSymbolId, Place>) -> Error {
    let mut error = Error::new(e.code, e.message);
    if let Some(help) = e.help {
        error = error.help(help);
    }
    let Some(place) = e.line.and_then(|id| places.get(&id)) else { return error };
    error = error.kind_is(ErrorKind::Executor { executor: "", op: Some(Name::new(place.op)) }).at(place.loc);
    let of = place.of.unwrap_or(place.op);
    match place.role {
        Role::Backward | Role::Accumulate => error.note(format!("in `{}`, in the backward of `{of}`", place.op)),
        Role::Recompute => error.note(format!("in `{}`, computed again for the backward", place.op)),
        Role::Forward if of != place.op => error.note(format!("in `{}`, in the body of `{of}`", place.op)),
        Role::Forward => error.note(format!("in `{}`", place.op)),
    }
}
