//! The project's own database passes every check.

mod common;

use std::path::Path;
use std::time::Instant;

use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::files::Files;
use fulgurite_codegen::fmt::{format, format_points};
use fulgurite_codegen::schema::json::MODELINE;
use fulgurite_codegen::schema::read_database;

const DATABASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ops.yaml");

#[test]
fn nothing_is_wrong_with_it() {
    let start = Instant::now();
    let (sources, file) = Files::read(Path::new(DATABASE), "ops.yaml").expect("the database").sources();
    let (_, diags, sources) = common::checked(sources, file);
    let seconds = start.elapsed().as_secs_f64();
    assert!(diags.is_empty(), "{}", common::report(&diags, &sources));
    println!("checked in {seconds:.2} s");
}

/// What builds on the rows alone finds them right too: three points at most stand with each, and show what it claims.
#[test]
fn the_rows_alone_are_right() {
    let files = Files::rows(Path::new(DATABASE), "ops.yaml").expect("the database");
    let (sources, file) = files.sources();
    let database = read_database(file, &sources, &mut Diagnostics::new());
    let many = database.rows.iter().filter(|row| row.tests.points.len() > 3).map(|row| row.op.as_str());
    let many: Vec<&str> = many.collect();
    assert!(many.is_empty(), "more than three points stand with {many:?}: the others belong to tests/points");
    let (diags, sources) = common::check("ops.yaml", &files.rows.text);
    assert_eq!(diags.errors(), 0, "{}", common::report(&diags, &sources));
}

/// `cargo ops fmt` changes nothing, and editors are told of the schema.
#[test]
fn it_is_in_the_one_form() {
    for file in ["ops.yaml", "examples/downstream/ops.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = std::fs::read_to_string(path).expect("a database");
        let made = format(file, &text).unwrap_or_else(|_| panic!("{file} can't be read"));
        let rows: Vec<&str> = made.changed.iter().map(|(op, _)| op.as_str()).collect();
        assert!(made.text == text, "{file} is not in the one form: cargo ops fmt {file}; rows: {rows:?}");
    }
    let files = Files::read(Path::new(DATABASE), "ops.yaml").expect("the database");
    assert_eq!(files.rows.text.lines().next(), Some(MODELINE));
    for points in files.points {
        let made = format_points(&points.shown, &points.text).map(|made| made.text);
        assert!(made.ok().as_ref() == Some(&points.text), "{} is not in the one form: cargo ops fmt", points.shown);
    }
}
