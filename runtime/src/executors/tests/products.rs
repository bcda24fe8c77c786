//! Products of matrices and vectors, of all strides.

use super::*;

#[test]
fn sums_of_products_agree() {
    // widths around lanes and blocks; the factor varies by row, by column or not at all, or is the other factor
    for (rows, cols) in [(1, 31), (3, 32), (40, 33), (7, 100), (5, 192), (9, 256), (4, 700)] {
        for y in ["[R, C]", "[C]", "[R, 1]", "[]"] {
            let text = format!(
                "fn f(x: f32[R, C], y: f32{y}) {{
                   p: f32[R, C] = mul(x, y)
                   a: f32[R] = sum(p, dims=[1])
                   q: f32[R, C] = mul(y, x)
                   b: f32[C] = sum(q, dims=[0])
                   e: f32[R, C] = exp(x)
                   r: f32[R, C] = mul(e, e)
                   c: f32[R, 1] = sum(r, dims=[1], keepdim=true)
                   d: f32[R, C] = div(e, c)
                   t: f32[R, C] = mul(d, x)
                   u: f32[] = sum(t, dims=[0, 1])
                   v: f32[R, C] = add(t, e)
                   return a, b, d, u, v
                 }}"
            );
            agree(&text.replace('R', &rows.to_string()).replace('C', &cols.to_string()));
        }
    }
}

#[test]
fn products_of_all_kinds() {
    for (b, m, k, n) in [("", 3, 4, 5), ("", 1, 7, 9), ("2, 3, ", 4, 5, 6), ("", 64, 32, 48)] {
        agree(&format!(
            "fn f(a: f32[{b}{m}, {k}], w: f32[{b}{k}, {n}]) {{ y: f32[{b}{m}, {n}] = matmul(a, w) return y }}"
        ));
    }
    agree(
        "fn f(a: f32[5, 4], w: f32[6, 4]) { t: f32[4, 6] = transpose(w, a = 0, b = 1) y: f32[5, 6] = matmul(a, t) return y }",
    );
    agree("fn f(a: f32[2, 5, 4], w: f32[4, 6]) { y: f32[2, 5, 6] = matmul(a, w) return y }");
    agree("fn f(a: bf16[5, 4], w: bf16[4, 6]) { y: bf16[5, 6] = matmul(a, w) return y }");
    agree("fn f(a: i32[5, 4], w: i32[4, 6]) { y: i32[5, 6] = matmul(a, w) return y }");
    agree(
        "fn f(x: f32[2, 3, 9, 8], w: f32[4, 3, 3, 2]) { y: f32[2, 4, 9, 7] = conv(x, w, padding = [1, 0]) return y }",
    );
    // this operand is copied image by image
    let c = agree(
        "fn f(x: f64[3, 8, 40, 40], w: f64[4, 8, 3, 3]) { y: f64[3, 4, 40, 40] = conv(x, w, padding = [1, 1]) return y }",
    );
    assert!(c.describe().to_string().contains("copied in 3 parts"), "{}", c.describe());
}

#[test]
fn products_read_lines_where_they_lie() {
    // rows, columns and terms beside the sizes of tiles and blocks
    for (m, n, k) in [(16, 16, 2), (17, 17, 5), (40, 33, 70), (19, 47, 64), (24, 200, 300), (33, 500, 260)] {
        let c =
            agree(&format!("fn f(a: f32[{m}, {k}], w: f32[{k}, {n}]) {{ y: f32[{m}, {n}] = matmul(a, w) return y }}"));
        if Level::current() > Level::Baseline {
            assert!(c.describe().to_string().contains("lines"), "{}", c.describe());
        }
        // the operands transposed, in batches
        agree(&format!(
            "fn f(a: f32[2, {k}, {m}], w: f32[2, {n}, {k}]) {{
               l: f32[2, {m}, {k}] = transpose(a, a = 1, b = 2)
               r: f32[2, {k}, {n}] = transpose(w, a = 1, b = 2)
               y: f32[2, {m}, {n}] = matmul(l, r)
               return y
             }}"
        ));
        agree(&format!(
            "fn f(a: f32[{m}, {k}], w: f32[{n}, {k}]) {{
               r: f32[{k}, {n}] = transpose(w, a = 0, b = 1) y: f32[{m}, {n}] = matmul(a, r) return y
             }}"
        ));
        // every other column
        agree(&format!(
            "fn f(a: f32[{m}, {k}], w: f32[{k}, {twice}]) {{
               r: f32[{k}, {n}] = slice(w, dim = 1, lo = 0, hi = {twice}, step = 2)
               y: f32[{m}, {n}] = matmul(a, r)
               return y
             }}",
            twice = 2 * n
        ));
    }
}

/// The terms of an element are added up in one order, however a product is divided: also if its last part would have one
/// row, or few enough of both sides for another order.
#[test]
fn products_have_the_same_bits_on_any_number_of_threads() {
    for (m, k, n) in [(97, 700, 40), (100, 700, 64), (193, 600, 9), (64, 1100, 101), (300, 520, 1), (1, 520, 300)] {
        for dtype in ["f64", "f32"] {
            let sizes = format!("a: {dtype}[{m}, {k}], b: {dtype}[{k}, {n}]");
            let trace = parse(&format!("fn f({sizes}) {{ y: {dtype}[{m}, {n}] = matmul(a, b) return y }}"));
            let inputs = inputs(&trace);
            let bits = |threads| cpu(&trace, threads).run(&inputs).unwrap()[0].as_bytes().to_vec();
            let one = bits(1);
            for threads in [2, 3, 8] {
                assert!(bits(threads) == one, "{sizes} on {threads} threads");
            }
        }
    }
}

/// The gradient of a convolution's weight has the same bits on any number of threads. In f64 it is a product over copied
/// windows, whose columns are divided among threads.
#[test]
fn products_over_windows_have_the_same_bits_on_any_number_of_threads() {
    for (batch, channels, rows) in [(3, 11, 9), (2, 7, 30), (5, 3, 1)] {
        let (x, w) = (format!("f64[{batch}, {channels}, 26, 25]"), format!("f64[{rows}, {channels}, 3, 3]"));
        let d = format!("f64[{batch}, {rows}, 24, 23]");
        let settings = "padding = [0, 0], stride = [1, 1], dilation = [1, 1], groups = 1";
        let trace = parse(&format!(
            "fn f(x: {x}, d: {d}, w: {w}) {{ dw: {w} = conv_grouped.vjp.w(x, w, d, {settings}) return dw }}"
        ));
        let inputs = inputs(&trace);
        let bits = |threads| cpu(&trace, threads).run(&inputs).unwrap()[0].as_bytes().to_vec();
        let one = bits(1);
        for threads in [2, 3, 8] {
            assert!(bits(threads) == one, "{w} of {x} on {threads} threads");
        }
    }
}
