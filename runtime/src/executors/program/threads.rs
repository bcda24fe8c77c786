//! The threads that run programs: the thread that calls a program, and helpers that take parts of its steps.
//!
//! Steps follow each other within microseconds, and a sleeping thread takes tens of them to wake up. So a helper without
//! work looks for more for [`PATIENCE`] before it sleeps.

mod claims;
mod pool;

pub use claims::Claims;
use pool::Pool;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};

/// Work of fewer estimated nanoseconds stays on one thread: handing it over costs about a microsecond, and a core that
/// is busy with other work costs much more.
pub const WORTH_SHARING: f64 = 15_000.0;

/// A part has at least this many estimated nanoseconds of work.
const PART: f64 = 10_000.0;

/// The number of threads; 0 if it was not set yet.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The number of threads that the machine runs at once.
static MACHINE: OnceLock<usize> = OnceLock::new();
/// The helpers. They belong to one step at a time: a caller that finds them locked works alone.
static POOL: Mutex<Option<Pool>> = Mutex::new(None);

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

/// Forgets the helpers. A process that was forked has none of its parent's threads, so it must call this before it runs
/// a program. If another thread of the parent was using the helpers, the process works with one thread.
pub fn forget_threads() {
    if let Ok(mut pool) = POOL.try_lock() {
        // dropping the pool would wait for threads that are not there
        std::mem::forget(pool.take());
    }
}

/// Runs `work` over parts of `0..tasks`, on up to `threads` threads. Each thread calls it once, with the parts that it
/// claims. `nanos` is the estimated work of all tasks on one thread.
///
/// # Panics
/// If `work` panics: the panic has the message of the first part that panicked.
pub fn share(tasks: usize, threads: usize, nanos: f64, work: &(dyn Fn(Claims<'_>) + Sync)) {
    // There are more parts than threads, so a core that is busy with other work delays the others by at most one part.
    let parts = if threads <= 1 || nanos < WORTH_SHARING { 1 } else { ((nanos / PART) as usize).clamp(2, 8 * threads) };
    let parts = parts.min(tasks);
    if parts == 0 {
        return;
    }
    if parts > 1 {
        let mut pool = match POOL.try_lock() {
            Ok(pool) => Some(pool),
            Err(TryLockError::Poisoned(pool)) => Some(pool.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(pool) = &mut pool {
            let helpers = threads - 1;
            if pool.as_ref().is_none_or(|p| p.helpers() != helpers) {
                **pool = Pool::new(helpers);
            }
            if let Some(pool) = pool.as_mut() {
                return pool.run(tasks, parts, work);
            }
        }
    }
    work(Claims::all(tasks));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// The tests of this file share the helpers, so they run one by one.
    static ONE: Mutex<()> = Mutex::new(());

    fn alone() -> impl Drop {
        ONE.lock().unwrap_or_else(|e| e.into_inner())
    }

    #[test]
    fn every_task_is_done_once() {
        let _one = alone();
        for threads in [1, 2, 3, 8] {
            for tasks in [0, 1, 2, 7, 100, 1000] {
                let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                share(tasks, threads, 1e6, &|claims| {
                    claims.flatten().for_each(|i| _ = done[i].fetch_add(1, Ordering::Relaxed));
                });
                assert!(done.iter().all(|d| d.load(Ordering::Relaxed) == 1), "{threads} threads, {tasks} tasks");
            }
        }
    }

    /// Jobs follow each other without a pause, so a helper may arrive when a job is already over.
    #[test]
    fn jobs_follow_each_other() {
        let _one = alone();
        let sum = AtomicU64::new(0);
        for job in 0..20_000u64 {
            share(4, 3, 1e6, &|claims| {
                claims.flatten().for_each(|i| _ = sum.fetch_add(job + i as u64, Ordering::Relaxed));
            });
        }
        assert_eq!(sum.into_inner(), (0..20_000u64).map(|job| 4 * job + 6).sum::<u64>());
    }

    #[test]
    fn helpers_that_sleep_wake_up() {
        let _one = alone();
        for _ in 0..20 {
            let by: Mutex<Vec<std::thread::ThreadId>> = Mutex::new(Vec::new());
            share(2, 2, 1e6, &|claims| {
                for _ in claims.flatten() {
                    by.lock().unwrap().push(std::thread::current().id());
                    // the other part is left for the helper, unless it needs longer than this
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            });
            let by = by.into_inner().unwrap();
            if by[0] != by[1] {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("no helper took a part");
    }

    #[test]
    fn a_step_within_a_step_and_callers_beside_each_other_work_alone() {
        let _one = alone();
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        share(3, 3, 1e6, &|claims| {
                            for _ in claims.flatten() {
                                share(5, 3, 1e6, &|inner| {
                                    _ = count.fetch_add(inner.flatten().count(), Ordering::Relaxed)
                                });
                            }
                        });
                    }
                });
            }
        });
        assert_eq!(count.into_inner(), 4 * 200 * 15);
    }

    #[test]
    fn a_panic_of_a_part_reaches_the_caller() {
        let _one = alone();
        for bad in 0..8 {
            let run = || {
                share(8, 3, 1e6, &|claims| claims.flatten().for_each(|i| assert!(i != bad, "part {i}")));
            };
            let panic = std::panic::catch_unwind(run).unwrap_err();
            assert_eq!(panic.downcast_ref::<String>(), Some(&format!("part {bad}")));
        }
        let done = AtomicUsize::new(0);
        share(8, 3, 1e6, &|claims| _ = done.fetch_add(claims.flatten().count(), Ordering::Relaxed));
        assert_eq!(done.into_inner(), 8);
    }
}
