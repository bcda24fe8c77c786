//! Work before and after the units: initial values, cleared accumulators, and the final folds.

use super::super::program::*;
use super::Memory;
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_core::lang::ast::Red;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::reduce;

impl Prefill {
    /// Writes the initial content of the value.
    ///
    /// # Safety
    /// Both storages have `bytes` bytes, and no other code uses that of the value.
    pub(super) unsafe fn fill(&self, memory: Memory, bytes: usize, threads: usize) {
        /// The bytes of a part that one thread writes.
        const PART: usize = 256 << 10;
        if self.base.is_some_and(|base| memory.at(base) == memory.at(self.value)) {
            return;
        }
        threads::share(bytes.div_ceil(PART), threads, bytes as f64 / 16.0, &|claims| {
            for part in claims {
                let (from, to) = (part.start * PART, (part.end * PART).min(bytes));
                // SAFETY: the caller upholds the contract; parts are disjoint.
                unsafe {
                    let dst = memory.at(self.value).add(from);
                    match self.base {
                        Some(base) => std::ptr::copy_nonoverlapping(memory.at(base).add(from), dst, to - from),
                        None => std::ptr::write_bytes(dst, 0, to - from),
                    }
                }
            }
        });
    }
}

impl Program {
    /// Sets the accumulators of all panels to their neutral values.
    ///
    /// # Safety
    /// `accs` has room for the accumulators.
    pub(super) unsafe fn clear(&self, panels: usize, accs: *mut u64) {
        // SAFETY: the caller upholds the contract of this function.
        let accs = unsafe { std::slice::from_raw_parts_mut(accs, panels * self.acc_len()) };
        for panel in accs.chunks_exact_mut(self.acc_len()) {
            let mut rest = panel;
            for a in &self.accs {
                let (own, other) = rest.split_at_mut(a.len);
                own.fill(reduce::start(a.red, a.float));
                rest = other;
            }
        }
    }

    /// Folds the panels of each slice in order and writes the results.
    ///
    /// # Safety
    /// The contract of [`Program::run`] holds, and all panels are done.
    pub(super) unsafe fn combine(&self, memory: Memory, accs: *mut u64) {
        let (len, panels) = (self.acc_len(), self.panels());
        let isa = Level::current();
        for slice in 0..self.slices() {
            let mut offset = 0;
            for a in &self.accs {
                // SAFETY: these are the accumulators of this slice.
                unsafe {
                    let first = accs.add(slice * panels * len + offset);
                    let wide = if a.float { DType::F64 } else { DType::I64 };
                    let fold = reduce::fold_columns(a.red, wide, isa);
                    for panel in 1..panels {
                        fold(first.add(panel * len) as *const u8, a.len, first as *mut u8);
                    }
                    let bytes = a.dtype.size() as i64;
                    let to = memory.0[a.value as usize];
                    let base = odometer(slice, &a.slices);
                    for j in 0..a.len {
                        let at = (base + odometer(j, &a.inner)) * bytes;
                        reduce::finish(a.dtype, mean(a.red, a.count, first.add(j).read()), to.offset(at as isize));
                    }
                }
                offset += a.len;
            }
        }
    }
}

/// Divides the sum of a mean by its count; other accumulators stay as they are.
pub(super) fn mean(red: Red, count: usize, bits: u64) -> u64 {
    if red == Red::Mean { (f64::from_bits(bits) / count as f64).to_bits() } else { bits }
}

/// The offset of the `flat`-th position of these (size, stride) loops.
fn odometer(mut flat: usize, loops: &[(usize, i64)]) -> i64 {
    let mut at = 0;
    for (n, stride) in loops.iter().rev() {
        at += (flat % n) as i64 * stride;
        flat /= n;
    }
    at
}
