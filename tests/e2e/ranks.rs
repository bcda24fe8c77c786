//! `train` on several ranks: the same as on one, and an end when a rank fails.

use super::command::{Folder, Ran, command, ended, fulgurite, mpirun};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A model small enough for a debug build, and a batch that divides.
const SMALL: &[&str] = &[
    "train",
    "--text",
    "text.txt",
    "--depth",
    "2",
    "--width",
    "16",
    "--heads",
    "2",
    "--context",
    "8",
    "--batch",
    "8",
    "--steps",
    "4",
    "--save-every",
    "2",
];
/// One process that cuts the model and the batch as four ranks do.
const CUT: &[&str] = &["--pipeline", "interleaved", "--stages-per-rank", "4", "--micro-batches", "4"];

fn folder(name: &str) -> Folder {
    let f = Folder::new(name);
    f.write("text.txt", "the quick brown fox jumps over the lazy dog.\n".repeat(40));
    f
}

fn train(f: &Folder, out: &str, more: &[&str]) -> Ran {
    fulgurite(&f.0, &[SMALL, &["--out", out], more].concat()).fine()
}

/// Steps with loss, length of the gradient and validation loss, as they were written.
fn measured(f: &Folder, out: &str) -> Vec<(u64, String, String, String)> {
    let text = std::fs::read_to_string(f.0.join(out).join("metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let field = |v: &serde_json::Value, name: &str| v[name].to_string();
    lines
        .map(|v| (v["step"].as_u64().expect("a step"), field(&v, "loss"), field(&v, "norm"), field(&v, "val")))
        .collect()
}

fn checkpoint(f: &Folder, out: &str, step: u64) -> Vec<u8> {
    std::fs::read(f.0.join(out).join(format!("step-{step}.safetensors"))).expect("a checkpoint")
}

/// The same measurements and the same bytes of what was learned.
#[track_caller]
fn same(f: &Folder, one: &str, other: &str) {
    assert!(measured(f, one).len() > 4);
    assert_eq!(measured(f, one), measured(f, other), "{one} and {other}");
    assert!(checkpoint(f, one, 4) == checkpoint(f, other, 4), "the checkpoints of {one} and {other} differ");
}

/// The same measurements but for rounding.
#[track_caller]
fn close(f: &Folder, one: &str, other: &str) {
    let (one, other) = (measured(f, one), measured(f, other));
    assert_eq!(one.len(), other.len());
    for (a, b) in one.iter().zip(&other) {
        for (a, b) in [(&a.1, &b.1), (&a.2, &b.2), (&a.3, &b.3)] {
            let numbers = (a.parse::<f64>(), b.parse::<f64>());
            assert!(a == b || matches!(numbers, (Ok(a), Ok(b)) if (a - b).abs() < 1e-5 * a.abs()), "{a} and {b}");
        }
    }
}

#[cfg(unix)]
#[test]
fn pipelines_give_the_bits_of_one_process() {
    let f = folder("pipelines");
    train(&f, "whole", &[]);
    train(&f, "cut", CUT);
    close(&f, "whole", "cut");
    let four = ["--ranks", "4", "--micro-batches", "4", "--pipeline"];
    for kind in ["zb1p", "gpipe"] {
        train(&f, kind, &[&four[..], &[kind]].concat());
        same(&f, "cut", kind);
    }
    let two = ["--ranks", "2", "--micro-batches", "4", "--pipeline"];
    for kind in ["zbv", "dualpipev"] {
        train(&f, kind, &[&two[..], &[kind]].concat());
        same(&f, "cut", kind);
    }
    // a schedule of one's own: the backward of the second half comes in another order, and is added in the same
    f.write(
        "mine.txt",
        "r0: 0F0 0F1 2F0 2F1 0F2 0F3 2F2 2F3 2B1 2B0 2B2 2B3 0I1 0W1 0I0 0I2 0W0 0I3 0W2 0W3\n\
                         r1: 1F0 1F1 3F0 3F1 3B1 3B0 1F2 1F3 3F2 3F3 3B2 3B3 1B1 1B0 1B2 1B3 R3 R1",
    );
    train(&f, "mine", &["--ranks", "2", "--pipeline", "mine.txt"]);
    same(&f, "cut", "mine");
    // a checkpoint is that of one process: another number of ranks goes on with it, and nobody sees a difference
    std::fs::create_dir(f.0.join("resumed")).expect("a folder");
    std::fs::write(f.0.join("resumed/step-2.safetensors"), checkpoint(&f, "zb1p", 2)).expect("a file");
    fulgurite(&f.0, &[&["train", "--resume", "resumed"], &two[..], &["zbv"]].concat()).fine();
    assert!(checkpoint(&f, "resumed", 4) == checkpoint(&f, "cut", 4), "going on differs");
}

#[cfg(unix)]
#[test]
fn copies_learn_what_one_model_learns() {
    let f = folder("copies");
    train(&f, "whole", &[]);
    let ran = train(&f, "four", &["--ranks", "4", "--data-parallel"]);
    assert!(ran.err.contains("4 copies of the model"), "{}", ran.err);
    close(&f, "whole", "four");
    // sums go by the order of ranks: a second run has the same bits
    train(&f, "again", &["--ranks", "4", "--data-parallel"]);
    same(&f, "four", "again");
    train(&f, "both", &["--ranks", "4", "--data-parallel", "2", "--pipeline", "zb1p", "--micro-batches", "2"]);
    close(&f, "whole", "both");
    // a task whose model is one part
    fulgurite(&f.0, &["train", "--task", "digits", "--steps", "3", "--ranks", "2", "--data-parallel"]).fine();
}

#[test]
fn what_does_not_divide_is_refused_once() {
    let f = folder("divide");
    for (more, hint) in [
        (&["--ranks", "0"][..], "1 to 64"),
        (&["--data-parallel", "3"], "1 ranks can't be 3 copies"),
        (&["--micro-batches", "3"], "--batch"),
        (&["--timeout", "0"], "--timeout"),
        (&["--pipeline", "interleaved", "--stages-per-rank", "65"], "65 stages"),
        (&["--pipeline", "gpipe", "--data-parallel"], "how many copies"),
    ] {
        let ran = fulgurite(&f.0, &[SMALL, &["--out", "run"], more].concat());
        assert!(ran.err.contains(hint), "{more:?}: {}", ran.err);
        ran.refused(2, "E923");
    }
    #[cfg(unix)]
    {
        // four ranks find the same fault: one says it
        let four = ["--ranks", "4", "--pipeline", "1f1b", "--micro-batches", "3", "--out", "run"];
        let ran = fulgurite(&f.0, &[SMALL, &four[..]].concat());
        assert_eq!(ran.err.matches("error[").count(), 1, "{}", ran.err);
        ran.refused(2, "E923");
    }
    // schedules that can't run, or for other ranks
    f.write("wrong.txt", "r0: 0F0 0B0 0B0");
    f.write("two.txt", "r0: 0F0 0B0\nr1: 1F0 1B0");
    for (file, code) in [("wrong.txt", "E751"), ("two.txt", "E923"), ("missing.txt", "E910")] {
        fulgurite(&f.0, &[SMALL, &["--out", "run", "--pipeline", file]].concat()).refused(2, code);
    }
    assert!(!f.0.join("run").exists(), "a refused run leaves nothing");
}

/// A run that goes on until somebody ends it, after its first steps.
#[cfg(unix)]
fn endless(f: &Folder, mut command: Command) -> Child {
    let args = ["--steps", "1000000", "--save-every", "1", "--log-every", "1", "--out", "run", "--timeout", "1"];
    command.args(&SMALL[1..SMALL.len() - 4]).args(args).args(["--pipeline", "zb1p", "--micro-batches", "4"]);
    let _ = std::fs::remove_dir_all(f.0.join("run"));
    let err = std::fs::File::create(f.0.join("err.txt")).expect("a file");
    let mut child = command.stdout(Stdio::piped()).stderr(err).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let second = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("step=2 ")));
    assert!(second.is_some(), "{}", said(f));
    // what nobody reads would end the run
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// What such a run said for people.
#[cfg(unix)]
fn said(f: &Folder) -> String {
    std::fs::read_to_string(f.0.join("err.txt")).expect("text")
}

/// The processes of the ranks of a launcher.
#[cfg(unix)]
fn processes(f: &Folder) -> Vec<String> {
    let text = said(f);
    let list = text.split("ranks: processes ").nth(1).expect("numbers").lines().next().expect("a line");
    list.split_whitespace().map(str::to_owned).collect()
}

#[cfg(unix)]
fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args([name, process]).status().expect("kill runs").success());
}

/// Waits for the end of a run, which must come soon. Gives its status.
#[cfg(unix)]
fn soon(mut child: Child, f: &Folder) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("a child");
    panic!("the run did not end:\n{}", said(f));
}

/// The newest checkpoint of a run that failed is whole: another number of ranks goes on with it.
#[cfg(unix)]
fn goes_on(f: &Folder) {
    let newest = std::fs::read_dir(f.0.join("run")).expect("a run").flatten().filter_map(|e| {
        let name = e.file_name().into_string().ok()?;
        name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse::<u64>().ok()
    });
    let newest = newest.max().expect("a checkpoint");
    let steps = (newest + 1).to_string();
    let ran = fulgurite(&f.0, &["train", "--resume", "run", "--steps", &steps, "--ranks", "2", "--data-parallel"]);
    assert!(ran.fine().err.contains(&format!("after step {newest} of {steps}")));
}

/// Says what somebody was at: `2I3 of step 17`, or between steps `the state behind step 17`.
#[cfg(unix)]
fn names_an_action(text: &str) -> bool {
    [" of step ", " behind step "].iter().any(|words| text.contains(words))
}

#[cfg(unix)]
#[test]
fn a_rank_that_dies_ends_the_run_and_is_named() {
    let f = folder("dies");
    for rank in [0, 2] {
        let child = endless(&f, command(&f.0, &["train", "--ranks", "4"]));
        signal("-KILL", &processes(&f)[rank]);
        assert_eq!(soon(child, &f), Some(1), "{}", said(&f));
        let text = said(&f);
        assert!(text.contains("error[E771]") && text.contains(&format!("rank {rank} is gone")), "{text}");
        assert!(text.contains(&format!("from rank {rank}\n")) && names_an_action(&text), "{text}");
        assert!(text.contains(&format!("rank {rank} (process ")) && text.contains("ended by signal 9"), "{text}");
    }
    goes_on(&f);
}

#[cfg(unix)]
#[test]
fn a_rank_that_hangs_ends_the_run_and_is_named() {
    let f = folder("hangs");
    let child = endless(&f, command(&f.0, &["train", "--ranks", "4"]));
    signal("-STOP", &processes(&f)[1]);
    assert_eq!(soon(child, &f), Some(1), "{}", said(&f));
    let text = said(&f);
    assert!(text.contains("error[E770]: rank 1 does not answer within 1.0 s") && names_an_action(&text), "{text}");
    goes_on(&f);
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_all_ranks_and_saves() {
    let f = folder("stop");
    let child = endless(&f, command(&f.0, &["train", "--ranks", "4"]));
    signal("-INT", &child.id().to_string());
    assert_eq!(soon(child, &f), Some(130), "{}", said(&f));
    assert!(said(&f).contains("carry on: fulgurite train --resume run/step-"), "{}", said(&f));
    goes_on(&f);
}

/// With MPI: the same bits as by the launcher of this machine, and an end when a rank fails.
#[cfg(unix)]
#[test]
fn mpi_carries_the_same_run() {
    let f = folder("mpi");
    let Some(mpirun) = mpirun(&f.0, 4) else {
        println!("skipped: FULGURITE_MPI is not set, so the command is built without MPI");
        return;
    };
    let run = |out: &str, more: &[&str]| {
        let mut command = mpirun();
        ended(command.args(SMALL).args(["--out", out]).args(more).output().expect("mpirun starts")).fine();
    };
    train(&f, "cut", CUT);
    run("zb1p", &["--pipeline", "zb1p", "--micro-batches", "4"]);
    same(&f, "cut", "zb1p");
    run("copies", &["--data-parallel"]);
    train(&f, "here", &["--ranks", "4", "--data-parallel"]);
    same(&f, "here", "copies");
    run("both", &["--data-parallel", "2", "--pipeline", "1f1b", "--micro-batches", "2"]);
    close(&f, "cut", "both");
    // nobody said how they share the run
    let ran = ended(mpirun().args(SMALL).args(["--out", "none"]).output().expect("mpirun starts"));
    assert!(ran.err.contains("error[E923]"), "{}", ran.err);

    for (how, status) in [("-STOP", 1), ("-KILL", 137)] {
        let mut command = mpirun();
        command.arg("train");
        let child = endless(&f, command);
        let listed = Command::new("pgrep").args(["-P", &child.id().to_string()]).output().expect("pgrep runs");
        let listed = String::from_utf8(listed.stdout).expect("numbers");
        let ranks: Vec<&str> = listed.split_whitespace().collect();
        assert_eq!(ranks.len(), 4, "{listed}");
        signal(how, ranks[2]);
        assert_eq!(soon(child, &f), Some(status), "{}", said(&f));
        let text = said(&f);
        let named = if how == "-STOP" { "rank 2 does not answer within 1.0 s" } else { "process rank 2" };
        assert!(text.contains(named) && names_an_action(&text), "{text}");
        goes_on(&f);
    }
}
