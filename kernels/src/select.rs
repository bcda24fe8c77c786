//! `if c { a } else { b }` on tiles.

use crate::abi::Level;
use crate::multi::{multi, with_width};
use fulgurite_core::kernel::TileFn;

/// The elements that are selected together.
const CHUNK: usize = 32;

multi! {
    /// Takes elements of the second argument where the first is not 0, and elements of the third elsewhere.
    ///
    /// # Safety
    /// `ins` points to three pointers: to `n` bytes, and twice to `n` elements of `T`. That of `outs` has room for `n`
    /// elements that no other code uses; it equals one of the inputs or overlaps none.
    unsafe fn select_tile<T: Copy>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: the caller's pointers hold `n` elements; an equal input is read before it is written.
        unsafe {
            let (c, a, b) = (*ins, *ins.add(1) as *const T, *ins.add(2) as *const T);
            let y = *outs as *mut T;
            // A whole chunk is read before any of it is written, because LLVM makes vectors of the loop only then.
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

/// The selection for elements of this size.
pub fn select(bytes: usize, isa: Level) -> TileFn {
    with_width!(bytes, T => select_tile::pick::<T>(isa))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::GuardedMemory;

    /// All lengths, in memory that ends where the last element does.
    #[test]
    fn a_selection_stays_within_its_operands() {
        for n in 1..=100usize {
            let conditions: Vec<u8> = (0..n).map(|i| [0, 1, 2][i % 3]).collect();
            for isa in Level::ALL.into_iter().filter(|isa| *isa <= Level::current()) {
                for bytes in [1, 2, 4, 8] {
                    let of = |value: u8| GuardedMemory::of(&vec![value; n * bytes]);
                    let (c, a, b, y) = (GuardedMemory::of(&conditions), of(1), of(2), of(0));
                    let ins = [c.start(), a.start(), b.start()].map(<*mut u8>::cast_const);
                    // SAFETY: all have `n` elements, and the result overlaps no operand.
                    unsafe { select(bytes, isa)(n, ins.as_ptr(), &y.start(), std::ptr::null()) };
                    let wanted = conditions.iter().flat_map(|c| vec![if *c != 0 { 1 } else { 2 }; bytes]);
                    assert!(y.read().into_iter().eq(wanted), "{isa:?}: {n} elements of {bytes} bytes");
                }
            }
        }
    }
}
