//! Runs compiled fusions over tiles.
//!
//! A worker has a workspace (slots, registers, kept rows) and walks over units. **Invariant:** units write disjoint
//! memory, except for accumulators, which belong to panels. So any worker may run any unit, and the division of units
//! among workers does not change the bits of the results.

mod access;
mod ahead;
mod ends;
mod light;
mod scalar;

use super::program::*;
use crate::buffer::pool::Block;
use crate::executors::program::host_step::{Fault, FirstFault, Memory};
use crate::executors::program::threads::{self, Claims};
use ends::mean;
use fulgurite_kernels::chain;
use fulgurite_kernels::copy::Rect;
use fulgurite_kernels::prefetch::prefetch;
use fulgurite_kernels::{fill, reduce};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rectangle that a step works on.
#[derive(Clone, Copy)]
struct Geo {
    lines: usize,
    cols: usize,
    /// The number of elements that kernels work on.
    n: usize,
    /// The number of elements from line to line in a register.
    pitch: usize,
    /// The loops along lines and columns.
    line_loop: usize,
    col_loop: usize,
    level: Level,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Once,
    Rows,
    Tiles,
}

impl Program {
    /// Runs the program on `threads` threads; `accs` has [`HostStep::scratch`] bytes, aligned to 8.
    ///
    /// # Safety
    /// `memory` has valid memory for every storage that the cursors name, of the sizes for which the program was made.
    /// No other thread writes it, and written memory overlaps read memory only where [`Program::alias`] allows it.
    pub unsafe fn run(&self, memory: Memory, sizes: &[usize], accs: *mut u8, threads: usize) -> Result<(), Fault> {
        for p in &self.prefill {
            // SAFETY: the caller upholds the contract: a value and its base have that many bytes.
            unsafe { p.fill(memory, sizes[p.value as usize], threads) };
        }
        if self.accs.is_empty() {
            // SAFETY: the caller upholds the contract.
            return unsafe { self.share(memory, accs, 0..self.units(), threads) };
        }
        let panels = self.slices() * self.panels();
        // SAFETY: the caller upholds the contract; `accs` has room for the accumulators of all panels, and all workers are
        // done when they are combined.
        unsafe {
            self.clear(panels, accs as *mut u64);
            self.share(memory, accs, 0..panels, threads)?;
            self.combine(memory, accs as *mut u64);
        }
        Ok(())
    }

    /// Runs these units of a program without accumulators.
    ///
    /// # Safety
    /// The contract of [`Program::run`] holds for the memory of these units.
    pub unsafe fn run_units(&self, memory: Memory, units: Range<usize>, threads: usize) -> Result<(), Fault> {
        // SAFETY: the caller upholds the contract.
        unsafe { self.share(memory, std::ptr::null_mut(), units, threads) }
    }

    /// Divides tasks among threads: panels, or units if there are no accumulators.
    ///
    /// # Safety
    /// The contract of [`Program::run`] holds.
    unsafe fn share(&self, memory: Memory, accs: *mut u8, tasks: Range<usize>, threads: usize) -> Result<(), Fault> {
        let (fault, scalars) = (FirstFault::default(), AtomicBool::new(false));
        let accs = Memory(&[accs]);
        let work = |claims: Claims<'_>| {
            // SAFETY: the caller upholds the contract; tasks are disjoint.
            if let Err(f) = unsafe { self.work(memory, accs, &scalars, claims.after(tasks.start)) } {
                fault.set(f);
            }
            if self.streams {
                chain::fence();
            }
            debug_assert!(chain::is_fenced(), "a thread shares what it wrote past the caches without a fence");
        };
        let all = if self.accs.is_empty() { self.units() } else { tasks.len() };
        let cost = self.cost * tasks.len() as f64 / all.max(1) as f64;
        threads::share(tasks.len(), if self.sequential { 1 } else { threads }, cost, &work);
        fault.result()
    }

    /// Runs the tasks of one thread with a workspace of their own. `scalars` says whether a thread stores the scalars
    /// already.
    ///
    /// # Safety
    /// The contract of [`Program::run`] holds.
    unsafe fn work(&self, memory: Memory, accs: Memory, scalars: &AtomicBool, claims: Claims<'_>) -> Result<(), Fault> {
        let pointers = (2 * self.slots.len() + self.cursors.len()).next_multiple_of(8) * 8;
        let block = Block::new(pointers + self.work + 64).map_err(|e| Fault::OutOfMemory(e.bytes))?;
        // SAFETY: the block has room for the pointers, then the workspace.
        let mut w = unsafe {
            let slots = block.data() as *mut *mut u8;
            let starts = slots.add(self.slots.len());
            let seeks = starts.add(self.slots.len()) as *mut isize;
            Worker {
                p: self,
                memory,
                slots,
                starts,
                seeks,
                work: block.data().add(pointers),
                accs: std::ptr::null_mut(),
                idx: [0; MAX_LOOPS],
                rows: 0,
                kept_line: 0,
                owner: !scalars.swap(true, Ordering::Relaxed),
                first_columns: true,
            }
        };
        // SAFETY: the workspace was made above for this program.
        unsafe { w.start()? };
        if self.accs.is_empty() {
            for unit in claims.flatten() {
                // SAFETY: the worker has started, and no other worker has this unit.
                unsafe { w.unit(unit)? };
            }
            return Ok(());
        }
        let (slice_units, panels) = (self.units() / self.slices(), self.panels());
        for panel in claims.flatten() {
            let (slice, within) = (panel / panels, panel % panels);
            // SAFETY: these are the accumulators of this panel.
            w.accs = unsafe { (accs.0[0] as *mut u64).add(panel * self.acc_len()) };
            let first = within * self.panel;
            for unit in first..(first + self.panel).min(slice_units) {
                // SAFETY: the worker has started, and no other worker has this unit.
                unsafe { w.unit(slice * slice_units + unit)? };
            }
        }
        Ok(())
    }
}

struct Worker<'a> {
    p: &'a Program,
    memory: Memory<'a>,
    slots: *mut *mut u8,
    /// For each slot that moves along the current line, its start.
    starts: *mut *mut u8,
    /// For each cursor, the distance that a seek added to it.
    seeks: *mut isize,
    work: *mut u8,
    accs: *mut u64,
    idx: [i64; MAX_LOOPS],
    /// The number of rows of the block.
    rows: usize,
    /// The position of the group's first line among the block's lines.
    kept_line: usize,
    /// Whether this worker stores scalars.
    owner: bool,
    /// Whether this unit has the first columns, and therefore stores its rows.
    first_columns: bool,
}

impl Worker<'_> {
    /// Sets the slots that do not move, and computes scalars.
    ///
    /// # Safety
    /// `slots`, `seeks` and `memory` are a workspace and storages for this worker's program.
    unsafe fn start(&mut self) -> Result<(), Fault> {
        let p = self.p;
        // SAFETY: the workspace has a place for every slot and cursor.
        unsafe {
            for (i, slot) in p.slots.iter().enumerate() {
                self.slots.add(i).write(match *slot {
                    SlotInit::Const(at) => (p.consts.as_ptr() as *mut u8).add(at as usize),
                    SlotInit::Work(at) => self.work.add(at as usize),
                    SlotInit::Moving => std::ptr::null_mut(),
                });
            }
            std::ptr::write_bytes(self.seeks, 0, p.cursors.len());
            let width = padded(p.block).max(padded(p.tile.0 * p.tile.1)).max(CHUNK);
            let once = Geo {
                lines: 1,
                cols: width,
                n: width,
                pitch: width,
                line_loop: p.row(),
                col_loop: p.last(),
                level: Level::Once,
            };
            for s in &p.once {
                self.step(s, &once)?;
            }
            let (tb, tc) = p.tile;
            let tile = Geo {
                lines: tb,
                cols: tc,
                n: padded(tb * tc),
                pitch: tc,
                line_loop: p.line_loop(),
                col_loop: p.last(),
                level: Level::Tiles,
            };
            for s in &p.patterns {
                self.step(s, &tile)?;
            }
        }
        Ok(())
    }

    /// Runs the rows and columns of one unit of work.
    ///
    /// # Safety
    /// The contract of [`Worker::start`] holds, which has run; `unit` is one of the program's, and no other worker has
    /// it.
    unsafe fn unit(&mut self, unit: usize) -> Result<(), Fault> {
        let p = self.p;
        let (cols, rows) = (p.col_units(), p.row_units());
        let (col, row, mut outer) = (unit % cols, unit / cols % rows, unit / cols / rows);
        for l in (0..p.outer).rev() {
            self.idx[l] = (outer % p.sizes[l]) as i64;
            outer /= p.sizes[l];
        }
        self.first_columns = col == 0;
        let last = p.sizes[p.last()];
        let (col0, col1) = (col * p.unit_cols, ((col + 1) * p.unit_cols).min(last));
        let (from, to) = (row * p.unit_rows, ((row + 1) * p.unit_rows).min(p.sizes[p.row()]));
        let mut at = from;
        while at < to {
            let count = p.block.min(to - at);
            // SAFETY: the caller upholds the contract of this function.
            unsafe { self.block(at, count, col0, col1)? };
            at += count;
        }
        Ok(())
    }

    /// Runs all walks over `count` rows from `row0` on.
    ///
    /// # Safety
    /// The contract of [`Worker::unit`] holds; the rows and columns lie in that unit.
    unsafe fn block(&mut self, row0: usize, count: usize, col0: usize, col1: usize) -> Result<(), Fault> {
        let p = self.p;
        let (row, last, line_loop) = (p.row(), p.last(), p.line_loop());
        let tb = p.tile.0;
        let rows = Geo {
            lines: 1,
            cols: count,
            n: padded(count),
            pitch: 0,
            line_loop: row,
            col_loop: row,
            level: Level::Rows,
        };
        self.rows = count;
        for phase in &p.phases {
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                self.rewind(row0);
                for s in &phase.before {
                    self.step(s, &rows)?;
                }
                if !phase.tiles.is_empty() {
                    if p.is_light(phase) {
                        self.light(phase, (row0, count), (col0, col1))?;
                    } else if !p.has_segs() {
                        let mut l = row0;
                        while l < row0 + count {
                            let lines = tb.min(row0 + count - l);
                            self.idx[row] = l as i64;
                            self.kept_line = l - row0;
                            self.lines(phase, lines, col0, col1)?;
                            l += lines;
                        }
                    } else {
                        let runs: usize = p.sizes[row + 1..last - 1].iter().product();
                        let n = p.sizes[line_loop];
                        for run in 0..runs {
                            let mut rest = run;
                            for l in (row + 1..last - 1).rev() {
                                self.idx[l] = (rest % p.sizes[l]) as i64;
                                rest /= p.sizes[l];
                            }
                            let mut l = 0;
                            while l < n {
                                let lines = tb.min(n - l);
                                self.idx[line_loop] = l as i64;
                                self.kept_line = run * n + l;
                                self.lines(phase, lines, col0, col1)?;
                                l += lines;
                            }
                        }
                    }
                    self.rewind(row0);
                }
                for s in &phase.after {
                    self.step(s, &rows)?;
                }
            }
        }
        Ok(())
    }

    fn rewind(&mut self, row0: usize) {
        let (row, last) = (self.p.row(), self.p.last());
        self.idx[row] = row0 as i64;
        self.idx[row + 1..=last].fill(0);
    }

    /// Runs the tiles of a group of lines.
    ///
    /// # Safety
    /// The contract of [`Worker::block`] holds; `idx` is at the first of the lines.
    unsafe fn lines(&mut self, phase: &Phase, lines: usize, col0: usize, col1: usize) -> Result<(), Fault> {
        let p = self.p;
        let (last, (tb, tc)) = (p.last(), p.tile);
        // Memory is prefetched in small parts, so these lines are taken one tile at a time.
        let short = tb > 1 || phase.tiled || !phase.asks.is_empty() || phase.ahead;
        let width = if short { tc } else { tc.max(WHOLE) };
        let mut geo = Geo {
            lines,
            cols: tc,
            n: padded(lines * tc),
            pitch: tc,
            line_loop: p.line_loop(),
            col_loop: last,
            level: Level::Tiles,
        };
        // SAFETY: the caller upholds the contract; slots, registers and kept rows are within the workspace.
        unsafe {
            self.idx[last] = 0;
            for s in &phase.lines {
                self.step(s, &geo)?;
            }
            self.place(phase);
            let ahead = self.ahead(phase);
            let asks = self.asks(phase);
            let mut col = col0;
            while col < col1 {
                geo.cols = width.min(col1 - col);
                if geo.cols > TILE && !geo.cols.is_multiple_of(CHUNK) && !phase.exact {
                    // The register that replaces memory at an edge is as short as a tile.
                    geo.cols -= geo.cols % TILE;
                }
                // The number of existing elements; kernels work on these and the padding.
                let there = if tb == 1 { geo.cols } else { lines * tc };
                geo.n = padded(there);
                let edge = geo.n != there && !phase.exact;
                self.idx[last] = col as i64;
                self.move_to(phase, col);
                if ahead.streams != 0 {
                    for (_, i) in
                        phase.in_place.iter().take(64).enumerate().filter(|(n, _)| ahead.streams >> n & 1 == 1)
                    {
                        let further = (col + ahead.tiles * there) * i.bytes;
                        prefetch(self.line(i).wrapping_add(further), there * i.bytes);
                    }
                }
                if edge {
                    for i in &phase.in_place {
                        let register = self.work.add(i.edge as usize);
                        if i.reads {
                            let at = self.line(i).wrapping_add(col * i.bytes);
                            std::ptr::copy_nonoverlapping(at, register, there * i.bytes);
                        }
                        i.slots.iter().for_each(|s| self.slots.add(*s as usize).write(register));
                    }
                }
                let mut asked = 0;
                for (n, s) in phase.tiles.iter().enumerate() {
                    while let Some(ask) = phase.asks.get(asked).filter(|a| a.step == n) {
                        let bytes = p.cursors[ask.cursor as usize].bytes;
                        prefetch(asks[asked].wrapping_add(col * bytes), there * bytes);
                        asked += 1;
                    }
                    match s {
                        Step::Kernel { f, ins, outs, nums } => {
                            let slots = self.slots;
                            f(
                                geo.n,
                                slots.add(*ins as usize) as *const *const u8,
                                slots.add(*outs as usize),
                                p.nums.as_ptr().add(*nums as usize),
                            );
                        }
                        Step::Chain { code, ins, outs } => {
                            let (slots, n) = (self.slots, if phase.exact { there } else { geo.n });
                            code.run(n, slots.add(*ins as usize) as *const *const u8, slots.add(*outs as usize));
                        }
                        Step::Fold { f, src, acc, .. } if tb == 1 => {
                            let row = if p.has_segs() { 0 } else { self.kept_line };
                            let acc = self.work.add(*acc as usize + row * 8);
                            f.call(self.slots.add(*src as usize), 0, geo.cols, acc);
                        }
                        Step::Accumulate { acc, first, f, src, .. } if tb == 1 => {
                            let at = first + p.accs[*acc as usize].at.at(&self.idx) as usize;
                            f.call(self.slots.add(*src as usize), 0, geo.cols, self.accs.add(at) as *mut u8);
                        }
                        _ => self.step(s, &geo)?,
                    }
                }
                if edge {
                    for i in phase.in_place.iter().filter(|i| i.writes) {
                        let bytes = i.bytes;
                        let to = self.line(i).wrapping_add(col * bytes);
                        std::ptr::copy_nonoverlapping(self.work.add(i.edge as usize), to, there * bytes);
                    }
                }
                col += geo.cols;
            }
            for fold in &phase.folds {
                let acc = self.work.add(fold.acc as usize + self.kept_line * 8);
                fold.f.call(self.starts.add(fold.src as usize), 0, p.sizes[last], acc);
            }
        }
        Ok(())
    }

    /// Sets the slots of memory and of kept rows to the start of the current line.
    ///
    /// # Safety
    /// The contract of [`Worker::lines`] holds.
    unsafe fn place(&mut self, phase: &Phase) {
        let p = self.p;
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            for i in &phase.in_place {
                let c = i.cursor as usize;
                let offset = p.cursors[c].at.at(&self.idx) as isize + self.seeks.add(c).read();
                let line = self.memory.0[p.cursors[c].value as usize].wrapping_offset(offset);
                i.slots.iter().for_each(|s| self.starts.add(*s as usize).write(line));
            }
            for k in &phase.kept {
                let line = self.work.add(k.at as usize + self.kept_line * k.line);
                let slots = if k.elem > 0 { self.starts } else { self.slots };
                slots.add(k.slot as usize).write(line);
            }
        }
    }

    /// Moves the slots from the start of the line to this column.
    ///
    /// # Safety
    /// [`Worker::place`] has run for the line.
    unsafe fn move_to(&mut self, phase: &Phase, col: usize) {
        for m in &phase.moves {
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                let at = self.starts.add(m.slot as usize).read().wrapping_add(col * m.elem);
                self.slots.add(m.slot as usize).write(at);
            }
        }
    }

    /// The start of the current line of a cursor whose memory serves as a register; all of its slots start there.
    ///
    /// # Safety
    /// [`Worker::lines`] has set the starts of this walk's slots.
    unsafe fn line(&self, i: &InPlace) -> *mut u8 {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.starts.add(i.slots[0] as usize).read() }
    }

    /// The address of a slot's elements.
    ///
    /// # Safety
    /// The slot is set: [`Worker::start`] has run, and for a moving slot the step that sets it.
    unsafe fn slot(&self, s: Slot) -> *mut u8 {
        // SAFETY: slots are set before steps that use them.
        unsafe { self.slots.add(s as usize).read() }
    }

    /// The address at which the rectangle of a cursor starts.
    ///
    /// # Safety
    /// The contract of [`Worker::lines`] holds; the entry of the cursor in `seeks` is set.
    unsafe fn at(&self, cursor: u32) -> *mut u8 {
        let c = &self.p.cursors[cursor as usize];
        // SAFETY: the program's accesses lie within their storages.
        unsafe {
            let offset = c.at.at(&self.idx) as isize + self.seeks.add(cursor as usize).read();
            self.memory.0[c.value as usize].wrapping_offset(offset)
        }
    }

    /// Whether a loop that does not move the cursor is behind its first setting: another tile, perhaps of another worker,
    /// stores the same elements.
    fn repeats(&self, cursor: u32) -> bool {
        self.p.cursors[cursor as usize].at.coefs.iter().zip(&self.idx).any(|(coef, at)| *coef == 0 && *at != 0)
    }

    fn rect(&self, cursor: u32, geo: &Geo) -> Rect {
        let coefs = &self.p.cursors[cursor as usize].at.coefs;
        Rect {
            line: coefs[geo.line_loop] as isize,
            elem: if geo.level == Level::Once { 0 } else { coefs[geo.col_loop] as isize },
        }
    }

    /// Runs one step on one tile.
    ///
    /// # Safety
    /// The contract of [`Worker::lines`] holds; `geo` is a tile of the loops at `idx`, and the slots that the step
    /// reads are set.
    unsafe fn step(&mut self, step: &Step, geo: &Geo) -> Result<(), Fault> {
        let p = self.p;
        // SAFETY: a program's steps stay within registers, the workspace and its storages; see `Program::run`.
        unsafe {
            match step {
                Step::Kernel { f, ins, outs, nums } => {
                    let slots = self.slots;
                    f(
                        geo.n,
                        slots.add(*ins as usize) as *const *const u8,
                        slots.add(*outs as usize),
                        p.nums.as_ptr().add(*nums as usize),
                    );
                }
                Step::Chain { code, ins, outs } => {
                    let slots = self.slots;
                    code.run(geo.n, slots.add(*ins as usize) as *const *const u8, slots.add(*outs as usize));
                }
                Step::Scalar { builtin, arity, ins, outs, from, to } => {
                    let n = if geo.lines == 1 { geo.cols } else { geo.lines * geo.pitch };
                    let ins: Vec<*const u8> = (0..*arity as u32).map(|k| self.slot(ins + k) as *const u8).collect();
                    scalar::call(*builtin, &ins, self.slot(*outs), *from, *to, n).map_err(Fault::DivisionByZero)?;
                }
                Step::Load { f, cursor, dst } => {
                    f(self.slot(*dst), geo.pitch, self.at(*cursor), self.rect(*cursor, geo), geo.lines, geo.cols);
                }
                Step::Store { f, cursor, src } => match geo.level {
                    Level::Once if !self.owner => {}
                    Level::Once => f(self.at(*cursor), self.rect(*cursor, geo), self.slot(*src), 1, 1, 1),
                    Level::Rows if !self.first_columns => {}
                    _ if self.repeats(*cursor) => {}
                    _ => f(self.at(*cursor), self.rect(*cursor, geo), self.slot(*src), geo.pitch, geo.lines, geo.cols),
                },
                Step::Guarded(g) => self.guarded(g, geo),
                Step::Splat { f, dst, src, bytes } => {
                    let row = self.work.add(*src as usize);
                    if p.has_segs() {
                        f(self.slot(*dst), 0, row, 1, geo.lines * geo.pitch);
                    } else {
                        f(self.slot(*dst), geo.pitch, row.add(self.kept_line * *bytes as usize), geo.lines, geo.cols);
                    }
                }
                Step::Index { f, dst, lin } => {
                    f(
                        self.slot(*dst),
                        geo.pitch,
                        lin.at(&self.idx),
                        lin.coefs[geo.line_loop],
                        lin.coefs[geo.col_loop],
                        geo.lines,
                        geo.cols,
                    );
                }
                Step::Test { dst, lin, with, equal } => {
                    let (line, col) = (lin.coefs[geo.line_loop], lin.coefs[geo.col_loop]);
                    let (dst, first) = (self.slot(*dst), lin.at(&self.idx));
                    match with {
                        None => fill::test(dst, geo.pitch, *equal, first, line, col, geo.lines, geo.cols),
                        Some(row) => {
                            let numbers = self.work.add(*row as usize) as *const i64;
                            for l in 0..geo.lines {
                                let row = if p.has_segs() { 0 } else { self.kept_line + l };
                                let first = (first + l as i64 * line).wrapping_sub(numbers.add(row).read());
                                fill::test(dst.add(l * geo.pitch), 0, *equal, first, 0, col, 1, geo.cols);
                            }
                        }
                    }
                }
                Step::Uniform { f, dst, key, draw, at } => {
                    self.uniform(*f, self.slot(*dst), (*key, *draw), at, geo);
                }
                Step::Gather { f, cursor, coords, dst } => self.gather(f, *cursor, coords, *dst, geo)?,
                Step::Seek { cursor, coords } => {
                    let mut offset = 0;
                    for c in coords {
                        let row = if p.has_segs() { 0 } else { self.kept_line };
                        let index = (self.work.add(c.slot as usize) as *const i64).add(row).read();
                        if index < 0 || index >= c.size {
                            return Err(self.out_of_range(*cursor, c, index));
                        }
                        offset += index as isize * c.stride as isize;
                    }
                    self.seeks.add(*cursor as usize).write(offset);
                    self.foresee(*cursor, coords, p.unit_cols);
                }
                Step::Scatter(s) => {
                    if geo.level != Level::Rows || self.first_columns {
                        self.scatter(s, geo)?;
                    }
                }
                Step::Fold { f, src, bytes, acc } => {
                    let (src, acc) = (self.slots.add(*src as usize), self.work.add(*acc as usize));
                    for l in 0..geo.lines {
                        let row = if p.has_segs() { 0 } else { self.kept_line + l };
                        f.call(src, l * geo.pitch * bytes, geo.cols, acc.add(row * 8));
                    }
                }
                Step::Search { f, src, bytes, mask, max, acc } => {
                    let (src, acc) = (self.slot(*src), self.work.add(*acc as usize));
                    let last = p.last();
                    for l in 0..geo.lines {
                        let (row, line) = if p.has_segs() { (0, self.kept_line + l) } else { (self.kept_line + l, 0) };
                        let mask = mask.map_or(std::ptr::null(), |m| self.slot(m).add(l * geo.pitch) as *const u8);
                        let from = (line * p.sizes[last]) as i64 + self.idx[last];
                        f(
                            src.add(l * geo.pitch * bytes),
                            mask,
                            geo.cols,
                            from,
                            *max,
                            acc.add(row * size_of::<reduce::ExtremumPosition>()),
                        );
                    }
                }
                Step::Accumulate { acc, first, f, src, bytes } => {
                    if geo.level != Level::Rows || self.first_columns {
                        let a = &p.accs[*acc as usize];
                        let src = self.slots.add(*src as usize);
                        for l in 0..geo.lines {
                            let at = a.at.at(&self.idx) + l as i64 * a.at.coefs[geo.line_loop] * (geo.lines > 1) as i64;
                            let to = self.accs.add(first + at as usize) as *mut u8;
                            f.call(src, l * geo.pitch * bytes, geo.cols, to);
                        }
                    }
                }
                Step::Clear { acc, start } => {
                    let acc = self.work.add(*acc as usize);
                    for r in 0..geo.cols {
                        match start {
                            Some(bits) => (acc as *mut u64).add(r).write(*bits),
                            None => (acc as *mut reduce::ExtremumPosition).add(r).write(reduce::ExtremumPosition::NONE),
                        }
                    }
                }
                Step::Finish { acc, red, dtype, count, dst } => {
                    let (acc, dst) = (self.work.add(*acc as usize), self.work.add(*dst as usize));
                    for r in 0..geo.cols {
                        match red {
                            Some(red) => {
                                let bits = (acc as *const u64).add(r).read();
                                reduce::finish(*dtype, mean(*red, *count, bits), dst.add(r * dtype.size()));
                            }
                            None => {
                                (dst as *mut i64).add(r).write((*(acc as *const reduce::ExtremumPosition).add(r)).at)
                            }
                        }
                    }
                }
                Step::NonZero { src, dtype, builtin } => {
                    let n = if geo.lines == 1 { geo.cols } else { geo.lines * geo.pitch };
                    if fulgurite_kernels::gather::any_zero(*dtype, self.slot(*src), n) {
                        return Err(Fault::DivisionByZero(*builtin));
                    }
                }
            }
        }
        Ok(())
    }
}
