//! Faults that are reported with a later call, on a device whose calls do not wait for their work.
//!
//! Each program has a place of two words in pinned memory, which kernels write and the processor reads at any time: the
//! number of the access or division that failed, and the number that was wrong.

use super::Address;
use crate::executors::ExecError;
use std::sync::Mutex;

/// The words of a place.
const WORDS: usize = 2;

/// At most this many programs have places, which fill a block of 64 KiB. Other programs wait for their faults.
pub(in super::super) const PLACES: usize = 4096;

/// The error of a program for a failed access, and the number that was wrong.
pub(in super::super) type Report = Box<dyn Fn(u64, i64) -> ExecError + Send + Sync>;

/// The places of a device.
pub struct Notes {
    /// Pinned memory, which has one address for the processor and the device.
    block: *mut u64,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    used: Vec<(usize, Report)>,
    free: Vec<usize>,
    /// Places from this number on were never used.
    fresh: usize,
}

// SAFETY: the block is read and written word by word; the lists are behind a lock.
unsafe impl Send for Notes {}
// SAFETY: the block is read and written word by word; the lists are behind a lock.
unsafe impl Sync for Notes {}

impl Notes {
    /// The bytes of the block.
    pub(super) const BYTES: usize = PLACES * WORDS * size_of::<u64>();

    /// Places in a block of [`Notes::BYTES`].
    ///
    /// # Safety
    /// The block is pinned memory, aligned to 8 bytes, that stays until this is dropped.
    pub(super) unsafe fn new(block: *mut u64) -> Notes {
        // SAFETY: the caller upholds the contract.
        unsafe { std::ptr::write_bytes(block, 0, PLACES * WORDS) };
        Notes { block, places: Mutex::default() }
    }

    pub(super) fn block(&self) -> *mut u64 {
        self.block
    }

    /// A place for a program, or `None` if there are too many programs.
    pub(in super::super) fn take(&self, report: Report) -> Option<Address> {
        let mut places = self.places.lock().unwrap_or_else(|e| e.into_inner());
        let place = match places.free.pop() {
            Some(place) => place,
            None if places.fresh == PLACES => return None,
            None => {
                places.fresh += 1;
                places.fresh - 1
            }
        };
        places.used.push((place, report));
        Some(self.address(place))
    }

    /// Gives a place back. The work that notes faults there is done.
    pub(in super::super) fn give_back(&self, at: Address) {
        let mut places = self.places.lock().unwrap_or_else(|e| e.into_inner());
        let of = places.used.iter().position(|(place, _)| self.address(*place) == at);
        if let Some(of) = of {
            let (place, _) = places.used.swap_remove(of);
            self.clear(place);
            places.free.push(place);
        }
    }

    /// The first fault that was noted, which is forgotten then. `wait` waits for the work so far, so that both words are
    /// written.
    pub(in super::super) fn check(&self, wait: &dyn Fn() -> Result<(), ExecError>) -> Result<(), ExecError> {
        let places = self.places.lock().unwrap_or_else(|e| e.into_inner());
        let Some((place, report)) = places.used.iter().find(|(place, _)| self.word(*place, 0) != 0) else {
            return Ok(());
        };
        wait()?;
        let (site, found) = (self.word(*place, 0), self.word(*place, 1) as i64);
        self.clear(*place);
        Err(report(site, found).help("the call that failed came before this one: calls do not wait for the device"))
    }

    fn address(&self, place: usize) -> Address {
        Address(self.block as u64 + (place * WORDS * size_of::<u64>()) as u64)
    }

    fn word(&self, place: usize, word: usize) -> u64 {
        // SAFETY: the place lies in the block. The device may write the word meanwhile, hence the volatile access.
        unsafe { self.block.add(place * WORDS + word).read_volatile() }
    }

    fn clear(&self, place: usize) {
        for word in 0..WORDS {
            // SAFETY: as in `word`.
            unsafe { self.block.add(place * WORDS + word).write_volatile(0) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_reported_once_and_places_are_used_again() {
        let mut block = vec![7u64; PLACES * WORDS];
        // SAFETY: the block has as many words, and stays.
        let notes = unsafe { Notes::new(block.as_mut_ptr()) };
        let report = || -> Report { Box::new(|site, found| ExecError::new("E804", format!("{site} {found}"))) };
        let (first, second) = (notes.take(report()).unwrap(), notes.take(report()).unwrap());
        assert_eq!(second.0 - first.0, 16);
        let idle = || Ok(());
        notes.check(&idle).unwrap();
        // SAFETY: the place has two words.
        unsafe {
            (second.0 as *mut u64).write(3);
            (second.0 as *mut i64).add(1).write(-5);
        }
        assert_eq!(notes.check(&idle).unwrap_err().message, "3 -5");
        notes.check(&idle).unwrap();
        notes.give_back(first);
        assert_eq!(notes.take(report()), Some(first));
        (2..PLACES).for_each(|_| assert!(notes.take(report()).is_some()));
        assert_eq!(notes.take(report()), None);
    }
}
