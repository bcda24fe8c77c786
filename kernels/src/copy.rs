//! Copies rectangles between strided memory and dense registers.

use crate::abi::Level;
use crate::multi::{multi, with_width};
use crate::transpose::{Moved, transposed};

/// The strides of a rectangle, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// The distance from line to line.
    pub line: isize,
    /// The distance from element to element.
    pub elem: isize,
}

multi! {
    /// Copies a strided rectangle into a dense one whose lines are `pitch` elements apart.
    ///
    /// # Safety
    /// `src` points to `lines` times `cols` elements of `T` at the strides `at`, `dst` to room for them in lines of
    /// `pitch`; they do not overlap.
    unsafe fn gather2d<T: Copy>(dst: *mut u8, pitch: usize, src: *const u8, at: Rect, lines: usize, cols: usize) {
        // SAFETY: the caller's pointers hold the rectangles.
        unsafe {
            let dst = dst as *mut T;
            let size = size_of::<T>() as isize;
            if at.elem == size {
                for l in 0..lines {
                    let from = src.offset(l as isize * at.line) as *const T;
                    std::ptr::copy_nonoverlapping(from, dst.add(l * pitch), cols);
                }
            } else if at.elem == 0 {
                for l in 0..lines {
                    let x = (src.offset(l as isize * at.line) as *const T).read();
                    for c in 0..cols {
                        dst.add(l * pitch + c).write(x);
                    }
                }
            } else if at.line == size && size == 4 && lines >= 8 && cols >= 8 {
                // The rectangle is transposed, in blocks.
                let (from_steps, to_steps) = ((at.elem / size, 1), (1, pitch as isize));
                let (from, to) = (src as *const f32, dst as *mut f32);
                transposed::<I>(&Moved { from, from_steps, to, to_steps, rows: cols, cols: lines });
            } else if at.line == size && lines > 4 {
                // The lines are adjacent, so the copy reads across them.
                for c in 0..cols {
                    let from = src.offset(c as isize * at.elem) as *const T;
                    for l in 0..lines {
                        dst.add(l * pitch + c).write(from.add(l).read());
                    }
                }
            } else if at.elem == 2 * size {
                // A stride that the compiler knows becomes whole loads.
                for l in 0..lines {
                    let from = src.offset(l as isize * at.line) as *const T;
                    for c in 0..cols {
                        dst.add(l * pitch + c).write(from.add(2 * c).read());
                    }
                }
            } else {
                for l in 0..lines {
                    let from = src.offset(l as isize * at.line);
                    for c in 0..cols {
                        dst.add(l * pitch + c).write((from.offset(c as isize * at.elem) as *const T).read());
                    }
                }
            }
        }
    }
}

multi! {
    /// Copies a dense rectangle, lines `pitch` elements apart, into a strided one.
    ///
    /// # Safety
    /// `dst` points to room for `lines` times `cols` elements of `T` at the strides `at`, `src` to the elements in
    /// lines of `pitch`. They do not overlap, or each line is copied onto itself, because a value is returned in the
    /// place where it was given.
    unsafe fn scatter2d<T: Copy>(dst: *mut u8, at: Rect, src: *const u8, pitch: usize, lines: usize, cols: usize) {
        // SAFETY: the caller's pointers hold the rectangles.
        unsafe {
            let src = src as *const T;
            if at.elem == size_of::<T>() as isize {
                for l in 0..lines {
                    let to = dst.offset(l as isize * at.line) as *mut T;
                    std::ptr::copy(src.add(l * pitch), to, cols);
                }
            } else {
                for l in 0..lines {
                    let to = dst.offset(l as isize * at.line);
                    for c in 0..cols {
                        (to.offset(c as isize * at.elem) as *mut T).write(src.add(l * pitch + c).read());
                    }
                }
            }
        }
    }
}

/// [`gather2d`] for elements of this size.
pub fn load(bytes: usize, isa: Level) -> gather2d::Fn {
    with_width!(bytes, T => gather2d::pick::<T>(isa))
}

/// [`scatter2d`] for elements of this size.
pub fn store(bytes: usize, isa: Level) -> scatter2d::Fn {
    with_width!(bytes, T => scatter2d::pick::<T>(isa))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposed_rectangles_have_all_elements() {
        let source: Vec<u32> = (0..60 * 60).map(|i| i ^ 0x7f80_0001).collect();
        for isa in Level::ALL.into_iter().filter(|i| *i <= Level::detect()) {
            for (lines, cols) in [(8, 8), (9, 20), (16, 16), (33, 12), (5, 40)] {
                let mut dense = vec![0u32; lines * 50];
                let (from, to) = (source.as_ptr() as *const u8, dense.as_mut_ptr() as *mut u8);
                // SAFETY: lines and columns are fewer than 60 and 50.
                unsafe { load(4, isa)(to, 50, from, Rect { line: 4, elem: 240 }, lines, cols) };
                for l in 0..lines {
                    for c in 0..50 {
                        let want = if c < cols { source[c * 60 + l] } else { 0 };
                        assert_eq!(dense[l * 50 + c], want, "{isa:?} {lines} {cols}: {l} {c}");
                    }
                }
            }
        }
    }

    #[test]
    fn rectangles_go_and_come_back() {
        let source: Vec<u32> = (0..200).collect();
        for (line, elem) in [(40, 4), (4, 40), (0, 4), (40, 0), (-40, 4), (36, -8)] {
            let at = Rect { line, elem };
            let mut dense = [0u32; 64];
            let start = 100;
            // SAFETY: all offsets from element 100 stay within the 200 elements.
            unsafe {
                let from = (source.as_ptr() as *const u8).add(4 * start);
                load(4, Level::current())(dense.as_mut_ptr() as *mut u8, 8, from, at, 6, 5);
            }
            for l in 0..6 {
                for c in 0..5 {
                    let expected = start as isize + (l as isize * line + c as isize * elem) / 4;
                    assert_eq!(dense[l * 8 + c] as isize, expected, "{at:?}");
                }
            }
            if line != 0 && elem != 0 {
                let mut back = vec![0u32; 200];
                // SAFETY: as above.
                unsafe {
                    let to = (back.as_mut_ptr() as *mut u8).add(4 * start);
                    store(4, Level::current())(to, at, dense.as_ptr() as *const u8, 8, 6, 5);
                }
                for l in 0..6 {
                    for c in 0..5 {
                        let i = (start as isize + (l as isize * line + c as isize * elem) / 4) as usize;
                        assert_eq!(back[i], source[i]);
                    }
                }
            }
        }
    }
}
