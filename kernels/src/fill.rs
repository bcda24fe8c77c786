//! Tiles without inputs from memory: constants, positions, comparisons of positions, random numbers.

use crate::abi::Level;
use crate::multi::{multi, with_width};
use fulgurite_core::philox;

multi! {
    /// Fills each line with its own value, `src[line]`.
    ///
    /// # Safety
    /// `src` holds `lines` elements of `T`; `dst` has room for `lines` lines of `cols` elements, `pitch` elements
    /// apart.
    unsafe fn splat_lines<T: Copy>(dst: *mut u8, pitch: usize, src: *const u8, lines: usize, cols: usize) {
        // SAFETY: the caller's pointers hold the lines.
        unsafe {
            for l in 0..lines {
                let x = (src as *const T).add(l).read();
                let to = (dst as *mut T).add(l * pitch);
                for c in 0..cols {
                    to.add(c).write(x);
                }
            }
        }
    }
}

/// [`splat_lines`] for elements of this size.
pub fn splat(bytes: usize, isa: Level) -> splat_lines::Fn {
    with_width!(bytes, T => splat_lines::pick::<T>(isa))
}

multi! {
    /// `base + line · per_line + column · per_col`
    ///
    /// # Safety
    /// `dst` has room for `lines` lines of `cols` integers, `pitch` integers apart.
    unsafe fn positions(dst: *mut u8, pitch: usize, base: i64, per_line: i64, per_col: i64, lines: usize, cols: usize) {
        // SAFETY: the caller's pointer holds the lines.
        unsafe {
            for l in 0..lines {
                let to = (dst as *mut i64).add(l * pitch);
                let first = base.wrapping_add(per_line.wrapping_mul(l as i64));
                for c in 0..cols {
                    to.add(c).write(first.wrapping_add(per_col.wrapping_mul(c as i64)));
                }
            }
        }
    }
}

/// Tests whether `base + line · per_line + column · per_col` is zero (`equal`) or at least zero.
///
/// # Safety
/// `dst` holds `lines` lines of `cols` bytes, `pitch` apart.
#[allow(clippy::too_many_arguments)]
pub unsafe fn test(
    dst: *mut u8,
    pitch: usize,
    equal: bool,
    base: i64,
    per_line: i64,
    per_col: i64,
    lines: usize,
    cols: usize,
) {
    for l in 0..lines {
        let first = base.wrapping_add(per_line.wrapping_mul(l as i64));
        // Along a line the result changes at most once (for equality twice), so intervals are filled.
        let (lo, hi) = interval(equal, first, per_col, cols);
        // SAFETY: lo ≤ hi ≤ cols, and the caller's pointer holds the line.
        unsafe {
            let to = dst.add(l * pitch);
            std::ptr::write_bytes(to, 0, lo);
            std::ptr::write_bytes(to.add(lo), 1, hi - lo);
            std::ptr::write_bytes(to.add(hi), 0, cols - hi);
        }
    }
}

/// The columns `lo..hi` in which the test holds.
pub fn interval(equal: bool, first: i64, step: i64, cols: usize) -> (usize, usize) {
    let n = cols as i64;
    let clamp = |x: i64| x.clamp(0, n) as usize;
    if equal {
        if step == 0 {
            return if first == 0 { (0, cols) } else { (0, 0) };
        }
        // the bound of a comparison may be any number
        let at = first.wrapping_neg().wrapping_div(step);
        let hit = first.wrapping_rem(step) == 0 && (0..n).contains(&at);
        return if hit { (at as usize, at as usize + 1) } else { (0, 0) };
    }
    match step {
        0 => {
            if first >= 0 {
                (0, cols)
            } else {
                (0, 0)
            }
        }
        // The usual steps need no division.
        1 => (clamp(first.saturating_neg()), cols),
        -1 => (0, clamp(first.saturating_add(1))),
        // `first + c · step >= 0` holds from `c = ceil(-first / step)` on
        s if s > 0 => (clamp(-first.div_euclid(s)), cols),
        // and up to `c = floor(first / -step)` for a negative step, whose opposite may not be an i64
        s => (0, clamp((-first.div_euclid(s)).saturating_add(1))),
    }
}

multi! {
    /// Draws random numbers at consecutive positions.
    ///
    /// # Safety
    /// `dst` has room for `n` f32 that no other code uses.
    unsafe fn uniform_run(dst: *mut u8, n: usize, seed: u64, site: u64, draw: u32, start: u64) {
        // SAFETY: the caller's pointer holds `n` elements.
        let out = unsafe { std::slice::from_raw_parts_mut(dst as *mut f32, n) };
        philox::fill_uniform(seed, site, draw, start, out);
    }
}

/// Draws random numbers at given positions.
///
/// # Safety
/// Both pointers hold `n` elements.
pub unsafe fn uniform_at(dst: *mut u8, positions: *const u8, n: usize, seed: u64, site: u64, draw: u32) {
    for i in 0..n {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let at = (positions as *const i64).add(i).read();
            (dst as *mut f32).add(i).write(philox::uniform(seed, site, at as u64, draw));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_where_the_test_holds() {
        for equal in [false, true] {
            for first in -12..13i64 {
                for step in -4..5i64 {
                    let cols = 7;
                    let (lo, hi) = interval(equal, first, step, cols);
                    for c in 0..cols {
                        let v = first + c as i64 * step;
                        let holds = if equal { v == 0 } else { v >= 0 };
                        assert_eq!((lo..hi).contains(&c), holds, "{equal} {first} {step} {c}");
                    }
                }
            }
        }
        // the bound of a comparison may be any number
        for first in [i64::MIN, i64::MAX] {
            for step in [-1, 0, 1] {
                assert_eq!(interval(true, first, step, 7), (0, 0), "{first} {step}");
            }
        }
        let first = [i64::MIN, -1, 0, i64::MAX];
        assert_eq!(first.map(|first| interval(false, first, i64::MIN, 7)), [(0, 0), (0, 0), (0, 1), (0, 1)]);
        assert_eq!(first.map(|first| interval(false, first, i64::MAX, 7)), [(2, 7), (1, 7), (0, 7), (0, 7)]);
    }

    /// What lies between the lines stays.
    #[test]
    fn a_test_writes_its_columns_alone() {
        for (cols, pitch) in [(1, 2), (7, 9), (32, 33)] {
            for (equal, base) in [(false, -3), (false, 3), (true, -3), (false, -1000), (false, 1000)] {
                let mut to = vec![9u8; 4 * pitch];
                // SAFETY: there are three lines of `pitch` bytes, and one after them.
                unsafe { test(to.as_mut_ptr(), pitch, equal, base, 1, 1, 3, cols) };
                for (i, got) in to.iter().enumerate() {
                    let (l, c) = (i / pitch, i % pitch);
                    let value = base + l as i64 + c as i64;
                    let wanted = if equal { value == 0 } else { value >= 0 } as u8;
                    assert_eq!(*got, if l < 3 && c < cols { wanted } else { 9 }, "{cols} {equal} {base}: {l} {c}");
                }
            }
        }
    }
}
