//! Kernels in the view of rows and executors: handwritten ones by name, and the interface of emitted ones.

use crate::DType;

/// A handwritten kernel, which a row requests by name: `host: argsort`, `kernels: {cpu: linear_scan}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Positions that sort along an axis.
    Argsort,
    /// Positions in the order of `nth_element` of the C++ library.
    Introselect,
    /// Positions in the order of `sort` of the C++ library, which compares a NaN with nothing.
    Introsort,
    /// Positions in the order of a selection with the median of three as its pivot.
    Quickselect,
    /// A linear recurrence along an axis, step by step.
    LinearScan,
    /// A binary search in rows.
    Searchsorted,
    /// A few vectors times a weight that is quantised in groups.
    MatmulGroups,
}

/// The executor whose kernels define the meaning of rows (`host:`), so `kernels` cannot name them.
pub const HOST: &str = "host";

impl Special {
    /// Every kernel, with executor and name. The check of rows refuses other names.
    pub const ALL: &[(&str, &str, Special)] = &[
        (HOST, "argsort", Special::Argsort),
        (HOST, "introselect", Special::Introselect),
        (HOST, "introsort", Special::Introsort),
        (HOST, "quickselect", Special::Quickselect),
        ("cpu", "linear_scan", Special::LinearScan),
        ("cpu", "searchsorted", Special::Searchsorted),
        ("cpu", "matmul_groups", Special::MatmulGroups),
    ];

    /// The kernel with this name of this executor.
    pub fn named(executor: &str, name: &str) -> Option<Special> {
        Special::ALL.iter().find(|(of, called, _)| (*of, *called) == (executor, name)).map(|(.., kernel)| *kernel)
    }
}

/// A kernel over one tile: `n` elements of dense typed arrays of the compute dtype.
///
/// f16 and bf16 never appear (the executor converts tiles to f32); bool is a `u8` of 0 or 1. `nums` are the run-time
/// numbers as raw 64-bit words (f64 bits, or i64).
///
/// # Safety
/// Every pointer of `ins` is readable and every pointer of `outs` writable for `n` elements of the kernel's dtypes; an
/// output may equal an input exactly but not overlap it otherwise; `nums` holds as many words as the kernel reads; the
/// CPU has the instruction set that the function was compiled for.
pub type TileFn = unsafe fn(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64);

/// One kernel in up to three instruction sets.
#[derive(Clone, Copy)]
pub struct KernelEntry {
    /// The row, or a builtin such as `builtin.exp`.
    pub symbol: &'static str,
    /// The static options and presence that choose the branch: `approximate=tanh`, `hi=absent`; for casts `f32>i64`.
    pub variant: &'static str,
    /// Compute dtype.
    pub dtype: DType,
    /// For any CPU of the architecture.
    pub baseline: TileFn,
    /// With AVX2 and FMA.
    pub avx2: Option<TileFn>,
    /// With AVX-512 (F, VL, DQ, BW).
    pub avx512: Option<TileFn>,
}

/// The way to combine an element with the one in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// The sum.
    Add,
    /// The later one.
    Replace,
    /// The product.
    Times,
    /// The larger one; NaN wins.
    Larger,
    /// The smaller one; NaN wins.
    Smaller,
}
