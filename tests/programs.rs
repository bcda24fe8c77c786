//! Random programs of several lines on the cpu executor ([`fulgurite_tests::draws`]).

use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::programs::Random;

const PROGRAMS: usize = 400;

/// Programs that Miri runs in some minutes.
const SMALL_PROGRAMS: usize = 10;

fn agree(name: &str, cases: usize, sizes: &[usize]) {
    let property = Property { name, test: "--test programs", cases, shrinks: true };
    let held = draws::hold(
        &property,
        |_, rng| Some(Random::draw(rng, sizes)),
        |program, _| program.agrees("cpu").map(|()| Verdict::Held),
    );
    held.unwrap_or_else(|fault| panic!("{fault}"));
}

#[test]
fn fused_programs_give_what_their_lines_give() {
    agree("fused_programs_give_what_their_lines_give", PROGRAMS, &[1, 2, 3, 5, 33]);
}

#[test]
#[ignore = "Miri runs it: docs/reliability.md"]
fn small_programs_give_what_their_lines_give() {
    agree("small_programs_give_what_their_lines_give", SMALL_PROGRAMS, &[1, 2, 3]);
}
