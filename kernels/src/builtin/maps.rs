//! Entries of the pointwise builtins: one list for floats, one for integers and one for bool.

use crate::math::{Int, Logic, Real};
use crate::tile::{Tile, avx2_of, avx512_of};
use fulgurite_core::DType;
use fulgurite_core::kernel::KernelEntry;
use std::marker::PhantomData;

/// The entry of kernel `K`; f32 has an AVX-512 form, the rest does not gain from one.
pub(super) const fn entry<K: Tile>(symbol: &'static str, variant: &'static str, dtype: DType) -> KernelEntry {
    let avx512 = if matches!(dtype, DType::F32) { avx512_of::<K>() } else { None };
    KernelEntry { symbol, variant, dtype, baseline: K::baseline, avx2: avx2_of::<K>(), avx512 }
}

/// The entries of the builtins on elements of type `T`; [`super::ops`] has the lists of builtins.
pub(super) struct Entries<T>(PhantomData<T>);

impl<T: Real> Entries<T> {
    /// All builtins of floats, but for `exp`: [`super::quick`] has that of f32.
    pub(super) const FLOAT: &[&[KernelEntry]] = &[Self::ELEM, Self::NUMBER, Self::REAL];
}

impl<T: Int> Entries<T> {
    /// All builtins of integers.
    pub(super) const INTEGER: &[&[KernelEntry]] = &[Self::ELEM, Self::NUMBER, Self::BITS, Self::INT];
}

impl<T: Logic> Entries<T> {
    /// All builtins of bool.
    pub(super) const BOOL: &[&[KernelEntry]] = &[Self::ELEM, Self::BITS, Self::LOGIC];
}
