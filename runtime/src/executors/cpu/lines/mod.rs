//! Products that read one operand line by line ([`fulgurite_kernels::line_gemm`]): convolutions, whose windows are
//! lines of their padded input, and products of matrices one of which is contiguous along the sum. Gradients of
//! convolutions' weights sum over such windows ([`PlaceProduct`]).
//!
//! Work is divided into blocks of columns, whose lines stay in the second-level cache, and within them into rows. The
//! terms of an element are added up in one order, whatever the division.

mod channels;
mod columns;
mod direct;
mod dots;
mod kept;
mod operands;
mod pixels;
mod places;
mod prepared;
mod shape;
mod step;
mod tail;
mod windows;
mod winograd;

use super::product::{FLOPS_PER_NS, Literal};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, FirstFault, HostStep, Memory};
use crate::executors::program::threads;
use channels::ChannelProduct;
pub(super) use columns::tiles;
use columns::{Columns, Done};
use direct::DirectProduct;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::line_gemm::{LANES, MOST_ROWS, MOST_VECTORS, Tile, finite, tile, tile_of};
use fulgurite_kernels::prefetch::prefetch;
use fulgurite_kernels::transpose::{Moved, move_to};
use kept::KeptLines;
use operands::{Loops, Source, block, start};
use places::PlaceProduct;
use prepared::{KeptAt, KeptProduct};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use step::{LineStep, Method, ProductFacts};
use tail::{Packed, Tail};
use winograd::Winograd;

/// The step of a contraction, if it is such a product.
pub fn step(c: &Contract, env: &Env, isa: Level) -> Option<Box<dyn HostStep>> {
    let exact = || Literal::of(c, env, isa);
    if let Some(direct) = DirectProduct::new(c, env, isa) {
        return Some(match ChannelProduct::of(&direct, isa) {
            Some(channels) => Box::new(LineStep::new(channels(direct), exact())),
            None => Box::new(LineStep::new(direct, exact())),
        });
    }
    if let Some(lines) = LineProduct::new(c, env, isa) {
        return Some(match Winograd::of(c, env, &lines, isa) {
            Some(winograd) => {
                let winograd = Arc::new(winograd(lines));
                let kept = KeptProduct::new(winograd.clone());
                Box::new(LineStep::new(winograd, exact()).with_kept(Some(kept)))
            }
            None => {
                let kept = KeptLines::of(c, env, &lines, isa);
                Box::new(LineStep::new(lines, exact()).with_kept(kept))
            }
        });
    }
    PlaceProduct::new(c, env, isa).map(|places| Box::new(LineStep::new(places, exact())) as Box<dyn HostStep>)
}

/// A compiled product.
struct LineProduct {
    loops: Loops,
    /// The rows of a tile, and at most how many vectors of columns.
    tile: (usize, usize),
    /// For columns that are not windows, those of a block; for windows, the windows of the first axis.
    block: usize,
    /// For copied lines, their starts in a panel of one vector of columns, of two, and so on.
    starts: Vec<Vec<u32>>,
    compute: tile::Fn,
    moving: move_to::Fn,
    finite: finite::Fn,
    tail: Tail,
    /// Whether it matters that an operand is not finite.
    checks: bool,
    cost: f64,
}

/// The rows of a tile are prefetched if they have at most this many bytes. Longer rows are streams that the hardware
/// recognises, and would leave the caches before they are used.
const NEAR: usize = 24 * 1024;
/// Rows that are copied for each tile have at most this many terms, so that those of a tile stay in the first-level
/// cache.
const LONGEST: usize = 512;
/// The elements of the largest tile.
const TILE: usize = MOST_ROWS * MOST_VECTORS * LANES;
/// At least this many columns, and rows of an operand that does not slide, because smaller products have kernels of
/// their own.
const LEAST: usize = LANES;

impl LineProduct {
    /// The product that computes a contraction, if it has this form.
    fn new(c: &Contract, env: &Env, isa: Level) -> Option<LineProduct> {
        let single = |v: u32| env.values.ty(v).dtype == DType::F32;
        if c.chunk.is_some() || ![c.a.value, c.b.value, c.out].into_iter().all(single) {
            return None;
        }
        let ways = [false, true].map(|swapped| Loops::of(c, env.values, env.form, swapped, isa).filter(Self::pays));
        let loops = ways.into_iter().flatten().min_by_key(Loops::moved)?;
        LineProduct::of(loops, c.exact.is_some(), isa)
    }

    /// The product with these loops, if there are kernels for it. `checks` says whether it matters that an operand is not
    /// finite.
    fn of(loops: Loops, checks: bool, isa: Level) -> Option<LineProduct> {
        let tile_size = tile_of(loops.rows.size, isa)?;
        let block = match &loops.source {
            Source::Windows(w) => w.axes()[0].windows,
            _ => block(loops.columns.count(), loops.depth),
        };
        let around: usize = loops.outer.iter().map(|l| l.size).product();
        let (m, n, k) = (loops.rows.size, loops.columns.count(), loops.depth);
        let cost = 150.0 + around as f64 * (100.0 + (2 * m * n * k) as f64 / FLOPS_PER_NS + (n * k) as f64 / 16.0);
        let (compute, moving, finite) = (tile::pick(isa), move_to::pick(isa), finite::pick(isa));
        let tail = Tail::new(m, k, isa);
        let starts = match &loops.source {
            Source::Copied { .. } => (1..=tile_size.1)
                .map(|vectors| (0..k).map(|line| u32::try_from(line * vectors * LANES).ok()).collect())
                .collect::<Option<_>>()?,
            Source::Lines | Source::Windows(_) => Vec::new(),
        };
        Some(LineProduct { loops, tile: tile_size, block, starts, compute, moving, finite, tail, checks, cost })
    }

    /// Whether these loops are a product of this form.
    fn pays(l: &Loops) -> bool {
        let windows = matches!(l.source, Source::Windows(_));
        let short = l.along.is_none() || l.depth <= LONGEST;
        windows || (short && l.rows.size >= LEAST && l.columns.count() >= LEAST)
    }

    /// The loops around the product.
    fn around(&self) -> usize {
        self.loops.outer.iter().map(|l| l.size).product()
    }

    /// The blocks of columns.
    fn blocks(&self) -> usize {
        self.loops.columns.0.first().map_or(0, |c| match &self.loops.source {
            Source::Windows(_) => c.size.div_ceil(self.block),
            _ => self.loops.columns.count().div_ceil(self.block),
        })
    }

    /// The rows of a part, if this many blocks are divided among threads: whole tiles.
    fn part(&self, rows: usize, blocks: usize, threads: usize) -> usize {
        let shared = threads > 1 && self.cost >= threads::WORTH_SHARING;
        let wanted = if shared { (4 * threads).div_ceil(blocks.max(1)) } else { 1 };
        rows.div_ceil(wanted.min(rows.div_ceil(2 * self.tile.0)).max(1)).next_multiple_of(self.tile.0)
    }

    /// The elements that the copy of a block's lines has.
    fn copied(&self) -> usize {
        match &self.loops.source {
            Source::Lines => 0,
            Source::Copied { .. } => self.loops.depth * self.block,
            Source::Windows(w) => w.elements(),
        }
    }

    /// The elements of the rows of a tile, if they are copied because they are not contiguous along the sum.
    fn packed(&self) -> usize {
        if self.loops.along.is_some() { self.tile.0 * self.loops.depth } else { 0 }
    }

    /// The elements of a tile, or of a block if there is one row, which is written at once.
    fn room(&self) -> usize {
        let block = self.loops.columns.with_first(self.block).count().next_multiple_of(LANES);
        if self.loops.rows.size == 1 { block.max(TILE) } else { TILE }
    }

    /// The panels in which the lines of a block of `all` columns are copied: the first column of each, and its vectors. A
    /// tile reads one panel from its begin to its end.
    fn panels(&self, all: usize) -> impl Iterator<Item = (usize, usize)> {
        let tail = self.tail.of(all);
        let last = (tail > 0).then_some(1);
        tiles(all - tail, self.tile.1).chain(last).scan(0, |at, vectors| {
            let first = *at;
            *at += vectors * LANES;
            Some((first, vectors))
        })
    }

    /// Copies the lines of a block of columns, if they do not lie side by side.
    ///
    /// # Safety
    /// `from` is the start of the lines, and `to` has room for their copy.
    unsafe fn copy(&self, from: *const f32, to: *mut f32, number: usize) {
        match &self.loops.source {
            Source::Lines => {}
            // SAFETY: the caller upholds the contract of this function.
            Source::Windows(w) => unsafe { w.copy(from, to, number * self.block) },
            Source::Copied { sums, column } => {
                let all = self.block.min(self.loops.columns.count() - number * self.block);
                for (first, vectors) in self.panels(all) {
                    let from = from.wrapping_offset((number * self.block + first) as isize * column);
                    let to = to.wrapping_add(first * self.loops.depth);
                    let columns = (vectors * LANES, (all - first).min(vectors * LANES));
                    // SAFETY: the caller upholds the contract of this function; the panel has these columns.
                    unsafe { self.copy_panel((from, *column), to, columns, sums) };
                }
            }
        }
    }

    /// Copies lines of `cols` columns to a panel that is `width` columns wide.
    ///
    /// # Safety
    /// `from` is the start of the lines, whose columns lie `column` apart; `to` has room for the panel.
    unsafe fn copy_panel(
        &self,
        (from, column): (*const f32, isize),
        to: *mut f32,
        (width, cols): (usize, usize),
        sums: &[(usize, isize)],
    ) {
        let (last, outer) = match sums.split_last() {
            Some((last, outer)) => (*last, outer),
            None => ((1, 0), sums),
        };
        let around: usize = outer.iter().map(|l| l.0).product();
        for i in 0..around {
            let (mut rest, mut from) = (i, from);
            for (size, stride) in outer.iter().rev() {
                from = from.wrapping_offset((rest % size) as isize * stride);
                rest /= size;
            }
            let to = to.wrapping_add(i * last.0 * width);
            let (from_steps, to_steps) = ((last.1, column), (width as isize, 1));
            // SAFETY: the caller upholds the contract; columns after the last are zeros, so that tiles read numbers.
            unsafe {
                (self.moving)(&Moved { from, from_steps, to, to_steps, rows: last.0, cols });
                if cols < width {
                    for line in 0..last.0 {
                        std::ptr::write_bytes(to.add(line * width + cols), 0, width - cols);
                    }
                }
            }
        }
    }

    /// The place of a column in the copy of a block, or in the lines themselves, and the starts of lines of a tile of
    /// `vectors` from there.
    fn place(&self, origin: *const f32, column: usize, vectors: usize) -> (*const f32, &[u32]) {
        match self.starts.get(vectors - 1) {
            Some(starts) => (origin.wrapping_add(column * self.loops.depth), starts),
            None => (origin.wrapping_add(column), &self.loops.lines),
        }
    }

    /// The columns of a block, their number, and the place from which its lines are counted.
    fn columns(&self, number: usize, lines: *const f32, copy: *const f32) -> (Columns, usize, *const f32) {
        let (l, start) = (&self.loops, number * self.block);
        let columns = l.columns.with_first(self.block.min(l.columns.0[0].size - start));
        let origin = if matches!(l.source, Source::Lines) { lines.wrapping_add(start) } else { copy };
        let count = columns.count();
        (columns, count, origin)
    }

    /// The copy at `to` of the last columns of a block that are computed as dot products.
    fn packed_tail(&self, number: usize, to: *mut f32) -> Packed {
        let (_, count, _) = self.columns(number, to, to);
        Packed { at: to, columns: self.tail.of(count) }
    }

    /// Copies the lines of a block, and after them its last columns that are computed as dot products.
    ///
    /// # Safety
    /// `lines` is the start of the lines; `copy` has room for [`LineProduct::copied_block`] elements.
    unsafe fn copy_block(&self, lines: *const f32, copy: *mut f32, number: usize) -> Packed {
        let packed = self.packed_tail(number, copy.wrapping_add(self.copied()));
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.copy(lines, copy, number) };
        let (_, count, origin) = self.columns(number, lines, copy);
        let (origin, lines) = self.place(origin, count - packed.columns, 1);
        // SAFETY: the block was copied, and there is room for its last columns after it.
        unsafe { self.tail.pack(origin, lines, packed) };
        packed
    }

    /// Computes rows `from..to` of a block of columns; returns whether they are finite, if that matters.
    ///
    /// # Safety
    /// `a` and `c` are the broadcast operand and the result at row 0, `lines` and `copy` the lines and their copy;
    /// `tail` is the copy of its last columns; `packed` has room for a tile's rows, and for a tile.
    unsafe fn rows(
        &self,
        a: *const f32,
        (lines, copy, tail, packed): (*const f32, *const f32, Packed, *mut f32),
        c: *mut f32,
        number: usize,
        (from, to): (usize, usize),
    ) -> bool {
        let (l, start) = (&self.loops, number * self.block);
        let (columns, all, origin) = self.columns(number, lines, copy);
        let first = &l.columns.0[0];
        let count = all - tail.columns;
        let beyond = !matches!(l.source, Source::Lines);
        let alone = l.rows.size == 1;
        let done = packed.wrapping_add(self.packed());
        let panel = self.tile.0 * l.depth * size_of::<f32>();
        // A tile of whole columns that lie side by side in the result is written there at once.
        let direct = matches!(columns.0.as_slice(), [only] if only.to == 1) && !alone && !self.checks;
        let mut all_finite = true;
        let mut row = from;
        while row < to {
            let rows = [8, 4, 2, 1].into_iter().find(|n| *n <= (to - row).min(self.tile.0)).unwrap_or(1);
            let left = a.wrapping_offset(row as isize * l.rows.a);
            let (left, step) = match &l.along {
                // SAFETY: the caller upholds the contract of this function; the rows exist.
                Some(along) => unsafe {
                    along.gather(left, (rows, l.rows.a), l.depth, packed, self.moving);
                    (packed as *const f32, l.depth as isize)
                },
                None => (left, l.rows.a),
            };
            let result = c.wrapping_offset(row as isize * l.rows.c + start as isize * first.to);
            let mut column = 0;
            for vectors in tiles(count, self.tile.1) {
                let width = vectors * LANES;
                if panel <= NEAR && l.along.is_none() && l.rows.a as usize == l.depth {
                    // The next rows arrive while these are used, an equal part of them with each tile.
                    let part = (panel * vectors * LANES).div_ceil(count);
                    let ahead = left.wrapping_add(self.tile.0 * l.depth) as *const u8;
                    prefetch(ahead.wrapping_add(panel / count.max(1) * column), part);
                }
                // Lines that are not copied are not read beyond their end; the last tile starts earlier.
                let at = if beyond { column } else { column.min(count.saturating_sub(width)) };
                let direct = direct && at + width <= count;
                let (to, to_row) = match direct {
                    true => (result.wrapping_add(at), l.rows.c as usize),
                    false if alone => (done.wrapping_add(at), width),
                    false => (done, width),
                };
                let (b, lines) = self.place(origin, at, vectors);
                let t = Tile { rows, vectors, a: left, row: step, b, lines, to, to_row, add: false };
                // SAFETY: the caller upholds the contract; rows and columns of the tile exist, and it has room.
                unsafe {
                    (self.compute)(&t);
                    if self.checks {
                        all_finite &= (self.finite)(to, rows * width);
                    }
                    if !alone && !direct {
                        columns.write(&Done { at: to, width, first: at, rows }, result, l.rows.c, self.moving);
                    }
                }
                column += width;
            }
            if tail.columns > 0 {
                let (to, width) = (if alone { done.wrapping_add(count) } else { done }, tail.columns);
                // SAFETY: the caller upholds the contract; the room for a tile has that for these columns.
                unsafe {
                    self.tail.compute((left, step, rows), tail, (to, width));
                    if self.checks {
                        all_finite &= (self.finite)(to, rows * width);
                    }
                    if !alone {
                        columns.write(&Done { at: to, width, first: count, rows }, result, l.rows.c, self.moving);
                    }
                }
            }
            if alone {
                // SAFETY: the caller upholds the contract; the row was computed above.
                unsafe { columns.write_row(done, result, self.moving) };
            }
            row += rows;
        }
        all_finite
    }
}

impl Method for LineProduct {
    fn facts(&self) -> ProductFacts {
        let (rows, depth) = (self.loops.rows.size, self.loops.depth);
        let columns = self.loops.columns.0.iter().map(|c| c.size).product();
        ProductFacts {
            values: self.loops.places.map(|p| p.value),
            sizes: [self.around(), rows, columns, depth],
            moved: rows * depth + depth * columns + rows * columns,
            cost: self.cost,
            over: match &self.loops.source {
                Source::Lines => "lines",
                Source::Copied { .. } => "copied lines",
                Source::Windows(_) => "windows",
            },
        }
    }

    unsafe fn multiply(&self, operands: Memory, threads: usize) -> Result<bool, Fault> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.multiply_with(operands, None, threads) }
    }

    fn sum_in_order(&mut self) {
        // Dot products add up terms in another order than tiles.
        self.tail.leave_out();
    }
}

impl LineProduct {
    /// The elements of the copy of a block's lines, with that of its last columns.
    fn copied_block(&self) -> usize {
        self.copied() + self.tail.room()
    }

    /// Computes the product, with copies of the blocks of lines that were made before, if there are such.
    ///
    /// # Safety
    /// The contract of [`Method::multiply`] holds, and `kept` has [`LineProduct::copied_block`] elements for each block.
    unsafe fn multiply_with(&self, operands: Memory, kept: Option<KeptAt>, threads: usize) -> Result<bool, Fault> {
        let (around, blocks) = (self.around(), self.blocks());
        let rows = self.loops.rows.size;
        // Few blocks are divided further, by their rows.
        let part = self.part(rows, around * blocks, threads);
        let parts = rows.div_ceil(part);
        let fault = FirstFault::default();
        let all_finite = AtomicBool::new(true);
        threads::share(around * blocks * parts, threads, self.cost, &|claims| {
            let copied_block = if kept.is_some() { 0 } else { self.copied_block() };
            let Some(block) = fault.block(4 * (copied_block + self.packed() + self.room())) else { return };
            let mut copied = None;
            let mut tail = Packed { at: std::ptr::null_mut(), columns: 0 };
            for task in claims.flatten() {
                let at = start(&self.loops.places, &self.loops.outer, task / parts / blocks);
                let number = task / parts % blocks;
                let first = task % parts * part;
                // SAFETY: the caller upholds the contract; the block has room for the copy, and tasks write disjoint
                // elements.
                unsafe {
                    let lines = (operands.at(1) as *const f32).wrapping_offset(at.b);
                    let room = (block.data() as *mut f32).add(copied_block);
                    let copy = match kept {
                        Some(kept) => kept.element(number * self.copied_block()),
                        None => block.data() as *mut f32,
                    };
                    if kept.is_some() {
                        tail = self.packed_tail(number, copy.add(self.copied()));
                    } else if copied != Some((at.b, number)) {
                        tail = self.copy_block(lines, copy, number);
                        copied = Some((at.b, number));
                    }
                    let a = (operands.at(0) as *const f32).offset(at.a);
                    let c = (operands.at(2) as *mut f32).offset(at.c);
                    let rows = (first, (first + part).min(rows));
                    if !self.rows(a, (lines, copy, tail, room), c, number, rows) {
                        all_finite.store(false, Ordering::Relaxed);
                    }
                }
            }
        });
        fault.result().map(|()| all_finite.into_inner())
    }
}
