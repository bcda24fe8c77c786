//! Derived gradients of every row of `ops.yaml` and of the rows tried before it.

mod common;

use fulgurite_codegen::check::cases;
use fulgurite_codegen::check::gradients::arrays::dense::{Dense, Library, Stop, V};
use fulgurite_codegen::check::gradients::arrays::instance::{Instance, dot};
use fulgurite_codegen::check::gradients::arrays::numbers::Numbers;
use fulgurite_codegen::check::gradients::samples;
use fulgurite_codegen::check::rows::RowSet;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::Sources;
use fulgurite_core::derive;
use fulgurite_core::lang::Block;
use fulgurite_core::lower::NoRows;
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Name, Value};
use std::collections::HashSet;
use std::sync::Arc;

fn rows(text: &str) -> Vec<Arc<Row>> {
    let mut sources = Sources::default();
    let mut diagnostics = Diagnostics::new();
    let id = sources.add("ops.yaml", text);
    let database = read_database(id, &sources, &mut diagnostics);
    database.rows.iter().map(|r| Arc::new(r.lower_to_row())).collect()
}

const JOINED: &str = "ops:
- op: totals
  doc: The product of the sums of x and of a w that repeats along it
  sig: '(x: T[..S], w: T[~S]) -> T[]'
  promote: equal
  dtypes: float
  expr: 'sum[..s](x[..s]) * sum[..s](w[~s])'

- op: totals_of_both
  doc: The product of the sums of two that repeat along one another
  sig: '(x: T[~S], w: T[~S]) -> T[]'
  promote: equal
  dtypes: float
  expr: 'sum[..s](x[~s]) * sum[..s](w[~s])'
";

/// The name of a file, its rows, and all rows that these may call.
type File = (&'static str, Vec<Arc<Row>>, Vec<Arc<Row>>);

fn files() -> Vec<File> {
    let tried = std::fs::read_to_string("../core/tests/data/rows-tried.yaml").expect("a file of this repository");
    let tried = rows(&format!("ops:\n{tried}"));
    let ops = rows(&common::joined());
    let own: HashSet<_> = tried.iter().map(|r| r.op).collect();
    let rest = ops.iter().filter(|r| !own.contains(&r.op)).cloned();
    let all: Vec<Arc<Row>> = tried.iter().cloned().chain(rest).collect();
    // no argument that is left in a derived row determines the length of a broadcast axis by itself
    let joined = rows(JOINED);
    vec![("ops.yaml", ops.clone(), ops), ("rows-tried.yaml", tried, all), ("joined", joined.clone(), joined)]
}

/// At most this many elements per call, because larger calls take too long to compare.
const MOST_ELEMENTS: usize = 400;

/// Compares every rule of `row` with the derivative by dual numbers. Returns the number of comparisons.
fn compare(row: &Row, rules: &[(Name, Block)], library: &Library, faults: &mut Vec<String>) -> usize {
    let mut done = 0;
    let dtype = samples::element(row).unwrap_or(DType::F64);
    let family = cases::family(row, dtype);
    let fits = |i: &Instance| {
        let g = i.cotangents(&mut Numbers::new(5));
        rules.iter().all(|(arg, rule)| match position(row, *arg) {
            Some(at) if flows(&g) => !matches!(i.vjp(library, rule, at, &g), Err(Stop::Data(_))),
            _ => true,
        })
    };
    for (n, case) in family.cases.iter().enumerate().filter(|(_, case)| case.numel() <= MOST_ELEMENTS) {
        let drawn = samples::domains(&[], &[], n)
            .find_map(|domain| samples::draw(library, row, case, &domain, n as u64, &fits));
        let Some(instance) = drawn else { continue };
        for (arg, rule) in rules {
            let Some(at) = position(row, *arg).filter(|at| is_float(&case.args[*at])) else { continue };
            let mut numbers = Numbers::new(1000 + n as u64);
            let g = instance.cotangents(&mut numbers);
            if !flows(&g) {
                continue;
            }
            let what = || format!("{}: `{arg}` for {}", row.op, case.show(row));
            let value = match instance.vjp(library, rule, at, &g) {
                Ok(v) => v,
                Err(e) => {
                    faults.push(format!("{}: {e:?}", what()));
                    continue;
                }
            };
            let direction: Vec<f64> = value.iter().map(|_| numbers.weight()).collect();
            let have = dot(&value, &direction);
            let want = match instance.along(&mut Dense::new(library), at, &|e| direction[e], &g) {
                Ok(w) => w,
                Err(e) => {
                    faults.push(format!("{}: along {e:?}", what()));
                    continue;
                }
            };
            done += 1;
            let scale = 1.0 + value.iter().map(|v| v.abs()).sum::<f64>() + want.abs();
            if (have - want).abs() > 1e-8 * scale || have.is_nan() {
                faults.push(format!("{}: rule {have}, derivative {want}", what()));
            }
        }
    }
    done
}

fn position(row: &Row, arg: Name) -> Option<usize> {
    row.sig.params.iter().position(|p| p.name.name == arg)
}

/// Whether some result has a cotangent. A rule without one is never run.
fn flows(g: &[Value<V<f64>>]) -> bool {
    g.iter().any(|g| !g.is_absent() && !matches!(g, Value::List(items) if items.is_empty()))
}

fn is_float(v: &Value<ArgTy>) -> bool {
    match v {
        Value::Tensor(ArgTy::Tensor(t)) => t.dtype.is_float(),
        Value::List(items) => items.iter().all(is_float),
        _ => false,
    }
}

/// A report of the faults in the rules derived for `row`, if there are any, and the rows that these rules call.
fn faults(file: &str, row: &Row, set: &RowSet, made: &[Row]) -> (Option<String>, Vec<Row>) {
    let d = derive::derive(row, set);
    let mut library = Library::new(set);
    library.extend(made.iter().chain(&d.rows).cloned());
    let mut faults = Vec::new();
    let done = compare(row, &d.rules, &library, &mut faults);
    let wrong = !faults.is_empty() || (done == 0 && !d.rules.is_empty());
    let some = faults.iter().take(3).cloned().collect::<Vec<_>>().join("\n   ");
    let report = format!("{file} {}: {done} compared, {} faults\n   {some}", row.op, faults.len());
    (wrong.then_some(report), d.rows)
}

#[test]
fn derived_rules_equal_the_derivative() {
    let mut report = Vec::new();
    for (file, rows, all) in files() {
        let set = RowSet::new(&NoRows, all, &[]);
        for row in rows.into_iter().filter(|row| row.no_grad.is_none()) {
            report.extend(faults(file, &row, &set, &[]).0);
        }
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
}

/// Rows that derived rules call are differentiated like any other, which gives second derivatives. Only pointwise
/// ones are tested, because others accept calls that no rule makes.
#[test]
fn second_derivatives_are_right() {
    let mut report = Vec::new();
    for (file, rows, all) in files().into_iter().take(1) {
        let set = RowSet::new(&NoRows, all, &[]);
        for row in rows.into_iter().filter(|row| row.no_grad.is_none()) {
            let (_, made) = faults(file, &row, &set, &[]);
            for inner in made.iter().filter(|row| row.is_pointwise()) {
                report.extend(faults(file, inner, &set, &made).0);
            }
        }
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
}

/// ∂²(x^y)/∂x∂y is 1/x at y = 0, where the first derivative in x is 0.
#[test]
fn a_power_of_zero_has_a_mixed_derivative() {
    let (_, rows, all) = files().swap_remove(0);
    let set = RowSet::new(&NoRows, all, &[]);
    let power = rows.iter().find(|row| row.op == "pow").expect("a row");
    let made = derive::derive(power, &set).rows;
    let slope = made.iter().find(|row| row.op == "pow.vjp.x").expect("the derivative in x");
    let mut library = Library::new(&set);
    library.extend(made.iter().cloned());
    let own = vec![(Name::new("y"), (0.0, 0.0))];
    let domain = samples::Domain::of(own, (0.5, 2.0));
    let (family, at) = (cases::family(slope, DType::F64), position(slope, Name::new("y")).expect("an argument"));
    for (n, case) in family.cases.iter().enumerate().filter(|(_, case)| is_float(&case.args[1])) {
        let instance = samples::draw(&library, slope, case, &domain, n as u64, &|_| true).expect("a call");
        let moves = instance.moves(&mut Dense::new(&library), at, &|_| 1.0).expect("a derivative");
        assert!(moves.iter().all(|x| *x != 0.0), "{}", case.show(slope));
    }
}
