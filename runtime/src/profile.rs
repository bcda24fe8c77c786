//! Profiles: the time of each step of the compiled programs that run while a function runs.
//!
//! A step is a fusion, a product, a scan or a kernel. Its floor is the time in which this machine can move the step's
//! bytes, or do its products if that takes longer. A step near its floor can only become faster with fewer of them.

use crate::executors::{Compiled, StepInfo, StepTime};
use fulgurite_core::loc::Loc;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::peak;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// At most this many single runs are kept, because a long training runs steps without end; their times are added up all
/// the same.
const MOST_EVENTS: usize = 200_000;
/// The bytes that are copied to measure the machine: more than caches hold.
const COPIED: usize = 64 << 20;

/// The head of the table.
const HEAD: &str = "       ms   time    runs   MB a run    GB/s   GFLOP/s  floor  step\n";

/// The steps that ran.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The steps, in the order in which they first ran.
    pub steps: Vec<ProfiledStep>,
    /// The single runs of steps, in order; the first 200,000 are kept.
    pub events: Vec<StepEvent>,
    /// The number of runs that were not kept.
    pub left_out: u64,
}

/// A step of a compiled program, with its runs added up.
#[derive(Clone, Debug)]
pub struct ProfiledStep {
    /// The number of the program, in the order in which programs first ran.
    pub program: usize,
    /// The number of the step in its program.
    pub number: usize,
    /// The description of the step.
    pub info: StepInfo,
    /// The places in the user's source whose calls became this step, each once.
    pub places: Vec<Loc>,
    /// The number of runs.
    pub runs: u64,
    /// The time of all runs together.
    pub time: Duration,
}

/// One run of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepEvent {
    /// The step, as a place in [`Profile::steps`].
    pub step: usize,
    /// The time from the beginning of the profile.
    pub start: Duration,
    /// The time that the run took.
    pub time: Duration,
}

struct Recorder {
    begin: Instant,
    /// The number of each program and the place of its first step, by the program's own number.
    programs: FxHashMap<u64, (usize, usize)>,
    profile: Profile,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Restores the recorder of an enclosing profile, also if the function panics.
struct Restore(Option<Recorder>);

impl Drop for Restore {
    fn drop(&mut self) {
        RECORDER.set(self.0.take());
    }
}

/// Runs `f` and records the steps of the compiled programs that this thread runs meanwhile. What runs in a profile inside
/// of `f` is recorded by that one alone.
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Profile) {
    let recorder = Recorder { begin: Instant::now(), programs: FxHashMap::default(), profile: Profile::default() };
    let outer = Restore(RECORDER.replace(Some(recorder)));
    let result = f();
    let profile = RECORDER.take().map(|r| r.profile).unwrap_or_default();
    drop(outer);
    (result, profile)
}

/// Whether this thread records steps.
pub(crate) fn is_on() -> bool {
    RECORDER.with_borrow(Option::is_some)
}

/// Records a run of the program with this number. `places` gives the places of a step's lines.
pub(crate) fn record(number: u64, program: &Compiled, times: &[StepTime], places: &dyn Fn(&StepInfo) -> Vec<Loc>) {
    RECORDER.with_borrow_mut(|recorder| {
        let Some(Recorder { begin, programs, profile }) = recorder else { return };
        let next = (programs.len(), profile.steps.len());
        let (_, first) = *programs.entry(number).or_insert_with(|| {
            let steps = program.describe().steps.into_iter().enumerate();
            profile.steps.extend(steps.map(|(number, info)| {
                let places = places(&info);
                ProfiledStep { program: next.0, number, info, places, runs: 0, time: Duration::ZERO }
            }));
            next
        });
        for (at, StepTime { start, time }) in times.iter().enumerate() {
            let step = first + at;
            profile.steps[step].runs += 1;
            profile.steps[step].time += *time;
            match profile.events.len() < MOST_EVENTS {
                true => profile.events.push(StepEvent { step, start: start.duration_since(*begin), time: *time }),
                false => profile.left_out += 1,
            }
        }
    });
}

/// The bytes that this machine reads and writes per second on one thread, measured once by copies of 64 MiB.
pub fn bandwidth() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let (from, mut to) = (vec![1u8; COPIED], vec![0u8; COPIED]);
        let copy = |_| {
            let start = Instant::now();
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&to);
            start.elapsed().as_secs_f64()
        };
        // the first copy also brings the pages in
        let least = (0..5).map(copy).fold(f64::INFINITY, f64::min);
        2.0 * COPIED as f64 / least.max(1e-9)
    })
}

/// The floating-point operations of f32 per second that one thread of this machine can do, measured once: products and
/// sums in registers.
pub fn arithmetic() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let multiply_add = peak::pick(Level::current());
        let speed = |_| {
            let start = Instant::now();
            // SAFETY: the processor has the current instruction set.
            let (operations, sum) = unsafe { multiply_add(std::hint::black_box(200_000)) };
            std::hint::black_box(sum);
            operations / start.elapsed().as_secs_f64().max(1e-9)
        };
        (0..8).map(speed).fold(1.0, f64::max)
    })
}

impl ProfiledStep {
    /// The bytes that the step moves per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.info.bytes as f64 * self.runs as f64 / self.time.as_secs_f64().max(1e-12)
    }

    /// The floating-point operations per second; 0 for steps other than products.
    pub fn flops_per_second(&self) -> f64 {
        self.info.flops * self.runs as f64 / self.time.as_secs_f64().max(1e-12)
    }

    /// The time in which one thread of this machine could have moved the bytes of all runs, and done their products.
    /// Memory that stays in the caches moves faster.
    pub fn floor(&self) -> Duration {
        let seconds = (self.info.bytes as f64 / bandwidth()).max(self.info.flops / arithmetic());
        Duration::from_secs_f64(self.runs as f64 * seconds)
    }

    /// The floor's share of the time.
    pub fn share_of_floor(&self) -> f64 {
        self.floor().as_secs_f64() / self.time.as_secs_f64().max(1e-12)
    }

    /// The rows of the lines, each once, with the number of its lines: `mul ×3 add`.
    pub fn rows(&self) -> String {
        let mut counted: Vec<(&str, usize)> = Vec::new();
        for row in self.info.rows.iter().filter(|row| !row.is_empty()) {
            match counted.iter_mut().find(|(name, _)| name == row) {
                Some((_, n)) => *n += 1,
                None => counted.push((row, 1)),
            }
        }
        let show = |(name, n): &(&str, usize)| if *n > 1 { format!("{name} ×{n}") } else { (*name).to_owned() };
        counted.iter().map(show).collect::<Vec<_>>().join(" ")
    }
}

impl Profile {
    /// The time of all steps together.
    pub fn time(&self) -> Duration {
        self.steps.iter().map(|s| s.time).sum()
    }

    /// The floor of all steps together.
    pub fn floor(&self) -> Duration {
        self.steps.iter().map(ProfiledStep::floor).sum()
    }

    /// The steps, those that took most time first.
    pub fn slowest(&self) -> Vec<&ProfiledStep> {
        let mut steps: Vec<&ProfiledStep> = self.steps.iter().filter(|s| s.runs > 0).collect();
        steps.sort_by_key(|s| std::cmp::Reverse(s.time));
        steps
    }

    /// The table of at most `most` steps, those that took most time first.
    pub fn table(&self, most: usize) -> String {
        let total = self.time().as_secs_f64().max(1e-12);
        let slowest = self.slowest();
        let mut out = HEAD.to_owned();
        for step in slowest.iter().take(most) {
            let time = step.time.as_secs_f64();
            let flops = match step.flops_per_second() {
                0.0 => String::new(),
                flops => format!("{:.1}", flops / 1e9),
            };
            let place = step.places.first().map_or_else(String::new, |place| format!("  {place}"));
            out += &format!(
                "{:>9.3}  {:>4.1}%  {:>6}  {:>9.3}  {:>6.1}  {flops:>8}  {:>4.0}%  {} {}.{} {} [{}]{place}\n",
                time * 1e3,
                100.0 * time / total,
                step.runs,
                step.info.bytes as f64 / 1e6,
                step.bytes_per_second() / 1e9,
                100.0 * step.share_of_floor(),
                step.info.executor,
                step.program,
                step.number,
                step.info.what,
                step.rows(),
            );
        }
        if slowest.len() > most {
            let rest: Duration = slowest[most..].iter().map(|s| s.time).sum();
            out += &format!("{:>9.3}  {} further steps\n", rest.as_secs_f64() * 1e3, slowest.len() - most);
        }
        out
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table(usize::MAX))
    }
}
