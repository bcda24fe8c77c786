//! x
use fulgurite_codegen::{check, diag::Diagnostics, schema, source::Sources, pipeline::Table};
fn main() {
    let text = std::fs::read_to_string("ops.yaml").unwrap();
    let mut sources = Sources::default();
    let mut diags = Diagnostics::new();
    let id = sources.add("ops.yaml", text);
    let db = schema::read_database(id, &sources, &mut diags);
    let c = check::run(&db, &fulgurite_core::lower::NoRows, &sources, &mut diags);
    let mut t = Table::default();
    for r in &c.rows { t.insert(r.clone()); }
    let want: Vec<String> = std::env::args().skip(1).collect();
    for r in &c.rows {
        if !want.is_empty() && !want.iter().any(|w| r.op == w.as_str()) { continue }
        let d = fulgurite_core::derive::derive(r, &t);
        println!("== {}", r.op);
        for (a, b) in &d.rules { println!("  {a}: {b}"); }
        for r in &d.rows { println!("  row {}{} = {}", r.op, r.sig, r.index_body().unwrap()); }
        println!("  {:?} {:?}", d.notes, d.failed);
        let mut rules = r.vjp.clone(); rules.extend(d.rules.clone());
        for f in check::facts::of(r, &t, &rules, &d.rows).all { println!("    {:10} {} ({})", f.name, f.value, f.reason); }
    }
}
