//! Products with an operand that does not change from run to run, such as a weight: its lines are copied once, in the order
//! in which tiles read them. The product may then broadcast the other operand than it does without such a copy.

use super::operands::{Loops, Source};
use super::step::{KeptMethod, Method};
use super::{KeptAt, LineProduct};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, Memory};
use crate::executors::program::threads;
use fulgurite_kernels::abi::Level;

/// The product of copied lines.
pub struct KeptLines {
    lines: LineProduct,
    /// The values (later storages) of the operands and the result.
    values: [u32; 3],
    /// The storage of the copy, if the operand is an input.
    storage: Option<u32>,
}

impl KeptLines {
    /// The product whose lines can be kept, if it moves fewer elements than `usual` when they are copied already.
    pub(super) fn of(c: &Contract, env: &Env, usual: &LineProduct, isa: Level) -> Option<Box<dyn KeptMethod>> {
        if usual.loops.moved() == 0 {
            return None;
        }
        let ways = [false, true].map(|swapped| Loops::of(c, env.values, env.form, swapped, isa));
        let kept = |l: &Loops| {
            let copied = l.columns.count() * l.depth;
            let alone = matches!(l.source, Source::Copied { .. }) && l.outer.iter().all(|o| o.b == 0);
            let fewer = l.moved().saturating_sub(copied) < usual.loops.moved();
            alone && fewer && LineProduct::pays(l)
        };
        let mut lines = LineProduct::of(ways.into_iter().flatten().find(kept)?, c.exact.is_some(), isa)?;
        lines.sum_in_order();
        Some(Box::new(KeptLines { values: lines.facts().values, lines, storage: None }))
    }

    /// The memory of the copy, if there is one.
    fn copy(&self, memory: Memory) -> Option<KeptAt> {
        self.storage.map(|s| memory.at(s) as *mut f32).filter(|p| !p.is_null()).map(KeptAt)
    }
}

impl KeptMethod for KeptLines {
    fn keeps(&self) -> (u32, usize) {
        (self.values[1], size_of::<f32>() * self.lines.blocks() * self.lines.copied_block())
    }

    fn keep(&mut self, storage: u32) {
        self.storage = Some(storage);
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.values = self.values.map(storage);
    }

    unsafe fn prepare(&self, memory: Memory, threads: usize) {
        let Some(to) = self.copy(memory) else { return };
        let (blocks, size) = (self.lines.blocks(), self.lines.copied_block());
        threads::share(blocks, threads, (blocks * size) as f64, &|claims| {
            for number in claims.flatten() {
                let from = (memory.at(self.values[1]) as *const f32).wrapping_offset(self.lines.loops.places[1].offset);
                // SAFETY: the caller upholds the contract; blocks write disjoint parts of the copy.
                unsafe { self.lines.copy_block(from, to.element(number * size), number) };
            }
        });
    }

    unsafe fn multiply(&self, memory: Memory, threads: usize) -> Option<Result<bool, Fault>> {
        let kept = self.copy(memory)?;
        let operands = self.values.map(|v| memory.at(v));
        // SAFETY: the caller upholds the contract of this function.
        Some(unsafe { self.lines.multiply_with(Memory(&operands), Some(kept), threads) })
    }
}
