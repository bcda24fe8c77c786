//! Walks whose lines are one tile each, of a few steps. Their pointers move by equal distances from
//! line to line, so they are not computed anew for each line.

use super::super::program::*;
use super::{Fault, Worker};

/// The lines of a walk have at most this many elements, because longer lines are taken in several tiles.
const LONGEST: usize = WHOLE;
/// Lines of at most this many bytes together are written before they are folded. A vector that was written a moment ago and
/// crosses cache lines is read only after a wait, and these lines are still in the first-level cache.
const TOGETHER: usize = 12 * 1024;

impl Phase {
    /// Notes whether the steps of a tile touch no element after its last: chains that take any number of elements, and
    /// folds, which know it.
    pub fn settle(&mut self) {
        self.exact = !self.in_place.is_empty()
            && self.tiles.iter().all(|step| match step {
                Step::Chain { code, .. } => code.is_exact(),
                Step::Fold { .. } | Step::Accumulate { .. } => true,
                _ => false,
            });
        let moves = |slot| self.moves.iter().any(|m| m.slot == slot);
        let folds = |step: &Step| match *step {
            Step::Fold { f, src, .. } => (src..src + f.lines()).all(moves),
            _ => false,
        };
        let last = self.tiles.iter().rev().take_while(|step| folds(step)).count();
        // Folds alone wait for no other step.
        self.makers = if last < self.tiles.len() { self.tiles.len() - last } else { last };
    }
}

impl Program {
    /// Whether the lines of a walk are tiles of a few steps, with nothing to do between them.
    pub(super) fn is_light(&self, phase: &Phase) -> bool {
        phase.exact
            && self.tile.0 == 1
            && !self.has_segs()
            && phase.lines.is_empty()
            && phase.asks.is_empty()
            && !phase.ahead
            && self.unit_cols.min(self.sizes[self.last()]) <= if phase.tiled { self.tile.1 } else { LONGEST }
    }
}

impl Worker<'_> {
    /// Runs the tiles of `count` rows from `first` on, in the columns from `from` to `to`.
    ///
    /// # Safety
    /// The contract of [`Worker::block`] holds, for a walk that [`Program::is_light`].
    pub(super) unsafe fn light(
        &mut self,
        phase: &Phase,
        (first, count): (usize, usize),
        (from, to): (usize, usize),
    ) -> Result<(), Fault> {
        let p = self.p;
        let (row, last) = (p.row(), p.last());
        self.idx[row] = first as i64;
        self.idx[last] = from as i64;
        self.kept_line = 0;
        // SAFETY: the caller upholds the contract; slots are within the workspace.
        unsafe {
            let line_at = self.idx;
            self.idx[last] = 0;
            self.place(phase);
            self.idx = line_at;
            self.move_to(phase, from);
            let (makers, folds) = phase.tiles.split_at(phase.makers);
            let n = to - from;
            let together = if folds.is_empty() { 1 } else { (TOGETHER / (4 * n).max(1)).max(1) };
            let mut left = count;
            while left > 0 {
                let lines = together.min(left);
                for _ in 0..lines {
                    self.tile(makers, n);
                    for fold in &phase.folds {
                        let acc = self.work.add(fold.acc as usize + self.kept_line * 8);
                        fold.f.call(self.starts.add(fold.src as usize), 0, p.sizes[last], acc);
                    }
                    self.move_lines(phase, 1);
                }
                if !folds.is_empty() {
                    self.move_lines(phase, -(lines as isize));
                    for _ in 0..lines {
                        self.tile(folds, n);
                        self.move_lines(phase, 1);
                    }
                }
                left -= lines;
            }
        }
        Ok(())
    }

    /// Runs these steps on the `n` elements of a line.
    ///
    /// # Safety
    /// The slots are at the line, which has `n` elements, and the steps are those of a walk that [`Program::is_light`].
    #[inline(always)]
    unsafe fn tile(&mut self, steps: &[Step], n: usize) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            for step in steps {
                match step {
                    Step::Chain { code, ins, outs } => {
                        let slots = self.slots;
                        code.run(n, slots.add(*ins as usize) as *const *const u8, slots.add(*outs as usize));
                    }
                    Step::Fold { f, src, acc, .. } => {
                        let acc = self.work.add(*acc as usize + self.kept_line * 8);
                        f.call(self.slots.add(*src as usize), 0, n, acc);
                    }
                    Step::Accumulate { acc, first, f, src, .. } => {
                        let at = first + self.p.accs[*acc as usize].at.at(&self.idx) as usize;
                        f.call(self.slots.add(*src as usize), 0, n, self.accs.add(at) as *mut u8);
                    }
                    // `Phase::settle` knows no other steps
                    _ => {}
                }
            }
        }
    }

    /// Moves the slots by this many rows.
    ///
    /// # Safety
    /// [`Worker::place`] has run, and the rows from there on lie in the block; the slots are used at rows of the block.
    unsafe fn move_lines(&mut self, phase: &Phase, rows: isize) {
        let row = self.p.row();
        let bump = |pointers: *mut *mut u8, slot: Slot, by: isize| {
            // SAFETY: the slot is within the workspace.
            unsafe {
                let at = pointers.add(slot as usize);
                at.write(at.read().wrapping_offset(by * rows));
            }
        };
        for i in &phase.in_place {
            let by = self.p.cursors[i.cursor as usize].at.coefs[row] as isize;
            for slot in &i.slots {
                bump(self.starts, *slot, by);
                bump(self.slots, *slot, by);
            }
        }
        for k in &phase.kept {
            if k.elem > 0 {
                bump(self.starts, k.slot, k.line as isize);
            }
            bump(self.slots, k.slot, k.line as isize);
        }
        self.kept_line = self.kept_line.wrapping_add_signed(rows);
        self.idx[row] += rows as i64;
    }
}
