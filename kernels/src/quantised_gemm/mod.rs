//! Vectors times a weight of integers in groups. The weight is never written out as
//! floats as a whole: few vectors read the integers, for many vectors a part of the weight is written out at a time
//! (`panels`).
//!
//! For few vectors, a result is the sum of `scale · Σ x · q` over groups, plus `zero · Σ x`. [`LANES`] such sums run
//! side by side through all groups, in their order, and are added in a tree at the end. Results depend neither on the
//! number of threads nor on the division of columns among them.

mod lanes;
mod panels;
mod usual;

use crate::abi::Level;
use lanes::{REGISTERS, Register, Stored, WIDTH};
use std::marker::PhantomData;

pub use lanes::LANES;
pub use usual::Usual;

/// At most this many vectors read the integers directly; for more, writing the weight out a part at a time is faster.
const MOST: usize = 8;

/// The operands of a product.
pub struct Operands<'a, Q> {
    depth: usize,
    group: usize,
    cols: usize,
    q: &'a [Q],
    scale: &'a [f32],
    zero: Option<&'a [f32]>,
    /// One entry per vector, or one entry for all of them.
    vectors: Vec<Vector>,
    out: *mut f32,
}

/// A vector in the form that the kernels read.
pub struct Vector {
    /// The elements of the vector, in the order of [`Stored::load`].
    x: Vec<f32>,
    /// For each group, the lane-wise sums of the group's elements.
    sums: Vec<[f32; LANES]>,
}

impl Vector {
    fn new<Q: Stored>(elements: &[f32], group: usize) -> Vector {
        let mut x = vec![0.0; elements.len()];
        Q::arrange(&mut x, elements);
        let sum = |part: &[f32]| {
            let runs = part.as_chunks::<LANES>().0.iter();
            runs.fold([0.0; LANES], |sum: [f32; LANES], run| std::array::from_fn(|l| sum[l] + run[l]))
        };
        let sums = x.chunks_exact(group).map(sum).collect();
        Vector { x, sums }
    }
}

// SAFETY: threads write disjoint columns of `out`, and only read the rest.
unsafe impl<Q: Sync> Sync for Operands<'_, Q> {}

/// Computes `N` columns from `j` on, which share each load of the vector: `scale · Σ x · q`, summed over groups.
///
/// # Safety
/// The processor has the instructions of `R`; these columns exist, and the sizes passed the tests of [`GroupedProduct::new`].
#[inline(always)]
unsafe fn dots<Q: Stored, R: Register, const N: usize>(p: &Operands<'_, Q>, vector: &Vector, j: usize) -> [f32; N] {
    let (groups, stored, runs) = (p.depth / p.group, p.depth / Q::EACH, p.group / LANES);
    let mut x = vector.x.as_ptr();
    // SAFETY: the caller upholds the contract; pointers go on by `runs` runs for each group.
    unsafe {
        let mut q: [*const Q; N] = std::array::from_fn(|c| p.q.as_ptr().add((j + c) * stored));
        let factors = |of: &[f32]| -> [*const f32; N] { std::array::from_fn(|c| of.as_ptr().add((j + c) * groups)) };
        let (scale, zero) = (factors(p.scale), p.zero.map(factors));
        let mut total = [[R::splat(0.0); REGISTERS]; N];
        let none = R::splat(0.0);
        for (g, sums) in vector.sums.iter().enumerate() {
            let sums: [R; REGISTERS] = std::array::from_fn(|v| R::load(sums.as_ptr().add(v * WIDTH)));
            // The offset with which integers are stored is subtracted.
            let mut part = match Q::OFFSET == 0.0 {
                true => [[none; REGISTERS]; N],
                false => [sums.map(|sum| R::madd(sum, R::splat(-Q::OFFSET), none)); N],
            };
            for _ in 0..runs {
                let x_now: [R; REGISTERS] = std::array::from_fn(|v| R::load(x.add(v * WIDTH)));
                for (q, part) in q.iter_mut().zip(&mut part) {
                    let integers: [R; REGISTERS] = Q::load(*q);
                    *part = std::array::from_fn(|v| R::madd(integers[v], x_now[v], part[v]));
                    *q = q.add(LANES / Q::EACH);
                }
                x = x.add(LANES);
            }
            for c in 0..N {
                let scale = R::splat(scale[c].add(g).read());
                total[c] = std::array::from_fn(|v| R::madd(part[c][v], scale, total[c][v]));
                if let Some(zero) = zero {
                    let zero = R::splat(zero[c].add(g).read());
                    total[c] = std::array::from_fn(|v| R::madd(sums[v], zero, total[c][v]));
                }
            }
        }
        std::array::from_fn(|c| R::sum(total[c]))
    }
}

/// A way to compute several columns together. It is a trait because a closure would not have the instructions of `R`.
trait Way<Q> {
    /// Computes `N` columns from `j` on.
    ///
    /// # Safety
    /// The contract of [`columns`] holds; the vector has the form that this way reads.
    unsafe fn dots<R: Register, const N: usize>(p: &Operands<'_, Q>, vector: &Vector, j: usize) -> [f32; N];
}

/// Computes columns by [`usual::dots`], for groups of the usual size.
struct Usually;

impl<Q: Usual> Way<Q> for Usually {
    #[inline(always)]
    unsafe fn dots<R: Register, const N: usize>(p: &Operands<'_, Q>, vector: &Vector, j: usize) -> [f32; N] {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { usual::dots::<Q, R, N>(p, vector, j) }
    }
}

/// Computes columns by [`dots`], for groups of any size.
struct Always;

impl<Q: Stored> Way<Q> for Always {
    #[inline(always)]
    unsafe fn dots<R: Register, const N: usize>(p: &Operands<'_, Q>, vector: &Vector, j: usize) -> [f32; N] {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { dots::<Q, R, N>(p, vector, j) }
    }
}

/// The columns that are computed together if groups do not have the usual size.
const TOGETHER: usize = 2;

/// Computes columns `from..to` of the result.
///
/// # Safety
/// The processor has the instructions of `R`; no other thread writes these columns; the sizes passed the tests of
/// [`GroupedProduct::new`].
#[inline(always)]
unsafe fn columns<Q: Usual, R: Register>(p: &Operands<'_, Q>, from: usize, to: usize) {
    for (i, vector) in p.vectors.iter().enumerate() {
        // SAFETY: the caller upholds the contract; column `j` of row `i` belongs to this call.
        unsafe {
            let out = p.out.add(i * p.cols);
            match usual::fits::<Q>(p.depth, p.group) {
                true => row::<Usually, Q, R, { usual::TOGETHER }>(p, vector, out, from, to),
                false => row::<Always, Q, R, TOGETHER>(p, vector, out, from, to),
            }
        }
    }
}

/// Computes columns `from..to` of one row, `N` at a time and the rest one by one.
///
/// # Safety
/// The contract of [`columns`] holds; the row starts at `out`.
#[inline(always)]
unsafe fn row<W: Way<Q>, Q, R: Register, const N: usize>(
    p: &Operands<'_, Q>,
    vector: &Vector,
    out: *mut f32,
    from: usize,
    to: usize,
) {
    let whole = from + (to - from) / N * N;
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        for j in (from..whole).step_by(N) {
            let sums: [f32; N] = W::dots::<R, N>(p, vector, j);
            (out.add(j) as *mut [f32; N]).write_unaligned(sums);
        }
        for j in whole..to {
            let [sum] = W::dots::<R, 1>(p, vector, j);
            out.add(j).write(sum);
        }
    }
}

/// [`columns`] with AVX2.
///
/// # Safety
/// The contract of [`columns`] holds; the processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn columns_avx2<Q: Usual>(p: &Operands<'_, Q>, from: usize, to: usize) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { columns::<Q, std::arch::x86_64::__m256>(p, from, to) }
}

/// [`columns`] with an instruction set that the processor has.
///
/// # Safety
/// The contract of [`columns`] holds.
unsafe fn columns_of<Q: Usual>(isa: Level, p: &Operands<'_, Q>, from: usize, to: usize) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => columns_avx2(p, from, to),
            _ => columns::<Q, [f32; WIDTH]>(p, from, to),
        }
    }
}

/// The estimated nanoseconds of a product on one thread.
pub fn nanos(rows: usize, depth: usize, cols: usize) -> f64 {
    let step = if rows > MOST { 0.02 } else { 0.06 };
    (rows * depth * cols) as f64 * step
}

/// Vectors, integers, factors of groups, and the number that is added to each element of a group.
pub type Read<'a, Q> = (&'a [f32], &'a [Q], &'a [f32], Option<&'a [f32]>);

/// A product whose vectors are made ready. Its columns come in parts, which threads may share.
pub struct GroupedProduct<'a, Q> {
    operands: Operands<'a, Q>,
    /// The weight is written out, some columns at a time.
    many: bool,
    level: Level,
    out: PhantomData<&'a mut [f32]>,
}

impl<'a, Q: Usual> GroupedProduct<'a, Q> {
    /// The product of vectors, one behind the other, with a weight of `cols` columns in groups of `group` integers;
    /// `None` where lengths don't fit each other.
    pub fn new(
        level: Level,
        (group, cols): (usize, usize),
        (x, q, scale, zero): Read<'a, Q>,
        out: &'a mut [f32],
    ) -> Option<GroupedProduct<'a, Q>> {
        let depth = q.len() * Q::EACH / cols.max(1);
        let (rows, groups) = (x.len() / depth.max(1), depth / group.max(1));
        let fits = depth > 0
            && group > 0
            && depth.is_multiple_of(group)
            && group.is_multiple_of(LANES)
            && q.len() * Q::EACH == cols * depth
            && x.len() == rows * depth
            && scale.len() == cols * groups
            && out.len() == rows * cols
            && zero.is_none_or(|z| z.len() == scale.len());
        if !fits {
            return None;
        }
        // an infinite element must meet neither the offset nor the sum of its group
        let many = rows > MOST || !x.iter().all(|x| x.is_finite());
        let ready = |x: &[f32]| match usual::fits::<Q>(depth, group) {
            true => Q::ready(x),
            false => Vector::new::<Q>(x, group),
        };
        let vectors = match many {
            true => vec![panels::vectors::<Q>(x, depth)],
            false => x.chunks_exact(depth).map(ready).collect(),
        };
        let operands = Operands { depth, group, cols, q, scale, zero, vectors, out: out.as_mut_ptr() };
        Some(GroupedProduct { operands, many, level: level.min(Level::detect()), out: PhantomData })
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        if self.many { self.operands.cols.div_ceil(panels::width(self.operands.depth)) } else { self.operands.cols }
    }

    /// Computes the parts `from..to`.
    ///
    /// # Safety
    /// There are these parts, and no other thread computes one of them at the same time.
    pub unsafe fn run(&self, from: usize, to: usize) {
        let p = &self.operands;
        // SAFETY: `new` compared the sizes and took a level that the processor has; parts cover disjoint columns.
        unsafe {
            if self.many {
                let width = panels::width(p.depth);
                panels::columns(self.level, p, from * width, (to * width).min(p.cols));
            } else {
                columns_of(self.level, p, from, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulgurite_core::storage::U4x2;

    /// All parts, one after the other; `None` where lengths don't fit.
    fn product<Q: Usual>(level: Level, sizes: (usize, usize), read: Read<'_, Q>, out: &mut [f32]) -> Option<()> {
        let product = GroupedProduct::new(level, sizes, read, out)?;
        // SAFETY: all of its parts, on one thread.
        unsafe { product.run(0, product.parts()) };
        Some(())
    }

    /// Numbers whose sums are exact, so that every order of addition gives equal results.
    fn numbers(n: usize, of: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7 + i / 5) % of) as f32 * 0.25 - of as f32 / 8.0).collect()
    }

    fn held<Q: Usual>(q: &[Q], value: impl Fn(usize) -> f32) {
        for (rows, depth, group) in
            [(1, 32, 32), (1, 256, 32), (2, 48, 16), (3, 128, 64), (8, 96, 96), (9, 64, 32), (40, 128, 64)]
        {
            let cols = 13;
            let groups = depth / group;
            let (x, scale) = (numbers(rows * depth, 17), numbers(cols * groups, 9));
            for zero in [None, Some(numbers(cols * groups, 11))] {
                let q = &q[..cols * depth / Q::EACH];
                for isa in [Level::Baseline, Level::detect()] {
                    let mut out = vec![f32::NAN; rows * cols];
                    product(isa, (group, cols), (&x, q, &scale, zero.as_deref()), &mut out).expect("sizes fit");
                    for (at, out) in out.iter().enumerate() {
                        let (i, j) = (at / cols, at % cols);
                        let weight = |k: usize| {
                            let g = j * groups + k / group;
                            value(j * depth + k) * scale[g] + zero.as_ref().map_or(0.0, |z| z[g])
                        };
                        let expected: f32 = (0..depth).map(|k| x[i * depth + k] * weight(k)).sum();
                        assert_eq!(*out, expected, "{isa:?}, {rows} x {depth}, groups of {group}, at {i}, {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn products_equal_their_definition_with_every_instruction_set() {
        let eight: Vec<i8> = (0..13 * 256).map(|i| (i * 37 % 256) as u8 as i8).collect();
        held(&eight, |k| f32::from(eight[k]));
        let four: Vec<U4x2> = (0..13 * 128).map(|i| U4x2((i * 37 % 256) as u8)).collect();
        held(&four, |k| f32::from(four[k / 2].0 >> (4 * (k % 2)) & 15) - 8.0);
    }

    #[test]
    fn infinite_elements_meet_only_their_own_weights() {
        let mut x = [1.0f32; 32];
        x[4] = f32::INFINITY;
        let q = [U4x2(0xff); 16];
        let mut out = [0.0];
        product(Level::detect(), (32, 1), (&x, &q[..], &[1.0], Some(&[-1.0])), &mut out).expect("sizes fit");
        assert_eq!(out, [f32::INFINITY]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = [0.0; 2];
        let q = [1i8; 64];
        assert!(product(Level::Baseline, (32, 2), (&[1.0; 32], &q[..], &[1.0; 2], None), &mut out).is_some());
        assert!(product(Level::Baseline, (8, 2), (&[1.0; 32], &q[..], &[1.0; 8], None), &mut out).is_none());
        assert!(product(Level::Baseline, (32, 2), (&[1.0; 32], &q[..], &[1.0; 3], None), &mut out).is_none());
        assert!(product(Level::Baseline, (32, 2), (&[1.0; 31], &q[..], &[1.0; 2], None), &mut out).is_none());
        assert!(product(Level::Baseline, (32, 2), (&[1.0; 32], &q[..63], &[1.0; 2], None), &mut out).is_none());
    }
}
