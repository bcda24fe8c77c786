//! `fulgurite bench`: workloads, or the calls of a model, each timed on this machine.

mod floors;

use crate::args;
use crate::cmd::models;
use crate::cmd::profile::Profiler;
use crate::fault::{Fault, Outcome};
use crate::ui::{Mode, Ui, format};
use fulgurite_bench::NAMES;
use serde_json::{Value, json};

/// Runs the command.
///
/// # Errors
/// E914, E916: wrong use. The errors of a workload; E930 to E936: a model and its inputs.
pub fn run(args: &args::Bench, ui: &Ui) -> Outcome {
    let threads = crate::threads::set(args.threads, 1)?;
    let mut server = fulgurite_bench::server(threads);
    if args.serve {
        let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
        // A driver that closes the pipe ends the session.
        let _ = server.serve(input, output);
        return Ok(());
    }
    if args.list {
        match ui.mode() {
            Mode::Json => ui.object(&json!({"v": 1, "workloads": NAMES})),
            _ => NAMES.iter().for_each(|name| ui.result(name)),
        }
        return Ok(());
    }
    if let Some(model) = &args.model {
        return models::bench::run(model, args, &mut server, ui, &|name, record| show(name, record, ui));
    }
    let wanted = args.run.as_deref().unwrap_or_default();
    let chosen = fulgurite_bench::named(wanted);
    if chosen.is_empty() {
        return Err(Fault::usage("E916", format!("there is no workload `{wanted}`"))
            .help("`fulgurite bench --list` names them"));
    }
    if args.floors {
        return floors::run(&chosen, args.reps, &mut server, ui);
    }
    let mut profiler = Profiler::new(&args.profiled.profile);
    for name in chosen {
        let record = profiler.run(name, ui, || server.record(name, args.reps))?;
        show(name, &record, ui);
    }
    profiler.finish(ui)
}

/// Prints a record.
fn show(name: &str, record: &Value, ui: &Ui) {
    match ui.mode() {
        Mode::Pretty => ui.result(&line(name, record)),
        _ => ui.object(record),
    }
}

/// A record in readable form.
fn line(name: &str, record: &Value) -> String {
    let ms = |key: &str| record[key].as_f64().map_or_else(|| "?".to_owned(), |s| format!("{:.3}", s * 1e3));
    let units = record["units"].as_f64().unwrap_or(1.0);
    let rate =
        record["median_s"].as_f64().filter(|_| units > 1.0).map(|s| format!("   {}/s", format::count(units / s)));
    let (median, min, first) = (ms("median_s"), ms("min_s"), ms("first_s"));
    format!("{name:14} median {median:>9} ms   least {min:>9} ms   first {first:>9} ms{}", rate.unwrap_or_default())
}
