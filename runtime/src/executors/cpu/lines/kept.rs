//! Products with an operand that does not change from run to run, such as a weight: its lines are copied once, in the order
//! in which tiles read them. The product may then broadcast the other operand than it does without such a copy.

use super::LineProduct;
use super::operands::{Loops, Source};
use super::prepared::{KeptAt, KeptMethod, KeptProduct};
use super::step::Method;
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, Memory};
use crate::executors::program::threads;
use fulgurite_kernels::abi::Level;

/// The product of copied lines.
pub struct KeptLines(LineProduct);

impl KeptLines {
    /// The product whose lines can be kept, if it moves fewer elements than `usual` when they are copied already.
    pub(super) fn of(c: &Contract, env: &Env, usual: &LineProduct, isa: Level) -> Option<KeptProduct> {
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
        Some(KeptProduct::new(KeptLines(lines)))
    }
}

impl KeptMethod for KeptLines {
    fn values(&self) -> [u32; 3] {
        self.0.facts().values
    }

    fn copies(&self) -> (usize, usize) {
        (1, self.0.blocks() * self.0.copied_block())
    }

    unsafe fn prepare(&self, operands: Memory, to: KeptAt, threads: usize) {
        let lines = &self.0;
        let (blocks, size) = (lines.blocks(), lines.copied_block());
        threads::share(blocks, threads, (blocks * size) as f64, &|claims| {
            for number in claims.flatten() {
                let from = (operands.at(1) as *const f32).wrapping_offset(lines.loops.places[1].offset);
                // SAFETY: the caller upholds the contract; blocks write disjoint parts of the copy.
                unsafe { lines.copy_block(from, to.element(number * size), number) };
            }
        });
    }

    unsafe fn multiply(&self, operands: Memory, copy: KeptAt, threads: usize) -> Result<bool, Fault> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.0.multiply_with(operands, Some(copy), threads) }
    }
}
