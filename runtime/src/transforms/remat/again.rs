//! Clones forward lines into the backward.

use super::super::regions::Outside;
use super::super::vjp::Joint;
use super::Forward;
use crate::error::Error;
use crate::trace::tag::{Event, Policy, SplitSide, Tag};
use crate::trace::verify;
use crate::trace::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Instant;

/// The joint trace with clones of the lines that make `values`, each once, right before the first backward line that
/// reads it; and the cloned lines.
///
/// # Errors
/// E730 in debug builds.
pub(super) fn clones(
    forward: &Forward,
    values: &FxHashSet<ProxyId>,
    started: Instant,
) -> Result<(Joint, Vec<Rc<BoundSymbol>>), Error> {
    let trace = forward.trace();
    // a clone is not in a checkpoint any more; gradient modes and autocast stay
    let outside = Outside::new(trace.root, |kind| *kind != RegionKind::Checkpoint, Event::Recompute);
    let mut again =
        Again { forward, values, outside, clone_of: FxHashMap::default(), lines: Vec::new(), cloned: Vec::new() };
    for line in &trace.lines {
        let line = if forward.ids.contains(&line.id) { line.clone() } else { again.redirected(line) };
        again.lines.push(line);
    }
    let Again { lines, cloned, .. } = again;
    let mut made = trace.clone();
    made.lines = lines;
    made.epoch = made.arena.close_epoch();
    made.adopt(trace, "rematerialise", started);
    verify::step(trace, &made)?;
    Ok((Joint { trace: made, ..forward.joint.clone() }, cloned))
}

struct Again<'a> {
    forward: &'a Forward<'a>,
    values: &'a FxHashSet<ProxyId>,
    outside: Outside,
    clone_of: FxHashMap<ProxyId, ProxyId>,
    lines: Vec<Rc<BoundSymbol>>,
    cloned: Vec<Rc<BoundSymbol>>,
}

impl Again<'_> {
    /// A backward line that reads clones.
    fn redirected(&mut self, line: &Rc<BoundSymbol>) -> Rc<BoundSymbol> {
        let mut wanted = Vec::new();
        line.for_each_arg(|p| wanted.extend(self.values.contains(&p).then_some(p)));
        if wanted.is_empty() {
            return line.clone();
        }
        wanted.into_iter().for_each(|p| self.make(p));
        let outs: FxHashSet<ProxyId> = line.outs.iter().chain(&line.aux).copied().collect();
        Rc::new(line.remap(&mut |p| if outs.contains(&p) { p } else { self.again(p) }))
    }

    /// The value that is read instead of `p`. A clone makes all results of its line, of which some may be kept instead.
    fn again(&self, p: ProxyId) -> ProxyId {
        self.clone_of.get(&p).copied().filter(|_| self.values.contains(&p)).unwrap_or(p)
    }

    /// Records the clone of the line that makes `value`, after the clones that it reads. Programs are deep, so this
    /// does not recurse.
    fn make(&mut self, value: ProxyId) {
        let mut stack = vec![value];
        while let Some(p) = stack.last().copied() {
            let line = match self.forward.maker.get(&p) {
                Some(line) if !self.clone_of.contains_key(&p) => line.clone(),
                _ => {
                    stack.pop();
                    continue;
                }
            };
            let before = stack.len();
            line.for_each_arg(|a| {
                if self.values.contains(&a) && !self.clone_of.contains_key(&a) {
                    stack.push(a);
                }
            });
            if stack.len() == before {
                stack.pop();
                self.clone_line(&line);
            }
        }
    }

    fn clone_line(&mut self, line: &Rc<BoundSymbol>) {
        let arena = &self.forward.trace().arena;
        let mut args = (**line).clone();
        // the body of the original has other arguments than the clone
        args.body = OnceCell::new();
        let BoundSymbol { args: read, dispatch, .. } = args.remap(&mut |p| self.again(p));
        let mut fresh = |p: &ProxyId| {
            let new = arena.proxy(&format!("{}.r1", arena.name(*p)), arena.ty(*p));
            arena.set_tags(
                new,
                arena.tags(*p).passing(Event::Recompute, SplitSide::Before, &[Policy::All, Policy::Keep]),
            );
            self.clone_of.insert(*p, new);
            new
        };
        let outs = line.outs.iter().map(&mut fresh).collect();
        let aux = line.aux.iter().map(&mut fresh).collect();
        let tags = line.own_tags.passing(Event::Recompute, SplitSide::Before, &[Policy::All, Policy::Keep]);
        self.lines.push(Rc::new(BoundSymbol {
            id: arena.next_line(line.symbol),
            args: read,
            outs,
            aux,
            dead: 0,
            region: self.outside.of(arena, line.region),
            own_tags: tags.with(Tag::BACKWARD),
            place: Place { loc: line.place.loc, role: Role::Recompute },
            merged: Vec::new(),
            origin: Some(line.id),
            claimed_by: None,
            ruled_by: None,
            dispatch,
            ..args
        }));
        self.cloned.push(line.clone());
    }
}
