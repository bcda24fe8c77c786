//! E401: a program with a rule that is not the derivative must have a rule for each argument. If it has some only, a
//! call in which an argument without a rule takes part is differentiated through the body.

use fulgurite_core::Name;
use fulgurite_core::derive::differentiable;
use fulgurite_core::row::Row;

use crate::check::gradients::arrays::declared::{Declared, Way};
use crate::diag::Diag;
use crate::schema::RowSource;

/// Refuses `rule`, which points show not to be the derivative, if another argument of the program has none.
pub fn check(source: &RowSource, row: &Row, rule: &Declared) -> Option<Diag> {
    if !row.is_composite() {
        return None;
    }
    let rules = match rule.way {
        Way::Vjp => &source.grad,
        Way::Jvp => &source.jvp,
    };
    let ruled = |name: Name| rules.iter().any(|(of, _)| *of == name.as_str());
    let skipped = |name: Name| source.skip_vjp.as_ref().is_some_and(|(skip, _)| skip.has(name.as_str()));
    let params = row.sig.params.iter().filter(|param| differentiable(&param.ty));
    let open = params.map(|param| param.name).find(|name| !ruled(name.name) && !skipped(name.name))?;
    let message = format!(
        "{} is another one than the derivative, but `{}` has none: a call that differentiates both goes through the body",
        rule.named(source).name(),
        open.name
    );
    let diag = Diag::error("E401", rule.rule.text.place, message).here("not used there");
    let diag = diag.label(source.sig.text.at(open.span), "has no rule");
    Some(diag.help(format!("write a `{}` for each argument, or `skip_vjp` where none has a gradient", rule.key())))
}
