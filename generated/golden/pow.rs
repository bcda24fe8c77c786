// ---- rows/pow.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 pow
pub(crate) static POW: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "pow",
        doc: "x to the power y; pow(x, 0) is 1 for every x, NaN included",
        sig: "(x: T, y: T) -> T",
        promote: "default",
        dtypes: "all - bool",
        kind: MeaningKind::Expr,
        body: "pow(x, y)",
        require: &[("!(is_int(T) && is_number(y) && y < 0)", "integers to negative powers")],
        vjp: &[
            ("x", "unbroadcast(pow.vjp.x(x, y, g), x)"),
            ("y", "unbroadcast(pow.vjp.y(x, y, out, g), y)"),
        ],
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

// ops.yaml:1 pow
/// x to the power y; pow(x, 0) is 1 for every x, NaN included.
///
/// `pow(x: T, y: T) -> T`
///
/// Refused unless `!(is_int(T) && is_number(y) && y < 0)`: integers to negative powers.
///
/// Takes `u8`, `i8`, `i16`, `i32`, `i64`, `f16`, `bf16`, `f32`, `f64`; another dtype is refused.
///
/// [Meaning, gradient and kernels of `pow`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#pow)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([[2.94174, 0.20054, 3.79751], [1.16665, 2.46387, 0.10328]]);
/// let y = Tensor::from([[-2.13198, -2.58372, 0.78078], [-2.36646, -2.72676, -2.60268]]);
/// let out = ops::pow(&x, &y);
/// let (got, wanted) = (out.to_f64()?, [0.100218, 63.521, 2.8344, 0.694365, 0.0855367, 368.299]);
/// assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-5 * 368.299));
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn pow(x: impl Operand, y: impl Operand) -> Tensor {
    api::call_one(&POW, vec![x.arg(), y.arg()])
}

// ---- rows/pow__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 pow.vjp.x
pub(crate) static POW__VJP__X: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "pow.vjp.x",
        doc: "The gradient of `pow` in one argument",
        sig: "(x: T, y: T, d_out: T) -> T",
        promote: "default",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "if y == 0 && (x == 0 || isnan(x)) { 0 } else { d_out * y * pow(x, y - 1) }",
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

// ---- rows/pow__vjp__y.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 pow.vjp.y
pub(crate) static POW__VJP__Y: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "pow.vjp.y",
        doc: "The gradient of `pow` in one argument",
        sig: "(x: T, y: T, result: T, d_out: T) -> T",
        promote: "default",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "if x == 0 && y >= 0 { 0 } else { d_out * result * ln(x) }",
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

// ---- kernels/pow__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

use ::fulgurite_kernels::core::DType;
use ::fulgurite_kernels::core::kernel::KernelEntry;
use ::fulgurite_kernels::math as m;
use ::fulgurite_kernels::math::Isa;
use ::fulgurite_kernels::tile::{self, CHUNK, Step, Tile};

// ops.yaml:1 pow.vjp.x [] f32
/// `pow.vjp.x` on f32.
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
                let t0: bool = m::or::<I, _>(m::eq::<I, _>(x0, 0.0f32), m::isnan::<I, _>(x0));
                let t1: bool = m::and::<I, _>(m::eq::<I, _>(x1, 0.0f32), t0);
                let t2: f32 = m::pow::<I, _>(x0, m::sub::<I, _>(x1, 1.0f32));
                let t3: f32 = m::select::<I, _>(t1, 0.0f32, m::mul::<I, _>(m::mul::<I, _>(x2, x1), t2));
                out0[j] = t3;
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

/// Kernels of `pow.vjp.x`.
pub static ENTRIES: [KernelEntry; 1] = [
    KernelEntry {
        symbol: "pow.vjp.x",
        variant: "",
        dtype: DType::F32,
        baseline: K0::baseline,
        avx2: tile::avx2_of::<K0>(),
        avx512: tile::avx512_of::<K0>(),
    },
];

// ---- kernels/pow__vjp__y.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

use ::fulgurite_kernels::core::DType;
use ::fulgurite_kernels::core::kernel::KernelEntry;
use ::fulgurite_kernels::math as m;
use ::fulgurite_kernels::math::Isa;
use ::fulgurite_kernels::tile::{self, CHUNK, Step, Tile};

// ops.yaml:1 pow.vjp.y [] f32
/// `pow.vjp.y` on f32.
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
                let t0: bool = m::and::<I, _>(m::eq::<I, _>(x0, 0.0f32), m::ge::<I, _>(x1, 0.0f32));
                let t1: f32 = m::mul::<I, _>(m::mul::<I, _>(x3, x2), m::ln::<I, _>(x0));
                out0[j] = m::select::<I, _>(t0, 0.0f32, t1);
            }
            tile::store(outs, 0, at, len, out0);
        }
    }
}

/// Kernels of `pow.vjp.y`.
pub static ENTRIES: [KernelEntry; 1] = [
    KernelEntry {
        symbol: "pow.vjp.y",
        variant: "",
        dtype: DType::F32,
        baseline: K0::baseline,
        avx2: tile::avx2_of::<K0>(),
        avx512: tile::avx512_of::<K0>(),
    },
];
