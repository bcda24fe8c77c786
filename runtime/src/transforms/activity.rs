//! Activity analysis, which finds the lines that the gradient transform may skip. It is one predicate, derived from
//! types, regions and rules, without a list of operators.
//!
//! A forward sweep finds the values through which a gradient is wanted, and a backward sweep those that reach an
//! output. [`Activity::vjp_role`] answers for one line from the two. A line is never dropped because it is constant.

use crate::error::Error;
use crate::trace::*;
use fulgurite_core::{Name, Value};
use std::rc::Rc;

/// The first reason for which a line is constant for differentiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The line is in a region that switches gradients off.
    NoGradRegion(RegionId),
    /// The line passes its argument on as a constant.
    StopGradient,
    /// None of the line's results is a float tensor.
    NoFloatOutput,
    /// None of the line's arguments is a float tensor.
    NoFloatInput,
    /// No argument depends on a value by which the program is differentiated.
    InputsNotActive,
    /// Every derivative is identically zero.
    AllPairsZero,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reason::NoGradRegion(_) => "it stands in a region without gradients",
            Reason::StopGradient => "it gives a constant",
            Reason::NoFloatOutput => "none of its results is a float tensor",
            Reason::NoFloatInput => "none of its arguments is a float tensor",
            Reason::InputsNotActive => "no argument depends on what is differentiated",
            Reason::AllPairsZero => "every derivative is zero",
        })
    }
}

/// The role of a line in differentiation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LineRole {
    /// Cotangents pass through the line.
    Active {
        /// For each parameter of the signature, whether its cotangent is wanted.
        in_mask: Vec<bool>,
        /// For each result, whether a cotangent can arrive there.
        out_mask: Vec<bool>,
    },
    /// No cotangent passes through the line.
    Constant(Reason),
}

/// A set of proxies, with a flag for each.
#[derive(Clone, Default)]
pub(super) struct ProxySet(Vec<bool>);

impl ProxySet {
    pub(super) fn contains(&self, p: ProxyId) -> bool {
        self.0.get(p.0 as usize).copied().unwrap_or(false)
    }
    pub(super) fn insert(&mut self, p: ProxyId) {
        let at = p.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, false);
        }
        self.0[at] = true;
    }
}

/// The activity of the values of a program, differentiated by some of them.
pub struct Activity {
    arena: Rc<Arena>,
    root: RegionId,
    needs: ProxySet,
    reach: ProxySet,
}

impl Activity {
    /// The activity of a list of lines, without looking into bodies.
    pub(super) fn sweep(
        arena: &Rc<Arena>,
        root: RegionId,
        lines: &[Rc<BoundSymbol>],
        wrt: &[ProxyId],
        outputs: &[ProxyId],
    ) -> Activity {
        let mut activity =
            Activity { arena: arena.clone(), root, needs: ProxySet::default(), reach: ProxySet::default() };
        wrt.iter().filter(|p| arena.is_float(**p)).for_each(|p| activity.needs.insert(*p));
        for line in lines {
            activity.forward(line);
        }
        outputs.iter().filter(|p| activity.needs.contains(**p)).for_each(|p| activity.reach.insert(*p));
        for line in lines.iter().rev() {
            activity.backward(line);
        }
        activity
    }

    /// Whether a gradient is wanted through this value: it is a float tensor that depends on a value of `wrt`.
    pub fn needs_grad(&self, p: ProxyId) -> bool {
        self.needs.contains(p)
    }

    /// Gives a value the activity of the value that replaces it.
    pub(super) fn copy(&mut self, old: ProxyId, new: ProxyId) {
        if self.needs.contains(new) {
            self.needs.insert(old);
        }
        if self.reach.contains(new) {
            self.reach.insert(old);
        }
    }

    /// Marks the results of a line that depend on a value of `wrt`, and the auxiliary results, which gradients read.
    pub(super) fn forward(&mut self, line: &BoundSymbol) {
        if let Ok(out_mask) = self.active_outs(line) {
            let outs = line.outs.iter().zip(out_mask).filter(|(_, active)| *active);
            outs.for_each(|(out, _)| self.needs.insert(*out));
            line.aux.iter().filter(|p| self.arena.is_float(**p)).for_each(|p| self.needs.insert(*p));
        }
    }

    /// Whether a cotangent can arrive at an auxiliary result, as in a gradient of a gradient. Rules can't name such a
    /// cotangent.
    pub(super) fn reaches_aux(&self, line: &BoundSymbol) -> bool {
        line.aux.iter().any(|p| self.reach.contains(*p))
    }

    /// Marks the arguments of a line through which its results are reached.
    pub(super) fn backward(&mut self, line: &BoundSymbol) {
        if let LineRole::Active { in_mask, out_mask } = self.vjp_role(line)
            && out_mask.contains(&true)
        {
            for (i, _) in in_mask.iter().enumerate().filter(|(_, active)| **active) {
                line.args[i].for_each(&mut |p| {
                    if self.needs.contains(*p) {
                        self.reach.insert(*p);
                    }
                });
            }
        }
    }

    /// For each result, whether it depends on a value of `wrt`; or the reason why none does.
    fn active_outs(&self, line: &BoundSymbol) -> Result<Vec<bool>, Reason> {
        if let Some(region) = self.arena.no_grad_region(line.region, self.root) {
            return Err(Reason::NoGradRegion(region));
        }
        if line.symbol.facts().stops {
            return Err(Reason::StopGradient);
        }
        let float_outs: Vec<bool> = line.outs.iter().map(|o| self.arena.is_float(*o)).collect();
        if !float_outs.contains(&true) {
            return Err(Reason::NoFloatOutput);
        }
        let params = line.symbol.row().sig.params.len();
        let (mut float_in, mut active) = (false, vec![false; params]);
        for (arg, active) in line.args.iter().take(params).zip(&mut active) {
            arg.for_each(&mut |p| {
                float_in |= self.arena.is_float(*p);
                *active |= self.needs.contains(*p);
            });
        }
        if !active.contains(&true) {
            return Err(if float_in { Reason::InputsNotActive } else { Reason::NoFloatInput });
        }
        let outs: Vec<bool> =
            (0..line.outs.len()).map(|o| float_outs[o] && (0..params).any(|i| active[i] && path(line, i, o))).collect();
        if outs.contains(&true) { Ok(outs) } else { Err(Reason::AllPairsZero) }
    }

    /// Refuses options that depend on a value of `wrt`, because options are constants of a derivative: no rule has a
    /// gradient by one.
    ///
    /// # Errors
    /// E712 if an option depends on a value of `wrt`, and a result may have a gradient.
    pub(super) fn refuse_options(&self, line: &BoundSymbol) -> Result<(), Error> {
        let sig = &line.symbol.row().sig;
        let mut depends = None;
        for (option, arg) in sig.opts.iter().zip(line.args.iter().skip(sig.params.len())) {
            arg.for_each(&mut |p| {
                if self.needs.contains(*p) {
                    depends = Some(option.name.name);
                }
            });
        }
        let Some(option) = depends.filter(|_| line.outs.iter().any(|o| self.arena.is_float(*o))) else { return Ok(()) };
        if self.arena.no_grad_region(line.region, self.root).is_some() {
            return Ok(());
        }
        let claim = format!("`{}` has no gradient by its option `{option}`", line.symbol.name());
        Err(Error::new("E712", claim).help("pass `detach()` of it, a constant").at(line.place.loc))
    }

    /// The role of a line in differentiation.
    pub fn vjp_role(&self, line: &BoundSymbol) -> LineRole {
        let outs = match self.active_outs(line) {
            Ok(outs) => outs,
            Err(reason) => return LineRole::Constant(reason),
        };
        let params = line.symbol.row().sig.params.len();
        let in_mask = (0..params).map(|i| {
            let mut active = false;
            line.args[i].for_each(&mut |p| active |= self.needs.contains(*p));
            active && (0..outs.len()).any(|o| outs[o] && path(line, i, o))
        });
        let out_mask = line.outs.iter().zip(&outs).map(|(o, active)| *active && self.reach.contains(*o));
        LineRole::Active { in_mask: in_mask.collect(), out_mask: out_mask.collect() }
    }

    /// The reason why a line is constant, if it is, for messages and printing.
    pub fn why_constant(&self, line: &BoundSymbol) -> Option<Reason> {
        match self.vjp_role(line) {
            LineRole::Constant(reason) => Some(reason),
            LineRole::Active { .. } => None,
        }
    }
}

/// Whether the derivative of result `o` by parameter `i` may be other than zero, according to the rule for `i`. Rows
/// without a rule are inlined ([`super::inline`]) or differentiated by their expression.
fn path(line: &BoundSymbol, i: usize, o: usize) -> bool {
    if let Some(ports) = line.symbol.own() {
        return (ports.outs..ports.outs + ports.ins).contains(&i);
    }
    // the programs decide, and a derivative of zero costs little
    if line.symbol.is_control() {
        return true;
    }
    let sig = &line.symbol.row().sig;
    let Some(rule) = line.symbol.vjp_rule(sig.params[i].name.name) else { return true };
    if rule.zero {
        return false;
    }
    let groups = line.out_groups();
    if groups.len() + line.effects.writes.len() < 2 || rule.mentions.contains(&Name::new("g")) {
        return true;
    }
    match groups.iter().position(|range| range.contains(&o)) {
        Some(out) => rule.mentions.contains(&cotangent_name(sig.outs[out].name.name)),
        // the result is the new version of a written argument
        None => {
            let written = line.effects.writes[o - groups.last().map_or(0, |r| r.end)];
            rule.mentions.contains(&cotangent_name(sig.params[written].name.name))
        }
    }
}

/// The name `g_NAME` of a result's cotangent in rules.
pub(super) fn cotangent_name(out: Name) -> Name {
    Name::new(&format!("g_{out}"))
}

/// The proxies of a value, in order.
pub(super) fn proxies(value: &Value<ProxyId>) -> Vec<ProxyId> {
    let mut found = Vec::new();
    value.for_each(&mut |p| found.push(*p));
    found
}
