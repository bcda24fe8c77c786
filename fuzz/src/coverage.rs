//! The counters of an instrumented build: how often each edge of the program was passed.
//!
//! The compiler adds them with `-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3
//! -Cllvm-args=-sanitizer-coverage-inline-8bit-counters`, on a stable toolchain too. Without these flags nothing calls
//! the function below, there are no counters, and the answers alone guide the fuzzer.

use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

static START: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Called by each instrumented part before `main`, always with the bounds of all counters.
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    START.store(start, Relaxed);
    COUNT.store((stop as usize).saturating_sub(start as usize), Relaxed);
}

/// The edges that some input has passed, with the magnitudes of their counts.
#[derive(Default)]
pub struct Passed {
    seen: Vec<u8>,
    /// How many pairs of an edge and a magnitude were seen.
    pub edges: usize,
}

/// The bit of a count's magnitude: 1, 2, 3, 4–7, 8–15, 16–31, 32–127, 128 and more.
fn magnitude(count: u8) -> u8 {
    match count {
        0 => 0,
        1 => 1,
        2 => 2,
        3 => 4,
        4..=7 => 8,
        8..=15 => 16,
        16..=31 => 32,
        32..=127 => 64,
        128.. => 128,
    }
}

impl Passed {
    /// The number of edges in the program; 0 if it is not instrumented.
    pub fn all() -> usize {
        COUNT.load(Relaxed)
    }

    /// Notes the counts since the last call, and starts them again. True if there was something new.
    pub fn note(&mut self) -> bool {
        let (start, count) = (START.load(Relaxed), COUNT.load(Relaxed));
        if start.is_null() || count == 0 {
            return false;
        }
        // SAFETY: the compiler reserved `count` bytes at `start` for the whole run; a count that another thread adds at
        // the same time may be lost, which changes no result.
        let counters = unsafe { slice::from_raw_parts_mut(start, count) };
        self.seen.resize(count, 0);
        let mut new = 0;
        for (counts, seen) in counters.chunks_mut(64).zip(self.seen.chunks_mut(64)) {
            if counts.iter().all(|count| *count == 0) {
                continue;
            }
            for (count, seen) in counts.iter_mut().zip(seen) {
                let bit = magnitude(std::mem::take(count));
                new += usize::from(bit & !*seen != 0);
                *seen |= bit;
            }
        }
        self.edges += new;
        new > 0
    }
}
