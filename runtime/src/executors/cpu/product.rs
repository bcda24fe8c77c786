//! Products: contractions as matrix products over strided memory, computed by the crate `gemm`.
//!
//! Every dim of a contraction is a batch dim (in both operands and the result), a row, a column, or summed. Dims of one
//! kind that are contiguous become one dim. The largest of each kind belongs to the matrix, the others become loops
//! around it. A transposed operand differs in its strides alone.

mod packed;

use super::tiles::{self, Program};
use crate::buffer::pool::Block;
use crate::executors::fusion::fuse::{Form, Group};
use crate::executors::fusion::graph::piece::Contract;
use crate::executors::fusion::graph::{Dim, DimSet, Index, Load, ValueId};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, FirstFault, HostStep, Memory, Stopped};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::small_gemm::{self, SmallGemm};
use fulgurite_kernels::tiny_gemm::{self, ProductNumber, TinyGemm};
use gemm::Parallelism;
use packed::{Pack, copying};

/// A loop: its extent, and its strides (in elements) in the operands and the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductLoop {
    /// The extent.
    pub size: usize,
    /// The stride in the left operand.
    pub a: isize,
    /// The stride in the right operand.
    pub b: isize,
    /// The stride in the result.
    pub c: isize,
}

/// A contraction as loops; see [`crate::executors::fusion::graph::piece::Exact`].
#[derive(Clone, Debug)]
pub struct Literal {
    /// The values (later storages) that must be finite, with the dtypes in which they are stored.
    pub finite: Vec<(u32, DType)>,
    /// The program that computes the sum.
    pub sum: Program,
}

/// The loop that runs once.
pub(super) const ONE: ProductLoop = ProductLoop { size: 1, a: 0, b: 0, c: 0 };

/// A part of a product has at least this many rows or columns. `gemm` adds up terms in another order if there are at most
/// 64 of both, or one, so the bits of smaller parts would depend on the number of threads. It is also a number of whole
/// tiles.
const SIDE: usize = 96;

/// A storage and an offset in elements.
#[derive(Clone, Copy, Debug)]
pub struct OperandStart {
    /// The dense value (later the storage).
    pub value: u32,
    /// The element at index 0.
    pub offset: isize,
}

/// A compiled contraction.
#[derive(Clone, Debug)]
pub struct Product {
    /// The dtype, f32 or f64.
    pub dtype: DType,
    /// The places of the operands and the result.
    pub places: [OperandStart; 3],
    /// The rows.
    pub m: ProductLoop,
    /// The columns.
    pub n: ProductLoop,
    /// The summed dim.
    pub k: ProductLoop,
    /// The loops around the product.
    pub outer: Vec<ProductLoop>,
    /// The sums around the product.
    pub sums: Vec<ProductLoop>,
    /// Estimated nanoseconds on one thread.
    pub cost: f64,
    /// The operand that is copied one part at a time, if there is one.
    pack: Option<Box<Pack>>,
    /// The loops that run instead if an operand is not finite.
    pub exact: Option<Box<Literal>>,
    /// The product of few vectors with a matrix, and whether the operands are swapped for it.
    small: Option<(SmallGemm, bool)>,
}

impl Literal {
    /// The loops of a contraction's exact sum, if it has one.
    pub fn of(c: &Contract, env: &Env, isa: Level) -> Option<Box<Literal>> {
        let e = c.exact.as_ref()?;
        let env = Env { values: env.values, form: env.form, stored: &|v| v == c.out, near: &[] };
        let sum = tiles::compile(&Group::of(e.sum.clone()), &env, isa);
        let finite = e.finite.iter().map(|v| ((env.form)(*v).root, env.values.ty(*v).dtype)).collect();
        Some(Box::new(Literal { finite, sum }))
    }

    /// The values that the loops read or write, and the values that must be finite.
    pub fn touches(&self) -> impl Iterator<Item = u32> {
        self.sum.touches().into_iter().chain(self.finite.iter().map(|f| f.0))
    }

    /// Replaces values by the numbers of their storages.
    pub fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.finite.iter_mut().for_each(|f| f.0 = storage(f.0));
        self.sum.remap(storage);
    }

    /// Computes the sum if a value that must be finite is not; returns whether it did.
    ///
    /// # Safety
    /// `memory` has valid memory of these `sizes` for the values, and no other thread writes to that of the result.
    pub unsafe fn run_unless_finite(&self, memory: Memory, sizes: &[usize], threads: usize) -> Result<bool, Fault> {
        // SAFETY: the caller upholds the contract; the block has room for the accumulators.
        unsafe {
            if all_finite(&self.finite, memory, sizes) {
                return Ok(false);
            }
            let accs = Block::new(self.sum.scratch()).map_err(|e| Fault::OutOfMemory(e.bytes))?;
            Program::run(&self.sum, memory, sizes, accs.data(), threads)?;
        }
        Ok(true)
    }
}

/// Floating-point operations per nanosecond of one core, for estimates.
pub(super) const FLOPS_PER_NS: f64 = 80.0;

impl Product {
    /// The product that computes a contraction.
    pub fn new(c: &Contract, env: &Env, isa: Level) -> Product {
        let (values, form) = (env.values, env.form);
        debug_assert!(c.a.lies(&c.sizes) && c.b.lies(&c.sizes), "an operand that slides is no matrix");
        let InMemory { starts: mut places, loops, .. } = InMemory::of((&c.a, &c.b), c, form);
        let summed: DimSet = c.reduced.iter().copied().collect();
        let (mut rows, mut cols, mut sums, mut batch) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let in_a = dims_of(&c.a);
        let in_b = dims_of(&c.b);
        for (dim, axis) in (0 as Dim..).zip(&loops) {
            let apart = c.chunk.as_ref().is_some_and(|k| k.dim == dim);
            if apart || axis.size == 1 || !(in_a.has(dim) || in_b.has(dim)) {
                continue;
            }
            match (summed.has(dim), in_a.has(dim), in_b.has(dim)) {
                (true, ..) => sums.push(*axis),
                (_, true, false) => rows.push(*axis),
                (_, false, true) => cols.push(*axis),
                _ => batch.push(*axis),
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
        let pack = c.chunk.as_ref().map(|chunk| {
            let axis = loops[chunk.dim as usize];
            let source = form(chunk.source);
            let bytes = values.ty(chunk.source).dtype.size() as i64;
            let step: i64 = chunk.steps.iter().zip(&source.strides).map(|(k, s)| k * s * bytes).sum();
            let copy = copying(chunk, values, form, isa);
            // The source stays in memory.
            places[chunk.right as usize].value = source.root;
            let summed = summed.has(chunk.dim);
            Box::new(Pack {
                copy,
                right: chunk.right,
                step: step as isize,
                bytes: values.ty(chunk.packed).bytes(),
                axis,
                summed,
            })
        });
        let parts = pack.as_ref().map_or(1, |p| p.axis.size);
        let flops = 2.0
            * (m.size * n.size * k.size * parts) as f64
            * outer.iter().chain(&sums).map(|a| a.size as f64).product::<f64>();
        let cost = 150.0 + flops / FLOPS_PER_NS * (dtype.size() / 4) as f64;
        let small =
            if dtype == DType::F32 && sums.is_empty() && pack.is_none() { small_gemm_of(m, n, k) } else { None };
        let exact = Literal::of(c, env, isa);
        Product { dtype, places, m, n, k, outer, sums, cost, pack, exact, small }
    }

    /// Runs the product.
    ///
    /// # Safety
    /// `memory` has valid memory of these `sizes` for the operands and the result, which overlaps neither.
    unsafe fn multiply(&self, memory: Memory, sizes: &[usize], threads: usize) -> Result<(), Fault> {
        if let Some(exact) = &self.exact
            // SAFETY: the caller upholds the contract of this function.
            && unsafe { exact.run_unless_finite(memory, sizes, threads) }?
        {
            return Ok(());
        }
        if let Some((small, swapped)) = self.small {
            // SAFETY: the caller upholds the contract of this function.
            return unsafe { self.run_small(&small, swapped, memory, threads) };
        }
        if let Some(pack) = &self.pack {
            // SAFETY: the caller upholds the contract of this function.
            return unsafe { self.run_packed(pack, memory, threads) };
        }
        let batches: usize = self.outer.iter().map(|a| a.size).product();
        let share = threads > 1 && self.cost >= threads::WORTH_SHARING;
        // Several products are divided among threads; one product is divided by its rows or columns.
        let apart = share && batches >= 2 * threads;
        let inside = if share && !apart { threads } else { 1 };
        threads::share(batches, if apart { threads } else { 1 }, self.cost, &|claims| {
            for batch in claims.flatten() {
                let (a, b, c) = self.offsets(batch);
                // SAFETY: the caller upholds the contract; batches write disjoint parts of the result.
                unsafe { self.matrices(self.pointers(memory), (a, b, c), false, inside) };
            }
        });
        Ok(())
    }

    /// Whether each batch is one product of matrices, with one sum and no kernel of its own.
    pub(super) fn is_one_sum(&self) -> bool {
        self.is_matrices() && self.small.is_none()
    }

    /// Whether each batch is one product of matrices of the operands as they are.
    pub(super) fn is_matrices(&self) -> bool {
        self.sums.is_empty() && self.pack.is_none() && self.exact.is_none()
    }

    /// Makes the right operand the left one; the rows of the result are its columns then.
    pub(super) fn swap(&mut self) {
        let swapped = |l: ProductLoop| ProductLoop { a: l.b, b: l.a, ..l };
        (self.m, self.n, self.k) = (swapped(self.n), swapped(self.m), swapped(self.k));
        self.outer.iter_mut().for_each(|l| *l = swapped(*l));
        self.places.swap(0, 1);
    }

    /// The offsets at which the operands and the result of a batch start.
    pub(super) fn offsets(&self, batch: usize) -> (isize, isize, isize) {
        let (mut a, mut b, mut c) = (self.places[0].offset, self.places[1].offset, self.places[2].offset);
        let mut rest = batch;
        for l in self.outer.iter().rev() {
            let i = (rest % l.size) as isize;
            rest /= l.size;
            (a, b, c) = (a + i * l.a, b + i * l.b, c + i * l.c);
        }
        (a, b, c)
    }

    /// Multiplies few vectors by a matrix, batch by batch; columns are divided among threads.
    ///
    /// # Safety
    /// `memory` holds the storages that this product was made for; no other thread writes to that of the result.
    unsafe fn run_small(&self, small: &SmallGemm, swapped: bool, memory: Memory, threads: usize) -> Result<(), Fault> {
        let failed = FirstFault::default();
        let batches: usize = self.outer.iter().map(|a| a.size).product();
        let nanos = self.cost.max(self.traffic() as f64 / 16.0);
        // A task is a range of columns of one batch.
        let per_batch = if threads <= 1 || nanos < threads::WORTH_SHARING || batches >= threads {
            1
        } else {
            (8 * threads).min(small.cols.div_ceil(64)).max(1)
        };
        let step = small.cols.div_ceil(per_batch);
        threads::share(batches * per_batch, threads, nanos, &|claims| {
            // The vectors are packed into this block unless they are contiguous.
            let Some(block) = failed.block(if small.lies() { 0 } else { small.rows * small.depth * 4 }) else { return };
            let packed = block.data() as *mut f32;
            for task in claims.flatten() {
                let (a, b, c) = self.offsets(task / per_batch);
                let first = task % per_batch * step;
                // SAFETY: the caller upholds the contract; tasks write disjoint parts of the result.
                unsafe {
                    let a = (memory.at(self.places[0].value) as *const f32).offset(a);
                    let b = (memory.at(self.places[1].value) as *const f32).offset(b);
                    let c = (memory.at(self.places[2].value) as *mut f32).offset(c);
                    let (x, w) = if swapped { (b, a) } else { (a, b) };
                    small.run(x, w, c, first, (first + step).min(small.cols), packed);
                }
            }
        });
        failed.result()
    }

    /// Pointers to the operands and the result.
    fn pointers(&self, memory: Memory) -> [*mut u8; 3] {
        [memory.at(self.places[0].value), memory.at(self.places[1].value), memory.at(self.places[2].value)]
    }

    /// Computes one matrix product at these offsets, with its sums; it is added to the result if `add`. Its longer side is
    /// divided among `threads`.
    ///
    /// # Safety
    /// From `at`, moved by `offsets`, each operand's rectangle lies in its storage; no other thread writes to that of
    /// the result.
    unsafe fn matrices(&self, at: [*mut u8; 3], offsets: (isize, isize, isize), add: bool, threads: usize) {
        let by_rows = self.m.size >= self.n.size;
        let (whole, other) = if by_rows { (self.m.size, self.n.size) } else { (self.n.size, self.m.size) };
        let parts = if other > 1 { threads.min(whole / SIDE).max(1) } else { 1 };
        // the start of a part, at a whole tile
        let start = |part: usize| if part == parts { whole } else { whole / SIDE * part / parts * SIDE };
        let at = Memory(&at);
        threads::share(parts, threads, self.cost, &|claims| {
            for part in claims.flatten() {
                let (first, size) = (start(part), start(part + 1) - start(part));
                let (mut m, mut n) = (self.m, self.n);
                let side = if by_rows { &mut m } else { &mut n };
                side.size = size;
                let i = first as isize;
                let (a, b, c) = (offsets.0 + i * side.a, offsets.1 + i * side.b, offsets.2 + i * side.c);
                // SAFETY: the caller upholds the contract of this function; tasks write disjoint parts of the result.
                unsafe {
                    match self.dtype {
                        DType::F64 => self.matrices_of::<f64>(&at, (m, n), (a, b, c), add),
                        _ => self.matrices_of::<f32>(&at, (m, n), (a, b, c), add),
                    }
                }
            }
        });
    }

    /// Computes the rows `m` and columns `n` of a matrix product.
    ///
    /// # Safety
    /// The contract of [`Product::matrices`] holds; `T` is the type of the dtype.
    unsafe fn matrices_of<T: ProductNumber>(
        &self,
        at: &Memory,
        (m, n): (ProductLoop, ProductLoop),
        offsets: (isize, isize, isize),
        add: bool,
    ) {
        let total: usize = self.sums.iter().map(|a| a.size).product();
        for sum in 0..total {
            let (mut a, mut b) = (offsets.0, offsets.1);
            let mut rest = sum;
            for l in self.sums.iter().rev() {
                let i = (rest % l.size) as isize;
                rest /= l.size;
                (a, b) = (a + i * l.a, b + i * l.b);
            }
            // SAFETY: the caller upholds the contract of this function.
            unsafe {
                let a = (at.at(0) as *const T).offset(a);
                let b = (at.at(1) as *const T).offset(b);
                let c = (at.at(2) as *mut T).offset(offsets.2);
                matrix([m, n, self.k], (a, b, c), add || sum > 0);
            }
        }
    }
}

/// Computes the product of two matrices with the rows, the columns and the sum `[m, n, k]`; it is added to the result if
/// `add`.
///
/// # Safety
/// From the pointers on, the operands and the result have these loops, and no other thread writes to the result.
pub(super) unsafe fn matrix<T: ProductNumber>(
    [m, n, k]: [ProductLoop; 3],
    (a, b, c): (*const T, *const T, *mut T),
    add: bool,
) {
    let (columns, rows, depth) = (n.size, m.size, k.size);
    let sizes = [rows, columns, depth];
    if tiny_gemm::is_tiny(sizes) {
        let (a, b, c) = (a as *const u8, b as *const u8, c as *mut u8);
        let tiny = TinyGemm { sizes, a: (a, m.a, k.a), b: (b, k.b, n.b), c: (c, m.c, n.c), add };
        // SAFETY: the caller upholds the contract of this function.
        return unsafe { tiny.run::<T>() };
    }
    let one = T::ONE;
    // SAFETY: the caller upholds the contract. Strides are those of a column and of a row; the first factor scales the
    // result, the second the product.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            depth,
            c,
            n.c,
            m.c,
            add,
            a,
            k.a,
            m.a,
            b,
            n.b,
            k.b,
            one,
            one,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

impl HostStep for Product {
    fn touches(&self) -> Vec<u32> {
        self.places.iter().map(|p| p.value).chain(self.exact.iter().flat_map(|e| e.touches())).collect()
    }

    fn may_stop(&self) -> bool {
        self.exact.as_ref().is_some_and(|e| e.sum.may_stop())
    }

    fn remap(&mut self, storage: &dyn Fn(u32) -> u32) {
        self.places.iter_mut().for_each(|p| p.value = storage(p.value));
        self.exact.iter_mut().for_each(|e| e.remap(storage));
    }

    unsafe fn run(&self, memory: Memory, sizes: &[usize], _: *mut u8, threads: usize) -> Result<(), Stopped> {
        // SAFETY: the caller upholds the contract of this function.
        Ok(unsafe { self.multiply(memory, sizes, threads) }?)
    }

    fn cost(&self) -> f64 {
        self.cost
    }

    fn flops(&self) -> f64 {
        let batches: usize = self.outer.iter().chain(&self.sums).map(|a| a.size).product();
        (2 * self.m.size * self.n.size * self.k.size * batches) as f64
    }

    fn traffic(&self) -> usize {
        let batches: usize = self.outer.iter().chain(&self.sums).map(|a| a.size).product();
        let (m, n, k) = (self.m.size, self.n.size, self.k.size);
        (m * k + k * n + m * n) * batches * self.dtype.size()
    }

    fn describe(&self) -> String {
        let batches: usize = self.outer.iter().map(|a| a.size).product();
        let sums: usize = self.sums.iter().map(|a| a.size).product();
        let parts = self.pack.as_ref().map_or(String::new(), |p| {
            format!(", its {} operand copied in {} parts", if p.right { "right" } else { "left" }, p.axis.size)
        });
        let times = |n: usize, what: &str| if n > 1 { format!("{n} {what} ") } else { String::new() };
        let (m, n, k) = (self.m.size, self.n.size, self.k.size);
        format!("{}{}product {m}x{n}x{k} {}{parts}", times(batches, "times"), times(sums, "summed"), self.dtype)
    }
}

/// Whether all numbers of these storages are finite.
///
/// # Safety
/// `memory` has valid memory of these `sizes` for each of them, of these dtypes.
unsafe fn all_finite(storages: &[(u32, DType)], memory: Memory, sizes: &[usize]) -> bool {
    // SAFETY: the caller upholds the contract of this function.
    storages.iter().all(|(v, dtype)| unsafe { finite(*dtype, memory.at(*v), sizes[*v as usize]) })
}

/// Whether all numbers of a storage are finite. The loop has no branch, so that it becomes vector instructions.
///
/// # Safety
/// The pointer is to `bytes` bytes of a float dtype.
unsafe fn finite(dtype: DType, at: *const u8, bytes: usize) -> bool {
    /// # Safety
    /// The pointer is to `bytes` bytes of `T`.
    unsafe fn all<T: Copy>(at: *const u8, bytes: usize, finite: impl Fn(T) -> bool) -> bool {
        // SAFETY: the caller upholds the contract of this function.
        let numbers = unsafe { std::slice::from_raw_parts(at as *const T, bytes / size_of::<T>()) };
        numbers.iter().fold(true, |so_far, x| so_far & finite(*x))
    }
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        match dtype {
            DType::F64 => all(at, bytes, f64::is_finite),
            DType::F32 => all(at, bytes, f32::is_finite),
            DType::F16 => all(at, bytes, half::f16::is_finite),
            DType::BF16 => all(at, bytes, half::bf16::is_finite),
            // Integers that a sum converts are finite.
            _ => true,
        }
    }
}

/// The product as few vectors with a matrix, if it has few rows or few columns and the strides of the other operand
/// fit.
fn small_gemm_of(m: ProductLoop, n: ProductLoop, k: ProductLoop) -> Option<(SmallGemm, bool)> {
    let straight = SmallGemm { rows: m.size, cols: n.size, depth: k.size, a: (m.a, k.a), b: (k.b, n.b), c: (m.c, n.c) };
    if m.size <= small_gemm::MOST && straight.fits() {
        return Some((straight, false));
    }
    let swapped = SmallGemm { rows: n.size, cols: m.size, depth: k.size, a: (n.b, k.b), b: (k.a, m.a), c: (n.c, m.c) };
    (n.size <= small_gemm::MOST && swapped.fits()).then_some((swapped, true))
}

/// The operands and the result of a contraction in memory.
pub(super) struct InMemory {
    pub forms: [Form; 3],
    pub starts: [OperandStart; 3],
    /// The loop of each dim.
    pub loops: Vec<ProductLoop>,
}

impl InMemory {
    /// The left and the right operand, and the result.
    pub fn of((left, right): (&Load, &Load), c: &Contract, form: &dyn Fn(ValueId) -> Form) -> InMemory {
        let forms = [form(left.value), form(right.value), form(c.out)];
        let (a0, a) = strides(left, &forms[0], c.sizes.len());
        let (b0, b) = strides(right, &forms[1], c.sizes.len());
        let out = result_strides(c, &forms[2]);
        let start = |n: usize, offset| OperandStart { value: forms[n].root, offset };
        let starts = [start(0, a0), start(1, b0), start(2, forms[2].offset as isize)];
        let axis = |(d, &size): (usize, &usize)| ProductLoop { size, a: a[d], b: b[d], c: out[d] };
        let loops = c.sizes.iter().enumerate().map(axis).collect();
        InMemory { forms, starts, loops }
    }
}

/// The strides of the result by dim.
fn result_strides(c: &Contract, form: &Form) -> Vec<isize> {
    let mut out = vec![0isize; c.sizes.len()];
    for (axis, stride) in c.axes.iter().zip(&form.strides) {
        let mut step = *stride as isize;
        for d in axis.iter().rev() {
            out[*d as usize] += step;
            step *= c.sizes[*d as usize] as isize;
        }
    }
    out
}

pub(super) fn dims_of(load: &Load) -> DimSet {
    load.idx.iter().fold(DimSet::EMPTY, |s, i| match i {
        Index::Affine(a) => s.union(a.dims()),
        Index::Node(_) => s,
    })
}

/// The offset of an affine load, and its stride per dim.
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

/// Merges axes that are contiguous in the operands and the result; slowest first.
pub(super) fn merged(mut axes: Vec<ProductLoop>) -> Vec<ProductLoop> {
    axes.sort_by_key(|x| (-x.c.abs(), -x.a.abs(), -x.b.abs()));
    let mut out: Vec<ProductLoop> = Vec::new();
    for x in axes {
        let n = x.size as isize;
        match out.last_mut() {
            Some(slow) if slow.a == x.a * n && slow.b == x.b * n && slow.c == x.c * n => {
                *slow = ProductLoop { size: slow.size * x.size, ..x }
            }
            _ => out.push(x),
        }
    }
    out
}

/// The largest axis, and the other axes.
pub(super) fn largest(mut axes: Vec<ProductLoop>) -> (ProductLoop, Vec<ProductLoop>) {
    match (0..axes.len()).max_by_key(|i| axes[*i].size) {
        Some(i) => (axes.remove(i), axes),
        None => (ONE, axes),
    }
}
