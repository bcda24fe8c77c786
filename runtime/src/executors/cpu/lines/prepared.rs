//! Products with a prepared copy of an operand that does not change from run to run, such as a weight.

use crate::executors::program::host_step::{Fault, Memory};

/// The memory of a prepared copy.
#[derive(Clone, Copy)]
pub(super) struct KeptAt(pub *mut f32);

impl KeptAt {
    /// The element of this number.
    pub fn element(self, at: usize) -> *mut f32 {
        self.0.wrapping_add(at)
    }
}

// SAFETY: threads that make the copy write different parts of it, and those of a product only read it.
unsafe impl Send for KeptAt {}
// SAFETY: threads that make the copy write different parts of it, and those of a product only read it.
unsafe impl Sync for KeptAt {}

/// A way to compute a product with such a copy. The operands and the result are the storages 0, 1 and 2.
pub(super) trait KeptMethod: Send + Sync {
    /// The values of the operands and the result.
    fn values(&self) -> [u32; 3];

    /// The number of the operand that is copied, and the elements of the copy.
    fn copies(&self) -> (usize, usize);

    /// Makes the copy.
    ///
    /// # Safety
    /// `operands` has the operand that is copied, and `to` has room for the copy, which no other thread uses.
    unsafe fn prepare(&self, operands: Memory, to: KeptAt, threads: usize);

    /// Computes the product; returns whether all of it is finite.
    ///
    /// # Safety
    /// `operands` has valid memory of the operands and the result, which overlaps neither; the copy was made.
    unsafe fn multiply(&self, operands: Memory, copy: KeptAt, threads: usize) -> Result<bool, Fault>;
}

/// A product of a step, with the storage of its copy.
pub(super) struct KeptProduct {
    method: Box<dyn KeptMethod>,
    /// The values (later storages) of the operands and the result.
    values: [u32; 3],
    /// The storage of the copy, if the operand is an input.
    storage: Option<u32>,
}

impl KeptProduct {
    pub fn new(method: impl KeptMethod + 'static) -> KeptProduct {
        KeptProduct { values: method.values(), method: Box::new(method), storage: None }
    }

    /// The value that is copied, and the bytes of the copy.
    pub fn keeps(&self) -> (u32, usize) {
        let (operand, elements) = self.method.copies();
        (self.values[operand], size_of::<f32>() * elements)
    }

    /// Sets the storage of the copy.
    pub fn keep(&mut self, storage: u32) {
        self.storage = Some(storage);
    }

    /// Replaces values by the numbers of their storages.
    pub fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.values = self.values.map(storage);
    }

    /// The memory of the copy, if there is one.
    fn copy(&self, memory: Memory) -> Option<KeptAt> {
        self.storage.map(|s| memory.at(s) as *mut f32).filter(|p| !p.is_null()).map(KeptAt)
    }

    /// Makes the copy.
    ///
    /// # Safety
    /// `memory` has the operand and the copy, which no other thread uses.
    pub unsafe fn prepare(&self, memory: Memory, threads: usize) {
        let operands = self.values.map(|v| memory.at(v));
        if let Some(to) = self.copy(memory) {
            // SAFETY: the caller upholds the contract of this function.
            unsafe { self.method.prepare(Memory(&operands), to, threads) };
        }
    }

    /// Computes the product, if there is a copy; returns whether all of it is finite.
    ///
    /// # Safety
    /// `memory` has valid memory of the operands, the result and the copy.
    pub unsafe fn multiply(&self, memory: Memory, threads: usize) -> Option<Result<bool, Fault>> {
        let copy = self.copy(memory)?;
        let operands = self.values.map(|v| memory.at(v));
        // SAFETY: the caller upholds the contract of this function.
        Some(unsafe { self.method.multiply(Memory(&operands), copy, threads) })
    }
}
