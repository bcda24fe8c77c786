//! `if c { a } else { b }` on tiles, and what booleans need.

use super::{Isa, multi, with_width};
use fulgurite_core::kernel::TileFn;

multi! {
    /// Elements of the second argument where the first is not 0, else of the third.
    unsafe fn select_tile<T: Copy>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: the caller's pointers hold `n` elements; an equal input is read before it is written.
        unsafe {
            let (c, a, b) = (*ins, *ins.add(1) as *const T, *ins.add(2) as *const T);
            let y = *outs as *mut T;
            for i in 0..n {
                let (p, q) = (a.add(i).read(), b.add(i).read());
                y.add(i).write(if c.add(i).read() != 0 { p } else { q });
            }
        }
    }
}

/// The selection for elements of `bytes`.
pub fn select(bytes: usize, isa: Isa) -> TileFn {
    with_width!(bytes, T => select_tile::pick::<T>(isa))
}
