//! Work on many rows at once, with results in their order: what is said of a database does not depend on threads.

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads than this gain nothing: the rows of a database are few.
const MOST_THREADS: usize = 8;

/// As much as a program's first thread has: what is deep there is no deeper here.
const STACK: usize = 8 << 20;

/// `f` of each item, in the order of `items`.
pub fn map<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, |n| n.get()).min(MOST_THREADS).min(items.len());
    if threads <= 1 {
        return items.iter().map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let work = || {
        let mut own = Vec::new();
        while let Some((n, item)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, items.get(n)?))) {
            own.push((n, f(item)));
        }
        done.lock().unwrap_or_else(|e| e.into_inner()).extend(own);
    };
    // a panic of one of them goes on when all have ended
    thread::scope(|scope| {
        for _ in 1..threads {
            // where there is no further thread, those that are there do it
            _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Both results, found side by side.
pub fn both<A: Send, B>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    let a = Mutex::new(Some(a));
    let take = || a.lock().unwrap_or_else(|e| e.into_inner()).take();
    thread::scope(|scope| {
        let beside = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || take().map(|a| a())).ok();
        let b = b();
        let found = beside.and_then(|beside| beside.join().unwrap_or_else(|panic| resume_unwind(panic)));
        // where there is no further thread, it is done here
        let found = found.or_else(|| take().map(|a| a()));
        (found.expect("it was taken by one of the two"), b)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_stand_in_the_order_of_items() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(super::map(&items, |n| n * 2), items.iter().map(|n| n * 2).collect::<Vec<_>>());
        assert_eq!(super::map(&[] as &[usize], |n| *n), Vec::<usize>::new());
    }
}
