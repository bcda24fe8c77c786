//! Products: contractions as matrix products over strided memory, by the `gemm` crate.
//!
//! Every dim of a contraction is a batch dim (in both operands and the result), a row, a column, or summed. Dims of a
//! kind that lie behind each other in memory become one; the largest of each kind is the matrix's, the others are loops
//! around it. Transposed operands are a matter of strides.

use super::fuse::Form;
use super::graph::piece::{Contract, Values};
use super::graph::{Dim, DimSet, Index, Load, ValueId};
use super::loops::Memory;
use super::threads;
use fulgurite_core::DType;
use gemm::Parallelism;

/// Distances (elements) of a loop in the operands and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Extent.
    pub size: usize,
    /// In the left operand.
    pub a: isize,
    /// In the right operand.
    pub b: isize,
    /// In the result.
    pub c: isize,
}

const ONE: Axis = Axis { size: 1, a: 0, b: 0, c: 0 };

/// A storage and an offset in elements.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Which dense value (later: which storage).
    pub value: u32,
    /// Element at index 0.
    pub offset: isize,
}

/// A compiled contraction.
#[derive(Clone, Debug)]
pub struct Product {
    /// f32 or f64.
    pub dtype: DType,
    /// Operands and result.
    pub places: [Place; 3],
    /// Rows, columns, summed.
    pub m: Axis,
    /// See `m`.
    pub n: Axis,
    /// See `m`.
    pub k: Axis,
    /// Loops around the product.
    pub outer: Vec<Axis>,
    /// Sums around the product.
    pub sums: Vec<Axis>,
    /// Estimated nanoseconds on one thread.
    pub cost: f64,
}

/// Floating-point operations per nanosecond of one core, for estimates.
const FLOPS_PER_NS: f64 = 80.0;

impl Product {
    /// The product that computes a contraction.
    pub fn new(c: &Contract, values: &Values, form: &dyn Fn(ValueId) -> Form) -> Product {
        let (fa, fb, fc) = (form(c.a.value), form(c.b.value), form(c.out));
        let (a0, a) = strides(&c.a, &fa, c.sizes.len());
        let (b0, b) = strides(&c.b, &fb, c.sizes.len());
        let mut out = vec![0isize; c.sizes.len()];
        for (axis, stride) in c.axes.iter().zip(&fc.strides) {
            let mut step = *stride as isize;
            for d in axis.iter().rev() {
                out[*d as usize] += step;
                step *= c.sizes[*d as usize] as isize;
            }
        }
        let summed: DimSet = c.reduced.iter().copied().collect();
        let axis = |d: usize| Axis { size: c.sizes[d], a: a[d], b: b[d], c: out[d] };
        let (mut rows, mut cols, mut sums, mut batch) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let in_a = dims_of(&c.a);
        let in_b = dims_of(&c.b);
        for d in 0..c.sizes.len() {
            let dim = d as Dim;
            if c.sizes[d] == 1 || !(in_a.has(dim) || in_b.has(dim)) {
                continue;
            }
            match (summed.has(dim), in_a.has(dim), in_b.has(dim)) {
                (true, ..) => sums.push(axis(d)),
                (_, true, false) => rows.push(axis(d)),
                (_, false, true) => cols.push(axis(d)),
                _ => batch.push(axis(d)),
            }
        }
        let (m, mut more) = largest(merged(rows));
        let (n, extra) = largest(merged(cols));
        more.extend(extra);
        let (k, sums) = largest(merged(sums));
        let mut outer = merged(batch);
        outer.extend(more);
        outer.sort_by_key(|a| -a.c.abs());
        let dtype = values.ty(c.out).dtype;
        let flops =
            2.0 * (m.size * n.size * k.size) as f64 * outer.iter().chain(&sums).map(|a| a.size as f64).product::<f64>();
        let cost = 150.0 + flops / FLOPS_PER_NS * (dtype.size() / 4) as f64;
        let place = |f: &Form, offset: isize| Place { value: f.root, offset };
        let places = [place(&fa, a0), place(&fb, b0), place(&fc, fc.offset as isize)];
        Product { dtype, places, m, n, k, outer, sums, cost }
    }

    /// Runs it.
    ///
    /// # Safety
    /// `memory` has valid memory for the operands and the result, which overlaps neither.
    pub unsafe fn run(&self, memory: Memory, threads: usize) {
        let batches: usize = self.outer.iter().map(|a| a.size).product();
        let share = threads > 1 && self.cost >= threads::WORTH_SHARING;
        // Several products are divided among threads, one product is divided inside.
        let apart = share && batches >= 2 * threads;
        let inside = if share && !apart { Parallelism::Rayon(threads) } else { Parallelism::None };
        threads::share(batches, if apart { threads } else { 1 }, &|from, to| {
            for batch in from..to {
                let (mut a, mut b, mut c) = (self.places[0].offset, self.places[1].offset, self.places[2].offset);
                let mut rest = batch;
                for l in self.outer.iter().rev() {
                    let i = (rest % l.size) as isize;
                    rest /= l.size;
                    (a, b, c) = (a + i * l.a, b + i * l.b, c + i * l.c);
                }
                // SAFETY: the caller's; batches write disjoint parts of the result.
                unsafe {
                    match self.dtype {
                        DType::F64 => self.matrices::<f64>(memory, (a, b, c), inside),
                        _ => self.matrices::<f32>(memory, (a, b, c), inside),
                    }
                }
            }
        });
    }

    /// One matrix product at these offsets, with its sums.
    unsafe fn matrices<T: Real>(&self, memory: Memory, at: (isize, isize, isize), parallelism: Parallelism) {
        let total: usize = self.sums.iter().map(|a| a.size).product();
        let (m, n, k) = (self.m, self.n, self.k);
        for sum in 0..total {
            let (mut a, mut b) = (at.0, at.1);
            let mut rest = sum;
            for l in self.sums.iter().rev() {
                let i = (rest % l.size) as isize;
                rest /= l.size;
                (a, b) = (a + i * l.a, b + i * l.b);
            }
            // SAFETY: the caller's. Strides of `gemm` are (column, row); alpha scales the destination, beta the product.
            unsafe {
                let a = (memory.at(self.places[0].value) as *const T).offset(a);
                let b = (memory.at(self.places[1].value) as *const T).offset(b);
                let c = (memory.at(self.places[2].value) as *mut T).offset(at.2);
                gemm::gemm(
                    m.size,
                    n.size,
                    k.size,
                    c,
                    n.c,
                    m.c,
                    sum > 0,
                    a,
                    k.a,
                    m.a,
                    b,
                    n.b,
                    k.b,
                    T::ONE,
                    T::ONE,
                    false,
                    false,
                    false,
                    parallelism,
                );
            }
        }
    }

    /// Bytes that it moves.
    pub fn traffic(&self) -> usize {
        let batches: usize = self.outer.iter().chain(&self.sums).map(|a| a.size).product();
        let (m, n, k) = (self.m.size, self.n.size, self.k.size);
        (m * k + k * n + m * n) * batches * self.dtype.size()
    }

    /// What it is, in a few words.
    pub fn describe(&self) -> String {
        let batches: usize = self.outer.iter().map(|a| a.size).product();
        let sums: usize = self.sums.iter().map(|a| a.size).product();
        let times = |n: usize, what: &str| if n > 1 { format!("{n} {what} ") } else { String::new() };
        let (m, n, k) = (self.m.size, self.n.size, self.k.size);
        format!("{}{}product {m}x{n}x{k} {}", times(batches, "times"), times(sums, "summed"), self.dtype)
    }
}

/// Numbers that `gemm` multiplies.
trait Real: Copy + 'static {
    const ONE: Self;
}
impl Real for f32 {
    const ONE: f32 = 1.0;
}
impl Real for f64 {
    const ONE: f64 = 1.0;
}

fn dims_of(load: &Load) -> DimSet {
    load.idx.iter().fold(DimSet::EMPTY, |s, i| match i {
        Index::Affine(a) => s.union(a.dims()),
        Index::Node(_) => s,
    })
}

/// The offset and the distance per dim of an affine load.
fn strides(load: &Load, form: &Form, dims: usize) -> (isize, Vec<isize>) {
    let mut offset = form.offset as isize;
    let mut out = vec![0; dims];
    for (index, stride) in load.idx.iter().zip(&form.strides) {
        if let Index::Affine(a) = index {
            offset += (a.base * stride) as isize;
            for &(d, c) in &a.terms {
                out[d as usize] += (c * stride) as isize;
            }
        }
    }
    (offset, out)
}

/// Axes that lie behind each other everywhere as one, slowest first.
fn merged(mut axes: Vec<Axis>) -> Vec<Axis> {
    axes.sort_by_key(|x| (-x.c.abs(), -x.a.abs(), -x.b.abs()));
    let mut out: Vec<Axis> = Vec::new();
    for x in axes {
        let n = x.size as isize;
        match out.last_mut() {
            Some(slow) if slow.a == x.a * n && slow.b == x.b * n && slow.c == x.c * n => {
                *slow = Axis { size: slow.size * x.size, ..x }
            }
            _ => out.push(x),
        }
    }
    out
}

/// The largest axis, and the others.
fn largest(mut axes: Vec<Axis>) -> (Axis, Vec<Axis>) {
    match (0..axes.len()).max_by_key(|i| axes[*i].size) {
        Some(i) => (axes.remove(i), axes),
        None => (ONE, axes),
    }
}
