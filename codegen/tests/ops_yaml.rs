//! The project's own database passes every check.

mod common;

use std::time::Instant;

use fulgurite_codegen::pipeline::{Table, compile};

#[test]
fn nothing_is_wrong_with_it() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../ops.yaml")).expect("the database");
    let start = Instant::now();
    let (diags, sources) = common::check("ops.yaml", &text);
    let seconds = start.elapsed().as_secs_f64();
    assert!(diags.is_empty(), "{}", common::report(&diags, &sources));
    println!("checked in {seconds:.2} s");
}

/// The line that a build prints.
#[test]
fn a_build_is_one_line() {
    let row = |keys: &str| format!("- op: half\n  doc: Half\n  sig: '(x: T, y: T) -> T'\n  promote: float\n{keys}");
    let summary = |keys: &str| {
        let compiled = compile(&format!("ops:\n{}", row(keys)), "ops.yaml", &Table::default());
        compiled.map(|compiled| compiled.summary()).unwrap_or_else(|_| panic!("{keys}"))
    };
    let derived = summary("  expr: (x + y) / 2\n");
    assert_eq!(derived, "1 row; 2 gradient rules: 2 derived, 0 written (0 proved, 0 checked)");
}
