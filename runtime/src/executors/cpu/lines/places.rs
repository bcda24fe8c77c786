//! Products whose sum runs over the places of windows, such as the gradient of a convolution's weights:
//! `c[i, k, t] = Σ_o a[i, o] · b[k, o · step + t · spread + base]`.
//!
//! Where channels or terms lie side by side in a copy of the sliding operand, each place is a line of columns
//! ([`Pixels`]). Otherwise each element of the result is a sum of its own, along lines of windows ([`Dots`]).

use super::dots::Dots;
use super::operands::{origin, start};
use super::pixels::Pixels;
use super::step::{Facts, Method};
use crate::executors::cpu::product::{
    FLOPS_PER_NS, ONE, OperandStart, ProductLoop, dims_of, largest, merged, result_strides, strides,
};
use crate::executors::fusion::fuse::Form;
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::graph::slide::Slide;
use crate::executors::fusion::graph::{Dim, DimSet};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, FirstFault, Memory};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use std::sync::atomic::{AtomicBool, Ordering};

/// An axis along which windows slide.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// The windows: their number is `places`.
    pub slide: Slide,
    pub places: usize,
    /// The distance of places in the left operand.
    pub a: isize,
    /// The terms of a window.
    pub terms: usize,
    /// The distance of terms in the result.
    pub c: isize,
    /// The size of the source, and its stride in elements.
    pub source: (usize, isize),
}

/// The loops of a product over places.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// The places of the operands and the result. The sliding operand starts at index 0 of the axes.
    pub starts: [OperandStart; 3],
    /// The loops around the product.
    pub outer: Vec<ProductLoop>,
    /// The rows, which only the left operand has.
    pub rows: ProductLoop,
    /// The largest loop besides the terms that only the sliding operand has.
    pub channels: ProductLoop,
    /// The summed loops that are no places, slowest first.
    pub images: Vec<ProductLoop>,
    /// The axes, slowest first.
    pub axes: Vec<Axis>,
}

/// Fewer columns side by side are summed one by one.
const NARROW: usize = 8;

impl Shape {
    /// The loops of a contraction of which one operand slides and the places are summed.
    fn of(c: &Contract, env: &Env, swapped: bool) -> Option<Shape> {
        let (left, right) = if swapped { (&c.b, &c.a) } else { (&c.a, &c.b) };
        let (in_a, in_b) = (dims_of(left), dims_of(right));
        let summed: DimSet = c.reduced.iter().copied().collect();
        let own = in_b.minus(in_a);
        let shape = &env.values.ty(right.value).shape;
        let slides = right.sums_windows(own, summed, shape, &c.sizes).filter(|_| left.lies(&c.sizes))?;
        let (fa, fb, fc) = ((env.form)(left.value), (env.form)(right.value), (env.form)(c.out));
        let (a0, a) = strides(left, &fa, c.sizes.len());
        let (b0, b) = strides(right, &fb, c.sizes.len());
        let out = result_strides(c, &fc);
        let axis = |d: Dim| {
            let at = d as usize;
            ProductLoop { size: c.sizes[at], a: a[at], b: b[at], c: out[at] }
        };
        let sliding: DimSet = slides.iter().flat_map(|s| [s.along.0].into_iter().chain(s.over.map(|o| o.0))).collect();
        let kind = |set: DimSet| merged(set.minus(sliding).iter().map(axis).filter(|l| l.size > 1).collect());
        let (rows, mut outer) = largest(kind(in_a.minus(in_b)));
        let (channels, more) = largest(kind(own));
        outer.extend(more);
        outer.extend(kind(in_a.meet(in_b).minus(summed)));
        outer.sort_by_key(|l| -l.c.abs());
        let place = |f: &Form, offset| OperandStart { value: f.root, offset };
        let starts = [place(&fa, a0), place(&fb, origin(right, &slides, &fb, b0)), place(&fc, fc.offset as isize)];
        let axes = slides.iter().map(|s| Axis {
            slide: *s,
            places: c.sizes[s.along.0 as usize],
            a: a[s.along.0 as usize],
            terms: s.over.map_or(1, |o| c.sizes[o.0 as usize]),
            c: s.over.map_or(0, |o| out[o.0 as usize]),
            source: (shape[s.axis], fb.strides[s.axis] as isize),
        });
        let axes = axes.collect();
        Some(Shape { starts, outer, rows, channels, images: kind(summed), axes })
    }

    /// The summed elements.
    fn depth(&self) -> usize {
        self.images.iter().map(|l| l.size).chain(self.axes.iter().map(|a| a.places)).product()
    }

    /// The columns: channels and terms.
    fn columns(&self) -> usize {
        self.channels.size * self.axes.iter().map(|a| a.terms).product::<usize>()
    }
}

/// The way in which sums are computed.
enum Way {
    Pixels(Pixels),
    Dots(Dots),
}

/// A compiled product.
pub(super) struct PlaceProduct {
    shape: Shape,
    way: Way,
    cost: f64,
}

impl PlaceProduct {
    /// The product that computes a contraction, if it has this form.
    pub fn new(c: &Contract, env: &Env, isa: Level) -> Option<PlaceProduct> {
        let single = |v: u32| env.values.ty(v).dtype == DType::F32;
        if c.chunk.is_some() || ![c.a.value, c.b.value, c.out].into_iter().all(single) {
            return None;
        }
        let mut shape = [false, true].into_iter().find_map(|swapped| Shape::of(c, env, swapped))?;
        let way = if Pixels::width(&shape) >= NARROW {
            Way::Pixels(Pixels::new(&shape, isa)?)
        } else {
            // each channel is a sum of its own
            if shape.channels.size > 1 {
                shape.outer.push(shape.channels);
                shape.channels = ONE;
            }
            Way::Dots(Dots::new(&shape, isa)?)
        };
        let around: usize = shape.outer.iter().map(|l| l.size).product();
        let (m, n, k) = (shape.rows.size, shape.columns(), shape.depth());
        let flops = (2 * around * m * n * k) as f64;
        let copied = (around * k * (m + shape.channels.size)) as f64;
        let cost = 150.0 + around as f64 * 100.0 + flops / FLOPS_PER_NS + copied / 4.0;
        Some(PlaceProduct { shape, way, cost })
    }

    fn around(&self) -> usize {
        self.shape.outer.iter().map(|l| l.size).product()
    }
}

impl Method for PlaceProduct {
    fn facts(&self) -> Facts {
        let (rows, columns, depth) = (self.shape.rows.size, self.shape.columns(), self.shape.depth());
        Facts {
            values: self.shape.starts.map(|p| p.value),
            sizes: [self.around(), rows, columns, depth],
            moved: rows * depth + self.shape.channels.size * depth + rows * columns,
            cost: self.cost,
            over: match self.way {
                Way::Pixels(_) => "places",
                Way::Dots(_) => "places one by one",
            },
        }
    }

    unsafe fn multiply(&self, operands: Memory, threads: usize) -> Result<bool, Fault> {
        let (around, rows) = (self.around(), self.shape.rows.size);
        let shared = threads > 1 && self.cost >= threads::WORTH_SHARING;
        // Few products are divided further, by their rows. Each part copies the sliding operand for itself.
        let wanted = if shared { (2 * threads).div_ceil(around.max(1)) } else { 1 };
        let part = match &self.way {
            Way::Pixels(p) => rows.div_ceil(wanted).next_multiple_of(2 * p.tile.0),
            Way::Dots(_) => rows.div_ceil(wanted),
        };
        let parts = rows.div_ceil(part);
        let room = match &self.way {
            Way::Pixels(p) => p.room(part.min(rows)),
            Way::Dots(d) => d.room(&self.shape, part.min(rows)),
        };
        let (fault, all_finite) = (FirstFault::default(), AtomicBool::new(true));
        threads::share(around * parts, threads, self.cost, &|from, to| {
            let Some(block) = fault.block(4 * room) else { return };
            for task in from..to {
                let (at, first) = (start(&self.shape.starts, &self.shape.outer, task / parts), task % parts * part);
                let rows = (first, (first + part).min(rows));
                let [a, b, c] = [0, 1, 2].map(|n| operands.at(n) as *mut f32);
                let (a, b, c) = (a.wrapping_offset(at.a), b.wrapping_offset(at.b), c.wrapping_offset(at.c));
                let room = block.data() as *mut f32;
                // SAFETY: the caller upholds the contract; the block has the room, and tasks write disjoint elements.
                let finite = unsafe {
                    match &self.way {
                        Way::Pixels(p) => p.run(&self.shape, (a, b, c), rows, room),
                        Way::Dots(d) => d.run(&self.shape, (a, b, c), rows, room),
                    }
                };
                if !finite {
                    all_finite.store(false, Ordering::Relaxed);
                }
            }
        });
        fault.result().map(|()| all_finite.into_inner())
    }
}
