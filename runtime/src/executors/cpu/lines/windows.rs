//! The copy of an operand that slides, with room around it, in which each term of the sum is a line.
//!
//! Windows that are `step` apart read every `step`-th element, so the copy has one plane for each remainder of the
//! positions by `step`. In a plane, neighbouring windows read neighbouring elements: the windows of a term are one
//! line, from the place of the first window on, across the ends of rows. The columns there belong to no window.

use crate::executors::fusion::graph::slide::{self, Slide};
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::line_gemm::LANES;
use fulgurite_kernels::window::{self, Inside, Rectangle};

/// An axis of a plane.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// The number of windows; for the first axis, of a block of them.
    pub windows: usize,
    /// The distance from window to window.
    step: i64,
    /// The position of the first term of the first window.
    base: i64,
    /// The size of the source, and its stride in elements.
    source: (usize, isize),
    /// The remainders of the positions by the step that occur.
    rests: Vec<i64>,
    /// The number of elements that a plane has besides one for each window.
    reach: usize,
    /// The elements at the end of a line that are those at the start of the next line: zeros.
    shared: usize,
}

impl Axis {
    /// The axis of one term, at this distance from the first, of the windows of `slide`.
    pub fn of_term(slide: &Slide, count: usize, distance: i64, source: (usize, isize)) -> Axis {
        let base = slide.base + distance;
        Axis { windows: count, step: slide.along.1, base, source, rests: vec![0], reach: 0, shared: 0 }
    }

    /// The axis along which `count` windows of `terms` elements slide over a source of this size and stride.
    pub fn new(slide: &Slide, count: usize, terms: usize, source: (usize, isize)) -> Axis {
        let (step, spread) = (slide.along.1, slide.over.map_or(0, |o| o.1));
        let mut rests: Vec<i64> = (0..terms as i64).map(|t| t * spread % step).collect();
        rests.sort_unstable();
        rests.dedup();
        let reach = ((terms as i64 - 1) * spread / step) as usize;
        Axis { windows: count, step, base: slide.base, source, rests, reach, shared: 0 }
    }

    /// The elements of a plane along this axis.
    pub fn extent(&self) -> usize {
        self.windows + self.reach
    }

    /// The distance from line to line, if lines lie along this axis.
    pub fn pitch(&self) -> usize {
        self.extent() - self.shared
    }

    /// Lets lines along this axis share the zeros at their ends.
    fn share(&mut self) {
        let zeros = |rest: usize| {
            let (lo, hi) = self.inside(self.first(rest, 0));
            lo.min(self.extent() - hi)
        };
        self.shared = (0..self.rests.len()).map(zeros).min().unwrap_or(0).min(self.reach);
    }

    /// The number of the remainder, and the element of its plane, at this distance from the first term.
    fn place(&self, distance: i64) -> (usize, usize) {
        let rest = self.rests.iter().position(|r| *r == distance % self.step).unwrap_or(0);
        (rest, (distance / self.step) as usize)
    }

    /// The position in the source of the first element of a plane, from this window on.
    fn first(&self, rest: usize, window: usize) -> i64 {
        self.step * window as i64 + self.rests[rest] + self.base
    }

    /// The elements of a plane that lie inside of the source.
    fn inside(&self, first: i64) -> (usize, usize) {
        let (step, extent) = (self.step, self.extent() as i64);
        let at_least = |position: i64| ((position - first + step - 1).div_euclid(step)).clamp(0, extent) as usize;
        let (lo, hi) = (at_least(0), at_least(self.source.0 as i64));
        (lo, hi.max(lo))
    }
}

/// The copy.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// The sizes and strides in the source of the loops over planes.
    pub planes: Vec<(usize, isize)>,
    /// The axes, slowest first.
    pub axes: Vec<Axis>,
    kernel: window::Fn,
}

impl Windows {
    /// The copy with these planes and axes, at least one.
    pub fn new(planes: Vec<(usize, isize)>, mut axes: Vec<Axis>, isa: Level) -> Windows {
        // The windows of the first axis come in blocks, whose ends are not those of the source.
        if let [_, .., last] = axes.as_mut_slice() {
            last.share();
        }
        let straight = axes.last().is_some_and(|a| a.step == 1 && a.source.1 == 1);
        Windows { planes, axes, kernel: window::pick(4, straight, isa) }
    }

    /// The elements of a plane.
    fn plane(&self) -> usize {
        self.axes.iter().map(Axis::pitch).product::<usize>() + self.axes.last().map_or(0, |a| a.shared)
    }

    /// The planes of each setting of the loops over planes.
    fn rests(&self) -> usize {
        self.axes.iter().map(|a| a.rests.len()).product()
    }

    /// The elements of the copy, with those that a tile reads beyond its end.
    pub fn elements(&self) -> usize {
        self.planes.iter().map(|p| p.0).product::<usize>() * self.rests() * self.plane() + LANES
    }

    /// The start of the line for a setting of the loops over planes, and a distance along each axis.
    pub fn line(&self, plane: usize, distances: &[i64]) -> usize {
        let (mut rest, mut at) = (0, 0);
        for (axis, distance) in self.axes.iter().zip(distances) {
            let (r, element) = axis.place(*distance);
            rest = rest * axis.rests.len() + r;
            at = at * axis.pitch() + element;
        }
        (plane * self.rests() + rest) * self.plane() + at
    }

    /// Copies the windows from `window` of the first axis on.
    ///
    /// # Safety
    /// `from` is the element of the source at index 0 of every axis; `to` has room for [`Windows::elements`].
    pub unsafe fn copy(&self, from: *const f32, to: *mut f32, window: usize) {
        let mut to = to;
        let outer: usize = self.planes.iter().map(|p| p.0).product();
        for plane in 0..outer {
            let (mut rest, mut source) = (plane, from);
            for (size, stride) in self.planes.iter().rev() {
                source = source.wrapping_offset((rest % size) as isize * stride);
                rest /= size;
            }
            for rests in 0..self.rests() {
                // SAFETY: the caller upholds the contract; planes follow each other.
                unsafe { self.copy_plane(source, to, rests, window) };
                to = to.wrapping_add(self.plane());
            }
        }
        // SAFETY: the copy has room for these elements after its planes.
        unsafe { std::ptr::write_bytes(to, 0, LANES) };
    }

    /// Copies one plane.
    ///
    /// # Safety
    /// The contract of [`Windows::copy`] holds.
    unsafe fn copy_plane(&self, from: *const f32, to: *mut f32, rests: usize, window: usize) {
        let n = self.axes.len();
        let mut firsts = [0i64; slide::MOST];
        let mut rest = rests;
        for (at, axis) in self.axes.iter().enumerate().rev() {
            firsts[at] = axis.first(rest % axis.rests.len(), if at == 0 { window } else { 0 });
            rest /= axis.rests.len();
        }
        let col = &self.axes[n - 1];
        let (cols, pitch) = (col.extent(), col.pitch());
        let inside = col.inside(firsts[n - 1]);
        let from = from.wrapping_offset(firsts[n - 1] as isize * col.source.1);
        let rectangle = |from: *const f32, to: *mut f32, from_line: isize, lines: usize, inside: (usize, usize)| {
            let r = Rectangle {
                from: from as *const u8,
                to: to as *mut u8,
                from_line: 4 * from_line,
                to_line: 4 * pitch as isize,
                from_elem: 4 * col.step as isize * col.source.1,
                to_elem: 4,
                lines,
                cols,
                inside: Inside { lo: inside.0, hi: inside.1 },
            };
            if lines > 0 {
                // SAFETY: the caller upholds the contract; only elements inside of the source are read.
                unsafe { (self.kernel)(&r, &[0; 8]) };
            }
        };
        let Some(line) = n.checked_sub(2).map(|at| &self.axes[at]) else { return rectangle(from, to, 0, 1, inside) };
        let first = firsts[n - 2];
        let (lo, hi) = line.inside(first);
        let from = from.wrapping_offset(first as isize * line.source.1);
        let step = line.step as isize * line.source.1;
        let (sheets, (low, high)) = match n {
            3 => (self.axes[0].extent(), self.axes[0].inside(firsts[0])),
            _ => (1, (0, 1)),
        };
        for sheet in 0..sheets {
            let to = to.wrapping_add(sheet * line.extent() * pitch);
            if !(low..high).contains(&sheet) {
                rectangle(from, to, 0, line.extent(), (0, 0));
                continue;
            }
            let from = match n {
                3 => {
                    let axis = &self.axes[0];
                    from.wrapping_offset((firsts[0] + axis.step * sheet as i64) as isize * axis.source.1)
                }
                _ => from,
            };
            rectangle(from, to, 0, lo, (0, 0));
            let (source, target) = (from.wrapping_offset(lo as isize * step), to.wrapping_add(lo * pitch));
            rectangle(source, target, step, hi - lo, inside);
            rectangle(from, to.wrapping_add(hi * pitch), 0, line.extent() - hi, (0, 0));
        }
    }
}

/// How many of `all` windows of the first axis a block has, so that a copy for that many has at most `most` elements, as
/// `elements` tells, in blocks of about the same size.
pub(super) fn block(all: usize, most: usize, elements: impl Fn(usize) -> usize) -> usize {
    let (mut fits, mut beyond) = (1, all + 1);
    while fits + 1 < beyond {
        let middle = fits.midpoint(beyond);
        *if elements(middle) <= most { &mut fits } else { &mut beyond } = middle;
    }
    all.div_ceil(all.div_ceil(fits))
}

/// The copy of all windows of a product, which is one of [`Windows`], or one for each term along the last axis.
///
/// In one copy, the lines of a term cross the ends of rows, where columns belong to no window. With a copy for each term
/// along the last axis a row has as many elements as windows, so that there are no such columns: that pays for small
/// images.
#[derive(Clone, Debug)]
pub(super) struct WindowCopy {
    parts: Vec<Windows>,
}

impl WindowCopy {
    /// One copy for all terms.
    pub fn shared(planes: Vec<(usize, isize)>, axes: Vec<Axis>, isa: Level) -> WindowCopy {
        WindowCopy { parts: vec![Windows::new(planes, axes, isa)] }
    }

    /// A copy for each term along the last axis, whose axes `axes(term)` are.
    pub fn each(planes: &[(usize, isize)], terms: usize, axes: impl Fn(usize) -> Vec<Axis>, isa: Level) -> WindowCopy {
        WindowCopy { parts: (0..terms).map(|term| Windows::new(planes.to_vec(), axes(term), isa)).collect() }
    }

    /// The axes of the columns.
    pub fn axes(&self) -> &[Axis] {
        self.parts.first().map_or(&[], |part| &part.axes)
    }

    /// The elements of the copy, with those that a tile reads beyond its end.
    pub fn elements(&self) -> usize {
        self.parts.iter().map(Windows::elements).sum()
    }

    /// The elements of a row of the copy.
    pub fn row(&self) -> usize {
        self.axes().last().map_or(1, Axis::extent)
    }

    /// The start of the line for a setting of the loops over planes, a distance along each axis, and the term along the
    /// last axis.
    pub fn line(&self, plane: usize, distances: &[i64], term: usize) -> usize {
        match self.parts.as_slice() {
            [one] => one.line(plane, distances),
            parts => {
                let [outer @ .., _] = distances else { return 0 };
                let before: usize = parts[..term].iter().map(Windows::elements).sum();
                before + parts[term].line(plane, &[outer, &[0]].concat())
            }
        }
    }

    /// Copies the windows from `window` of the first axis on.
    ///
    /// # Safety
    /// `from` is the element of the source at index 0 of every axis; `to` has room for [`WindowCopy::elements`].
    pub unsafe fn copy(&self, from: *const f32, to: *mut f32, window: usize) {
        let mut to = to;
        for part in &self.parts {
            // SAFETY: the caller upholds the contract; parts follow each other.
            unsafe { part.copy(from, to, window) };
            to = to.wrapping_add(part.elements());
        }
    }
}
