//! The references in docs are what the generator makes of the databases.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::fs;
use std::path::Path;

use common::databases;

use fulgurite_codegen::check;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::files::Files;
use fulgurite_codegen::pipeline::{self, Table};
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::{FileId, Sources};
use fulgurite_ops_verbs::explain::reference;

/// The reference of a database whose rows may use those of `upstream`.
fn page_of((sources, file): (Sources, FileId), upstream: &Table) -> String {
    let mut diags = Diagnostics::new();
    let mut database = read_database(file, &sources, &mut diags);
    database.upstream.clone_from(&upstream.classes);
    let upstream = upstream.completed_for(&database, &database.names().collect());
    let checked = check::run(&database, &upstream, &mut diags);
    assert_eq!(diags.errors(), 0, "the database is broken");
    let mut table = upstream.clone();
    checked.rows.iter().for_each(|row| table.insert(row.clone()));
    reference::page(&database, &checked, &table, &sources)
}

fn page(text: &str) -> String {
    let mut sources = Sources::default();
    let file = sources.add("ops.yaml", text);
    page_of((sources, file), &Table::default())
}

/// docs/operators.md, docs/pytorch-rows.md and docs/onnx-rows.md are up to date. `UPDATE_EXPECT=1` rewrites them.
#[test]
fn the_references_are_those_of_the_databases() {
    let pages = [
        ("docs/operators.md", "ops.yaml"),
        ("docs/pytorch-rows.md", "compat/pytorch/ops.yaml"),
        ("docs/onnx-rows.md", "compat/onnx/ops.yaml"),
    ];
    let mut upstream = Table::default();
    for (database, (page, shown)) in databases().into_iter().zip(pages) {
        let files = Files::read(&database, shown).expect("a database");
        let made = page_of(files.sources(), &upstream);
        if shown == "ops.yaml" {
            upstream = pipeline::read_rows(&files.rows.text, "ops.yaml").expect("rows");
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(path, made).expect("the reference is written");
            continue;
        }
        let stands = fs::read_to_string(path).unwrap_or_default();
        let differ = stands.lines().zip(made.lines()).position(|(a, b)| a != b);
        let line = differ.unwrap_or(stands.lines().count().min(made.lines().count())) + 1;
        assert!(
            stands == made,
            "{page}:{line} is not what {} says\n\
             accept with: UPDATE_EXPECT=1 cargo test -p fulgurite-ops-verbs --test reference",
            database.display()
        );
    }
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
