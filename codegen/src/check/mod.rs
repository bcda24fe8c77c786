//! Checks: what can be proved of a row, or refuted, before anything is generated.

pub mod cases;
pub mod machine;
mod names;
pub mod report;
pub mod rows;
mod run;
mod shapes;
pub mod walk;

use std::sync::Arc;

use fulgurite_core::DType;
use fulgurite_core::lower::Rows;
use fulgurite_core::row::Row;

use crate::diag::Diagnostics;
use crate::schema::Database;
use crate::source::Sources;

/// Rows that passed.
pub struct Checked {
    /// In file order.
    pub rows: Vec<Arc<Row>>,
}

/// Checks the database.
pub fn run(db: &Database, upstream: &dyn Rows, _sources: &Sources, diags: &mut Diagnostics) -> Checked {
    let all: Vec<Arc<Row>> = db.rows.iter().map(|r| Arc::new(r.lower_to_row())).collect();
    let set = rows::RowSet::new(upstream, all.iter().cloned(), &db.broken);
    for (source, row) in db.rows.iter().zip(&all) {
        for diag in names::check(source, &set) {
            diags.push(diag);
        }
        let Some((what, text)) = report::body(source) else { continue };
        let rule = report::Rule { source, what: &format!("`{what}`"), text };
        let family = cases::family(row, DType::F32);
        if let Some(diag) = shapes::check(&rule, row, &set, &family) {
            diags.push(diag);
        }
    }
    Checked { rows: all }
}
