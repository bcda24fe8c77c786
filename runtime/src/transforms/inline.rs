//! Inlines bodies in place of lines, for decomposition and for composites without a gradient rule.

use super::activity::{Activity, LineRole};
use super::composite::{body, is_ruleless_composite};
use super::subclass::{self, Way};
use crate::error::Error;
use crate::trace::*;
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// Values that are replaced by other values.
#[derive(Default)]
pub(super) struct Redirect {
    map: FxHashMap<ProxyId, ProxyId>,
    /// The replaced values, in the order of insertion.
    order: Vec<ProxyId>,
}

impl Redirect {
    /// The final replacement of `p`; a replacement may be replaced later itself.
    pub(super) fn get(&self, p: ProxyId) -> ProxyId {
        let mut at = p;
        while let Some(next) = self.map.get(&at) {
            at = *next;
        }
        at
    }
    pub(super) fn insert(&mut self, old: ProxyId, new: ProxyId) {
        let new = self.get(new);
        if old != new && self.map.insert(old, new).is_none() {
            self.order.push(old);
        }
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = (ProxyId, ProxyId)> + '_ {
        self.order.iter().map(|old| (*old, self.get(*old)))
    }
    /// The line with its arguments replaced.
    pub(super) fn apply(&self, line: &Rc<BoundSymbol>) -> Rc<BoundSymbol> {
        let mut moved = false;
        line.for_each_arg(|p| moved |= self.map.contains_key(&p));
        if moved { Rc::new(line.remap(&mut |p| self.get(p))) } else { line.clone() }
    }
}

/// The lines of a body, renamed to make the line's own results. A result that the body does not make itself (an
/// argument, or a value for the second time) is redirected.
pub(super) fn inline(line: &BoundSymbol, body: &Body, redirect: &mut Redirect) -> Vec<Rc<BoundSymbol>> {
    let made: FxHashSet<ProxyId> = body.lines.iter().flat_map(|l| l.outs.iter().chain(&l.aux)).copied().collect();
    let mut names: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
    for (inner, outer) in body.outs.iter().zip(line.outs.iter().chain(&line.aux)) {
        if made.contains(inner) && !names.contains_key(inner) {
            names.insert(*inner, *outer);
        } else {
            redirect.insert(*outer, names.get(inner).copied().unwrap_or(*inner));
        }
    }
    body.lines.iter().map(|l| Rc::new(l.remap(&mut |p| names.get(&p).copied().unwrap_or(p)))).collect()
}

/// The direction of differentiation for which lines are prepared.
#[derive(Clone, Copy)]
pub(super) enum Mode<'a> {
    /// Reverse mode, from these outputs.
    Reverse(&'a [ProxyId]),
    /// Forward mode.
    Forward,
}

/// The lines, with bodies in place of those composites that are active and have no rule of their own, or whose
/// auxiliary results have derivatives.
pub(super) fn active(
    arena: &Rc<Arena>,
    root: RegionId,
    lines: &[Rc<BoundSymbol>],
    wrt: &[ProxyId],
    mode: Mode,
    redirect: &mut Redirect,
) -> Result<Vec<Rc<BoundSymbol>>, Error> {
    let outputs = match mode {
        Mode::Reverse(outputs) => outputs,
        Mode::Forward => &[],
    };
    let reach = Activity::sweep(arena, root, lines, wrt, outputs);
    let exact = Activity::sweep(arena, root, &[], wrt, &[]);
    let mut expansion = Expansion { arena, mode, exact, redirect, out: Vec::new() };
    for line in lines {
        let aux = match mode {
            // a line without a body, such as one with a mask of truth values, has no derivatives of auxiliary results
            Mode::Forward => {
                let smooth = line.aux.iter().any(|p| arena.is_float(*p));
                smooth || !line.aux.is_empty() && line.symbol.row().is_composite()
            }
            Mode::Reverse(_) => reach.reaches_aux(line),
        };
        let reached = match (mode, reach.vjp_role(line)) {
            (Mode::Forward, _) => true,
            (_, LineRole::Active { out_mask, .. }) => aux || out_mask.contains(&true),
            (_, LineRole::Constant(_)) => false,
        };
        expansion.line(line, reached, aux)?;
    }
    Ok(expansion.out)
}

impl Activity {
    /// The activity of a trace differentiated by `wrt`. Bodies are made where only they decide it.
    ///
    /// # Errors
    /// Reports errors of making bodies.
    pub fn of(trace: &Trace, wrt: &[ProxyId]) -> Result<Activity, Error> {
        let mut map = Redirect::default();
        let lines = active(&trace.arena, trace.root, &trace.lines, wrt, Mode::Reverse(&trace.outputs), &mut map)?;
        let outputs: Vec<ProxyId> = trace.outputs.iter().map(|p| map.get(*p)).collect();
        let mut activity = Activity::sweep(&trace.arena, trace.root, &lines, wrt, &outputs);
        // a redirected value has the activity of its replacement
        map.iter().for_each(|(old, new)| activity.copy(old, new));
        Ok(activity)
    }
}

struct Expansion<'a> {
    arena: &'a Rc<Arena>,
    mode: Mode<'a>,
    exact: Activity,
    redirect: &'a mut Redirect,
    out: Vec<Rc<BoundSymbol>>,
}

impl Expansion<'_> {
    /// Prepares a line; `aux` says that derivatives of auxiliary results are wanted, which only a body has.
    fn line(&mut self, line: &Rc<BoundSymbol>, reached: bool, aux: bool) -> Result<(), Error> {
        let line = self.redirect.apply(line);
        self.exact.refuse_options(&line)?;
        if reached
            && let LineRole::Active { in_mask, .. } = self.exact.vjp_role(&line)
            && let Some(body) = self.body(&line, &in_mask, aux)?
        {
            for inner in inline(&line, &body, self.redirect) {
                self.line(&inner, true, false)?;
            }
            return Ok(());
        }
        self.exact.forward(&line);
        self.out.push(line);
        Ok(())
    }

    /// The body that is differentiated instead of a line, if there is one.
    fn body(&self, line: &BoundSymbol, in_mask: &[bool], aux: bool) -> Result<Option<Rc<Body>>, Error> {
        if let Some(way) = subclass::way(self.arena, line) {
            match way {
                Way::Declared => return Ok(None),
                Way::Through => return Ok(line.dispatch.clone()),
                Way::Decomposed => return body(self.arena, line).map(Some),
                Way::Unknown(inner) => return Err(subclass::unknown(line, inner)),
                Way::Outer => {}
            }
        }
        if aux || is_ruleless_composite(line, in_mask, matches!(self.mode, Mode::Forward)) {
            return body(self.arena, line).map(Some);
        }
        Ok(None)
    }
}
