//! The targets. Each has a file with its seeds, its mutator and its laws.

mod archives;
mod cases;
mod expressions;
mod files;
mod fmt;
mod models;
mod onnx;
mod pt2;
mod rows;
mod rules;
mod safetensors;
mod schedules;
mod traces;

use crate::target::FuzzTarget;

/// All targets, by name.
pub const ALL: &[&FuzzTarget] = &[
    &archives::TARGET,
    &cases::TARGET,
    &expressions::TARGET,
    &fmt::TARGET,
    &onnx::TARGET,
    &pt2::TARGET,
    &rows::TARGET,
    &rules::TARGET,
    &safetensors::TARGET,
    &schedules::TARGET,
    &traces::TARGET,
];
