//! A row's calls on the kernels made of them.

use super::cases::{self, Verdict};
use super::general::{GENERAL, same_bits};
use fulgurite_core::DType;
use fulgurite_tests::calls::spoiled::{AT_RUN_TIME, spoiled};
use fulgurite_tests::calls::{Call, Values, Wish};
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use fulgurite_tests::{bound, bridge};
use libtest_mimic::Failed;

/// The number of calls of each row. The process whose memory accesses are watched is slow, so it has a third of them.
fn calls() -> usize {
    if super::is_watched() { 2 } else { 6 }
}

/// The executors of a call. A line without a CUDA kernel, such as a sort, runs on the processor, with transfers around it.
const EXECUTORS: [&str; 2] = ["cuda", "cpu"];

/// The executors of a call whose CUDA kernels take their sizes as arguments.
const TAKING_SIZES: [&str; 2] = [GENERAL, "cpu"];

/// Whether a call also runs on general kernels. An eighth of the calls does, because compiling them takes time.
fn in_general(rng: &mut Rng) -> bool {
    !super::is_watched() && rng.one_in(8)
}

const DTYPES: [Option<DType>; 6] =
    [Some(DType::F32), Some(DType::BF16), None, Some(DType::F64), Some(DType::F16), Some(DType::I64)];

fn wish(case: usize) -> Wish {
    // floats, then whatever the row is for
    let case = if super::is_watched() { 2 * case } else { case };
    let dtype = DTYPES[case % DTYPES.len()];
    Wish { dtype, values: Values::of_case(case), numbers: case.is_multiple_of(4), empty: true, case }
}

/// Makes the programs of a row, so that the device knows their kernels.
pub fn announce(row: &TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, calls(), wish, |call, rng| {
        let program = bridge::record(call).map_err(|e| format!("meta refuses what the signature accepts: {e}"))?;
        program.compile(&EXECUTORS, 1).map_err(|e| e.to_string())?;
        if in_general(rng) {
            program.compile(&TAKING_SIZES, 1).map_err(|e| e.to_string())?;
        }
        Ok(Verdict::Held)
    })
}

/// Makes programs of calls in f32 that differ in their sizes, with kernels of both forms.
pub fn announce_sizes(row: &TestRow, test: &str, calls: usize) -> Result<(), Failed> {
    let wish =
        |case| Wish { dtype: Some(DType::F32), values: Values::of_case(case), numbers: false, empty: false, case };
    cases::each(row, test, calls, wish, |call, _| {
        let program = bridge::record(call).map_err(|e| format!("meta refuses what the signature accepts: {e}"))?;
        for executors in [EXECUTORS, TAKING_SIZES] {
            program.compile(&executors, 1).map_err(|e| e.to_string())?;
        }
        Ok(Verdict::Held)
    })
}

/// What the kernels give is what the row says, and they refuse the elements that it refuses.
pub fn check(row: &TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, calls(), wish, |call, rng| {
        let general = in_general(rng);
        let program = bridge::record(call).map_err(|e| format!("meta refuses what the signature accepts: {e}"))?;
        let want = bridge::meaning(call)?;
        let compiled = program.compile(&EXECUTORS, 1).map_err(|e| e.to_string())?;
        let got = program.run(&compiled).map_err(|e| e.to_string())?;
        for (i, (got, want)) in got.iter().map(bridge::array).zip(&want).enumerate() {
            bound::compare(&got, want).map_err(|e| format!("result {i} {e}"))?;
        }
        if general {
            let compiled = program.compile(&TAKING_SIZES, 1).map_err(|e| e.to_string())?;
            same_bits(&program.run(&compiled).map_err(|e| e.to_string())?, &got)?;
        }
        let executors = if general { &TAKING_SIZES } else { &EXECUTORS };
        if row.may_refuse() { refuses(call, rng, executors).map(|()| Verdict::Held) } else { Ok(Verdict::Held) }
    })
}

/// A call with other elements has the same kernels: what the interpreter refuses of it, they refuse.
fn refuses(call: &Call, rng: &mut Rng, on: &[&str]) -> Result<(), String> {
    for spoiled in spoiled(call, rng) {
        let program = bridge::record(&spoiled).map_err(|e| format!("{e}\n  in {spoiled}"))?;
        let run = |executors: &[&str]| match program.compile(executors, 1) {
            Ok(compiled) => program.run(&compiled).map(drop),
            Err(e) => Err(e),
        };
        let Err(refused) = run(&["interp"]) else { continue };
        if !AT_RUN_TIME.contains(&refused.code) {
            continue;
        }
        match run(on) {
            Err(e) if AT_RUN_TIME.contains(&e.code) => {}
            Err(e) => return Err(format!("{e}, interpreted: {refused}\n  in {spoiled}")),
            Ok(()) => return Err(format!("a value, interpreted: {refused}\n  in {spoiled}")),
        }
    }
    Ok(())
}
