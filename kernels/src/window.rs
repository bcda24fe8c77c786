//! Copies rectangles of a strided tensor line by line, and fills columns that lie outside of the tensor.

use crate::abi::Level;
use crate::multi::{multi, with_width};

/// The range of columns that are read; the other columns are filled.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    /// The first column.
    pub lo: usize,
    /// The end of the columns, at least `lo`.
    pub hi: usize,
}

/// A rectangle and the place of its copy; distances are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Rectangle {
    /// The first element; it may lie outside of the tensor if only other elements are read.
    pub from: *const u8,
    /// The first element of the copy.
    pub to: *mut u8,
    /// The distance from line to line.
    pub from_line: isize,
    /// The distance from line to line of the copy.
    pub to_line: isize,
    /// The distance from element to element.
    pub from_elem: isize,
    /// The distance from element to element of the copy.
    pub to_elem: isize,
    /// The number of lines.
    pub lines: usize,
    /// The number of elements of a line.
    pub cols: usize,
    /// The columns that are read.
    pub inside: Inside,
}

/// Copies a rectangle; the array starts with the fill element.
pub type Fn = unsafe fn(&Rectangle, &[u8; 8]);

multi! {
    /// Copies element by element.
    ///
    /// # Safety
    /// The rectangle's elements inside exist, and the copy has room for all; the two do not overlap.
    unsafe fn strided<T: Copy>(r: &Rectangle, value: &[u8; 8]) {
        // SAFETY: the rectangle's elements inside are there, and the copy has room.
        unsafe {
            let value = (value.as_ptr() as *const T).read_unaligned();
            let size = size_of::<T>() as isize;
            if r.from_elem == 2 * size && r.to_elem == size {
                return every_other(r, value);
            }
            for l in 0..r.lines as isize {
                let from = r.from.wrapping_offset(l * r.from_line);
                let to = r.to.offset(l * r.to_line);
                for c in 0..r.inside.lo as isize {
                    (to.offset(c * r.to_elem) as *mut T).write(value);
                }
                for c in r.inside.lo as isize..r.inside.hi as isize {
                    let x = (from.wrapping_offset(c * r.from_elem) as *const T).read();
                    (to.offset(c * r.to_elem) as *mut T).write(x);
                }
                for c in r.inside.hi as isize..r.cols as isize {
                    (to.offset(c * r.to_elem) as *mut T).write(value);
                }
            }
        }
    }
}

/// Copies every other element of lines, side by side: a stride that the compiler knows becomes whole loads.
///
/// # Safety
/// The contract of [`strided`] holds, with these distances between elements.
#[inline(always)]
unsafe fn every_other<T: Copy>(r: &Rectangle, value: T) {
    for l in 0..r.lines as isize {
        let from = r.from.wrapping_offset(l * r.from_line) as *const T;
        // SAFETY: the rectangle's elements inside are there, and the copy has room.
        unsafe {
            let to = r.to.offset(l * r.to_line) as *mut T;
            (0..r.inside.lo).for_each(|c| to.add(c).write(value));
            let (from, inside) = (from.wrapping_add(2 * r.inside.lo), to.add(r.inside.lo));
            for c in 0..r.inside.hi - r.inside.lo {
                inside.add(c).write(from.add(2 * c).read());
            }
            (r.inside.hi..r.cols).for_each(|c| to.add(c).write(value));
        }
    }
}

multi! {
    /// Copies lines that are contiguous in the source and the copy.
    ///
    /// # Safety
    /// The contract of [`strided`] holds, and lines are contiguous in the source and the copy.
    unsafe fn straight<T: Copy>(r: &Rectangle, value: &[u8; 8]) {
        // SAFETY: the rectangle's elements inside are there, and the copy has room.
        unsafe {
            let value = (value.as_ptr() as *const T).read_unaligned();
            for l in 0..r.lines as isize {
                let from = r.from.wrapping_offset(l * r.from_line) as *const T;
                let to = r.to.offset(l * r.to_line) as *mut T;
                (0..r.inside.lo).for_each(|c| to.add(c).write(value));
                std::ptr::copy_nonoverlapping(from.wrapping_add(r.inside.lo), to.add(r.inside.lo), r.inside.hi - r.inside.lo);
                (r.inside.hi..r.cols).for_each(|c| to.add(c).write(value));
            }
        }
    }
}

/// [`straight`] for elements of four bytes, sixteen at once: a short line is one masked load and one masked store.
///
/// # Safety
/// The CPU has AVX-512 F; the rectangle's elements inside exist, and the copy has room.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn words(r: &Rectangle, value: &[u8; 8]) {
    use std::arch::x86_64::{_mm512_mask_loadu_epi32, _mm512_mask_storeu_epi32, _mm512_set1_epi32};
    const LANES: usize = 16;
    /// Lines of up to this many columns are copied in blocks of sixteen columns across all lines.
    const SHORT: usize = 128;
    let fill = _mm512_set1_epi32(i32::from_ne_bytes([value[0], value[1], value[2], value[3]]));
    // The mask of the first `n` lanes.
    let first = |n: usize| if n >= LANES { u16::MAX } else { (1u16 << n) - 1 };
    let block = |l: isize, c: usize| {
        let read = first(r.inside.hi.saturating_sub(c)) & !first(r.inside.lo.saturating_sub(c));
        let there = first(r.cols - c);
        // SAFETY: lanes that are masked out are not touched.
        unsafe {
            let from = r.from.wrapping_offset(l * r.from_line).wrapping_add(4 * c) as *const i32;
            let to = r.to.wrapping_offset(l * r.to_line).wrapping_add(4 * c) as *mut i32;
            _mm512_mask_storeu_epi32(to, there, _mm512_mask_loadu_epi32(fill, read, from));
        }
    };
    if r.cols <= SHORT {
        for c in (0..r.cols).step_by(LANES) {
            (0..r.lines as isize).for_each(|l| block(l, c));
        }
    } else {
        for l in 0..r.lines as isize {
            (0..r.cols).step_by(LANES).for_each(|c| block(l, c));
        }
    }
}

multi! {
    /// Adds the elements inside, of f32, to those of the other rectangle; columns outside are left out.
    ///
    /// # Safety
    /// The rectangle's elements inside exist on both sides, and the two do not overlap.
    unsafe fn add(r: &Rectangle, _value: &[u8; 8]) {
        let size = size_of::<f32>() as isize;
        for l in 0..r.lines as isize {
            let from = r.from.wrapping_offset(l * r.from_line + r.inside.lo as isize * r.from_elem);
            let to = r.to.wrapping_offset(l * r.to_line + r.inside.lo as isize * r.to_elem);
            let n = r.inside.hi - r.inside.lo;
            // SAFETY: the caller upholds the contract. Strides that the compiler knows become instructions on vectors.
            unsafe {
                match (r.from_elem / size, r.to_elem / size) {
                    (1, 1) => add_line(from, to, n, 1, 1),
                    (1, 2) => add_line(from, to, n, 1, 2),
                    (from_step, to_step) => add_line(from, to, n, from_step, to_step),
                }
            }
        }
    }
}

/// Adds `n` elements to others; steps are in elements.
///
/// # Safety
/// The elements exist on both sides, and they do not overlap.
#[inline(always)]
unsafe fn add_line(from: *const u8, to: *mut u8, n: usize, from_step: isize, to_step: isize) {
    let (from, to) = (from as *const f32, to as *mut f32);
    for c in 0..n as isize {
        // SAFETY: the caller upholds the contract.
        unsafe {
            let to = to.offset(c * to_step);
            to.write(to.read() + from.offset(c * from_step).read());
        }
    }
}

/// The copy for elements of this size; `contiguous` if lines are contiguous in the source and the copy.
pub fn pick(bytes: usize, contiguous: bool, isa: Level) -> Fn {
    #[cfg(target_arch = "x86_64")]
    if contiguous && bytes == 4 && isa == Level::Avx512 {
        return words;
    }
    match contiguous {
        true => with_width!(bytes, T => straight::pick::<T>(isa)),
        false => with_width!(bytes, T => strided::pick::<T>(isa)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_are_added_inside_alone() {
        let source: Vec<f32> = (1..=100).map(|i| i as f32).collect();
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for (from_elem, to_elem) in [(4, 4), (4, 8), (8, 4), (4, 12)] {
                let mut sums = vec![1f32; 200];
                let r = Rectangle {
                    from: source.as_ptr() as *const u8,
                    to: sums.as_mut_ptr() as *mut u8,
                    from_line: 160,
                    to_line: 400,
                    from_elem,
                    to_elem,
                    lines: 2,
                    cols: 19,
                    inside: Inside { lo: 2, hi: 18 },
                };
                // SAFETY: 40 + 2 · 18 elements are there, and 100 + 3 · 18 of the sums.
                unsafe { add::pick(isa)(&r, &[0; 8]) };
                for l in 0..2usize {
                    for c in 0..19usize {
                        let x = if (2..18).contains(&c) { source[40 * l + c * from_elem as usize / 4] } else { 0.0 };
                        assert_eq!(sums[100 * l + c * to_elem as usize / 4], 1.0 + x, "{isa:?} {l} {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_kernel_copies_what_is_inside_and_fills_the_rest() {
        let source: Vec<i32> = (1..=400).collect();
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for cols in [1, 2, 7, 16, 17, 33, 130] {
                for (lo, hi) in [(0, cols), (0, 0), (1.min(cols), cols), (0, cols - 1), (cols / 2, cols / 2 + 1)] {
                    for elem in [4, 8] {
                        let mut copy = vec![-1i32; 3 * 140];
                        let r = Rectangle {
                            from: source.as_ptr() as *const u8,
                            to: copy.as_mut_ptr() as *mut u8,
                            from_line: 40,
                            to_line: 560,
                            from_elem: elem,
                            to_elem: 4,
                            lines: 3,
                            cols,
                            inside: Inside { lo, hi },
                        };
                        // SAFETY: 2 · 10 + 2 · 129 elements are there, and the copy has 140 a line.
                        unsafe { pick(4, elem == 4, isa)(&r, &[9, 0, 0, 0, 0, 0, 0, 0]) };
                        for (l, line) in copy.chunks_exact(140).enumerate() {
                            for (c, x) in line.iter().enumerate() {
                                let from = source[10 * l + elem as usize / 4 * c];
                                let expected = if c >= cols {
                                    -1
                                } else if (lo..hi).contains(&c) {
                                    from
                                } else {
                                    9
                                };
                                assert_eq!(*x, expected, "{isa:?} {cols} {lo}..{hi} {elem}: line {l}, column {c}");
                            }
                        }
                    }
                }
            }
        }
    }
}
