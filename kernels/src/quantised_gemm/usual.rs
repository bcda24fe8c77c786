//! Groups of 32, the usual ones: several columns side by side, each summed in one register, so that small matrices are
//! not mostly beginnings and ends.
//!
//! Integers of four bits are taken as words, 64 in a register: a mask and a conversion give eight at once, each kind times
//! a power of 16 that the vector is divided by beforehand. A half of such a register is a group, so that factors and
//! offsets are a register's.

use super::lanes::{Register, Stored, WIDTH};
use super::{Operands, Vector};
use fulgurite_core::storage::U4x2;

/// Integers of a group.
const GROUP: usize = 32;

/// Integers of four bits in a register.
const RUN: usize = 64;

/// Columns side by side.
pub const TOGETHER: usize = 4;

/// Floats that a vector has for a group of eight bits: its elements, and their sums by lanes.
const BYTES_READY: usize = GROUP + WIDTH;

/// Floats that it has for a run of four bits: its elements by halves of bytes, their sums by lanes, the offset times these.
const WORDS_READY: usize = RUN + 2 * WIDTH;

/// How integers in groups of 32 are multiplied.
pub trait Usual: Stored {
    /// Integers that the length of a vector is a multiple of.
    const STEP: usize;

    /// A vector made ready.
    fn ready(elements: &[f32]) -> Vector;

    /// Sums of `N` columns by lanes, `j` the first, for a vector that is [ready](Usual::ready).
    ///
    /// # Safety
    /// As [`super::dots`]; the product [`fits`].
    unsafe fn lanes<R: Register, const N: usize>(p: &Operands<'_, Self>, vector: &Vector, j: usize) -> [R; N];
}

/// Whether a product is of this kind.
pub fn fits<Q: Usual>(depth: usize, group: usize) -> bool {
    group == GROUP && depth.is_multiple_of(Q::STEP)
}

/// Results of `N` columns, at most [`TOGETHER`], as [`super::dots`] has them.
///
/// # Safety
/// As [`Usual::lanes`].
#[inline(always)]
pub unsafe fn dots<Q: Usual, R: Register, const N: usize>(p: &Operands<'_, Q>, vector: &Vector, j: usize) -> [f32; N] {
    // SAFETY: the caller's.
    unsafe {
        let lanes: [R; N] = Q::lanes(p, vector, j);
        let none = R::splat(0.0);
        let sums = R::sums(std::array::from_fn(|c| lanes.get(c).copied().unwrap_or(none)));
        std::array::from_fn(|c| sums[c % TOGETHER])
    }
}

/// Where `N` columns begin, with so many elements each.
///
/// # Safety
/// There are these columns.
#[inline(always)]
unsafe fn begins<T, const N: usize>(of: &[T], j: usize, each: usize) -> [*const T; N] {
    // SAFETY: the caller's.
    std::array::from_fn(|c| unsafe { of.as_ptr().add((j + c) * each) })
}

impl Usual for i8 {
    const STEP: usize = GROUP;

    fn ready(elements: &[f32]) -> Vector {
        let mut x = vec![0.0; elements.len() / GROUP * BYTES_READY];
        for (to, from) in x.as_chunks_mut::<BYTES_READY>().0.iter_mut().zip(elements.as_chunks::<GROUP>().0) {
            to[..GROUP].copy_from_slice(from);
            for lane in 0..WIDTH {
                to[GROUP + lane] = from.iter().skip(lane).step_by(WIDTH).sum();
            }
        }
        Vector { x, sums: Vec::new() }
    }

    #[inline(always)]
    unsafe fn lanes<R: Register, const N: usize>(p: &Operands<'_, i8>, vector: &Vector, j: usize) -> [R; N] {
        let groups = p.depth / GROUP;
        // SAFETY: the caller's; pointers go on by a group at a time.
        unsafe {
            let mut x = vector.x.as_ptr();
            let mut q: [*const i8; N] = begins(p.q, j, p.depth);
            let scale: [*const f32; N] = begins(p.scale, j, groups);
            let zero: Option<[*const f32; N]> = p.zero.map(|zero| begins(zero, j, groups));
            let none = R::splat(0.0);
            let mut total = [none; N];
            for g in 0..groups {
                let mut part = [none; N];
                for k in 0..GROUP / WIDTH {
                    let x_now = R::load(x.add(k * WIDTH));
                    for c in 0..N {
                        part[c] = R::madd(R::load_i8(q[c].add(k * WIDTH)), x_now, part[c]);
                    }
                }
                for c in 0..N {
                    total[c] = R::madd(part[c], R::splat(scale[c].add(g).read()), total[c]);
                    if let Some(zero) = zero {
                        total[c] = R::madd(R::load(x.add(GROUP)), R::splat(zero[c].add(g).read()), total[c]);
                    }
                    q[c] = q[c].add(GROUP);
                }
                x = x.add(BYTES_READY);
            }
            total
        }
    }
}

impl Usual for U4x2 {
    const STEP: usize = RUN;

    fn ready(elements: &[f32]) -> Vector {
        let mut x = vec![0.0; elements.len() / RUN * WORDS_READY];
        for (to, from) in x.as_chunks_mut::<WORDS_READY>().0.iter_mut().zip(elements.as_chunks::<RUN>().0) {
            for (lane, eight) in from.as_chunks::<WIDTH>().0.iter().enumerate() {
                let mut power = 1.0;
                for (k, x) in eight.iter().enumerate() {
                    to[k * WIDTH + lane] = if k == WIDTH - 1 { *x } else { x * power };
                    power /= 16.0;
                }
                let sum: f32 = eight.iter().sum();
                to[RUN + lane] = sum;
                to[RUN + WIDTH + lane] = -U4x2::OFFSET * sum;
            }
        }
        Vector { x, sums: Vec::new() }
    }

    #[inline(always)]
    unsafe fn lanes<R: Register, const N: usize>(p: &Operands<'_, U4x2>, vector: &Vector, j: usize) -> [R; N] {
        let groups = p.depth / GROUP;
        // SAFETY: the caller's; pointers go on by a run at a time.
        unsafe {
            let mut x = vector.x.as_ptr();
            let mut q: [*const U4x2; N] = begins(p.q, j, p.depth / U4x2::EACH);
            let scale: [*const f32; N] = begins(p.scale, j, groups);
            let zero: Option<[*const f32; N]> = p.zero.map(|zero| begins(zero, j, groups));
            let mut total = [R::splat(0.0); N];
            for run in 0..p.depth / RUN {
                for c in 0..N {
                    let mut part = R::load(x.add(RUN + WIDTH));
                    for (k, integers) in R::load_words(q[c]).into_iter().enumerate() {
                        part = R::madd(integers, R::load(x.add(k * WIDTH)), part);
                    }
                    total[c] = R::madd(part, R::load_two(scale[c].add(2 * run)), total[c]);
                    if let Some(zero) = zero {
                        total[c] = R::madd(R::load(x.add(RUN)), R::load_two(zero[c].add(2 * run)), total[c]);
                    }
                    q[c] = q[c].add(RUN / U4x2::EACH);
                }
                x = x.add(WORDS_READY);
            }
            total
        }
    }
}
