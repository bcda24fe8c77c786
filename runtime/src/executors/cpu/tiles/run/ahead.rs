//! Memory that is asked for before it is needed: see [`super::super::asks`].

use super::{Geo, Level, Worker};
use crate::executors::cpu::tiles::program::{Ask, Coord, InPlace, Phase};

/// Tiles of memory that are on their way to a walk, all streams together.
const AHEAD: usize = 4;

/// How many rows ahead lines are asked for that indices name, and how many bytes of one.
const ROWS: usize = 2;
const LINE: usize = 4096;

/// How many bytes the indices of one row may name, for a later row to be asked for whole.
const NAMED: usize = 4 * LINE;

/// Bytes that come from memory at once.
const CACHE_LINE: usize = 64;

/// Asks for memory that a later tile works on. Rows of tensors are often a page, at whose end the hardware's own
/// prefetching stops. It goes to the second cache: from there it comes quickly enough, and the first keeps what is
/// worked on (an EPYC takes a tenth to a third less time for rows and for AdamW than with all of it in the first).
#[inline(always)]
pub(super) fn prefetch(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint; addresses without memory are ignored.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(line) as *const i8) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

/// The streams of a walk that asks for its own memory.
pub(super) struct Ahead {
    /// A bit for each cursor of the walk.
    pub streams: u64,
    /// How many tiles ahead.
    pub tiles: usize,
}

impl Worker<'_> {
    /// The streams that this walk asks for, where their lines start now.
    ///
    /// # Safety
    /// The workspace knows where the lines of the walk's cursors start.
    #[inline(always)]
    pub(super) unsafe fn ahead(&self, phase: &Phase) -> Ahead {
        if !phase.ahead {
            return Ahead { streams: 0, tiles: 0 };
        }
        let mut streams = 0u64;
        // SAFETY: the caller's.
        let line = |i: &InPlace| unsafe { self.line(i) };
        for (n, i) in phase.in_place.iter().enumerate().take(64).filter(|(_, i)| i.ahead) {
            // Memory that is read and written is asked for once.
            let before = phase.in_place[..n].iter().any(|b| line(b) == line(i));
            streams |= (!before as u64) << n;
        }
        // The fewer streams, the sooner they are through a tile.
        Ahead { streams, tiles: (AHEAD / streams.count_ones().max(1) as usize).max(1) }
    }

    /// Asks for a line that the indices of a later row name, from the column on at which the loops stand: no two such
    /// lines follow each other in memory, so nothing else foretells them.
    ///
    /// # Safety
    /// The row registers of `coords` hold the indices of the block's rows.
    #[inline(always)]
    pub(super) unsafe fn foresee(&self, cursor: u32, coords: &[Coord], cols: usize) {
        let (p, row) = (self.p, self.kept_line + ROWS);
        if p.has_segs() || row >= self.rows {
            return;
        }
        let c = &p.cursors[cursor as usize];
        let mut offset = (c.at.at(&self.idx) + ROWS as i64 * c.at.coefs[p.row()]) as isize;
        for coord in coords {
            // SAFETY: the caller's; the block has that row.
            let index = unsafe { (self.work.add(coord.slot as usize) as *const i64).add(row).read() };
            if index < 0 || index >= coord.size {
                return;
            }
            offset += index as isize * coord.stride as isize;
        }
        prefetch(self.memory.0[c.value as usize].wrapping_offset(offset), (cols * c.bytes).min(LINE));
    }

    /// Asks for a later row of an access of which each element has its own index, if a row's indices name most lines of
    /// what they may name: a tile asks for its part of that row.
    #[inline(always)]
    pub(super) fn foresee_all(&self, cursor: u32, coords: &[Coord], geo: &Geo) {
        let p = self.p;
        let ([axis], false, 1) = (coords, p.has_segs(), geo.lines) else { return };
        let c = &p.cursors[cursor as usize];
        let (named, line) = (axis.size as usize * c.bytes, p.sizes[p.last()]);
        let dense = axis.stride == c.bytes as i64 && named <= NAMED && line * CACHE_LINE >= named;
        let (along, down) = (c.at.coefs[p.last()], c.at.coefs[p.row()]);
        if !dense || geo.level != Level::Tiles || along != 0 || down == 0 {
            return;
        }
        let part = |col: usize| named * col / line;
        let col = self.idx[p.last()] as usize;
        let (from, to) = (part(col), part(col + geo.cols));
        let row = self.memory.0[c.value as usize].wrapping_offset((c.at.at(&self.idx) + ROWS as i64 * down) as isize);
        prefetch(row.wrapping_add(from), to - from);
    }

    /// Where the lines start that this walk asks for on behalf of others.
    #[inline(always)]
    pub(super) fn asks(&self, phase: &Phase) -> [*const u8; Ask::MOST] {
        let mut starts = [std::ptr::null(); Ask::MOST];
        for (a, start) in phase.asks.iter().zip(&mut starts) {
            let c = &self.p.cursors[a.cursor as usize];
            // Behind the last rows there may be nothing.
            *start = self.memory.0[c.value as usize].wrapping_offset((c.at.at(&self.idx) + a.further) as isize);
        }
        starts
    }
}
