//! The command: runs a target for some seconds, or one input.

use fulgurite_fuzz::campaign::CampaignEnd;
use fulgurite_fuzz::supervisor::{self, CampaignSettings};
use fulgurite_fuzz::target::FuzzTarget;
use fulgurite_fuzz::{targets, trial};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
Usage: cargo run -p fulgurite-fuzz -- [TARGET] [options]

Without a target: every target in turn.

  --seconds N     how long each target runs; 30 if it is not given
  --inputs N      how many inputs each target runs, instead of a time
  --seed N        the seed of its draws; 1 if it is not given
  --jobs N        how many targets run at once; 1 if it is not given
  --all           go on after a finding, and report one of each kind
  --findings DIR  where findings go; fuzz/findings if it is not given
  --input FILE    run this input alone, and say what is wrong with it
  --list          the targets

The status is 1 if there was a finding, and 2 if the arguments are wrong.";

/// At most this many targets run at once, because each may take 3 GB.
const MOST_JOBS: usize = 64;

/// What the command line says.
struct Arguments {
    target: Option<String>,
    settings: CampaignSettings,
    input: Option<PathBuf>,
    worker: Option<PathBuf>,
    jobs: usize,
    here: bool,
    list: bool,
}

fn arguments() -> Result<Arguments, String> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/findings"));
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let settings =
        CampaignSettings { seed: 1, end: CampaignEnd::Time(Duration::from_secs(30)), all: false, folder, program };
    let mut read = Arguments { target: None, settings, input: None, worker: None, jobs: 1, here: false, list: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("`{word}` needs a value"));
        match word.as_str() {
            "--seconds" => {
                let seconds = value()?.parse().ok().and_then(|n| Duration::try_from_secs_f64(n).ok());
                read.settings.end = CampaignEnd::Time(seconds.ok_or("`--seconds` is a number")?);
            }
            "--inputs" => {
                let inputs = value()?.parse().map_err(|_| "`--inputs` is a whole number")?;
                read.settings.end = CampaignEnd::Inputs(inputs);
            }
            "--seed" => read.settings.seed = value()?.parse().map_err(|_| "`--seed` is a whole number")?,
            "--jobs" => {
                let jobs = value()?.parse().ok().filter(|jobs| (1..=MOST_JOBS).contains(jobs));
                read.jobs = jobs.ok_or_else(|| format!("`--jobs` is a number from 1 to {MOST_JOBS}"))?;
            }
            "--all" => read.settings.all = true,
            "--findings" => read.settings.folder = value()?.into(),
            "--input" => read.input = Some(value()?.into()),
            "--worker" => read.worker = Some(value()?.into()),
            "--here" => read.here = true,
            "--list" => read.list = true,
            "--help" | "-h" => return Err(String::new()),
            name if !name.starts_with('-') && read.target.is_none() => read.target = Some(name.to_owned()),
            other => return Err(format!("`{other}` is no argument of this command")),
        }
    }
    Ok(read)
}

fn main() -> ExitCode {
    let ran = arguments().and_then(run);
    match ran {
        Ok(found) => ExitCode::from(u8::from(found)),
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: Arguments) -> Result<bool, String> {
    if arguments.list {
        targets::ALL.iter().for_each(|target| println!("{:<12} {}", target.name, target.about));
        return Ok(false);
    }
    let chosen: Vec<&FuzzTarget> = match &arguments.target {
        None => targets::ALL.to_vec(),
        Some(name) => {
            let target = targets::ALL.iter().find(|target| target.name == name);
            vec![target.ok_or_else(|| format!("there is no target `{name}`; `--list` shows them"))?]
        }
    };
    let io = |e: std::io::Error| e.to_string();
    match (chosen.as_slice(), &arguments.input, &arguments.worker) {
        ([target], Some(path), _) if !arguments.here => supervisor::one(target, &arguments.settings, path).map_err(io),
        ([target], Some(path), _) => {
            let input = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
            match trial::run(target, &input) {
                Ok(answer) => println!("it is {}", if answer.accepted { "accepted" } else { "refused" }),
                Err(fault) => {
                    println!("{}\n{}", fault.kind, fault.says);
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (_, Some(_), _) => Err("`--input` needs a target".to_owned()),
        ([target], None, Some(kept)) => supervisor::work(target, &arguments.settings, kept).map_err(io),
        _ => supervisor::supervise_all(&chosen, &arguments.settings, arguments.jobs).map_err(io),
    }
}
