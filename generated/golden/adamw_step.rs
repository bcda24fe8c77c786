// ---- rows/adamw_step.rs
// Made from ops.yaml; do not edit: edit the row and run cargo build.

// ops.yaml:1 adamw_step
pub(crate) static ADAMW_STEP: Symbol = Symbol::new(
    "fulgurite",
    RowText {
        op: "adamw_step",
        doc: "One AdamW update of a parameter and its moments",
        sig: "(p: T[..S], grad: T[..S], m: T[..S], v: T[..S], step: T[], lr: T[]; beta1: f64 = 0.9, beta2: f64 = 0.999, eps: f64 = 1e-8, decay: f64 = 0.01) -> (p2: T[..S], m2: T[..S], v2: T[..S])",
        promote: "equal",
        dtypes: "float",
        kind: MeaningKind::Decomp,
        body: r"let s = step as f64;
let r = lr as acc(T);
let rate = r / (1 - pow(full([], beta1, f64), s)) as acc(T);
let spread = rsqrt(1 - pow(full([], beta2, f64), s)) as acc(T);
let (pa, ga, ma, va) = (p as acc(T), grad as acc(T), m as acc(T), v as acc(T));
let (p2, m2, v2) = adamw_each(pa, ga, ma, va, rate, spread, 1 - r * decay, beta1 = beta1, beta2 = beta2, eps = eps);
(p2 as T, m2 as T, v2 as T)",
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

/// Options of [`adamw_step_with`].
#[derive(Clone, Debug)]
pub struct AdamwStep {
    /// Default: `0.9`.
    pub beta1: f64,
    /// Default: `0.999`.
    pub beta2: f64,
    /// Default: `1e-8`.
    pub eps: f64,
    /// Default: `0.01`.
    pub decay: f64,
}

impl Default for AdamwStep {
    fn default() -> AdamwStep {
        AdamwStep {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            decay: 0.01,
        }
    }
}

// ops.yaml:1 adamw_step
/// One AdamW update of a parameter and its moments.
///
/// `adamw_step(p: T[..S], grad: T[..S], m: T[..S], v: T[..S], step: T[], lr: T[]; beta1: f64 = 0.9, beta2: f64 = 0.999, eps: f64 = 1e-8, decay: f64 = 0.01) -> (p2: T[..S], m2: T[..S], v2: T[..S])`
///
/// Takes `f16`, `bf16`, `f32`, `f64`; another dtype is refused.
///
/// [Meaning, gradient and kernels of `adamw_step`](https://github.com/fulgurite/fulgurite/blob/main/docs/operators.md#adamw_step)
///
/// ```
/// use fulgurite::prelude::*;
///
/// let p = Tensor::from([1.0, -2.0]);
/// let grad = Tensor::from([0.5, -1.0]);
/// let m = Tensor::from([0.2, 0.1]);
/// let v = Tensor::from([0.3, 0.04]);
/// let step = Tensor::scalar(3.0);
/// let lr = Tensor::scalar(0.1);
/// let (p2, m2, v2) = ops::adamw_step(&p, &grad, &m, &v, &step, &lr);
/// let (got, wanted) = (p2.to_f64()?, [0.990516, -1.997]);
/// assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-5 * 1.997));
/// let (got, wanted) = (m2.to_f64()?, [0.23, -0.01]);
/// assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-5));
/// let (got, wanted) = (v2.to_f64()?, [0.29995, 0.04096]);
/// assert!(got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-5));
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn adamw_step(
    p: &Tensor,
    grad: &Tensor,
    m: &Tensor,
    v: &Tensor,
    step: impl Operand,
    lr: impl Operand,
) -> (Tensor, Tensor, Tensor) {
    adamw_step_with(p, grad, m, v, step, lr, AdamwStep::default())
}

/// [`adamw_step`](fn@adamw_step) with options.
#[track_caller]
pub fn adamw_step_with(
    p: &Tensor,
    grad: &Tensor,
    m: &Tensor,
    v: &Tensor,
    step: impl Operand,
    lr: impl Operand,
    options: AdamwStep,
) -> (Tensor, Tensor, Tensor) {
    api::call_tuple3(&ADAMW_STEP, vec![
        p.arg(),
        grad.arg(),
        m.arg(),
        v.arg(),
        step.arg(),
        lr.arg(),
        Value::Num(Scalar::Float(options.beta1)),
        Value::Num(Scalar::Float(options.beta2)),
        Value::Num(Scalar::Float(options.eps)),
        Value::Num(Scalar::Float(options.decay)),
    ])
}
