//! x
use fulgurite_codegen::{check, diag::{self, Diagnostics}, schema, source::Sources};
fn main() {
    let path = std::env::args().nth(1).unwrap_or("ops.yaml".into());
    let text = std::fs::read_to_string(&path).unwrap();
    let mut sources = Sources::default();
    let mut diags = Diagnostics::new();
    let id = sources.add(&path, text);
    let t = std::time::Instant::now();
    let db = schema::read_database(id, &sources, &mut diags);
    let t1 = t.elapsed();
    let c = check::run(&db, &fulgurite_core::lower::NoRows, &sources, &mut diags);
    println!("{}", diag::render::text(&diags, &sources, Default::default()));
    for (s, r) in db.rows.iter().zip(&c.rows) {
        let o = s.lower_to_row();
        if o.dtypes != r.dtypes { println!("{} dtypes found: {}", r.op, r.dtypes.as_ref().unwrap()); }
        if o.promote != r.promote { println!("{} promote found: {}", r.op, r.promote.as_ref().unwrap()); }
    }
    println!("{} rows read {t1:?}, all {:?}", db.rows.len(), t.elapsed());
}
