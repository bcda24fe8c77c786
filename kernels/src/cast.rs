//! Casts between register types, as `fulgurite_core::builtins::cast_scalar` defines them.

use crate::abi::Level;
use crate::math::CastTo;
use crate::multi::multi;
use crate::with_register;
use fulgurite_core::DType;
use fulgurite_core::kernel::TileFn;

multi! {
    /// One tile cast.
    ///
    /// # Safety
    /// The first pointer of `ins` is to `n` elements of `A`, and that of `outs` to memory for `n` elements of `B` that is not
    /// used otherwise. The two may be equal where the types have one width.
    unsafe fn cast_tile<A: CastTo<B>, B: Copy>(n: usize, ins: *const *const u8, outs: *const *mut u8, _nums: *const u64) {
        // SAFETY: the caller's pointers hold `n` elements and do not overlap unless the types have one width.
        unsafe {
            let (x, y) = (*ins as *const A, *outs as *mut B);
            for i in 0..n {
                y.add(i).write(x.add(i).read().cast());
            }
        }
    }
}

/// The cast from one register type to another; that to bool asks whether a number is 0, so it is not one to bytes.
pub fn cast(from: DType, to: DType, isa: Level) -> TileFn {
    if to == DType::Bool {
        return with_register!(from, A => cast_tile::pick::<A, bool>(isa));
    }
    with_register!(from, A => with_register!(to, B => cast_tile::pick::<A, B>(isa)))
}
