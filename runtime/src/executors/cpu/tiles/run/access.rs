//! Accesses to places that the loops alone do not decide: guarded, gathered, scattered.

use super::{Fault, Geo, Level, Worker};
use crate::executors::cpu::tiles::program::*;
use fulgurite_core::kernel::Combine;
use fulgurite_kernels::{fill, gather};
use smallvec::SmallVec;

impl Worker<'_> {
    pub(super) fn out_of_range(&self, cursor: u32, c: &Coord, index: i64) -> Fault {
        Fault::OutOfRange { value: self.p.cursors[cursor as usize].value, axis: c.axis, index, size: c.size }
    }

    /// Loads a tile; elements outside of the storage's axes are filled.
    ///
    /// # Safety
    /// The contract of [`Worker::step`] holds for a step with this load.
    pub(super) unsafe fn guarded(&self, g: &GuardedLoad, geo: &Geo) {
        // The lines and columns that conditions on one of them leave. A condition on both is
        // evaluated line by line.
        let (mut lines, mut columns) = ((0, geo.lines), (0, geo.cols));
        let mut both: SmallVec<[(i64, i64, i64, i64); 4]> = SmallVec::new();
        for (lin, size) in &g.axes {
            let first = lin.at(&self.idx);
            let down = if geo.lines > 1 { lin.coefs[geo.line_loop] } else { 0 };
            let across = if geo.level == Level::Once { 0 } else { lin.coefs[geo.col_loop] };
            match (down, across) {
                (0, _) => columns = within(columns, (first, across, *size), geo.cols),
                (_, 0) => lines = within(lines, (first, down, *size), geo.lines),
                _ => both.push((first, down, across, *size)),
            }
        }
        // SAFETY: only the part of the rectangle that lies inside is read.
        unsafe {
            self.fill_lines(g, geo, (0, lines.0));
            if both.is_empty() {
                self.load_part(g, geo, lines, columns);
            } else {
                for line in lines.0..lines.1 {
                    let inside = |columns, (first, down, across, size): &(i64, i64, i64, i64)| {
                        let first = first.wrapping_add(down.wrapping_mul(line as i64));
                        within(columns, (first, *across, *size), geo.cols)
                    };
                    self.load_part(g, geo, (line, line + 1), both.iter().fold(columns, inside));
                }
            }
            self.fill_lines(g, geo, (lines.1, geo.lines));
        }
    }

    /// Fills whole lines of a tile.
    ///
    /// # Safety
    /// The contract of [`Worker::guarded`] holds; the tile has these lines.
    unsafe fn fill_lines(&self, g: &GuardedLoad, geo: &Geo, (from, to): (usize, usize)) {
        let bytes = self.p.cursors[g.cursor as usize].bytes;
        for line in from..to {
            // SAFETY: the caller upholds the contract of this function.
            unsafe { (g.fill)(self.slot(g.dst).add(line * geo.pitch * bytes), 0, g.value.as_ptr(), 1, geo.cols) };
        }
    }

    /// Loads these lines of a tile from columns `lo..hi`, and fills the other columns.
    ///
    /// # Safety
    /// The contract of [`Worker::guarded`] holds; the tile has these lines, and the storage has these columns of them.
    unsafe fn load_part(&self, g: &GuardedLoad, geo: &Geo, (first, end): (usize, usize), (lo, hi): (usize, usize)) {
        let cursor = &self.p.cursors[g.cursor as usize];
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let dst = self.slot(g.dst).add(first * geo.pitch * cursor.bytes);
            if hi > lo {
                let at = self.rect(g.cursor, geo);
                let down = if geo.lines > 1 { first as isize * at.line } else { 0 };
                let offset = cursor.at.at(&self.idx) as isize + down + lo as isize * at.elem;
                let from = self.memory.0[cursor.value as usize].wrapping_offset(offset);
                (g.f)(dst.add(lo * cursor.bytes), geo.pitch, from, at, end - first, hi - lo);
            }
            for (from, to) in [(0, lo), (hi, geo.cols)].into_iter().filter(|(from, to)| from < to) {
                for line in 0..end - first {
                    let to_fill = dst.add((line * geo.pitch + from) * cursor.bytes);
                    (g.fill)(to_fill, 0, g.value.as_ptr(), 1, to - from);
                }
            }
        }
    }

    /// Draws random numbers at the positions `at` for draw `draw` of the key that is read through `key`.
    ///
    /// # Safety
    /// The contract of [`Worker::step`] holds for a step that draws into `dst`.
    pub(super) unsafe fn uniform(
        &self,
        f: fill::uniform_run::Fn,
        dst: *mut u8,
        (key, draw): (u32, u32),
        at: &Positions,
        geo: &Geo,
    ) {
        // SAFETY: the key has two words, the register room for the tile.
        unsafe {
            let words = self.at(key) as *const i64;
            let (seed, stream) = (words.read() as u64, words.add(1).read() as u64);
            match at {
                Positions::Lin(lin) => {
                    let (line, step) = (lin.coefs[geo.line_loop], lin.coefs[geo.col_loop]);
                    for l in 0..geo.lines {
                        let (first, dst) = (lin.at(&self.idx) + l as i64 * line, dst.add(l * geo.pitch * 4));
                        if step == 1 || geo.cols == 1 {
                            f(dst, geo.cols, seed, stream, draw, first as u64);
                            continue;
                        }
                        for c in 0..geo.cols {
                            f(dst.add(c * 4), 1, seed, stream, draw, (first + c as i64 * step) as u64);
                        }
                    }
                }
                Positions::Slot(s) => {
                    let n = if geo.lines == 1 { geo.cols } else { geo.lines * geo.pitch };
                    fill::uniform_at(dst, self.slot(*s), n, seed, stream, draw);
                }
            }
        }
    }

    /// The offsets of a tile's elements as far as the loops decide them.
    fn tile_offsets(&self, cursor: u32, geo: &Geo, out: &mut [isize; TILE]) -> usize {
        let coefs = &self.p.cursors[cursor as usize].at.coefs;
        let (line, col) =
            (coefs[geo.line_loop] as isize, if geo.level == Level::Once { 0 } else { coefs[geo.col_loop] as isize });
        let cols = geo.cols.min(TILE);
        for l in 0..geo.lines {
            for c in 0..cols {
                out[l * cols + c] = l as isize * line + c as isize * col;
            }
        }
        geo.lines * cols
    }

    /// The elements of a tile of one line, each named by one index.
    ///
    /// # Safety
    /// The slot of the coordinate is set.
    unsafe fn named(&self, cursor: u32, c: &Coord, geo: &Geo) -> gather::Named {
        let coefs = &self.p.cursors[cursor as usize].at.coefs;
        let step = if geo.level == Level::Once { 0 } else { coefs[geo.col_loop] as isize };
        // SAFETY: the caller upholds the contract of this function.
        let index = unsafe { self.slot(c.slot) } as *const i64;
        let coordinate = gather::Coordinate { index, stride: c.stride as isize, size: c.size };
        gather::Named { coordinate, step, n: geo.cols.min(TILE) }
    }

    /// Loads the elements of a tile at the places that its indices name.
    ///
    /// # Safety
    /// The contract of [`Worker::step`] holds for a step with this load; `dst` and the slots of `coords` have room for
    /// a tile.
    ///
    /// # Errors
    /// An index is out of range for its axis.
    pub(super) unsafe fn gather(
        &self,
        fs: &Gathers,
        cursor: u32,
        coords: &[Coord],
        dst: Slot,
        geo: &Geo,
    ) -> Result<(), Fault> {
        self.foresee_all(cursor, coords, geo);
        if let ([c], 1) = (coords, geo.lines) {
            // SAFETY: the register holds the line's indices, which are checked.
            unsafe {
                let line = self.named(cursor, c, geo);
                if let Some(index) = (fs.outside)(line.coordinate.index, c.size, line.n) {
                    return Err(self.out_of_range(cursor, c, index));
                }
                (fs.line)(self.slot(dst), self.at(cursor), &line);
            }
            return Ok(());
        }
        let mut at = [0isize; TILE];
        let n = self.tile_offsets(cursor, geo, &mut at);
        // SAFETY: registers hold the tile's indices, which are checked; the rest of an offset is within its storage.
        unsafe {
            let places: SmallVec<[gather::Coordinate; 4]> = coords
                .iter()
                .map(|c| gather::Coordinate {
                    index: self.slot(c.slot) as *const i64,
                    stride: c.stride as isize,
                    size: c.size,
                })
                .collect();
            gather::offsets(&places, &mut at[..n])
                .map_err(|o| self.out_of_range(cursor, &coords[o.coordinate], o.index))?;
            (fs.tile)(self.slot(dst), self.at(cursor), at.as_ptr(), n);
        }
        Ok(())
    }

    /// Stores the elements of a tile, or combines them, at the places that its indices name.
    ///
    /// # Safety
    /// The contract of [`Worker::step`] holds for a step with this store; no other worker stores to these places.
    ///
    /// # Errors
    /// An index is out of range for its axis, and the scatter is strict.
    pub(super) unsafe fn scatter(&self, s: &Scatter, geo: &Geo) -> Result<(), Fault> {
        // SAFETY: elements whose place is outside are dropped; registers hold the tile's indices and elements.
        unsafe {
            if s.rows {
                self.foresee(s.cursor, &s.coords, geo.cols);
                let row = if self.p.has_segs() { 0 } else { self.kept_line };
                let mut to = self.at(s.cursor);
                for (lin, size) in &s.axes {
                    let at = lin.at(&self.idx);
                    if at < 0 || at >= *size {
                        return Ok(());
                    }
                }
                for c in &s.coords {
                    let index = (self.work.add(c.slot as usize) as *const i64).add(row).read();
                    if index < 0 || index >= c.size {
                        return s.strict.map_or(Ok(()), |_| Err(self.out_of_range(s.cursor, c, index)));
                    }
                    to = to.offset(index as isize * c.stride as isize);
                }
                if s.how == Combine::Replace {
                    std::ptr::copy(self.slot(s.src), to, geo.cols * s.bytes);
                } else {
                    (s.line)(to, self.slot(s.src), geo.cols);
                }
                return Ok(());
            }
            self.foresee_all(s.cursor, &s.coords, geo);
            if let Some(outside) = s.strict {
                for c in &s.coords {
                    let n = self.named(s.cursor, c, geo).n * geo.lines;
                    if let Some(index) = outside(self.slot(c.slot) as *const i64, c.size, n) {
                        return Err(self.out_of_range(s.cursor, c, index));
                    }
                }
            }
            let c = &self.p.cursors[s.cursor as usize];
            // The start alone may lie outside of the storage; only kept elements are accessed.
            let base = self.memory.0[c.value as usize].wrapping_offset(c.at.at(&self.idx) as isize);
            if let ([coord], true, None, 1) = (s.coords.as_slice(), s.axes.is_empty(), s.mask, geo.lines) {
                (s.named)(base, &self.named(s.cursor, coord, geo), self.slot(s.src), s.how);
                return Ok(());
            }
            let mut at = [0isize; TILE];
            let mut keep = [1u8; TILE];
            let n = self.tile_offsets(s.cursor, geo, &mut at);
            let cols = geo.cols.min(TILE);
            for (lin, size) in &s.axes {
                for l in 0..geo.lines {
                    let first = lin.at(&self.idx) + if geo.lines > 1 { l as i64 * lin.coefs[geo.line_loop] } else { 0 };
                    for c in 0..cols {
                        let v = first + c as i64 * lin.coefs[geo.col_loop];
                        keep[l * cols + c] &= (v >= 0 && v < *size) as u8;
                    }
                }
            }
            if let Some(m) = s.mask {
                let mask = self.slot(m);
                for (i, k) in keep[..n].iter_mut().enumerate() {
                    *k &= mask.add(i).read();
                }
            }
            let places: SmallVec<[gather::Coordinate; 4]> = (s.coords.iter())
                .map(|c| gather::Coordinate {
                    index: self.slot(c.slot) as *const i64,
                    stride: c.stride as isize,
                    size: c.size,
                })
                .collect();
            gather::kept_offsets(&places, &mut at[..n], &mut keep[..n]);
            (s.f)(base, at.as_ptr(), keep.as_ptr(), self.slot(s.src), n, s.how);
        }
        Ok(())
    }
}

/// The part of `range`, of `count` places, at which a position that begins at `first` and moves by `step` is at least 0 and
/// below `size`.
fn within((lo, hi): (usize, usize), (first, step, size): (i64, i64, i64), count: usize) -> (usize, usize) {
    let (a, b) = fill::interval(false, first, step, count);
    let (c, d) = fill::interval(false, (size - 1).saturating_sub(first), step.saturating_neg(), count);
    let lo = lo.max(a).max(c);
    (lo, hi.min(b).min(d).max(lo))
}
