//! The commands.

mod bench;
mod eval;
mod trace;
mod train;

use crate::args::{Cli, Command};
use crate::fault::Outcome;
use crate::ui::Ui;
use clap::Parser;

/// Runs a command; without one, the demo.
///
/// # Errors
/// Why it stopped.
pub fn run(command: Option<Command>, ui: &Ui) -> Outcome {
    let command = match command {
        Some(command) => command,
        None => {
            ui.status("Running", "fulgurite train (no command given: this is the demo; --help for more)");
            // the defaults stand in the table alone: they are read from there
            match Cli::parse_from(["fulgurite", "train"]).command {
                Some(command) => command,
                None => return Ok(()),
            }
        }
    };
    match command {
        Command::Train(args) => train::run(&args, ui),
        Command::Trace(args) => trace::run(&args, ui),
        Command::Eval(args) => eval::run(&args, ui),
        Command::Bench(args) => bench::run(&args, ui),
    }
}
