//! Tile kernels of the scalar builtins: what runs a row that has no kernel of its own, and pieces of fusions.
//!
//! | symbol | variant | inputs → outputs | dtype |
//! |---|---|---|---|
//! | `builtin.NAME` | | the builtin's arguments → its value | compute dtype of the arguments |
//! | `builtin.add`, `sub`, `mul`, `div` | `by` | x, y → x and the first element of y | f32 |
//! | `builtin.add`, `sub`, `mul` | `add`, `sub`, `mul`, `from` | x, y, z → the second of the first of x and y, and z; `from` is `sub` the other way round | f32 |
//! | the same | `by add`, `add by`, `by add by`, … | y, or z, or both, are one number | f32 |
//!
//! **Bits.** All three forms of a kernel give the same bits for everything but the transcendental functions of f32 (see
//! [`crate::math`]): no kernel contracts a product and a sum that the row wrote apart.
//! Sign and payload of a NaN are not part of that promise.

mod maps;
mod ops;
mod pairs;
mod quick;

use fulgurite_core::kernel::KernelEntry;

/// Every kernel of a builtin.
pub static KERNELS: &[KernelEntry] = &concat::<{ count() }>();

const GROUPS: [&[KernelEntry]; 4] = [maps::FLOATS, maps::INTEGERS, quick::QUICK, pairs::PAIRS];

const fn count() -> usize {
    let mut sum = 0;
    let mut i = 0;
    while i < GROUPS.len() {
        sum += GROUPS[i].len();
        i += 1;
    }
    sum
}

const fn concat<const N: usize>() -> [KernelEntry; N] {
    let mut all = [GROUPS[0][0]; N];
    let (mut group, mut i, mut at) = (0, 0, 0);
    while group < GROUPS.len() {
        if i == GROUPS[group].len() {
            group += 1;
            i = 0;
        } else {
            all[at] = GROUPS[group][i];
            at += 1;
            i += 1;
        }
    }
    all
}
