// ---- rows/transpose.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 transpose
pub(crate) static TRANSPOSE: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "transpose",
        doc: "Axes dim0 and dim1 exchanged",
        sig: "(x: T[..S]; dim0: Dim(S), dim1: Dim(S)) -> T[..S[swap(dim0, dim1)]]",
        promote: "",
        dtypes: "",
        kind: MeaningKind::View,
        body: "x[..s]",
        require: &[],
        vjp: &[("x", "transpose.vjp.x(x, g, dim0 = dim0, dim1 = dim1)")],
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

// ops.yaml:1 transpose
/// Axes dim0 and dim1 exchanged.
///
/// `transpose(x: T[..S]; dim0: Dim(S), dim1: Dim(S)) -> T[..S[swap(dim0, dim1)]]`
///
/// [Meaning, gradient and kernels of `transpose`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#transpose)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([[0.66006, 0.16805, 0.81366], [0.34145, 0.57428, 0.15059]]);
/// let out = ops::transpose(&x, 0, 0);
/// let (got, wanted) = (out.to_f64()?, [0.66006, 0.16805, 0.81366, 0.34145, 0.57428, 0.15059]);
/// assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-5));
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn transpose(x: &Tensor, dim0: impl Into<Dim>, dim1: impl Into<Dim>) -> Tensor {
    api::call_one(&TRANSPOSE, vec![
        x.arg(),
        Value::size(Into::<Dim>::into(dim0)),
        Value::size(Into::<Dim>::into(dim1)),
    ])
}

// ---- rows/transpose__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 transpose.vjp.x
pub(crate) static TRANSPOSE__VJP__X: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "transpose.vjp.x",
        doc: "The gradient of `transpose` in one argument",
        sig: "(like x: T[..S], d_out: T[..S[swap(dim0, dim1)]]; dim0: Dim(S), dim1: Dim(S)) -> T[..S]",
        promote: "",
        dtypes: "float",
        kind: MeaningKind::View,
        body: "d_out[..s[swap(dim0, dim1)]]",
        require: &[],
        vjp: &[("d_out", "transpose(g, dim0 = dim0, dim1 = dim1)")],
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
