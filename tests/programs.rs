//! Random programs of several lines on the cpu executor ([`fulgurite_tests::draws`]).

use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::programs::Random;

const PROGRAMS: usize = 400;

#[test]
fn fused_programs_give_what_their_lines_give() {
    let name = "fused_programs_give_what_their_lines_give";
    let property = Property { name, test: "--test programs", cases: PROGRAMS, shrinks: true };
    let held = draws::hold(
        &property,
        |_, rng| Some(Random::draw(rng, &[1, 2, 3, 5, 33])),
        |program, _| program.agrees("cpu").map(|()| Verdict::Held),
    );
    held.unwrap_or_else(|fault| panic!("{fault}"));
}
