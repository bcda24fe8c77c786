//! Archives of `torch.export.save`: the program inside.

use super::{files, models};
use crate::draws::Draws;
use crate::grammar::{archive, text};
use crate::target::{FuzzTarget, Outcome, PROGRAM};

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "pt2",
    about: "exported programs of PyTorch are read or refused, and run",
    seeds,
    mutate,
    run,
    limits: PROGRAM,
};

/// The small models: others take long to write and to read.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = files::below("compat/models/data", "pt2");
    seeds.retain(|seed| seed.len() < 40_000);
    seeds
}

fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    archive::records_mutated(draws, a, b).unwrap_or_else(|| text::bytes(draws, a))
}

fn run(input: &[u8]) -> Outcome {
    models::read("pt2", input, true)
}
