//! The loops of a product whose sum runs over the places of windows.

use super::operands::origin;
use crate::executors::cpu::product::{InMemory, OperandStart, ProductLoop, dims_of, largest, merged};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::graph::slide::Slide;
use crate::executors::fusion::graph::{Dim, DimSet};
use crate::executors::fusion::items::Env;

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

impl Shape {
    /// The loops of a contraction of which one operand slides and the places are summed.
    pub fn of(c: &Contract, env: &Env, swapped: bool) -> Option<Shape> {
        let (left, right) = if swapped { (&c.b, &c.a) } else { (&c.a, &c.b) };
        let (in_a, in_b) = (dims_of(left), dims_of(right));
        let summed: DimSet = c.reduced.iter().copied().collect();
        let own = in_b.minus(in_a);
        let shape = &env.values.ty(right.value).shape;
        let slides = right.sums_windows(own, summed, shape, &c.sizes).filter(|_| left.lies(&c.sizes))?;
        let InMemory { forms, mut starts, loops } = InMemory::of((left, right), c, env.form);
        let axis = |d: Dim| loops[d as usize];
        let sliding: DimSet = slides.iter().flat_map(|s| [s.along.0].into_iter().chain(s.over.map(|o| o.0))).collect();
        let kind = |set: DimSet| merged(set.minus(sliding).iter().map(axis).filter(|l| l.size > 1).collect());
        let (rows, mut outer) = largest(kind(in_a.minus(in_b)));
        let (channels, more) = largest(kind(own));
        outer.extend(more);
        outer.extend(kind(in_a.meet(in_b).minus(summed)));
        outer.sort_by_key(|l| -l.c.abs());
        starts[1].offset = origin(right, &slides, &forms[1], starts[1].offset);
        let axes = slides.iter().map(|s| Axis {
            slide: *s,
            places: axis(s.along.0).size,
            a: axis(s.along.0).a,
            terms: s.over.map_or(1, |o| axis(o.0).size),
            c: s.over.map_or(0, |o| axis(o.0).c),
            source: (shape[s.axis], forms[1].strides[s.axis] as isize),
        });
        let axes = axes.collect();
        Some(Shape { starts, outer, rows, channels, images: kind(summed), axes })
    }

    /// The summed elements.
    pub fn depth(&self) -> usize {
        self.images.iter().map(|l| l.size).chain(self.axes.iter().map(|a| a.places)).product()
    }

    /// The columns: channels and terms.
    pub fn columns(&self) -> usize {
        self.channels.size * self.axes.iter().map(|a| a.terms).product::<usize>()
    }
}
