//! The parts of a step, and the order in which threads claim them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The parts that are not claimed yet: for each thread a range of its own, so that neighbouring parts, which often read the
/// same memory, run on one thread. A thread whose range is empty takes from the end of another's.
pub(super) struct Parts {
    /// For each thread the first part and the end, each in half of the bits.
    ranges: Box<[Line]>,
    /// The number of parts that are not claimed yet.
    left: AtomicUsize,
}

/// A range in a cache line of its own, because other threads rarely touch it.
#[repr(align(64))]
struct Line(AtomicU64);

fn pack(first: usize, end: usize) -> u64 {
    (first as u64) << 32 | end as u64
}

fn unpack(range: u64) -> (usize, usize) {
    ((range >> 32) as usize, (range & 0xFFFF_FFFF) as usize)
}

impl Parts {
    /// No parts, for this many threads.
    pub fn of(threads: usize) -> Parts {
        let ranges = (0..threads).map(|_| Line(AtomicU64::new(0))).collect();
        Parts { ranges, left: AtomicUsize::new(0) }
    }

    /// Divides the parts `0..parts` among the threads. No thread may claim meanwhile.
    pub fn offer(&self, parts: usize) {
        let threads = self.ranges.len();
        for (t, range) in self.ranges.iter().enumerate() {
            range.0.store(pack(parts * t / threads, parts * (t + 1) / threads), Ordering::Relaxed);
        }
        self.left.store(parts, Ordering::Relaxed);
    }

    /// Takes back the parts that are not claimed yet.
    pub fn withdraw(&self) {
        self.ranges.iter().for_each(|range| range.0.store(0, Ordering::Relaxed));
        self.left.store(0, Ordering::Relaxed);
    }

    /// Whether there may be parts to claim.
    pub fn are_left(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// The next part of a thread.
    fn claim(&self, thread: usize) -> Option<usize> {
        let threads = self.ranges.len();
        let part = (thread..threads).chain(0..thread).find_map(|of| {
            let taken = self.ranges[of].0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |range| {
                let (first, end) = unpack(range);
                (first < end).then(|| if of == thread { pack(first + 1, end) } else { pack(first, end - 1) })
            });
            let (first, end) = unpack(taken.ok()?);
            Some(if of == thread { first } else { end - 1 })
        });
        if part.is_some() {
            // a thread that looks at the number too late finds no part
            let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| Some(n.saturating_sub(1)));
        }
        part
    }
}

/// The parts that a thread claims, one after the other: ranges of tasks.
pub struct Claims<'a> {
    source: Source<'a>,
    tasks: usize,
    /// The number of the first task.
    first: usize,
}

enum Source<'a> {
    /// All tasks at once.
    All,
    Nothing,
    /// The unclaimed parts, the number of this thread, and the number of all parts.
    Parts(&'a Parts, usize, usize),
}

impl<'a> Claims<'a> {
    /// All tasks as one part.
    pub(super) fn all(tasks: usize) -> Claims<'a> {
        Claims { source: Source::All, tasks, first: 0 }
    }

    /// The parts that a thread claims of tasks that were divided into `count` parts.
    pub(super) fn of(parts: &'a Parts, thread: usize, count: usize, tasks: usize) -> Claims<'a> {
        Claims { source: Source::Parts(parts, thread, count), tasks, first: 0 }
    }

    /// Counts the tasks from this number on.
    pub fn after(self, first: usize) -> Claims<'a> {
        Claims { first, ..self }
    }
}

impl Iterator for Claims<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        match self.source {
            Source::Nothing => None,
            Source::All => {
                self.source = Source::Nothing;
                Some(self.first..self.first + self.tasks)
            }
            Source::Parts(parts, thread, count) => {
                let part = parts.claim(thread)?;
                let (from, to) = (self.tasks * part / count, self.tasks * (part + 1) / count);
                Some(self.first + from..self.first + to)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_takes_its_own_parts_in_order_and_then_the_last_of_others() {
        let parts = Parts::of(2);
        parts.offer(5);
        let mut first = Claims::of(&parts, 0, 5, 10);
        assert_eq!(first.next(), Some(0..2));
        assert_eq!(Claims::of(&parts, 1, 5, 10).next(), Some(4..6));
        assert_eq!(first.collect::<Vec<_>>(), [2..4, 8..10, 6..8]);
        assert!(!parts.are_left());
    }

    #[test]
    fn parts_that_were_taken_back_are_not_claimed() {
        let parts = Parts::of(3);
        parts.offer(9);
        parts.withdraw();
        assert_eq!(Claims::of(&parts, 0, 9, 9).next(), None);
    }
}
