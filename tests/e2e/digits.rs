//! `train --task digits`: a run, its pictures, and what it refuses.

use super::command::{Folder, Ran, fulgurite};
use serde_json::Value;

fn digits(f: &Folder, more: &[&str]) -> Ran {
    fulgurite(&f.0, &[&["train", "--task", "digits", "--batch", "4"], more].concat())
}

fn events(out: &str, name: &str) -> Vec<Value> {
    let all = out.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    all.filter(|v| v["event"] == name).collect()
}

#[test]
fn a_run_shows_what_it_read_wrong() {
    let f = Folder::new("digits");
    let ran = digits(&f, &["--steps", "2", "--ascii", "--plot", "plot.svg", "--out", "run"]).fine();
    assert!(ran.out.contains("accuracy=") && ran.out.contains(" held-out images read wrong"), "{}", ran.out);
    // shades, and under them what the digit is and what it was read as
    assert!(ran.out.lines().any(|line| line.contains("@@")) && ran.out.contains(" as "), "{}", ran.out);
    assert!(ran.out.is_ascii(), "{}", ran.out);
    let plot = std::fs::read_to_string(f.0.join("plot.svg")).expect("a plot");
    assert!(plot.starts_with("<svg") && plot.contains(" as "), "no picture in the plot");
    assert!(f.0.join("run/step-2.safetensors").exists());
}

#[test]
fn programs_get_objects() {
    let f = Folder::new("digits-json");
    let ran = digits(&f, &["--steps", "2", "--json"]).fine();
    let start = &events(&ran.out, "start")[0];
    assert_eq!((&start["task"], &start["images"], &start["held_out"]), (&"digits".into(), &1797.into(), &359.into()));
    let checks = events(&ran.out, "check");
    let right = checks[checks.len() - 1]["accuracy"].as_f64().expect("a share");
    let wrong = events(&ran.out, "wrong")[0]["wrong"].as_array().expect("a list").clone();
    assert!(((359 - wrong.len()) as f64 / 359.0 - right).abs() < 1e-9, "{right} {}", wrong.len());
    assert!(wrong.iter().all(|w| w["label"] != w["said"] && w["pixels"].as_array().is_some_and(|p| p.len() == 64)));
    assert!(f.0.join("runs/digits/config.json").exists());
}

#[test]
fn a_run_carries_on_bit_for_bit() {
    let f = Folder::new("digits-resume");
    digits(&f, &["--steps", "4", "--save-every", "2", "--out", "straight"]).fine();
    std::fs::create_dir(f.0.join("resumed")).expect("a folder");
    let half = "step-2.safetensors";
    std::fs::copy(f.0.join("straight").join(half), f.0.join("resumed").join(half)).expect("a checkpoint");
    fulgurite(&f.0, &["train", "--resume", "resumed"]).fine();
    let last = |run: &str| std::fs::read(f.0.join(run).join("step-4.safetensors")).expect("a checkpoint");
    assert!(last("straight") == last("resumed"), "the checkpoints differ");
    let ran = fulgurite(&f.0, &["train", "--task", "text", "--resume", "resumed"]).refused(2, "E919");
    assert!(ran.err.contains("task `digits`"), "{}", ran.err);
}

#[test]
fn options_of_another_task_are_refused() {
    let f = Folder::new("digits-options");
    for (option, value) in [
        ("--text", "a.txt"),
        ("--depth", "2"),
        ("--width", "8"),
        ("--heads", "2"),
        ("--context", "8"),
        ("--prompt", "a"),
    ] {
        let ran = digits(&f, &["--steps", "1", option, value]).refused(2, "E914");
        assert!(ran.err.contains(option) && ran.err.contains("help:"), "{}", ran.err);
        assert!(!f.0.join("runs").exists(), "{option} left a run");
    }
    assert_eq!(fulgurite(&f.0, &["train", "--task", "poems"]).status, Some(2));
    fulgurite(&f.0, &["train", "--task", "digits", "--batch", "0"]).refused(2, "E914");
}
