//! E116: a `view` is what strides can say.

use std::sync::Arc;

use fulgurite_core::lower::lower_with;
use fulgurite_core::nest::{SOp, SOutside};
use fulgurite_core::row::{Meaning, Row};

use super::cases::Family;
use super::facts::is_affine;
use super::report::Rule;
use super::rows::RowSet;
use crate::diag::Diag;

/// Whether each result is one access whose indices grow evenly with the position.
pub fn check(rule: &Rule, row: &Arc<Row>, rows: &RowSet, family: &Family) -> Option<Diag> {
    let Meaning::View(body) = &row.meaning else { return None };
    family.cases.iter().find_map(|case| {
        let nest = lower_with(row, body, &case.solved, rows).ok()?;
        let why = nest.outs.iter().find_map(|out| match out.expr.op() {
            SOp::Load { outside, .. } if *outside != SOutside::Refuse => Some("elements outside are no elements of it"),
            SOp::Load { idx, .. } if !idx.iter().all(is_affine) => {
                Some("an index does not grow evenly with the position")
            }
            SOp::Load { .. } => None,
            _ => Some("it is no access"),
        })?;
        let message = format!("{} can't share the storage of its argument", rule.name());
        let diag = Diag::error("E116", rule.text.place, message).here(why);
        Some(diag.note(format!("for {}", case.show(row))).help("say `expr`: the result then has storage of its own"))
    })
}
