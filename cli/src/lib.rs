//! The command `fulgurite`: trains the demo, shows traces, evaluates expressions, runs benchmarks, and has the verbs of
//! `cargo ops`.
//!
//! | module | is |
//! |---|---|
//! | [`args`] | the command line: one table, from which clap makes the parser and the help |
//! | [`cmd`] | one module per command |
//! | [`ui`] | the terminal: lines, colours, curves, images |
//! | [`excerpt`] | a part of a typed expression, with a mark under it |
//! | [`fault`] | the reason why a command stops, with its exit status |
//!
//! **Invariant:** results go to standard output, everything else to standard error. Commands end with a
//! [`fault::Fault`], never with a panic: a panic is reported as a bug of ours.

pub mod args;
pub mod cmd;
pub mod excerpt;
pub mod fault;
mod threads;
pub mod ui;

use args::Cli;
use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;
use ui::Ui;

/// Reads the command line and runs the command.
pub fn main() -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("error[E999]: this is a bug in fulgurite: {panic}");
        eprintln!("  = help: please report it with the command that you ran");
    }));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            let fine = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let _ = e.print();
            return ExitCode::from(if fine { 0 } else { fault::USAGE });
        }
    };
    let ui = Ui::new(cli.common.wishes());
    match cmd::run(cli, &ui) {
        Ok(status) => ExitCode::from(status),
        Err(fault) => {
            ui.fault(&fault);
            ExitCode::from(fault.status)
        }
    }
}
