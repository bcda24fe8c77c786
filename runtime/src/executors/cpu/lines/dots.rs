//! Products over places of which each element of the result is a sum of its own: no channels lie side by side, as in
//! the gradient of a convolution of each channel apart.
//!
//! The sliding operand is copied as for a product over windows, so that each term is a line; the left one is copied
//! with rows of whole vectors, whose rest is zeros.

use super::shape::Shape;
use super::windows::{self, Axis, Windows};
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::dots::{self, sums, total};
use fulgurite_kernels::line_gemm::LANES;
use fulgurite_kernels::window::{self, Inside, Rectangle};

/// At most this many elements of the sliding operand are used together, so that they stay in the caches.
const TOGETHER: usize = 32 * 1024;

/// The copies, and the lines of the terms.
#[derive(Clone, Debug)]
pub(super) struct Dots {
    windows: Windows,
    /// The places of the first axis in a block.
    block: usize,
    /// The start of each term's line, and its place in the result.
    lines: Vec<u32>,
    terms: Vec<isize>,
    compute: sums::Fn,
    packing: window::Fn,
}

impl Dots {
    /// The product of this shape, if its places can be counted in 32 bits.
    pub fn new(shape: &Shape, isa: Level) -> Option<Dots> {
        let axes = |first: usize| -> Vec<Axis> {
            let count = |i: usize, places: usize| if i == 0 { first } else { places };
            let axes = shape.axes.iter().enumerate();
            axes.map(|(i, a)| Axis::new(&a.slide, count(i, a.places), a.terms, a.source)).collect()
        };
        let elements = |n| Windows::new(Vec::new(), axes(n), isa).elements();
        let block = windows::block(shape.axes[0].places, TOGETHER, elements);
        let windows = Windows::new(Vec::new(), axes(block), isa);
        let count: usize = shape.axes.iter().map(|a| a.terms).product();
        let (mut lines, mut terms) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for term in 0..count {
            let (mut rest, mut to) = (term, 0);
            let mut distances = vec![0; shape.axes.len()];
            for (distance, a) in distances.iter_mut().zip(&shape.axes).rev() {
                let t = rest % a.terms;
                rest /= a.terms;
                *distance = t as i64 * a.slide.over.map_or(0, |o| o.1);
                to += t as isize * a.c;
            }
            lines.push(u32::try_from(windows.line(0, &distances)).ok()?);
            terms.push(to);
        }
        let straight = shape.axes.last().is_some_and(|a| a.a == 1);
        let (compute, packing) = (sums::pick(isa), window::pick(4, straight, isa));
        Some(Dots { windows, block, lines, terms, compute, packing })
    }

    /// The rows of a block, one for each setting of all axes but the last, and the vectors of a row.
    fn block_of(&self, shape: &Shape) -> (usize, usize) {
        let [outer @ .., last] = shape.axes.as_slice() else { return (0, 0) };
        let (rows, last) = match outer {
            [] => (1, self.block),
            [_, rest @ ..] => (self.block * rest.iter().map(|a| a.places).product::<usize>(), last.places),
        };
        (rows, last.div_ceil(LANES))
    }

    /// The elements of memory that a run over this many rows takes.
    pub fn room(&self, shape: &Shape, rows: usize) -> usize {
        let (lines, vectors) = self.block_of(shape);
        self.windows.elements() + lines * vectors * LANES + rows * self.lines.len() * LANES
    }

    /// Computes rows `rows.0..rows.1`; returns whether they are finite.
    ///
    /// # Safety
    /// The operands, of which the second slides, and the result start at these places; there is the
    /// [`room`](Dots::room) for as many rows.
    pub unsafe fn run(
        &self,
        shape: &Shape,
        (a, b, c): (*const f32, *const f32, *mut f32),
        rows: (usize, usize),
        room: *mut f32,
    ) -> bool {
        let (lines, vectors) = self.block_of(shape);
        let packed = room.wrapping_add(self.windows.elements());
        let sums = packed.wrapping_add(lines * vectors * LANES);
        let row = self.lines.len() * LANES;
        let images: usize = shape.images.iter().map(|l| l.size).product();
        let first = &shape.axes[0];
        // SAFETY: the caller upholds the contract; the room has the copies and the sums.
        unsafe {
            std::ptr::write_bytes(sums, 0, (rows.1 - rows.0) * row);
            for image in 0..images {
                let (mut a, mut b, mut rest) = (a, b, image);
                for l in shape.images.iter().rev() {
                    let i = (rest % l.size) as isize;
                    rest /= l.size;
                    (a, b) = (a.wrapping_offset(i * l.a), b.wrapping_offset(i * l.b));
                }
                for window in (0..first.places).step_by(self.block) {
                    let count = self.block.min(first.places - window);
                    self.windows.copy(b, room, window);
                    let a = a.wrapping_offset(window as isize * first.a);
                    for i in rows.0..rows.1 {
                        let a = a.wrapping_offset(i as isize * shape.rows.a);
                        self.add(shape, (a, room), packed, sums.add((i - rows.0) * row), count);
                    }
                }
            }
            let mut finite = true;
            for i in rows.0..rows.1 {
                let c = c.offset(i as isize * shape.rows.c);
                for (term, to) in self.terms.iter().enumerate() {
                    let sum = total(&*(sums.add((i - rows.0) * row + term * LANES) as *const [f32; LANES]));
                    finite &= sum.is_finite();
                    c.offset(*to).write(sum);
                }
            }
            finite
        }
    }

    /// Adds the products of a block of `count` places along the first axis.
    ///
    /// # Safety
    /// The left operand starts at the place of the block, and `b` has the copy of its windows; `packed` has room for a
    /// block of the left operand, and there are sums for each term.
    unsafe fn add(
        &self,
        shape: &Shape,
        (a, b): (*const f32, *const f32),
        packed: *mut f32,
        sums: *mut f32,
        count: usize,
    ) {
        let places = |at: usize| if at == 0 { count } else { shape.axes[at].places };
        let n = shape.axes.len();
        let last = &shape.axes[n - 1];
        let (cols, pitch) = (places(n - 1), self.windows.axes[n - 1].pitch());
        let vectors = cols.div_ceil(LANES);
        // the rows of a sheet, and the sheets
        let (rows, row) = if n > 1 { (places(n - 2), shape.axes[n - 2].a) } else { (1, 0) };
        let sheets = if n > 2 { (places(0), shape.axes[0].a) } else { (1, 0) };
        for sheet in 0..sheets.0 {
            let from = a.wrapping_offset(sheet as isize * sheets.1);
            let rectangle = Rectangle {
                from: from as *const u8,
                to: packed as *mut u8,
                from_line: 4 * row,
                to_line: (4 * vectors * LANES) as isize,
                from_elem: 4 * last.a,
                to_elem: 4,
                lines: rows,
                cols: vectors * LANES,
                inside: Inside { lo: 0, hi: cols },
            };
            let b = if n > 2 { b.wrapping_add(sheet * self.windows.axes[1].pitch() * pitch) } else { b };
            let (last, lines) = (cols - (vectors - 1) * LANES, self.lines.as_slice());
            let d = dots::Dots { a: packed, rows, vectors, last, b, pitch, lines, to: sums };
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                (self.packing)(&rectangle, &[0; 8]);
                (self.compute)(&d);
            }
        }
    }
}
