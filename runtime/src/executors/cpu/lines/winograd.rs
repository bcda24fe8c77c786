//! Convolutions with windows of 3 × 3, one element apart, by 16 products of matrices instead of a sum over nine terms
//! ([`fulgurite_kernels::winograd`]).
//!
//! The input is copied as windows of 4 × 4 that are two elements apart, so that each place of the patches is a line. The
//! patches of a few vectors of columns are a [`Panel`], which stays in the caches from its transform to its results.
//! Weights are transformed once for all patches, or once for many runs if they are kept.
//!
//! A transform adds elements that a result may not have, and the result subtracts them again; in
//! between they are rounded. So the error of a result is in proportion to the largest element of
//! its patch and to the largest weight of its row, not to its own terms. All results are computed
//! again without transforms if one is not finite, or if that error may be more than [`TOLERANCE`]
//! of the largest of the four results of a patch: for example if the weights of large elements are
//! zero.

mod panels;

use super::LineProduct;
use super::operands::{Source, start};
use super::prepared::{KeptAt, KeptMethod};
use super::step::{Method, ProductFacts};
use super::windows::{Axis, Windows};
use crate::buffer::pool::Block;
use crate::executors::cpu::product::{InMemory, ProductLoop, dims_of};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::graph::slide::Slide;
use crate::executors::fusion::graph::{Dim, DimSet};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, FirstFault, Memory};
use crate::executors::program::threads;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::line_gemm::{LANES, MOST_VECTORS, Tile};
use fulgurite_kernels::prefetch::prefetch;
use fulgurite_kernels::winograd::{PLACES, Patches, Products, WindowWeights, patches, results, weights};
use panels::{Panel, Plan};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The terms of a window, and the results of a patch, along an axis.
const TERMS: usize = 3;
const STEP: usize = 2;
/// At least this many rows and channels, because transforms of fewer are not shared by enough products.
const LEAST: usize = 16;
/// At most this many transformed weights. Every panel reads all of them, and more would not stay in
/// the third-level cache beside those of other convolutions.
const MOST_WEIGHTS: usize = 1 << 20;
/// The copy of a block of patches has at most this many elements, so that it stays in the second-level cache.
const MOST_COPIED: usize = 128 * 1024;
/// The number of rows whose products at all places are computed before their results, a multiple of
/// the rows of a tile. These products stay in the second-level cache. The transformed patches of a
/// place stay in the first-level cache while they are multiplied by the weights of these rows.
const ROWS: usize = 64;

/// Up to this many transformed weights stay in the second-level cache beside a panel.
const NEAR_WEIGHTS: usize = 1 << 17;

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
    plan: Plan,
    /// The lines of a place in a panel of one vector of columns, of two, and so on: one for each channel.
    lines: Vec<Vec<u32>>,
    kernels: Kernels,
}

struct Kernels {
    patches: patches::Fn,
    weights: weights::Fn,
    results: results::Fn,
}

/// The parts of a contraction with such windows.
struct Found {
    slides: [Slide; 2],
    /// The summed dim that is not a term of a window.
    channels: ProductLoop,
    steps: (isize, isize),
    first: isize,
    sources: [(usize, isize); 2],
}

/// The elements from line to line of a panel of this many vectors. Runs of patches are transformed as whole vectors, the last
/// of which ends after the panel.
fn width(vectors: usize) -> usize {
    (vectors + 1) * LANES
}

/// The distance of places that have this many elements: a whole number of pages and a cache line, so that the elements of
/// all places at one position do not share a set of the first-level cache.
fn apart(elements: usize) -> usize {
    elements.next_multiple_of(1024) + LANES
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
        let fits = |rows: usize| copy(rows).elements() <= MOST_COPIED;
        let plan = Plan::new([down, across], copy(1).axes[1].pitch(), usual.tile.1.min(MOST_VECTORS), fits);
        if !pays(loops.rows.size, channels, (down.size * across.size, plan.columns())) {
            return None;
        }
        let windows = copy(plan.block);
        let places = std::array::from_fn(|place| windows.line(0, &[place as i64 / 4, place as i64 % 4]));
        let plane = windows.line(1, &[0, 0]) - windows.line(0, &[0, 0]);
        let starts = |vectors| (0..channels).map(|c| u32::try_from(c * width(vectors)).ok()).collect();
        let lines = (1..=usual.tile.1).map(starts).collect::<Option<_>>()?;
        let kernels = Kernels { patches: patches::pick(isa), weights: weights::pick(isa), results: results::pick(isa) };
        let Found { channels, steps, first, .. } = found;
        Some(move |usual| Winograd { usual, windows, places, plane, channels, steps, first, plan, lines, kernels })
    }

    /// The elements of the transformed weights at one place.
    fn weights(&self) -> usize {
        self.usual.loops.rows.size * self.channels.size
    }

    /// Transforms the weights of rows, and notes the largest of each row after them.
    ///
    /// # Safety
    /// `a` is the start of the weights; `to` has room for [`Winograd::room_of_weights`].
    unsafe fn transform_weights(&self, a: *const f32, to: *mut f32, rows: Range<usize>) {
        let channels = self.channels.size;
        let largest = to.wrapping_add(PLACES * self.weights());
        for row in rows {
            let (first, count) = self.together(row);
            let w = WindowWeights {
                from: a.wrapping_offset(row as isize * self.usual.loops.rows.a + self.first),
                steps: (self.channels.a, self.steps.0, self.steps.1),
                to: to.wrapping_add((PLACES * first + row - first) * channels),
                step: count * channels,
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

    /// Transforms all weights.
    ///
    /// # Safety
    /// `operands` has the weights as 0; `to` has room for [`Winograd::room_of_weights`].
    unsafe fn transform_all_weights(&self, operands: Memory, to: KeptAt, threads: usize) {
        threads::share(self.usual.loops.rows.size, threads, self.weights() as f64 * TRANSFORMED, &|claims| {
            for rows in claims {
                let a = (operands.at(0) as *const f32).wrapping_offset(self.usual.loops.places[0].offset);
                // SAFETY: the caller upholds the contract, and parts have disjoint rows.
                unsafe { self.transform_weights(a, to.element(0), rows) };
            }
        });
    }

    /// The rows whose products are computed before their results.
    fn rows_together(&self) -> usize {
        ROWS.min(self.usual.loops.rows.size).next_multiple_of(self.usual.tile.0)
    }

    /// The first of the rows whose products are computed together with those of this row, and their number.
    fn together(&self, row: usize) -> (usize, usize) {
        let first = row - row % self.rows_together();
        (first, self.rows_together().min(self.usual.loops.rows.size - first))
    }

    /// The elements of the copy of a block, with those after it that panels read.
    fn copied(&self) -> usize {
        self.windows.elements() + MOST_VECTORS * LANES
    }

    /// The elements from place to place of the transformed patches of a panel.
    fn place(&self, vectors: usize) -> usize {
        apart(self.channels.size * width(vectors))
    }

    /// The elements from place to place of the products of a panel.
    fn products(&self, vectors: usize) -> usize {
        apart(self.rows_together() * vectors * LANES)
    }

    /// The elements of memory that a thread takes: the copy of a block, the largest element of each patch of a panel, its
    /// transformed patches, and the products of some rows.
    fn room(&self) -> usize {
        let widest = self.plan.widest;
        self.copied() + width(widest) + PLACES * (self.place(widest) + self.products(widest))
    }

    /// Copies a block of patches.
    ///
    /// # Safety
    /// `b` is the start of the windows; there is [`Winograd::room`].
    unsafe fn copy(&self, b: *const f32, block: usize, room: *mut f32) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            self.windows.copy(b, room, block * self.plan.block);
            std::ptr::write_bytes(room.add(self.windows.elements()), 0, MOST_VECTORS * LANES);
        }
    }

    /// Transforms the patches of a panel, and notes the largest element of each.
    ///
    /// # Safety
    /// There is [`Winograd::room`], with the copy of the panel's block.
    unsafe fn transform(&self, panel: &Panel, room: *mut f32) {
        let largest = room.wrapping_add(self.copied());
        let transformed = largest.wrapping_add(width(self.plan.widest));
        let (line, all) = (width(panel.vectors), panel.vectors * LANES);
        for (n, (run, from)) in panel.runs.iter().zip(&panel.from).enumerate() {
            // The last run has all columns up to the end of the panel. Those after its patches are numbers.
            let end = panel.runs.get(n + 1).map_or(all, |next| next.at);
            let p = Patches {
                from: self.places.map(|place| room.wrapping_add(place + from) as *const f32),
                from_channel: self.plane,
                to: transformed.wrapping_add(run.at),
                steps: (self.place(panel.vectors), line),
                channels: self.channels.size,
                largest: largest.wrapping_add(run.at),
                count: end - run.at,
            };
            // SAFETY: the caller upholds the contract; the last vector of a run ends in the room after a line.
            unsafe { (self.kernels.patches)(&p) };
        }
        // Columns after the last patch say nothing about how exact the results are.
        // SAFETY: the caller upholds the contract; there are magnitudes for all columns.
        unsafe { std::ptr::write_bytes(largest.add(panel.columns), 0, all - panel.columns) };
    }

    /// Computes rows of a panel from its transformed patches: as many as are computed together, or
    /// all that are left. Returns whether the results are exact enough, and finite.
    ///
    /// # Safety
    /// `weights` are the transformed weights, `c` is the start of the result, of which no other thread writes these rows
    /// of this panel; `room` has the transformed patches.
    unsafe fn rows(
        &self,
        weights: *const f32,
        c: *mut f32,
        panel: &Panel,
        (from, end): (usize, usize),
        room: *mut f32,
    ) -> bool {
        let (channels, together) = (self.channels.size, self.rows_together());
        let all = panel.vectors * LANES;
        let largest = room.wrapping_add(self.copied());
        let transformed = largest.wrapping_add(width(self.plan.widest));
        let products = transformed.wrapping_add(PLACES * self.place(self.plan.widest));
        let (from_place, to_place) = (self.place(panel.vectors), self.products(panel.vectors));
        let of_rows = weights.wrapping_add(PLACES * self.weights());
        let [down, across] = self.usual.loops.columns.0.as_slice() else { return false };
        let rounded = f32::EPSILON * ROUNDED * (channels as f32).sqrt() / TOLERANCE;
        let panel_bytes = self.usual.tile.0 * channels * size_of::<f32>();
        let far = PLACES * self.weights() > NEAR_WEIGHTS;
        let mut good = true;
        for first in (from..end).step_by(together) {
            let rows = together.min(end - first);
            let of_places = weights.wrapping_add(PLACES * first * channels);
            for place in 0..PLACES {
                let mut row = 0;
                while row < rows {
                    let group =
                        [8, 4, 2, 1].into_iter().find(|n| *n <= (rows - row).min(self.usual.tile.0)).unwrap_or(1);
                    let a = of_places.wrapping_add((place * rows + row) * channels);
                    if far {
                        // Weights are read in the order in which they lie: the next rows arrive while these are used.
                        prefetch(a.wrapping_add(group * channels) as *const u8, panel_bytes);
                    }
                    let tile = Tile {
                        rows: group,
                        vectors: panel.vectors,
                        a,
                        row: channels as isize,
                        b: transformed.wrapping_add(place * from_place),
                        lines: &self.lines[panel.vectors - 1],
                        to: products.wrapping_add(place * to_place + row * all),
                        to_row: all,
                        add: false,
                    };
                    // SAFETY: the caller upholds the contract; the rows exist, and lines have the columns.
                    unsafe { (self.usual.compute)(&tile) };
                    row += group;
                }
            }
            for row in 0..rows {
                let p = Products {
                    from: products.wrapping_add(row * all),
                    step: to_place,
                    largest,
                    // SAFETY: the row exists.
                    share: rounded * unsafe { *of_rows.add(first + row) },
                    vectors: panel.vectors,
                    runs: &panel.runs,
                    to: c.wrapping_offset((first + row) as isize * self.usual.loops.rows.c),
                    steps: (down.to, across.to),
                };
                // SAFETY: the products were computed, and the results of the runs exist.
                good &= unsafe { (self.kernels.results)(&p) };
            }
        }
        good
    }

    /// Computes the convolution with weights that were transformed before, if there are such.
    ///
    /// # Safety
    /// The contract of [`Method::multiply`] holds.
    unsafe fn multiply_with(&self, operands: Memory, kept: Option<KeptAt>, threads: usize) -> Result<bool, Fault> {
        let loops = &self.usual.loops;
        let rows = loops.rows.size;
        let bytes = if kept.is_some() { 0 } else { size_of::<f32>() * self.room_of_weights() };
        let block = Block::new(bytes).map_err(|e| Fault::OutOfMemory(e.bytes))?;
        let weights = kept.unwrap_or(KeptAt(block.data() as *mut f32));
        if kept.is_none() {
            // SAFETY: the caller upholds the contract, and the block has the room.
            unsafe { self.transform_all_weights(operands, weights, threads) };
        }
        let panels = self.plan.panels.len();
        let around = self.usual.around() * panels;
        // Few panels are divided further, by their rows.
        let part = self.usual.part(rows, around, threads).next_multiple_of(self.rows_together());
        let parts = rows.div_ceil(part);
        let (fault, good) = (FirstFault::default(), AtomicBool::new(true));
        threads::share(around * parts, threads, self.usual.cost, &|claims| {
            let Some(room) = fault.block(size_of::<f32>() * self.room()) else { return };
            let room = room.data() as *mut f32;
            let (mut copied, mut transformed) = (None, None);
            for task in claims.flatten() {
                let (number, first) = (task / parts, task % parts * part);
                let panel = &self.plan.panels[number % panels];
                let at = start(&loops.places, &loops.outer, number / panels);
                // SAFETY: the caller upholds the contract; tasks write disjoint elements.
                unsafe {
                    if copied != Some((number / panels, panel.block)) {
                        copied = Some((number / panels, panel.block));
                        self.copy((operands.at(1) as *const f32).wrapping_offset(at.b), panel.block, room);
                    }
                    if transformed != Some(number) {
                        transformed = Some(number);
                        self.transform(panel, room);
                    }
                    let c = (operands.at(2) as *mut f32).offset(at.c);
                    let rows = (first, (first + part).min(rows));
                    if !self.rows(weights.element(0), c, panel, rows, room) {
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

impl Method for Arc<Winograd> {
    fn facts(&self) -> ProductFacts {
        ProductFacts { over: "patches (Winograd)", ..self.usual.facts() }
    }

    unsafe fn multiply(&self, operands: Memory, threads: usize) -> Result<bool, Fault> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.multiply_with(operands, None, threads) }
    }
}

impl KeptMethod for Arc<Winograd> {
    fn values(&self) -> [u32; 3] {
        self.facts().values
    }

    fn copies(&self) -> (usize, usize) {
        (0, self.room_of_weights())
    }

    unsafe fn prepare(&self, operands: Memory, to: KeptAt, threads: usize) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.transform_all_weights(operands, to, threads) };
    }

    unsafe fn multiply(&self, operands: Memory, copy: KeptAt, threads: usize) -> Result<bool, Fault> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.multiply_with(operands, Some(copy), threads) }
    }
}

/// The windows of patches that belong to these windows.
fn patch(slide: &Slide) -> Slide {
    Slide { along: (slide.along.0, STEP as i64), reversed: false, ..*slide }
}

/// The parts of the contraction, if its windows are those of [`Winograd`].
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
const TRANSFORMED: f64 = 2.5;

/// Whether the transforms pay: `columns` are those of the result, and those of all panels.
fn pays(rows: usize, channels: usize, (columns, patches): (usize, usize)) -> bool {
    /// Products a nanosecond, and nanoseconds for a patch of a channel or of a row.
    const PRODUCTS: f64 = 120.0;
    const PATCH: f64 = 1.0;
    if rows < LEAST || channels < LEAST || PLACES * rows * channels > MOST_WEIGHTS {
        return false;
    }
    let pairs = (rows * channels) as f64;
    let direct = pairs * (TERMS * TERMS * columns) as f64 / PRODUCTS;
    let products = pairs * (PLACES * patches) as f64 / PRODUCTS;
    let transforms = pairs * TRANSFORMED + ((rows + channels) * patches) as f64 * PATCH;
    products + transforms < 0.9 * direct
}
