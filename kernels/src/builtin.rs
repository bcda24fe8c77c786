//! Tile kernels of the scalar builtins: they run rows without a kernel of their own, and parts of fusions.
//!
//! | symbol | variant | inputs → outputs | dtype |
//! |---|---|---|---|
//! | `builtin.NAME` | | the builtin's arguments → its value | compute dtype of the arguments |
//! | `builtin.add`, `sub`, `mul`, `div` | `by` | x, y → x and the first element of y | f32 |
//!
//! **Bits.** All three forms of a kernel give equal bits, except for the transcendental functions of f32 (see
//! [`crate::math`]): no kernel contracts a product and a sum that the row writes separately. Sign and payload of a NaN
//! are unspecified.

mod maps;
mod ops;
mod quick;

use fulgurite_core::kernel::KernelEntry;
use maps::Entries;

/// Every kernel of a builtin.
pub static KERNELS: &[KernelEntry] = &concat::<{ concat::<0>().1 }>().0;

/// The entries: those of pointwise builtins by type, and others.
const GROUPS: [&[&[KernelEntry]]; 10] = [
    Entries::<f32>::FLOAT,
    Entries::<f64>::FLOAT,
    &[Entries::<f64>::EXP],
    Entries::<i64>::INTEGER,
    Entries::<i32>::INTEGER,
    Entries::<i16>::INTEGER,
    Entries::<i8>::INTEGER,
    Entries::<u8>::INTEGER,
    Entries::<bool>::BOOL,
    &[quick::QUICK],
];

/// The first `N` entries, and the number of all.
const fn concat<const N: usize>() -> ([KernelEntry; N], usize) {
    let mut all = [quick::QUICK[0]; N];
    let (mut group, mut list, mut i, mut at) = (0, 0, 0, 0);
    while group < GROUPS.len() {
        if list == GROUPS[group].len() {
            (group, list) = (group + 1, 0);
        } else if i == GROUPS[group][list].len() {
            (list, i) = (list + 1, 0);
        } else {
            if at < N {
                all[at] = GROUPS[group][list][i];
            }
            (i, at) = (i + 1, at + 1);
        }
    }
    (all, at)
}
