// ---- rows/clamp.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 clamp
pub(crate) static CLAMP: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "clamp",
        doc: "x limited to lo..hi; either bound may be missing, a number or a tensor",
        sig: "(x: T, lo: T?, hi: T?) -> T",
        promote: "default",
        dtypes: "",
        kind: MeaningKind::Expr,
        body: r"let y = if some(lo) { max(x, lo) } else { x };
if some(hi) { min(y, hi) } else { y }",
        require: &[("some(lo) || some(hi)", "clamp needs a bound")],
        vjp: &[
            ("x", "unbroadcast(clamp.vjp.x(x, lo, hi, g), x)"),
            ("lo", "unbroadcast(clamp.vjp.lo(x, lo, hi, g), lo)"),
            ("hi", "unbroadcast(clamp.vjp.hi(x, lo, hi, g), hi)"),
        ],
        jvp: &[],
        ties: "",
        at: &[("isnan(lo)", &[
            ("lo", "0"),
            ("hi", "if x > hi { 1 } else { 0 }"),
        ]), ("isnan(hi)", &[
            ("lo", "0"),
            ("hi", "0"),
        ]), ("isnan(lo) || (x != x && is_number(lo))", &[("x", "0")]), ("isnan(hi) || (x != x && is_number(hi))", &[("x", "0")]), ("some(lo) && some(hi) && is_tensor(lo) && lo == hi && x == lo", &[
            ("x", "1"),
            ("lo", "0"),
            ("hi", "0"),
        ]), ("some(lo) && some(hi) && is_tensor(lo) && lo == hi && x < lo", &[
            ("x", "0"),
            ("lo", "1"),
            ("hi", "0"),
        ])],
        no_grad: "",
        deviates: "",
        once: "",
        autocast: "",
        subclass: &[],
        kernels: &[],
        file: "ops.yaml",
        line: 1,
    },
);

// ops.yaml:1 clamp
/// x limited to lo..hi; either bound may be missing, a number or a tensor.
///
/// `clamp(x: T, lo: T?, hi: T?) -> T`
///
/// Refused unless `some(lo) || some(hi)`: clamp needs a bound.
///
/// [Meaning, gradient and kernels of `clamp`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#clamp)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([[0.66006, 0.16805, 0.81366]]);
/// let lo = Tensor::from([[0.34145, 0.57428, 0.15059]]);
/// let hi = Tensor::from([0.25127, 0.19857, 0.59109]);
/// let out = ops::clamp(&x, &lo, &hi);
/// let (got, wanted) = (out.to_f64()?, [0.25127, 0.19857, 0.59109]);
/// assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-5));
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn clamp(x: impl Operand, lo: impl Into<Limit>, hi: impl Into<Limit>) -> Tensor {
    api::call_one(&CLAMP, vec![x.arg(), lo.into().arg(), hi.into().arg()])
}

// ---- rows/clamp__vjp__hi.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 clamp.vjp.hi
pub(crate) static CLAMP__VJP__HI: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "clamp.vjp.hi",
        doc: "The gradient of `clamp` in one argument",
        sig: "(x: T, lo: T?, hi: T, d_out: T) -> T",
        promote: "default",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "if some(hi) && (some(lo) && (some(lo) && is_tensor(lo) && lo == hi && x < lo)) { 0 } else if some(hi) && (some(lo) && (some(lo) && is_tensor(lo) && lo == hi && x == lo)) { 0 } else if some(hi) && isnan(hi) { 0 } else if some(lo) && isnan(lo) { if x > hi { d_out } else { 0 } } else if is_number(x) && is_number(lo) { if (if some(lo) { max(x, lo) } else { x }) <= hi { 0 } else { d_out } } else { let y = if some(lo) { max(x, lo) } else { x }; if y == hi { 0.5 * d_out } else if y < hi { 0 } else { d_out } }",
        require: &[("some(lo) || some(hi)", "clamp needs a bound")],
        vjp: &[],
        jvp: &[],
        ties: "",
        at: &[],
        no_grad: "",
        deviates: "",
        once: "",
        autocast: "",
        subclass: &[],
        kernels: &[],
        file: "ops.yaml",
        line: 1,
    },
);

// ---- rows/clamp__vjp__lo.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 clamp.vjp.lo
pub(crate) static CLAMP__VJP__LO: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "clamp.vjp.lo",
        doc: "The gradient of `clamp` in one argument",
        sig: "(x: T, lo: T, hi: T?, d_out: T) -> T",
        promote: "default",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "if some(hi) && (some(lo) && (some(hi) && lo == hi && x < lo)) { d_out } else if some(hi) && (some(lo) && (some(hi) && lo == hi && x == lo)) { 0 } else if some(hi) && isnan(hi) { 0 } else if some(lo) && isnan(lo) { 0 } else if some(hi) { if is_number(x) { if is_number(hi) { if x >= lo { 0 } else if max(x, lo) >= hi { 0 } else { d_out } } else if x >= lo { 0 } else { let y = max(x, lo); if y == hi { 0.5 * d_out } else if y > hi { 0 } else { d_out } } } else if is_number(hi) { if x == lo { if max(x, lo) >= hi { 0 } else { 0.5 * d_out } } else if max(x, lo) >= hi { 0 } else if x > lo { 0 } else { d_out } } else if x == lo { let y = max(x, lo); if y == hi { 0.25 * d_out } else if y > hi { 0 } else { 0.5 * d_out } } else { let y = max(x, lo); if y == hi { if x > lo { 0 } else { 0.5 * d_out } } else if x > lo { 0 } else if y > hi { 0 } else { d_out } } } else if is_number(x) { if x >= lo { 0 } else { d_out } } else if x == lo { 0.5 * d_out } else if x > lo { 0 } else { d_out }",
        require: &[("some(lo) || some(hi)", "clamp needs a bound")],
        vjp: &[],
        jvp: &[],
        ties: "",
        at: &[],
        no_grad: "",
        deviates: "",
        once: "",
        autocast: "",
        subclass: &[],
        kernels: &[],
        file: "ops.yaml",
        line: 1,
    },
);

// ---- rows/clamp__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 clamp.vjp.x
pub(crate) static CLAMP__VJP__X: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "clamp.vjp.x",
        doc: "The gradient of `clamp` in one argument",
        sig: "(x: T, lo: T?, hi: T?, d_out: T) -> T",
        promote: "default",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "if some(hi) && (some(lo) && (some(lo) && some(hi) && is_tensor(lo) && lo == hi && x < lo)) { 0 } else if some(hi) && (some(lo) && (some(lo) && some(hi) && is_tensor(lo) && lo == hi && x == lo)) { d_out } else if some(hi) && (isnan(hi) || (x != x && is_number(hi))) { 0 } else if some(lo) && (isnan(lo) || (x != x && is_number(lo))) { 0 } else if some(hi) { if some(lo) { if is_number(hi) { if is_number(lo) { if max(x, lo) >= hi { 0 } else if x <= lo { 0 } else { d_out } } else if max(x, lo) >= hi { 0 } else if x == lo { 0.5 * d_out } else if x < lo { 0 } else { d_out } } else if is_number(lo) { let t1 = max(x, lo); if t1 == hi { if x <= lo { 0 } else { 0.5 * d_out } } else if x <= lo { 0 } else if t1 > hi { 0 } else { d_out } } else { let t1 = max(x, lo); if t1 == hi { if x == lo { 0.25 * d_out } else if x < lo { 0 } else { 0.5 * d_out } } else if x == lo { if t1 > hi { 0 } else { 0.5 * d_out } } else if t1 > hi { 0 } else if x < lo { 0 } else { d_out } } } else if is_number(hi) { if x >= hi { 0 } else { d_out } } else if x == hi { 0.5 * d_out } else if x > hi { 0 } else { d_out } } else if some(lo) { if is_number(lo) { if x <= lo { 0 } else { d_out } } else if x == lo { 0.5 * d_out } else if x < lo { 0 } else { d_out } } else { d_out }",
        require: &[("some(lo) || some(hi)", "clamp needs a bound")],
        vjp: &[],
        jvp: &[],
        ties: "",
        at: &[],
        no_grad: "",
        deviates: "",
        once: "",
        autocast: "",
        subclass: &[],
        kernels: &[],
        file: "ops.yaml",
        line: 1,
    },
);

// ---- kernels/clamp.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

use ::fulgurite_kernels::core::DType;
use ::fulgurite_kernels::core::kernel::KernelEntry;
use ::fulgurite_kernels::math as m;
use ::fulgurite_kernels::math::Isa;
use ::fulgurite_kernels::tile::{self, CHUNK, Step, Tile};

// ops.yaml:1 clamp [] f32
/// `clamp` on f32.
struct K0;

impl Tile for K0 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K0>(n, ins, outs, nums) }
    }
}

impl Step for K0 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let in2: [f32; CHUNK] = tile::load(ins, 2, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let x2 = in2[j];
                out0[j] = m::min::<I, _>(m::max::<I, _>(x0, x1), x2);
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

/// Kernels of `clamp`.
pub static ENTRIES: [KernelEntry; 1] = [
    KernelEntry {
        symbol: "clamp",
        variant: "",
        dtype: DType::F32,
        baseline: K0::baseline,
        avx2: tile::avx2_of::<K0>(),
        avx512: tile::avx512_of::<K0>(),
    },
];

// ---- kernels/clamp__vjp__hi.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

use ::fulgurite_kernels::core::DType;
use ::fulgurite_kernels::core::kernel::KernelEntry;
use ::fulgurite_kernels::math as m;
use ::fulgurite_kernels::math::Isa;
use ::fulgurite_kernels::tile::{self, CHUNK, Step, Tile};

// ops.yaml:1 clamp.vjp.hi [] f32
/// `clamp.vjp.hi` on f32.
struct K0;

impl Tile for K0 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K0>(n, ins, outs, nums) }
    }
}

impl Step for K0 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4, 4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let in2: [f32; CHUNK] = tile::load(ins, 2, at, len);
            let in3: [f32; CHUNK] = tile::load(ins, 3, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let x2 = in2[j];
                let x3 = in3[j];
                let t0: bool = m::and::<I, _>(m::eq::<I, _>(x1, x2), m::lt::<I, _>(x0, x1));
                let t1: bool = m::and::<I, _>(m::eq::<I, _>(x1, x2), m::eq::<I, _>(x0, x1));
                let t2: f32 = m::select::<I, _>(m::gt::<I, _>(x0, x2), x3, 0.0f32);
                let t3: f32 = m::max::<I, _>(x0, x1);
                let t4: f32 = m::select::<I, _>(m::lt::<I, _>(t3, x2), 0.0f32, x3);
                let t5: f32 = m::select::<I, _>(m::eq::<I, _>(t3, x2), m::mul::<I, _>(0.5f32, x3), t4);
                let t6: f32 = m::select::<I, _>(m::isnan::<I, _>(x1), t2, t5);
                let t7: f32 = m::select::<I, _>(m::isnan::<I, _>(x2), 0.0f32, t6);
                let t8: f32 = m::select::<I, _>(t0, 0.0f32, m::select::<I, _>(t1, 0.0f32, t7));
                out0[j] = t8;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

// ops.yaml:1 clamp.vjp.hi [lo=absent] f32
/// `clamp.vjp.hi` (lo=absent) on f32.
struct K1;

impl Tile for K1 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K1>(n, ins, outs, nums) }
    }
}

impl Step for K1 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let in2: [f32; CHUNK] = tile::load(ins, 2, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let x2 = in2[j];
                let t0: f32 = m::select::<I, _>(m::lt::<I, _>(x0, x1), 0.0f32, x2);
                let t1: f32 = m::select::<I, _>(m::eq::<I, _>(x0, x1), m::mul::<I, _>(0.5f32, x2), t0);
                let t2: f32 = m::select::<I, _>(m::isnan::<I, _>(x1), 0.0f32, t1);
                out0[j] = t2;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

/// Kernels of `clamp.vjp.hi`.
pub static ENTRIES: [KernelEntry; 2] = [
    KernelEntry {
        symbol: "clamp.vjp.hi",
        variant: "",
        dtype: DType::F32,
        baseline: K0::baseline,
        avx2: tile::avx2_of::<K0>(),
        avx512: tile::avx512_of::<K0>(),
    },
    KernelEntry {
        symbol: "clamp.vjp.hi",
        variant: "lo=absent",
        dtype: DType::F32,
        baseline: K1::baseline,
        avx2: tile::avx2_of::<K1>(),
        avx512: tile::avx512_of::<K1>(),
    },
];

// ---- kernels/clamp__vjp__lo.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

use ::fulgurite_kernels::core::DType;
use ::fulgurite_kernels::core::kernel::KernelEntry;
use ::fulgurite_kernels::math as m;
use ::fulgurite_kernels::math::Isa;
use ::fulgurite_kernels::tile::{self, CHUNK, Step, Tile};

// ops.yaml:1 clamp.vjp.lo [] f32
/// `clamp.vjp.lo` on f32.
struct K0;

impl Tile for K0 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K0>(n, ins, outs, nums) }
    }
}

impl Step for K0 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4, 4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let in2: [f32; CHUNK] = tile::load(ins, 2, at, len);
            let in3: [f32; CHUNK] = tile::load(ins, 3, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let x2 = in2[j];
                let x3 = in3[j];
                let t0: bool = m::and::<I, _>(m::eq::<I, _>(x1, x2), m::lt::<I, _>(x0, x1));
                let t1: bool = m::and::<I, _>(m::eq::<I, _>(x1, x2), m::eq::<I, _>(x0, x1));
                let t2: f32 = m::max::<I, _>(x0, x1);
                let t3: f32 = m::select::<I, _>(m::gt::<I, _>(t2, x2), 0.0f32, m::mul::<I, _>(0.5f32, x3));
                let t4: f32 = m::select::<I, _>(m::eq::<I, _>(t2, x2), m::mul::<I, _>(0.25f32, x3), t3);
                let t5: f32 = m::max::<I, _>(x0, x1);
                let t6: f32 = m::select::<I, _>(m::gt::<I, _>(x0, x1), 0.0f32, m::mul::<I, _>(0.5f32, x3));
                let t7: f32 = m::select::<I, _>(m::gt::<I, _>(t5, x2), 0.0f32, x3);
                let t8: f32 = m::select::<I, _>(m::gt::<I, _>(x0, x1), 0.0f32, t7);
                let t9: f32 = m::select::<I, _>(m::eq::<I, _>(t5, x2), t6, t8);
                let t10: f32 = m::select::<I, _>(m::eq::<I, _>(x0, x1), t4, t9);
                let t11: f32 = m::select::<I, _>(m::isnan::<I, _>(x1), 0.0f32, t10);
                let t12: f32 = m::select::<I, _>(m::isnan::<I, _>(x2), 0.0f32, t11);
                let t13: f32 = m::select::<I, _>(t0, x3, m::select::<I, _>(t1, 0.0f32, t12));
                out0[j] = t13;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

// ops.yaml:1 clamp.vjp.lo [hi=absent] f32
/// `clamp.vjp.lo` (hi=absent) on f32.
struct K1;

impl Tile for K1 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K1>(n, ins, outs, nums) }
    }
}

impl Step for K1 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let in2: [f32; CHUNK] = tile::load(ins, 2, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let x2 = in2[j];
                let t0: f32 = m::select::<I, _>(m::gt::<I, _>(x0, x1), 0.0f32, x2);
                let t1: f32 = m::select::<I, _>(m::eq::<I, _>(x0, x1), m::mul::<I, _>(0.5f32, x2), t0);
                let t2: f32 = m::select::<I, _>(m::isnan::<I, _>(x1), 0.0f32, t1);
                out0[j] = t2;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

/// Kernels of `clamp.vjp.lo`.
pub static ENTRIES: [KernelEntry; 2] = [
    KernelEntry {
        symbol: "clamp.vjp.lo",
        variant: "",
        dtype: DType::F32,
        baseline: K0::baseline,
        avx2: tile::avx2_of::<K0>(),
        avx512: tile::avx512_of::<K0>(),
    },
    KernelEntry {
        symbol: "clamp.vjp.lo",
        variant: "hi=absent",
        dtype: DType::F32,
        baseline: K1::baseline,
        avx2: tile::avx2_of::<K1>(),
        avx512: tile::avx512_of::<K1>(),
    },
];

// ---- kernels/clamp__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

use ::fulgurite_kernels::core::DType;
use ::fulgurite_kernels::core::kernel::KernelEntry;
use ::fulgurite_kernels::math as m;
use ::fulgurite_kernels::math::Isa;
use ::fulgurite_kernels::tile::{self, CHUNK, Step, Tile};

// ops.yaml:1 clamp.vjp.x [] f32
/// `clamp.vjp.x` on f32.
struct K0;

impl Tile for K0 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K0>(n, ins, outs, nums) }
    }
}

impl Step for K0 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4, 4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let in2: [f32; CHUNK] = tile::load(ins, 2, at, len);
            let in3: [f32; CHUNK] = tile::load(ins, 3, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let x2 = in2[j];
                let x3 = in3[j];
                let t0: bool = m::and::<I, _>(m::eq::<I, _>(x1, x2), m::lt::<I, _>(x0, x1));
                let t1: bool = m::and::<I, _>(m::eq::<I, _>(x1, x2), m::eq::<I, _>(x0, x1));
                let t2: f32 = m::max::<I, _>(x0, x1);
                let t3: f32 = m::select::<I, _>(m::lt::<I, _>(x0, x1), 0.0f32, m::mul::<I, _>(0.5f32, x3));
                let t4: f32 = m::select::<I, _>(m::eq::<I, _>(x0, x1), m::mul::<I, _>(0.25f32, x3), t3);
                let t5: f32 = m::select::<I, _>(m::gt::<I, _>(t2, x2), 0.0f32, m::mul::<I, _>(0.5f32, x3));
                let t6: f32 = m::select::<I, _>(m::lt::<I, _>(x0, x1), 0.0f32, x3);
                let t7: f32 = m::select::<I, _>(m::gt::<I, _>(t2, x2), 0.0f32, t6);
                let t8: f32 = m::select::<I, _>(m::eq::<I, _>(x0, x1), t5, t7);
                let t9: f32 = m::select::<I, _>(m::eq::<I, _>(t2, x2), t4, t8);
                let t10: f32 = m::select::<I, _>(m::isnan::<I, _>(x1), 0.0f32, t9);
                let t11: f32 = m::select::<I, _>(m::isnan::<I, _>(x2), 0.0f32, t10);
                let t12: f32 = m::select::<I, _>(t0, 0.0f32, m::select::<I, _>(t1, x3, t11));
                out0[j] = t12;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

// ops.yaml:1 clamp.vjp.x [hi=absent] f32
/// `clamp.vjp.x` (hi=absent) on f32.
struct K1;

impl Tile for K1 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K1>(n, ins, outs, nums) }
    }
}

impl Step for K1 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let in2: [f32; CHUNK] = tile::load(ins, 2, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let x2 = in2[j];
                let t0: f32 = m::select::<I, _>(m::lt::<I, _>(x0, x1), 0.0f32, x2);
                let t1: f32 = m::select::<I, _>(m::eq::<I, _>(x0, x1), m::mul::<I, _>(0.5f32, x2), t0);
                let t2: f32 = m::select::<I, _>(m::isnan::<I, _>(x1), 0.0f32, t1);
                out0[j] = t2;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

// ops.yaml:1 clamp.vjp.x [lo=absent] f32
/// `clamp.vjp.x` (lo=absent) on f32.
struct K2;

impl Tile for K2 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K2>(n, ins, outs, nums) }
    }
}

impl Step for K2 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let in2: [f32; CHUNK] = tile::load(ins, 2, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let x2 = in2[j];
                let t0: f32 = m::select::<I, _>(m::gt::<I, _>(x0, x1), 0.0f32, x2);
                let t1: f32 = m::select::<I, _>(m::eq::<I, _>(x0, x1), m::mul::<I, _>(0.5f32, x2), t0);
                let t2: f32 = m::select::<I, _>(m::isnan::<I, _>(x1), 0.0f32, t1);
                out0[j] = t2;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

/// Kernels of `clamp.vjp.x`.
pub static ENTRIES: [KernelEntry; 3] = [
    KernelEntry {
        symbol: "clamp.vjp.x",
        variant: "",
        dtype: DType::F32,
        baseline: K0::baseline,
        avx2: tile::avx2_of::<K0>(),
        avx512: tile::avx512_of::<K0>(),
    },
    KernelEntry {
        symbol: "clamp.vjp.x",
        variant: "hi=absent",
        dtype: DType::F32,
        baseline: K1::baseline,
        avx2: tile::avx2_of::<K1>(),
        avx512: tile::avx512_of::<K1>(),
    },
    KernelEntry {
        symbol: "clamp.vjp.x",
        variant: "lo=absent",
        dtype: DType::F32,
        baseline: K2::baseline,
        avx2: tile::avx2_of::<K2>(),
        avx512: tile::avx512_of::<K2>(),
    },
];
