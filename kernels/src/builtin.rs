//! Tile kernels of the scalar builtins: they run rows without a kernel of their own, and parts of fusions.
//!
//! | symbol | variant | inputs → outputs | dtype |
//! |---|---|---|---|
//! | `builtin.NAME` | | the builtin's arguments → its value | compute dtype of the arguments |
//! | `builtin.add`, `sub`, `mul`, `div` | `by` | x, y → x and the first element of y | f32 |
//! | `builtin.add`, `sub`, `mul` | `add`, `sub`, `mul`, `from` | x, y, z → V(B(x, y), z); `from(a, b)` is b - a | f32 |
//! | `builtin.add`, `sub`, `mul` | `by add`, `add by`, `by add by`, … | y, or z, or both, are one number | f32 |
//! | `builtin.cast` | `f32>i64` | element by element | the source's |
//! | `builtin.cast` | `f16>f32`, `f32>bf16`, … | half types, as bits, from and to f32 | f32 |
//! | `builtin.select` | | bool, x, y → x or y | that of x |
//! | `builtin.fill` | | nothing; number 0 → its value everywhere | the output's |
//! | `builtin.uniform` | | nothing; numbers seed, site, first position, draw → consecutive positions | f32, f64 |
//! | `builtin.uniform` | `at` | i64 positions; numbers seed, site, draw | f32, f64 |
//! | `reduce.sum`, `prod`, `max`, `min` | | tile → one element | accumulation dtype |
//!
//! **Bits.** All three forms of a kernel give equal bits, except for the transcendental functions of f32 (see
//! [`crate::math`]): no kernel contracts a product and a sum that the row writes separately, and reductions have a
//! fixed order. Sign and payload of a NaN are unspecified.

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
