//! The command `fulgurite`: trains the demo, shows traces, evaluates expressions, runs benchmarks; and what `cargo ops`
//! does with the operator database.
//!
//! | module | is |
//! |---|---|
//! | [`args`] | the command line: one table, from which clap makes parser and help |
//! | [`cmd`] | one module a command |
//! | [`ui`] | the terminal: lines, colours, curves, images |
//! | [`excerpt`] | a part of an expression that was typed, with a mark under it |
//! | [`fault`] | why a command stops, and with which exit status |
//!
//! **Invariant:** results go to standard output, the rest to standard error; commands end with a [`fault::Fault`], never
//! a panic: a panic is a bug of ours and says so.

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
