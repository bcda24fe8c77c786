//! Runs one input, and measures it.

use crate::memory;
use crate::target::{FuzzTarget, InputAnswer, form};
use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

/// What is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialFault {
    /// Inputs with equal kinds are taken for one finding.
    pub kind: String,
    /// In words.
    pub says: String,
}

thread_local! {
    /// The message and place of the last panic.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// While an input runs its panics are noted instead of printed.
fn quiet() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let said = info.to_string().lines().collect::<Vec<_>>().join(" ");
            if panic::catch_unwind(|| PANIC.with(|last| *last.borrow_mut() = Some(said.clone()))).is_err() {
                eprintln!("{said}");
            }
            if LIMIT.load(Relaxed) == 0 {
                eprintln!("{said}");
            }
        }));
    });
}

/// The end of the time of the input that runs, in milliseconds since the start; 0 if none runs.
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// The time that all threads may have run then, in milliseconds.
static WORK: AtomicU64 = AtomicU64::new(0);
/// Where the input that runs is kept, so that it is there if the process ends: its length, then its bytes. The file is
/// never cut, because a file system may wait for the disk then.
static KEPT: Mutex<Option<(PathBuf, File)>> = Mutex::new(None);

/// An input runs for this many times its limit before the process is ended, because a hang cannot be stopped otherwise.
const HANGS: u32 = 10;
/// An input that has not computed for as long gets this many milliseconds more, because other programs may have had the
/// processor. After that it waits for something that does not come.
const WAITS: u64 = 600_000;
/// The status of a process that an input has made hang.
pub const HUNG: i32 = 86;

fn now() -> u64 {
    static START: Mutex<Option<Instant>> = Mutex::new(None);
    let start = *START.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_with(Instant::now);
    start.elapsed().as_millis() as u64
}

/// Ends the process if an input hangs.
fn watch() {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        let watch = || loop {
            std::thread::sleep(Duration::from_millis(500));
            let limit = LIMIT.load(Relaxed);
            let computes = || worked().is_none_or(|work| work.as_millis() as u64 > WORK.load(Relaxed));
            if limit != 0 && now() > limit && (computes() || now() > limit + WAITS) {
                eprintln!("an input hangs");
                std::process::exit(HUNG);
            }
        };
        // without a thread to watch there is no end to a hang, and the user ends it
        _ = std::thread::Builder::new().name("watch".into()).spawn(watch);
    });
}

/// Each input that runs is written to this file first.
///
/// # Errors
/// The error of the file system.
pub fn keep_in(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    *KEPT.lock().unwrap_or_else(|e| e.into_inner()) = Some((path.to_owned(), file));
    Ok(())
}

fn keep(input: &[u8]) {
    if let Some((_, file)) = &mut *KEPT.lock().unwrap_or_else(|e| e.into_inner()) {
        let whole = [&(input.len() as u64).to_le_bytes()[..], input].concat();
        // a file that can't be written is noticed where it is read
        _ = file.seek(SeekFrom::Start(0)).and_then(|_| file.write_all(&whole));
    }
}

/// The input that ran last in a process that has ended.
///
/// # Errors
/// The error of the file system.
pub fn kept_in(path: &Path) -> io::Result<Vec<u8>> {
    let whole = std::fs::read(path)?;
    let (length, input) = whole.split_first_chunk().unwrap_or((&[0; 8], &[]));
    let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(0);
    Ok(input.get(..length).unwrap_or(input).to_vec())
}

/// Gives the input to the target; every broken law, limit or panic is a fault.
///
/// # Errors
/// The fault.
pub fn run(target: &FuzzTarget, input: &[u8]) -> Result<InputAnswer, TrialFault> {
    quiet();
    watch();
    keep(input);
    let longest = target.limits.longest(input.len());
    let (mut outcome, mut took) = once(target, input);
    // Other programs may have taken the processor, so a slow input gets a second chance.
    if took > longest && outcome.is_ok() {
        let (again, second) = once(target, input);
        (outcome, took) = (again, took.min(second));
    }
    let answer = outcome?;
    if took > longest {
        let says = format!("{} bytes take {took:.1?}, and {longest:.1?} at most is right", input.len());
        return Err(TrialFault { kind: "time".into(), says });
    }
    Ok(answer)
}

/// The time that all threads of this process have run, where the system says it.
fn worked() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // the name of the program, in brackets, may have spaces; the times are the 12th and 13th words behind it
    let mut words = text.rsplit(')').next()?.split_whitespace().skip(11);
    let ticks = words.next()?.parse::<u64>().ok()? + words.next()?.parse::<u64>().ok()?;
    // Linux counts in hundredths of a second on every platform
    Some(Duration::from_millis(ticks.saturating_mul(10)))
}

fn once(target: &FuzzTarget, input: &[u8]) -> (Result<InputAnswer, TrialFault>, Duration) {
    let longest = target.limits.longest(input.len());
    let (started, worked) = (Instant::now(), worked());
    let hangs = longest * HANGS;
    WORK.store((worked.unwrap_or_default() + hangs).as_millis() as u64, Relaxed);
    LIMIT.store(now() + hangs.as_millis() as u64, Relaxed);
    let (ran, memory) =
        memory::measured(target.limits.piece, || panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    let mut took = started.elapsed();
    if let (true, Some(before), Some(after)) = (took > longest, worked, self::worked()) {
        // other programs may have had the processor for most of the time
        took = took.min(after.saturating_sub(before));
    }
    LIMIT.store(0, Relaxed);
    let most = target.limits.most(input.len());
    let outcome = match ran {
        Err(_) => {
            let said =
                PANIC.with(|last| last.borrow_mut().take()).unwrap_or_else(|| "a panic in another thread".into());
            Err(TrialFault { kind: format!("panic {}", place(&said)), says: said })
        }
        Ok(Err(law)) => Err(TrialFault { kind: format!("law {}", form(&law)), says: law }),
        Ok(Ok(_)) if memory > most => {
            let says = format!("{} bytes take {memory} bytes of memory, and {most} at most is right", input.len());
            Err(TrialFault { kind: "memory".into(), says })
        }
        Ok(Ok(answer)) => Ok(answer),
    };
    (outcome, took)
}

/// The place in the source that a panic's message names.
fn place(said: &str) -> &str {
    said.split_whitespace().find(|word| word.contains(".rs:")).unwrap_or(said).trim_end_matches(':')
}
