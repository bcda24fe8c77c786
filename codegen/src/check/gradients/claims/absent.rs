//! Rules that are absent. E406: an argument that a gradient could flow to has a rule, or the row says why not. E502: a
//! row that says it has no gradient has none. E401: a program with a rule that is not the derivative must have a rule
//! for each argument, because a call in which an argument without a rule takes part is differentiated through the body.

use std::sync::Arc;

use fulgurite_core::derive::{self, Derived, NotDerivable, differentiable};
use fulgurite_core::lang::ast::Elem;
use fulgurite_core::row::Row;
use fulgurite_core::{DType, DTypeSet, Name};

use crate::check::gradients::arrays::declared::{Declared, Way};
use crate::check::rows::RowSet;
use crate::check::{closure, report};
use crate::diag::Diag;
use crate::schema::RowSource;

/// Arguments for which no rule could be derived and none is declared.
pub fn missing(source: &RowSource, row: &Row, derived: &Derived) -> Vec<Diag> {
    let skipped = |name: &str| source.skip_vjp.as_ref().is_some_and(|(skip, _)| skip.has(name));
    let without = derived.failed.iter().filter(|(arg, _)| {
        !source.grad.iter().any(|(declared, _)| *declared == arg.as_str()) && !skipped(arg.as_str())
    });
    let fault = |(arg, why): &(Name, NotDerivable)| {
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

/// Refuses `no_grad` of a row that states a rule, or for which a gradient can be derived.
pub fn needless(source: &RowSource, row: &Arc<Row>, set: &RowSet) -> Option<Diag> {
    let says = source.no_grad.as_ref()?;
    if let Some((arg, _)) = source.grad.iter().chain(&source.jvp).next() {
        let message =
            format!("`{}` says that it has no gradient, and states one for `{}`", source.op.as_str(), arg.as_str());
        return Some(Diag::error("E502", says.place, message).help("delete one of the two"));
    }
    if !derivable(row, set) {
        return None;
    }
    let op = source.op.as_str();
    let diag = Diag::error("E502", says.place, format!("`{op}` says that it has no gradient, but one is derived"));
    let derived = derive::derive(row, set);
    let diag = diag.note(if row.is_composite() {
        "every row that its body calls has a gradient".to_owned()
    } else if derived.rules.is_empty() {
        "no argument has a gradient: it is zero".to_owned()
    } else {
        let rules = derived.rules.iter().map(|(arg, rule)| format!("{arg}: {}", rule.to_string().replace('\n', " ")));
        rules.collect::<Vec<_>>().join(", ")
    });
    Some(diag.help("delete it; to keep a gradient from flowing, `detach` and say why in `deviates`"))
}

/// Whether an argument has a storage dtype, whose numbers stand for others. A gradient that is derived for the other
/// arguments is then not that of the row's meaning.
fn takes_storage(row: &Row) -> bool {
    let storage = |e: &Elem| matches!(e, Elem::Class(c) if DTypeSet::from_class(c.as_str()).is_some_and(|s| s.iter().all(DType::is_storage)));
    row.sig.params.iter().any(|p| p.ty.elem.iter().any(storage))
}

/// Whether a gradient can be derived: every argument gets a rule, and no row that a program reaches states `no_grad`.
fn derivable(row: &Arc<Row>, set: &RowSet) -> bool {
    if takes_storage(row) {
        return false;
    }
    if !row.is_composite() {
        let derived = derive::derive(row, set);
        return derived.failed.is_empty();
    }
    !closure::any_reached(closure::called(row), set, &mut |row| row.no_grad.is_some())
}

/// Refuses `rule`, which points show not to be the derivative, if another argument of the program has none.
pub fn partial(source: &RowSource, row: &Row, rule: &Declared) -> Option<Diag> {
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
