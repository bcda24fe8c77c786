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
        };
        format!("- op: {op}\n  doc: ___\n  {keys}\n")
    }
}
