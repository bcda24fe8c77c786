//! Runs that end early, and runs that carry on.

use super::command::{Folder, end, fulgurite, start};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// A model small enough for a debug build.
const SMALL: &[&str] = &["--depth", "1", "--width", "16", "--heads", "2", "--context", "8", "--batch", "2"];

fn folder(name: &str) -> Folder {
    let f = Folder::new(name);
    f.write("text.txt", "the quick brown fox jumps over the lazy dog.\n".repeat(40));
    f
}

fn train<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["train", "--text", "text.txt"], SMALL, more].concat()
}

/// What a run measured after so many steps, but for the times.
fn measured(run: &Path, after: u64) -> Vec<String> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let lines = lines.filter(|v| v["step"].as_u64().expect("a step") > after);
    lines.map(|v| format!("{} {} {} {} {}", v["step"], v["loss"], v["norm"], v["lr"], v["val"])).collect()
}

/// Going on is the same as never having stopped: every measurement, and every byte of the checkpoint.
#[test]
fn a_run_carries_on_bit_for_bit() {
    let f = folder("resume");
    fulgurite(&f.0, &train(&["--steps", "20", "--save-every", "10", "--out", "straight"])).fine();
    std::fs::create_dir(f.0.join("resumed")).expect("a folder");
    let half = "step-10.safetensors";
    std::fs::copy(f.0.join("straight").join(half), f.0.join("resumed").join(half)).expect("a checkpoint of step 10");
    let ran = fulgurite(&f.0, &["train", "--resume", "resumed"]).fine();
    assert!(ran.err.contains("after step 10 of 20"), "{}", ran.err);
    let (straight, resumed) = (f.0.join("straight"), f.0.join("resumed"));
    assert!(measured(&straight, 10).len() >= 10);
    assert_eq!(measured(&straight, 10), measured(&resumed, 10));
    let last = |run: &Path| std::fs::read(run.join("step-20.safetensors")).expect("a checkpoint of step 20");
    assert!(last(&straight) == last(&resumed), "the checkpoints differ");

    // it is done: more steps have to be asked for
    let ran = fulgurite(&f.0, &["train", "--resume", "resumed"]).refused(2, "E919");
    assert!(ran.err.contains("--steps 40"), "{}", ran.err);
    fulgurite(&f.0, &["train", "--resume", "resumed", "--steps", "22"]).fine();
    assert_eq!(measured(&resumed, 20).iter().filter(|line| line.ends_with("null")).count(), 2);
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_tells_how_to_carry_on() {
    let f = folder("interrupt");
    let mut child = start(&f.0, &train(&["--steps", "1000000", "--log-every", "1", "--out", "run"]));
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let first = lines.next().expect("a step").expect("text");
    assert!(first.starts_with("step=1 "), "{first}");
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    // read on: a pipe that nobody reads would end the run too
    lines.for_each(drop);
    let ran = end(child);
    assert_eq!(ran.status, Some(130), "{}", ran.err);
    let (_, resume) = ran.err.split_once("carry on: fulgurite ").expect("the command to carry on with");
    let words: Vec<&str> = resume.split_whitespace().collect();
    let step = words[2].trim_start_matches("run/step-").trim_end_matches(".safetensors").parse::<u64>();
    let steps = (step.expect("a step") + 1).to_string();
    fulgurite(&f.0, &[&words[..], &["--steps", &steps]].concat()).fine();
}

/// `fulgurite train | head -1`
#[test]
fn who_reads_the_output_may_go_away() {
    let f = folder("pipe");
    let mut child = start(&f.0, &train(&["--steps", "1000000", "--log-every", "1", "--out", "run"]));
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    let ran = end(child);
    assert_eq!(ran.status, Some(0), "{}", ran.err);
    assert!(ran.err.contains("carry on: fulgurite train --resume run/step-"), "{}", ran.err);
    for args in [&["eval", "exp([0, 1])", "--grad"][..], &["bench", "--list"], &["explain", "E"], &["--help"]] {
        let mut child = start(&f.0, args);
        drop(child.stdout.take());
        assert_eq!(end(child).status, Some(0), "{args:?}");
    }
}
