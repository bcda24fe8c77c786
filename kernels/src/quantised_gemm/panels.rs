//! Many vectors times a weight of integers in groups: some columns at a time are written out as floats, which stay in
//! the second-level cache while they are multiplied.

use super::lanes::{LANES, REGISTERS, Register, Stored, WIDTH};
use super::{Operands, Vector};
use crate::abi::Level;
use gemm::Parallelism;

/// About this many floats are written out at a time, because 96 KiB fit the second-level cache and are reused by the
/// allocator.
const PANEL: usize = 24 << 10;

/// The number of columns written out at a time. It does not depend on the number of threads, so results do not either.
pub fn width(depth: usize) -> usize {
    (PANEL / depth.max(1)).clamp(16, 256)
}

/// The vectors, contiguous, each in the order of [`Stored::load`].
pub fn vectors<Q: Stored>(x: &[f32], depth: usize) -> Vector {
    let mut all = Vector { x: vec![0.0; x.len()], sums: Vec::new() };
    for (to, from) in all.x.chunks_exact_mut(depth).zip(x.chunks_exact(depth)) {
        Q::arrange(to, from);
    }
    all
}

/// Computes columns `from..to` of the result for all vectors.
///
/// # Safety
/// The contract of [`super::columns_of`] holds; `p.vectors` has one entry, made by [`vectors`].
pub unsafe fn columns<Q: Stored>(isa: Level, p: &Operands<'_, Q>, from: usize, to: usize) {
    let Some(vectors) = p.vectors.first() else { return };
    let (groups, stored) = (p.depth / p.group, p.depth / Q::EACH);
    let rows = vectors.x.len() / p.depth;
    let mut panel = vec![0f32; width(p.depth).min(to - from) * p.depth];
    for start in (from..to).step_by(width(p.depth)) {
        let n = width(p.depth).min(to - start);
        for (j, floats) in (start..start + n).zip(panel.chunks_exact_mut(p.depth)) {
            let of = j * groups..(j + 1) * groups;
            let zero = p.zero.map(|zero| &zero[of.clone()]);
            // SAFETY: the caller upholds the contract; a column of the panel has as many elements as one of the weight.
            unsafe { written(isa, p.group, &p.q[j * stored..(j + 1) * stored], &p.scale[of], zero, floats) }
        }
        let (depth, cols) = (p.depth as isize, p.cols as isize);
        // SAFETY: the strides are those of `rows` vectors, of `n` columns of the panel, and of columns `start..start +
        // n` of the result, which belong to this call.
        unsafe {
            let (x, w) = (vectors.x.as_ptr(), panel.as_ptr());
            let out = p.out.add(start);
            let (m, k) = (rows, p.depth);
            let one = Parallelism::None;
            gemm::gemm(m, n, k, out, 1, cols, false, x, 1, depth, w, depth, 1, 0.0, 1.0, false, false, false, one);
        }
    }
}

/// Writes one column as floats, with an instruction set that the processor has.
///
/// # Safety
/// The contract of [`write`] holds.
unsafe fn written<Q: Stored>(isa: Level, group: usize, q: &[Q], scale: &[f32], zero: Option<&[f32]>, to: &mut [f32]) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => write_avx2(group, q, scale, zero, to),
            _ => write::<Q, [f32; WIDTH]>(group, q, scale, zero, to),
        }
    }
}

/// [`write`] with AVX2.
///
/// # Safety
/// The contract of [`write`] holds; the processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn write_avx2<Q: Stored>(group: usize, q: &[Q], scale: &[f32], zero: Option<&[f32]>, to: &mut [f32]) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe { write::<Q, std::arch::x86_64::__m256>(group, q, scale, zero, to) }
}

/// Writes one column as floats, in the order of [`Stored::load`].
///
/// # Safety
/// The processor has the instructions of `R`. `to` has an element for each integer of `q`, in groups that are multiples
/// of the lanes; each group has a scale, and a zero point if `zero` is given.
#[inline(always)]
unsafe fn write<Q: Stored, R: Register>(group: usize, q: &[Q], scale: &[f32], zero: Option<&[f32]>, to: &mut [f32]) {
    for (g, (to, q)) in to.chunks_exact_mut(group).zip(q.chunks_exact(group / Q::EACH)).enumerate() {
        // SAFETY: the caller upholds the contract; runs have as many elements as registers.
        unsafe {
            let (one, offset) = (R::splat(1.0), R::splat(-Q::OFFSET));
            let (scale, zero) = (R::splat(scale[g]), R::splat(zero.map_or(0.0, |zero| zero[g])));
            for (to, q) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(q.chunks_exact(LANES / Q::EACH)) {
                let integers: [R; REGISTERS] = Q::load(q.as_ptr());
                for (v, q) in integers.into_iter().enumerate() {
                    R::madd(R::madd(q, one, offset), scale, zero).store(to.as_mut_ptr().add(v * WIDTH));
                }
            }
        }
    }
}
