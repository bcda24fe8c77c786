//! E502: a row that says it has no gradient, or none of its gradient, or another one than the derivative, although one is
//! derived.

use std::sync::Arc;

use fulgurite_core::lang::ast::{Elem, Node};
use fulgurite_core::row::Row;
use fulgurite_core::{DType, DTypeSet, derive};
use rustc_hash::FxHashSet;

use crate::check::rows::RowSet;
use crate::check::{closure, walk};
use crate::diag::Diag;
use crate::schema::RowSource;

/// What is wrong with `once`: derived rules can always be differentiated again.
pub fn once(source: &RowSource) -> Option<Diag> {
    let says = source.once.as_ref()?;
    if !source.grad.is_empty() || !source.jvp.is_empty() {
        return None;
    }
    let op = source.op.as_str();
    let message = format!("`{op}` says that its gradient has none, but the gradient is derived, and can be again");
    Some(Diag::error("E502", says.place, message).help("delete it; it is for rows with a `grad` or `jvp` of their own"))
}

/// What is wrong with `deviates`: where no value is taken for a constant, no convention is stated and no rule written,
/// neither here nor in a row that is called, the gradient is the derivative.
pub fn deviates(source: &RowSource, row: &Arc<Row>, set: &RowSet) -> Option<Diag> {
    let says = source.deviates.as_ref()?;
    let own = !source.grad.is_empty() || !source.jvp.is_empty() || !source.at.is_empty();
    if own || says_otherwise(row) {
        return None;
    }
    let mut seen = FxHashSet::default();
    let mut open: Vec<_> = closure::calls(row).into_iter().map(|call| call.op).collect();
    while let Some(name) = open.pop() {
        if !seen.insert(name) {
            continue;
        }
        for row in set.candidates(name) {
            if row.deviates.is_some() || !row.at.is_empty() || says_otherwise(&row) {
                return None;
            }
            open.extend(closure::calls(&row).into_iter().map(|call| call.op));
        }
    }
    let message = format!(
        "`{}` says that its gradient deviates, but it is the derivative: nothing is detached",
        source.op.as_str()
    );
    Some(Diag::error("E502", says.place, message).help("delete it; to keep a gradient from flowing, `detach` a value"))
}

/// Whether a meaning takes a value for a constant.
fn says_otherwise(row: &Row) -> bool {
    let mut found = false;
    if let Some(body) = walk::body(row) {
        walk::block(body, &mut |e| found |= matches!(&*e.node, Node::Call(f, _) if f.name == "detach"));
    }
    found
}

/// What is wrong with `no_grad`.
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

/// Whether an argument holds numbers for others: what is derived by the rest is not the gradient of what it means.
fn takes_storage(row: &Row) -> bool {
    let storage = |e: &Elem| matches!(e, Elem::Class(c) if DTypeSet::from_class(c.as_str()).is_some_and(|s| s.iter().all(DType::is_storage)));
    row.sig.params.iter().any(|p| p.ty.elem.iter().any(storage))
}

/// Whether no argument lacks a rule; of a program of rows, whether all of them have.
fn derivable(row: &Arc<Row>, set: &RowSet) -> bool {
    if takes_storage(row) {
        return false;
    }
    if !row.is_composite() {
        let derived = derive::derive(row, set);
        return derived.failed.is_empty();
    }
    let mut seen = FxHashSet::default();
    let mut open: Vec<_> = closure::calls(row).into_iter().map(|call| call.op).collect();
    while let Some(name) = open.pop() {
        if !seen.insert(name) {
            continue;
        }
        for row in set.candidates(name) {
            if row.no_grad.is_some() {
                return false;
            }
            open.extend(closure::calls(&row).into_iter().map(|call| call.op));
        }
    }
    true
}
