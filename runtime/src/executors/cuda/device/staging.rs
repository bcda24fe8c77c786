//! Copies between pageable memory and a device through pinned pieces: while the device copies one piece, the processor
//! copies the other.

use super::Address;
use crate::executors::ExecError;
use std::sync::{Mutex, MutexGuard};

/// Two pieces of pinned memory, and a device that copies from and to them asynchronously.
pub(super) trait Dma {
    /// The bytes of a piece.
    fn bytes(&self) -> usize;

    /// The address of piece 0 or 1.
    fn piece(&self, which: usize) -> *mut u8;

    /// Enqueues a copy of the first bytes of a piece to the device.
    ///
    /// # Safety
    /// There are `bytes` bytes at `to`; the piece is not written before [`Dma::wait`].
    unsafe fn send(&self, which: usize, to: Address, bytes: usize) -> Result<(), ExecError>;

    /// Enqueues a copy from the device to the first bytes of a piece.
    ///
    /// # Safety
    /// There are `bytes` bytes at `from`; the piece is not used before [`Dma::wait`].
    unsafe fn fetch(&self, which: usize, from: Address, bytes: usize) -> Result<(), ExecError>;

    /// Waits until the last copy with a piece is done.
    fn wait(&self, which: usize) -> Result<(), ExecError>;
}

/// Two pieces, which serve one copy at a time.
pub(super) struct Staging<D> {
    dma: D,
    one: Mutex<()>,
}

impl<D: Dma> Staging<D> {
    pub fn new(dma: D) -> Staging<D> {
        Staging { dma, one: Mutex::new(()) }
    }

    fn enter(&self) -> MutexGuard<'_, ()> {
        self.one.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Copies to the device. On return `from` has been read; the device has the bytes after the work enqueued before.
    ///
    /// # Safety
    /// There are `from.len()` bytes at `to`.
    ///
    /// # Errors
    /// Reports errors of the device.
    pub unsafe fn upload(&self, to: Address, from: &[u8]) -> Result<(), ExecError> {
        let _one = self.enter();
        for (at, part) in from.chunks(self.dma.bytes().max(1)).enumerate() {
            let which = at % 2;
            // the last copy from this piece may still be under way
            self.dma.wait(which)?;
            // SAFETY: a piece has at least this many bytes, and no other code uses it now; `to` is the caller's.
            unsafe {
                std::ptr::copy_nonoverlapping(part.as_ptr(), self.dma.piece(which), part.len());
                self.dma.send(which, Address(to.0 + (at * self.dma.bytes()) as u64), part.len())?;
            }
        }
        Ok(())
    }

    /// Copies from the device, after the work enqueued before.
    ///
    /// # Safety
    /// There are `to.len()` bytes at `from`.
    ///
    /// # Errors
    /// Reports errors of the device.
    pub unsafe fn download(&self, to: &mut [u8], from: Address) -> Result<(), ExecError> {
        let _one = self.enter();
        let bytes = self.dma.bytes().max(1);
        let mut parts: Vec<&mut [u8]> = to.chunks_mut(bytes).collect();
        for at in 0..=parts.len() {
            if let Some(part) = parts.get(at) {
                self.dma.wait(at % 2)?;
                // SAFETY: the piece is not used until the wait below; `from` is the caller's.
                unsafe { self.dma.fetch(at % 2, Address(from.0 + (at * bytes) as u64), part.len())? };
            }
            // the part before is copied while this one is under way
            let Some(part) = at.checked_sub(1).and_then(|at| parts.get_mut(at)) else { continue };
            let which = (at - 1) % 2;
            self.dma.wait(which)?;
            // SAFETY: the piece holds this many bytes of the device now.
            unsafe { std::ptr::copy_nonoverlapping(self.dma.piece(which), part.as_mut_ptr(), part.len()) };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell, UnsafeCell};

    /// A device that copies as late as possible: when it is waited for.
    struct Late {
        pieces: [UnsafeCell<[u8; 8]>; 2],
        asked: [Cell<Option<(bool, u64, usize)>>; 2],
        memory: RefCell<Vec<u8>>,
        waits: Cell<usize>,
    }

    impl Late {
        fn new(memory: Vec<u8>) -> Late {
            let memory = RefCell::new(memory);
            Late { pieces: Default::default(), asked: Default::default(), memory, waits: Cell::new(0) }
        }
        fn drain(&self) {
            (0..2).for_each(|which| self.wait(which).expect("never fails"));
        }
    }

    impl Dma for Late {
        fn bytes(&self) -> usize {
            8
        }
        fn piece(&self, which: usize) -> *mut u8 {
            self.pieces[which].get().cast()
        }
        unsafe fn send(&self, which: usize, to: Address, bytes: usize) -> Result<(), ExecError> {
            assert!(self.asked[which].replace(Some((true, to.0, bytes))).is_none());
            Ok(())
        }
        unsafe fn fetch(&self, which: usize, from: Address, bytes: usize) -> Result<(), ExecError> {
            assert!(self.asked[which].replace(Some((false, from.0, bytes))).is_none());
            Ok(())
        }
        fn wait(&self, which: usize) -> Result<(), ExecError> {
            self.waits.set(self.waits.get() + 1);
            let Some((sends, at, bytes)) = self.asked[which].take() else { return Ok(()) };
            let mut memory = self.memory.borrow_mut();
            let there = &mut memory[at as usize..at as usize + bytes];
            // SAFETY: nothing else refers to the piece now.
            let piece = unsafe { &mut (&mut *self.pieces[which].get())[..bytes] };
            if sends {
                there.copy_from_slice(piece)
            } else {
                piece.copy_from_slice(there)
            }
            Ok(())
        }
    }

    #[test]
    fn what_goes_there_comes_back() {
        for n in [0usize, 1, 7, 8, 9, 16, 17, 40, 43] {
            let data: Vec<u8> = (0..n).map(|i| (i * 37 % 251) as u8 + 1).collect();
            let staging = Staging::new(Late::new(vec![0; n + 5]));
            // SAFETY: the memory has room for the bytes from address 3 on.
            unsafe { staging.upload(Address(3), &data).expect("never fails") };
            staging.dma.drain();
            assert_eq!(staging.dma.memory.borrow()[3..n + 3], data, "{n} bytes there");
            let mut back = vec![0; n];
            // SAFETY: the memory has these bytes from address 3 on.
            unsafe { staging.download(&mut back, Address(3)).expect("never fails") };
            assert_eq!(back, data, "{n} bytes back");
            assert_eq!(staging.dma.memory.borrow()[n + 3..], [0, 0], "nothing beside them");
        }
    }

    /// A download follows an upload without a wait between them; the device runs one after the other.
    #[test]
    fn a_piece_is_not_used_again_while_it_is_on_its_way() {
        let data: Vec<u8> = (1..=40).collect();
        let staging = Staging::new(Late::new(vec![0; 80]));
        let mut back = vec![0; 24];
        // SAFETY: the memory has room for both copies.
        unsafe {
            staging.upload(Address(0), &data).expect("never fails");
            staging.upload(Address(40), &data).expect("never fails");
            staging.download(&mut back, Address(40)).expect("never fails");
        }
        staging.dma.drain();
        assert_eq!(back, data[..24]);
        assert_eq!(staging.dma.memory.borrow()[..40], data);
        assert!(staging.dma.waits.get() > 0);
    }
}
