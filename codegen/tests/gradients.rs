//! Derived gradients of every row of `ops.yaml` and of the rows tried before it.

use fulgurite_codegen::check::cases;
use fulgurite_codegen::check::gradients::dense::{Library, Stop};
use fulgurite_codegen::check::gradients::instance::{Domain, Instance, Numbers, dot, sizes};
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::Sources;
use fulgurite_core::derive;
use fulgurite_core::lower::NoRows;
use fulgurite_core::row::Row;
use fulgurite_core::sig::ArgTy;
use fulgurite_core::{DType, Value};
use std::collections::HashSet;
use std::sync::Arc;

fn rows(text: &str) -> Vec<Arc<Row>> {
    let mut sources = Sources::default();
    let mut diagnostics = Diagnostics::new();
    let id = sources.add("ops.yaml", text);
    let database = read_database(id, &sources, &mut diagnostics);
    database.rows.iter().map(|r| Arc::new(r.lower_to_row())).collect()
}

/// The rows of a file, and all rows that they may call.
fn files() -> Vec<(&'static str, Vec<Arc<Row>>, Vec<Arc<Row>>)> {
    let tried = std::fs::read_to_string("../core/tests/data/rows-tried.yaml").expect("a file of this repository");
    let tried = rows(&format!("ops:\n{tried}"));
    let ops = rows(&std::fs::read_to_string("../ops.yaml").expect("the database"));
    let own: HashSet<_> = tried.iter().map(|r| r.op).collect();
    let rest = ops.iter().filter(|r| !own.contains(&r.op)).cloned();
    let all: Vec<Arc<Row>> = tried.iter().cloned().chain(rest).collect();
    vec![("ops.yaml", ops.clone(), ops), ("rows-tried.yaml", tried, all)]
}

#[test]
#[ignore = "prints every derived rule"]
fn dump() {
    for (file, rows, all) in files() {
        println!("==== {file}");
        let set = RowSet::new(&NoRows, all, &[]);
        for row in rows {
            let d = derive::derive(&row, &set);
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

/// Intervals that most formulas are smooth on, tried in this order until a row has a value.
const INTERVALS: [(f64, f64); 3] = [(-1.7, 1.9), (0.15, 0.85), (1.1, 2.7)];

/// Compares every rule of `row` with the dual numbers' derivative; the number of comparisons.
fn compare(
    row: &Row,
    rules: &[(fulgurite_core::Name, fulgurite_core::lang::Block)],
    library: &Library,
    faults: &mut Vec<String>,
) -> usize {
    let mut done = 0;
    let family = cases::family(row, DType::F64);
    for (n, case) in family.cases.iter().enumerate() {
        let numel: usize = case.args.iter().map(size).sum();
        if numel > 400 {
            continue;
        }
        let instance = INTERVALS.iter().find_map(|other| {
            let domain = Domain { intervals: vec![], other: *other, whole: false };
            let (least, most) = sizes(case);
            let made = |top| Instance::new(library, row, case, &domain, n as u64, top).filter(|i| !i.has_nan());
            // a scatter does not see an index out of range, its gradient does
            made(most).filter(|i| fits(i, rules, library)).or_else(|| made(least))
        });
        let Some(instance) = instance else { continue };
        for (arg, rule) in rules {
            let Some(at) = row.sig.params.iter().position(|p| p.name.name == *arg) else { continue };
            if !is_float(&case.args[at]) {
                continue;
            }
            let mut numbers = Numbers::new(1000 + n as u64);
            let g = instance.cotangents(&mut numbers);
            // no result, no cotangent: the rule is never run
            if g.iter().all(|g| g.is_absent() || matches!(g, Value::List(items) if items.is_empty())) {
                continue;
            }
            let what = || format!("{}: `{arg}` for {}", row.op, case.show(row));
            let value = match instance.rule(library, rule, &g) {
                Ok(v) => v,
                Err(e) => {
                    faults.push(format!("{}: {e:?}", what()));
                    continue;
                }
            };
            let mut directions = Vec::new();
            let items = value.as_ref().map_or(0, Vec::len);
            for _ in 0..items {
                directions.push((0..400).map(|_| 2.0 * numbers.next() - 1.0).collect::<Vec<f64>>());
            }
            let u = |i: usize, e: usize| directions.get(i).and_then(|d| d.get(e)).copied().unwrap_or(0.3);
            let have: f64 = value.iter().flatten().zip(&directions).map(|(v, d)| dot(v, d)).sum();
            let want = match instance.along(library, at, &u, &g) {
                Ok(w) => w,
                Err(e) => {
                    faults.push(format!("{}: along {e:?}", what()));
                    continue;
                }
            };
            done += 1;
            let scale = 1.0 + have.abs().max(want.abs());
            if (have - want).abs() > 1e-8 * scale || have.is_nan() {
                faults.push(format!("{}: rule {have}, derivative {want}", what()));
            }
        }
    }
    done
}

fn fits(i: &Instance, rules: &[(fulgurite_core::Name, fulgurite_core::lang::Block)], library: &Library) -> bool {
    let g = i.cotangents(&mut Numbers::new(5));
    rules.iter().all(|(_, rule)| !matches!(i.rule(library, rule, &g), Err(Stop::Data(_))))
}

fn is_float(v: &Value<ArgTy>) -> bool {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) => t.dtype.is_float(),
        Value::List(items) => items.iter().all(is_float),
        _ => false,
    }
}

fn size(v: &Value<ArgTy>) -> usize {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) => t.numel(),
        Value::List(items) => items.iter().map(size).sum(),
        _ => 0,
    }
}

#[test]
fn derived_rules_equal_the_derivative() {
    let mut report = Vec::new();
    for (file, rows, all) in files() {
        let set = RowSet::new(&NoRows, all, &[]);
        for row in rows {
            let d = derive::derive(&row, &set);
            let mut library = Library::new(&set);
            library.extend(d.rows.iter().cloned());
            let mut faults = Vec::new();
            let done = compare(&row, &d.rules, &library, &mut faults);
            if !faults.is_empty() || (done == 0 && !d.rules.is_empty()) {
                report.push(format!(
                    "{file} {}: {done} compared, {} faults\n   {}",
                    row.op,
                    faults.len(),
                    faults.iter().take(3).cloned().collect::<Vec<_>>().join("\n   ")
                ));
            }
        }
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
}
