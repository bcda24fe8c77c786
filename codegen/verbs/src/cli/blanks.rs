//! Rows with blanks, which `cargo ops new OP --kind KIND` writes.

use clap::ValueEnum;

/// A class of operators that newcomers add.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Each element from the elements at its own position: `x * tanh(softplus(x))`
    Pointwise,
    /// A sum, mean, product, maximum … over chosen axes
    Reduction,
    /// A program of other rows, with two results
    Composite,
    /// Elements chosen by an index tensor
    Gather,
    /// Numbers drawn with a key
    Random,
    /// A sum or an extremum over windows that move along the last axis
    Window,
    /// Elements added at the places that an index tensor names
    Scatter,
    /// Elements divided by a measure of the axis on which they lie
    Normalisation,
    /// A loss of each element and its target, with a gradient that is written down
    Loss,
    /// A program that also writes an argument, such as a running mean
    Mut,
}

impl Kind {
    /// The row called `op`, with blanks to fill.
    pub(super) fn row(self, op: &str) -> String {
        let keys = match self {
            Kind::Pointwise => "sig: '(x: T) -> T'\n  promote: float\n  expr: ___",
            Kind::Reduction => {
                "sig: '(x: T[..S]; dims: Dims(S, empty = all) = all, keepdim: bool = false) -> T[..S[!dims; keepdim]]'\n  \
                 promote: default\n  dtypes: float\n  expr: 'sum[s[dims]](___)'"
            }
            Kind::Composite => {
                "sig: '(x: T[..S]; dim: Dim(S)) -> (first: T[..S[!dim]], second: T[..S[!dim]])'\n  dtypes: float\n  \
                 decomp: |\n    let a = ___;\n    let b = ___;\n    (a, b)"
            }
            Kind::Gather => {
                "sig: '(x: T[..P, N@dim, ..Q], index: Index[..P, M@dim, ..Q]; dim: Dim) -> T[..P, M, ..Q]'\n  \
                 expr: 'x[..p, ___, ..q]'"
            }
            Kind::Random => {
                "sig: '(x: T[..S], key: Key) -> T[..S]'\n  promote: equal\n  dtypes: float\n  expr: |\n    \
                 let u = uniform(key, ravel(s), 0) as T;\n    ___"
            }
            Kind::Window => {
                "sig: '(x: T[..B, N]; kernel: Size(K), stride: i64 = 1) -> T[..B, O = (N - K) / stride + 1]'\n  \
                 promote: equal\n  dtypes: float\n  require:\n    'K > 0 && stride > 0': 'kernel and stride must be positive'\n    \
                 'K <= N': 'kernel must fit x'\n  expr: 'sum[k in 0..K](___)'"
            }
            Kind::Scatter => {
                "sig: '(x: T[..P, N@dim, ..Q], index: Index[..P, M@dim, ..Q], src: T[..P, M@dim, ..Q]; dim: Dim) -> T[..P, N, ..Q]'\n  \
                 promote: equal\n  require: {'0 <= index && index < N': 'index out of range'}\n  \
                 expr: 'x[..p, n, ..q] + sum[m if index[..p, m, ..q] == n](___) as T'"
            }
            Kind::Normalisation => {
                "sig: '(x: T[..P, N@dim, ..Q]; dim: Dim, eps: f64 = 1e-5) -> T[..P, N, ..Q]'\n  promote: equal\n  \
                 dtypes: float\n  decomp: |\n    let xa = x as acc(T);\n    let measure = ___;\n    \
                 (xa / (measure + eps)) as T"
            }
            Kind::Loss => {
                "sig: '(x: T, target: T) -> T'\n  promote: float\n  expr: ___\n  \
                 grad: {x: 'unbroadcast(g * (___), x)', target: 'unbroadcast(g * (___), target)'}"
            }
            Kind::Mut => {
                "sig: '(x: T[..S], mut state: T[..S]; momentum: f64 = 0.1) -> T[..S]'\n  promote: equal\n  \
                 dtypes: float\n  decomp: |\n    let (xa, sa) = (x as acc(T), state as acc(T));\n    \
                 let next = ___;\n    state <- next as T;\n    next as T"
            }
        };
        format!("- op: {op}\n  doc: ___\n  {keys}\n")
    }
}
