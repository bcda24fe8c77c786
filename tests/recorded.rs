//! Rows against values that PyTorch gave. What a row means is written by us, and nothing can prove that it is what
//! people expect under its name; these values pin it.

use fulgurite_core::DType;
use fulgurite_core::eval::nest::{Array, Data};
use fulgurite_tests::oracle;
use fulgurite_tests::recorded::{self, Case};
use fulgurite_tests::rows::rows;
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::HashMap;

/// Rows of which PyTorch has no values to compare: random ones have their own bits.
const WITHOUT: &[&str] = &["dropout", "uniform", "randn"];
/// At least so many recorded calls per row.
const LEAST: usize = 2;
/// PyTorch's f64 results carry rounding of their own: some hundred units in the last place in long sums.
const TOLERANCE: f64 = 1e-10;
/// Where PyTorch computes a default float (integers that become floats, `full`), its results have f32 precision.
const TOLERANCE_F32: f64 = 1e-6;

fn main() {
    let arguments = Arguments::from_args();
    let mut trials = vec![Trial::test("every_row_is_recorded", every_row)];
    for case in recorded::cases() {
        match case {
            Ok(case) => trials.push(Trial::test(format!("{}::meaning", case.name), move || meaning(&case))),
            Err(text) => trials.push(Trial::test(text.clone(), move || Err(Failed::from(text)))),
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn every_row() -> Result<(), Failed> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    let cases: Vec<Case> = recorded::cases().into_iter().flatten().collect();
    cases.iter().for_each(|c| *count.entry(c.row.row.op.as_str()).or_default() += 1);
    let names = rows().source.iter().map(|r| r.row.op.as_str());
    let few: Vec<&str> = names.filter(|n| !WITHOUT.contains(n) && count.get(n).copied().unwrap_or(0) < LEAST).collect();
    if few.is_empty() { Ok(()) } else { Err(format!("add cases to tests/data/make.py for {}", few.join(", ")).into()) }
}

/// The row's own text gives PyTorch's values.
fn meaning(case: &Case) -> Result<(), Failed> {
    let got = oracle::run(&case.row.row, &case.args).map_err(|e| e.to_string())?;
    if got.len() < case.out.len() {
        return Err(format!("{} results, {} were recorded", got.len(), case.out.len()).into());
    }
    for (i, (got, want)) in got.iter().zip(&case.out).enumerate() {
        compare(got, want).map_err(|e| format!("result {i}: {e}"))?;
    }
    Ok(())
}

fn compare(got: &Array<f64>, want: &Array<f64>) -> Result<(), String> {
    if (got.dtype, &got.shape) != (want.dtype, &want.shape) {
        return Err(format!("{}{:?}, PyTorch gave {}{:?}", got.dtype, got.shape, want.dtype, want.shape));
    }
    let tolerance = if want.dtype == DType::F64 { TOLERANCE } else { TOLERANCE_F32 };
    let wrong = |i: usize, a: &dyn std::fmt::Display, b: &dyn std::fmt::Display| {
        Err(format!("element {i} is {a}, PyTorch gave {b}"))
    };
    match (&got.data, &want.data) {
        (Data::Float(got), Data::Float(want)) => {
            for (i, (a, b)) in got.iter().zip(want).enumerate() {
                let close = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + b.abs());
                if !close {
                    return wrong(i, a, b);
                }
            }
        }
        (Data::Int(got), Data::Int(want)) => {
            if let Some(i) = (0..want.len()).find(|&i| got[i] != want[i]) {
                return wrong(i, &got[i], &want[i]);
            }
        }
        _ => return Err("floats meet integers".into()),
    }
    Ok(())
}
