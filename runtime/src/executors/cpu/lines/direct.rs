//! Products over windows that have one row, such as depthwise convolutions: they read the windows where they lie
//! ([`fulgurite_kernels::direct`]).

use super::operands::{origin, start};
use super::step::{Method, ProductFacts};
use crate::executors::cpu::product::{FLOPS_PER_NS, InMemory, OperandStart, ProductLoop, dims_of, merged};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::graph::slide::Slide;
use crate::executors::fusion::graph::{Dim, DimSet};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, Memory};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::direct::{self, MOST_TERMS, Plane, WindowTerm};
use std::sync::atomic::{AtomicBool, Ordering};

/// A term of every window: the offset of its factor, and its row and column in the first window.
#[derive(Clone, Copy)]
struct Place {
    factor: isize,
    row: isize,
    column: isize,
}

/// A compiled product.
pub(super) struct DirectProduct {
    /// The places of the factors, the planes and the result.
    pub places: [OperandStart; 3],
    pub outer: Vec<ProductLoop>,
    terms: Vec<Place>,
    /// The rows and columns of a plane and of its windows.
    pub size: (usize, usize),
    pub windows: (usize, usize),
    /// The distances from row to row of a plane and of the result, and in rows and columns from window to window.
    pub row: isize,
    pub to_row: isize,
    pub step: isize,
    pub across: usize,
    compute: direct::Fn,
    cost: f64,
}

impl DirectProduct {
    /// The product that computes a contraction, if it has this form.
    pub fn new(c: &Contract, env: &Env, isa: Level) -> Option<DirectProduct> {
        [false, true].into_iter().find_map(|swapped| DirectProduct::of(c, env, swapped, isa))
    }

    /// The product whose left operand (`swapped`: whose right one) has the factors.
    fn of(c: &Contract, env: &Env, swapped: bool, isa: Level) -> Option<DirectProduct> {
        let (left, right) = if swapped { (&c.b, &c.a) } else { (&c.a, &c.b) };
        let single = |v: u32| env.values.ty(v).dtype == DType::F32;
        if c.chunk.is_some() || ![left.value, right.value, c.out].into_iter().all(single) || !left.lies(&c.sizes) {
            return None;
        }
        let InMemory { forms, starts: mut places, loops } = InMemory::of((left, right), c, env.form);
        let summed: DimSet = c.reduced.iter().copied().collect();
        let all: DimSet = (0..c.sizes.len() as Dim).filter(|d| c.sizes[*d as usize] > 1).collect();
        let (in_a, in_b) = (dims_of(left), dims_of(right));
        let own = in_b.minus(in_a).minus(summed);
        let shape = &env.values.ty(right.value).shape;
        let slides = right.slides(own, summed, shape, &c.sizes)?;
        let over: DimSet = slides.iter().filter_map(|s| s.over).map(|o| o.0).collect();
        let rows = in_a.minus(in_b).minus(summed).meet(all);
        if !rows.is_empty() || !summed.meet(all).within(over) {
            return None;
        }
        let (sheet, last) = match slides.as_slice() {
            [last] => (None, last),
            [sheet, last] => (Some(sheet), last),
            _ => return None,
        };
        let (along, column) = (&loops[last.along.0 as usize], forms[1].strides[last.axis]);
        if column != 1 || along.c != 1 {
            return None;
        }
        let across = usize::try_from(last.along.1).ok()?;
        let compute = direct::pick(isa, across)?;
        let terms = terms(sheet, last, &loops, summed.meet(all))?;
        places[1].offset = origin(right, &slides, &forms[1], places[1].offset);
        let sliding: DimSet = slides.iter().map(|s| s.along.0).collect();
        let around = in_a.union(in_b).minus(summed).minus(sliding).meet(all);
        let mut outer = merged(around.iter().map(|d| loops[d as usize]).collect());
        outer.sort_by_key(|l| -l.c.abs());
        let of_sheet = |s: &Slide| (shape[s.axis], forms[1].strides[s.axis] as isize, loops[s.along.0 as usize]);
        let (height, row, rows) = sheet.map_or((1, 0, ProductLoop { size: 1, a: 0, b: 0, c: 0 }), of_sheet);
        let planes: usize = outer.iter().map(|l| l.size).product();
        let work = rows.size * along.size.next_multiple_of(16) * (terms.len() + 2);
        Some(DirectProduct {
            places,
            outer,
            terms,
            size: (height, shape[last.axis]),
            windows: (rows.size, along.size),
            row,
            to_row: rows.c,
            step: sheet.map_or(1, |s| s.along.1 as isize),
            across,
            compute,
            cost: 150.0 + (planes * (2 * work + 500)) as f64 / FLOPS_PER_NS,
        })
    }
}

impl DirectProduct {
    /// The number of terms of a window.
    pub fn term_count(&self) -> usize {
        self.terms.len()
    }

    /// The row and column of each term in the first window, which may lie outside of the plane.
    pub fn term_places(&self) -> impl Iterator<Item = (isize, isize)> {
        self.terms.iter().map(|t| (t.row, t.column))
    }

    /// The place of each term's factor.
    pub fn factors(&self) -> impl Iterator<Item = isize> {
        self.terms.iter().map(|t| t.factor)
    }
}

/// The terms of windows along one or two axes, in the order of the factors.
fn terms(sheet: Option<&Slide>, last: &Slide, loops: &[ProductLoop], summed: DimSet) -> Option<Vec<Place>> {
    let mut sums: Vec<Dim> = summed.iter().collect();
    sums.sort_by_key(|d| -loops[*d as usize].a);
    let count =
        sums.iter().try_fold(1usize, |n, d| n.checked_mul(loops[*d as usize].size)).filter(|n| *n <= MOST_TERMS)?;
    let base = |s: Option<&Slide>| s.map_or(0, |s| s.base as isize);
    let place = |k: usize| {
        let mut at = Place { factor: 0, row: base(sheet), column: base(Some(last)) };
        let mut rest = k;
        for d in sums.iter().rev() {
            let l = &loops[*d as usize];
            let index = rest % l.size;
            rest /= l.size;
            at.factor += index as isize * l.a;
            let distance = |s: &Slide| {
                let spread = s.over.filter(|o| o.0 == *d).map_or(0, |o| o.1) as isize;
                spread * if s.reversed { l.size - 1 - index } else { index } as isize
            };
            at.row += sheet.map_or(0, distance);
            at.column += distance(last);
        }
        at
    };
    Some((0..count).map(place).collect())
}

impl Method for DirectProduct {
    fn facts(&self) -> ProductFacts {
        let (columns, depth) = (self.windows.0 * self.windows.1, self.terms.len());
        ProductFacts {
            values: self.places.map(|p| p.value),
            sizes: [self.outer.iter().map(|l| l.size).product(), 1, columns, depth],
            moved: depth + self.size.0 * self.size.1 + columns,
            cost: self.cost,
            over: "windows where they lie",
        }
    }

    unsafe fn multiply(&self, operands: Memory, threads: usize) -> Result<bool, Fault> {
        // A zero outside of a plane is a zero of the sum unless its factor is not finite.
        let all_finite = AtomicBool::new(true);
        let planes = self.outer.iter().map(|l| l.size).product();
        threads::share(planes, threads, self.cost, &|claims| {
            let mut terms = [WindowTerm { row: 0, column: 0, factor: 0.0 }; MOST_TERMS];
            for plane in claims.flatten() {
                let at = start(&self.places, &self.outer, plane);
                let factors = (operands.at(0) as *const f32).wrapping_offset(at.a);
                for (term, place) in terms.iter_mut().zip(&self.terms) {
                    // SAFETY: the caller upholds the contract: the factor of each term exists.
                    let factor = unsafe { factors.offset(place.factor).read() };
                    *term = WindowTerm { row: place.row, column: place.column, factor };
                }
                let terms = &terms[..self.terms.len()];
                if !terms.iter().all(|t| t.factor.is_finite()) {
                    all_finite.store(false, Ordering::Relaxed);
                }
                let plane = Plane {
                    from: (operands.at(1) as *const f32).wrapping_offset(at.b),
                    size: self.size,
                    row: self.row,
                    step: self.step,
                    to: (operands.at(2) as *mut f32).wrapping_offset(at.c),
                    windows: self.windows,
                    to_row: self.to_row,
                    terms,
                };
                // SAFETY: the caller upholds the contract; planes have different results.
                unsafe { (self.compute)(&plane) };
            }
        });
        Ok(all_finite.into_inner())
    }
}
