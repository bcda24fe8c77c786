// ---- rows/dropout.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 dropout
pub(crate) static DROPOUT: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "dropout",
        doc: "Zero each element with probability p, scale the rest; the key makes it repeatable",
        sig: "(x: T[..S], key: Key; p: f64 = 0.5) -> (out: T[..S]; mask: bool[..S])",
        promote: "equal",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: r"let keep = uniform(key, ravel(s), 0) >= p;
(if keep { x[..s] / (1 - p) } else { 0 }, keep)",
        require: &[("0 <= p && p <= 1", "p must lie in 0..1")],
        vjp: &[("x", "dropout.vjp.x(x, mask, g, p = p)")],
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

/// Options of [`dropout_with`].
#[derive(Clone, Debug)]
pub struct Dropout {
    /// Default: `0.5`.
    pub p: f64,
}

impl Default for Dropout {
    fn default() -> Dropout {
        Dropout {
            p: 0.5,
        }
    }
}

// ops.yaml:1 dropout
/// Zero each element with probability p, scale the rest; the key makes it repeatable.
///
/// `dropout(x: T[..S], key: Key; p: f64 = 0.5) -> (out: T[..S]; mask: bool[..S])`
///
/// Refused unless `0 <= p && p <= 1`: p must lie in 0..1.
///
/// Takes `f16`, `bf16`, `f32`, `f64`; another dtype is refused.
///
/// [Meaning, gradient and kernels of `dropout`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#dropout)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
/// let key = Key::of_data(&Tensor::from([7i64, 11]));
/// let out = ops::dropout(&x, &key);
/// assert_eq!(out.to_f64()?, [2.0, 0.0, 6.0, 8.0, 10.0, 0.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn dropout(x: &Tensor, key: impl KeyArg) -> Tensor {
    dropout_with(x, key, Dropout::default())
}

/// [`dropout`](fn@dropout) with options.
#[track_caller]
pub fn dropout_with(x: &Tensor, key: impl KeyArg, options: Dropout) -> Tensor {
    api::call_one(&DROPOUT, vec![x.arg(), key.arg(), Value::Num(Scalar::Float(options.p))])
}

// ---- rows/dropout__vjp__x.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 dropout.vjp.x
pub(crate) static DROPOUT__VJP__X: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "dropout.vjp.x",
        doc: "The gradient of `dropout` in one argument",
        sig: "(like x: T[..S], mask: bool[..S], d_out: T[..S]; p: f64 = 0.5) -> T[..S]",
        promote: "equal",
        dtypes: "float",
        kind: MeaningKind::Expr,
        body: "if mask[..s] { d_out[..s] / (1 - p) } else { 0 }",
        require: &[("0 <= p && p <= 1", "p must lie in 0..1")],
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
