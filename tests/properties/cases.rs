//! The loop over cases that properties share.

use fulgurite_tests::calls::{self, Call, Wish};
use fulgurite_tests::rng::{self, Rng};
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// What a case said.
pub enum Verdict {
    /// The property held.
    Held,
    /// The case says nothing: a difference quotient across a kink, a call of another kind than was wished.
    #[allow(dead_code, reason = "no case of the kernels says nothing")]
    Discarded,
}

/// Checks `count` calls of a row. Fails with the smallest call for which `check` has something to say, and where more
/// than half of the cases were discarded: a property that is never asked holds nothing.
pub fn each(
    row: &TestRow,
    property: &str,
    count: usize,
    wish: impl Fn(usize) -> Wish,
    check: impl Fn(&Call, &mut Rng) -> Result<Verdict, String>,
) -> Result<(), Failed> {
    let op = row.row.op.as_str();
    let seed = rng::seed(op, property);
    let mut worst: Option<(usize, String)> = None;
    let (mut asked, mut discarded) = (0, 0);
    for case in 0..count * factor() {
        let mut rng = Rng::new(seed ^ (case as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let Some(call) = calls::generate(row, &wish(case), &mut rng) else { continue };
        asked += 1;
        match check(&call, &mut rng) {
            Ok(Verdict::Held) => {}
            Ok(Verdict::Discarded) => discarded += 1,
            Err(fault) => {
                let weight = call.weight();
                if worst.as_ref().is_none_or(|(w, _)| weight < *w) {
                    worst = Some((weight, format!("{fault}\n  in {call}\n  case {case}, seed {seed:#x}")));
                }
            }
        }
    }
    match worst {
        Some((_, text)) => Err(text.into()),
        None if asked == 0 => Err("no call was drawn".into()),
        None if 2 * discarded > asked => Err(format!("{discarded} of {asked} cases were discarded").into()),
        None => Ok(()),
    }
}

/// How many times as many cases are run.
fn factor() -> usize {
    std::env::var("FULGURITE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}
