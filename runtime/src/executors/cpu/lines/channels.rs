//! Depthwise convolutions of planes that are narrower than a few vectors: the channels of a vector are copied side by side,
//! with room around the planes, and their sums are moved back ([`fulgurite_kernels::channels`]).

use super::direct::DirectProduct;
use super::operands::start;
use super::step::{Method, ProductFacts};
use crate::executors::cpu::product::ProductLoop;
use crate::executors::program::host_step::{Fault, FirstFault, Memory};
use crate::executors::program::threads;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::channels::{ChannelPlanes, LANES, window_sums};
use fulgurite_kernels::line_gemm::finite;
use fulgurite_kernels::transpose::{Moved, move_to};
use std::sync::atomic::{AtomicBool, Ordering};

/// At most this many elements of planes with room around them, so that they stay in the second-level cache.
const MOST_COPIED: usize = 64 * 1024;
/// Estimated nanoseconds: of one term of a vector of windows of one plane, next to each other or further apart; of one
/// term of the channels of a window; and of one element that is moved.
const PLANE_TERM: (f64, f64) = (0.6, 0.9);
const CHANNEL_TERM: f64 = 0.13;
const MOVED: f64 = 0.16;

/// A compiled product.
pub(super) struct ChannelProduct {
    /// The product plane by plane.
    direct: DirectProduct,
    /// The loop over channels, and the loops around it.
    channels: ProductLoop,
    around: Vec<ProductLoop>,
    /// The place of a plane within the room around it, and the rows and columns of both.
    origin: (usize, usize),
    size: (usize, usize),
    /// The first term of the first window, and the distance of each term from it, in elements of the copy.
    first: usize,
    terms: Vec<u32>,
    /// The place of each term's factor.
    factors: Vec<isize>,
    moving: move_to::Fn,
    finite: finite::Fn,
    compute: window_sums::Fn,
}

impl ChannelProduct {
    /// Makes the product that sums channels side by side of the product plane by plane, if that pays.
    pub fn of(direct: &DirectProduct, isa: Level) -> Option<impl FnOnce(DirectProduct) -> ChannelProduct + use<>> {
        let (channels, around, room) = ChannelProduct::parts(direct, isa)?;
        let place = |t: (isize, isize)| {
            let (row, column) = (t.0 + room.origin.0 as isize, t.1 + room.origin.1 as isize);
            (row as usize * room.size.1 + column as usize) * LANES
        };
        let places: Vec<usize> = direct.term_places().map(place).collect();
        let first = places.iter().copied().min().unwrap_or(0);
        let terms = places.iter().map(|p| (p - first) as u32).collect();
        let (moving, finite, compute) = (move_to::pick(isa), finite::pick(isa), window_sums::pick(isa));
        let (factors, Room { origin, size }) = (direct.factors().collect(), room);
        Some(move |direct| ChannelProduct {
            direct,
            channels,
            around,
            origin,
            size,
            first,
            terms,
            factors,
            moving,
            finite,
            compute,
        })
    }

    /// The loop over channels, the loops around it, and the room around a plane.
    fn parts(d: &DirectProduct, isa: Level) -> Option<(ProductLoop, Vec<ProductLoop>, Room)> {
        let last = d.outer.iter().rposition(|l| l.a != 0 && l.b != 0 && l.c != 0)?;
        let channels = d.outer[last];
        let mut around = d.outer.clone();
        around.remove(last);
        let lies = d.row == d.size.1 as isize && d.to_row == d.windows.1 as isize;
        if isa == Level::Baseline || channels.size < LANES || !lies || d.step < 1 {
            return None;
        }
        let room = Room::of(d);
        let copied = room.size.0.checked_mul(room.size.1)?.checked_mul(LANES)?;
        let (rows, columns) = d.windows;
        let (windows, plane, terms) = (rows * columns, d.size.0 * d.size.1, d.term_count() as f64);
        // Columns of a vector that belong to no window are computed too if planes stay where they lie.
        let one = if d.across == 1 { PLANE_TERM.0 } else { PLANE_TERM.1 };
        let by_planes = (LANES * rows * columns.div_ceil(LANES)) as f64 * terms * one;
        let by_channels = windows as f64 * terms * CHANNEL_TERM + ((windows + plane) * LANES) as f64 * MOVED;
        (by_channels < by_planes && copied <= MOST_COPIED).then_some((channels, around, room))
    }

    /// The elements of the copies of a task: planes with room, planes or sums without, and factors.
    fn elements(&self) -> [usize; 3] {
        let (plane, sums) = (self.direct.size.0 * self.direct.size.1, self.direct.windows.0 * self.direct.windows.1);
        [self.size.0 * self.size.1 * LANES, plane.max(sums) * LANES, self.terms.len() * LANES]
    }

    /// Copies the factors of `count` channels side by side; those of channels that do not exist are zero.
    ///
    /// # Safety
    /// `from` is the first channel's place; `to` has room for [`LANES`] factors of each term.
    unsafe fn copy_factors(&self, from: *const f32, count: usize, to: *mut f32) {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            if count < LANES {
                std::ptr::write_bytes(to, 0, self.terms.len() * LANES);
            }
            let mut term = 0;
            // terms whose factors follow each other are moved together
            for run in self.factors.chunk_by(|a, b| a + 1 == *b) {
                (self.moving)(&Moved {
                    from: from.offset(run[0]),
                    from_steps: (self.channels.a, 1),
                    to: to.add(term * LANES),
                    to_steps: (1, LANES as isize),
                    rows: count,
                    cols: run.len(),
                });
                term += run.len();
            }
        }
    }

    /// Copies `count` channels of planes side by side, and to the middle of the room around them.
    ///
    /// # Safety
    /// `from` is the first plane; `to` has the room, and `between` that of planes without it.
    unsafe fn copy(&self, from: *const f32, count: usize, between: *mut f32, to: *mut f32) {
        let (rows, columns) = self.direct.size;
        let whole = (rows, columns) == self.size;
        let beside = if whole { to } else { between };
        let m = Moved {
            from,
            from_steps: (self.channels.b, 1),
            to: beside,
            to_steps: (1, LANES as isize),
            rows: count,
            cols: rows * columns,
        };
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            (self.moving)(&m);
            if whole {
                return;
            }
            for row in 0..rows {
                let at = ((row + self.origin.0) * self.size.1 + self.origin.1) * LANES;
                let from = between.add(row * columns * LANES);
                std::ptr::copy_nonoverlapping(from, to.add(at), columns * LANES);
            }
        }
    }
}

/// The room around a plane: the first row and column of the plane within it, and its rows and columns.
struct Room {
    origin: (usize, usize),
    size: (usize, usize),
}

impl Room {
    fn of(d: &DirectProduct) -> Room {
        let axis = |terms: &mut dyn Iterator<Item = isize>, step: usize, windows: usize, size: usize| {
            let (least, most) = terms.fold((0isize, 0isize), |(lo, hi), t| (lo.min(t), hi.max(t)));
            let before = least.unsigned_abs();
            let reach = (windows.max(1) - 1) * step + most.unsigned_abs() + 1;
            (before, before + reach.max(size))
        };
        let down = axis(&mut d.term_places().map(|t| t.0), d.step.unsigned_abs(), d.windows.0, d.size.0);
        let across = axis(&mut d.term_places().map(|t| t.1), d.across, d.windows.1, d.size.1);
        Room { origin: (down.0, across.0), size: (down.1, across.1) }
    }
}

impl Method for ChannelProduct {
    fn facts(&self) -> ProductFacts {
        ProductFacts { over: "windows, channels side by side", ..self.direct.facts() }
    }

    unsafe fn multiply(&self, operands: Memory, threads: usize) -> Result<bool, Fault> {
        let d = &self.direct;
        let groups = self.channels.size.div_ceil(LANES);
        let around: usize = self.around.iter().map(|l| l.size).product();
        let [copied, between, factors] = self.elements();
        // A zero outside of a plane is a zero of the sum unless its factor is not finite.
        let (fault, all_finite) = (FirstFault::default(), AtomicBool::new(true));
        threads::share(around * groups, threads, d.facts().cost, &|claims| {
            let Some(block) = fault.block(size_of::<f32>() * (copied + between + factors)) else { return };
            let copy = block.data() as *mut f32;
            // SAFETY: the block has this room.
            let (side, scales) = unsafe { (copy.add(copied), copy.add(copied + between)) };
            // SAFETY: the block has this room; what lies around planes stays zero.
            unsafe { std::ptr::write_bytes(copy, 0, copied + between + factors) };
            for task in claims.flatten() {
                let at = start(&d.places, &self.around, task / groups);
                let first = task % groups * LANES;
                let count = LANES.min(self.channels.size - first);
                let by = |offset: isize, step: isize| offset + first as isize * step;
                // SAFETY: the caller upholds the contract: the channels exist, and tasks write different ones. The block has
                // room for the copies.
                unsafe {
                    let from = (operands.at(0) as *const f32).wrapping_offset(by(at.a, self.channels.a));
                    self.copy_factors(from, count, scales);
                    if !(self.finite)(scales, factors) {
                        all_finite.store(false, Ordering::Relaxed);
                    }
                    let from = (operands.at(1) as *const f32).wrapping_offset(by(at.b, self.channels.b));
                    self.copy(from, count, side, copy);
                    (self.compute)(&ChannelPlanes {
                        from: copy.add(self.first),
                        steps: (d.step.unsigned_abs() * self.size.1 * LANES, d.across * LANES),
                        terms: &self.terms,
                        factors: scales,
                        to: side,
                        windows: d.windows,
                    });
                    (self.moving)(&Moved {
                        from: side,
                        from_steps: (LANES as isize, 1),
                        to: (operands.at(2) as *mut f32).wrapping_offset(by(at.c, self.channels.c)),
                        to_steps: (1, self.channels.c),
                        rows: d.windows.0 * d.windows.1,
                        cols: count,
                    });
                }
            }
        });
        fault.result().map(|()| all_finite.into_inner())
    }
}
