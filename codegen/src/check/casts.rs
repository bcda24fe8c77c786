//! E207: `expr` and `view` compute narrow floats in f32, and integers for storage in another integer dtype. A cast to such
//! a dtype therefore takes effect only where its value is a result, which is stored in its dtype.

use fulgurite_core::lang::{Block, Elem, Expr, Node, Span};
use fulgurite_core::lower::Rows;
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::{DType, Name};

use super::rows::RowSet;
use super::walk;
use crate::diag::Diag;
use crate::schema::RowSource;
use crate::yaml::Text;

/// The first cast that rounds nothing, in the meaning of a row or in a condition.
pub fn check(source: &RowSource, row: &Row, set: &RowSet) -> Option<Diag> {
    let refuse = |text: &Text, key: &str, (span, to): (Span, DType)| {
        let op = source.op.as_str();
        let message = format!("`{key}` of `{op}` casts to {to} on the way, where it computes in {}", to.opmath());
        let diag = Diag::error("E207", text.at(span), message).here("this rounds nothing");
        diag.help(format!(
            "delete the cast; a value that is to be rounded on the way is the result of a row: `decomp: f(x as {to})`"
        ))
    };
    if let (Meaning::Expr(body) | Meaning::View(body), Some((key, text))) = (&row.meaning, super::report::body(source))
    {
        let results: Vec<&[Elem]> = row.sig.outs.iter().chain(&row.sig.aux).map(|out| out.ty.elem.as_slice()).collect();
        if let Some(found) = idle(body, &results, set) {
            return Some(refuse(text, key, found));
        }
    }
    source.require.iter().find_map(|(cond, _)| {
        let found = casts(&cond.tree, set).into_iter().next()?;
        Some(refuse(&cond.text, "require", found))
    })
}

/// The first cast in a body that is not a result stored in the dtype of the cast.
fn idle(body: &Block, results: &[&[Elem]], set: &RowSet) -> Option<(Span, DType)> {
    let mut stored = Vec::new();
    ends(&body.value, results, &mut stored);
    let mut found = Vec::new();
    walk::block(body, &mut |e| found.extend(narrows(e, set).map(|to| (e.span, to))));
    found.into_iter().find(|cast| !stored.contains(cast))
}

/// Collects the results with a fixed dtype, each with that dtype.
fn ends(e: &Expr, results: &[&[Elem]], stored: &mut Vec<(Span, DType)>) {
    match (&*e.node, results) {
        (Node::If(_, yes, no), _) => [yes, no].into_iter().for_each(|block| ends(&block.value, results, stored)),
        (Node::Match(_, arms), _) => arms.iter().for_each(|(_, value)| ends(value, results, stored)),
        (Node::Tuple(items), _) => {
            items.iter().zip(results).for_each(|(item, result)| ends(item, &[*result], stored));
        }
        (_, [[Elem::Class(result)]]) => stored.extend(DType::from_name(result.as_str()).map(|to| (e.span, to))),
        _ => {}
    }
}

fn casts(e: &Expr, set: &RowSet) -> Vec<(Span, DType)> {
    let mut found = Vec::new();
    walk::expr(e, &mut |part| found.extend(narrows(part, set).map(|to| (part.span, to))));
    found
}

/// The dtype that computes in another one to which a cast, or a call of a row whose result has that dtype, rounds.
fn narrows(e: &Expr, set: &RowSet) -> Option<DType> {
    let to = match &*e.node {
        Node::Cast(_, Elem::Class(to)) => *to,
        Node::Call(f, _) if !super::names::is_word(f.name) => result(f.name, set)?,
        _ => return None,
    };
    DType::from_name(to.as_str()).filter(|to| to.opmath() != *to)
}

/// The dtype of the result of a row, if the row names it.
fn result(f: Name, set: &RowSet) -> Option<Name> {
    let row = set.row(f)?;
    match row.sig.outs.first().map(|out| out.ty.elem.as_slice()) {
        Some([Elem::Class(name)]) => Some(name.to_owned()),
        _ => None,
    }
}
