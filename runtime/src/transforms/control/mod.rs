//! Lines of control flow in transforms: their programs are transformed as any trace is.
//!
//! | transform | of `cond` | of `scan` | of `while_loop` |
//! |---|---|---|---|
//! | gradient | a `cond` of the gradients; the branch runs again | a `scan` in the other direction, over the carries that the forward kept; each step runs again | with a bound, that of a `scan` over the bound whose later steps do nothing |
//! | tangent | the branches with their tangents | the body with its tangents; each float carry has one | the body with its tangents |
//! | batch | the batched branches, under one condition | the batched body | the batched body, under one condition |

mod forward;
mod prepare;
mod reverse;

pub(super) use forward::tangents;
pub(super) use prepare::prepared;
pub(super) use reverse::cotangents;

use crate::bind::{Builder, copied};
use crate::error::Error;
use crate::trace::tag::SplitSide;
use crate::trace::*;
use fulgurite_core::{Scalar, Value};
use std::rc::Rc;
use std::time::Instant;

/// Reverse mode, which stands above this module, of a program by some of its inputs; the results with a flag have
/// cotangents.
pub(super) type Reverse = fn(&Trace, &[ProxyId], &[bool]) -> Result<Reversed, Error>;

/// A program with its gradients.
pub(super) struct Reversed {
    /// The joint trace. Its inputs are those of the program, the cotangents, then the present values of `variables`.
    pub(super) trace: Trace,
    /// The gradients; `None` is zero.
    pub(super) grads: Vec<Option<ProxyId>>,
    /// The inputs of the program whose present values custom backwards read when they run.
    pub(super) variables: Vec<usize>,
}

/// The present value, where a backward runs, of a variable that a custom backward reads.
pub(super) type Now<'a> = &'a mut dyn FnMut(&mut Builder, ProxyId) -> Result<ProxyId, Error>;

/// Forward mode, which stands above this module: the trace of a program with tangents of some inputs as further
/// inputs, and the tangents of its results; `None` is zero.
pub(super) type Forward = fn(&Trace, &[ProxyId]) -> Result<(Trace, Vec<Option<ProxyId>>), Error>;

/// The trace with simplified programs.
///
/// # Errors
/// Reports errors of simplifying.
pub(super) fn simplified(trace: &Trace, side: SplitSide) -> Result<Trace, Error> {
    let open = |control: &Control| !control.simplified;
    each_program(trace, "simplify", true, &open, &|program| super::simplify(program, side))
}

/// The trace whose programs attach no custom backwards any more.
///
/// # Errors
/// Reports errors of settling.
pub(super) fn settled(trace: &Trace, settle: fn(&Trace) -> Result<Trace, Error>) -> Result<Trace, Error> {
    let attaches = |control: &Control| control.programs.iter().any(|program| has_own(&trace.arena, program));
    each_program(trace, "settle", false, &attaches, &settle)
}

/// The trace with programs to whose lines autocast was applied; their results keep their dtypes.
///
/// # Errors
/// Reports errors of binding.
pub(super) fn cast(trace: &Trace, autocast: fn(&Trace) -> Result<Trace, Error>) -> Result<Trace, Error> {
    each_program(trace, "autocast", false, &|_| true, &|program| {
        let made = autocast(program)?;
        let mut b = with_lines(&made);
        let mut outputs = Vec::with_capacity(made.outputs.len());
        for (new, old) in made.outputs.iter().zip(&program.outputs) {
            outputs.push(match program.ty(*old).as_tensor() {
                Some(want) => b.cast(*new, want.dtype)?,
                None => *new,
            });
        }
        Ok(b.finish(&outputs))
    })
}

fn has_own(arena: &Arena, program: &LineProgram) -> bool {
    let inside = |line: &BoundSymbol| arena.control(line).is_some_and(|c| c.programs.iter().any(|p| has_own(arena, p)));
    program.lines.iter().any(|line| line.symbol.own().is_some() || inside(line))
}

/// The trace in which `edit` has changed the programs of those lines that `wanted` names.
fn each_program(
    trace: &Trace,
    by: &'static str,
    simplified: bool,
    wanted: &dyn Fn(&Control) -> bool,
    edit: &dyn Fn(&Trace) -> Result<Trace, Error>,
) -> Result<Trace, Error> {
    if trace.lines.iter().all(|line| !line.symbol.is_control()) {
        return Ok(trace.clone());
    }
    let started = Instant::now();
    let arena = &trace.arena;
    let mut lines = Vec::with_capacity(trace.lines.len());
    for line in &trace.lines {
        lines.push(match arena.control(line).filter(|control| wanted(control)) {
            Some(control) => {
                let mut programs = Vec::with_capacity(control.programs.len());
                for (name, program) in control.kind.program_names().iter().zip(&control.programs) {
                    let made = edit(&Trace::of_program(arena, name, program))?;
                    programs.push(made.to_program(program.loc));
                }
                with_control(arena, line, Control { kind: control.kind, programs, simplified })
            }
            None => line.clone(),
        });
    }
    super::finish(trace, by, started, lines, &trace.outputs)
}

/// The line with other programs of the same types.
fn with_control(arena: &Arena, line: &Rc<BoundSymbol>, control: Control) -> Rc<BoundSymbol> {
    let number = arena.add_control(Rc::new(control));
    let mut line = (**line).clone();
    if let Some(last) = line.args.last_mut() {
        *last = Value::Num(Scalar::Int(number as i64));
    }
    Rc::new(line)
}

/// The proxies of a line's arguments.
fn arguments(line: &BoundSymbol) -> Vec<ProxyId> {
    let mut all = Vec::new();
    line.for_each_arg(|p| all.push(p));
    all
}

/// A program of the lines of `b` that are needed for these outputs, with values of its own.
fn program_of(b: Builder, outputs: &[ProxyId], from: &LineProgram) -> Result<LineProgram, Error> {
    let arena = b.arena().clone();
    let trace = super::dce(&b.finish(outputs))?;
    Ok(copied(&arena, &trace.to_program(from.loc)))
}

/// A builder that has the lines of a trace.
fn with_lines(trace: &Trace) -> Builder {
    let mut b = Builder::continuing(trace);
    trace.lines.iter().for_each(|line| b.push(line.clone()));
    b
}

/// Zeros of the type of a tensor.
fn zeros(b: &mut Builder, like: ProxyId) -> Result<ProxyId, Error> {
    match b.arena().tensor_ty(like) {
        Some(ty) => b.full(&ty, 0.0),
        None => Err(Error::bug("E706", "a value of a loop has no zero")),
    }
}
