//! Models of ONNX.

use super::{files, models};
use crate::draws::Draws;
use crate::grammar::{message, text};
use crate::target::{FuzzTarget, Outcome, PROGRAM};

/// The target.
pub const TARGET: FuzzTarget = FuzzTarget {
    name: "onnx",
    about: "models of ONNX are read or refused, and run",
    seeds,
    mutate,
    run,
    limits: PROGRAM,
};

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = files::below("compat/models/data", "onnx");
    seeds.extend(files::below("tests/data/onnx", "onnx"));
    seeds
}

fn mutate(draws: &mut Draws, a: &[u8], b: &[u8]) -> Vec<u8> {
    match draws.below(12) {
        0 => text::bytes(draws, a),
        _ => message::mutant(draws, a, b).unwrap_or_else(|| text::bytes(draws, a)),
    }
}

fn run(input: &[u8]) -> Outcome {
    models::read("onnx", input, true)
}
