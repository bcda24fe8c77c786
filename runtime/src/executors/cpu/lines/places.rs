//! Products whose sum runs over the places of windows, such as the gradient of a convolution's weights:
//! `c[i, k, t] = Σ_o a[i, o] · b[k, o · step + t · spread + base]`.
//!
//! Where channels or terms lie side by side in a copy of the sliding operand, each place is a line of columns
//! ([`Pixels`]). Otherwise each element of the result is a sum of its own, along lines of windows ([`Dots`]).

use super::dots::Dots;
use super::operands::start;
use super::pixels::Pixels;
use super::shape::Shape;
use super::step::{Method, ProductFacts};
use crate::executors::cpu::product::{FLOPS_PER_NS, ONE};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, FirstFault, Memory};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use std::sync::atomic::{AtomicBool, Ordering};

/// Fewer columns side by side are summed one by one.
const NARROW: usize = 8;

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
    fn facts(&self) -> ProductFacts {
        let (rows, columns, depth) = (self.shape.rows.size, self.shape.columns(), self.shape.depth());
        ProductFacts {
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
        threads::share(around * parts, threads, self.cost, &|claims| {
            let Some(block) = fault.block(4 * room) else { return };
            for task in claims.flatten() {
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
