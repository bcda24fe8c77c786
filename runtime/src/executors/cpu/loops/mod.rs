//! Loops over tiles: how fusions are scheduled and run.

mod alias;
mod asks;
mod emit;
mod lines;
mod nodes;
mod pairs;
pub mod program;
mod run;
mod schedule;

pub use nodes::stored_bits;
pub use program::Program;
pub use run::{Fault, Memory};
pub use schedule::{Env, Linear, load_bytes, out_bytes};

use super::fuse::Group;
use super::kern::Isa;

/// Compiles a group; cursors name the dense values that they access.
pub fn compile(group: &Group, env: &Env, isa: Isa) -> Program {
    let nesting = schedule::nest(group, env);
    emit::emit(group, &nesting, env, isa)
}
