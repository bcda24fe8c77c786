//! Copies windows out of a tensor: elements at affine positions, some of which may lie outside of its axes.
//!
//! Such copies are the operand of a convolution's product, padding, and unfolding; their adjoint
//! adds elements up ([`Im2col::added`]). The loops run in the order of the result. The two fastest
//! loops form a rectangle, in which the positions inside the tensor are an interval of lines and an
//! interval of columns.

mod added;

use super::tiles::{Linear, load_bytes, out_bytes, stored_bits};
use crate::executors::fusion::fuse::{Group, live};
use crate::executors::fusion::graph::piece::Place;
use crate::executors::fusion::graph::{Axis, Index, Load, Op};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{HostStep, Memory, Stopped};
use crate::executors::program::threads;
use fulgurite_core::Scalar;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::fill;
use fulgurite_kernels::window::{self, Inside, Rectangle};
use smallvec::SmallVec;

/// A loop: its extent, and the distance in bytes from index to index in source and result.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Loop {
    size: usize,
    from: isize,
    to: isize,
}

/// A position that must be at least 0 and below `size`: `base + Σ coefficient · loop`.
#[derive(Clone, Debug)]
struct Bound {
    base: i64,
    size: i64,
    coefs: SmallVec<[i64; 6]>,
}

/// A compiled copy.
#[derive(Clone, Debug)]
pub struct Im2col {
    /// For source and result: the value (later the storage), and the byte at index 0.
    pub places: [(u32, isize); 2],
    /// The loops, at least two, slowest first.
    loops: SmallVec<[Loop; 6]>,
    bounds: Vec<Bound>,
    /// The size of an element in bytes.
    bytes: usize,
    /// The stored form of the element that stands for positions outside.
    value: [u8; 8],
    kernel: window::Fn,
    /// The sums that elements are added to, if they are not copied.
    sums: Option<Sums>,
    /// Estimated nanoseconds on one thread.
    pub cost: f64,
}

/// Sums at which elements meet.
#[derive(Clone, Copy, Debug)]
struct Sums {
    /// The bytes of all sums, which begin with 0.
    bytes: usize,
    /// Whether elements of different steps of the first loop never meet, so that threads may divide it.
    divided: bool,
}

/// The load and the axes of a group that only copies elements and keeps their dtype.
fn only_copies<'g>(group: &'g Group, env: &Env) -> Option<(u32, &'g Load, &'g [Axis])> {
    let [out] = group.outs.as_slice() else { return None };
    let (Op::Load(load), Place::Axes(axes)) = (&group.graph.node(out.node).op, &out.place) else { return None };
    let dtype = env.values.ty(out.value).dtype;
    let alone = live(group).iter().filter(|l| **l).count() == 1;
    let same = env.values.ty(load.value).dtype == dtype && group.graph.node(out.node).ty == dtype;
    (alone && same && load.idx.iter().all(|i| matches!(i, Index::Affine(_)))).then_some((out.value, load, axes))
}

impl Im2col {
    /// The copy that a group performs, if it reads beyond its source.
    pub fn padded(group: &Group, env: &Env, isa: Level) -> Option<Im2col> {
        let (_, load, _) = only_copies(group, env)?;
        load.outside?;
        Im2col::new(group, env, isa)
    }

    /// The copy that a group performs, if it only copies.
    pub fn new(group: &Group, env: &Env, isa: Level) -> Option<Im2col> {
        let (value, load, axes) = only_copies(group, env)?;
        let (sizes, dims) = (&group.graph.sizes, group.graph.sizes.len());
        let (ty, source) = (env.values.ty(value), env.values.ty(load.value));
        let bytes = ty.dtype.size();
        let from = load_bytes(load, env, dims);
        let to = out_bytes(value, axes, env, sizes, bytes as i64);
        let mut bounds = Vec::new();
        for (index, &size) in load.idx.iter().zip(&source.shape) {
            let Index::Affine(a) = index else { return None };
            let (lo, hi) = a.range(sizes);
            if lo < 0 || hi >= size as i64 {
                let mut coefs = SmallVec::from_elem(0, dims);
                a.terms.iter().for_each(|&(d, c)| coefs[d as usize] = c);
                bounds.push(Bound { base: a.base, size: size as i64, coefs });
            }
        }
        let mut order: Vec<usize> = axes.iter().flatten().map(|d| *d as usize).filter(|d| sizes[*d] > 1).collect();
        order.sort_by_key(|d| -to.coefs[*d].abs());
        let loops = merged(&order, sizes, &from, &to, &mut bounds);
        let contiguous = loops.last().is_some_and(|l| l.from == bytes as isize && l.to == bytes as isize);
        let (value_bits, _) = stored_bits(load.outside.map_or(Scalar::Int(0), |b| b.scalar()), ty.dtype);
        let (lines, elements) = (loops[loops.len() - 2].size, ty.elements());
        let rectangles = elements / (lines * loops[loops.len() - 1].size).max(1);
        Some(Im2col {
            places: [((env.form)(load.value).root, from.base as isize), (value, to.base as isize)],
            cost: rectangles as f64 * (20.0 + 2.0 * lines as f64) + elements as f64 * 0.2,
            loops,
            bounds,
            bytes,
            value: value_bits,
            kernel: window::pick(bytes, contiguous, isa),
            sums: None,
        })
    }

    /// The number of slices of the result along its slowest loop, and the bytes of a slice, if the slices are
    /// contiguous.
    pub fn slices(&self) -> Option<(usize, usize)> {
        let [first, rest @ ..] = self.loops.as_slice() else { return None };
        let bytes = self.bytes * rest.iter().map(|l| l.size).product::<usize>();
        (rest.len() >= 2 && first.to == bytes as isize && self.places[1].1 == 0).then_some((first.size, bytes))
    }

    /// Copies slices `from..to` of the result to the front of a storage that starts at `target`.
    ///
    /// # Safety
    /// The contract of [`Im2col::copy`] holds; `target` has room for the slices, which [`Im2col::slices`] counts.
    pub unsafe fn copy_slices(&self, source: *const u8, target: *mut u8, (from, to): (usize, usize)) {
        let rectangles: usize = self.loops[1..self.loops.len() - 2].iter().map(|l| l.size).product();
        let target = target.wrapping_offset(-(from as isize * self.loops[0].to));
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.rectangles(source, target, (from * rectangles, to * rectangles)) }
    }

    /// Copies from the storage of the source to that of the result.
    ///
    /// # Safety
    /// The pointers are to the storages that this copy was made for; no other thread writes that of the result.
    pub unsafe fn copy(&self, from: *const u8, to: *mut u8, threads: usize) {
        let (from, to) = (Memory(&[from as *mut u8]), Memory(&[to]));
        let rectangles: usize = self.loops[..self.loops.len() - 2].iter().map(|l| l.size).product();
        let (mut tasks, mut threads) = (rectangles, threads);
        if let Some(sums) = self.sums {
            // SAFETY: the sums have these bytes, and no other thread uses them yet.
            unsafe { std::ptr::write_bytes(to.at(0), 0, sums.bytes) };
            (tasks, threads) = if sums.divided { (self.loops[0].size, threads) } else { (1, 1) };
        }
        let each = rectangles / tasks.max(1);
        threads::share(tasks, threads, self.cost, &|claims| {
            for part in claims {
                // SAFETY: the caller upholds the contract; rectangles of the result are disjoint, or those of different
                // tasks are.
                unsafe { self.rectangles(from.at(0), to.at(0), (part.start * each, part.end * each)) }
            }
        });
    }

    /// Copies rectangles `first..end`.
    ///
    /// # Safety
    /// The contract of [`Im2col::copy`] holds.
    unsafe fn rectangles(&self, from: *const u8, to: *mut u8, (first, end): (usize, usize)) {
        let outer = &self.loops[..self.loops.len() - 2];
        let mut idx: SmallVec<[usize; 6]> = SmallVec::from_elem(0, outer.len());
        let mut rest = first;
        for (i, l) in idx.iter_mut().zip(outer).rev() {
            *i = rest % l.size;
            rest /= l.size;
        }
        for _ in first..end {
            // SAFETY: the caller upholds the contract of this function.
            unsafe { self.rectangle(&idx, from, to) };
            for (i, l) in idx.iter_mut().zip(outer).rev() {
                *i += 1;
                if *i < l.size {
                    break;
                }
                *i = 0;
            }
        }
    }

    /// Copies the rectangle at an index of the outer loops.
    ///
    /// # Safety
    /// The contract of [`Im2col::copy`] holds.
    unsafe fn rectangle(&self, idx: &[usize], from: *const u8, to: *mut u8) {
        let n = self.loops.len();
        let (line, col) = (self.loops[n - 2], self.loops[n - 1]);
        let (mut source, mut target) = (self.places[0].1, self.places[1].1);
        for (i, l) in idx.iter().zip(&self.loops) {
            source += *i as isize * l.from;
            target += *i as isize * l.to;
        }
        let (mut lines, mut cols) = ((0, line.size), (0, col.size));
        let mut slanted = false;
        for b in &self.bounds {
            let at = idx.iter().zip(&b.coefs).fold(b.base, |at, (i, c)| at + *i as i64 * c);
            match (b.coefs[n - 2], b.coefs[n - 1]) {
                (0, step) => cols = meet(cols, inside(at, step, b.size, col.size)),
                (step, 0) => lines = meet(lines, inside(at, step, b.size, line.size)),
                _ => slanted = true,
            }
        }
        let rectangle = |first: usize, lines: usize, (lo, hi): (usize, usize)| Rectangle {
            from: from.wrapping_offset(source + first as isize * line.from),
            to: to.wrapping_offset(target + first as isize * line.to),
            from_line: line.from,
            to_line: line.to,
            from_elem: col.from,
            to_elem: col.to,
            lines,
            cols: col.size,
            inside: Inside { lo, hi },
        };
        let copy = |first: usize, end: usize, cols: (usize, usize)| {
            if end > first {
                // SAFETY: the caller upholds the contract; only elements inside are read.
                unsafe { (self.kernel)(&rectangle(first, end - first, cols), &self.value) }
            }
        };
        copy(0, lines.0, (0, 0));
        copy(lines.1, line.size, (0, 0));
        if !slanted {
            return copy(lines.0, lines.1, cols);
        }
        for l in lines.0..lines.1 {
            let mut here = cols;
            for b in self.bounds.iter().filter(|b| b.coefs[n - 2] != 0 && b.coefs[n - 1] != 0) {
                let at = idx.iter().zip(&b.coefs).fold(b.base, |at, (i, c)| at + *i as i64 * c);
                here = meet(here, inside(at + l as i64 * b.coefs[n - 2], b.coefs[n - 1], b.size, col.size));
            }
            copy(l, l + 1, here);
        }
    }
}

impl HostStep for Im2col {
    fn touches(&self) -> Vec<u32> {
        self.places.iter().map(|p| p.0).collect()
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.places.iter_mut().for_each(|p| p.0 = storage(p.0));
    }

    unsafe fn run(&self, memory: Memory, _: &[usize], _: *mut u8, threads: usize) -> Result<(), Stopped> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { self.copy(memory.at(self.places[0].0), memory.at(self.places[1].0), threads) };
        Ok(())
    }

    fn cost(&self) -> f64 {
        self.cost
    }

    fn traffic(&self) -> usize {
        2 * self.bytes * self.loops.iter().map(|l| l.size).product::<usize>()
    }

    fn describe(&self) -> String {
        let sizes: Vec<String> = self.loops.iter().map(|l| l.size.to_string()).collect();
        let what = if self.sums.is_some() { "windows added" } else { "windows" };
        format!("{what} {}", sizes.join("x"))
    }
}

/// The interval of `i` in `0..n` for which `at + i · step` lies in `0..size`.
fn inside(at: i64, step: i64, size: i64, n: usize) -> (usize, usize) {
    meet(fill::interval(false, at, step, n), fill::interval(false, (size - 1).saturating_sub(at), -step, n))
}

/// The intersection of two intervals; `(0, 0)` if it is empty.
fn meet(a: (usize, usize), b: (usize, usize)) -> (usize, usize) {
    let both = (a.0.max(b.0), a.1.min(b.1));
    if both.0 < both.1 { both } else { (0, 0) }
}

/// The dims in this order as loops. Adjacent dims that are contiguous in source, result and bounds become one loop;
/// `bounds` get one coefficient per loop. There are at least two loops.
fn merged(order: &[usize], sizes: &[usize], from: &Linear, to: &Linear, bounds: &mut [Bound]) -> SmallVec<[Loop; 6]> {
    let mut loops: SmallVec<[Loop; 6]> = SmallVec::new();
    let mut coefs: Vec<SmallVec<[i64; 6]>> = vec![SmallVec::new(); bounds.len()];
    for &d in order {
        let (n, step) = (sizes[d], Loop { size: sizes[d], from: from.coefs[d] as isize, to: to.coefs[d] as isize });
        let behind = loops.last().is_some_and(|l| l.from == step.from * n as isize && l.to == step.to * n as isize)
            && coefs.iter().zip(bounds.iter()).all(|(c, b)| c.last() == Some(&(b.coefs[d] * n as i64)));
        match loops.last_mut() {
            Some(l) if behind => {
                *l = Loop { size: l.size * n, ..step };
                coefs.iter_mut().zip(bounds.iter()).for_each(|(c, b)| {
                    c.pop();
                    c.push(b.coefs[d]);
                });
            }
            _ => {
                loops.push(step);
                coefs.iter_mut().zip(bounds.iter()).for_each(|(c, b)| c.push(b.coefs[d]));
            }
        }
    }
    while loops.len() < 2 {
        loops.insert(0, Loop { size: 1, from: 0, to: 0 });
        coefs.iter_mut().for_each(|c| c.insert(0, 0));
    }
    bounds.iter_mut().zip(coefs).for_each(|(b, c)| b.coefs = c);
    loops
}
