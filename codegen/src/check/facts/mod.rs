//! The kernel families that serve rows.

mod family;

use std::sync::Arc;

use fulgurite_core::Value;
use fulgurite_core::loop_nest::Nest;
use fulgurite_core::lower::{Rows, lower_with};
use fulgurite_core::row::Row;

use super::cases::Case;

pub use family::Family;
pub(crate) use family::is_affine;

/// The kernel family that serves a call of the row, and the pattern by which it was recognised. A composite has none
/// of its own. The command `cargo ops explain` prints both.
pub fn served(row: &Arc<Row>, case: &Case, rows: &dyn Rows) -> Option<(Family, String)> {
    let nest = lower_with(row, row.index_body()?, &case.solved, rows).ok()?;
    Some(family::of(row, &nest))
}

/// Whether no kernel family serves a row with these calls, so that it runs loop by loop.
pub fn is_generic(row: &Arc<Row>, rows: &dyn Rows, calls: &[Case]) -> bool {
    if row.is_pointwise() || row.index_body().is_none() {
        return false;
    }
    let kernel = typical(calls).and_then(|case| served(row, case, rows));
    kernel.is_some_and(|(family, _)| family == Family::Generic)
}

/// The family that serves the loops of a row with these calls. `None` for a program of rows.
pub fn loops(row: &Arc<Row>, rows: &dyn Rows, calls: &[Case]) -> Option<Family> {
    Some(served(row, typical(calls)?, rows)?.0)
}

/// The first case in which every tensor and list that is given has several elements, else the first case.
/// The command `cargo ops explain` takes its facts from this case too.
pub fn typical(cases: &[Case]) -> Option<&Case> {
    use fulgurite_core::signature::ArgTy;
    let elements = |v: &Value<ArgTy>| match v {
        Value::Tensor(ArgTy::Tensor(t)) => t.numel() > 1,
        Value::List(items) => items.len() > 1,
        _ => true,
    };
    cases.iter().find(|case| case.args.iter().all(elements)).or(cases.first())
}

/// Calls `f` on every part of every result.
pub(crate) fn each(nest: &Nest, f: &mut dyn FnMut(&fulgurite_core::loop_nest::LoopExpr)) {
    for out in &nest.outs {
        super::walk::each(&out.expr, &mut |part| f(part));
    }
}
