// ---- rows/softmax.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 softmax
pub(crate) static SOFTMAX: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "softmax",
        doc: "Exponentials along dim, divided by their sum",
        sig: "(x: T[..P, N@dim, ..Q]; dim: Dim) -> T[..P, N, ..Q]",
        promote: "",
        dtypes: "float",
        kind: MeaningKind::Decomp,
        body: "if N == 0 { x } else { let xa = x as acc(T); let e = exp(xa - detach(amax(xa, [dim], keepdim = true))); (e / sum(e, [dim], keepdim = true)) as T }",
        require: &[],
        vjp: &[
            ("x", r"let ga = g as acc(T);
(out * (ga - sum(ga * out, [dim], keepdim = true))) as T"),
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

// ops.yaml:1 softmax
/// Exponentials along dim, divided by their sum.
///
/// `softmax(x: T[..P, N@dim, ..Q]; dim: Dim) -> T[..P, N, ..Q]`
///
/// Takes `f16`, `bf16`, `f32`, `f64`; another dtype is refused.
///
/// [Meaning, gradient and kernels of `softmax`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#softmax)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let x = Tensor::from([0.0, 1000.0, 0.0, 0.0]);
/// let out = ops::softmax(&x, 0);
/// assert_eq!(out.to_f64()?, [0.0, 1.0, 0.0, 0.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn softmax(x: &Tensor, dim: impl Into<Dim>) -> Tensor {
    api::call_one(&SOFTMAX, vec![x.arg(), Value::size(Into::<Dim>::into(dim))])
}
