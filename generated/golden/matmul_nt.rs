// ---- rows/matmul_nt.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 matmul_nt
pub(crate) static MATMUL_NT: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "matmul_nt",
        doc: "Product of rows with the rows of a matrix",
        sig: "(x: T[..B, K], w: T[N, K]) -> T[..B, N]",
        promote: "equal",
        dtypes: "all - bool",
        kind: MeaningKind::Expr,
        body: "sum[k](x[..b, k] * w[n, k])",
        require: &[],
        vjp: &[
            ("x", "matmul_nt.vjp.x(x, w, g)"),
            ("w", "matmul_nt.vjp.w(x, w, g)"),
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

// ops.yaml:1 matmul_nt
/// Product of rows with the rows of a matrix.
///
/// `matmul_nt(x: T[..B, K], w: T[N, K]) -> T[..B, N]`
///
/// Takes `u8`, `i8`, `i16`, `i32`, `i64`, `f16`, `bf16`, `f32`, `f64`; another dtype is refused.
///
/// [Meaning, gradient and kernels of `matmul_nt`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#matmul_nt)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([3i32, 4]);
/// let w = Tensor::from([[1i32, 2]]);
/// let out = ops::matmul_nt(&x, &w);
/// assert_eq!(out.to_f64()?, [11.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn matmul_nt(x: &Tensor, w: &Tensor) -> Tensor {
    api::call_one(&MATMUL_NT, vec![x.arg(), w.arg()])
}

// ---- rows/matmul_nt__vjp__w.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 matmul_nt.vjp.w
pub(crate) static MATMUL_NT__VJP__W: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "matmul_nt.vjp.w",
        doc: "The gradient of `matmul_nt` in one argument",
        sig: "(x: T[..B, K], like w: T[N, K], d_out: T[..B, N]) -> T[N, K]",
        promote: "equal",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "sum[..b](d_out[..b, n] * x[..b, k])",
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

// ---- rows/matmul_nt__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 matmul_nt.vjp.x
pub(crate) static MATMUL_NT__VJP__X: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "matmul_nt.vjp.x",
        doc: "The gradient of `matmul_nt` in one argument",
        sig: "(like x: T[..B, K], w: T[N, K], d_out: T[..B, N]) -> T[..B, K]",
        promote: "equal",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "sum[n](d_out[..b, n] * w[n, k])",
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
