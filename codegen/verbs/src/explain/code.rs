//! The generated text of one row.

use fulgurite_codegen::emit::{Artifacts, DatabaseParts, Emitted, Target, Unit};
use fulgurite_codegen::files::Files;
use fulgurite_codegen::pipeline::{self, Table};
use fulgurite_codegen::source::Sources;
use fulgurite_core::Name;

/// The Rust that is generated for `op` and the rows derived from it, one unit per file.
///
/// # Errors
/// The first message, if the database is broken.
pub fn of(op: &Name, files: &Files, upstream: &Table) -> Result<Vec<Unit>, String> {
    let mut compiled = pipeline::compile_files(files, upstream).map_err(|refused| {
        refused.diagnostics.sorted().first().map_or("the database is broken".to_owned(), |diag| diag.message.clone())
    })?;
    compiled.add_examples(|row| row.row.op == *op);
    let wanted: Vec<_> =
        compiled.rows.iter().filter(|row| row.row.op == *op || row.derived_from == Some(*op)).cloned().collect();
    Ok(units(&wanted, &compiled.table()))
}

/// The units of these rows.
pub fn units(rows: &[Emitted], table: &Table) -> Vec<Unit> {
    let artifacts = Artifacts::emit(
        &Target::upstream("fulgurite"),
        rows,
        &DatabaseParts { classes: &[], calls: &[], sources: &Sources::default(), reached: &[] },
        table,
    );
    let units = artifacts.database.into_iter().chain(artifacts.kernels);
    // The units that list all rows do not belong to these rows.
    units.filter(|unit| unit.path.contains('/')).collect()
}
