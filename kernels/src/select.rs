//! `if c { a } else { b }` on tiles, and what booleans need.

use crate::abi::Level;
use crate::multi::{multi, with_width};
use fulgurite_core::kernel::TileFn;

/// Elements that are selected at once.
const CHUNK: usize = 32;

multi! {
    /// Elements of the second argument where the first is not 0, else of the third.
    ///
    /// # Safety
    /// `ins` points to three pointers, to `n` bytes and twice `n` elements of `T`; that of `outs` has room for `n`, which nobody
    /// else uses: apart from the inputs, or one of them.
    unsafe fn select_tile<T: Copy>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: the caller's pointers hold `n` elements; an equal input is read before it is written.
        unsafe {
            let (c, a, b) = (*ins, *ins.add(1) as *const T, *ins.add(2) as *const T);
            let y = *outs as *mut T;
            // Whole chunks are read before any of it is written: only then LLVM makes vectors of it.
            let whole = n - n % CHUNK;
            for at in (0..whole).step_by(CHUNK) {
                let cs = (c.add(at) as *const [u8; CHUNK]).read_unaligned();
                let (ps, qs) = (a.add(at).cast::<[T; CHUNK]>().read(), b.add(at).cast::<[T; CHUNK]>().read());
                let mut ys = qs;
                for i in 0..CHUNK {
                    ys[i] = if cs[i] != 0 { ps[i] } else { qs[i] };
                }
                y.add(at).cast::<[T; CHUNK]>().write(ys);
            }
            for i in whole..n {
                let (p, q) = (a.add(i).read(), b.add(i).read());
                y.add(i).write(if c.add(i).read() != 0 { p } else { q });
            }
        }
    }
}

/// The selection for elements of `bytes`.
pub fn select(bytes: usize, isa: Level) -> TileFn {
    with_width!(bytes, T => select_tile::pick::<T>(isa))
}
