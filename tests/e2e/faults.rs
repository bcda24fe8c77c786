//! Faults injected into training runs: calls of the system that fail, memory that lacks, processes that are killed. After
//! each of them what was saved is whole, and a run that carries on gives the bits of one that nothing disturbed.
//!
//! A library in C stands between the command and the system (`faults/shim.c`), so the command has no code for tests. It
//! is compiled here, and the tests say that they are skipped where that is not possible. `cargo test` tries a part of the
//! calls; `FULGURITE_FAULTS=all` tries each, and `FULGURITE_KILLS=1000` kills a thousand runs at random moments.

use super::command::{Folder, Ran, command, ended};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The compiled layer, if this machine can have it.
static SHIM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/faults/shim.c");
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{}.so", std::process::id()));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
    let made = gcc.output().ok()?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(library)
});

fn shim() -> Option<&'static Path> {
    if SHIM.is_none() {
        println!("skipped: faults are injected on Linux with glibc, by a library that gcc compiles");
    }
    SHIM.as_deref()
}

/// A run of a second or less.
const TRAIN: &[&str] = &[
    "train",
    "--text",
    "text.txt",
    "--depth",
    "1",
    "--width",
    "8",
    "--heads",
    "1",
    "--context",
    "4",
    "--batch",
    "2",
    "--save-every",
    "1",
    "--steps",
];

fn folder(name: &str) -> Folder {
    let f = Folder::new(name);
    f.write("text.txt", "the quick brown fox jumps over the lazy dog.\n".repeat(8));
    f
}

/// A fault: its kind, the number of the call, whether it lasts, and further variables of the layer.
#[derive(Clone, Copy, Debug)]
struct Fault<'a> {
    kind: &'a str,
    at: usize,
    lasts: bool,
    more: &'a [(&'a str, &'a str)],
}

impl<'a> Fault<'a> {
    fn new(kind: &'a str, at: usize) -> Fault<'a> {
        Fault { kind, at, lasts: false, more: &[] }
    }
}

/// No run of these tests may take longer than this; most take a fifth of a second.
const LONGEST: Duration = Duration::from_secs(60);

/// Waits for a command, which must end, and gives what it left. A panic is never an answer.
fn finish(mut command: Command, f: &Folder) -> Ran {
    let said = f.0.join("err.txt");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&said).expect("a file"))
        .spawn()
        .expect("the command starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > LONGEST {
            child.kill().expect("a child");
            panic!("it does not end:\n{}", fs::read_to_string(&said).expect("text"));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    ended(Output { status, stdout: Vec::new(), stderr: fs::read(&said).expect("a file") })
}

/// Runs a command under a fault. Gives also the counted calls: number, name, path.
fn disturbed(f: &Folder, args: &[&str], fault: Fault) -> (Ran, Vec<String>) {
    let log = f.0.join("calls.txt");
    let _ = fs::remove_file(&log);
    let mut command = command(&f.0, args);
    command.env("LD_PRELOAD", shim().expect("a test without it is skipped"));
    command.env("FAULT_FOLDER", f.0.join("run")).env("FAULT_LOG", &log);
    command.env("FAULT_KIND", fault.kind).env("FAULT_AT", fault.at.to_string());
    command.env("FAULT_LASTS", if fault.lasts { "1" } else { "0" }).envs(fault.more.iter().copied());
    let ran = finish(command, f);
    let calls = fs::read_to_string(&log).unwrap_or_default();
    (ran, calls.lines().map(str::to_owned).collect())
}

fn undisturbed(f: &Folder, args: &[&str]) -> Ran {
    finish(command(&f.0, args), f)
}

/// What a run that nothing disturbs leaves: all of its checkpoints by their steps, and its measurements.
struct Whole {
    checkpoints: BTreeMap<u64, Vec<u8>>,
    measured: Vec<String>,
    steps: u64,
}

impl Whole {
    /// Runs it in `run`, which is gone afterwards. Old checkpoints are not removed, because the layer removes nothing.
    fn of(f: &Folder, args: &[&str]) -> Whole {
        disturbed(f, args, Fault::new("keep", 0)).0.fine();
        let run = f.0.join("run");
        let checkpoints = checkpoints(&run);
        let steps = *checkpoints.keys().next_back().expect("a checkpoint");
        assert!((1..=steps).eq(checkpoints.keys().copied()), "a checkpoint of each step");
        let whole = Whole { checkpoints, measured: measured(&run), steps };
        fs::remove_dir_all(run).expect("a run");
        whole
    }

    /// These checkpoints are those of the undisturbed run.
    fn agrees(&self, found: &BTreeMap<u64, Vec<u8>>, what: &str) {
        for (step, bytes) in found {
            let whole = self.checkpoints.get(step).expect("a step of the run");
            let differs = whole.iter().zip(bytes).position(|(a, b)| a != b);
            let lengths = (whole.len(), bytes.len());
            assert!(bytes == whole, "{what}: the checkpoint of step {step} differs at {differs:?} of {lengths:?}");
        }
    }

    /// What a disturbed run left: each checkpoint is that of the undisturbed run, the newest one is at least the one
    /// that the run had saved, and the one before it is there too. Carrying on gives the same last checkpoint and the same
    /// measurements, and leaves nothing unfinished.
    fn recovered(&self, f: &Folder, saved: Option<u64>, what: &str) {
        let run = f.0.join("run");
        let found = checkpoints(&run);
        self.agrees(&found, what);
        let newest = found.keys().next_back().copied();
        assert!(newest >= saved, "{what}: step {saved:?} was saved, {newest:?} is the newest");
        let Some(newest) = newest else { return };
        assert!(newest == 1 || found.contains_key(&(newest - 1)), "{what}: {:?}", found.keys());
        if newest < self.steps {
            let ran = undisturbed(f, &["train", "--resume", "run"]).fine();
            assert!(ran.err.contains(&format!("after step {newest} of {}", self.steps)), "{what}: {}", ran.err);
            let last = checkpoints(&run).remove(&self.steps);
            assert!(last.as_ref() == self.checkpoints.get(&self.steps), "{what}: carrying on differs");
            assert_eq!(measured(&run), self.measured, "{what}: the measurements differ");
            let names =
                fs::read_dir(&run).expect("a run").flatten().map(|e| e.file_name().into_string().expect("text"));
            let left: Vec<String> = names.filter(|name| name.starts_with('.')).collect();
            assert!(left.is_empty(), "{what}: {left:?}");
        }
    }
}

fn checkpoints(run: &Path) -> BTreeMap<u64, Vec<u8>> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok();
    let numbered = entries.filter_map(|e| Some((number(e.file_name().to_str()?)?, e.path())));
    numbered.map(|(step, path)| (step, fs::read(path).expect("a checkpoint"))).collect()
}

/// The measurements of a run, but for the times.
fn measured(run: &Path) -> Vec<String> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    lines.map(|v| format!("{} {} {} {} {}", v["step"], v["loss"], v["norm"], v["lr"], v["val"])).collect()
}

/// The newest step whose checkpoint got its name. Calls that failed end in a mark.
fn saved(calls: &[String]) -> Option<u64> {
    let step = |call: &str| call.split_once("/step-")?.1.strip_suffix(".safetensors")?.parse().ok();
    calls.iter().filter(|call| call.contains(" rename ")).filter_map(|call| step(call)).max()
}

/// The numbers of the calls that are tried: each one, or about `few` that lie apart.
fn tried(all: usize, few: usize) -> impl Iterator<Item = usize> {
    let each = std::env::var("FULGURITE_FAULTS").is_ok_and(|v| v == "all");
    let stride = if each { 1 } else { all.div_ceil(few).max(1) };
    (1..=all).filter(move |n| n % stride == stride / 2 || stride == 1)
}

/// A run that begins, and one that carries on behind its first step.
const SCENES: [(&str, &[&str]); 2] =
    [("begins", &["train", "--out", "run"]), ("goes on", &["train", "--resume", "run", "--steps", "3"])];

/// Looks at what a disturbed run left: its folder, the undisturbed run, the end of the command, the counted calls, and
/// words for a message.
type Check<'a> = &'a dyn Fn(&Folder, &Whole, Ran, &[String], &str);

/// Runs a scene anew for each tried call of this kind, and gives what was left to `check`.
fn each_call(name: &str, kind: &str, lasts: bool, few: usize, check: Check) {
    if shim().is_none() {
        return;
    }
    let f = folder(name);
    let args = [TRAIN, &["3", "--out", "run"]].concat();
    let whole = Whole::of(&f, &args);
    // what a run of one step leaves, with which a scene may begin
    undisturbed(&f, &[TRAIN, &["1", "--out", "first"]].concat()).fine();
    let prepare = |scene: &str| {
        let run = f.0.join("run");
        let _ = fs::remove_dir_all(&run);
        if scene == "goes on" {
            fs::create_dir(&run).expect("a folder");
            fs::write(run.join("step-1.safetensors"), &whole.checkpoints[&1]).expect("a file");
            fs::copy(f.0.join("first/metrics.jsonl"), run.join("metrics.jsonl")).expect("metrics");
        }
    };
    for (scene, args) in SCENES {
        let args = if scene == "begins" { [TRAIN, &["3"], &args[1..]].concat() } else { args.to_vec() };
        prepare(scene);
        let (ran, calls) = disturbed(&f, &args, Fault::new(kind, 0));
        ran.fine();
        assert!(!calls.is_empty(), "{kind}: no call is counted");
        for at in tried(calls.len(), few) {
            prepare(scene);
            let (ran, calls) = disturbed(&f, &args, Fault { lasts, ..Fault::new(kind, at) });
            let call = calls.get(at - 1).map_or("", String::as_str).replace(&f.0.display().to_string(), "");
            let what = format!("a run that {scene}, {kind} at call{call}, {} {}", ran.status.unwrap_or(-1), ran.err);
            check(&f, &whole, ran, &calls, &what);
            if scene == "goes on" {
                assert!(checkpoints(&f.0.join("run")).contains_key(&3), "{what}: the run was lost");
            }
        }
    }
}

/// The command ends well, or says which file failed and why; then the run recovers.
fn refuses(reason: &'static str) -> impl Fn(&Folder, &Whole, Ran, &[String], &str) {
    move |f, whole, ran, calls, what| {
        match ran.status {
            // what is not needed may fail, such as the removal of an old checkpoint
            Some(0) => assert_eq!(saved(calls), Some(whole.steps), "{what}"),
            Some(1 | 2) => {
                let text = ran.err.to_lowercase();
                assert!(text.contains("error[e9") && text.contains("`run") && text.contains(reason), "{what}");
            }
            _ => panic!("{what}"),
        }
        whole.recovered(f, saved(calls), what);
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    each_call("full", "full", false, 8, &refuses("no space left on device"));
    each_call("stays-full", "full", true, 8, &refuses("no space left on device"));
}

#[test]
fn refused_permission_loses_nothing() {
    each_call("denied", "denied", false, 12, &refuses("permission denied"));
}

#[test]
fn a_broken_disk_loses_nothing() {
    each_call("broken", "broken", false, 12, &refuses("input/output error"));
    each_call("stays-broken", "broken", true, 6, &refuses("input/output error"));
}

/// Calls that are interrupted or do a part of their work are no faults.
#[test]
fn interrupted_and_short_calls_are_not_seen() {
    for kind in ["interrupted", "short"] {
        each_call(kind, kind, false, 6, &|f, whole, ran, _, what| {
            assert_eq!(ran.status, Some(0), "{what}");
            let run = f.0.join("run");
            assert!(checkpoints(&run).remove(&whole.steps).as_ref() == whole.checkpoints.get(&whole.steps), "{what}");
            assert_eq!(measured(&run), whole.measured, "{what}");
        });
    }
}

/// Killed at each call of the system, in the middle of what it writes.
#[test]
fn a_kill_at_any_call_loses_nothing() {
    each_call("kill", "kill", false, 12, &|f, whole, ran, calls, what| {
        assert_eq!(ran.status, None, "{what}");
        whole.recovered(f, saved(calls), what);
    });
}

/// Data are on the disk before their name is, and the name before the run goes on: a power cut loses no older file.
#[test]
fn names_are_given_to_data_that_are_on_the_disk() {
    if shim().is_none() {
        return;
    }
    let f = folder("order");
    let (ran, calls) = disturbed(&f, &[TRAIN, &["3", "--out", "run"]].concat(), Fault::new("kill", 0));
    ran.fine();
    let name = |call: &str| call.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let names: Vec<String> = calls.iter().map(|call| name(call)).collect();
    let renamed: Vec<usize> = (0..names.len()).filter(|i| names[*i] == "rename").collect();
    assert!(renamed.len() >= 6, "{calls:?}");
    for at in renamed {
        assert_eq!(names[at - 1], "sync", "{calls:?}");
        assert!(calls[at - 1].contains(".unfinished-"), "{calls:?}");
        assert_eq!(names[at + 1..at + 3], ["open", "sync"], "{calls:?}");
    }
}

/// Random numbers (SplitMix64), from the clock: a failure names the seed.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let given = std::env::var("FULGURITE_SEED").ok().and_then(|seed| seed.parse().ok());
        Random(given.unwrap_or(clock.as_nanos() as u64))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end.max(1)
    }
}

/// A run is killed, carries on, is killed again, and so on to its end.
#[test]
fn kills_at_random_moments_lose_nothing() {
    if shim().is_none() {
        return;
    }
    let f = folder("kills");
    let kills: usize = std::env::var("FULGURITE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let args = [TRAIN, &["40", "--out", "run"]].concat();
    let whole = Whole::of(&f, &args);
    let start = Instant::now();
    undisturbed(&f, &args).fine();
    let usual = start.elapsed().as_micros() as u64;
    let mut random = Random::new();
    let (seed, mut killed, mut before_a_checkpoint) = (random.0, 0, 0);
    fs::remove_dir_all(f.0.join("run")).expect("a run");
    while killed < kills {
        let newest = checkpoints(&f.0.join("run")).keys().next_back().copied();
        if newest.is_none() {
            let _ = fs::remove_dir_all(f.0.join("run"));
        }
        let again = ["train", "--resume", "run"];
        let mut child = command(&f.0, if newest.is_some() { &again } else { &args });
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(Duration::from_micros(random.below(usual)));
        let alive = child.try_wait().expect("a child").is_none();
        child.kill().expect("a child");
        let status = child.wait().expect("a child");
        let what = format!("seed {seed}, kill {killed}");
        assert!(status.code().is_none_or(|code| code == 0), "{what}: {status}");
        let found = checkpoints(&f.0.join("run"));
        let now = found.keys().next_back().copied();
        assert!(now >= newest, "{what}: {newest:?} was there, {now:?} is the newest");
        whole.agrees(&found, &what);
        killed += usize::from(alive);
        before_a_checkpoint += usize::from(now.is_none());
        if now == Some(whole.steps) || killed % 4 == 3 {
            whole.recovered(&f, newest, &what);
            let _ = fs::remove_dir_all(f.0.join("run"));
        }
    }
    println!("{killed} kills, {before_a_checkpoint} of them before the first checkpoint, seed {seed}");
}

/// Memory for tensors that is not to be had is an error with a name and a size.
#[test]
fn memory_that_lacks_for_tensors_is_an_error() {
    if shim().is_none() {
        return;
    }
    let f = folder("memory");
    // wide enough for blocks that are mappings
    let wide = |word: &&'static str| match *word {
        "8" => "128",
        "4" => "32",
        "2" => "64",
        other => other,
    };
    let args: Vec<&str> = TRAIN.iter().map(wide).chain(["2", "--out", "run"]).collect();
    let whole = Whole::of(&f, &args);
    for (kind, least, few) in [("storage", "1000000", 8), ("memory", "65536", 8)] {
        let more = [("FAULT_LEAST", least)];
        let calls = disturbed(&f, &args, Fault { more: &more, ..Fault::new(kind, 0) }).1;
        assert!(!calls.is_empty(), "{kind}: no request is counted");
        for at in tried(calls.len(), few) {
            let _ = fs::remove_dir_all(f.0.join("run"));
            let (ran, _) = disturbed(&f, &args, Fault { more: &more, lasts: true, ..Fault::new(kind, at) });
            let what = format!("{kind} at request {at}: {:?} {}", ran.status, ran.err);
            match ran.status {
                Some(0) => {}
                Some(1 | 2) => {
                    let named = ran.err.contains("error[E806]") && ran.err.contains("bytes could not be allocated for");
                    assert!(named || ran.err.contains("error[E9"), "{what}");
                }
                // lists, and the scratch memory of libraries: Rust ends the program, and says so
                None => assert!(kind == "memory" && ran.err.contains("memory allocation of"), "{what}"),
                _ => panic!("{what}"),
            }
            whole.recovered(&f, None, &what);
        }
    }
}

/// A model whose file, or whose data file beside it, can't be read or mapped is an error that names the file.
#[test]
fn a_model_that_can_not_be_read_is_an_error() {
    if shim().is_none() {
        return;
    }
    let f = Folder::new("models");
    fs::create_dir(f.0.join("run")).expect("a folder");
    for name in ["digits.pt2", "beside.onnx", "beside.data"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat/models/data").join(name);
        fs::copy(from, f.0.join("run").join(name)).expect("the models are committed");
    }
    let result = f.0.join("result.safetensors");
    for (model, input) in
        [("run/digits.pt2", "images=full([1, 1, 8, 8], 0.5)"), ("run/beside.onnx", "x=[[1.0, 2.0, 3.0, 4.0]]")]
    {
        let args = ["run", model, "--input", input, "--out", "result.safetensors"];
        undisturbed(&f, &args).fine();
        let whole = fs::read(&result).expect("a result");
        let kinds = [
            ("denied", "permission denied"),
            ("broken", "input/output error"),
            ("unmapped", "cannot allocate memory"),
            ("interrupted", ""),
        ];
        for (kind, reason) in kinds {
            let calls = disturbed(&f, &args, Fault::new(kind, 0)).1;
            assert!(!calls.is_empty(), "{kind}: no call is counted");
            for (at, call) in (1..).zip(&calls) {
                let _ = fs::remove_file(&result);
                let ran = disturbed(&f, &args, Fault::new(kind, at)).0;
                let what = format!("{kind} at call {call}: {:?} {}", ran.status, ran.err);
                if reason.is_empty() {
                    assert!(ran.status == Some(0) && fs::read(&result).is_ok_and(|bytes| bytes == whole), "{what}");
                } else {
                    let file = call.rsplit('/').next().unwrap_or_default();
                    let named = ran.err.contains("error[E9") && ran.err.contains(file);
                    assert!(matches!(ran.status, Some(1 | 2)) && named, "{what}");
                    assert!(ran.err.to_lowercase().contains(reason) && !result.exists(), "{what}");
                }
            }
        }
    }
}

/// Two ranks, one of which is killed, stopped or slowed when it sends its n-th message.
#[test]
fn ranks_that_fail_at_a_message_lose_nothing() {
    if shim().is_none() {
        return;
    }
    let f = folder("messages");
    let ranks = ["3", "--ranks", "2", "--data-parallel", "--timeout", "1", "--out", "run"];
    let args = [TRAIN, &ranks].concat();
    let whole = Whole::of(&f, &args);
    for (kind, few) in [("message-kill", 4), ("message-stop", 2), ("message-slow", 2)] {
        for rank in ["0", "1"] {
            let more = [("FAULT_RANK", rank)];
            let _ = fs::remove_dir_all(f.0.join("run"));
            let (ran, calls) = disturbed(&f, &args, Fault { more: &more, ..Fault::new(kind, 0) });
            ran.fine();
            assert!(!calls.is_empty(), "{kind}: no message is counted");
            for at in tried(calls.len(), few) {
                let _ = fs::remove_dir_all(f.0.join("run"));
                let (ran, _) = disturbed(&f, &args, Fault { more: &more, ..Fault::new(kind, at) });
                let what = format!("{kind} of rank {rank} at message {at}: {:?} {}", ran.status, ran.err);
                match kind {
                    "message-slow" => assert_eq!(ran.status, Some(0), "{what}"),
                    _ => {
                        assert!(ran.status == Some(0) || ran.status == Some(1), "{what}");
                        assert!(ran.status == Some(0) || ran.err.contains(&format!("rank {rank}")), "{what}");
                    }
                }
                let found = checkpoints(&f.0.join("run"));
                whole.agrees(&found, &what);
                let resume = ["train", "--resume", "run", "--ranks", "2", "--data-parallel"];
                if found.keys().next_back().is_some_and(|newest| *newest < whole.steps) {
                    undisturbed(&f, &resume).fine();
                    let last = checkpoints(&f.0.join("run")).remove(&whole.steps);
                    assert!(last.as_ref() == whole.checkpoints.get(&whole.steps), "{what}: carrying on differs");
                }
            }
        }
    }
}
