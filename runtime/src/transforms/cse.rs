//! Common subexpression elimination: equal lines become one.
//!
//! Lines are equal by facts, never by a list of operators: they have one symbol and equal arguments (two draws with one
//! key are equal), and write nothing. Before `split` they must also agree in gradient mode and checkpoint, because the
//! gradient treats them differently.

use super::inline::Redirect;
use crate::error::Error;
use crate::trace::tag::{Event, SplitSide};
use crate::trace::words::Words;
use crate::trace::*;
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::time::Instant;

/// Merges equal lines into the first of them, which keeps its names and gets the calls and tags of all.
///
/// # Errors
/// E730 in debug builds.
pub fn cse(trace: &Trace, side: SplitSide) -> Result<Trace, Error> {
    let started = Instant::now();
    let mut merger = Merger {
        trace,
        side,
        seen: FxHashMap::default(),
        redirect: Redirect::default(),
        lines: Vec::with_capacity(trace.lines.len()),
    };
    trace.lines.iter().for_each(|line| merger.line(line));
    let Merger { redirect, lines, .. } = merger;
    let outputs: Vec<ProxyId> = trace.outputs.iter().map(|p| redirect.get(*p)).collect();
    let mut source = trace.clone();
    source.epilogue.iter_mut().for_each(|w| w.value = redirect.get(w.value));
    super::finish(&source, "cse", started, lines, &outputs)
}

struct Merger<'t> {
    trace: &'t Trace,
    side: SplitSide,
    /// The positions of lines, by an encoding of their computations.
    seen: FxHashMap<Vec<u64>, Vec<usize>>,
    redirect: Redirect,
    lines: Vec<Rc<BoundSymbol>>,
}

impl Merger<'_> {
    fn line(&mut self, line: &Rc<BoundSymbol>) {
        let line = self.redirect.apply(line);
        if !line.effects.writes.is_empty() || line.claimed_by.is_some() {
            self.lines.push(line);
            return;
        }
        let key = self.key(&line);
        let before = self.seen.get(&key).cloned().unwrap_or_default();
        if before.iter().any(|at| self.merge(*at, &line)) {
            return;
        }
        self.seen.entry(key).or_default().push(self.lines.len());
        self.lines.push(line);
    }

    /// Merges `line` into the line at `at`, if their tags allow it.
    fn merge(&mut self, at: usize, line: &BoundSymbol) -> bool {
        let arena = &self.trace.arena;
        let first = self.lines[at].clone();
        if first.aux.is_empty() && !line.aux.is_empty() {
            return false;
        }
        let Ok(own_tags) = first.own_tags.meet(line.own_tags, Event::Merge, self.side) else { return false };
        let pairs: Vec<(ProxyId, ProxyId)> =
            first.outs.iter().zip(&line.outs).chain(first.aux.iter().zip(&line.aux)).map(|(a, b)| (*a, *b)).collect();
        let mut tags = Vec::new();
        for (a, b) in &pairs {
            match arena.tags(*a).meet(arena.tags(*b), Event::Merge, self.side) {
                Ok(met) => tags.push(met),
                Err(_) => return false,
            }
        }
        for ((a, b), met) in pairs.into_iter().zip(tags) {
            arena.set_tags(a, met);
            self.redirect.insert(b, a);
        }
        let mut merged = (*first).clone();
        merged.own_tags = own_tags;
        merged.dead &= line.dead;
        for loc in std::iter::once(line.place.loc).chain(line.merged.iter().copied()) {
            if loc != merged.place.loc && !merged.merged.contains(&loc) {
                merged.merged.push(loc);
            }
        }
        self.lines[at] = Rc::new(merged);
        true
    }

    fn key(&self, line: &BoundSymbol) -> Vec<u64> {
        let mut key = Words::default();
        key.push(std::ptr::from_ref(line.symbol) as u64);
        if self.side == SplitSide::Before {
            let chain = self.trace.arena.region_chain(line.region, self.trace.root);
            let is = |kind: fn(&RegionKind) -> bool| {
                chain.iter().find(|r| kind(&self.trace.arena.region(**r).kind)).map_or(0, |r| u64::from(r.0) + 1)
            };
            let no_grad = self.trace.arena.no_grad_region(line.region, self.trace.root).is_some();
            key.words.extend([u64::from(no_grad), is(|k| *k == RegionKind::Checkpoint)]);
        }
        line.args.iter().for_each(|arg| key.value(arg, &mut |p, words| words.push(u64::from(p.0))));
        key.words
    }
}
