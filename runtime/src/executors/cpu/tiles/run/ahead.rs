//! Prefetches of memory; see [`super::super::asks`] for their schedule.

use super::{Geo, Level, Worker};
use crate::executors::cpu::tiles::program::{Ask, Coord, InPlace, Phase};
use fulgurite_kernels::prefetch::{CACHE_LINE, prefetch};

/// The tiles of memory that are in flight for a walk, over all streams.
const AHEAD: usize = 4;

/// Indexed lines are prefetched this many rows ahead, and at most `LINE` bytes of each.
const ROWS: usize = 2;
const LINE: usize = 4096;

/// A later row is prefetched whole if the indices of one row cover at most this many bytes.
const NAMED: usize = 4 * LINE;

/// The streams of a walk that prefetches its own memory.
pub(super) struct Ahead {
    /// A bit for each cursor of the walk that is prefetched.
    pub streams: u64,
    /// The number of tiles to prefetch ahead.
    pub tiles: usize,
}

impl Worker<'_> {
    /// The streams that this walk prefetches, from the present starts of their lines.
    ///
    /// # Safety
    /// The workspace has the starts of the lines of the walk's cursors.
    #[inline(always)]
    pub(super) unsafe fn ahead(&self, phase: &Phase) -> Ahead {
        if !phase.ahead {
            return Ahead { streams: 0, tiles: 0 };
        }
        let mut streams = 0u64;
        // SAFETY: the caller upholds the contract of this function.
        let line = |i: &InPlace| unsafe { self.line(i) };
        for (n, i) in phase.in_place.iter().enumerate().take(64).filter(|(_, i)| i.ahead) {
            // Memory that is read and written is prefetched once.
            let before = phase.in_place[..n].iter().any(|b| line(b) == line(i));
            streams |= (!before as u64) << n;
        }
        // With fewer streams, a walk finishes a tile sooner.
        Ahead { streams, tiles: (AHEAD / streams.count_ones().max(1) as usize).max(1) }
    }

    /// Prefetches the line that the indices of a later row name, from the present column on. Such lines are not
    /// adjacent in memory, so the hardware does not predict them.
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
            // SAFETY: the caller upholds the contract; the block has that row.
            let index = unsafe { (self.work.add(coord.slot as usize) as *const i64).add(row).read() };
            if index < 0 || index >= coord.size {
                return;
            }
            offset += index as isize * coord.stride as isize;
        }
        prefetch(self.memory.0[c.value as usize].wrapping_offset(offset), (cols * c.bytes).min(LINE));
    }

    /// Prefetches a later row of an access with one index per element, if the indices of a row cover most of its cache
    /// lines. Each tile prefetches its part of that row.
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

    /// The addresses that this walk prefetches for other walks.
    #[inline(always)]
    pub(super) fn asks(&self, phase: &Phase) -> [*const u8; Ask::MOST] {
        let mut starts = [std::ptr::null(); Ask::MOST];
        for (a, start) in phase.asks.iter().zip(&mut starts) {
            let c = &self.p.cursors[a.cursor as usize];
            // After the last rows the address may lie outside of the memory.
            *start = self.memory.0[c.value as usize].wrapping_offset((c.at.at(&self.idx) + a.further) as isize);
        }
        starts
    }
}
