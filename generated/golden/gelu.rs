// ---- rows/gelu.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 gelu
pub(crate) static GELU: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "gelu",
        doc: "Gaussian error linear unit, exact or with tanh",
        sig: "(x: T; approximate: enum(none, tanh) = none) -> T",
        promote: "default",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "match approximate { none => 0.5 * x * (1 + erf(x * FRAC_1_SQRT_2)), tanh => 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) }",
        require: &[],
        vjp: &[("x", "unbroadcast(gelu.vjp.x(x, g, approximate = approximate), x)")],
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

/// Words of `approximate` in `gelu`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeluApproximate {
    /// `none`
    None,
    /// `tanh`
    Tanh,
}

impl GeluApproximate {
    fn word(self) -> Name {
        Name::new(match self {
            GeluApproximate::None => "none",
            GeluApproximate::Tanh => "tanh",
        })
    }
}

/// Options of [`gelu_with`].
#[derive(Clone, Debug)]
pub struct Gelu {
    /// Default: `none`.
    pub approximate: GeluApproximate,
}

impl Default for Gelu {
    fn default() -> Gelu {
        Gelu {
            approximate: GeluApproximate::None,
        }
    }
}

// ops.yaml:1 gelu
/// Gaussian error linear unit, exact or with tanh.
///
/// `gelu(x: T; approximate: enum(none, tanh) = none) -> T`
///
/// Takes `f16`, `bf16`, `f32`, `f64`; another dtype is refused.
///
/// [Meaning, gradient and kernels of `gelu`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#gelu)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([1.0, -0.5]);
/// let out = ops::gelu(&x);
/// let (got, wanted) = (out.to_f64()?, [0.841345, -0.154269]);
/// assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-5));
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn gelu(x: impl Operand) -> Tensor {
    gelu_with(x, Gelu::default())
}

/// [`gelu`](fn@gelu) with options.
#[track_caller]
pub fn gelu_with(x: impl Operand, options: Gelu) -> Tensor {
    api::call_one(&GELU, vec![x.arg(), Value::Word(options.approximate.word())])
}

// ---- rows/gelu__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 gelu.vjp.x
pub(crate) static GELU__VJP__X: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "gelu.vjp.x",
        doc: "The gradient of `gelu` in one argument",
        sig: "(x: T, d_out: T; approximate: enum(none, tanh) = none) -> T",
        promote: "default",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: r"let t1 = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
match approximate { none => d_out * (0.5 + 0.5 * erf(x * FRAC_1_SQRT_2) + 0.3989422804014327 * exp(-0.5 * x * x) * x), tanh => d_out * (0.5 + 0.5 * t1 + 0.3989422804014327 * (1 + 0.134145 * x * x) * (1 - t1 * t1) * x) }",
        require: &[],
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

// ---- kernels/gelu.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

use ::fulgurite_kernels::core::DType;
use ::fulgurite_kernels::core::kernel::KernelEntry;
use ::fulgurite_kernels::math as m;
use ::fulgurite_kernels::math::Isa;
use ::fulgurite_kernels::tile::{self, CHUNK, Step, Tile};

// ops.yaml:1 gelu [approximate=none] f32
/// `gelu` (approximate=none) on f32.
struct K0;

impl Tile for K0 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K0>(n, ins, outs, nums) }
    }
}

impl Step for K0 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let t0: f32 = m::erf::<I, _>(m::mul::<I, _>(x0, 0.7071067690849304f32));
                let t1: f32 = m::mul::<I, _>(m::mul::<I, _>(0.5f32, x0), m::add::<I, _>(1.0f32, t0));
                out0[j] = t1;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

// ops.yaml:1 gelu [approximate=tanh] f32
/// `gelu` (approximate=tanh) on f32.
struct K1;

impl Tile for K1 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K1>(n, ins, outs, nums) }
    }
}

impl Step for K1 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let t0: f32 = m::mul::<I, _>(m::mul::<I, _>(0.044714998453855515f32, x0), x0);
                let t1: f32 = m::mul::<I, _>(0.7978845834732056f32, m::add::<I, _>(x0, m::mul::<I, _>(t0, x0)));
                let t2: f32 = m::mul::<I, _>(m::mul::<I, _>(0.5f32, x0), m::add::<I, _>(1.0f32, m::tanh::<I, _>(t1)));
                out0[j] = t2;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

/// Kernels of `gelu`.
pub static ENTRIES: [KernelEntry; 2] = [
    KernelEntry {
        symbol: "gelu",
        variant: "approximate=none",
        dtype: DType::F32,
        baseline: K0::baseline,
        avx2: tile::avx2_of::<K0>(),
        avx512: tile::avx512_of::<K0>(),
    },
    KernelEntry {
        symbol: "gelu",
        variant: "approximate=tanh",
        dtype: DType::F32,
        baseline: K1::baseline,
        avx2: tile::avx2_of::<K1>(),
        avx512: tile::avx512_of::<K1>(),
    },
];

// ---- kernels/gelu__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

use ::fulgurite_kernels::core::DType;
use ::fulgurite_kernels::core::kernel::KernelEntry;
use ::fulgurite_kernels::math as m;
use ::fulgurite_kernels::math::Isa;
use ::fulgurite_kernels::tile::{self, CHUNK, Step, Tile};

// ops.yaml:1 gelu.vjp.x [approximate=none] f32
/// `gelu.vjp.x` (approximate=none) on f32.
struct K0;

impl Tile for K0 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K0>(n, ins, outs, nums) }
    }
}

impl Step for K0 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let t0: f32 = m::erf::<I, _>(m::mul::<I, _>(x0, 0.7071067690849304f32));
                let t1: f32 = m::add::<I, _>(0.5f32, m::mul::<I, _>(0.5f32, t0));
                let t2: f32 = m::mul::<I, _>(m::mul::<I, _>(-0.5f32, x0), x0);
                let t3: f32 = m::mul::<I, _>(0.3989422917366028f32, m::exp::<I, _>(t2));
                let t4: f32 = m::mul::<I, _>(x1, m::add::<I, _>(t1, m::mul::<I, _>(t3, x0)));
                out0[j] = t4;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

// ops.yaml:1 gelu.vjp.x [approximate=tanh] f32
/// `gelu.vjp.x` (approximate=tanh) on f32.
struct K1;

impl Tile for K1 {
    #[inline(always)]
    unsafe fn run<I: Isa>(n: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise.
        unsafe { tile::steps::<I, K1>(n, ins, outs, nums) }
    }
}

impl Step for K1 {
    const SIZES: tile::Sizes = tile::Sizes { ins: &[4, 4], outs: &[4] };

    #[inline(always)]
    #[allow(unused_variables, clippy::all)]
    unsafe fn step<I: Isa>(at: usize, len: usize, ins: *const *const u8, outs: *const *mut u8, nums: *const u64) {
        // SAFETY: the caller's promise: inputs, outputs and numbers are those of the row.
        unsafe {
            let in0: [f32; CHUNK] = tile::load(ins, 0, at, len);
            let in1: [f32; CHUNK] = tile::load(ins, 1, at, len);
            let mut out0 = [f32::default(); CHUNK];
            for j in 0..CHUNK {
                let x0 = in0[j];
                let x1 = in1[j];
                let t0: f32 = m::mul::<I, _>(m::mul::<I, _>(0.044714998453855515f32, x0), x0);
                let t1: f32 = m::mul::<I, _>(0.7978845834732056f32, m::add::<I, _>(x0, m::mul::<I, _>(t0, x0)));
                let t2: f32 = m::tanh::<I, _>(t1);
                let t3: f32 = m::add::<I, _>(0.5f32, m::mul::<I, _>(0.5f32, t2));
                let t4: f32 = m::mul::<I, _>(m::mul::<I, _>(0.13414500653743744f32, x0), x0);
                let t5: f32 = m::mul::<I, _>(0.3989422917366028f32, m::add::<I, _>(1.0f32, t4));
                let t6: f32 = m::sub::<I, _>(1.0f32, m::mul::<I, _>(t2, t2));
                let t7: f32 = m::add::<I, _>(t3, m::mul::<I, _>(m::mul::<I, _>(t5, t6), x0));
                out0[j] = m::mul::<I, _>(x1, t7);
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

/// Kernels of `gelu.vjp.x`.
pub static ENTRIES: [KernelEntry; 2] = [
    KernelEntry {
        symbol: "gelu.vjp.x",
        variant: "approximate=none",
        dtype: DType::F32,
        baseline: K0::baseline,
        avx2: tile::avx2_of::<K0>(),
        avx512: tile::avx512_of::<K0>(),
    },
    KernelEntry {
        symbol: "gelu.vjp.x",
        variant: "approximate=tanh",
        dtype: DType::F32,
        baseline: K1::baseline,
        avx2: tile::avx2_of::<K1>(),
        avx512: tile::avx512_of::<K1>(),
    },
];
