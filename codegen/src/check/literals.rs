//! E205, E208: a number in a body is representable in the dtype that it meets.

use std::sync::Arc;

use fulgurite_core::lang::{Block, Expr, Node, Span, UnOp};
use fulgurite_core::loop_nest::{LoopExpr, SOp};
use fulgurite_core::lower::{holds, lower_with};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{Env, const_eval};
use fulgurite_core::{DType, DTypeSet, Scalar};

use super::rows::RowSet;
use super::walk::any_in;
use super::{cases, report, walk};
use crate::diag::Diag;
use crate::schema::RowSource;

/// Reports the numbers in the body of an index or pointwise row that an accepted dtype can't hold, each once.
pub fn check(source: &RowSource, row: &Arc<Row>, set: &RowSet) -> Vec<Diag> {
    let (Some(body), Some((_, text))) = (row.index_body(), report::body(source)) else { return Vec::new() };
    let accepted = row.dtypes.as_ref().and_then(|e| const_eval::dtype_set(&Env::default(), e).ok());
    let accepted = accepted.unwrap_or(DTypeSet::all());
    let mut diags = Vec::new();
    for (number, span) in literals(body) {
        // the accepted dtypes whose compute dtype can't hold the number
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

/// The first call with `T` of `dtype` whose loops lose `number`.
fn lost(row: &Arc<Row>, body: &Block, set: &RowSet, dtype: DType, number: Scalar) -> Option<String> {
    let family = cases::family(row, dtype);
    let loses = |case: &&cases::Case| {
        let Ok(nest) = lower_with(row, body, &case.solved, set) else { return false };
        let is = |inner: &LoopExpr| inner.as_const() == Some(number);
        any_in(&nest, &mut |part| matches!(part.op(), SOp::Cast(inner) if is(inner) && !holds(part.ty(), number)))
    };
    family.cases.iter().find(loses).map(|case| case.show(row))
}

/// The numbers of a body with their places. A number includes its sign.
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
