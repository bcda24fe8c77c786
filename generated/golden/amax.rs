// ---- rows/amax.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 amax
pub(crate) static AMAX: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "amax",
        doc: "Maximum over dims; ties share the gradient evenly, NaN wins",
        sig: "(x: T[..S]; dims: Dims(S, empty = all) = all, keepdim: bool = false) -> T[..S[!dims; keepdim]]",
        promote: "equal",
        dtypes: "",
        kind: MeaningKind::Expr,
        body: "max[s[dims]](x[..s])",
        require: &[("size(S[dims]) > 0", "amax needs at least one element")],
        vjp: &[
            ("x", r"let part1 = amax.vjp.x.part1(x, out, dims = dims, keepdim = keepdim);
amax.vjp.x(x, out, part1, g, dims = dims, keepdim = keepdim)"),
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

/// Options of [`amax_with`].
#[derive(Clone, Debug, Default)]
pub struct Amax {
    /// Default: `all`.
    pub dims: Dims,
    /// Default: `false`.
    pub keepdim: bool,
}

// ops.yaml:1 amax
/// Maximum over dims; ties share the gradient evenly, NaN wins.
///
/// `amax(x: T[..S]; dims: Dims(S, empty = all) = all, keepdim: bool = false) -> T[..S[!dims; keepdim]]`
///
/// Refused unless `size(S[dims]) > 0`: amax needs at least one element.
///
/// [Meaning, gradient and kernels of `amax`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#amax)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([[0.66006, 0.16805, 0.81366], [0.34145, 0.57428, 0.15059]]);
/// let out = ops::amax(&x);
/// let (got, wanted) = (out.to_f64()?, [0.81366]);
/// assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-5));
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn amax(x: &Tensor) -> Tensor {
    amax_with(x, Amax::default())
}

/// [`amax`](fn@amax) with options.
#[track_caller]
pub fn amax_with(x: &Tensor, options: Amax) -> Tensor {
    api::call_one(&AMAX, vec![
        x.arg(),
        options.dims.value(),
        Value::Num(Scalar::Bool(options.keepdim)),
    ])
}

// ---- rows/amax__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 amax.vjp.x
pub(crate) static AMAX__VJP__X: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "amax.vjp.x",
        doc: "The gradient of `amax` in one argument",
        sig: "(x: T[..S], y: T[..S[!dims; keepdim]], part1: i64[..S[!dims; keepdim]], d_out: T[..S[!dims; keepdim]]; dims: Dims(S, empty = all), keepdim: bool = false) -> T[..S]",
        promote: "equal",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "if x[..s] == y[..s[!dims]] { d_out[..s[!dims]] / part1[..s[!dims]] } else if isnan(y[..s[!dims]]) { nan * d_out[..s[!dims]] } else { 0 }",
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

// ---- rows/amax__vjp__x__part1.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 amax.vjp.x.part1
pub(crate) static AMAX__VJP__X__PART1: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "amax.vjp.x.part1",
        doc: "The gradient of `amax` in one argument",
        sig: "(x: T[..S], y: T[..S[!dims; keepdim]]; dims: Dims(S, empty = all), keepdim: bool = false) -> i64[..S[!dims; keepdim]]",
        promote: "equal",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "sum[s[dims]](if x[..s] == y[..s[!dims]] { 1 } else { 0 })",
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
