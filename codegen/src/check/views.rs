//! E116: strides can express a `view`.

use std::sync::Arc;

use fulgurite_core::eval::loop_nest::{Array, Data, run};
use fulgurite_core::lang::ast::Block;
use fulgurite_core::loop_nest::{SOp, SOutside};
use fulgurite_core::lower::{lower_with, positions};
use fulgurite_core::row::{Meaning, Row};

use super::cases::{Case, Family};
use super::facts::is_affine;
use super::report::Rule;
use super::rows::RowSet;
use crate::diag::Diag;

/// The fault of a result that is not one access whose indices grow evenly with the position.
pub fn check(rule: &Rule, row: &Arc<Row>, rows: &RowSet, family: &Family) -> Option<Diag> {
    let Meaning::View(body) = &row.meaning else { return None };
    family.cases.iter().find_map(|case| {
        let nest = lower_with(row, body, &case.solved, rows).ok()?;
        let why = nest.outs.iter().find_map(|out| match out.expr.op() {
            SOp::Load { outside, .. } if *outside != SOutside::Refuse => Some("elements outside are no elements of it"),
            SOp::Load { idx, .. } if !idx.iter().all(is_affine) && !grows_evenly(&family.cases, row, body, rows) => {
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

/// Whether the elements that a view shows lie evenly in memory though single indices do not grow evenly, as those of
/// `unravel(offset + sum[..](o * strides), S)`. All calls are run for that, and one of them must show more than two
/// elements.
fn grows_evenly(cases: &[Case], row: &Row, body: &Block, rows: &RowSet) -> bool {
    let mut long = false;
    let evenly = |case: &Case| {
        let Ok(nest) = lower_with(row, body, &case.solved, rows) else { return true };
        let Some(Some(base)) = case.solved.env.slots.first() else { return false };
        let shown = positions(&nest, &base.sizes()).map(|nest| run::<f64>(&nest, &[], &[]));
        let Some(Ok(shown)) = shown else { return false };
        shown.iter().all(|shown| {
            long |= shown.len() > 2;
            is_even(shown)
        })
    };
    cases.iter().all(evenly) && long
}

/// Whether a tensor of integers is `a + Σ sₖ·iₖ`.
fn is_even(x: &Array<f64>) -> bool {
    let Data::Int(elements) = &x.data else { return false };
    let Some(first) = elements.first() else { return true };
    let mut strides = vec![1usize; x.shape.len()];
    for axis in (1..x.shape.len()).rev() {
        strides[axis - 1] = strides[axis] * x.shape[axis];
    }
    let step = |axis: usize| if x.shape[axis] > 1 { elements[strides[axis]] - first } else { 0 };
    let steps: Vec<i64> = (0..x.shape.len()).map(step).collect();
    let at = |flat: usize| -> i64 {
        let index = |axis: usize| (flat / strides[axis] % x.shape[axis]) as i64;
        first + steps.iter().enumerate().map(|(axis, step)| index(axis) * step).sum::<i64>()
    };
    elements.iter().enumerate().all(|(flat, element)| *element == at(flat))
}
