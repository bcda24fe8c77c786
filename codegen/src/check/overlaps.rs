//! E113: overloads of one operator never accept the same call, wherever their rows stand.

use std::sync::Arc;

use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, ArgTy};
use fulgurite_core::{Name, Value};

use super::cases::{Case, Family};
use super::rows::{self, RowSet};
use crate::diag::Diag;
use crate::schema::RowSource;

/// Whether another overload accepts a call of `source`'s family. Each pair is reported at the row that stands later.
pub fn check(
    source: &RowSource,
    row: &Row,
    family: &Family,
    rows: &RowSet,
    place_of: &dyn Fn(Name) -> Option<(crate::source::Place, usize)>,
) -> Option<Diag> {
    let base = rows::base(row.op).unwrap_or(row.op);
    let others: Vec<Arc<Row>> = rows.candidates(base).into_iter().filter(|other| other.op != row.op).collect();
    let here = place_of(row.op).map_or(0, |(_, n)| n);
    others.iter().find_map(|other| {
        // rows of an upstream database count as earlier than all of these
        let at = place_of(other.op);
        let there = at.map(|(_, n)| n);
        let case = family.cases.iter().find(|case| accepts(other, row, case))?;
        // the earlier row would report the same pair
        (there.is_none_or(|there| here > there) || !family_meets(other, row)).then(|| {
            let message = format!("`{}` and `{}` both accept a call", other.op, row.op);
            let diag = Diag::error("E113", source.sig.text.place, message);
            let diag = match at {
                Some((place, _)) => diag.label(place, format!("`{}` is here", other.op)),
                None => diag.note(format!("`{}` is a row of `--upstream`", other.op)),
            };
            let diag = diag.note(format!("with {}", case.show(row)));
            diag.help("tell them apart by ranks, dtype classes or the names of options")
        })
    })
}

/// Whether the family of the other overload shows the pair as well, so that one report is enough.
fn family_meets(other: &Row, row: &Row) -> bool {
    let family = super::cases::family(other, fulgurite_core::DType::F32);
    family.cases.iter().any(|case| accepts(row, other, case))
}

/// Whether `other` accepts a call of `row`, arguments by position and options by name.
fn accepts(other: &Row, row: &Row, case: &Case) -> bool {
    let n = row.sig.params.len();
    let mut positional: Vec<Value<ArgTy>> = case.args[..n].to_vec();
    while positional.last().is_some_and(Value::is_absent) {
        positional.pop();
    }
    let given = row.sig.opts.iter().zip(&case.args[n..]).filter(|(_, value)| !value.is_absent());
    let named = given.map(|(opt, value)| (opt.name.name, value.clone())).collect();
    signature::arrange(other, positional, named).is_ok_and(|args| signature::solve_types(other, &args).is_ok())
}
