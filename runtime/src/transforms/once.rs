//! Gradients that are taken once: a row may state that the derivative of its written rule is wrong.
//!
//! A rule that detaches its inputs looks constant to a second derivative, so the rule's own lines do not tell whether
//! it is differentiated again. The derivative is refused if the row's arguments are differentiated and the rule's
//! results are used.

use super::activity::{Activity, Reason};
use crate::error::{Error, ErrorKind};
use crate::symbol;
use crate::trace::*;
use fulgurite_core::Name;
use rustc_hash::FxHashSet;

/// Refuses a derivative of `outputs` by `wrt` that needs the derivative of a gradient rule of a row with `once`.
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
        // no derivative flows to lines before these
        use Reason::{NoFloatOutput, NoGradRegion, StopGradient};
        if !matches!(activity.why_constant(line), Some(StopGradient | NoGradRegion(_) | NoFloatOutput)) {
            line.for_each_arg(|p| _ = counts.insert(p));
        }
    }
    Ok(())
}

/// The row whose gradient rule made a line, and the reason why it may be differentiated only once.
fn rule_of(arena: &Arena, line: &BoundSymbol) -> Option<(Name, &'static str)> {
    if line.place.role != Role::Backward {
        return None;
    }
    let symbol = symbol::find(Name::new(arena.op(line.origin?)?))?;
    let why = symbol.row().once.as_deref()?;
    Some((symbol.row().op, why))
}

/// Whether the call for which the line's rule was recorded reads a differentiated value. If that call was removed,
/// whether the line itself does.
fn reads_active(trace: &Trace, activity: &Activity, line: &BoundSymbol) -> bool {
    let made_for = |l: &&std::rc::Rc<BoundSymbol>| {
        Some(l.id) == line.origin || l.place.role == Role::Forward && l.origin == line.origin
    };
    let of = trace.lines.iter().find(made_for).map_or(line, |l| &**l);
    let mut active = false;
    of.for_each_arg(|p| active |= activity.needs_grad(p));
    active
}
