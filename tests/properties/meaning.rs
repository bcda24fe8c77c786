//! P01: executors give the results that the row's text means.

use super::cases::{self, Verdict};
use fulgurite_core::DType;
use fulgurite_tests::bound;
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{Values, Wish};
use fulgurite_tests::rows::TestRow;
use libtest_mimic::{Failed, Trial};
use std::process::Command;

/// The dtypes in which calls are drawn. Floats are most frequent, and kernels exist for each dtype.
const DTYPES: &[Option<DType>] = &[
    Some(DType::F32),
    Some(DType::F64),
    None,
    Some(DType::F32),
    Some(DType::BF16),
    Some(DType::I64),
    Some(DType::F16),
    None,
    Some(DType::I32),
    Some(DType::U8),
    Some(DType::Bool),
];

fn wish(case: usize) -> Wish {
    let dtype = DTYPES[case % DTYPES.len()];
    Wish { dtype, values: Values::of_case(case), numbers: case.is_multiple_of(4), empty: true, case }
}

/// P01: `cpu` (tile kernels, products, fusions of a composite's lines) and `interp` agree with the row's own text.
pub fn executors(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, 30, wish, |call, _| {
        let program = bridge::record(call).map_err(|e| format!("meta refuses what the signature accepts: {e}"))?;
        let want = bridge::meaning(call)?;
        for executor in ["cpu", "interp"] {
            let both = [executor, "interp"];
            let compiled = program.compile(&both, 1).map_err(|e| format!("{executor}: {e}"))?;
            let got = program.run(&compiled).map_err(|e| format!("{executor}: {e}"))?;
            for (i, (got, want)) in got.iter().map(bridge::array).zip(&want).enumerate() {
                bound::compare(&got, want).map_err(|e| format!("{executor}: result {i} {e}"))?;
            }
        }
        Ok(Verdict::Held)
    })
}

/// The tests on other instruction sets, each in a process of its own, because a process chooses its set once.
pub fn other_instruction_sets() -> Vec<Trial> {
    if std::env::var_os("FULGURITE_ISA").is_some() {
        return Vec::new();
    }
    let sets = ["baseline", "avx2"];
    sets.into_iter().map(|set| Trial::test(format!("every_row::p01_on_{set}"), move || on(set))).collect()
}

fn on(set: &str) -> Result<(), Failed> {
    let out = Command::new(std::env::current_exe()?)
        .args(["p01_executors_give_the_meaning", "--test-threads=1"])
        .env("FULGURITE_ISA", set)
        .output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    if out.status.success() && text.contains("test result: ok") {
        return Ok(());
    }
    let failures = text.split("failures:").nth(1).unwrap_or(&text);
    Err(format!("with FULGURITE_ISA={set}:\n{failures}").into())
}
