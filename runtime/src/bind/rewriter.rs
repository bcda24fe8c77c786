//! Edits a trace line by line: a kept line keeps its id, names, tags and place; an emitted line gets them from the line
//! that it replaces.

use super::{AcceptedCall, Builder, Context};
use crate::error::{Error, ErrorKind};
use crate::trace::tag::{Event, Policy, SplitSide, TagSet};
use crate::trace::verify;
use crate::trace::*;
use fulgurite_core::signature::OutTy;
use fulgurite_core::{Name, Named, Value};
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Instant;

/// Makes one trace from another. For each line of the source, [`keep`](Rewriter::keep) carries it over,
/// [`emit`](Rewriter::emit) records lines in its place, and [`bind`](Rewriter::bind) replaces an old value by a new
/// one.
pub struct Rewriter<'t> {
    source: &'t Trace,
    by: &'static str,
    started: Instant,
    builder: Builder,
    /// Old values whose consumers read another, existing value.
    redirected: FxHashMap<ProxyId, ProxyId>,
    current: Current,
}

/// The line being rewritten.
#[derive(Default)]
struct Current {
    line: Option<Rc<BoundSymbol>>,
    /// The number of the first line recorded for it.
    start: usize,
    /// New values that take over the identity of old ones.
    taken: FxHashMap<ProxyId, ProxyId>,
    kept: bool,
    dropped: bool,
}

impl<'t> Rewriter<'t> {
    /// Rewrites every line of `source` with `f`; `by` names the transform. Lines that transforms at this place of the
    /// pipeline have seen in a trace inside this one are kept, so each line is edited once.
    ///
    /// # Errors
    /// Errors of `f`; E721 if a value with a tag that must survive is neither kept nor bound; E730 if the result is not
    /// a valid trace (debug builds).
    pub fn each(
        source: &'t Trace,
        by: &'static str,
        mut f: impl FnMut(&mut Rewriter<'t>, &Rc<BoundSymbol>) -> Result<(), Error>,
    ) -> Result<Trace, Error> {
        let seen = |line: &BoundSymbol| source.seen.is_some_and(|tag| line.own_tags.contains(tag));
        let each = |rw: &mut Rewriter<'t>, line: &Rc<BoundSymbol>| if seen(line) { rw.keep() } else { f(rw, line) };
        Rewriter::run(source, Builder::continuing(source), by, each)
    }

    /// Keeps every line, with its arguments cast according to autocast regions.
    ///
    /// # Errors
    /// Errors of binding, and E730 if the result is not a valid trace (debug builds).
    pub(crate) fn autocasting(source: &'t Trace, by: &'static str) -> Result<Trace, Error> {
        Rewriter::run(source, Builder::continuing(source).autocasting(), by, |rw, _| rw.keep())
    }

    fn run(
        source: &'t Trace,
        builder: Builder,
        by: &'static str,
        mut f: impl FnMut(&mut Rewriter<'t>, &Rc<BoundSymbol>) -> Result<(), Error>,
    ) -> Result<Trace, Error> {
        let mut rewriter = Rewriter {
            source,
            by,
            started: Instant::now(),
            builder,
            redirected: FxHashMap::default(),
            current: Current::default(),
        };
        for line in &source.lines {
            rewriter.open(line);
            f(&mut rewriter, line)?;
            rewriter.close()?;
        }
        rewriter.finish()
    }

    /// The trace that is being rewritten.
    pub fn source(&self) -> &'t Trace {
        self.source
    }

    /// The builder that records lines, for calls of intrinsics.
    pub fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    /// The present replacement of an old value.
    pub fn get(&self, old: ProxyId) -> ProxyId {
        self.redirected.get(&old).copied().unwrap_or(old)
    }

    /// Carries the current line over. If its arguments were replaced, it is solved again, and its results may change
    /// type.
    ///
    /// # Errors
    /// Reports errors of solving.
    pub fn keep(&mut self) -> Result<(), Error> {
        let Some(line) = self.current.line.clone() else { return Ok(()) };
        self.current.kept = true;
        let arena = self.builder.arena().clone();
        let mut changed = false;
        line.for_each_arg(|p| changed |= self.get(p) != p || arena.ty(p) != self.source.ty(p));
        let args: Vec<_> = line.args.iter().map(|a| a.map(&mut |p| self.get(*p))).collect();
        let cast = self.builder.autocast(line.symbol, &args)?;
        if !changed && cast.is_none() {
            self.builder.push(line);
            return Ok(());
        }
        let args = cast.unwrap_or(args);
        let call = self.builder.solve(line.symbol, args)?;
        let mut moved = false;
        line.for_each_arg(|p| moved |= arena.ty(self.get(p)).subclass() != self.source.ty(p).subclass());
        if moved {
            // the lines of its body belong to other fields
            let context = Context { tags: line.own_tags, origin: line.origin, ..self.builder.context.clone() };
            let outs: Vec<ProxyId> = line.outs.iter().chain(&line.aux).copied().collect();
            let aux = !line.aux.is_empty();
            self.builder.in_context(context, |b| {
                b.record_as(call, aux, &mut |at, hint, ty| match outs.get(at) {
                    Some(out) => {
                        arena.retype(*out, ty);
                        Ok(*out)
                    }
                    None => Ok(arena.proxy(hint, ty)),
                })
            })?;
            return Ok(());
        }
        let AcceptedCall { args, solved, symbol: _ } = call;
        let dispatch = line.dispatch.as_ref().map(|body| Rc::new(body.remap(&mut |p| self.get(p))));
        let mut edited = BoundSymbol { args, solved, dispatch, body: OnceCell::new(), ..(*line).clone() };
        if edited.solved.outs.iter().chain(&edited.solved.aux).any(|o| *o == OutTy::FromBody) {
            super::body::type_from_body(&arena, &mut edited)?;
        }
        let results = edited.solved.outs.iter().flat_map(OutTy::tensors);
        for (out, want) in edited.outs.iter().zip(results) {
            if let ProxyTy::Tensor(old) = arena.ty(*out)
                && old.ty != *want
            {
                arena.retype(*out, ProxyTy::Tensor(TensorType { ty: want.clone(), ..old }));
            }
        }
        self.builder.push(Rc::new(edited));
        Ok(())
    }

    /// Records a call at the place of the current line. Its arguments are old values, which stand for their
    /// replacements, or new ones.
    ///
    /// # Errors
    /// Errors of binding, and E730 if an argument is not a value of the program.
    pub fn emit(
        &mut self,
        op: Name,
        positional: Vec<Value<ProxyId>>,
        named: Vec<Named<ProxyId>>,
    ) -> Result<Rc<BoundSymbol>, Error> {
        let (known, mut unknown) = (self.builder.arena().len(), None);
        let mut read = |p: &ProxyId| {
            if p.0 as usize >= known {
                unknown.get_or_insert(p.0);
            }
            self.get(*p)
        };
        let positional = positional.iter().map(|a| a.map(&mut read)).collect();
        let named = named.into_iter().map(|(n, a)| (n, a.map(&mut read))).collect();
        if let Some(number) = unknown {
            let claim = format!("`{}` calls `{op}` on value {number}: the program has {known} values", self.by);
            let error = Error::new("E730", claim).kind_is(ErrorKind::BadTrace { transform: self.by });
            return Err(error.at(self.builder.context.place.loc));
        }
        self.builder.call_row(op, positional, named)
    }

    /// Records a finished line with its arguments replaced.
    pub fn insert(&mut self, line: &Rc<BoundSymbol>) {
        let mut moved = false;
        line.for_each_arg(|p| moved |= self.redirected.contains_key(&p));
        let line = if moved { Rc::new(line.remap(&mut |p| self.get(p))) } else { line.clone() };
        self.builder.push(line);
    }

    /// Replaces the current line's result `old` by `new`. A value made for the current line takes over the id, name and
    /// tags of the old one. Otherwise the consumers of the old value read the new one from now on, and the old name
    /// ends. If the line itself was kept, `old` stays, and its readers after this line read the new value.
    ///
    /// # Errors
    /// E722 if the tags of the two exclude each other.
    pub fn bind(&mut self, old: ProxyId, new: ProxyId) -> Result<(), Error> {
        let new = self.get(new);
        if old == new {
            return Ok(());
        }
        let arena = self.builder.arena().clone();
        if self.current.kept && self.current.line.as_ref().is_some_and(|l| l.outs.contains(&old)) {
            self.redirected.insert(old, new);
            return Ok(());
        }
        let fresh =
            self.builder.lines()[self.current.start..].iter().any(|l| l.outs.contains(&new) || l.aux.contains(&new));
        if fresh && !self.current.taken.contains_key(&new) {
            let ty = arena.ty(new);
            if ty != arena.ty(old) {
                arena.retype(old, ty);
            }
            self.current.taken.insert(new, old);
            return Ok(());
        }
        let new = self.current.taken.get(&new).copied().unwrap_or(new);
        let tags = arena.tags(old).meet(arena.tags(new), Event::Merge, self.side());
        let tags = tags.map_err(|tag| {
            let (a, b) = (arena.name(old), arena.name(new));
            let claim =
                format!("`{}` can't replace `{a}` by `{b}`: only one of them is tagged `{}`", self.by, tag.name());
            let kind = ErrorKind::TagConflict { tags: vec![tag.name()], of: a.to_string(), transform: self.by };
            Error::new("E722", claim).kind_is(kind)
        })?;
        arena.set_tags(new, tags);
        self.redirected.insert(old, new);
        Ok(())
    }

    /// Whether the tags of two existing values allow one to replace the other.
    pub fn may_bind(&self, old: ProxyId, new: ProxyId) -> bool {
        let arena = self.builder.arena();
        arena.tags(old).meet(arena.tags(self.get(new)), Event::Merge, self.side()).is_ok()
    }

    /// Replaces `old` by several values together; each gets those of its tags that go to every part. Consumers of `old`
    /// must be rewritten.
    pub fn replace_by(&mut self, old: ProxyId, parts: &[ProxyId]) {
        let arena = self.builder.arena();
        let tags = arena.tags(old).passing(Event::Unroll, self.side(), &[Policy::All]);
        for part in parts {
            arena.set_tags(*part, arena.tags(*part).union(tags));
        }
        self.current.dropped = true;
    }

    /// Leaves the current line out; its results must have no readers.
    pub fn drop_line(&mut self) {
        self.current.dropped = true;
    }

    /// The side of `split` on which the trace is.
    pub fn side(&self) -> SplitSide {
        if self.source.phase.is_some() { SplitSide::After } else { SplitSide::Before }
    }

    fn open(&mut self, line: &Rc<BoundSymbol>) {
        let start = self.builder.lines().len();
        let side = self.side();
        let context = &mut self.builder.context;
        context.region = line.region;
        context.place = line.place;
        context.origin = Some(line.id);
        context.tags = line.own_tags.inherited().union(line.own_tags.passing(Event::Replace, side, &[Policy::All]));
        self.current = Current { line: Some(line.clone()), start, ..Current::default() };
    }

    /// Lets new values take over the identity of the values that they replace.
    fn close(&mut self) -> Result<(), Error> {
        let current = std::mem::take(&mut self.current);
        let Some(line) = current.line else { return Ok(()) };
        if !current.taken.is_empty() {
            let kept = if current.kept { TagSet::EMPTY } else { line.own_tags };
            let kept = kept.passing(Event::Replace, self.side(), &[Policy::Keep, Policy::All]);
            for mut made in self.builder.take_from(current.start) {
                let takes = made.outs.iter().any(|o| current.taken.contains_key(o));
                let reads = {
                    let mut reads = false;
                    made.for_each_arg(|p| reads |= current.taken.contains_key(&p));
                    reads
                };
                if takes || reads {
                    let mut edited = made.remap(&mut |p| current.taken.get(&p).copied().unwrap_or(p));
                    if takes {
                        edited.own_tags = edited.own_tags.union(kept);
                    }
                    made = Rc::new(edited);
                }
                self.builder.push(made);
            }
        }
        if current.kept || current.dropped {
            return Ok(());
        }
        let arena = self.builder.arena();
        let bound = |o: &ProxyId| current.taken.values().any(|t| t == o) || self.redirected.contains_key(o);
        for out in line.outs.iter().filter(|o| !bound(o)) {
            if let Some(tag) = arena.tags(*out).iter().find(|t| t.decl().must_survive) {
                let name = arena.name(*out).to_string();
                let claim =
                    format!("`{}` lost the tag `{}` of `{name}`: nothing stands for that value", self.by, tag.name());
                let kind = ErrorKind::TagLost { tag: tag.name(), of: name, transform: self.by };
                return Err(Error::bug("E721", claim).kind_is(kind).at(line.place.loc));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Trace, Error> {
        let source = self.source;
        let outputs: Vec<ProxyId> = source.outputs.iter().map(|p| self.get(*p)).collect();
        let versions: Vec<ProxyId> = source.inputs.iter().map(|c| self.get(c.version)).collect();
        for (cell, version) in self.builder.inputs_mut().iter_mut().zip(versions) {
            cell.version = version;
        }
        let mut epilogue = source.epilogue.clone();
        epilogue.iter_mut().for_each(|w| w.value = self.get(w.value));
        let mut trace = self.builder.finish(&outputs);
        trace.epilogue = epilogue;
        trace.adopt(source, self.by, self.started);
        verify::step(source, &trace)?;
        Ok(trace)
    }
}
