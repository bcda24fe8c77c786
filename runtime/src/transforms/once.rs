//! Gradients that are taken once: a row may say that its written rule has no right derivative.
//!
//! A rule that detaches what it reads looks constant to a second derivative, so it is not asked which of its lines a
//! derivative would pass: it is refused where the row's own arguments are differentiated and what the rule made counts.

use super::activity::{Activity, Reason};
use crate::error::{Error, ErrorKind};
use crate::symbol;
use crate::trace::*;
use fulgurite_core::Name;
use rustc_hash::FxHashSet;

/// Refuses a derivative of `outputs` by `wrt` that needs one of a gradient rule of a row that says `once`.
///
/// # Errors
/// E725 for the last such line.
pub(super) fn check(trace: &Trace, wrt: &[ProxyId], outputs: impl Iterator<Item = ProxyId>) -> Result<(), Error> {
    if trace.lines.iter().all(|line| rule_of(&trace.arena, line).is_none()) {
        return Ok(());
    }
    let activity = Activity::sweep(&trace.arena, trace.root, &trace.lines, wrt, &trace.outputs);
    let mut counts: FxHashSet<ProxyId> = outputs.collect();
    for line in trace.lines.iter().rev() {
        if !line.outs.iter().chain(&line.aux).any(|p| counts.contains(p)) {
            continue;
        }
        if let Some((op, why)) = rule_of(&trace.arena, line)
            && reads_active(trace, &activity, line)
        {
            return Err(Error::new("E725", format!("the gradient of `{op}` can't be differentiated again: {why}"))
                .kind_is(ErrorKind::NotDifferentiable { value: op.to_string(), ty: line.symbol.name().to_owned() })
                .help("call rows whose gradients are derived, or take the inner gradient for a constant: `detach`")
                .at(line.place.loc));
        }
        // nothing flows to what stands before these
        use Reason::{NoFloatOutput, NoGradRegion, StopGradient};
        if !matches!(activity.why_constant(line), Some(StopGradient | NoGradRegion(_) | NoFloatOutput)) {
            line.for_each_arg(|p| _ = counts.insert(p));
        }
    }
    Ok(())
}

/// The row whose gradient rule made a line, and why that is differentiated once only.
fn rule_of(arena: &Arena, line: &BoundSymbol) -> Option<(Name, &'static str)> {
    if line.place.role != Role::Backward {
        return None;
    }
    let symbol = symbol::find(Name::new(arena.op(line.origin?)?))?;
    let why = symbol.row().once.as_deref()?;
    Some((symbol.row().op, why))
}

/// Whether what the line's rule was made for reads something that is differentiated. Where that call is no longer there,
/// whether the line does.
fn reads_active(trace: &Trace, activity: &Activity, line: &BoundSymbol) -> bool {
    let made_for = |l: &&std::rc::Rc<BoundSymbol>| {
        Some(l.id) == line.origin || l.place.role == Role::Forward && l.origin == line.origin
    };
    let of = trace.lines.iter().find(made_for).map_or(line, |l| &**l);
    let mut active = false;
    of.for_each_arg(|p| active |= activity.needs_grad(p));
    active
}
