//! Recorded calls of PyTorch, as the conformance command reads them.

use super::files;
use crate::draws::Draws;
use crate::grammar::{json, text};
use crate::target::{FuzzTarget, InputAnswer, Outcome, PROGRAM, no_bug};
use fulgurite_conformance::Tensors;
use std::sync::OnceLock;

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "cases",
    about: "recorded calls of PyTorch run or are refused, equally each time",
    seeds,
    mutate,
    run,
    limits: PROGRAM,
};

fn seeds() -> Vec<Vec<u8>> {
    let folder = "tests/data/conformance";
    let texts = ["cases", "more-cases", "model-cases"].map(|name| files::text(&format!("{folder}/{name}.jsonl")));
    let lines = texts.iter().flat_map(|text| text.lines()).filter(|line| line.len() < 3000);
    lines.map(|line| line.as_bytes().to_vec()).collect()
}

/// The names of all calls.
fn names() -> &'static Vec<String> {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let of =
            |seed: &Vec<u8>| serde_json::from_slice::<serde_json::Value>(seed).ok()?["op"].as_str().map(str::to_owned);
        seeds().iter().filter_map(of).collect()
    })
}

fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    if draws.one_in(30) {
        return text::mutate(draws, a, b, &[&["null", "true", "{}", "[]", "\"t\""]]);
    }
    let made = json::mutant(draws, a, b).unwrap_or_default();
    // the arguments of one operator go to another one
    match (draws.one_in(10), serde_json::from_slice::<serde_json::Value>(&made)) {
        (true, Ok(mut case)) if case.is_object() => {
            case["op"] = draws.pick(names()).into();
            serde_json::to_vec(&case).unwrap_or(made)
        }
        _ => made,
    }
}

fn run(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input).replace('\n', " ");
    let run = || fulgurite_conformance::run(&text, &Tensors::default(), None, |_| {});
    match run() {
        Err((_, why)) => Ok(InputAnswer::refused([why])),
        Ok(tally) => {
            no_bug(&tally.results)?;
            match run() {
                Ok(again) if again.results == tally.results => {}
                Ok(again) => {
                    return Err(format!("the second run gives another result:\n{}{}", tally.results, again.results));
                }
                Err((_, why)) => return Err(format!("the second run is refused: {why}")),
            }
            let forms = tally.results.split('"').skip(1).step_by(2).map(crate::target::form).take(60);
            let signs = forms.chain([format!("{} {}", tally.ran, tally.refused)]);
            Ok(InputAnswer { accepted: tally.ran > 0, ..InputAnswer::accepted(signs) })
        }
    }
}
