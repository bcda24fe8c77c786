//! Products with an operand that is copied one part at a time, just before the part is used, such as windows.

use super::{Product, ProductLoop};
use crate::executors::cpu::im2col::Im2col;
use crate::executors::cpu::tiles::{self, Program};
use crate::executors::fusion::fuse::{Form, Group};
use crate::executors::fusion::graph::ValueId;
use crate::executors::fusion::graph::piece::{Chunk, Values};
use crate::executors::fusion::items::Env;
use crate::executors::program::host_step::{Fault, FirstFault, Memory};
use crate::executors::program::threads;
use fulgurite_core::DType;
use fulgurite_kernels::abi::Level;
use fulgurite_kernels::tiny_gemm::ProductNumber;
use gemm::Parallelism;

/// An operand that is copied one part at a time, just before the part is used.
#[derive(Clone, Debug)]
pub(super) struct Pack {
    /// The copy from storage 0 to storage 1.
    pub(super) copy: Copying,
    /// Whether this is the right operand.
    pub(super) right: bool,
    /// The distance in bytes from part to part of the source.
    pub(super) step: isize,
    /// The bytes of a copied part.
    pub(super) bytes: usize,
    /// The loop over the parts; its stride in the copy is 0.
    pub(super) axis: ProductLoop,
    /// Whether the products of the parts are summed.
    pub(super) summed: bool,
}

/// The copied operand of a sum as columns of a product whose rows come from the other operand.
struct Columns {
    /// The number of slices of the copy.
    slices: usize,
    /// The number of columns of a slice.
    per_slice: usize,
    /// The strides in the result from row to row and from column to column.
    to: (isize, isize),
    other: ProductLoop,
    /// The strides in the other operand from row to row and along the sum.
    along: (isize, isize),
}

/// The way in which an operand is copied.
#[derive(Clone, Debug)]
pub(super) enum Copying {
    /// The elements are copied as they are.
    Windows(Im2col),
    /// The elements change their dtype.
    Program(Program),
}

impl Product {
    /// Runs part by part: first the copy of an operand's part, then the products with it. Parts of the result are
    /// shared among threads; parts of a sum follow each other.
    ///
    /// # Safety
    /// The contract of [`Product::run_small`] holds.
    pub(super) unsafe fn run_packed(&self, pack: &Pack, memory: Memory, threads: usize) -> Result<(), Fault> {
        if let (Copying::Windows(windows), Some(columns)) = (&pack.copy, self.columns(pack)) {
            // SAFETY: the caller upholds the contract of this function.
            return unsafe {
                match self.dtype {
                    DType::F64 => self.run_columns::<f64>(pack, windows, &columns, memory, threads),
                    _ => self.run_columns::<f32>(pack, windows, &columns, memory, threads),
                }
            };
        }
        let failed = FirstFault::default();
        let share = threads > 1 && self.cost >= threads::WORTH_SHARING;
        let apart = share && !pack.summed;
        let inside = if share && !apart { threads } else { 1 };
        let batches: usize = self.outer.iter().map(|a| a.size).product();
        threads::share(pack.axis.size, if apart { threads } else { 1 }, self.cost, &|claims| {
            let Some(block) = failed.block(pack.bytes) else { return };
            for part in claims.flatten() {
                let mut pointers = self.pointers(memory);
                let own = if pack.right { 1 } else { 0 };
                let local = [pointers[own].wrapping_offset(part as isize * pack.step), block.data()];
                // SAFETY: the caller upholds the contract; the block has room for the copy. A copy has no indices that
                // could fail.
                if let Err(f) = unsafe { pack.copy.run(local, inside) } {
                    return failed.set(f);
                }
                pointers[own] = block.data();
                let i = part as isize;
                for batch in 0..batches {
                    let (mut a, mut b, c) = self.offsets(batch);
                    (a, b) = if pack.right { (a + i * pack.axis.a, b) } else { (a, b + i * pack.axis.b) };
                    let c = c + i * pack.axis.c;
                    // SAFETY: the caller upholds the contract; parts that are not summed write disjoint elements.
                    unsafe { self.matrices(pointers, (a, b, c), pack.summed && part > 0, inside) };
                }
            }
        });
        failed.result()
    }

    /// The columns of a sum, if its copied operand is stored column by column.
    fn columns(&self, pack: &Pack) -> Option<Columns> {
        let Copying::Windows(windows) = &pack.copy else { return None };
        let (slices, bytes) = windows.slices()?;
        let ((own, copied), (other, along)) = match pack.right {
            true => ((self.n, (self.n.b, self.k.b)), (self.m, (self.m.a, self.k.a))),
            false => ((self.m, (self.m.a, self.k.a)), (self.n, (self.n.b, self.k.b))),
        };
        let depth = self.k.size;
        let per_slice = bytes / (depth * self.dtype.size());
        let lies = copied == (depth as isize, 1) && slices * per_slice == own.size;
        let whole = self.outer.is_empty() && self.sums.is_empty();
        (pack.summed && lies && whole).then_some(Columns { slices, per_slice, to: (other.c, own.c), other, along })
    }

    /// Runs part by part like [`Product::run_packed`], with columns divided among threads. The columns are summed in a
    /// block of their own, row by row, so that `gemm` reads the copy in the order in which it is stored.
    ///
    /// # Safety
    /// The contract of [`Product::run_small`] holds; `T` is the type of the dtype.
    unsafe fn run_columns<T: ProductNumber>(
        &self,
        pack: &Pack,
        windows: &Im2col,
        of: &Columns,
        memory: Memory,
        threads: usize,
    ) -> Result<(), Fault> {
        let failed = FirstFault::default();
        let shared = threads > 1 && self.cost >= threads::WORTH_SHARING && of.other.size > 1;
        // parts of whole slices, each with enough columns
        let least = super::SIDE.div_ceil(of.per_slice.max(1));
        let tasks = if shared { threads.min(of.slices / least).max(1) } else { 1 };
        let (rows, depth) = (of.other.size, self.k.size);
        let pointers = self.pointers(memory);
        let (own, other) = if pack.right { (1, 0) } else { (0, 1) };
        let at = [pointers[own], pointers[other], pointers[2]];
        let at = Memory(&at);
        threads::share(tasks, threads, self.cost, &|claims| {
            for task in claims.flatten() {
                let slices = (of.slices * task / tasks, of.slices * (task + 1) / tasks);
                let count = (slices.1 - slices.0) * of.per_slice;
                let Some(block) = failed.block(count * (depth + rows) * size_of::<T>()) else { return };
                if count == 0 {
                    continue;
                }
                // SAFETY: the caller upholds the contract; the block has room for copy and sums; tasks write disjoint columns.
                unsafe {
                    let copy = block.data() as *mut T;
                    let sums = copy.add(count * depth);
                    for part in 0..pack.axis.size {
                        let i = part as isize;
                        windows.copy_slices(at.at(0).wrapping_offset(i * pack.step), block.data(), slices);
                        let step = if pack.right { pack.axis.a } else { pack.axis.b };
                        let lhs = (at.at(1) as *const T).offset(self.places[other].offset + i * step);
                        gemm::gemm(
                            rows,
                            count,
                            depth,
                            sums,
                            rows as isize,
                            1,
                            part > 0,
                            lhs,
                            of.along.1,
                            of.along.0,
                            copy,
                            depth as isize,
                            1,
                            T::ONE,
                            T::ONE,
                            false,
                            false,
                            false,
                            Parallelism::None,
                        );
                    }
                    let first = (at.at(2) as *mut T).offset(self.places[2].offset);
                    for j in 0..count {
                        let column = first.offset((slices.0 * of.per_slice + j) as isize * of.to.1);
                        for r in 0..rows {
                            column.offset(r as isize * of.to.0).write(sums.add(j * rows + r).read());
                        }
                    }
                }
            }
        });
        failed.result()
    }
}

impl Copying {
    /// Copies the first storage to the second.
    ///
    /// # Safety
    /// The contract of [`Program::run`] holds.
    unsafe fn run(&self, local: [*mut u8; 2], threads: usize) -> Result<(), Fault> {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            match self {
                Copying::Windows(w) => {
                    w.copy(local[0], local[1], threads);
                    Ok(())
                }
                Copying::Program(p) => p.run(Memory(&local), &[], std::ptr::null_mut(), threads),
            }
        }
    }
}

/// The copy of an operand, from its source to the packed value.
pub(super) fn copying(chunk: &Chunk, values: &Values, form: &dyn Fn(ValueId) -> Form, isa: Level) -> Copying {
    let group = Group::of(chunk.copy.clone());
    let env = Env { values, form, stored: &|v| v == chunk.packed, near: &[] };
    if let Some(windows) = Im2col::new(&group, &env, isa) {
        return Copying::Windows(windows);
    }
    let mut program = tiles::compile(&group, &env, isa);
    program.cursors.iter_mut().for_each(|c| c.value = (c.value == chunk.packed) as u32);
    Copying::Program(program)
}
