//! Reads and writes elements at places that indices name.

use crate::abi::Level;
use crate::math::Elem;
use crate::multi::{multi, with_width};
use crate::with_register;
use fulgurite_core::DType;
use fulgurite_core::kernel::Combine;

/// One index of an indexed access.
#[derive(Clone, Copy, Debug)]
pub struct Coordinate {
    /// The register of i64 indices of a tile.
    pub index: *const i64,
    /// The distance in bytes from one index to the next.
    pub stride: isize,
    /// The size of the indexed axis.
    pub size: i64,
}

/// An index that is out of range for its axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The position of the coordinate.
    pub coordinate: usize,
    /// The index.
    pub index: i64,
}

/// Adds the distance of each coordinate to `offsets[i]`, and refuses an index that is out of range.
///
/// # Safety
/// Every coordinate holds `offsets.len()` indices.
pub unsafe fn offsets(coordinates: &[Coordinate], offsets: &mut [isize]) -> Result<(), OutOfRange> {
    for (k, c) in coordinates.iter().enumerate() {
        // SAFETY: the caller upholds the contract of this function.
        let index = unsafe { std::slice::from_raw_parts(c.index, offsets.len()) };
        if let Some(&index) = index.iter().find(|i| **i < 0 || **i >= c.size) {
            return Err(OutOfRange { coordinate: k, index });
        }
        for (o, i) in offsets.iter_mut().zip(index) {
            *o += *i as isize * c.stride;
        }
    }
    Ok(())
}

/// Like [`offsets`], but skips elements with an index that is out of range: their `keep` becomes 0 and their offset
/// stays in range.
///
/// # Safety
/// The contract of [`offsets`] holds.
pub unsafe fn kept_offsets(coordinates: &[Coordinate], offsets: &mut [isize], keep: &mut [u8]) {
    for c in coordinates {
        // SAFETY: the caller upholds the contract of this function.
        let index = unsafe { std::slice::from_raw_parts(c.index, offsets.len()) };
        for ((o, k), i) in offsets.iter_mut().zip(keep.iter_mut()).zip(index) {
            let inside = *i >= 0 && *i < c.size;
            *k &= inside as u8;
            *o += if inside { *i as isize * c.stride } else { 0 };
        }
    }
}

multi! {
    /// `dst[i] = *(base + offsets[i])`
    ///
    /// # Safety
    /// `dst` has room for `n` elements of `T`; `offsets` holds `n` offsets, each of which leads from `base` to an
    /// element.
    unsafe fn gather<T: Copy>(dst: *mut u8, base: *const u8, offsets: *const isize, n: usize) {
        // SAFETY: the caller's pointers hold `n` elements, and every offset names one of the base's.
        unsafe {
            for i in 0..n {
                (dst as *mut T).add(i).write((base.offset(offsets.add(i).read()) as *const T).read());
            }
        }
    }
}

/// A line of elements, each named by one index: element `c` lies `c · step` bytes, plus the distance of its index, from
/// the base.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The index.
    pub coordinate: Coordinate,
    /// The distance in bytes from element to element, apart from the index.
    pub step: isize,
    /// The number of elements.
    pub n: usize,
}

multi! {
    /// The first index that is out of range, if there is one.
    ///
    /// # Safety
    /// `index` holds `n` indices.
    unsafe fn outside(index: *const i64, size: i64, n: usize) -> Option<i64> {
        // SAFETY: the caller's pointer holds `n` indices.
        let index = unsafe { std::slice::from_raw_parts(index, n) };
        let wrong = index.iter().fold(false, |wrong, i| wrong | (*i as u64 >= size as u64));
        if wrong { index.iter().copied().find(|i| *i as u64 >= size as u64) } else { None }
    }
}

multi! {
    /// `dst[c] = *(base + c · step + index[c] · stride)`
    ///
    /// # Safety
    /// `dst` has room for the elements of `at`, of type `T`; the indices of `at` are in range for the memory at `base`.
    unsafe fn gather_line<T: Copy>(dst: *mut u8, base: *const u8, at: &Named) {
        // SAFETY: the caller's indices are in range, and `dst` has room for the line.
        unsafe {
            for c in 0..at.n {
                let offset = c as isize * at.step + at.coordinate.index.add(c).read() as isize * at.coordinate.stride;
                (dst as *mut T).add(c).write((base.offset(offset) as *const T).read());
            }
        }
    }
}

/// [`gather_line`] for elements of this size.
pub fn gather_line_fn(bytes: usize, isa: Level) -> gather_line::Fn {
    with_width!(bytes, T => gather_line::pick::<T>(isa))
}

/// [`gather`] for elements of this size.
pub fn gather_fn(bytes: usize, isa: Level) -> gather::Fn {
    with_width!(bytes, T => gather::pick::<T>(isa))
}

/// Combines `src[i]` into `*(base + offsets[i])` where `keep[i]`, in order.
///
/// # Safety
/// The pointers hold `n` elements, and every kept offset leads from `base` to an element.
pub unsafe fn scatter_tile<T: Elem>(
    base: *mut u8,
    offsets: *const isize,
    keep: *const u8,
    src: *const u8,
    n: usize,
    how: Combine,
) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        for i in 0..n {
            if keep.add(i).read() == 0 {
                continue;
            }
            let to = base.offset(offsets.add(i).read()) as *mut T;
            let x = (src as *const T).add(i).read();
            to.write(match how {
                Combine::Add => to.read().add(x),
                Combine::Replace => x,
                Combine::Times => to.read().mul(x),
                Combine::Larger => to.read().max(x),
                Combine::Smaller => to.read().min(x),
            });
        }
    }
}

/// Combines `src[c]` into `*(base + c · step + index[c] · stride)`, in order, where the index is in range.
///
/// # Safety
/// The pointers of `at` and `src` hold the line's elements, and every index in range leads from `base` to an element.
pub unsafe fn scatter_line<T: Elem>(base: *mut u8, at: &Named, src: *const u8, how: Combine) {
    // SAFETY: the caller upholds the contract of this function.
    unsafe {
        match how {
            Combine::Add => combine_line(base, at, src, T::add),
            Combine::Replace => combine_line(base, at, src, |_, x: T| x),
            Combine::Times => combine_line(base, at, src, T::mul),
            Combine::Larger => combine_line(base, at, src, T::max),
            Combine::Smaller => combine_line(base, at, src, T::min),
        }
    }
}

/// [`scatter_line`] for one combining function.
///
/// # Safety
/// The contract of [`scatter_line`] holds.
#[inline(always)]
unsafe fn combine_line<T: Elem>(base: *mut u8, at: &Named, src: *const u8, combine: impl Fn(T, T) -> T) {
    let Named { coordinate: Coordinate { index, stride, size }, step, n } = *at;
    for c in 0..n {
        // SAFETY: the caller upholds the contract of this function.
        unsafe {
            let i = index.add(c).read();
            if (i as u64) < size as u64 {
                let to = base.offset(c as isize * step + i as isize * stride) as *mut T;
                to.write(combine(to.read(), (src as *const T).add(c).read()));
            }
        }
    }
}

/// The type of [`scatter_line`].
pub type ScatterLineFn = unsafe fn(*mut u8, &Named, *const u8, Combine);

/// [`scatter_line`] for a dtype.
pub fn scatter_line_fn(dtype: DType) -> ScatterLineFn {
    with_register!(dtype, T => scatter_line::<T>)
}

/// The type of [`scatter_tile`].
pub type ScatterFn = unsafe fn(*mut u8, *const isize, *const u8, *const u8, usize, Combine);

/// [`scatter_tile`] for a dtype.
pub fn scatter_fn(dtype: DType) -> ScatterFn {
    with_register!(dtype, T => scatter_tile::<T>)
}

multi! {
    /// Computes `dst[i] += src[i]` on dense lines.
    ///
    /// # Safety
    /// Both pointers hold `n` elements of `T`, which do not overlap; no other code uses those of `dst`.
    unsafe fn add_line<T: Elem>(dst: *mut u8, src: *const u8, n: usize) {
        // SAFETY: the caller's pointers hold `n` elements and do not overlap.
        unsafe {
            let (y, x) = (dst as *mut T, src as *const T);
            for i in 0..n {
                y.add(i).write(y.add(i).read().add(x.add(i).read()));
            }
        }
    }
}

/// [`add_line`] for a dtype.
pub fn add_line_fn(dtype: DType, isa: Level) -> add_line::Fn {
    with_register!(dtype, T => add_line::pick::<T>(isa))
}

/// Whether any of `n` integers is 0.
///
/// # Safety
/// The pointer holds `n` elements of `dtype`.
// The loop compares every element with 0, so that it becomes vector instructions.
#[allow(clippy::manual_contains)]
pub unsafe fn any_zero(dtype: DType, src: *const u8, n: usize) -> bool {
    with_register!(dtype, T => {
        // SAFETY: the caller upholds the contract of this function.
        unsafe { std::slice::from_raw_parts(src as *const T, n) }.iter().any(|x| *x == (0 as T))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last index of an axis is in range, and its size is not: an element there would lie outside of the tensor.
    #[test]
    fn an_index_is_below_the_size_of_its_axis() {
        for (index, inside) in [(-1, false), (0, true), (4, true), (5, false), (i64::MIN, false), (i64::MAX, false)] {
            let line = [2, index, 1];
            let coordinate = Coordinate { index: line.as_ptr(), stride: 4, size: 5 };
            let (mut place, mut kept, mut keep) = ([0; 3], [0; 3], [1; 3]);
            // SAFETY: the coordinate has three indices.
            let (strict, first) = unsafe {
                kept_offsets(&[coordinate], &mut kept, &mut keep);
                (offsets(&[coordinate], &mut place), outside::pick(Level::current())(line.as_ptr(), 5, 3))
            };
            assert_eq!(strict, if inside { Ok(()) } else { Err(OutOfRange { coordinate: 0, index }) });
            assert_eq!(first, (!inside).then_some(index));
            assert_eq!((keep, kept), ([1, inside as u8, 1], [8, if inside { 4 * index as isize } else { 0 }, 4]));
        }
    }

    /// A scatter leaves out elements that are not in range.
    #[test]
    fn a_line_is_scattered_within_its_axis() {
        let (index, from) = ([4, 5, -1, 0, i64::MAX], [1f32, 2.0, 4.0, 8.0, 16.0]);
        let coordinate = Coordinate { index: index.as_ptr(), stride: 4, size: 5 };
        // an element on each side of the axis
        let mut to = [0f32; 7];
        let at = Named { coordinate, step: 0, n: 5 };
        // SAFETY: the line has five indices and elements, and the axis five elements after the first.
        unsafe { scatter_line::<f32>(to.as_mut_ptr().add(1).cast(), &at, from.as_ptr().cast(), Combine::Add) };
        assert_eq!(to, [0.0, 8.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    }
}
