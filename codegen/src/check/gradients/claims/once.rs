//! E502: a row states `once`, although nothing stops a second derivative.

use fulgurite_core::derive;
use fulgurite_core::lang::Block;

use crate::check::closure;
use crate::check::gradients::claims::deviates::{detaches, says_otherwise};
use crate::check::rows::RowSet;
use crate::diag::Diag;
use crate::schema::RowSource;

/// Refuses `once` of a row whose gradient can be differentiated again. Derived rules always can. Declared rules can if
/// they detach nothing, and every row that they call can.
pub fn check(source: &RowSource, set: &RowSet) -> Option<Diag> {
    let says = source.once.as_ref()?;
    let op = source.op.as_str();
    let rules: Vec<&Block> = source.grad.iter().chain(&source.jvp).map(|(_, rule)| &rule.tree).collect();
    if rules.is_empty() {
        let message = format!("`{op}` says that its gradient has none, but the gradient is derived, and can be again");
        let diag = Diag::error("E502", says.place, message);
        return Some(diag.help("delete it; it is for rows with a `grad` or `jvp` of their own"));
    }
    if rules.iter().any(|rule| detaches(rule)) || calls_stop(source, set) {
        return None;
    }
    let message = format!("`{op}` says that its gradient has none, but its rules can be differentiated again");
    let diag = Diag::error("E502", says.place, message);
    let diag = diag.note("they detach nothing, and every row that they call has a derivative");
    Some(diag.help("delete it; it is for rules that take a value for a constant: `detach`"))
}

/// Whether a row that the rules reach stops a second derivative: it has no gradient, states `once`, detaches a value,
/// or has an argument without a rule.
fn calls_stop(source: &RowSource, set: &RowSet) -> bool {
    closure::any_reached(closure::rule_calls(source), set, &mut |row| {
        let stops = row.no_grad.is_some() || row.once.is_some() || says_otherwise(row);
        stops || row.vjp.is_empty() && !derive::derive(row, set).failed.is_empty()
    })
}
