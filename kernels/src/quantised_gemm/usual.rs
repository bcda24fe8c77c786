//! Products for groups of 32, the usual size: several columns run side by side, each summed in one register, so that
//! small matrices do not spend most of their time at beginnings and ends.
//!
//! Four-bit integers are loaded as words, 64 integers to a register. A mask and a conversion then give eight of them at
//! once, each scaled by a power of 16, by which the vector is divided beforehand. One half of such a register is a
//! group, so scales and offsets fill a register too.

use super::lanes::{Register, Stored, WIDTH};
use super::{Operands, Vector};
use fulgurite_core::storage::U4x2;

/// The integers of a group.
const GROUP: usize = 32;

/// The four-bit integers of a register.
const RUN: usize = 64;

/// The columns that run side by side.
pub const TOGETHER: usize = 4;

/// The floats of a prepared vector for a group of eight-bit integers: its elements, and their lane-wise sums.
const BYTES_READY: usize = GROUP + WIDTH;

/// The floats of a prepared vector for a run of four-bit integers: its elements by their position in a word, their
/// lane-wise sums, and these sums times the negated offset.
const WORDS_READY: usize = RUN + 2 * WIDTH;

/// Multiplies integers in groups of 32.
pub trait Usual: Stored {
    /// The length of a vector must be a multiple of this.
    const STEP: usize;

    /// Prepares a vector.
    fn ready(elements: &[f32]) -> Vector;

    /// The lane-wise sums of `N` columns from `j` on, for a vector that [`Usual::ready`] prepared.
    ///
    /// # Safety
    /// The contract of `dots` holds; the product `fits`.
    unsafe fn lanes<R: Register, const N: usize>(p: &Operands<'_, Self>, vector: &Vector, j: usize) -> [R; N];
}

/// Whether a product has groups of this size.
pub fn fits<Q: Usual>(depth: usize, group: usize) -> bool {
    group == GROUP && depth.is_multiple_of(Q::STEP)
}

/// Computes `N` columns, at most [`TOGETHER`], as [`dots`] does.
///
/// # Safety
/// The contract of [`Usual::lanes`] holds.
#[inline(always)]
pub unsafe fn dots<Q: Usual, R: Register, const N: usize>(p: &Operands<'_, Q>, vector: &Vector, j: usize) -> [f32; N] {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        let lanes: [R; N] = Q::lanes(p, vector, j);
        let none = R::splat(0.0);
        let sums = R::sums(std::array::from_fn(|c| lanes.get(c).copied().unwrap_or(none)));
        std::array::from_fn(|c| sums[c % TOGETHER])
    }
}

/// Pointers to the beginnings of `N` columns from `j` on, which have `each` elements.
///
/// # Safety
/// These columns exist.
#[inline(always)]
unsafe fn begins<T, const N: usize>(of: &[T], j: usize, each: usize) -> [*const T; N] {
    // SAFETY: the caller upholds the contract of this function.
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
        // SAFETY: the caller upholds the contract; pointers go on by a group at a time.
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
        // SAFETY: the caller upholds the contract; pointers go on by a run at a time.
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
