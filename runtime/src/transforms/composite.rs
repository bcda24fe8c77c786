//! Composites: lines whose meaning is their body.

use crate::bind::body_of;
use crate::error::{Error, ErrorKind};
use crate::trace::*;
use std::rc::Rc;

/// Whether the line must be differentiated through its body: it is a composite, and some active argument has no rule.
pub(super) fn is_ruleless_composite(line: &BoundSymbol, active: &[bool], jvp: bool) -> bool {
    let row = line.symbol.row();
    if !row.is_composite() || row.no_grad.is_some() || line.symbol.own().is_some() {
        return false;
    }
    let has_rule = |i: usize| {
        let arg = row.sig.params[i].name.name;
        if jvp { row.jvp.iter().any(|(name, _)| *name == arg) } else { line.symbol.vjp_rule(arg).is_some() }
    };
    active.iter().enumerate().any(|(i, active)| *active && !has_rule(i))
}

/// The body of a line that must have one.
///
/// # Errors
/// E725 for a line without a body, whose auxiliary result would be differentiated.
pub(super) fn body(arena: &Rc<Arena>, line: &BoundSymbol) -> Result<Rc<Body>, Error> {
    let none = || {
        let op = line.symbol.name();
        Error::new(
            "E725",
            format!("the gradient of `{op}` can't be differentiated again: it reads an auxiliary result"),
        )
        .kind_is(ErrorKind::NotDifferentiable { value: op.to_owned(), ty: op.to_owned() })
        .help("take the inner gradient for a constant: `detach`")
        .at(line.place.loc)
    };
    body_of(arena, line)?.ok_or_else(none)
}
