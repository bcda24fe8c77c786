//! The project's own database passes every check.

mod common;

use std::time::Instant;

#[test]
fn nothing_is_wrong_with_it() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../ops.yaml")).expect("the database");
    let start = Instant::now();
    let (diags, sources) = common::check("ops.yaml", &text);
    let seconds = start.elapsed().as_secs_f64();
    assert!(diags.is_empty(), "{}", common::report(&diags, &sources));
    println!("checked in {seconds:.2} s");
}
