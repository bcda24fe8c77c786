//! Parallel work on rows with results in order, so that reports do not depend on the number of threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// At most this many threads, because the rows of a database are few.
const MOST_THREADS: usize = 8;

/// The stack of a thread: that of a program's main thread, so that equal depths of recursion work on both.
const STACK: usize = 8 << 20;

/// The results of `f` in the order of `items`.
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
    // A panic of a thread is propagated once all have ended.
    thread::scope(|scope| {
        for _ in 1..threads {
            // If a thread cannot be started, the existing ones do its work.
            _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_unstable_by_key(|(n, _)| *n);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Like [`map`], for an `f` that takes the items by value.
pub fn map_owned<T: Send, R: Send>(items: Vec<T>, f: impl Fn(T) -> R + Sync) -> Vec<R> {
    let items: Vec<Mutex<Option<T>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    // Each item is taken once.
    let taken = |item: &Mutex<Option<T>>| item.lock().unwrap_or_else(|e| e.into_inner()).take().map(&f);
    map(&items, taken).into_iter().flatten().collect()
}

/// Drops a large value on a thread of its own, so that the caller does not wait.
pub fn drop_beside(what: impl Send + 'static) {
    // If no thread can be started, this one drops the value.
    _ = thread::Builder::new().spawn(move || drop(what));
}

/// Runs `a` on a helper thread while `b` runs here; if the helper has not started when `b` returns, runs `a` here.
pub fn beside<B>(a: impl FnOnce() + Send, b: impl FnOnce() -> B) -> B {
    let a = Mutex::new(Some(a));
    let run = || {
        let a = a.lock().unwrap_or_else(|e| e.into_inner()).take();
        a.into_iter().for_each(|a| a());
    };
    thread::scope(|scope| {
        _ = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        let b = b();
        run();
        b
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_are_done() {
        let mut done = 0;
        assert_eq!(super::beside(|| done += 1, || 2), 2);
        assert_eq!(done, 1);
    }

    #[test]
    fn results_stand_in_the_order_of_items() {
        let items: Vec<usize> = (0..1000).collect();
        assert_eq!(super::map(&items, |n| n * 2), items.iter().map(|n| n * 2).collect::<Vec<_>>());
        assert_eq!(super::map(&[] as &[usize], |n| *n), Vec::<usize>::new());
        assert_eq!(super::map_owned(items.clone(), |n| n * 2), super::map(&items, |n| n * 2));
    }
}
