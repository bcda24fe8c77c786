//! A small database by hand, and the trace files that tests compare.

#![allow(dead_code, missing_docs)]

pub mod eval;
pub mod files;

use fulgurite_core::row::{MeaningKind, RowText};
use fulgurite_runtime::symbol::{self, Symbol};
use std::sync::Once;

type Pairs = &'static [(&'static str, &'static str)];

const fn row(
    op: &'static str,
    sig: &'static str,
    promote: &'static str,
    kind: MeaningKind,
    body: &'static str,
) -> RowText {
    RowText { op, sig, promote, kind, body, file: "tests.yaml", line: 1, ..RowText::BLANK }
}

const fn expr(op: &'static str, sig: &'static str, promote: &'static str, body: &'static str, vjp: Pairs) -> RowText {
    RowText { vjp, ..row(op, sig, promote, MeaningKind::Expr, body) }
}

const fn view(op: &'static str, sig: &'static str, body: &'static str, vjp: Pairs) -> RowText {
    RowText { vjp, ..row(op, sig, "", MeaningKind::View, body) }
}

const fn decomp(op: &'static str, sig: &'static str, body: &'static str, vjp: Pairs) -> RowText {
    RowText { dtypes: "float", vjp, ..row(op, sig, "", MeaningKind::Decomp, body) }
}

/// A pointwise row of one argument.
const fn unary(op: &'static str, promote: &'static str, body: &'static str, vjp: Pairs) -> RowText {
    expr(op, "(x: T) -> T", promote, body, vjp)
}

/// A comparison or the like.
const fn predicate(op: &'static str, sig: &'static str, body: &'static str) -> RowText {
    expr(op, sig, "bool", body, &[])
}

const XY: &str = "(x: T, y: T) -> T";
const XY_BOOL: &str = "(x: T, y: T) -> bool";

/// The rows. Rules are those that codegen is to derive.
pub const ROWS: &[RowText] = &[
    expr(
        "add",
        "(x: T, y: T; alpha: Num = 1) -> T",
        "default",
        "x + alpha * y",
        &[("x", "unbroadcast(g, x)"), ("y", "unbroadcast(if alpha == 1 { g } else { g * alpha }, y)")],
    ),
    expr(
        "sub",
        "(x: T, y: T; alpha: Num = 1) -> T",
        "default",
        "x - alpha * y",
        &[("x", "unbroadcast(g, x)"), ("y", "unbroadcast(-(if alpha == 1 { g } else { g * alpha }), y)")],
    ),
    expr("mul", XY, "default", "x * y", &[("x", "unbroadcast(g * y, x)"), ("y", "unbroadcast(g * x, y)")]),
    expr(
        "div",
        "(x: T, y: T; mode: enum(trunc, floor)?) -> T",
        "if some(mode) { default } else { float }",
        "if !some(mode) { x / y } else { match mode { trunc => div_trunc(x, y), floor => div_floor(x, y) } }",
        &[
            ("x", "if some(mode) { 0 } else { unbroadcast(g / y, x) }"),
            ("y", "if some(mode) { 0 } else { unbroadcast(-g * out / y, y) }"),
        ],
    ),
    unary("neg", "default", "-x", &[("x", "-g")]),
    unary("exp", "float", "exp(x)", &[("x", "g * out")]),
    unary("ln", "float", "ln(x)", &[("x", "g / x")]),
    unary("sin", "float", "sin(x)", &[("x", "g * cos(x)")]),
    unary("cos", "float", "cos(x)", &[("x", "-g * sin(x)")]),
    unary("tanh", "float", "tanh(x)", &[("x", "g * (1 - out * out)")]),
    unary("rsqrt", "float", "rsqrt(x)", &[("x", "-0.5 * g * out * out * out")]),
    unary("abs", "default", "abs(x)", &[("x", "g * sign(x)")]),
    unary("sign", "default", "sign(x)", &[("x", "0")]),
    unary("floor", "default", "floor(x)", &[("x", "0")]),
    // without a rule on purpose: pointwise, so it is unfolded
    expr(
        "gelu",
        "(x: T; approximate: enum(none, tanh) = none) -> T",
        "default",
        "match approximate { none => 0.5 * x * (1 + erf(x * FRAC_1_SQRT_2)), \
         tanh => 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))) }",
        &[],
    ),
    unary("erf", "float", "erf(x)", &[("x", "1.1283791670955126 * g * exp(-x * x)")]),
    expr(
        "maximum",
        XY,
        "default",
        "max(x, y)",
        &[
            ("x", "unbroadcast(where(x > y, g, where(x == y, 0.5 * g, 0)), x)"),
            ("y", "unbroadcast(where(y > x, g, where(x == y, 0.5 * g, 0)), y)"),
        ],
    ),
    predicate("eq", XY_BOOL, "x == y"),
    predicate("ne", XY_BOOL, "x != y"),
    predicate("lt", XY_BOOL, "x < y"),
    predicate("le", XY_BOOL, "x <= y"),
    predicate("gt", XY_BOOL, "x > y"),
    predicate("ge", XY_BOOL, "x >= y"),
    predicate("logical_not", "(x: T) -> bool", "x == 0"),
    predicate("logical_and", XY_BOOL, "x != 0 && y != 0"),
    predicate("logical_or", XY_BOOL, "x != 0 || y != 0"),
    expr(
        "where",
        "(cond: bool, x: T, y: T) -> T",
        "keep",
        "if cond { x } else { y }",
        &[("x", "unbroadcast(where(cond, g, 0), x)"), ("y", "unbroadcast(where(cond, 0, g), y)")],
    ),
    expr("cast", "(x: T; dtype: Dtype(U)) -> U", "keep", "x as U", &[("x", "g")]),
    unary("detach", "keep", "detach(x)", &[("x", "0")]),
    unary("copy", "keep", "x", &[("x", "g")]),
    expr("full", "(; shape: Shape(S), value: Num, dtype: Dtype(T)?) -> T[..S]", "", "value as T", &[]),
    expr(
        "sum",
        "(x: T[..S]; dims: Dims(S, empty = all) = all, keepdim: bool = false, dtype: Dtype(T)?) -> T[..S[!dims; keepdim]]",
        "long_if_int",
        "sum[s[dims]](x[..s])",
        &[("x", "sum.vjp.x(g, x, dims, keepdim)")],
    ),
    expr(
        "sum.vjp.x",
        "(d_out: T[..R], like x: T[..S]; dims: Dims(S, empty = all) = all, keepdim: bool = false) -> T[..S]",
        "keep",
        "if keepdim { d_out[..(if member(dims) { 0 } else { s })] } else { d_out[..s[!dims]] }",
        &[("d_out", "sum(g, dims, keepdim)")],
    ),
    expr(
        "amax",
        "(x: T[..S]; dims: Dims(S, empty = all) = all, keepdim: bool = false) -> T[..S[!dims; keepdim]]",
        "equal",
        "max[s[dims]](x[..s])",
        &[],
    ),
    expr(
        "max_dim",
        "(x: T[..S]; dim: Dim(S), keepdim: bool = false) -> (values: T[..S[!dim; keepdim]], indices: i64[..S[!dim; keepdim]])",
        "equal",
        "(max[s[dim]](x[..s]), ravel(argmax[s[dim]](x[..s])))",
        &[("x", "max_dim.vjp.x(g_values, indices, x, dim)")],
    ),
    // as derived, but for keepdim
    expr(
        "max_dim.vjp.x",
        "(d_out: T[..P, ..Q], indices: i64[..P, ..Q], like x: T[..P, N@dim, ..Q]; dim: Dim) -> T[..P, N, ..Q]",
        "keep",
        "if n == indices[..p, ..q] { d_out[..p, ..q] } else { 0 }",
        &[("d_out", "take(g, indices, dim)")],
    ),
    expr(
        "take",
        "(x: T[..P, N@dim, ..Q], index: i64[..P, ..Q]; dim: Dim) -> T[..P, ..Q]",
        "keep",
        "sum[n if n == index[..p, ..q]](x[..p, n, ..q])",
        &[("x", "max_dim.vjp.x(g, index, x, dim)")],
    ),
    expr(
        "argmax",
        "(x: T[..S]; dim: Dims(S, empty = all, most = 1) = all, keepdim: bool = false) -> i64[..S[!dim; keepdim]]",
        "equal",
        "ravel(argmax[s[dim]](x[..s]))",
        &[],
    ),
    expr(
        "matmul",
        "(a: T[~B, M, K], w: T[~B, K, N]) -> T[~B, M, N]",
        "equal",
        "sum[k](a[~b, m, k] * w[~b, k, n])",
        &[("a", "matmul.vjp.a(g, w, a)"), ("w", "matmul.vjp.w(g, a, w)")],
    ),
    expr(
        "windows",
        "(x: T[C, H, W], kernel: T[N, C, K, L]) -> T[N, H, W]",
        "equal",
        "sum[c, k, l](x[c, h + k - 1, w + l - 1 else skip] * kernel[n, c, k, l])",
        &[],
    ),
    expr("matmul.mv", "(a: T[M, K], w: T[K]) -> T[M]", "equal", "sum[k](a[m, k] * w[k])", &[]),
    expr(
        "matmul.vjp.a",
        "(d_out: T[~B, M, N], w: T[~B, K, N], like a: T[~B, M, K]) -> T[~B, M, K]",
        "equal",
        "sum[n](d_out[~b, m, n] * w[~b, k, n])",
        &[("d_out", "matmul(g, w)"), ("w", "matmul.vjp.w(d_out, g, w)")],
    ),
    expr(
        "matmul.vjp.w",
        "(d_out: T[~B, M, N], a: T[~B, M, K], like w: T[~B, K, N]) -> T[~B, K, N]",
        "equal",
        "sum[m](d_out[~b, m, n] * a[~b, m, k])",
        &[("d_out", "matmul(a, g)"), ("a", "matmul.vjp.a(d_out, g, a)")],
    ),
    expr(
        "reshape",
        "(x: T[..S]; shape: Shape(O, infer = S)) -> T[..O]",
        "",
        "x[..unravel(ravel(o), S)]",
        &[("x", "reshape(g, S)")],
    ),
    view("expand", "(x: T[~O]; shape: Shape(O, keep = x)) -> T[..O]", "x[~o]", &[("x", "unbroadcast(g, x)")]),
    view("permute", "(x: T[..S]; dims: Perm(S)) -> T[..S[dims]]", "x[..s]", &[("x", "permute.vjp.x(g, x, dims)")]),
    view(
        "permute.vjp.x",
        "(d_out: T[..R], like x: T[..S]; dims: Perm(S)) -> T[..S]",
        "d_out[..s[dims]]",
        &[("d_out", "permute(g, dims)")],
    ),
    view(
        "squeeze",
        "(x: T[..S]; dims: Dims(S, empty = none) = all) -> T[..S[!unit(dims)]]",
        "x[..s]",
        &[("x", "reshape(g, S)")],
    ),
    view(
        "split",
        "(x: T[..P, N@dim, ..Q]; sizes: Shape(M), dim: Dim = 0) -> List<T[..P, M[i], ..Q], len(M)>",
        "x[..p, before(M, i) + m, ..q]",
        &[("x", "cat(g, dim)")],
    ),
    decomp(
        "chunk",
        "(x: T[..P, N@dim, ..Q]; chunks: i64, dim: Dim = 0) -> List<T[..P, M[i], ..Q], _>",
        "split(x, [ceil_div(N, chunks), N - ceil_div(N, chunks)], dim)",
        &[],
    ),
    expr(
        "cat",
        "(xs: List<T[..P, N[i]@dim, ..Q]>; dim: Dim = 0) -> T[..P, M = sum[..](N), ..Q]",
        "join",
        "only[i](xs[i][..p, m - before(N, i), ..q else skip])",
        &[("xs", "split(g, N, dim)")],
    ),
    decomp(
        "var_mean",
        "(x: T[..S]; dims: Dims(S, empty = all) = all, correction: f64 = 1, keepdim: bool = false) \
         -> (var: T[..S[!dims; keepdim]], mean: T[..S[!dims; keepdim]])",
        "let n = size(x, dims); let mu = sum(x, dims, keepdim = true) / n; let d = x - mu; \
         let v = sum(d * d, dims, keepdim = keepdim) / max(n - correction, 0); \
         (v, if keepdim { mu } else { squeeze(mu, dims) })",
        &[],
    ),
    decomp(
        "softmax",
        "(x: T[..P, N@dim, ..Q]; dim: Dim) -> T[..P, N, ..Q]",
        "let e = exp(x - detach(amax(x, [dim], keepdim = true))); e / sum(e, [dim], keepdim = true)",
        &[("x", "out * (g - sum(g * out, [dim], keepdim = true))")],
    ),
    expr(
        "dropout",
        "(x: T[..S], key: Key; p: f64 = 0.5) -> (out: T[..S]; mask: bool[..S])",
        "equal",
        "let keep = uniform(key, ravel(s), 0) >= p; (if keep { x[..s] / (1 - p) } else { 0 }, keep)",
        &[("x", "where(mask, g / (1 - p), 0)")],
    ),
    expr(
        "key_children",
        "(key: Key; count: Size(N), words: Size(W) = 2, series: i64 = 0) -> i64[N, W]",
        "",
        "let a = (uniform(key, n * W + w, 1801812339 + 3 * series) * 16777216) as i64; \
         let b = (uniform(key, n * W + w, 1801812340 + 3 * series) * 16777216) as i64; \
         let c = (uniform(key, n * W + w, 1801812341 + 3 * series) * 32768) as i64; \
         if w == 0 { (a * 16777216 + b) * 32768 + c } else { 0 }",
        &[],
    ),
    view("select", "(x: T[..P, N@dim, ..Q]; dim: Dim, index: Pos(N)) -> T[..P, ..Q]", "x[..p, index, ..q]", &[]),
    // a composite that draws twice
    decomp("noisy", "(x: T[..S], key: Key) -> T[..S]", "dropout(dropout(x, key), key)", &[]),
    // bodies that yield an argument, and a value twice
    decomp("same", "(x: T[..S]) -> T[..S]", "x", &[]),
    decomp("twice", "(x: T[..S]) -> (a: T[..S], b: T[..S])", "let y = same(x); (y, y)", &[]),
    decomp(
        "momentum",
        "(x: T[..S], mut m: T[..S]; rate: f64 = 0.9) -> T[..S]",
        "m <- rate * m + (1 - rate) * x; x - m",
        &[],
    ),
    // opaque: no rule, no expression that could be differentiated
    RowText { dtypes: "all", ..row("opq", "(x: T[..S]) -> T[..S]", "equal", MeaningKind::Host, "opq") },
];

/// Registers [`ROWS`] once.
pub fn database() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for text in ROWS {
            symbol::register(Box::leak(Box::new(Symbol::new("tests", *text))));
        }
    });
}
