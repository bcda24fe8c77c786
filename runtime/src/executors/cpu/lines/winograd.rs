//! Convolutions with windows of 3 × 3, one element apart, by 16 products of matrices instead of a sum over nine terms
//! ([`fulgurite_kernels::winograd`]).
//!
//! The input is copied as windows of 4 × 4 that are two elements apart, so that each place of the patches is a line. Lines
//! are transformed, and so are the weights, once for all patches.
//!
//! Transforms add elements that one result may not have: what it leaves out again is rounded in between. So the error of
//! a result is in proportion to the largest element of its patch and to the largest weight of its row, not to its own
//! terms. All results are computed again without transforms if one is not finite, or if that error may be more than
//! [`TOLERANCE`] of the largest of the four results of a patch: for example if the weights of large elements are zero.

use super::LineProduct;
use super::columns::tiles;
use super::operands::{Source, start};
use super::step::{Method, ProductFacts};
use super::windows::{self, Axis, Windows};
use crate::buffer::pool::Block;
use crate::executors::cpu::product::{InMemory, ProductLoop, dims_of};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::graph::slide::Slide;
use crate::executors::fusion::graph::{Dim, DimSet};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, FirstFault, Memory};
use crate::executors::program::threads;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::line_gemm::{LANES, Tile, finite};
use fulgurite_kernels::winograd::{
    PLACES, Pairs, Patches, Products, RESULTS, WindowWeights, pairs, patches, results, weights,
};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// The terms of a window, and the results of a patch, along an axis.
const TERMS: usize = 3;
const STEP: usize = 2;
/// At least this many rows and channels, because transforms of fewer are not shared by enough products.
const LEAST: usize = 16;
/// At most this many transformed weights: more leave the second-level cache between two blocks of patches, and their
/// products run at the speed of the third.
const MOST_WEIGHTS: usize = 1 << 19;
/// At most this many transformed elements of a block of patches are used together, so that they stay in the second-level
/// cache.
const TOGETHER: usize = 192 * 1024;

/// The bound of the error of a result may be this share of the largest result of its patch. The bound takes the largest
/// element, weight and rounding of each term together, so errors are smaller by a factor of ten and more. With a tenth of
/// this share, one patch of ten thousand would have four results that are small by chance, and be computed again.
const TOLERANCE: f32 = 1e-3;
/// The error of a result, in units of the last place of a typical sum of its products: patches and results add four terms
/// along each axis.
const ROUNDED: f32 = 4.0;

/// A compiled convolution.
pub(super) struct Winograd {
    /// The product without transforms, whose loops these are.
    usual: LineProduct,
    windows: Windows,
    /// The line of each place of the patches of the first channel, and the distance from channel to channel.
    places: [usize; PLACES],
    plane: usize,
    /// The channels, and the steps of the weights along the two axes of a window; the first weight of a channel.
    channels: ProductLoop,
    steps: (isize, isize),
    first: isize,
    /// The rows and columns of patches, and the rows in a block.
    patches: (usize, usize),
    block: usize,
    /// The columns of a block, whole vectors.
    width: usize,
    /// The starts of the lines of a place.
    lines: Vec<u32>,
    kernels: Kernels,
}

struct Kernels {
    patches: patches::Fn,
    weights: weights::Fn,
    results: results::Fn,
    pairs: pairs::Fn,
    finite: finite::Fn,
}

/// What is found of a contraction with such windows.
struct Found {
    slides: [Slide; 2],
    /// The summed dim that is no term of a window.
    channels: ProductLoop,
    steps: (isize, isize),
    first: isize,
    sources: [(usize, isize); 2],
}

impl Winograd {
    /// Makes the convolution of the product over its windows, if the contraction is one and pays for the transforms.
    pub fn of(
        c: &Contract,
        env: &Env,
        usual: &LineProduct,
        isa: Level,
    ) -> Option<impl FnOnce(LineProduct) -> Winograd + use<>> {
        let found = found(c, env, usual)?;
        let loops = &usual.loops;
        let [down, across] = loops.columns.0.as_slice() else { return None };
        let all = (down.size.div_ceil(STEP), across.size.div_ceil(STEP));
        let channels = found.channels.size;
        let copy = |rows: usize| {
            let axes = found.slides.iter().zip([rows, all.1]).zip(found.sources);
            let axes = axes.map(|((slide, count), source)| Axis::new(&patch(slide), count, TERMS + 1, source));
            Windows::new(vec![(channels, found.channels.b)], axes.collect(), isa)
        };
        let width = |rows: usize| ((rows - 1) * copy(1).axes[1].pitch() + all.1).next_multiple_of(LANES);
        let block = windows::block(all.0, TOGETHER, |rows| PLACES * channels * width(rows));
        let blocks = all.0.div_ceil(block);
        if !pays(loops.rows.size, channels, (down.size * across.size, blocks * width(block))) {
            return None;
        }
        let (windows, width) = (copy(block), width(block));
        let places = std::array::from_fn(|place| windows.line(0, &[place as i64 / 4, place as i64 % 4]));
        let plane = windows.line(1, &[0, 0]) - windows.line(0, &[0, 0]);
        let lines = (0..channels).map(|line| u32::try_from(line * width).ok()).collect::<Option<_>>()?;
        let kernels = Kernels {
            patches: patches::pick(isa),
            weights: weights::pick(isa),
            results: results::pick(isa),
            pairs: pairs::pick(isa),
            finite: finite::pick(isa),
        };
        let Found { channels, steps, first, .. } = found;
        Some(move |usual| Winograd {
            usual,
            windows,
            places,
            plane,
            channels,
            steps,
            first,
            patches: all,
            block,
            width,
            lines,
            kernels,
        })
    }

    /// The rows that are computed together.
    fn group(&self) -> usize {
        self.usual.tile.0
    }

    /// The elements of the transformed weights at one place.
    fn weights(&self) -> usize {
        self.usual.loops.rows.size * self.channels.size
    }

    /// Transforms the weights of rows, and notes the largest of each row behind them.
    ///
    /// # Safety
    /// `a` is the start of the weights; `to` has room for [`Winograd::room_of_weights`].
    unsafe fn transform_weights(&self, a: *const f32, to: *mut f32, rows: Range<usize>) {
        let channels = self.channels.size;
        let largest = to.wrapping_add(PLACES * self.weights());
        for row in rows {
            let w = WindowWeights {
                from: a.wrapping_offset(row as isize * self.usual.loops.rows.a + self.first),
                steps: (self.channels.a, self.steps.0, self.steps.1),
                to: to.wrapping_add(row * channels),
                step: self.weights(),
                channels,
            };
            // SAFETY: the caller upholds the contract; the row exists.
            unsafe { largest.add(row).write((self.kernels.weights)(&w)) };
        }
    }

    /// The elements of the transformed weights, with the largest of each row.
    fn room_of_weights(&self) -> usize {
        PLACES * self.weights() + self.usual.loops.rows.size
    }

    /// The elements of memory that a block takes: the copy, the largest element of each patch, the transformed patches, and
    /// products and results of a group of rows.
    fn room(&self) -> usize {
        let group = self.group() * self.width;
        self.windows.elements() + (PLACES * self.channels.size + 1) * self.width + (PLACES + RESULTS) * group
    }

    /// The first row of patches of a block, and their number.
    fn rows_of(&self, block: usize) -> (usize, usize) {
        let first = block * self.block;
        (first, self.block.min(self.patches.0 - first))
    }

    /// The columns of a block with this many rows of patches.
    fn columns(&self, rows: usize) -> usize {
        ((rows - 1) * self.windows.axes[1].pitch() + self.patches.1).next_multiple_of(LANES)
    }

    /// Copies and transforms the patches of a block, and notes the largest element of each.
    ///
    /// # Safety
    /// `b` is the start of the windows; there is [`Winograd::room`].
    unsafe fn transform(&self, b: *const f32, block: usize, room: *mut f32) {
        let (channels, width) = (self.channels.size, self.width);
        let (first, rows) = self.rows_of(block);
        let count = self.columns(rows);
        let largest = room.wrapping_add(self.windows.elements());
        let transformed = largest.wrapping_add(width);
        // SAFETY: the caller upholds the contract; lines have `count` elements, with those behind the copy.
        unsafe {
            self.windows.copy(b, room, first);
            std::ptr::write_bytes(largest, 0, count);
            for channel in 0..channels {
                let from = self.places.map(|place| room.wrapping_add(place + channel * self.plane) as *const f32);
                let to = transformed.wrapping_add(channel * width);
                (self.kernels.patches)(&Patches { from, to, step: channels * width, largest, count });
            }
        }
    }

    /// Computes rows of a block from its transformed patches; returns whether the results are exact enough, and finite.
    ///
    /// # Safety
    /// `weights` are the transformed weights, `c` is the start of the result, of which no other thread writes these rows
    /// of this block; `room` has the transformed patches.
    unsafe fn rows(
        &self,
        weights: *const f32,
        c: *mut f32,
        block: usize,
        (from, end): (usize, usize),
        room: *mut f32,
    ) -> bool {
        let (channels, width) = (self.channels.size, self.width);
        let (first, rows) = self.rows_of(block);
        let count = self.columns(rows);
        let largest = room.wrapping_add(self.windows.elements());
        let transformed = largest.wrapping_add(width);
        let products = transformed.wrapping_add(PLACES * channels * width);
        let sums = products.wrapping_add(PLACES * self.group() * width);
        let of_rows = weights.wrapping_add(PLACES * self.weights());
        let rounded = f32::EPSILON * ROUNDED * (channels as f32).sqrt() / TOLERANCE;
        let (mut row, mut good) = (from, true);
        while row < end {
            let group = [8, 4, 2, 1].into_iter().find(|n| *n <= (end - row).min(self.group())).unwrap_or(1);
            for place in 0..PLACES {
                let mut column = 0;
                for vectors in tiles(count, self.usual.tile.1) {
                    let tile = Tile {
                        rows: group,
                        vectors,
                        a: weights.wrapping_add(place * self.weights() + row * channels),
                        row: channels as isize,
                        b: transformed.wrapping_add(place * channels * width + column),
                        lines: &self.lines,
                        to: products.wrapping_add(place * self.group() * width + column),
                        to_row: width,
                        add: false,
                    };
                    // SAFETY: the caller upholds the contract; the rows exist, and lines have the columns.
                    unsafe { (self.usual.compute)(&tile) };
                    column += vectors * LANES;
                }
            }
            for line in 0..group {
                // SAFETY: the row exists.
                let share = rounded * unsafe { *of_rows.add(row + line) };
                let p = Products {
                    from: products.wrapping_add(line * width),
                    step: self.group() * width,
                    to: sums.wrapping_add(RESULTS * line * width),
                    to_step: width,
                    largest,
                    share,
                    count,
                };
                // SAFETY: the products were computed, and the sums have room.
                unsafe {
                    good &= (self.kernels.results)(&p);
                    for at in 0..RESULTS {
                        good &= (self.kernels.finite)(p.to.wrapping_add(at * width), count);
                    }
                    let to = c.wrapping_offset((row + line) as isize * self.usual.loops.rows.c);
                    self.write(p.to, to, (first, rows));
                }
            }
            row += group;
        }
        good
    }

    /// Writes the results of rows of patches.
    ///
    /// # Safety
    /// `sums` has the four results of the patches, and `c` is the start of a row of the product.
    unsafe fn write(&self, sums: *const f32, c: *mut f32, (first, rows): (usize, usize)) {
        let [down, across] = self.usual.loops.columns.0.as_slice() else { return };
        for (row, bottom) in (0..rows).flat_map(|row| [(row, 0), (row, 1)]) {
            let line = STEP * (first + row) + bottom;
            if line >= down.size {
                continue;
            }
            let at = row * self.windows.axes[1].pitch();
            let p = Pairs {
                left: sums.wrapping_add(2 * bottom * self.width + at),
                right: sums.wrapping_add((2 * bottom + 1) * self.width + at),
                to: c.wrapping_offset(line as isize * down.to),
                step: across.to,
                count: across.size,
            };
            // SAFETY: the caller upholds the contract; the line exists.
            unsafe { (self.kernels.pairs)(&p) };
        }
    }
}

impl Method for Winograd {
    fn facts(&self) -> ProductFacts {
        ProductFacts { over: "patches (Winograd)", ..self.usual.facts() }
    }

    unsafe fn multiply(&self, operands: Memory, threads: usize) -> Result<bool, Fault> {
        let loops = &self.usual.loops;
        let rows = loops.rows.size;
        let block = Block::new(size_of::<f32>() * self.room_of_weights()).map_err(|e| Fault::OutOfMemory(e.bytes))?;
        let blocks = self.patches.0.div_ceil(self.block);
        let around = loops.outer.iter().map(|l| l.size).product::<usize>() * blocks;
        // Few blocks are divided further, by their rows.
        let part = self.usual.part(rows, around, threads);
        let parts = rows.div_ceil(part);
        let (fault, good) = (FirstFault::default(), AtomicBool::new(true));
        let transformed = self.weights() as f64 * TRANSFORMED;
        threads::share(rows, threads, transformed, &|claims| {
            for rows in claims {
                // SAFETY: the caller upholds the contract, and parts have disjoint rows.
                unsafe {
                    let a = (operands.at(0) as *const f32).offset(loops.places[0].offset);
                    self.transform_weights(a, block.data() as *mut f32, rows);
                }
            }
        });
        threads::share(around * parts, threads, self.usual.cost, &|claims| {
            let Some(room) = fault.block(size_of::<f32>() * self.room()) else { return };
            let room = room.data() as *mut f32;
            let mut patches = None;
            for task in claims.flatten() {
                let (number, first) = (task / parts, task % parts * part);
                let at = start(&loops.places, &loops.outer, number / blocks);
                // SAFETY: the caller upholds the contract; tasks write disjoint elements.
                unsafe {
                    if patches != Some(number) {
                        self.transform((operands.at(1) as *const f32).wrapping_offset(at.b), number % blocks, room);
                        patches = Some(number);
                    }
                    let c = (operands.at(2) as *mut f32).offset(at.c);
                    let rows = (first, (first + part).min(rows));
                    if !self.rows(block.data() as *const f32, c, number % blocks, rows, room) {
                        good.store(false, Ordering::Relaxed);
                    }
                }
            }
        });
        fault.result()?;
        if good.into_inner() {
            return Ok(true);
        }
        // SAFETY: the caller upholds the contract.
        unsafe { self.usual.multiply(operands, threads) }
    }
}

/// The windows of patches that belong to these windows.
fn patch(slide: &Slide) -> Slide {
    Slide { along: (slide.along.0, STEP as i64), reversed: false, ..*slide }
}

/// What the contraction has, if its windows are those of [`Winograd`].
fn found(c: &Contract, env: &Env, usual: &LineProduct) -> Option<Found> {
    let Source::Windows(_) = &usual.loops.source else { return None };
    if usual.loops.outer.iter().any(|l| l.a != 0) {
        return None;
    }
    let (left, right) = if usual.loops.swapped { (&c.b, &c.a) } else { (&c.a, &c.b) };
    let InMemory { forms, starts, loops } = InMemory::of((left, right), c, env.form);
    let summed: DimSet = c.reduced.iter().copied().collect();
    let own = dims_of(right).minus(dims_of(left)).minus(summed);
    let shape = &env.values.ty(right.value).shape;
    let slides: [Slide; 2] = right.slides(own, summed, shape, &c.sizes)?.try_into().ok()?;
    let size = |d: Dim| c.sizes[d as usize];
    let fits = |s: &Slide| s.along.1 == 1 && s.over.is_some_and(|(d, spread)| spread == 1 && size(d) == TERMS);
    if !slides.iter().all(fits) {
        return None;
    }
    let [down, across] = slides.map(|s| s.over.map(|o| o.0));
    let (down, across) = (down?, across?);
    let mut rest = summed.iter().filter(|d| ![down, across].contains(d) && size(*d) > 1);
    let (channels, None) = (rest.next()?, rest.next()) else { return None };
    // a reversed window has its last weight first
    let step = |d: Dim, slide: &Slide| match slide.reversed {
        true => (-loops[d as usize].a, (TERMS - 1) as isize * loops[d as usize].a),
        false => (loops[d as usize].a, 0),
    };
    let (rows, cols) = (step(down, &slides[0]), step(across, &slides[1]));
    debug_assert_eq!(starts[0].offset, usual.loops.places[0].offset);
    let source = |s: &Slide| (shape[s.axis], forms[1].strides[s.axis] as isize);
    let sources = [source(&slides[0]), source(&slides[1])];
    let (steps, first) = ((rows.0, cols.0), rows.1 + cols.1);
    Some(Found { slides, channels: loops[channels as usize], steps, first, sources })
}

/// The nanoseconds for the transform of the weights of a row and channel.
const TRANSFORMED: f64 = 3.0;

/// Whether the transforms pay: `columns` are those of the result, and those of all patches.
fn pays(rows: usize, channels: usize, (columns, patches): (usize, usize)) -> bool {
    /// Products a nanosecond, and nanoseconds for a patch of a channel or of a row.
    const PRODUCTS: f64 = 45.0;
    const PATCH: f64 = 2.5;
    if rows < LEAST || channels < LEAST || PLACES * rows * channels > MOST_WEIGHTS {
        return false;
    }
    let pairs = (rows * channels) as f64;
    let direct = pairs * (TERMS * TERMS * columns) as f64 / PRODUCTS;
    let products = pairs * (PLACES * patches) as f64 / PRODUCTS;
    let transforms = pairs * TRANSFORMED + ((rows + channels) * patches) as f64 * PATCH;
    products + transforms < 0.85 * direct
}
