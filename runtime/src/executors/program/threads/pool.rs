//! Helpers that take parts of one job at a time.
//!
//! The caller offers a job by opening a gate, takes parts itself, closes the gate and waits until no helper is inside.
//! **Invariant:** the job is written only while the gate is closed and no helper is inside, and read only inside. So what a
//! job borrows lives until [`Pool::run`] returns.

use super::claims::{Claims, Parts};
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A helper without work keeps looking for work for this long. Programs have steps of a few
/// microseconds between the steps that threads share; a longer search would take a core from
/// others.
const PATIENCE: Duration = Duration::from_micros(100);
/// The number of looks between two readings of the clock, and between two moments in which other
/// threads of the core may run.
const LOOKS: usize = 64;

/// The function that a thread calls with the parts that it claims.
type Work<'a> = dyn Fn(Claims<'_>) + Sync + 'a;

/// Helpers.
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    /// Bit 0: whether a job is offered. The other bits count the helpers inside.
    gate: AtomicUsize,
    job: UnsafeCell<Job>,
    parts: Parts,
    /// The payload of the first panic of a part.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// The helpers that sleep, or are about to.
    sleepers: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    /// Whether the pool is dropped.
    over: AtomicBool,
}

#[derive(Clone, Copy)]
struct Job {
    /// The work, whose lifetime is that of a call of [`Pool::run`].
    work: Option<*const Work<'static>>,
    tasks: usize,
    parts: usize,
}

// SAFETY: the invariant of this file orders all access to `job`; work is `Sync`.
unsafe impl Sync for Shared {}
// SAFETY: as above; nothing belongs to a thread.
unsafe impl Send for Shared {}

const OPEN: usize = 1;
const INSIDE: usize = 2;

impl Pool {
    /// Starts helpers; `None` if the system grants no threads.
    pub fn new(helpers: usize) -> Option<Pool> {
        let shared = Arc::new(Shared {
            gate: AtomicUsize::new(0),
            job: UnsafeCell::new(Job { work: None, tasks: 0, parts: 0 }),
            parts: Parts::of(helpers + 1),
            panic: Mutex::new(None),
            sleepers: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let mut pool = Pool { shared, threads: Vec::with_capacity(helpers) };
        for n in 1..=helpers {
            let shared = pool.shared.clone();
            let named = std::thread::Builder::new().name(format!("fulgurite-{n}"));
            pool.threads.push(named.spawn(move || shared.help(n)).ok()?);
        }
        Some(pool)
    }

    /// The number of helpers.
    pub fn helpers(&self) -> usize {
        self.threads.len()
    }

    /// Runs a job of this many tasks in this many parts, together with the helpers.
    ///
    /// # Panics
    /// If a part panics: the panic has the message of the first part that panicked.
    pub fn run(&mut self, tasks: usize, parts: usize, work: &Work<'_>) {
        let shared = &*self.shared;
        let work: *const Work<'_> = work;
        // SAFETY: only the lifetime changes. Helpers use the pointer inside of the gate, and this call returns when no
        // helper is inside.
        let work = unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        let job = Job { work: Some(work), tasks, parts };
        // SAFETY: the gate is closed and no helper is inside, because this is the only caller and the last call waited.
        unsafe { *shared.job.get() = job };
        shared.parts.offer(parts);
        shared.gate.store(OPEN, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            drop(shared.sleep.lock().unwrap_or_else(|e| e.into_inner()));
            shared.wake.notify_all();
        }
        shared.take_part(0, &job);
        shared.gate.fetch_and(!OPEN, Ordering::SeqCst);
        let mut looks = 0;
        while shared.gate.load(Ordering::Acquire) != 0 {
            looks += 1;
            pause(looks);
        }
        let panic = shared.panic.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        drop(self.shared.sleep.lock().unwrap_or_else(|e| e.into_inner()));
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // a helper catches the panics of parts
            let _ = thread.join();
        }
    }
}

/// Waits for a moment; from time to time other threads of the core may run.
fn pause(looks: usize) {
    match looks.is_multiple_of(LOOKS) {
        true => std::thread::yield_now(),
        false => std::hint::spin_loop(),
    }
}

impl Shared {
    /// The life of a helper.
    fn help(&self, thread: usize) {
        loop {
            if self.enter() {
                // SAFETY: inside of the gate the job is not written.
                let job = unsafe { *self.job.get() };
                self.take_part(thread, &job);
                self.gate.fetch_sub(INSIDE, Ordering::Release);
            } else if !self.look() {
                self.sleep();
            }
            if self.over.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Whether a job is offered that has parts left.
    fn has_work(&self) -> bool {
        self.gate.load(Ordering::SeqCst) & OPEN != 0 && self.parts.are_left()
    }

    /// Enters the gate, if it is open and there is something to do.
    fn enter(&self) -> bool {
        let mut gate = self.gate.load(Ordering::Relaxed);
        while gate & OPEN != 0 && self.parts.are_left() {
            match self.gate.compare_exchange_weak(gate, gate + INSIDE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => gate = now,
            }
        }
        false
    }

    /// Looks for work for some time; returns whether there is some, or the pool is dropped.
    fn look(&self) -> bool {
        let start = Instant::now();
        let mut looks = 0;
        loop {
            if self.has_work() || self.over.load(Ordering::Relaxed) {
                return true;
            }
            looks += 1;
            pause(looks);
            if looks.is_multiple_of(LOOKS) && start.elapsed() >= PATIENCE {
                return false;
            }
        }
    }

    /// Sleeps until there is work, or the pool is dropped.
    fn sleep(&self) {
        let mut lock = self.sleep.lock().unwrap_or_else(|e| e.into_inner());
        // A caller with a job opens the gate first and counts sleepers then, so either the caller
        // sees this helper or the helper sees the job.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.has_work() && !self.over.load(Ordering::SeqCst) {
            lock = self.wake.wait(lock).unwrap_or_else(|e| e.into_inner());
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Runs the parts that a thread claims. After a panic, the rest is taken back.
    fn take_part(&self, thread: usize, job: &Job) {
        let Some(work) = job.work else { return };
        let claims = Claims::of(&self.parts, thread, job.parts, job.tasks);
        // SAFETY: this is the caller, or a helper inside of the gate, so the work lives.
        let work = AssertUnwindSafe(|| unsafe { (*work)(claims) });
        if let Err(panic) = catch_unwind(work) {
            self.parts.withdraw();
            self.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(panic);
        }
    }
}
