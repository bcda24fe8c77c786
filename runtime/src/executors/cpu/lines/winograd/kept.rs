//! Transformed weights that are kept from run to run.

use super::super::KeptAt;
use super::super::step::{KeptMethod, Method};
use super::Winograd;
use crate::executors::program::host_step::{Fault, Memory};
use std::sync::Arc;

/// The convolution with kept weights.
pub(in super::super) struct KeptWinograd {
    winograd: Arc<Winograd>,
    /// The values (later storages) of the operands and the result.
    values: [u32; 3],
    /// The storage of the transformed weights, if the weights are an input.
    storage: Option<u32>,
}

impl KeptWinograd {
    pub fn new(winograd: Arc<Winograd>) -> KeptWinograd {
        KeptWinograd { values: winograd.facts().values, winograd, storage: None }
    }

    /// The memory of the transformed weights, if there is some.
    fn weights(&self, memory: Memory) -> Option<KeptAt> {
        self.storage.map(|s| memory.at(s) as *mut f32).filter(|p| !p.is_null()).map(KeptAt)
    }
}

impl KeptMethod for KeptWinograd {
    fn keeps(&self) -> (u32, usize) {
        (self.values[0], size_of::<f32>() * self.winograd.room_of_weights())
    }

    fn keep(&mut self, storage: u32) {
        self.storage = Some(storage);
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.values = self.values.map(storage);
    }

    unsafe fn prepare(&self, memory: Memory, threads: usize) {
        let Some(to) = self.weights(memory) else { return };
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.winograd.transform_all_weights(memory, self.values[0], to, threads) };
    }

    unsafe fn multiply(&self, memory: Memory, threads: usize) -> Option<Result<bool, Fault>> {
        let kept = self.weights(memory)?;
        let operands = self.values.map(|v| memory.at(v));
        // SAFETY: the caller upholds the contract of this function.
        Some(unsafe { self.winograd.multiply_with(Memory(&operands), Some(kept), threads) })
    }
}
