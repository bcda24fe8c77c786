//! Trains, saves, serves and compiles in one process for a number of minutes, and checks that memory stays the same.
//!
//! `cargo run --release -p fulgurite-programs --bin load -- 600` runs for 600 minutes. Every minute, or ten times in a shorter
//! run, it prints a line with its counts, the resident memory and the number of open files.
//!
//! The exit status is 1 in two cases: a result differs from the first of its kind, or the second half of the run needs more
//! memory or more open files than the first half.

use fulgurite::checkpoint;
use fulgurite::prelude::*;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The threads that call one compiled function.
const CALLERS: usize = 16;
/// Memory may differ by this share, and by this many MiB, because the allocator keeps some of what is freed.
const SLACK: (f64, f64) = (1.05, 16.0);

/// What was done so far, and whether to stop.
#[derive(Default)]
struct Work {
    steps: AtomicU64,
    saves: AtomicU64,
    calls: AtomicU64,
    programs: AtomicU64,
    stop: AtomicBool,
}

impl Work {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

fn main() -> ExitCode {
    let minutes: f64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    match run(minutes) {
        Some(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// Runs for a number of minutes; what it finds wrong.
fn run(minutes: f64) -> Option<String> {
    let folder = std::env::temp_dir().join(format!("fulgurite-load-{}", std::process::id()));
    if let Err(e) = std::fs::create_dir_all(&folder) {
        return Some(format!("`{}` cannot be made: {e}", folder.display()));
    }
    let work = Work::default();
    let fault = std::thread::scope(|scope| {
        let mut threads = vec![scope.spawn(|| train(&work, &folder)), scope.spawn(|| compile(&work))];
        let served = Arc::new(jit(|(x, w): (Tensor, Tensor)| x.matmul(&w).gelu().softmax(-1)));
        for caller in 0..CALLERS {
            let (served, work) = (served.clone(), &work);
            threads.push(scope.spawn(move || {
                let args = (ops::randn(Key::new(caller as u64), (8, 32)), ops::randn(Key::new(99), (32, 16)));
                let first = served.call(args.clone())?.to_vec::<f32>()?;
                while work.goes_on() {
                    if served.call(args.clone())?.to_vec::<f32>()? != first {
                        return Ok(Some(format!("caller {caller} got other bits than at its first call")));
                    }
                    work.calls.fetch_add(1, Ordering::Relaxed);
                }
                Ok(None)
            }));
        }
        let mut fault = watch(&work, minutes);
        work.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            let said = match thread.join() {
                Ok(Ok(said)) => said,
                Ok(Err(e)) => Some(e.to_string()),
                Err(_) => Some("a thread panicked".to_owned()),
            };
            fault = fault.or(said);
        }
        fault
    });
    let _ = std::fs::remove_dir_all(&folder);
    fault
}

/// What a thread found wrong.
type Found = Result<Option<String>, Error>;

/// Trains a small model, and saves and loads its state every hundred steps.
fn train(work: &Work, folder: &Path) -> Found {
    type State = (Linear, AdamW<Linear>);
    let x = ops::randn(Key::new(1), (256, 64));
    let y = x.matmul(&ops::randn(Key::new(2), (64, 32)));
    let step = jit(|(model, optimiser): State, (x, y): (Tensor, Tensor)| {
        let (loss, grads) = value_and_grad(&model, |model| (model.at(&x) - &y).square().mean());
        (optimiser.step(model, grads, 1e-3), loss)
    });
    let model = Linear::new(Key::new(3), 64, 32);
    let mut state: State = (model.clone(), AdamW::new(&model));
    let path = folder.join("state.safetensors");
    while work.goes_on() {
        step.update(&mut state, (x.clone(), y.clone()))?;
        if work.steps.fetch_add(1, Ordering::Relaxed) % 100 == 99 {
            checkpoint::save(&path, &state)?;
            let before = state.0.w.to_vec::<f32>()?;
            checkpoint::load(&path, &mut state)?;
            if state.0.w.to_vec::<f32>()? != before {
                return Ok(Some("a state was read otherwise than it was written".to_owned()));
            }
            work.saves.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(None)
}

/// Compiles a program for one new size after the other: by functions that keep a program for each size, that keep one for
/// all, and that are dropped.
fn compile(work: &Work) -> Found {
    let body = |x: Tensor| (x.sin() * 2.0).sum_with(ops::Sum { dims: [-1].into(), keepdim: false, ..d() });
    let (each, all) = (jit(body), jit(body).caching(Caching::Symbolic));
    for n in (1..2000usize).cycle() {
        if !work.goes_on() {
            break;
        }
        let x = ops::randn(Key::new(n as u64), (3, n));
        let dropped = jit(body);
        let results = [each.call(x.clone())?, all.call(x.clone())?, dropped.call(x.clone())?, body(x)];
        let bits = results.iter().map(Tensor::to_vec::<f32>).collect::<Result<Vec<_>, _>>()?;
        if bits[0] != bits[2] || bits.iter().any(|b| b.len() != 3) {
            return Ok(Some(format!("two programs for {n} columns give other bits")));
        }
        work.programs.fetch_add(3, Ordering::Relaxed);
    }
    Ok(None)
}

/// Prints a line for each interval; what it finds wrong with memory and handles at the end.
fn watch(work: &Work, minutes: f64) -> Option<String> {
    let (start, all) = (Instant::now(), Duration::from_secs_f64(60.0 * minutes));
    let interval = (all / 10).min(Duration::from_secs(60));
    let mut seen: Vec<(f64, f64)> = Vec::new();
    println!("minutes    steps    saves        calls  programs  MiB  handles");
    while start.elapsed() < all {
        std::thread::sleep(interval);
        let now = (resident().unwrap_or_default(), handles().unwrap_or_default());
        seen.push(now);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!(
            "{:7.1} {:8} {:8} {:12} {:9} {:4.0} {:8}",
            start.elapsed().as_secs_f64() / 60.0,
            count(&work.steps),
            count(&work.saves),
            count(&work.calls),
            count(&work.programs),
            now.0,
            now.1
        );
    }
    let most = |part: &[(f64, f64)]| part.iter().fold((0f64, 0f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    let (early, late) = seen.split_at(seen.len() / 2);
    let (early, late) = (most(early), most(late));
    if late.0 > early.0 * SLACK.0 + SLACK.1 {
        return Some(format!("memory grew from {:.0} to {:.0} MiB", early.0, late.0));
    }
    (late.1 > early.1 + CALLERS as f64).then(|| format!("open handles grew from {} to {}", early.1, late.1))
}

/// The resident memory in MiB; none where the system does not say.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// The number of open files.
fn handles() -> Option<f64> {
    Some(std::fs::read_dir("/proc/self/fd").ok()?.count() as f64)
}

#[test]
fn a_few_seconds_find_nothing_wrong() {
    assert_eq!(run(0.05), None);
}
