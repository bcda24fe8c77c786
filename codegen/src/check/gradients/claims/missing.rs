//! E406: an argument that a gradient could flow to has a rule, or the row says why not.

use fulgurite_core::derive::Derived;
use fulgurite_core::row::Row;

use crate::check::report;
use crate::diag::Diag;
use crate::schema::RowSource;

/// Arguments for which no rule could be derived and none is declared.
pub fn check(source: &RowSource, row: &Row, derived: &Derived) -> Vec<Diag> {
    let skipped = |name: &str| source.skip_vjp.as_ref().is_some_and(|(skip, _)| skip.has(name));
    let without = derived.failed.iter().filter(|(arg, _)| {
        !source.grad.iter().any(|(declared, _)| *declared == arg.as_str()) && !skipped(arg.as_str())
    });
    let fault = |(arg, why): &(fulgurite_core::Name, fulgurite_core::derive::NotDerivable)| {
        let text = &source.sig.text;
        let param = row.sig.params.iter().find(|param| param.name.name == *arg);
        let place = param.map_or(text.place, |param| text.at(param.name.span));
        let message = format!("no gradient of `{}` can be derived for `{arg}`", source.op.as_str());
        let diag = Diag::error("E406", place, message).here("a gradient could flow here");
        let diag = match report::body(source) {
            Some((_, body)) if why.span.start < why.span.end => diag.label(body.at(why.span), why.reason.clone()),
            _ => diag.note(why.reason.clone()),
        };
        diag.help(format!("declare it, `grad: {{{arg}: '…'}}`, or say why there is none in `no_grad`"))
    };
    without.map(fault).collect()
}
