//! E201, E202, E203, E206, E303: a row accepts and yields exactly the dtypes that it declares.
//!
//! Dtypes are finite, so most of them are tried exhaustively. Every dtype of every `T`-argument is tried as tensor,
//! tensor of rank 0 and number. Rows of two arguments are tried with all pairs of these, rows of more with pairs
//! across categories and widths.
//!
//! A row may leave out its `dtypes` (those on which the body is defined), and a composite its `promote` (which the
//! dtypes that its body yields imply). Both are then inferred here and written into the row.

mod composite;
mod index;
mod tuples;

use std::sync::Arc;

use fulgurite_core::lang::{Dialect, parse_expr};
use fulgurite_core::row::{Meaning, Row};
use fulgurite_core::signature::{ArgTy, Env, const_eval};
use fulgurite_core::{DType, DTypeSet, Value};

use super::cases::{Case, Family};
use super::report::Rule;
use super::rows::RowSet;
use crate::diag::Diag;
use crate::grade::Grade;

/// The row with its inferred dtypes, or its fault.
pub fn check(rule: &Rule, row: &Arc<Row>, rows: &RowSet, family: &Family) -> Result<Arc<Row>, Box<Diag>> {
    match &row.meaning {
        Meaning::Expr(body) | Meaning::View(body) => index::check(rule, row, body, rows, family),
        Meaning::Decomp(body) => composite::check(rule, row, body, rows, family),
        Meaning::Host(_) => Ok(row.clone()),
    }
}

/// How far the dtypes of a correct row are verified, and by which calls.
pub fn grade(row: &Row, family: &Family) -> (Grade, &'static str) {
    let bases = tuples::bases(row, family);
    match (&row.meaning, bases.as_slice()) {
        (Meaning::Host(_), _) => (Grade::Tested, "by `p03` on calls with mixed dtypes"),
        (Meaning::Decomp(_), bases) => {
            let tried = bases.iter().map(|base| base.uniform().len() + base.mixed().len()).sum();
            (Grade::Checked(tried), "its body on each dtype, and on pairs that differ")
        }
        (_, [base]) if base.is_small() => (Grade::Proved, "every dtype of its arguments, in every form, was tried"),
        (_, bases) => {
            let first = bases.first().map_or(0, |base| base.thorough().len());
            let others: usize = bases.iter().skip(1).map(|base| base.uniform().len()).sum();
            (Grade::Checked(first + others), "each form of each argument, and pairs that differ")
        }
    }
}

/// Calls of `row`, accepted or not, for each combination of presence and words in the family. Where one or two places
/// vary, each has every dtype. Where more do, pairs of dtypes cross categories and widths.
pub fn calls(row: &Row, family: &Family) -> Vec<Vec<Value<ArgTy>>> {
    let bases = tuples::bases(row, family);
    let varied = bases.iter().flat_map(|base| base.thorough().into_iter().filter_map(|forms| base.args(&forms)));
    varied.chain(family.cases.iter().map(|case| case.args.clone())).collect()
}

/// Accepted calls with each float dtype other than `tried` for `T`, one for each combination of presence and words.
pub fn floats(row: &Row, family: &Family, tried: DType) -> Vec<Case> {
    let taken =
        row.dtypes.as_ref().and_then(|e| const_eval::dtype_set(&Env::default(), e).ok()).unwrap_or(DTypeSet::all());
    let is_other = |d: DType| d.is_float() && d != tried && taken.contains(d);
    let bases = tuples::bases(row, family);
    let uniform = bases.iter().flat_map(|base| base.uniform().into_iter().map(move |(d, forms)| (base, d, forms)));
    uniform.filter(|(_, d, _)| is_other(*d)).filter_map(|(base, _, forms)| base.call(row, &forms)).collect()
}

/// `row` with `dtypes` that leave out `undefined`.
fn without(row: &Arc<Row>, undefined: &[DType]) -> Arc<Row> {
    let missing: DTypeSet = undefined.iter().copied().collect();
    if missing.is_empty() {
        return row.clone();
    }
    let text = set_text(DTypeSet::all().minus(missing));
    let dtypes = parse_expr(&text, Dialect::Index).ok();
    Arc::new(Row { dtypes, ..Row::clone(row) })
}

/// The text of a set of dtypes: `all - bool - u8`.
pub fn set_text(set: DTypeSet) -> String {
    let mut text = "all".to_owned();
    for class in ["bool", "int", "float"] {
        let members = DTypeSet::from_class(class).unwrap_or(DTypeSet::EMPTY);
        let missing = DTypeSet::all().minus(set);
        if members.minus(missing).is_empty() {
            text += &format!(" - {class}");
        } else {
            members.iter().filter(|d| missing.contains(*d)).for_each(|d| text += &format!(" - {d}"));
        }
    }
    text
}
