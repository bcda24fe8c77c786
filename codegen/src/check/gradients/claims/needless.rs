//! E502: a row that says it has no gradient, although one is derived.

use std::sync::Arc;

use fulgurite_core::lang::ast::Elem;
use fulgurite_core::row::Row;
use fulgurite_core::{DType, DTypeSet, derive};

use crate::check::closure;
use crate::check::rows::RowSet;
use crate::diag::Diag;
use crate::schema::RowSource;

/// Refuses `no_grad` of a row that states a rule, or for which a gradient can be derived.
pub fn check(source: &RowSource, row: &Arc<Row>, set: &RowSet) -> Option<Diag> {
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
