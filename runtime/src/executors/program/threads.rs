//! The threads that run programs: one pool of a settable size, entered once per run.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Work of fewer estimated nanoseconds stays on one thread: handing it over costs about a microsecond, and a core that
/// is busy with other work costs much more.
pub const WORTH_SHARING: f64 = 25_000.0;

/// The number of threads; 0 if it was not set yet.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The number of threads that the machine runs at once.
static MACHINE: OnceLock<usize> = OnceLock::new();
static POOL: Mutex<Option<Arc<ThreadPool>>> = Mutex::new(None);

/// The number of threads that programs use.
pub fn threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        // the system reads files to answer, which takes longer than a small program, so it is asked once
        0 => *MACHINE.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
        n => n,
    }
}

/// Sets the number of threads that programs use, at least one. Results do not depend on it.
pub fn set_threads(n: usize) {
    THREADS.store(n.max(1), Ordering::Relaxed);
}

/// Forgets the pool of threads. A process that was forked has none of its parent's threads, so it must call this before
/// it runs a program.
pub fn forget_threads() {
    let pool = POOL.lock().unwrap_or_else(|e| e.into_inner()).take();
    // dropping the pool would wait for threads that are not there
    std::mem::forget(pool);
}

/// Runs `f` inside the pool, or on the calling thread if one is enough or no pool can be made.
pub fn install<R: Send>(threads: usize, f: impl FnOnce() -> R + Send) -> R {
    if threads <= 1 {
        return f();
    }
    let pool = {
        let mut pool = POOL.lock().unwrap_or_else(|e| e.into_inner());
        if pool.as_ref().is_none_or(|p| p.current_num_threads() != threads) {
            let made = ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("fulgurite-{i}")).build();
            *pool = made.ok().map(Arc::new);
        }
        pool.clone()
    };
    match pool {
        Some(pool) => pool.install(f),
        None => f(),
    }
}

/// A part has at least this many estimated nanoseconds of work.
const PART: f64 = 10_000.0;

/// Runs `work(from, to)` over disjoint ranges that cover `0..tasks`, on up to `threads` threads of the surrounding
/// pool. `nanos` is the estimated work of all tasks on one thread.
pub fn share(tasks: usize, threads: usize, nanos: f64, work: &(dyn Fn(usize, usize) + Sync)) {
    // There are more parts than threads, so a core that is busy with other work delays the others by at most one part.
    let parts = if threads <= 1 || nanos < WORTH_SHARING { 1 } else { ((nanos / PART) as usize).clamp(2, 8 * threads) };
    split(0, tasks, parts.min(tasks), work);
}

fn split(from: usize, to: usize, parts: usize, work: &(dyn Fn(usize, usize) + Sync)) {
    if from >= to {
        return;
    }
    if parts <= 1 || to - from == 1 {
        return work(from, to);
    }
    let left = parts / 2;
    let middle = from + (to - from) * left / parts;
    rayon::join(|| split(from, middle, left, work), || split(middle, to, parts - left, work));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once() {
        for threads in [1, 2, 3] {
            for tasks in [0, 1, 2, 7, 100] {
                let done = Mutex::new(vec![0; tasks]);
                install(threads, || {
                    share(tasks, threads, 1e6, &|from, to| {
                        let mut done = done.lock().unwrap();
                        (from..to).for_each(|i| done[i] += 1);
                    })
                });
                assert!(done.into_inner().unwrap().iter().all(|d| *d == 1));
            }
        }
    }
}
