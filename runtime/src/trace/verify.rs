//! Verifies traces after each transform; an error names the transform.
//!
//! Every build checks that each value is made before it is read, in bodies too, because a program that reads a value
//! that no line wrote gives wrong numbers without an error. Debug builds, and any build with `FULGURITE_VERIFY=1`,
//! check types, effects and tags as well.

use super::control::Control;
use super::program::Trace;
use super::tag::{Carrier, TagSet, save_at_all};
use super::types::*;
use crate::error::{Error, ErrorKind};
use fulgurite_core::dim::estimating;
use fulgurite_core::lang::ast::Access;
use fulgurite_core::signature::{self, OutTy};
use rustc_hash::FxHashSet;
use std::rc::Rc;

/// Checks a trace that a transform made from another one: in every build that values are made before they are read, and
/// all else in debug builds or with `FULGURITE_VERIFY=1`. Types of lines that both traces share are not checked again.
///
/// # Errors
/// Reports the errors of [`verify`].
pub fn step(before: &Trace, after: &Trace) -> Result<(), Error> {
    scopes(after)?;
    // a check must not bind sizes, because it decides nothing
    if enabled() { estimating(|| changed(before, after)) } else { Ok(()) }
}

/// Checks that each value of a trace is made before a line, a line of a body, an output or a write reads it.
///
/// # Errors
/// E730 with the transform that made the trace.
pub fn scopes(trace: &Trace) -> Result<(), Error> {
    let mut made = Made { trace, known: vec![false; trace.arena.len()] };
    trace.inputs.iter().for_each(|input| made.make(input.proxy));
    for line in &trace.lines {
        made.line(line)?;
    }
    let ends = trace.outputs.iter().map(|p| (*p, "an output"));
    let ends = ends.chain(trace.epilogue.iter().map(|w| (w.value, "the epilogue")));
    ends.into_iter().try_for_each(|(p, by)| if made.knows(p) { Ok(()) } else { Err(unmade(trace, p, by)) })
}

/// The values that have been made.
struct Made<'t> {
    trace: &'t Trace,
    known: Vec<bool>,
}

impl Made<'_> {
    fn knows(&self, p: ProxyId) -> bool {
        self.known.get(p.0 as usize).copied().unwrap_or(false) || p.0 < self.trace.outer
    }

    fn make(&mut self, p: ProxyId) {
        if let Some(known) = self.known.get_mut(p.0 as usize) {
            *known = true;
        }
    }

    fn line(&mut self, line: &BoundSymbol) -> Result<(), Error> {
        let mut lacks = None;
        line.for_each_arg(|p| {
            if !self.knows(p) {
                lacks.get_or_insert(p);
            }
        });
        if let Some(p) = lacks {
            return Err(unmade(self.trace, p, &format!("`{}`", line.symbol.name())).at(line.place.loc));
        }
        if let Some(control) = self.trace.arena.control(line) {
            programs(self.trace, &control)
                .try_for_each(|program| scopes(&program))
                .map_err(|e| e.at(line.place.loc))?;
        }
        let bodies = line.dispatch.iter().chain(line.body.get().into_iter().flatten());
        bodies.into_iter().try_for_each(|body| self.body(line, body))?;
        line.outs.iter().chain(&line.aux).for_each(|p| self.make(*p));
        Ok(())
    }

    /// Checks a body; the values that it makes are known inside of it alone.
    fn body(&mut self, line: &BoundSymbol, body: &Body) -> Result<(), Error> {
        let mut inside = Ok(());
        for inner in &body.lines {
            inside = inside.and_then(|()| self.line(inner));
        }
        if let (Ok(()), Some(p)) = (&inside, body.outs.iter().find(|p| !self.knows(**p))) {
            inside = Err(unmade(self.trace, *p, &format!("the body of `{}`", line.symbol.name())));
        }
        for p in body.lines.iter().flat_map(|l| l.outs.iter().chain(&l.aux)) {
            if let Some(known) = self.known.get_mut(p.0 as usize) {
                *known = false;
            }
        }
        inside.map_err(|e| e.at(line.place.loc))
    }
}

/// The programs of a line of `trace`, as traces that the same transform made.
fn programs(trace: &Trace, control: &Control) -> impl Iterator<Item = Trace> {
    let pairs = control.kind.program_names().iter().zip(&control.programs);
    pairs.map(|(name, program)| {
        let mut made = Trace::of_program(&trace.arena, name, program);
        made.provenance = trace.provenance.clone();
        made
    })
}

fn unmade(trace: &Trace, p: ProxyId, by: &str) -> Error {
    fault(trace, format!("{by} reads `{}` before it is made", trace.arena.name(p)))
}

fn fault(trace: &Trace, claim: String) -> Error {
    let transform = trace.provenance.made_by;
    Error::new("E730", format!("`{transform}` made a bad trace `{}`: {claim}", trace.name))
        .kind_is(ErrorKind::BadTrace { transform })
        .note("this is a bug in that transform, not in the program that it was given")
}

/// Like [`step`], with all checks in every build.
///
/// # Errors
/// Reports the errors of [`verify`].
pub fn changed(before: &Trace, after: &Trace) -> Result<(), Error> {
    let known: FxHashSet<*const BoundSymbol> = before.lines.iter().map(Rc::as_ptr).collect();
    check(after, &|line| known.contains(&std::ptr::from_ref(line)))
}

/// Checks a whole trace: types, single assignment, uses after definitions, effects, tags, bodies.
///
/// # Errors
/// E730 with the transform that made the trace, and E722 for tags that exclude each other.
pub fn verify(trace: &Trace) -> Result<(), Error> {
    scopes(trace)?;
    check(trace, &|_| false)
}

fn enabled() -> bool {
    static ASKED: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    cfg!(debug_assertions) || *ASKED.get_or_init(|| std::env::var_os("FULGURITE_VERIFY").is_some_and(|v| v == "1"))
}

fn check(trace: &Trace, known: &dyn Fn(&BoundSymbol) -> bool) -> Result<(), Error> {
    let mut v = Verifier { trace, defined: FxHashSet::default() };
    for input in &trace.inputs {
        v.define(input.proxy, "an input")?;
    }
    for line in &trace.lines {
        v.line(line, known(line))?;
    }
    for write in &trace.epilogue {
        v.used(write.value, "the epilogue")?;
        let Some(input) = trace.inputs.get(write.input) else {
            return Err(v.fault(format!("the epilogue writes input {}, which is not there", write.input)));
        };
        if trace.ty(write.value) != trace.ty(input.proxy) {
            let (name, have) = (trace.arena.name(input.proxy), trace.ty(write.value));
            return Err(v.fault(format!("the epilogue writes {have} to `{name}`")));
        }
    }
    if trace.saved > trace.outputs.len() {
        return Err(v.fault(format!("{} of {} outputs are saved", trace.saved, trace.outputs.len())));
    }
    trace.outputs.iter().try_for_each(|p| v.used(*p, "an output"))
}

struct Verifier<'t> {
    trace: &'t Trace,
    defined: FxHashSet<ProxyId>,
}

impl Verifier<'_> {
    fn fault(&self, claim: String) -> Error {
        fault(self.trace, claim)
    }

    fn name(&self, id: ProxyId) -> Rc<str> {
        self.trace.arena.name(id)
    }

    fn define(&mut self, id: ProxyId, by: &str) -> Result<(), Error> {
        if !self.defined.insert(id) {
            return Err(self.fault(format!("`{}` is made twice, again by {by}", self.name(id))));
        }
        self.tags(self.trace.arena.tags(id), Carrier::Value, &self.name(id))?;
        save_at_all(self.trace.arena.tags(id), &self.name(id), self.trace.provenance.made_by)
    }

    fn used(&self, id: ProxyId, by: &str) -> Result<(), Error> {
        if self.defined.contains(&id) || id.0 < self.trace.outer {
            return Ok(());
        }
        Err(unmade(self.trace, id, by))
    }

    fn tags(&self, tags: TagSet, carrier: Carrier, of: &str) -> Result<(), Error> {
        match tags.iter().find(|t| t.decl().carrier != carrier) {
            Some(tag) => Err(self.fault(format!("the tag `{}` of `{of}` can't stand there", tag.name()))),
            None => Ok(()),
        }
    }

    fn line(&mut self, line: &BoundSymbol, known: bool) -> Result<(), Error> {
        let op = line.symbol.name();
        let mut bad = None;
        line.for_each_arg(|p| bad = bad.or(self.used(p, "").err().map(|_| p)));
        if let Some(p) = bad {
            return self.used(p, &format!("`{op}`")).map_err(|e| e.at(line.place.loc));
        }
        for out in line.outs.iter().chain(&line.aux) {
            self.define(*out, &format!("`{op}`"))?;
        }
        if known {
            return Ok(());
        }
        self.tags(line.own_tags, Carrier::Line, op)?;
        self.effects(line)?;
        self.types(line)?;
        if let Some(control) = self.trace.arena.control(line) {
            let mut each = programs(self.trace, &control);
            each.try_for_each(|program| check(&program, &|_| false)).map_err(|e| e.at(line.place.loc))?;
        }
        match line.body.get() {
            Some(Some(body)) => self.body(line, body),
            _ => Ok(()),
        }
    }

    fn effects(&self, line: &BoundSymbol) -> Result<(), Error> {
        let op = line.symbol.name();
        let params = &line.symbol.row().sig.params;
        for &i in &line.effects.writes {
            if params.get(i).is_none_or(|p| p.access != Access::Mut) {
                return Err(self.fault(format!("`{op}` writes argument {i}, which its row does not")));
            }
        }
        let key = line.symbol.row().takes_key();
        if line.effects.random && !key {
            return Err(self.fault(format!("`{op}` has the wrong random effect")));
        }
        Ok(())
    }

    /// Checks that the types of results are those that the signature computes from the arguments.
    fn types(&self, line: &BoundSymbol) -> Result<(), Error> {
        let op = line.symbol.name();
        // the types of a line on the fields of subclasses are known by its body
        if line.dispatch.is_some() || line.symbol.port().is_some() {
            return match &line.dispatch {
                Some(body) => self.body(line, body),
                None => Ok(()),
            };
        }
        let solved = signature::solve(line.symbol.row(), &line.args, &|p: &ProxyId| self.trace.ty(*p).arg_ty());
        let solved = solved
            .map_err(|r| self.fault(format!("`{op}` refuses its arguments: {}", r.message)).at(line.place.loc))?;
        let results = line.outs.len().saturating_sub(line.effects.writes.len());
        let kinds =
            [(&solved.outs, &line.solved.outs, &line.outs[..results]), (&solved.aux, &line.solved.aux, &line.aux)];
        for (now, kept, proxies) in kinds {
            // types that only the body knows were filled in when the line was bound
            let types = now.iter().zip(kept).map(|(now, kept)| if *now == OutTy::FromBody { kept } else { now });
            let types: Vec<_> = types.flat_map(OutTy::tensors).collect();
            if !proxies.is_empty() && types.len() != proxies.len() {
                return Err(self.fault(format!("`{op}` has {} results, its row gives {}", proxies.len(), types.len())));
            }
            for (p, want) in proxies.iter().zip(types) {
                let have = self.trace.ty(*p);
                if have.as_tensor() != Some(want) {
                    let name = self.name(*p);
                    return Err(self.fault(format!("`{name}` is {have}, but `{op}` makes {want}")).at(line.place.loc));
                }
            }
        }
        Ok(())
    }

    /// Checks that a body yields the types of its line's results. Bodies of equal calls are equal, so one of each is
    /// checked per process.
    fn body(&self, line: &BoundSymbol, body: &Body) -> Result<(), Error> {
        let op = line.symbol.name();
        if body.outs.len() < line.outs.len() + line.aux.len() {
            return Err(self.fault(format!("the body of `{op}` yields too few results")));
        }
        for (inner, outer) in body.outs.iter().zip(line.outs.iter().chain(&line.aux)) {
            let (have, want) = (self.trace.ty(*inner), self.trace.ty(*outer));
            if have.as_tensor() != want.as_tensor() || have.subclass() != want.subclass() {
                return Err(self.fault(format!("the body of `{op}` yields {have} for {want}")).at(line.place.loc));
            }
        }
        if !first_time(line, self.trace) {
            return Ok(());
        }
        let mut inner = Verifier { trace: self.trace, defined: self.defined.clone() };
        body.lines.iter().try_for_each(|l| inner.line(l, false))
    }
}

/// Whether no body of this symbol on these types was checked on this thread yet.
fn first_time(line: &BoundSymbol, trace: &Trace) -> bool {
    thread_local! {
        static CHECKED: std::cell::RefCell<FxHashSet<(usize, String)>> = Default::default();
    }
    let types: Vec<_> = line.args.iter().map(|a| a.map(&mut |p| trace.ty(*p).to_string())).collect();
    let key = (std::ptr::from_ref(line.symbol) as usize, format!("{types:?}"));
    CHECKED.with_borrow_mut(|checked| checked.insert(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executors::tests::database::database;
    use crate::trace::tag::Tag;
    use fulgurite_core::{DType, TensorTy};

    #[test]
    fn the_verifier_blames_the_transform() {
        database();
        let trace = Trace::parse("fn f(x: f32[2]) {\n a: f32[2] = exp(x)\n b: f32[2] = exp(a)\n return b\n}").unwrap();
        let spoil = |f: fn(&mut Trace)| {
            let mut t = trace.clone();
            t.provenance.made_by = "mine";
            f(&mut t);
            verify(&t).unwrap_err()
        };
        let errors = [
            spoil(|t| t.lines.reverse()),
            spoil(|t| t.lines.push(t.lines[0].clone())),
            spoil(|t| _ = t.lines.remove(0)),
            spoil(|t| t.outputs = t.lines.remove(1).outs.clone()),
            spoil(|t| {
                let line = BoundSymbol { own_tags: TagSet::EMPTY.with(Tag::MUST_SAVE), ..(*t.lines[0]).clone() };
                t.lines[0] = Rc::new(line);
            }),
            spoil(|t| {
                let line = BoundSymbol {
                    outs: vec![t.arena.proxy("y", ProxyTy::tensor(TensorTy::new(DType::F32, &[3i64])))],
                    ..(*t.lines[1]).clone()
                };
                t.outputs = line.outs.clone();
                t.lines[1] = Rc::new(line);
            }),
        ];
        for error in errors {
            assert_eq!(error.kind(), &ErrorKind::BadTrace { transform: "mine" }, "{error}");
            assert!(error.to_string().contains("a bug in that transform"));
        }
    }
}
