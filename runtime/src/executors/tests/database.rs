//! Hand-written rows for these tests.

use crate::symbol::{self, Symbol};
use fulgurite_core::row::{MeaningKind, RowText};
use std::sync::Once;

const fn row(
    op: &'static str,
    sig: &'static str,
    promote: &'static str,
    kind: MeaningKind,
    body: &'static str,
) -> RowText {
    RowText { op, sig, promote, kind, body, file: "tests.yaml", line: 1, ..RowText::BLANK }
}

const fn expr(op: &'static str, sig: &'static str, promote: &'static str, body: &'static str) -> RowText {
    row(op, sig, promote, MeaningKind::Expr, body)
}

const XY: &str = "(x: T, y: T) -> T";
const OVER: &str = "(x: T[..S]; dims: Dims(S, empty = all), keepdim: bool = false) -> T[..S[!dims; keepdim]]";

const ROWS: &[RowText] = &[
    expr("add", XY, "default", "x + y"),
    expr("sub", XY, "default", "x - y"),
    expr("mul", XY, "default", "x * y"),
    expr(
        "largest",
        "(x: T[N]; kernel: Size(K), pad: i64) -> T[M = N + 2 * pad - K + 1]",
        "equal",
        "max[k](x[m + k - pad else skip])",
    ),
    expr(
        "place_of_largest",
        "(x: T[N]; kernel: Size(K), pad: i64) -> i64[M = N + 2 * pad - K + 1]",
        "equal",
        "ravel(argmax[k](x[m + k - pad else skip]))",
    ),
    expr(
        "convolve",
        "(x: T[N], w: T[K]; pad: i64) -> T[M = N + 2 * pad - K + 1]",
        "equal",
        "sum[k](x[m + k - pad else skip] * w[k])",
    ),
    expr("windows_mean", "(x: T[N]; width: Size(W)) -> T[M = N - W + 1]", "equal", "mean[w](x[m + w])"),
    expr("div", XY, "float", "x / y"),
    expr(
        "cat",
        "(xs: List<T[..P, N[i]@dim, ..Q]>; dim: Dim = 0) -> T[..P, M = sum[..](N), ..Q]",
        "join",
        "only[i](xs[i][..p, m - before(N, i), ..q else skip])",
    ),
    expr("full", "(; shape: Shape(S), value: Num) -> f32[..S]", "", "value as f32"),
    expr("rem", XY, "default", "rem_floor(x, y)"),
    expr("exp", "(x: T) -> T", "float", "exp(x)"),
    expr("lt", "(x: T, y: T) -> bool", "bool", "x < y"),
    expr("where", "(cond: bool, x: T, y: T) -> T", "keep", "if cond { x } else { y }"),
    expr("sum", OVER, "long_if_int", "sum[s[dims]](x[..s])"),
    expr("mean", OVER, "equal", "mean[s[dims]](x[..s])"),
    expr("amax", OVER, "equal", "max[s[dims]](x[..s])"),
    expr(
        "argmax",
        "(x: T[..S]; dim: Dims(S, empty = all, most = 1)) -> i64[..S[!dim]]",
        "equal",
        "ravel(argmax[s[dim]](x[..s]))",
    ),
    expr(
        "cumsum",
        "(x: T[..P, N@dim, ..Q]; dim: Dim) -> T[..P, N, ..Q]",
        "long_if_int",
        "sum[j in 0..n + 1](x[..p, j, ..q])",
    ),
    row("transpose", "(x: T[..S]; a: Dim(S), b: Dim(S)) -> T[..S[swap(a, b)]]", "", MeaningKind::View, "x[..s]"),
    row(
        "reshape",
        "(x: T[..S]; shape: Shape(O, infer = S)) -> T[..O]",
        "",
        MeaningKind::View,
        "x[..unravel(ravel(o), S)]",
    ),
    row(
        "slice",
        "(x: T[..P, N@dim, ..Q]; dim: Dim, lo: Bound(N), hi: Bound(N), step: i64 = 1) -> T[..P, M = max(0, ceil_div(hi - lo, step)), ..Q]",
        "",
        MeaningKind::View,
        "x[..p, lo + m * step, ..q]",
    ),
    expr(
        "flip",
        "(x: T[..S]; dims: Dims(S, empty = none)) -> T[..S]",
        "keep",
        "x[..(if member(dims) { S - 1 - s } else { s })]",
    ),
    expr(
        "pad",
        "(x: T[..S]; lo: Ints(S), hi: Ints(S), value: Num = 0) -> T[..(O = S + lo + hi)]",
        "keep",
        "x[..(o - lo) else value]",
    ),
    expr("matmul", "(a: T[~B, M, K], w: T[~B, K, N]) -> T[~B, M, N]", "equal", "sum[k](a[~b, m, k] * w[~b, k, n])"),
    expr(
        "conv",
        "(x: T[B, CI, ..I], w: T[CO, CI, ..K]; padding: Ints(K) = 0, stride: Ints(K) = 1, dilation: Ints(K) = 1)
         -> T[B, CO, ..(O = (I + 2 * padding - dilation * (K - 1) - 1) / stride + 1)]",
        "equal",
        "sum[ci, ..k](x[b, ci, ..(o * stride + k * dilation - padding) else 0] * w[co, ci, ..k])",
    ),
    expr(
        "conv_apart",
        "(x: T[B, C, ..I], w: T[C, ..K]; padding: Ints(K) = 0, stride: Ints(K) = 1)
         -> T[B, C, ..(O = (I + 2 * padding - K) / stride + 1)]",
        "equal",
        "sum[..k](x[b, c, ..(o * stride + k - padding) else 0] * w[c, ..k])",
    ),
    expr(
        "conv_dx",
        "(d: T[B, CO, ..O], w: T[CO, CI, ..K]; padding: Ints(K) = 0, dilation: Ints(K) = 1)
         -> T[B, CI, ..(I = O + dilation * (K - 1) - 2 * padding)]",
        "equal",
        "sum[co, ..k](d[b, co, ..(i + padding - k * dilation) else 0] * w[co, ci, ..k])",
    ),
    expr(
        "conv_dw",
        "(x: T[B, CI, ..I], d: T[B, CO, ..O]; padding: Ints(I) = 0, dilation: Ints(I) = 1)
         -> T[CO, CI, ..(K = (I + 2 * padding - O) / dilation + 1)]",
        "equal",
        "sum[b, ..o](d[b, co, ..o] * x[b, ci, ..(o + k * dilation - padding) else 0])",
    ),
    expr(
        "conv_grouped",
        "(x: T[B, G * CI, ..I], w: T[G * CO, CI, ..K];
          padding: Ints(K) = 0, stride: Ints(K) = 1, dilation: Ints(K) = 1, groups: Size(G) = 1)
         -> T[B, G * CO, ..(O = (I + 2 * padding - dilation * (K - 1) - 1) / stride + 1)]",
        "equal",
        "sum[ci, ..k](x[b, g * CI + ci, ..(o * stride + k * dilation - padding) else skip] * w[g * CO + co, ci, ..k])",
    ),
    expr(
        "conv_grouped.vjp.x",
        "(like x: T[B, G * CI, ..I], w: T[G * CO, CI, ..K], d: T[B, G * CO, ..O];
          padding: Ints(K) = 0, stride: Ints(K) = 1, dilation: Ints(K) = 1, groups: Size(G) = 1) -> T[B, G * CI, ..I]",
        "equal",
        "sum[co, ..k if all[..]((i + padding - k * dilation) % stride == 0)](
           d[b, g * CO + co, ..((i + padding - k * dilation) / stride) else skip] * w[g * CO + co, ci, ..k])",
    ),
    expr(
        "conv_grouped.vjp.w",
        "(x: T[B, G * CI, ..I], like w: T[G * CO, CI, ..K], d: T[B, G * CO, ..O];
          padding: Ints(K) = 0, stride: Ints(K) = 1, dilation: Ints(K) = 1, groups: Size(G) = 1) -> T[G * CO, CI, ..K]",
        "equal",
        "sum[b, ..o](d[b, g * CO + co, ..o] * x[b, g * CI + ci, ..(o * stride + k * dilation - padding) else skip])",
    ),
    expr(
        "conv_transpose",
        "(x: T[B, CI, ..I], w: T[CI, CO, ..K]; padding: Ints(K) = 0, stride: Ints(K) = 1)
         -> T[B, CO, ..(O = (I - 1) * stride - 2 * padding + K)]",
        "equal",
        "sum[ci, ..i, ..k if all[..](i * stride + k - padding == o)](x[b, ci, ..i] * w[ci, co, ..k])",
    ),
    expr(
        "pools",
        "(x: T[B, ..I]; kernel: Shape(K), padding: Ints(K) = 0)
         -> (hi: T[B, ..(O = (I + 2 * padding - K) / 2 + 1)], lo: T[B, ..O], all: T[B, ..O], first: i64[B, ..O], last: i64[B, ..O])",
        "equal",
        "(max[..k](x[b, ..(o * 2 + k - padding) else skip]), min[..k](x[b, ..(o * 2 + k - padding) else skip]),
          sum[..k](x[b, ..(o * 2 + k - padding) else 0]),
          ravel(argmax[..k](x[b, ..(o * 2 + k - padding) else skip]), K),
          ravel(argmin[..k](x[b, ..(o * 2 + k - padding) else skip]), K))",
    ),
    expr(
        "band",
        "(x: T[..B, L, S]; width: i64, value: Num) -> T[..B, L, S]",
        "keep",
        "if l >= s && l - s < width { x[..b, l, s] } else { value as T }",
    ),
    expr("embedding", "(weight: T[R, D], index: Index[..I]) -> T[..I, D]", "keep", "weight[index[..i], d]"),
    expr(
        "embedding_grad",
        "(g: T[..I, D], index: Index[..I]; rows: Size(R)) -> T[R, D]",
        "equal",
        "sum[..i if index[..i] == r](g[..i, d])",
    ),
    expr(
        "embedding.vjp.weight",
        "(like weight: T[R, D], index: Index[..I], g: T[..I, D]) -> T[R, D]",
        "equal",
        "sum[..i if index[..i] == r](g[..i, d])",
    ),
    expr(
        "gather",
        "(x: T[..P, N@dim, ..Q], index: Index[..P, M@dim, ..Q]; dim: Dim) -> T[..P, M, ..Q]",
        "keep",
        "x[..p, index[..p, m, ..q], ..q]",
    ),
    expr(
        "scatter_add",
        "(x: T[..P, N@dim, ..Q], index: Index[..P, M@dim, ..Q], src: T[..P, M@dim, ..Q]; dim: Dim) -> T[..P, N, ..Q]",
        "equal",
        "x[..p, n, ..q] + sum[m if index[..p, m, ..q] == n](src[..p, m, ..q])",
    ),
    expr(
        "segment_prod",
        "(src: T[..P, M@dim, ..Q], index: Index[..P, M@dim, ..Q]; size: Size(N), dim: Dim) -> T[..P, N, ..Q]",
        "equal",
        "prod[m if index[..p, m, ..q] == n](src[..p, m, ..q])",
    ),
    row(
        "argsort",
        "(x: T[..P, N@dim, ..Q]; dim: Dim = -1, descending: bool = false) -> i64[..P, N, ..Q]",
        "equal",
        MeaningKind::Host,
        "argsort",
    ),
    expr("row_max", "(x: T[..S, N]) -> T[..S]", "keep", "max[n](x[..s, n])"),
    expr("all_least", "(x: T[..S, N]) -> bool[..S]", "keep", "all[n](x[..s, n] == -inf)"),
    expr("some_below", "(x: T[..S, N]) -> bool[..S]", "keep", "any[n](x[..s, n] != inf)"),
    expr("logical_not", "(x: T) -> bool", "bool", "x == 0"),
    expr("row_any", "(x: T[..S, N]) -> bool[..S]", "bool", "any[n](x[..s, n] != 0)"),
    expr("is_least", "(x: T) -> bool", "keep", "x == -inf"),
    expr("rand", "(key: Key; shape: Shape(S), dtype: Dtype(T) = f32) -> T[..S]", "", "uniform(key, ravel(s), 0) as T"),
    RowText {
        dtypes: "float",
        ..row(
            "softmax",
            "(x: T[..S]; dim: Dim(S)) -> T[..S]",
            "",
            MeaningKind::Decomp,
            "let e = exp(x - amax(x, [dim], keepdim = true)); e / sum(e, [dim], keepdim = true)",
        )
    },
];

/// Registers the rows, once.
pub fn database() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for text in ROWS {
            let symbol: &'static Symbol = Box::leak(Box::new(Symbol::new("tests", *text)));
            symbol::register(symbol);
        }
    });
}
