//! Which rows run as loop nests: interpreted element by element, some hundred times slower than fused code. The rows of
//! which a call does so, or its gradient, are recorded, so that a change that brings a row there is seen.

use fulgurite::executors;
use fulgurite::trace::Trace;
use fulgurite::transforms::vjp::float_inputs;
use fulgurite::transforms::{Seed, joint};
use fulgurite_core::DType;
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Values, Wish};
use fulgurite_tests::programs::compile_with;
use fulgurite_tests::rng::{Rng, seed};
use fulgurite_tests::rows::{TestRow, rows};
use libtest_mimic::{Failed, Trial};
use std::collections::BTreeSet;
use std::path::Path;

/// Calls of a row. Presence and words of options come up in turn.
const CALLS: usize = 3;
/// How the names of steps that interpret a loop nest begin.
const SLOW: &str = "loop nest";
/// The recorded list, one row and what falls back in a line.
const LIST: &str = "data/loop-nests.txt";

/// The test.
pub fn trial() -> Trial {
    Trial::test("every_row::p25_loop_nests_are_recorded", check)
}

fn check() -> Result<(), Failed> {
    let found: BTreeSet<String> = rows().source.iter().flat_map(of_row).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let text: String = found.iter().map(|line| format!("{line}\n")).collect();
        return Ok(std::fs::write(path, text)?);
    }
    let known: BTreeSet<String> = std::fs::read_to_string(path)?.lines().map(str::to_owned).collect();
    let listed = |lines: BTreeSet<&String>| lines.into_iter().map(|line| format!("\n  {line}")).collect::<String>();
    let (new, gone) = (listed(found.difference(&known).collect()), listed(known.difference(&found).collect()));
    match (new.is_empty(), gone.is_empty()) {
        (true, true) => Ok(()),
        (true, false) => {
            Err(format!("these run as fused code now; UPDATE_EXPECT=1 takes them off tests/{LIST}:{gone}"))
        }
        _ => Err(format!(
            "these run as loop nests now, some hundred times slower than fused code; mend the row's text or what the \
             fused executor takes, or accept them in tests/{LIST} with UPDATE_EXPECT=1:{new}"
        )),
    }
    .map_err(Failed::from)
}

/// The lines of the list for a row: its name, whether the row itself or its gradient falls back, and why.
fn of_row(row: &TestRow) -> BTreeSet<String> {
    let mut rng = Rng::new(seed(row.row.op.as_str(), SLOW));
    let mut lines = BTreeSet::new();
    for case in 0..CALLS {
        let wish = Wish { dtype: row.preferred(DType::F32), values: Values::Tame, numbers: false, empty: false, case };
        let Some(program) = calls::generate(row, &wish, &mut rng).and_then(|call| bridge::record(&call).ok()) else {
            continue;
        };
        let mut of = |kind: &str, why: &str| lines.insert(format!("{} {kind}: {why}", row.row.op));
        let forward = nests(&program.trace);
        forward.iter().for_each(|why| _ = of("itself", why));
        let gradient = gradient(&program.trace).map_or(Vec::new(), |gradient| nests(&gradient));
        gradient.iter().skip(forward.len()).for_each(|why| _ = of("gradient", why));
    }
    lines
}

/// The program with the gradients of all its results by all its inputs, if they exist.
fn gradient(trace: &Trace) -> Option<Trace> {
    let wrt = float_inputs(trace);
    let made = joint(trace, &wrt, &vec![Seed::Input; trace.outputs().len()]).ok()?;
    (!wrt.is_empty()).then(|| made.closed().trace)
}

/// The steps of a program that interpret a loop nest, with the reason.
fn nests(trace: &Trace) -> Vec<String> {
    let compiled = compile_with(trace, "cpu", |options| options.executors = executors::default());
    let steps = compiled.map_or(Vec::new(), |compiled| compiled.describe().steps);
    steps.into_iter().map(|step| step.what).filter(|what| what.starts_with(SLOW)).collect()
}
