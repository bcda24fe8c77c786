//! x
use fulgurite_codegen::{check, diag::Diagnostics, schema, source::Sources};
fn main() {
    let want = std::env::args().nth(1);
    let text = std::fs::read_to_string("ops.yaml").unwrap();
    let mut sources = Sources::default();
    let mut diags = Diagnostics::new();
    let id = sources.add("ops.yaml", text);
    let db = schema::read_database(id, &sources, &mut diags);
    for r in &db.rows {
        let row = r.lower_to_row();
        let t = std::time::Instant::now();
        let f = check::cases::family(&row, fulgurite_core::DType::F32);
        if want.as_deref().is_some_and(|w| row.op == w) { for c in &f.cases { println!("  {}", c.show(&row)); } }
        if want.is_none() { println!("{:16} {:3} {:?} {}", row.op.as_str(), f.cases.len(), t.elapsed(), f.refused.map_or(String::new(), |r| r.message)); }
    }
}
