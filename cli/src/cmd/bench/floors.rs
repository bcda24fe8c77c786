//! `fulgurite bench --floors`: how near each workload is to the floor of this machine.

use crate::fault::Outcome;
use crate::ui::{Mode, Ui};
use fulgurite::profile::{Profile, ProfiledStep, arithmetic, bandwidth, profile};
use fulgurite_bench::Server;
use serde_json::{Value, json};

/// The steps of a workload that are named.
const SHOWN: usize = 2;

/// Measures the workloads, first without a profile and then with one.
///
/// # Errors
/// The error of a workload.
pub fn run(names: &[&str], reps: usize, server: &mut Server, ui: &Ui) -> Outcome {
    let (bytes, operations) = (bandwidth() / 1e9, arithmetic() / 1e9);
    if ui.mode() == Mode::Json {
        ui.object(&json!({"v": 1, "gb_per_s": bytes, "gflop_per_s": operations}));
    } else {
        ui.piece(&format!(
            "One thread of this machine copies {bytes:.1} GB/s and does {operations:.0} GFLOP/s of f32.\n\n"
        ));
        ui.piece(
            "| workload | ms | floor, ms | the floor's share | steps that take longest |\n|---|---|---|---|---|\n",
        );
    }
    for name in names {
        let least = server.record(name, reps)?["min_s"].as_f64().unwrap_or_default();
        let (record, profile) = profile(|| server.record(name, reps));
        record?;
        let time = profile.time().as_secs_f64().max(1e-12);
        let share = profile.floor().as_secs_f64() / time;
        if ui.mode() == Mode::Json {
            let steps: Vec<Value> = longest(&profile)
                .map(|(step, share)| json!({"what": step.info.what, "rows": step.rows(), "share": share, "floor": step.share_of_floor()}))
                .collect();
            ui.object(&json!({"v": 1, "workload": name, "least_s": least, "floor_s": least * share, "steps": steps}));
            continue;
        }
        let steps: Vec<String> = longest(&profile)
            .map(|(step, share)| {
                format!("{:.0} % {} ({:.0} % floor)", share * 100.0, step.info.what, step.share_of_floor() * 100.0)
            })
            .collect();
        let (ms, floor) = (least * 1e3, least * share * 1e3);
        ui.piece(&format!("| {name} | {ms:.3} | {floor:.3} | {:.0} % | {} |\n", share * 100.0, steps.join(", ")));
    }
    Ok(())
}

/// The steps that take most time, with their share of it.
fn longest(profile: &Profile) -> impl Iterator<Item = (&ProfiledStep, f64)> {
    let time = profile.time().as_secs_f64().max(1e-12);
    profile.slowest().into_iter().take(SHOWN).map(move |step| (step, step.time.as_secs_f64() / time))
}
