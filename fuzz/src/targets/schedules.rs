//! Texts of pipeline schedules.

use crate::draws::Draws;
use crate::grammar::text;
use crate::target::{FuzzTarget, InputAnswer, Outcome, READER, no_bug};
use fulgurite::schedule::{Costs, Generator, KINDS, Limits, Schedule, check, simulate};

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "schedules",
    about: "schedules of pipelines: what is read prints back as an equal one, is checked and simulated",
    seeds,
    mutate,
    run,
    limits: READER,
};

/// The words that this language alone has.
const OWN: &[&str] = &[
    "0F0",
    "1F0",
    "0B0",
    "1B1",
    "0I0",
    "0W0",
    "2F5",
    "(0F1;1B0)O",
    "0F1>",
    ">1F1",
    "R0",
    "R1",
    "r0:",
    "r1:",
    "r2",
    "stages",
    "micro-batches",
    "place",
    "tie",
    "stages 2, micro-batches 2, place 0 1\n",
    ", tie 0 1",
    "\n",
];

/// The words that a mutation puts in.
const WORDS: &[&[&str]] = &[OWN];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for kind in KINDS {
        for (ranks, micro_batches, chunks) in [(1, 1, 1), (2, 2, 1), (2, 4, 2), (4, 4, 1), (3, 5, 2)] {
            if let Ok(schedule) = (Generator { kind, ranks, micro_batches, chunks }).make() {
                seeds.push(schedule.to_string().into_bytes());
            }
        }
    }
    seeds
}

/// Either a mutated text, or one that is drawn by the grammar: works of a few stages in any order.
fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    if draws.below(4) > 0 {
        return text::mutate(draws, a, b, WORDS);
    }
    let (stages, batches, ranks) = (1 + draws.below(4), 1 + draws.below(4), 1 + draws.below(3));
    let place: Vec<String> = (0..stages).map(|_| draws.below(ranks + 1).to_string()).collect();
    let mut made = match draws.one_in(2) {
        true => format!("stages {stages}, micro-batches {batches}, place {}\n", place.join(" ")),
        false => String::new(),
    };
    for rank in 0..ranks {
        made += &format!("r{rank}:");
        for _ in 0..draws.below(12) {
            let mut work =
                || format!("{}{}{}", draws.below(stages + 1), draws.pick(&["F", "B", "I", "W"]), draws.below(batches));
            let (one, two) = (work(), work());
            made += &match draws.below(12) {
                0 => format!(" ({one};{two})O"),
                1 => format!(" {one}>"),
                2 => format!(" >{one}"),
                3 => format!(" R{}", draws.below(stages)),
                _ => format!(" {one}"),
            };
        }
        made.push('\n');
    }
    made.into_bytes()
}

fn run(input: &[u8]) -> Outcome {
    let text = String::from_utf8_lossy(input);
    let schedule: Schedule = match text.parse::<Schedule>() {
        Ok(schedule) => schedule,
        Err(e) => {
            no_bug(&e.to_string())?;
            return Ok(InputAnswer::refused([e.claim()]));
        }
    };
    let printed = schedule.to_string();
    match printed.parse::<Schedule>() {
        Ok(again) if again == schedule => {}
        Ok(again) => return Err(format!("the printed schedule is another one:\n{printed}\n{again}")),
        Err(e) => return Err(format!("the printed schedule is refused: {e}\n{printed}")),
    }
    let found = check(&schedule, &Limits { live: Some(3) });
    let mut signs: Vec<String> = found.iter().map(|violation| violation.law.to_string()).collect();
    let legal = check(&schedule, &Limits::default()).is_empty();
    let played = simulate(&schedule, &Costs::even(schedule.stages, 2, 1, 1));
    match &played {
        Err(e) if legal => return Err(format!("a legal schedule can't be simulated: {e}")),
        Err(e) => {
            no_bug(&e.to_string())?;
            signs.push(e.claim().split_whitespace().take(4).collect());
        }
        // costs at the end of their range
        Ok(_) => _ = simulate(&schedule, &Costs::even(schedule.stages, u64::MAX, u64::MAX, u64::MAX)),
    }
    signs.push(format!("{legal} {} {}", schedule.ranks().min(4), schedule.ties.len().min(3)));
    Ok(InputAnswer::accepted(signs))
}
