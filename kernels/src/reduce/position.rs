//! Positions of extrema.

use super::{Accumulator, Reducible};
use crate::abi::Level;
use crate::math::Elem;
use crate::multi::multi;
use crate::with_register;
use fulgurite_core::DType;

/// The state of a search for the position of an extremum.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ExtremumPosition {
    /// The bits of the extremum, a lane.
    best: u64,
    /// The position of the extremum.
    pub at: i64,
    /// Whether any element was seen.
    seen: u64,
}

impl ExtremumPosition {
    /// The state before any element; its position is 0.
    pub const NONE: ExtremumPosition = ExtremumPosition { best: 0, at: 0, seen: 0 };

    /// Whether this lane is better than all before it.
    #[inline(always)]
    fn yields_to<L: Accumulator>(&self, x: L, max: bool) -> bool {
        self.seen == 0 || beats(x, L::from_bits(self.best), max)
    }
}

/// Whether `x` is strictly better, for the maximum or the minimum; NaN is best.
#[inline(always)]
fn beats<T: Elem>(x: T, other: T, max: bool) -> bool {
    (if max { x > other } else { x < other }) || (x.isnan() && !other.isnan())
}

multi! {
    /// Continues the search for the first extremum with elements at positions from `from` on for which `mask` holds.
    ///
    /// # Safety
    /// `src` holds `n` registers of `T`, `mask` holds `n` bytes or is null, `acc` holds one [`ExtremumPosition`] that no
    /// other code uses.
    unsafe fn extremum<T: Reducible>(src: *const u8, mask: *const u8, n: usize, from: i64, max: bool, acc: *mut u8) {
        // SAFETY: the caller's pointers hold `n` elements (a null mask means all) and one `ExtremumPosition`.
        unsafe {
            let x = src as *const T;
            let found = &mut *(acc as *mut ExtremumPosition);
            if mask.is_null() && n > 0 {
                // Most blocks hold no better element, so the block's extremum is found before its position.
                let mut best = x.read();
                for i in 1..n {
                    let v = x.add(i).read();
                    best = if beats(v, best, max) { v } else { best };
                }
                if !found.yields_to::<T::Lane>(best.cast(), max) {
                    return;
                }
            }
            for i in 0..n {
                if !mask.is_null() && mask.add(i).read() == 0 {
                    continue;
                }
                let v: T::Lane = x.add(i).read().cast();
                if found.yields_to(v, max) {
                    *found = ExtremumPosition { best: v.bits(), at: from + i as i64, seen: 1 };
                }
            }
        }
    }
}

/// The function that searches registers of `dtype`.
pub fn search(dtype: DType, isa: Level) -> extremum::Fn {
    with_register!(dtype, T => extremum::pick::<T>(isa))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extrema_are_first_and_nan_wins() {
        let find = |x: &[f32], mask: Option<&[u8]>, max: bool| {
            let mut arg = ExtremumPosition::NONE;
            let at = &mut arg as *mut ExtremumPosition as *mut u8;
            let mask = mask.map_or(std::ptr::null(), |m| m.as_ptr());
            // SAFETY: the slices hold their elements.
            unsafe { search(DType::F32, Level::current())(x.as_ptr() as *const u8, mask, x.len(), 0, max, at) };
            arg.at
        };
        assert_eq!(find(&[1., 3., 3., 2.], None, true), 1);
        assert_eq!(find(&[1., f32::NAN, 3., f32::NAN], None, true), 1);
        assert_eq!(find(&[1., f32::NAN, 0.], None, false), 1);
        assert_eq!(find(&[f32::NEG_INFINITY; 3], None, true), 0);
        assert_eq!(find(&[5., f32::NEG_INFINITY, 4.], Some(&[0, 1, 0]), true), 1);
    }
}
