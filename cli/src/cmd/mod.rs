//! The commands.

mod bench;
mod conformance;
mod doctor;
pub mod eval;
mod models;
mod profile;
mod sample;
mod schedule;
mod trace;
mod traced;
mod train;

use crate::args::{Cli, Command};
use crate::cmd::profile::Profiler;
use crate::fault::{BUG, Fault};
use crate::ui::Ui;
use clap::Parser;
use fulgurite_ops_verbs::cli::{self as ops, OpsCommand};
use std::io::Write;

/// Runs a command; without one, the demo. Returns the exit status.
///
/// # Errors
/// The reason why it stopped.
pub fn run(cli: Cli, ui: &Ui) -> Result<u8, Fault> {
    let command = match cli.command {
        Some(command) => command,
        None => {
            ui.status("Running", "fulgurite train, about a minute on two cores (no command was given: this is the demo; --help for others)");
            // The defaults exist only in the table of arguments, so they are parsed from it.
            match Cli::parse_from(["fulgurite", "train"]).command {
                Some(command) => command,
                None => return Ok(0),
            }
        }
    };
    fulgurite_demo::device::set(cli.common.device.as_deref()).map_err(|e| {
        let fault = Fault::usage(e.code, e.message);
        match e.help {
            Some(help) => fault.help(help),
            None => fault,
        }
    })?;
    let done = match command {
        Command::Train(args) => {
            let mut profiler = Profiler::new(&args.profiled.profile);
            let status = profiler.run("train", ui, || match args.model.clone() {
                Some(model) => models::train::run(&args, &model, ui),
                None => train::run(&args, ui),
            })?;
            return profiler.finish(ui).map(|()| status);
        }
        Command::Doctor(args) => return doctor::run(&args, ui),
        Command::Sample(args) => return sample::run(&args, ui),
        Command::Schedule(args) => schedule::run(&args, ui),
        Command::Trace(args) => trace::run(&args, ui),
        Command::Eval(args) => eval::run(&args, cli.common, ui),
        Command::Bench(args) => bench::run(&args, ui),
        Command::Conformance(args) => return conformance::run(&args, ui),
        Command::Import(args) => return models::import::run(&args, ui),
        Command::Run(args) => models::run::run(&args, ui),
        Command::Ops(verb) => {
            let (mut out, mut err) = (std::io::stdout().lock(), std::io::stderr());
            let status = ops::run(OpsCommand { verb, common: cli.common.ops() }, &mut out, &mut err);
            // Output that cannot be written now has no reader.
            let _ = out.flush();
            return Ok(u8::try_from(status).unwrap_or(BUG));
        }
    };
    done.map(|()| 0)
}
