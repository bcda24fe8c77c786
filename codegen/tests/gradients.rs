//! Derived gradients of every row of `ops.yaml` and of the rows tried before it.

use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::Sources;
use fulgurite_core::derive;
use fulgurite_core::row::Row;
use std::sync::Arc;

fn rows(text: &str) -> (Vec<Arc<Row>>, Table) {
    let mut sources = Sources::default();
    let mut diagnostics = Diagnostics::new();
    let id = sources.add("ops.yaml", text);
    let database = read_database(id, &sources, &mut diagnostics);
    let rows: Vec<Arc<Row>> = database.rows.iter().map(|r| Arc::new(r.lower_to_row())).collect();
    let mut table = Table::default();
    rows.iter().for_each(|r| table.insert(r.clone()));
    (rows, table)
}

fn files() -> Vec<(&'static str, String)> {
    let tried = std::fs::read_to_string("../core/tests/data/rows-tried.yaml").expect("a file of this crate");
    let tried = format!("ops:\n{tried}");
    let ops = std::fs::read_to_string("../ops.yaml").expect("the database");
    vec![("ops.yaml", ops), ("rows-tried.yaml", tried)]
}

#[test]
#[ignore = "prints every derived rule"]
fn dump() {
    for (file, text) in files() {
        println!("==== {file}");
        let (rows, table) = rows(&text);
        for row in rows {
            let d = derive::derive(&row, &table);
            if d.rules.is_empty() && d.failed.is_empty() {
                continue;
            }
            println!("{}{}", row.op, row.sig);
            for (arg, rule) in &d.rules {
                println!("  {arg}: {}", rule.to_string().replace('\n', "\n     "));
            }
            for (arg, why) in &d.failed {
                println!("  {arg}: NO {why}");
            }
            for r in &d.rows {
                let body = r.index_body().map(ToString::to_string).unwrap_or_default();
                println!("    {}{}\n      = {}", r.op, r.sig, body.replace('\n', "\n        "));
            }
        }
    }
}
