//! x
use fulgurite_codegen::{check, diag::Diagnostics, schema, source::Sources};
fn main() {
    let text = std::fs::read_to_string("ops.yaml").unwrap();
    for _ in 0..20 {
    let mut sources = Sources::default();
    let mut diags = Diagnostics::new();
    let t = std::time::Instant::now();
    let id = sources.add("ops.yaml", text.as_str());
    let db = schema::read_database(id, &sources, &mut diags);
    let r = t.elapsed();
    check::run(&db, &fulgurite_core::lower::NoRows, &sources, &mut diags);
    println!("{} {:?} {:?}", diags.errors(), r, t.elapsed());
    }
}
