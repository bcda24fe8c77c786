//! Runs a campaign in a process of its own, because an input may overflow its stack, run out of memory or hang.

use crate::campaign::{Campaign, CampaignEnd};
use crate::finding;
use crate::target::FuzzTarget;
use crate::trial::{self, TrialFault};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How a campaign is run.
#[derive(Clone, Debug)]
pub struct CampaignSettings {
    /// The seed of its draws.
    pub seed: u64,
    /// When it ends.
    pub end: CampaignEnd,
    /// The command of this crate, which runs the inputs.
    pub program: PathBuf,
    /// Whether it goes on after a finding.
    pub all: bool,
    /// Where findings go.
    pub folder: PathBuf,
}

/// The most memory of the process that runs inputs, in kB: mapped memory escapes the count of the allocator.
const MEMORY: usize = 3 << 20;
/// The status of a process that had findings.
const FOUND: i32 = 1;
/// At most this many processes for a campaign, because inputs that end theirs may be frequent.
const PROCESSES: u64 = 200;

/// Runs the campaign in this process.
///
/// # Errors
/// The error of the file system, if a finding can't be saved.
pub fn work(target: &FuzzTarget, settings: &CampaignSettings, kept: &Path) -> io::Result<bool> {
    trial::keep_in(kept)?;
    let started = Instant::now();
    let mut campaign = Campaign::new(target, settings.seed);
    let (mut kinds, mut failed) = (BTreeSet::new(), Ok(()));
    campaign.run(settings.end, |input, fault| {
        if kinds.insert(fault.kind.clone()) {
            failed = report(target, settings, input, &fault, true);
        }
        settings.all && failed.is_ok()
    });
    println!("{}", campaign.says(started.elapsed()));
    failed.map(|()| !kinds.is_empty())
}

/// Saves a finding, and says how to run it again.
fn report(
    target: &FuzzTarget,
    settings: &CampaignSettings,
    input: &[u8],
    fault: &TrialFault,
    here: bool,
) -> io::Result<()> {
    let path = finding::save(&settings.folder, target, input, fault)?;
    eprintln!("{}: {}", target.name, fault.says);
    let small = match here {
        true => finding::minimised(target, input, fault),
        false => finding::smaller(input, Duration::from_secs(60), |input| ends(target, settings, input)),
    };
    finding::save(&settings.folder, target, &small, fault)?;
    eprintln!("  {} bytes, {} when made smaller: {}", input.len(), small.len(), path.display());
    eprintln!("  cargo run -p fulgurite-fuzz -- {} --input {}", target.name, path.display());
    Ok(())
}

/// The command with further arguments, within bounds of memory.
fn process(settings: &CampaignSettings, arguments: &[String]) -> Command {
    let mut command = Command::new("sh");
    let bounded = format!("ulimit -c 0; ulimit -v {MEMORY}; exec \"$0\" \"$@\"");
    command.args(["-c", &bounded]).arg(&settings.program).args(arguments);
    command
}

/// Runs one input in a process of its own; true if it is a finding.
///
/// # Errors
/// The error of the system, if no process can be started.
pub fn one(target: &FuzzTarget, settings: &CampaignSettings, input: &Path) -> io::Result<bool> {
    let status = process(settings, &lone(target, input)).status()?;
    if !matches!(status.code(), Some(0 | FOUND)) {
        println!("{}", ended(status).says);
    }
    Ok(!status.success())
}

/// The arguments for one input.
fn lone(target: &FuzzTarget, input: &Path) -> [String; 4] {
    [target.name.to_owned(), "--input".to_owned(), input.display().to_string(), "--here".to_owned()]
}

/// Whether this input ends the process that reads it.
fn ends(target: &FuzzTarget, settings: &CampaignSettings, input: &[u8]) -> bool {
    let path = settings.folder.join(format!("{}.tried", target.name));
    let ran = std::fs::write(&path, input)
        .and_then(|()| process(settings, &lone(target, &path)).stdout(Stdio::null()).stderr(Stdio::null()).status());
    _ = std::fs::remove_file(&path);
    ran.is_ok_and(|status| !matches!(status.code(), Some(0 | FOUND)))
}

/// Runs the campaign in processes of their own; true if there was a finding.
///
/// # Errors
/// The error of the system, if no process can be started or a finding can't be saved.
pub fn supervise(target: &FuzzTarget, settings: &CampaignSettings) -> io::Result<bool> {
    std::fs::create_dir_all(&settings.folder)?;
    let started = Instant::now();
    let kept = settings.folder.join(format!("{}.{}.running", target.name, settings.seed));
    let mut found = false;
    for n in 0..PROCESSES {
        let end = match settings.end {
            CampaignEnd::Time(time) => {
                let left = time.saturating_sub(started.elapsed());
                if n > 0 && left < Duration::from_secs(2) {
                    break;
                }
                ["--seconds".to_owned(), left.as_secs_f64().to_string()]
            }
            CampaignEnd::Inputs(inputs) => ["--inputs".to_owned(), inputs.to_string()],
        };
        // A process that was ended has drawn its inputs: the next one draws others.
        let seed = settings.seed.wrapping_add(n.wrapping_mul(1_000_003));
        let mut arguments = vec![
            target.name.to_owned(),
            "--worker".to_owned(),
            kept.display().to_string(),
            "--seed".to_owned(),
            seed.to_string(),
            "--findings".to_owned(),
            settings.folder.display().to_string(),
        ];
        arguments.extend(end);
        arguments.extend(settings.all.then(|| "--all".to_owned()));
        let status = process(settings, &arguments).status()?;
        match status.code() {
            Some(0) => break,
            Some(FOUND) => {
                found = true;
                break;
            }
            _ => {
                found = true;
                let input = trial::kept_in(&kept)?;
                report(target, settings, &input, &ended(status), false)?;
                if !settings.all {
                    break;
                }
            }
        }
    }
    _ = std::fs::remove_file(&kept);
    Ok(found)
}

/// Runs the campaigns of several targets, `jobs` of them at once; true if there was a finding.
///
/// # Errors
/// As [`supervise`].
pub fn supervise_all(targets: &[&FuzzTarget], settings: &CampaignSettings, jobs: usize) -> io::Result<bool> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = false;
        while let Some(target) = targets.get(next.fetch_add(1, Relaxed)) {
            found |= supervise(target, settings)?;
        }
        Ok(found)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..jobs.min(targets.len())).map(|_| scope.spawn(work)).collect();
        let ended = |_| Err(io::Error::other("a thread that runs campaigns has panicked"));
        let rest: Vec<io::Result<bool>> =
            std::iter::once(work()).chain(others.into_iter().map(|other| other.join().unwrap_or_else(ended))).collect();
        rest.into_iter().try_fold(false, |found, one| Ok(one? || found))
    })
}

fn ended(status: ExitStatus) -> TrialFault {
    let says = match status.code() {
        Some(trial::HUNG) => "the input hangs".to_owned(),
        _ => format!("the input ends the process: {status}"),
    };
    TrialFault { kind: says.clone(), says }
}
