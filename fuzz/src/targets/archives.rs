//! Archives whose directory contradicts itself: sizes, places, counts, flags.

use super::{models, pt2};
use crate::draws::Draws;
use crate::grammar::{archive, text};
use crate::target::{FuzzTarget, Outcome, READER};

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "archives",
    about: "sizes and places in the directory of an archive are used only if they agree with the file",
    seeds: pt2::seeds,
    mutate,
    run,
    limits: READER,
};

fn mutate(draws: &mut Draws, a: &[u8], _: &[u8]) -> Vec<u8> {
    match draws.below(12) {
        0 => text::bytes(draws, a),
        _ => archive::numbers_mutated(draws, a),
    }
}

fn run(input: &[u8]) -> Outcome {
    models::read("pt2", input, false)
}
