//! Products over places whose sliding operand is copied with its channels side by side: `[place][channel]`.
//!
//! The columns that belong to one place are then a line, with the terms of the last axis too if these lie next to each
//! other: a window reads `terms · channels` elements in a row. The places of the sum are the lines of a tile, and every
//! setting of the other terms moves all lines by one distance.

use super::columns::tiles;
use super::operands::Along;
use super::shape::{Axis, Shape};
use crate::executors::cpu::product::ProductLoop;
use crate::executors::fusion::graph::slide;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::line_gemm::{LANES, Tile, finite, tile, tile_of};
use fulgurite_kernels::transpose::{Moved, move_to};
use std::cmp::Ordering;

/// About this many places are summed together, so that their copy stays in the second-level cache.
const TOGETHER: usize = 512;

/// An axis of the copy.
#[derive(Clone, Debug)]
struct CopyAxis {
    /// The position in the source of element 0, and the distance from element to element.
    base: i64,
    step: i64,
    /// The size of the source, and its stride.
    source: (usize, isize),
    /// The elements between neighbouring places.
    apart: usize,
    /// The elements besides those between places: those of the terms.
    reach: usize,
    /// The elements of the copy, without channels, from one to the next.
    pitch: usize,
}

/// Elements of a row of sums that go to the result together.
#[derive(Clone, Copy, Debug)]
struct Written {
    from: usize,
    to: isize,
    /// The terms, which lie `channels` apart in the sums.
    terms: usize,
    /// The distance from term to term in the result.
    step: isize,
}

/// The copy, and the order of the sums.
#[derive(Clone, Debug)]
pub(super) struct Pixels {
    /// The rows of a tile, and at most how many vectors of columns.
    pub tile: (usize, usize),
    /// The summed loops, slowest first: images, then the places of the axes.
    sums: Vec<ProductLoop>,
    /// The summed loop that is divided: the loops before it stand around the chunks, those after it are whole.
    band: usize,
    /// The steps of the divided loop in a chunk.
    count: usize,
    /// The number of places of a chunk for each step of the divided loop.
    each: usize,
    axes: Vec<CopyAxis>,
    /// The elements of one image of the copy.
    image: usize,
    /// The elements of the copy of a chunk.
    copied: usize,
    /// The start of each line of a whole chunk.
    lines: Vec<u32>,
    /// The rows of the left operand, if their places are not contiguous.
    along: Option<Along>,
    /// The distance in the copy of each setting of the terms that lie in no line.
    taps: Vec<usize>,
    /// The columns of a line, and their number in the sums, a multiple of [`LANES`].
    width: (usize, usize),
    written: Vec<Written>,
    compute: tile::Fn,
    moving: move_to::Fn,
    finite: finite::Fn,
}

/// Whether terms of the last axis lie side by side in a line.
fn joined(axes: &[Axis]) -> bool {
    axes.last().is_some_and(|a| a.slide.over.is_some_and(|o| o.1 == 1))
}

impl Pixels {
    /// The columns of a line.
    pub fn width(shape: &Shape) -> usize {
        let terms = if joined(&shape.axes) { shape.axes.last().map_or(1, |a| a.terms) } else { 1 };
        terms * shape.channels.size
    }

    /// The product of this shape, if its places can be counted in 32 bits.
    pub fn new(shape: &Shape, isa: Level) -> Option<Pixels> {
        let channels = shape.channels.size;
        let places = |a: &Axis| ProductLoop { size: a.places, a: a.a, b: 0, c: 0 };
        let sums: Vec<ProductLoop> = shape.images.iter().copied().chain(shape.axes.iter().map(places)).collect();
        // Whole loops from the fastest on, as long as these are few places together. A loop of images takes part only if
        // all axes do.
        let (mut band, mut each) = (sums.len() - 1, 1);
        while band > 0 && each * sums[band].size <= TOGETHER / 2 && band + 1 > shape.images.len() {
            each *= sums[band].size;
            band -= 1;
        }
        let parts = sums[band].size.div_ceil((TOGETHER / each).max(1));
        let count = sums[band].size.div_ceil(parts);
        let images = shape.images.len();
        let mut axes = Vec::new();
        let mut pitch = 1;
        for (at, a) in shape.axes.iter().enumerate().rev() {
            let (step, spread) = (a.slide.along.1, a.slide.over.map_or(1, |o| o.1));
            // elements between windows of one term are not copied
            let (step, apart) = if a.terms == 1 { (step, 1) } else { (1, step as usize) };
            let reach = (a.terms - 1) * spread as usize;
            axes.push(CopyAxis { base: a.slide.base, step, source: a.source, apart, reach, pitch });
            let whole = match (images + at).cmp(&band) {
                Ordering::Less => 1,
                Ordering::Equal => count,
                Ordering::Greater => a.places,
            };
            pitch *= (whole - 1) * apart + 1 + reach;
        }
        axes.reverse();
        let image = pitch * channels;
        let copied = image * if band < images { count } else { 1 };
        let distance =
            |d: usize| if d < images { image } else { axes[d - images].apart * axes[d - images].pitch * channels };
        let mut lines = vec![0usize];
        for (d, l) in sums.iter().enumerate().skip(band) {
            let (size, step) = (if d == band { count } else { l.size }, distance(d));
            lines = lines.iter().flat_map(|at| (0..size).map(move |i| at + i * step)).collect();
        }
        let lines = lines.into_iter().map(|at| u32::try_from(at).ok()).collect::<Option<_>>()?;
        let within: Vec<(usize, isize)> =
            sums.iter().enumerate().skip(band).map(|(d, l)| (if d == band { count } else { l.size }, l.a)).collect();
        let width = Pixels::width(shape);
        let width = (width, width.next_multiple_of(LANES));
        let (mut taps, mut offsets) = (vec![0], vec![0isize]);
        let apart = axes.len() - joined(&shape.axes) as usize;
        for (a, copy) in shape.axes.iter().zip(&axes).take(apart) {
            let step = a.slide.over.map_or(0, |o| o.1) as usize * copy.pitch * channels;
            taps = taps.iter().flat_map(|at| (0..a.terms).map(move |t| at + t * step)).collect();
            offsets = offsets.iter().flat_map(|at| (0..a.terms as isize).map(move |t| at + t * a.c)).collect();
        }
        let inner = shape.axes.last().filter(|_| joined(&shape.axes)).map_or((1, 0), |a| (a.terms, a.c));
        let terms = offsets
            .iter()
            .enumerate()
            .flat_map(|(tap, at)| (0..inner.0).map(move |t| (tap * width.1 + t * channels, at + t as isize * inner.1)));
        let written = written(terms, channels);
        Some(Pixels {
            tile: tile_of(shape.rows.size, isa)?,
            along: Along::of(&within),
            sums,
            band,
            count,
            each,
            axes,
            image,
            copied,
            lines,
            taps,
            width,
            written,
            compute: tile::pick(isa),
            moving: move_to::pick(isa),
            finite: finite::pick(isa),
        })
    }

    /// The elements of the sums of a row.
    fn row(&self) -> usize {
        self.taps.len() * self.width.1
    }

    /// The number of chunks.
    fn chunks(&self) -> usize {
        self.sums[..self.band].iter().map(|l| l.size).product::<usize>()
            * self.sums[self.band].size.div_ceil(self.count)
    }

    /// The elements of the rows of a tile that are copied.
    fn packed(&self) -> usize {
        if self.along.is_some() { self.tile.0 * self.lines.len() } else { 0 }
    }

    /// The elements of memory that a run over this many rows takes.
    pub fn room(&self, rows: usize) -> usize {
        // The sums of one chunk are written at once.
        let rows = if self.chunks() == 1 { self.tile.0 } else { rows };
        self.copied + LANES + self.packed() + rows * self.row()
    }

    /// Computes rows `rows.0..rows.1`; returns whether they are finite.
    ///
    /// # Safety
    /// The operands, of which the second slides, and the result start at these places; there is the
    /// [`room`](Pixels::room) for as many rows.
    pub unsafe fn run(
        &self,
        shape: &Shape,
        (a, b, c): (*const f32, *const f32, *mut f32),
        rows: (usize, usize),
        room: *mut f32,
    ) -> bool {
        let packed = room.wrapping_add(self.copied + LANES);
        let sums = packed.wrapping_add(self.packed());
        let (chunks, bands) = (self.chunks(), self.sums[self.band].size.div_ceil(self.count));
        // SAFETY: the room has these elements. A tile reads them after the last line, in columns of no result.
        unsafe { std::ptr::write_bytes(room.add(self.copied), 0, LANES) };
        let mut all_finite = true;
        for chunk in 0..chunks {
            let (first, mut rest) = (chunk % bands * self.count, chunk / bands);
            let count = self.count.min(self.sums[self.band].size - first);
            let images = shape.images.len();
            let (mut a, mut b, mut places) = (a, b, [(0, 0); slide::MOST]);
            for (d, l) in self.sums.iter().enumerate().rev() {
                let (i, size) = match d.cmp(&self.band) {
                    Ordering::Less => {
                        let i = rest % l.size;
                        rest /= l.size;
                        (i, 1)
                    }
                    Ordering::Equal => (first, count),
                    Ordering::Greater => (0, l.size),
                };
                if d >= images {
                    places[d - images] = (i, size);
                }
                (a, b) = (a.wrapping_offset(i as isize * l.a), b.wrapping_offset(i as isize * l.b));
            }
            // SAFETY: the caller upholds the contract; the room has the copy, and these sums and rows.
            unsafe {
                self.copy(shape, b, room, (count, &places));
                let mut row = rows.0;
                while row < rows.1 {
                    let n = [8, 4, 2, 1].into_iter().find(|n| *n <= (rows.1 - row).min(self.tile.0)).unwrap_or(1);
                    let sums = if chunks == 1 { sums } else { sums.add((row - rows.0) * self.row()) };
                    let left = a.wrapping_offset(row as isize * shape.rows.a);
                    let lines = &self.lines[..count * self.each];
                    self.add((left, shape.rows.a), (room, lines), packed, sums, (n, chunk > 0));
                    if chunk + 1 == chunks {
                        for i in 0..n {
                            let sums = sums.add(i * self.row());
                            all_finite &= (self.finite)(sums, self.row());
                            self.write(shape, sums, c.offset((row + i) as isize * shape.rows.c));
                        }
                    }
                    row += n;
                }
            }
        }
        all_finite
    }

    /// Adds the products with the places of a chunk to the sums of `rows` rows, or begins these.
    ///
    /// # Safety
    /// The rows of the left operand lie this far apart, the lines in the copy; the sums and the packed rows have room.
    unsafe fn add(
        &self,
        (left, step): (*const f32, isize),
        (copy, lines): (*const f32, &[u32]),
        packed: *mut f32,
        sums: *mut f32,
        (rows, add): (usize, bool),
    ) {
        let (a, row) = match &self.along {
            Some(along) => {
                // SAFETY: the caller upholds the contract of this function.
                unsafe { along.gather(left, (rows, step), lines.len(), packed, self.moving) };
                (packed as *const f32, lines.len() as isize)
            }
            None => (left, step),
        };
        for (tap, distance) in self.taps.iter().enumerate() {
            let mut column = 0;
            for vectors in tiles(self.width.0, self.tile.1) {
                let b = copy.wrapping_add(distance + column);
                let to = sums.wrapping_add(tap * self.width.1 + column);
                // SAFETY: the caller upholds the contract of this function.
                unsafe { (self.compute)(&Tile { rows, vectors, a, row, b, lines, to, to_row: self.row(), add }) };
                column += vectors * LANES;
            }
        }
    }

    /// Writes a row of sums to the result.
    ///
    /// # Safety
    /// The row of the result starts at `to`.
    unsafe fn write(&self, shape: &Shape, sums: *const f32, to: *mut f32) {
        let (cols, step) = (shape.channels.size, shape.channels.c);
        for w in &self.written {
            let (from, to) = (sums.wrapping_add(w.from), to.wrapping_offset(w.to));
            let (from_steps, to_steps) = ((cols as isize, 1), (w.step, step));
            // SAFETY: the caller upholds the contract of this function.
            unsafe { (self.moving)(&Moved { from, from_steps, to, to_steps, rows: w.terms, cols }) };
        }
    }

    /// Copies the elements that a chunk reads: `count` images if these are divided, and along each axis the first of
    /// the places, and their number.
    ///
    /// # Safety
    /// `from` is the element at index 0 of every axis, of the first image; `to` has room for the copy.
    unsafe fn copy(&self, shape: &Shape, from: *const f32, to: *mut f32, (count, places): (usize, &[(usize, usize)])) {
        let images = shape.images.len();
        let whole = if self.band < images { count } else { 1 };
        for image in 0..whole {
            let from = from.wrapping_offset(image as isize * self.sums[self.band].b);
            let to = to.wrapping_add(image * self.image);
            // SAFETY: the caller upholds the contract of this function.
            unsafe { self.copy_axis(shape.channels, Some(from), to, (0, places)) };
        }
    }

    /// Copies all elements along this axis and those after it, or zeros if there is no source.
    ///
    /// # Safety
    /// The contract of [`Pixels::copy`] holds, for the places of the axes before this one.
    unsafe fn copy_axis(
        &self,
        channels: ProductLoop,
        from: Option<*const f32>,
        to: *mut f32,
        (at, places): (usize, &[(usize, usize)]),
    ) {
        let (axis, (first, count)) = (&self.axes[at], places[at]);
        let extent = (count - 1) * axis.apart + 1 + axis.reach;
        let start = axis.base + (first * axis.apart) as i64 * axis.step;
        let (size, stride) = axis.source;
        if at + 1 < self.axes.len() {
            for e in 0..extent {
                let position = start + e as i64 * axis.step;
                let inside = (0..size as i64).contains(&position);
                let from = from.filter(|_| inside).map(|from| from.wrapping_offset(position as isize * stride));
                let to = to.wrapping_add(e * axis.pitch * channels.size);
                // SAFETY: the caller upholds the contract of this function.
                unsafe { self.copy_axis(channels, from, to, (at + 1, places)) };
            }
            return;
        }
        let end =
            |position: i64| (position - start + axis.step - 1).div_euclid(axis.step).clamp(0, extent as i64) as usize;
        let (lo, hi) = (end(0), end(size as i64));
        let Some(from) = from.filter(|_| lo < hi) else {
            // SAFETY: the caller upholds the contract of this function.
            return unsafe { std::ptr::write_bytes(to, 0, extent * channels.size) };
        };
        let from = from.wrapping_offset((start + lo as i64 * axis.step) as isize * stride);
        let (n, step) = (channels.size, axis.step as isize * stride);
        let middle = to.wrapping_add(lo * n);
        let moved = match channels.b {
            // channels that lie side by side already
            1 => Moved { from, from_steps: (step, 1), to: middle, to_steps: (n as isize, 1), rows: hi - lo, cols: n },
            b => Moved { from, from_steps: (b, step), to: middle, to_steps: (1, n as isize), rows: n, cols: hi - lo },
        };
        // SAFETY: the caller upholds the contract; only elements inside of the source are read.
        unsafe {
            std::ptr::write_bytes(to, 0, lo * n);
            (self.moving)(&moved);
            std::ptr::write_bytes(to.add(hi * n), 0, (extent - hi) * n);
        }
    }
}

/// Terms at these places of the sums and the result, as few rectangles.
fn written(terms: impl Iterator<Item = (usize, isize)>, channels: usize) -> Vec<Written> {
    let mut out: Vec<Written> = Vec::new();
    for (from, to) in terms {
        match out.last_mut() {
            Some(w) if w.from + w.terms * channels == from && w.terms == 1 => {
                (w.terms, w.step) = (2, to - w.to);
            }
            Some(w) if w.from + w.terms * channels == from && w.to + w.terms as isize * w.step == to => w.terms += 1,
            _ => out.push(Written { from, to, terms: 1, step: 0 }),
        }
    }
    out
}
