//! Loops over tiles: how fusions are scheduled ([`schedule`]), compiled ([`program`]) and run
//! ([`run`]).

mod alias;
mod asks;
mod chains;
mod emit;
mod fused_chain;
mod lines;
mod nodes;
pub mod program;
mod run;
mod schedule;

pub use nodes::stored_bits;
pub use program::Program;
pub use schedule::{Linear, load_bytes, out_bytes, scatter_bytes};

use crate::executors::fusion::fuse::Group;
use crate::executors::fusion::items::Env;
use fulgurite_kernels::abi::Level;

/// Compiles a group. Cursors name the dense values that they access.
pub fn compile(group: &Group, env: &Env, isa: Level) -> Program {
    let nesting = schedule::nest(group, env);
    emit::emit(group, &nesting, env, isa)
}
