//! docs/operators.md is what the generator makes of ops.yaml.

use std::fs;
use std::path::Path;

use fulgurite_codegen::check;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::explain::reference;
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::Sources;
use fulgurite_core::lower::NoRows;

/// The reference of a database.
fn page(text: &str) -> String {
    let (mut sources, mut diags) = (Sources::default(), Diagnostics::new());
    let file = sources.add("ops.yaml", text);
    let database = read_database(file, &sources, &mut diags);
    let checked = check::run(&database, &NoRows, &sources, &mut diags);
    assert_eq!(diags.errors(), 0, "the database is broken");
    let mut table = Table::default();
    checked.rows.iter().for_each(|row| table.insert(row.clone()));
    reference::page(&database, &checked, &table, &sources)
}

/// `UPDATE_EXPECT=1` rewrites it.
#[test]
fn the_reference_is_that_of_the_database() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let path = root.join("docs/operators.md");
    let made = page(&fs::read_to_string(root.join("ops.yaml")).expect("the database"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(path, made).expect("the reference is written");
    }
    let stands = fs::read_to_string(path).unwrap_or_default();
    let differ = stands.lines().zip(made.lines()).position(|(a, b)| a != b);
    let line = differ.unwrap_or(stands.lines().count().min(made.lines().count())) + 1;
    assert!(
        stands == made,
        "docs/operators.md:{line} is not what ops.yaml says\n\
         accept with: UPDATE_EXPECT=1 cargo test -p fulgurite-codegen --test reference"
    );
}

/// Rows stand under the comments that divide the file; a database without such comments has one heading.
#[test]
fn comments_divide_the_page() {
    let row = |op: &str| format!("- op: {op}\n  doc: Twice x\n  promote: default\n  expr: x + x\n");
    let divided = "# a database\n\nops:\n\n# First things: they come first.\n# Each is one.\n\n";
    let divided = format!("{divided}{}\n# a remark\n{}", row("twofold"), row("twice"));
    let made = page(&format!("{divided}\n# second\n\n# of again\n{}", row("again")));
    assert!(made.contains("\n## First things\n\nThey come first. Each is one.\n\n### twofold\n"), "{made}");
    let headings: Vec<&str> = made.lines().filter(|line| line.starts_with("##")).collect();
    assert_eq!(headings, ["## First things", "### twofold", "### twice", "## Second", "### again"]);
    let plain = page(&format!("ops:\n{}", row("twofold")));
    assert!(plain.contains("\n## Operators\n\n### twofold\n\nTwice x.\n"), "{plain}");
}
