//! A contraction as loops over rows, columns and a sum, for a product that reads one operand line by line.

use super::columns::{Column, Columns};
use super::tail;
use super::windows::{self, Axis, WindowCopy};
use crate::executors::cpu::product::{InMemory, OperandStart, ProductLoop, dims_of, largest, merged};
use crate::executors::fusion::fuse::Form;
use crate::executors::fusion::graph::piece::{Contract, Values};
use crate::executors::fusion::graph::slide::{self, Slide};
use crate::executors::fusion::graph::{Dim, DimSet, Index, Load, ValueId};
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::line_gemm::{LANES, MOST_VECTORS};
use fulgurite_kernels::prefetch::prefetch;
use fulgurite_kernels::transpose::{Moved, move_to};
use smallvec::smallvec;

/// The way in which the lines of the right operand come to lie side by side.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The lines lie in the operand already.
    Lines,
    /// The lines are copied: the loops of the sum, slowest first, and the distance from column to
    /// column.
    Copied { sums: Vec<(usize, isize)>, column: isize },
    /// The lines are windows.
    Windows(WindowCopy),
}

/// The loops of a product.
#[derive(Clone, Debug)]
pub(super) struct Loops {
    /// The places of the operand that is broadcast, of the operand of lines, and of the result.
    pub places: [OperandStart; 3],
    /// The loops around the product.
    pub outer: Vec<ProductLoop>,
    /// The rows.
    pub rows: ProductLoop,
    /// The terms of a row of the broadcast operand, if they are not contiguous.
    pub along: Option<Along>,
    /// The columns.
    pub columns: Columns,
    /// The source of the lines.
    pub source: Source,
    /// The start of each line, in the operand or in the copy of windows; empty for lines that are copied to panels.
    pub lines: Vec<u32>,
    /// The summed elements.
    pub depth: usize,
    /// Whether the contraction's right operand is the one that is broadcast.
    pub swapped: bool,
}

/// The places of the terms of a row: runs of elements that lie equally far apart.
#[derive(Clone, Debug)]
pub(super) struct Along {
    /// The start of each run.
    starts: Vec<isize>,
    /// The elements of a run.
    run: usize,
    /// The distance from element to element.
    step: isize,
}

/// At most this many elements of lines are used together, so that they stay in the second-level cache.
const TOGETHER: usize = 96 * 1024;

impl Loops {
    /// The loops of a contraction whose left operand (`swapped`: whose right one) is broadcast, if the other one
    /// slides or is strided memory.
    pub fn of(
        c: &Contract,
        values: &Values,
        form: &dyn Fn(ValueId) -> Form,
        swapped: bool,
        isa: Level,
    ) -> Option<Loops> {
        let (left, right) = if swapped { (&c.b, &c.a) } else { (&c.a, &c.b) };
        if !left.lies(&c.sizes) {
            return None;
        }
        let InMemory { forms, starts: mut places, loops } = InMemory::of((left, right), c, form);
        let axis = |d: Dim| loops[d as usize];
        let summed: DimSet = c.reduced.iter().copied().collect();
        let all: DimSet = (0..c.sizes.len() as Dim).filter(|d| c.sizes[*d as usize] > 1).collect();
        let (in_a, in_b) = (dims_of(left), dims_of(right));
        let own = in_b.minus(in_a).minus(summed);
        let slides = right.slides(own, summed, &values.ty(right.value).shape, &c.sizes);
        let (in_a, in_b, own) = (in_a.meet(all), in_b.meet(all), own.meet(all));
        let sliding: DimSet = slides.iter().flatten().map(|s| s.along.0).collect();
        let mut sums: Vec<Dim> = summed.meet(all).iter().collect();
        sums.sort_by_key(|d| -axis(*d).a);
        let sums: Vec<(Dim, ProductLoop)> = sums.into_iter().map(|d| (d, axis(d))).collect();
        let depth = sums.iter().map(|(_, l)| l.size).product();
        let along = Along::of(&sums.iter().map(|(_, l)| (l.size, l.a)).collect::<Vec<_>>());
        let (rows, mut more) = largest(merged(in_a.minus(in_b).minus(summed).iter().map(axis).collect()));
        let mut outer = merged(in_a.meet(in_b).minus(summed).iter().map(axis).collect());
        let (columns, source, lines) = match slides {
            Some(slides) => {
                more.extend(own.minus(sliding).iter().map(axis));
                places[1].offset = origin(right, &slides, &forms[1], places[1].offset);
                let source = (values.ty(right.value).shape.as_slice(), forms[1].strides.as_slice());
                sliding_columns(&slides, &sums, &loops, source, (rows.size, isa))?
            }
            None if !right.lies(&c.sizes) || loops.iter().any(|l| l.b < 0) => return None,
            None => {
                let (n, extra) = largest(merged(own.iter().map(axis).collect()));
                more.extend(extra);
                plain(n, sums.iter().map(|(_, l)| (l.size, l.b)).collect(), depth, rows.size)?
            }
        };
        outer.sort_by_key(|l| -l.c.abs());
        more.sort_by_key(|l| -l.c.abs());
        outer.extend(more);
        Some(Loops { places, outer, rows, along, columns, source, lines, depth, swapped })
    }

    /// The elements that are copied or written one by one, for the choice between the two ways.
    pub fn moved(&self) -> usize {
        let (n, m) = (self.columns.count(), self.rows.size);
        let copied = if matches!(self.source, Source::Copied { .. }) { n * self.depth } else { 0 };
        let copied = copied + if self.along.is_some() { m * self.depth } else { 0 };
        copied + if self.columns.0.last().is_some_and(|c| c.to == 1) { 0 } else { n * m }
    }
}

/// The runs that are copied while one arrives.
const AHEAD: usize = 8;
/// The elements of the rows of a run that are prefetched.
const TOGETHER_BY_ROWS: isize = 256;

impl Along {
    /// The places of terms, or `None` if they are contiguous. `sums` are the sizes and strides of their loops, slowest
    /// first.
    pub fn of(sums: &[(usize, isize)]) -> Option<Along> {
        let step = sums.last().map_or(1, |l| l.1);
        let (mut run, mut starts) = (1, vec![0]);
        let mut outer = sums;
        while let Some((&(size, stride), rest)) = outer.split_last()
            && stride == run as isize * step
        {
            run *= size;
            outer = rest;
        }
        for &(size, stride) in outer {
            starts = starts.iter().flat_map(|at| (0..size as isize).map(move |i| at + i * stride)).collect();
        }
        (step != 1 || !outer.is_empty()).then_some(Along { starts, run, step })
    }

    /// Copies the first `depth` terms of rows that start at `from`, `row` apart, to rows without gaps.
    ///
    /// # Safety
    /// The rows have these elements, and `to` has room for them.
    pub unsafe fn gather(
        &self,
        from: *const f32,
        (rows, row): (usize, isize),
        depth: usize,
        to: *mut f32,
        kernel: move_to::Fn,
    ) {
        // The hardware does not foresee runs that lie far apart, so they are prefetched, as far as
        // the rows of one run lie together.
        let together = (rows as isize - 1) * row.abs() + self.run as isize * self.step.abs();
        let near = self.run < LANES && together <= TOGETHER_BY_ROWS;
        for (i, (start, first)) in self.starts.iter().zip((0..depth).step_by(self.run)).enumerate() {
            if let Some(next) = self.starts.get(i + AHEAD).filter(|_| near) {
                prefetch(from.wrapping_offset(*next) as *const u8, 4 * together as usize);
            }
            let (from_steps, to_steps) = ((row, self.step), (depth as isize, 1));
            let (from, to) = (from.wrapping_offset(*start), to.wrapping_add(first));
            let cols = self.run.min(depth - first);
            // SAFETY: the caller upholds the contract of this function.
            unsafe { kernel(&Moved { from, from_steps, to, to_steps, rows, cols }) };
        }
    }
}

/// The offset of a sliding operand at index 0 of the axes along which it slides; `offset` is that of its first term.
pub(super) fn origin(load: &Load, slides: &[Slide], form: &Form, offset: isize) -> isize {
    let start = |s: &Slide| match &load.idx[s.axis] {
        Index::Affine(a) => (a.base * form.strides[s.axis]) as isize,
        Index::Node(_) => 0,
    };
    offset - slides.iter().map(start).sum::<isize>()
}

/// The offsets at which the operands and the result start, in a setting of the loops around them.
pub(super) fn start(places: &[OperandStart; 3], outer: &[ProductLoop], around: usize) -> ProductLoop {
    let [a, b, c] = places.map(|p| p.offset);
    let (mut at, mut rest) = (ProductLoop { size: 0, a, b, c }, around);
    for l in outer.iter().rev() {
        let i = (rest % l.size) as isize;
        rest /= l.size;
        at = ProductLoop { size: 0, a: at.a + i * l.a, b: at.b + i * l.b, c: at.c + i * l.c };
    }
    at
}

/// The columns of windows, their copy for products with this many rows, and the start of each line in it.
fn sliding_columns(
    slides: &[Slide],
    sums: &[(Dim, ProductLoop)],
    loops: &[ProductLoop],
    (shape, strides): (&[usize], &[i64]),
    (rows, isa): (usize, Level),
) -> Option<(Columns, Source, Vec<u32>)> {
    let size = |d: Dim| loops[d as usize].size;
    let spread = |d: Dim| slides.iter().position(|s| s.over.is_some_and(|o| o.0 == d));
    let planes: Vec<(usize, isize)> =
        sums.iter().filter(|(d, _)| spread(*d).is_none()).map(|(_, l)| (l.size, l.b)).collect();
    let source = |s: &Slide| (shape[s.axis], strides[s.axis] as isize);
    let count = |i: usize, s: &Slide, first: usize| if i == 0 { first } else { size(s.along.0) };
    let axes = |first: usize| -> Vec<Axis> {
        let axis =
            |(i, s): (usize, &Slide)| Axis::new(s, count(i, s, first), s.over.map_or(1, |o| size(o.0)), source(s));
        slides.iter().enumerate().map(axis).collect()
    };
    let last = slides.last()?;
    let terms = last.over.map_or(1, |o| size(o.0));
    // the axes of one term along the last axis
    let of_term = |first: usize, term: usize| -> Vec<Axis> {
        let distance = term as i64 * last.over.map_or(0, |o| o.1);
        let mut axes = axes(first);
        axes.pop();
        axes.push(Axis::of_term(last, count(slides.len() - 1, last, first), distance, source(last)));
        axes
    };
    let all = size(slides[0].along.0);
    let depth: usize = sums.iter().map(|(_, l)| l.size).product();
    let shared = |n: usize| WindowCopy::shared(planes.clone(), axes(n), isa);
    let each = |n: usize| WindowCopy::each(&planes, terms, |term| of_term(n, term), isa);
    let columns = |copy: &WindowCopy| {
        let column = |(axis, s): (&Axis, &Slide)| {
            let along = loops[s.along.0 as usize];
            Column { size: along.size, pitch: axis.pitch(), to: along.c }
        };
        Columns(copy.axes().iter().zip(slides).map(column).collect())
    };
    let fitting = |of: &dyn Fn(usize) -> WindowCopy| of(windows::block(all, TOGETHER, |n| of(n).elements()));
    let mut copy = fitting(&shared);
    if slides.len() > 1 && terms > 1 {
        let other = fitting(&each);
        let cost =
            |copy: &WindowCopy| copied(copy, all) + rows as f64 * worked(&columns(copy), copy, all, (rows, depth));
        if cost(&other) < cost(&copy) {
            copy = other;
        }
    }
    let mut lines = Vec::with_capacity(depth);
    for k in 0..depth {
        let (mut rest, mut plane, mut planes, mut term) = (k, 0, 1, 0);
        let mut distances = [0i64; slide::MOST];
        for (d, l) in sums.iter().rev() {
            let index = rest % l.size;
            rest /= l.size;
            match spread(*d) {
                Some(axis) => {
                    let index = if slides[axis].reversed { l.size - 1 - index } else { index };
                    distances[axis] = index as i64 * slides[axis].over.map_or(0, |o| o.1);
                    if axis + 1 == slides.len() {
                        term = index;
                    }
                }
                None => {
                    plane += index * planes;
                    planes *= l.size;
                }
            }
        }
        lines.push(u32::try_from(copy.line(plane, &distances[..slides.len()], term)).ok()?);
    }
    Some((columns(&copy), Source::Windows(copy), lines))
}

/// The work of copying all windows, in steps of one vector of a tile: a row is copied at once, after some preparation.
fn copied(copy: &WindowCopy, all: usize) -> f64 {
    const PREPARED: f64 = 8.0;
    const ELEMENT: f64 = 0.25;
    let blocks = all.div_ceil(copy.axes()[0].windows);
    (blocks * copy.elements()) as f64 * (PREPARED / copy.row() as f64 + ELEMENT)
}

/// The work of one row of a product over all windows, in steps of one vector.
fn worked(columns: &Columns, copy: &WindowCopy, all: usize, (rows, depth): (usize, usize)) -> f64 {
    let block = copy.axes()[0].windows;
    let of = |first: usize| tail::work(columns.with_first(block.min(all - first)).count(), rows, depth);
    (0..all).step_by(block).map(of).sum()
}

/// The columns of an operand that does not slide, the source of its lines, and their starts if they lie side by side.
fn plain(n: ProductLoop, sums: Vec<(usize, isize)>, depth: usize, rows: usize) -> Option<(Columns, Source, Vec<u32>)> {
    let columns = Columns(smallvec![Column { size: n.size, pitch: n.size, to: n.c }]);
    let last = match n.size % block(n.size, depth) {
        0 => n.size,
        rest => rest,
    };
    // Lines that are a multiple of this far apart fall into few sets of the caches.
    const APART: isize = 256;
    let clash = rows >= 2 * LANES && depth > 64 && sums.last().is_some_and(|s| s.1 % APART == 0);
    // Tiles do not read beyond the end of lines that are not copied, so such lines are as wide as a tile.
    let narrow = last < MOST_VECTORS * LANES && !last.is_multiple_of(LANES);
    if n.b != 1 || narrow || clash {
        return Some((columns, Source::Copied { sums, column: n.b }, Vec::new()));
    }
    let mut lines = Vec::with_capacity(depth);
    for k in 0..depth {
        let (mut rest, mut at) = (k, 0);
        for (size, stride) in sums.iter().rev() {
            at += (rest % size) * *stride as usize;
            rest /= size;
        }
        lines.push(u32::try_from(at).ok()?);
    }
    Some((columns, Source::Lines, lines))
}

/// The columns of a block of `n` columns in all, a multiple of [`LANES`].
pub(super) fn block(n: usize, depth: usize) -> usize {
    let most = (TOGETHER / depth.max(1)).max(3 * LANES);
    n.div_ceil(n.div_ceil(most)).next_multiple_of(LANES)
}
