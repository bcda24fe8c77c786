//! The project's own databases pass every check.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::path::Path;
use std::time::Instant;

use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::files::Files;
use fulgurite_codegen::pipeline::{self, Table};
use fulgurite_codegen::schema::read_database;
use fulgurite_ops_verbs::fmt::{format, format_further};

/// The databases, read by `read`, each with the rows upstream of it.
fn databases(read: impl Fn(&Path, &str) -> Files) -> Vec<(Files, Table)> {
    let [own, pytorch, onnx] = common::databases();
    let own = read(&own, "ops.yaml");
    let table = || pipeline::read_rows(&own.rows.text, "ops.yaml").expect("rows");
    let downstream = [(pytorch, "compat/pytorch/ops.yaml"), (onnx, "compat/onnx/ops.yaml")];
    let downstream: Vec<_> = downstream.map(|(path, shown)| (read(&path, shown), table())).into();
    [(own, Table::default())].into_iter().chain(downstream).collect()
}

#[test]
fn nothing_is_wrong_with_them() {
    for (files, upstream) in databases(|path, shown| Files::read(path, shown).expect("a database")) {
        let ((sources, file), start) = (files.sources(), Instant::now());
        let (_, diags, sources) = common::checked_below(sources, file, &upstream);
        let seconds = start.elapsed().as_secs_f64();
        assert!(diags.is_empty(), "{}", common::report(&diags, &sources));
        println!("{} checked in {seconds:.2} s", files.rows.shown);
    }
}

/// The rows alone are right too, for those who build on them without other files. At most three points stand with
/// each row.
#[test]
fn the_rows_alone_are_right() {
    for (files, upstream) in databases(|path, shown| Files::rows(path, shown).expect("a database")) {
        let (sources, file) = files.sources();
        let database = read_database(file, &sources, &mut Diagnostics::new());
        let many = database.rows.iter().filter(|row| row.tests.points.len() > 3).map(|row| row.op.as_str());
        let many: Vec<&str> = many.collect();
        assert!(many.is_empty(), "more than three points stand with {many:?}: the others belong to files of points");
        let (sources, file) = files.sources();
        let (_, diags, sources) = common::checked_below(sources, file, &upstream);
        assert_eq!(diags.errors(), 0, "{}", common::report(&diags, &sources));
    }
}

/// `cargo ops fmt` changes nothing, and the first line tells editors of the schema.
#[test]
fn it_is_in_the_one_form() {
    for file in ["ops.yaml", "compat/pytorch/ops.yaml", "compat/onnx/ops.yaml", "examples/downstream/ops.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = std::fs::read_to_string(path).expect("a database");
        let made = format(file, &text).unwrap_or_else(|_| panic!("{file} can't be read"));
        let rows: Vec<&str> = made.changed.iter().map(|(op, _)| op.as_str()).collect();
        assert!(made.text == text, "{file} is not in canonical form: cargo ops fmt {file}; rows: {rows:?}");
    }
    for (files, _) in databases(|path, shown| Files::read(path, shown).expect("a database")) {
        assert!(files.rows.text.starts_with("# yaml-language-server: $schema="), "{} has no schema", files.rows.shown);
        for part in files.calls.iter().chain(&files.points) {
            let made = format_further(&part.shown, &part.text).map(|made| made.text);
            assert!(made.ok().as_ref() == Some(&part.text), "{} is not in canonical form: cargo ops fmt", part.shown);
        }
    }
}
