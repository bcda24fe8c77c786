//! `fulgurite bench`: workloads, each timed beside a baseline of the same machine.

mod adamw;
mod conv;
mod gpt;
mod meter;
mod numbers;
mod pointwise;
mod products;
mod rows;
mod serve;
mod work;

use crate::args;
use crate::fault::{Fault, Outcome};
use crate::ui::{Mode, Ui, format};
use serde_json::{Value, json};
use serve::{Server, Work};

/// The workloads, as the driver calls them.
const NAMES: &[&str] = &[
    "W1.chain",
    "W1.arith",
    "W1.small",
    "W2.chain",
    "W2.small",
    "W3.softmax",
    "W3.softmax_fb",
    "W3.ce_fb",
    "W4.erf",
    "W4.tanh",
    "W5.sq512",
    "W5.sq1024",
    "W5.linear",
    "W5.wgrad",
    "W5.decode",
    "W5.decode_big",
    "W5.qk",
    "W5.av",
    "W6.step",
    "W6.loss",
    "W7.tok",
    "W8.digits",
    "W8.cifar",
    "W9.step",
    "W9.ckpt",
    "W9.auto",
    "W10.emb_fb",
    "W10.gather_fb",
    "W10.scatter",
    "W11.pw1",
    "W11.pw10",
    "W11.pw100",
    "W11.mm1",
    "W11.mm10",
    "W11.mm100",
    "W12.small",
    "W12.large",
];

fn make(name: &str) -> Option<Result<Box<dyn Work>, Fault>> {
    [pointwise::make, rows::make, products::make, gpt::make, conv::make, adamw::make].iter().find_map(|make| make(name))
}

/// Runs the command.
///
/// # Errors
/// E914, E916: wrong use. What a workload reports.
pub fn run(args: &args::Bench, ui: &Ui) -> Outcome {
    let threads = crate::threads::set(args.threads, 1)?;
    let mut server = Server::new(NAMES, make, threads);
    if args.serve {
        let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
        // a driver that went away ends the session
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
    let wanted = args.run.as_deref().unwrap_or_default();
    let group = |name: &&&str| wanted.is_empty() || **name == wanted || name.split('.').next() == Some(wanted);
    let mut chosen: Vec<&str> = NAMES.iter().filter(group).copied().collect();
    if chosen.is_empty() && make(wanted).is_some() {
        chosen.push(wanted);
    }
    if chosen.is_empty() {
        return Err(Fault::usage("E916", format!("there is no workload `{wanted}`"))
            .help("`fulgurite bench --list` names them"));
    }
    for name in chosen {
        let record = server.record(name, args.reps)?;
        if ui.mode() == Mode::Pretty {
            ui.result(&line(name, &record));
        } else {
            ui.object(&record);
        }
    }
    Ok(())
}

/// A record for a person.
fn line(name: &str, record: &Value) -> String {
    let ms = |key: &str| record[key].as_f64().map_or_else(|| "?".to_owned(), |s| format!("{:.3}", s * 1e3));
    let units = record["units"].as_f64().unwrap_or(1.0);
    let rate =
        record["median_s"].as_f64().filter(|_| units > 1.0).map(|s| format!("   {}/s", format::count(units / s)));
    let (median, min, first) = (ms("median_s"), ms("min_s"), ms("first_s"));
    format!("{name:14} median {median:>9} ms   least {min:>9} ms   first {first:>9} ms{}", rate.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_made() {
        // the large ones cost seconds and memory
        for name in NAMES.iter().filter(|n| !n.starts_with("W9") && !n.ends_with("big") && !n.starts_with("W12.l")) {
            assert!(make(name).is_some(), "{name}");
        }
        assert!(make("W0.x").is_none());
    }
}
