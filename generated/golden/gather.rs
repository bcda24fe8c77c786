// ---- rows/gather.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 gather
pub(crate) static GATHER: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "gather",
        doc: "Elements of x at index along dim",
        sig: "(x: T[..P, N@dim, ..Q], index: Index[..P, M@dim, ..Q]; dim: Dim) -> T[..P, M, ..Q]",
        promote: "",
        dtypes: "",
        kind: MeaningKind::Expr,
        body: "x[..p, index[..p, m, ..q], ..q]",
        require: &[],
        vjp: &[("x", "gather.vjp.x(x, index, g, dim = dim)")],
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

// ops.yaml:1 gather
/// Elements of x at index along dim.
///
/// `gather(x: T[..P, N@dim, ..Q], index: Index[..P, M@dim, ..Q]; dim: Dim) -> T[..P, M, ..Q]`
///
/// [Meaning, gradient and kernels of `gather`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#gather)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// let index = Tensor::from([[1i64, 0, 1]]);
/// let out = ops::gather(&x, &index, 0);
/// assert_eq!(out.to_f64()?, [4.0, 2.0, 6.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn gather(x: &Tensor, index: &Tensor, dim: impl Into<Dim>) -> Tensor {
    api::call_one(&GATHER, vec![x.arg(), index.arg(), Value::size(Into::<Dim>::into(dim))])
}

// ---- rows/gather__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 gather.vjp.x
pub(crate) static GATHER__VJP__X: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "gather.vjp.x",
        doc: "The gradient of `gather` in one argument",
        sig: "(like x: T[..P, N@dim, ..Q], index: Index[..P, M@dim, ..Q], d_out: T[..P, M@dim, ..Q]; dim: Dim) -> T[..P, N, ..Q]",
        promote: "equal",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "sum[m if index[..p, m, ..q] == n](d_out[..p, m, ..q])",
        require: &[],
        vjp: &[("d_out", "gather(g, index, dim = dim)")],
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
