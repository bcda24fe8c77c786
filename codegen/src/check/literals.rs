//! E205, E208: a number that stands in a rule is one of the dtype that it meets. E106: none divides an index by 0.

use std::sync::Arc;

use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::{BinOp, Block, Expr, Node, Span, UnOp};
use fulgurite_core::lower::{holds, lower_with};
use fulgurite_core::nest::{Nest, SExpr, SOp};
use fulgurite_core::row::Row;
use fulgurite_core::sig::statics::At;
use fulgurite_core::sig::{Env, Refusal, statics};
use fulgurite_core::{DType, DTypeSet, Scalar};

use super::cases::Case;
use super::machine::Fault;
use super::rows::RowSet;
use super::run::{each, find};
use super::{cases, report, walk};
use crate::diag::Diag;
use crate::schema::RowSource;

/// Numbers in the body of an index or pointwise row that an accepted dtype can't hold; each once.
pub fn check(source: &RowSource, row: &Arc<Row>, set: &RowSet) -> Vec<Diag> {
    let (Some(body), Some((_, text))) = (row.index_body(), report::body(source)) else { return Vec::new() };
    let accepted = row.dtypes.as_ref().and_then(|e| statics::dtype_set(&Env::default(), e).ok());
    let accepted = accepted.unwrap_or(DTypeSet::all());
    let mut diags = Vec::new();
    for (number, span) in literals(body) {
        // dtypes that are narrower than the number, and what they compute in
        let narrow = accepted.iter().filter(|d| d.is_float() == matches!(number, Scalar::Float(_)));
        let narrow: Vec<DType> = narrow.filter(|d| !holds(d.opmath(), number)).collect();
        let Some((dtype, case)) = narrow.into_iter().find_map(|d| Some((d, lost(row, body, set, d, number)?))) else {
            continue;
        };
        let (op, kept) = (source.op.as_str(), fulgurite_core::builtins::cast_scalar(number, dtype.opmath()));
        let message = format!("`{op}` computes with {number}, which {} can't hold", dtype.opmath());
        let place = text.at(span);
        let diag = match number {
            Scalar::Float(_) => Diag::warning("E208", place, message).help("write a number that f32 can hold"),
            _ => {
                let rest = accepted.iter().filter(|d| !d.is_int() || holds(*d, number)).collect();
                let left = super::dtypes::set_text(rest);
                Diag::error("E205", place, message)
                    .help(format!("leave the dtype out, `dtypes: {left}`, or cast first: `x as i64`"))
            }
        };
        diags.push(diag.here(format!("this becomes {kept}")).note(format!("for {case}")));
    }
    diags
}

/// An index that is divided by a 0 which stands in the body. What divides by a size is tried with sizes.
pub fn divides_by_zero(body: &Block, nest: &Nest) -> Option<Fault> {
    let at = by_literal(body)?;
    let refusal = || {
        Refusal::new("E706", "an index is divided by 0").help("divide by the size of an axis, or by a number above 0")
    };
    has_zero(nest).then(|| Fault { at: Some(at), ..refusal().into() })
}

/// The same of loops that were found to divide by 0: by a size which is that in this call, as far as no element is divided.
pub fn divides_by_size(body: &Block, nest: &Nest, case: &Case) -> Option<Fault> {
    if by_literal(body).is_some() || !has_zero(nest) {
        return None;
    }
    let is_zero = |by: &Expr| {
        let value = statics::eval(&case.solved.env, by, At::default());
        value.is_ok_and(|value| value.int().is_ok_and(|size| size.value() == 0))
    };
    let mut found: Option<(Span, String)> = None;
    walk::block(body, &mut |e| {
        if let (None, Some(by)) = (&found, divisor(e).filter(|by| is_zero(by))) {
            found = Some((e.span, by.to_string()));
        }
    });
    let (at, by) = found.map_or((None, "its size".to_owned()), |(at, by)| (Some(at), by));
    let refusal = Refusal::new("E706", format!("an index is divided by `{by}`, which is 0"));
    let help = format!("refuse such calls, `require: {{'{by} > 0': …}}`, or choose by `if` what an empty axis gives");
    Some(Fault { at, ..refusal.help(help).into() })
}

/// Where a text divides by a 0 that stands in it.
fn by_literal(body: &Block) -> Option<Span> {
    find(body, &|e| divisor(e).is_some_and(|by| matches!(&*by.node, Node::Int(0))))
}

/// What `a / b` and `a % b` divide by.
fn divisor(e: &Expr) -> Option<&Expr> {
    match &*e.node {
        Node::Binary(BinOp::Div | BinOp::Rem, _, by) => Some(by),
        _ => None,
    }
}

/// Whether loops divide an integer by a number that is 0 before they run.
pub fn has_zero(nest: &Nest) -> bool {
    let mut found = false;
    for out in &nest.outs {
        each(&out.expr, &mut |part| found |= is_by_zero(part));
    }
    found
}

/// Whether this divides an integer by a 0 that is known.
pub fn is_by_zero(part: &SExpr) -> bool {
    let SOp::Call(Builtin::DivFloor | Builtin::RemFloor, args) = part.op() else { return false };
    part.ty() == DType::I64 && args.get(1).is_some_and(|by| by.as_int() == Some(0))
}

/// The call in which the loops lose `number`, where `T` is `dtype`.
fn lost(row: &Arc<Row>, body: &Block, set: &RowSet, dtype: DType, number: Scalar) -> Option<String> {
    let family = cases::family(row, dtype);
    let loses = |case: &&cases::Case| {
        let Ok(nest) = lower_with(row, body, &case.solved, set) else { return false };
        let mut found = false;
        for out in &nest.outs {
            each(&out.expr, &mut |part| {
                if let SOp::Cast(inner) = part.op() {
                    found |= inner.as_const() == Some(number) && !holds(part.ty(), number);
                }
            });
        }
        found
    };
    family.cases.iter().find(loses).map(|case| case.show(row))
}

/// The numbers of a body with their places, signs included.
fn literals(body: &Block) -> Vec<(Scalar, Span)> {
    fn number(e: &Expr) -> Option<Scalar> {
        match &*e.node {
            Node::Int(i) => Some(Scalar::Int(*i)),
            Node::Float(x) => Some(Scalar::Float(*x)),
            Node::Unary(UnOp::Neg, inner) => match number(inner)? {
                Scalar::Int(i) => Some(Scalar::Int(-i)),
                Scalar::Float(x) => Some(Scalar::Float(-x)),
                Scalar::Bool(_) => None,
            },
            _ => None,
        }
    }
    let mut found: Vec<(Scalar, Span)> = Vec::new();
    walk::block(body, &mut |e| {
        if let Some(s) = number(e)
            && !found
                .iter()
                .any(|(seen, within)| *seen == s || within.start <= e.span.start && e.span.end <= within.end)
        {
            found.push((s, e.span));
        }
    });
    found
}
