//! Records functions as programs of lines. What they capture becomes an argument of the line.

use super::super::derivatives::types;
use crate::error::Error;
use crate::scope::{self, Open, Source};
use crate::trace::{Control, ControlKind, LineProgram, ProxyId, ProxyTy, Trace};
use crate::transforms::At;
use crate::transforms::custom_vjp::written as written_by;
use crate::tree::{Leaves, Tree, describe, flatten};
use fulgurite_core::loc::Loc;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::time::Instant;

/// A function that was recorded as a program of a line.
pub(super) struct Recorded<T> {
    /// The result, around handles of the program's trace.
    pub(super) template: T,
    /// The program.
    pub(super) part: Part,
}

/// A program, and the values of the surrounding trace that it captured, which are its last inputs.
pub(super) struct Part {
    program: LineProgram,
    read: Vec<ProxyId>,
}

impl<T: Tree> Recorded<T> {
    /// Records `f` on stand-ins for the leaves of `p`.
    ///
    /// # Errors
    /// Reports the errors of [`Recorded::on`].
    pub(super) fn of<P: Tree>(name: &str, p: &P, loc: Loc, f: impl FnOnce(P) -> T) -> Result<Recorded<T>, Error> {
        Recorded::on(name, p, |_, ty| ty, loc, f)
    }

    /// Records `f` on stand-ins for the leaves of `p`, whose types `stand_in` returns.
    ///
    /// # Errors
    /// E759 if `f` writes in place, or has to do with a tensor of a subclass; the first error that a result carries.
    pub(super) fn on<P: Tree>(
        name: &str,
        p: &P,
        stand_in: impl Fn(usize, ProxyTy) -> ProxyTy,
        loc: Loc,
        f: impl FnOnce(P) -> T,
    ) -> Result<Recorded<T>, Error> {
        let nothing = || Error::bug("E709", "no trace is open");
        let (leaves, detail) = describe(p);
        let (open, region) = Open::program(name).ok_or_else(nothing)?;
        let mut handles = Vec::new();
        for (i, (leaf, path)) in leaves.iter().zip(&detail.paths).enumerate() {
            leaf.check()?;
            let ty = stand_in(i, leaf.ty().ok_or_else(nothing)?);
            let path = if path.is_empty() { "x" } else { path };
            handles.push(open.argument(path, ty, scope::tags_of(leaf)));
        }
        let template = f(p.rebuild(&mut Leaves::new(&mut handles.into_iter())));
        open.check().map_err(|e| e.at(loc))?;
        let outputs = flatten(&template).leaves().iter().map(|t| open.resolve(t)).collect::<Result<Vec<_>, _>>();
        let outputs = outputs.map_err(|e| e.at(loc))?;
        let mut frame = open.close();
        let sources = std::mem::take(&mut frame.captured.sources);
        let written = frame.builder.inputs().iter().find(|input| input.version != input.proxy).map(|i| i.path.clone());
        let own = |name, trace: &Trace, started: Instant| scope::note(name, trace, started.elapsed(), None);
        let mut trace = scope::pipeline().apply(At::Acquired, frame.builder.finish(&outputs), own)?;
        let backward = || trace.lines.iter().flat_map(|line| written_by(&trace.arena, line)).next();
        if let Some(name) = written.or_else(|| backward().map(|value| trace.arena.name(value))) {
            return Err(scope::program_writes(&format!("`{name}` in place")).at(loc));
        }
        let read = sources.into_iter().map(|source| match source {
            Source::Value(value) => value,
            Source::Variable(at) => scope::version(at),
        });
        let read: Vec<ProxyId> = read.collect();
        trace.root = region;
        let classed = |p: &ProxyId| trace.arena.with_ty(*p, |ty| ty.subclass().map(|l| l.class.name()));
        let values = trace.lines.iter().flat_map(|l| &l.outs).chain(trace.inputs.iter().map(|i| &i.proxy));
        if let Some(class) = values.into_iter().find_map(classed) {
            return Err(Error::new("E759", format!("a program of a line reads or makes a `{class}`"))
                .help("take tensors of subclasses apart outside, and pass their fields")
                .at(loc));
        }
        Ok(Recorded { template, part: Part { program: trace.to_program(loc), read } })
    }
}

/// Programs that read the same captured values, and these values.
pub(super) fn together(parts: Vec<Part>) -> (Vec<LineProgram>, Vec<ProxyId>) {
    let mut all: Vec<ProxyId> = Vec::new();
    for part in &parts {
        part.read.iter().for_each(|p| {
            if !all.contains(p) {
                all.push(*p)
            }
        });
    }
    let programs = parts.into_iter().map(|Part { mut program, read }| {
        let own = program.inputs.split_off(program.inputs.len() - read.len());
        let mut first: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
        let mut same: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
        for (outer, own) in read.iter().zip(own) {
            let kept = *first.entry(*outer).or_insert(own);
            same.insert(own, kept);
        }
        let to = |p: ProxyId| same.get(&p).copied().unwrap_or(p);
        program.lines = program.lines.iter().map(|line| Rc::new(line.remap(&mut |p| to(p)))).collect();
        program.outputs.iter_mut().for_each(|p| *p = to(*p));
        program.inputs.extend(all.iter().map(|outer| match first.get(outer) {
            Some(own) => *own,
            None => scope::stand_in(*outer),
        }));
        program
    });
    (programs.collect(), all)
}

/// Records the line, and returns its results in the form of `template`.
///
/// # Errors
/// E758 if the programs and the arguments do not fit together.
pub(super) fn rebuilt<T: Tree>(
    template: &T,
    kind: ControlKind,
    programs: Vec<LineProgram>,
    args: Vec<ProxyId>,
    loc: Loc,
) -> Result<T, Error> {
    let leaves = types(flatten(template).leaves());
    if leaves.is_empty() {
        return Ok(template.rebuild(&mut Leaves::new(&mut std::iter::empty())));
    }
    let control = Control { kind, programs, simplified: false };
    let outs = scope::control(control, &args, &leaves, loc).map_err(|e| e.at(loc))?;
    Ok(template.rebuild(&mut Leaves::new(&mut outs.into_iter())))
}
