//! `fulgurite schedule`: makes, checks, draws and compares schedules of pipelines.

mod draw;
mod page;

use crate::args;
use crate::fault::{Fault, Outcome};
use crate::ui::{Ink, Mode, Ui, format};
use fulgurite::files;
use fulgurite::schedule::{Costs, Generator, KINDS, Limits, Schedule, Timeline, check, simulate};
use serde_json::{Value, json};

/// A schedule, with its costs.
struct Entry {
    name: String,
    schedule: Schedule,
    timeline: Timeline,
}

impl Entry {
    /// The share of all ranks' time that is spent waiting.
    fn waiting(&self) -> f64 {
        let all = self.timeline.makespan * self.timeline.ranks.len() as u64;
        let idle: u64 = self.timeline.ranks.iter().map(|r| r.idle).sum();
        if all == 0 { 0.0 } else { idle as f64 / all as f64 }
    }

    fn peak(&self) -> usize {
        self.timeline.ranks.iter().map(|r| r.peak).max().unwrap_or(0)
    }

    fn bytes(&self) -> u64 {
        self.timeline.ranks.iter().map(|r| r.bytes).max().unwrap_or(0)
    }
}

/// Runs the command.
///
/// # Errors
/// E751 for a schedule that cannot be made, read or run; E910, E913 for files, pages among them; E921 for wrong times.
pub fn run(args: &args::Schedule, ui: &Ui) -> Outcome {
    if let Some(path) = &args.check {
        return of_file(path, args, ui);
    }
    match &args.name {
        Some(name) => {
            let kind = KINDS.iter().find(|k| *k == name).ok_or_else(|| {
                Fault::usage("E751", format!("there is no schedule `{name}`"))
                    .help(format!("one of {}", KINDS.join(", ")))
            })?;
            let schedule = generate(kind, args, chunks(kind, args.stages_per_rank))?;
            show(entry((*kind).to_owned(), schedule, args)?, args, ui)
        }
        None => compare(args, ui),
    }
}

/// The number of stages per rank: fixed by the schedule, else by the option.
fn chunks(kind: &str, asked: Option<usize>) -> usize {
    match kind {
        "gpipe" | "1f1b" => asked.unwrap_or(1),
        "zb1p" => asked.unwrap_or(1),
        _ => asked.unwrap_or(2),
    }
}

fn generate(kind: &'static str, args: &args::Schedule, chunks: usize) -> Result<Schedule, Fault> {
    Ok(Generator { kind, ranks: args.ranks, micro_batches: args.micro_batches, chunks }.make()?)
}

/// The costs of a stage, for a model cut into `stages`; the given times are those of a rank's share of the model.
fn costs(args: &args::Schedule, stages: usize, ranks: usize) -> Result<Costs, Fault> {
    let wrong = || Fault::usage("E921", "`--times` takes three numbers: F,I,W").help("as `--times 10,10,10`");
    let times: Vec<u64> =
        args.times.split(',').map(|t| t.trim().parse()).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let [f, i, w] = times[..] else { return Err(wrong()) };
    if [f, i, w, args.delay].iter().any(|t| *t > MOST) || args.overlap > 100 || args.bytes > 1 << 50 {
        let claim = format!("times go to {MOST}, `--overlap` to 100, `--bytes` to 2^50");
        return Err(Fault::usage("E921", claim));
    }
    let share = (stages / ranks.max(1)).max(1) as u64;
    // Several stages on a rank together have the work of its share, so times are divided into parts.
    let parts = |t: u64| t * PARTS / share;
    let mut costs = Costs::even(stages, parts(f), parts(i), parts(w));
    costs.overlap = args.overlap;
    costs.delay = args.delay * PARTS;
    costs.kept = vec![args.bytes / share; stages];
    costs.handed = costs.kept.clone();
    Ok(costs)
}

/// The longest admitted time.
const MOST: u64 = 1_000_000;

/// The number of parts of a unit of time: divisible by the usual numbers of stages per rank, so that times stay whole.
const PARTS: u64 = 720;

fn entry(name: String, schedule: Schedule, args: &args::Schedule) -> Result<Entry, Fault> {
    let timeline = simulate(&schedule, &costs(args, schedule.stages, schedule.ranks())?)?;
    Ok(Entry { name, schedule, timeline })
}

fn of_file(path: &std::path::Path, args: &args::Schedule, ui: &Ui) -> Outcome {
    let text = std::fs::read_to_string(path).map_err(|e| Fault::unreadable(path, &e))?;
    let schedule: Schedule = text.parse()?;
    let found = check(&schedule, &Limits { live: args.live });
    if found.is_empty() {
        return show(entry(path.display().to_string(), schedule, args)?, args, ui);
    }
    for violation in &found {
        match ui.mode() {
            Mode::Json => ui.object(&json!({"v": 1, "law": violation.law.to_string(), "rank": violation.rank,
                "position": violation.position, "claim": violation.claim})),
            _ => ui.result(&violation.to_string()),
        }
    }
    Err(Fault::failed("E751", format!("{} things are wrong with the schedule", found.len())))
}

fn show(entry: Entry, args: &args::Schedule, ui: &Ui) -> Outcome {
    if let Some(path) = &args.html {
        page::page(path, std::slice::from_ref(&entry), None, &[])?;
        ui.status("Wrote", &format!("{} (open it in a browser)", path.display()));
    }
    if let Some(path) = &args.svg {
        files::refresh(path, draw::svg(&entry.schedule, &entry.timeline)).map_err(|e| Fault::unwritable(path, &e))?;
        ui.status("Drawn", &path.display().to_string());
    }
    if let Mode::Json = ui.mode() {
        ui.object(&object(&entry));
        return Ok(());
    }
    if args.text {
        ui.result(&entry.schedule.to_string());
        return Ok(());
    }
    draw::lines(&entry.schedule, &entry.timeline, ui).iter().for_each(|line| ui.result(line));
    ui.result(&format!(
        "{}: {} ranks wait {:.1} % of their time, {} micro-batches (times stages) are kept at most",
        entry.name,
        entry.timeline.ranks.len(),
        100.0 * entry.waiting(),
        entry.peak()
    ));
    Ok(())
}

fn object(entry: &Entry) -> Value {
    let rank = |r: &fulgurite::schedule::Rank| {
        json!({"busy": r.busy as f64 / PARTS as f64, "idle": r.idle as f64 / PARTS as f64,
            "inside": r.inside as f64 / PARTS as f64, "peak": r.peak, "bytes": r.bytes})
    };
    json!({"v": 1, "schedule": entry.name, "text": entry.schedule.to_string(),
        "makespan": entry.timeline.makespan as f64 / PARTS as f64, "waiting": entry.waiting(),
        "ranks": entry.timeline.ranks.iter().map(rank).collect::<Vec<_>>()})
}

/// Compares all schedules for one model and equal ranks and micro-batches. The best one is the fastest within the
/// limits.
fn compare(args: &args::Schedule, ui: &Ui) -> Outcome {
    let (mut entries, mut without) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let own = if matches!(kind, "gpipe" | "1f1b") { None } else { args.stages_per_rank };
        let own = if matches!(kind, "zbv" | "dualpipev") { None } else { own };
        match generate(kind, args, chunks(kind, own)) {
            Ok(schedule) => entries.push(entry(kind.to_owned(), schedule, args)?),
            Err(fault) => without.push((kind, fault.claim.clone())),
        }
    }
    let most = |e: &Entry| {
        // Two stages of half the size keep as many bytes as one.
        let share = (e.schedule.stages / e.schedule.ranks()).max(1);
        args.live.is_none_or(|live| e.peak() <= live.saturating_mul(share))
            && args.memory.is_none_or(|bytes| e.bytes() <= bytes)
    };
    let best = entries.iter().filter(|e| most(e)).min_by_key(|e| (e.timeline.makespan, e.bytes(), e.peak()));
    let best = best.map(|e| e.name.clone());
    if let Some(path) = &args.html {
        page::page(path, &entries, best.as_deref(), &without)?;
        ui.status("Wrote", &format!("{} (open it in a browser)", path.display()));
    }
    if let Mode::Json = ui.mode() {
        entries.iter().for_each(|e| ui.object(&object(e)));
        ui.object(&json!({"v": 1, "best": best}));
        return Ok(());
    }
    ui.result("schedule      time   waiting   kept      bytes");
    for e in &entries {
        let line = format!(
            "{:12} {:>5.1}   {:>5.1} %   {:>4}  {:>9}{}",
            e.name,
            e.timeline.makespan as f64 / PARTS as f64,
            100.0 * e.waiting(),
            e.peak(),
            format::bytes(e.bytes() as usize),
            if most(e) { "" } else { "   keeps too much" }
        );
        let is_best = best.as_deref() == Some(&e.name);
        ui.result(&if is_best { ui.paint(Ink::Line, &format!("{line}   best")) } else { line });
    }
    without.iter().for_each(|(kind, why)| ui.result(&format!("{kind:12} -       {why}")));
    Ok(())
}
