//! Schedules software prefetches.
//!
//! A program of one walk always waits for memory, so it prefetches a few tiles ahead. If several walks go over a block
//! of rows, the first one waits for memory and the others compute. So the memory of a walk is prefetched during the
//! walks before it, and the memory of the first walk a block ahead.

use super::emit::Emit;
use super::program::{Ask, Cursor, Step};

/// A block of more bytes is not prefetched a block ahead, because its memory would be evicted before its turn; this is
/// a part of the second-level cache.
const FAR: usize = 512 * 1024;
/// The nanoseconds to read a byte from the third-level cache.
const BYTE: f64 = 0.03;

impl Emit<'_> {
    /// Distributes the prefetches of all walks among the walks, once these are complete.
    pub(super) fn asks(&mut self) {
        let walks = self.p.phases.len();
        let row = self.n.sizes[self.n.last()] * self.n.row_lines();
        if walks > 1 && self.p.block * row * self.bytes_of_walks() <= FAR {
            self.share_asks();
        }
        // Memory that fits into the second-level cache is often there already, and then prefetches only take time.
        let far = self.n.sizes.iter().product::<usize>() * self.bytes_of_walks() > FAR;
        for phase in &mut self.p.phases {
            // One kernel reads its lines without a pause, which the hardware predicts. Folds of its results wait for nothing.
            let steady = match phase.tiles.as_slice() {
                [Step::Kernel { .. }] => true,
                [Step::Chain { .. }, folds @ ..] => folds.iter().all(|step| matches!(step, Step::Fold { .. })),
                _ => false,
            };
            phase.ahead = far && !steady && phase.in_place.iter().any(|i| i.ahead);
            // Prefetches are spread over the steps, because the processor has line buffers for about one tile.
            let (n, steps) = (phase.asks.len(), phase.tiles.len());
            for (k, ask) in phase.asks.iter_mut().enumerate() {
                ask.step = k * steps / n;
            }
        }
    }

    fn share_asks(&mut self) {
        let walks = self.p.phases.len();
        let mut free = self.walk_costs.clone();
        let mut known: Vec<u32> = Vec::new();
        for needed in 0..walks {
            for i in 0..self.p.phases[needed].in_place.len() {
                let at = self.p.phases[needed].in_place[i].cursor;
                let cursor = &self.p.cursors[at as usize];
                let same = |b: &Cursor| b.value == cursor.value && b.at == cursor.at;
                let seen = known.iter().any(|k| same(&self.p.cursors[*k as usize]));
                known.push(at);
                let stays = cursor.at.coefs[..=self.p.row()].iter().all(|c| *c == 0);
                let mut ahead = false;
                if !seen && !stays {
                    let from = if needed == 0 { 1..walks } else { 0..needed };
                    let can = |w: &usize| {
                        let phase = &self.p.phases[*w];
                        !cursor.sought && !phase.tiles.is_empty() && phase.asks.len() < Ask::MOST
                    };
                    match from.filter(can).max_by(|a, b| free[*a].total_cmp(&free[*b])) {
                        Some(walk) => {
                            free[walk] -= cursor.bytes as f64 * BYTE;
                            let rows = if needed == 0 { self.p.block as i64 } else { 0 };
                            let further = cursor.at.coefs[self.p.row()] * rows;
                            self.p.phases[walk].asks.push(Ask { cursor: at, further, step: 0 });
                        }
                        None => ahead = true,
                    }
                }
                self.p.phases[needed].in_place[i].ahead = ahead;
            }
        }
    }
}
