//! Compares programs on the CPU executor with the oracle, and tests their own properties: fusion, memory, threads,
//! errors.
//!
//! The rows here are a small database of their own; `fulgurite-tests` covers the whole database.

mod conditions;
mod convolutions;
pub(crate) mod database;

use super::*;
use crate::bind::body_of;
use crate::buffer::Buffer;
use crate::trace::ProxyTy;
use database::database;
use fulgurite_core::DType;
use fulgurite_core::builtins::cast_f64;
use fulgurite_kernels::abi::Level;

fn parse(text: &str) -> Trace {
    database();
    Trace::parse(text).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

fn compile_with(trace: &Trace, executors: Vec<Arc<dyn Executor>>, threads: usize) -> Result<Compiled, ExecError> {
    let arena = trace.arena.clone();
    let bodies = move |line: &BoundSymbol| body_of(&arena, line).map_err(|e| ExecError::new("E801", e.to_string()));
    compile(trace, &CompileOptions { executors, threads, bodies: &bodies, describe: true, explain: false })
}

fn cpu(trace: &Trace, threads: usize) -> Compiled {
    compile_with(trace, vec![Arc::new(cpu::Cpu)], threads).unwrap_or_else(|e| panic!("{trace:?}\n{e}"))
}

/// Distinct numbers in -2..2, and indices 0, 1, 2.
fn inputs(trace: &Trace) -> Vec<Buffer> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let make = |ty: ProxyTy, next: &mut dyn FnMut() -> f64| {
        let (dtype, shape) = line::stored(&ty);
        if ty == ProxyTy::Key {
            return Buffer::key(11, 3).unwrap();
        }
        let len: usize = shape.iter().product();
        let data = (0..len).map(|_| {
            let x = next();
            if dtype.is_int() { cast_f64((x * 3.0).floor(), dtype) } else { cast_f64(x * 4.0 - 2.0, dtype) }
        });
        Buffer::from_numbers(dtype, &shape, data).unwrap()
    };
    trace.input_proxies().map(|p| make(trace.ty(p), &mut next)).collect()
}

/// Runs a program on both executors, with one and two threads, and returns the CPU's program.
fn agree(text: &str) -> Compiled {
    let trace = parse(text);
    let inputs = inputs(&trace);
    let oracle = compile_with(&trace, vec![Arc::new(interp::Interp)], 1).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let (one, two) = (cpu(&trace, 1), cpu(&trace, 2));
    let want = oracle.run(&inputs).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let got = one.run(&inputs).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let shared = two.run(&inputs).unwrap();
    for (i, ((g, w), s)) in got.iter().zip(&want).zip(&shared).enumerate() {
        assert_eq!((g.dtype(), g.shape()), (w.dtype(), w.shape()), "{text}");
        assert_eq!(g.as_bytes(), s.as_bytes(), "result {i} depends on the threads\n{text}");
        let tolerance = match g.dtype() {
            DType::F64 => 1e-12,
            DType::F32 => 2e-5,
            DType::F16 => 4e-3,
            DType::BF16 => 3e-2,
            _ => 0.0,
        };
        for (k, (x, y)) in g.to_f64().into_iter().zip(w.to_f64()).enumerate() {
            let close = (x - y).abs() <= tolerance * (1.0 + y.abs()) || (x.is_nan() && y.is_nan()) || x == y;
            assert!(close, "result {i}, element {k}: {x}, should be {y}\n{text}\n{}", one.describe());
        }
    }
    one
}

fn steps(c: &Compiled) -> usize {
    c.describe().steps.len()
}

#[test]
fn chains_are_one_program() {
    for shape in ["[7]", "[3, 5]", "[64, 100]", "[2, 3, 40]", "[300, 300]", "[]"] {
        let c = agree(&format!(
            "fn f(x: f32{shape}, y: f32{shape}) {{
               a: f32{shape} = mul(x, y)
               b: f32{shape} = add(a, 1.5)
               c: f32{shape} = exp(b)
               d: f32{shape} = div(c, a)
               return d, b
             }}"
        ));
        assert_eq!(steps(&c), 1, "{}", c.describe());
    }
}

/// Of two groups that each need a scan of the other's first part, either may be made whole, but not both.
#[test]
fn groups_that_wait_for_each_other_stay_apart() {
    agree(
        "fn f(x: f32[40], z: f32[40], y: f32[40]) {
           a: f32[40] = exp(x)
           s: f32[40] = mul(x, y)
           b: f32[40] = exp(z)
           t: f32[40] = mul(z, y)
           c: f32[40] = cumsum(a, dim = 0)
           d: f32[40] = cumsum(b, dim = 0)
           u: f32[40] = mul(c, 2)
           p: f32[40] = add(u, t)
           v: f32[40] = mul(d, 2)
           q: f32[40] = add(v, s)
           return p, q
         }",
    );
}

/// A window is walked only where it can meet the tensor that it slides over.
#[test]
fn windows_may_be_far_larger_than_what_they_see() {
    agree("fn f(x: f32[9]) { y: f32[10] = largest(x, kernel = 1000000000, pad = 500000000) return y }");
    agree("fn f(x: f32[9]) { y: f32[2] = largest(x, kernel = 9000, pad = 4496) return y }");
    let text = "fn f(x: f32[9]) { y: i64[10] = place_of_largest(x, kernel = 1000000000, pad = 500000000) return y }";
    let x = inputs(&parse(text));
    let (best, _) = (0i64..).zip(x[0].to_f64()).max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let places = agree(text).run(&x).unwrap()[0].to_f64();
    assert_eq!(places, (0..10).map(|m| (best - m + 500_000_000) as f64).collect::<Vec<_>>());
    agree("fn f(x: f32[7], w: f32[9000]) { y: f32[8] = convolve(x, w, pad = 4500) return y }");
}

#[test]
fn operands_broadcast_in_place() {
    for (a, b) in [
        ("[6, 1]", "[6, 7]"),
        ("[7]", "[6, 7]"),
        ("[1, 7]", "[6, 7]"),
        ("[]", "[6, 7]"),
        ("[1000]", "[50, 1000]"),
        ("[50, 1]", "[50, 1000]"),
    ] {
        let c =
            agree(&format!("fn f(x: f32{a}, y: f32{b}) {{ z: f32{b} = mul(y, x) w: f32{b} = add(z, x) return w }}"));
        assert_eq!(steps(&c), 1);
    }
}

#[test]
fn every_dtype_computes() {
    for t in ["f16", "bf16", "f32", "f64", "i64", "i32", "i16", "i8", "u8"] {
        agree(&format!(
            "fn f(x: {t}[5, 33], y: {t}[5, 33]) {{ z: {t}[5, 33] = mul(x, y) w: {t}[5, 33] = add(z, x) return z, w }}"
        ));
    }
    agree("fn f(x: bool[40], y: f32[40]) { z: f32[40] = where(x, y, 0.5) b: bool[40] = lt(z, 0.25) return z, b }");
}

/// Half types are rounded at the end of each line, whether or not the line's result is stored.
#[test]
fn fusion_equals_lines_run_alone() {
    for t in ["f16", "bf16", "f32"] {
        let whole = parse(&format!(
            "fn f(x: {t}[300]) {{ a: {t}[300] = mul(x, x) b: {t}[300] = add(a, x) c: {t}[300] = exp(b) d: {t}[300] = sub(c, a) return d }}"
        ));
        let x = inputs(&whole);
        let fused = cpu(&whole, 1).run(&x).unwrap();
        let run = |text: &str, inputs: &[Buffer]| cpu(&parse(text), 1).run(inputs).unwrap().remove(0);
        let a = run(&format!("fn f(x: {t}[300]) {{ a: {t}[300] = mul(x, x) return a }}"), &x);
        let b = run(
            &format!("fn f(a: {t}[300], x: {t}[300]) {{ b: {t}[300] = add(a, x) return b }}"),
            &[a.clone(), x[0].clone()],
        );
        let c = run(&format!("fn f(b: {t}[300]) {{ c: {t}[300] = exp(b) return c }}"), &[b]);
        let d = run(&format!("fn f(c: {t}[300], a: {t}[300]) {{ d: {t}[300] = sub(c, a) return d }}"), &[c, a]);
        assert_eq!(fused[0].as_bytes(), d.as_bytes(), "{t}");
    }
}

#[test]
fn softmax_is_one_program_that_walks_its_rows() {
    // lines of several tiles, of whole ones, and with an end that is not a whole chunk
    for (rows, cols) in [(3, 5), (40, 16), (5, 200), (7, 1000), (300, 64), (5, 1024), (3, 1100), (3, 2100), (3, 12_000)]
    {
        let c = agree(&format!(
            "fn softmax(x: f32[{rows}, {cols}]) {{
               m: f32[{rows}, 1] = amax(x, dims = [1], keepdim = true)
               c: f32[{rows}, {cols}] = sub(x, m)
               e: f32[{rows}, {cols}] = exp(c)
               s: f32[{rows}, 1] = sum(e, dims = [1], keepdim = true)
               y: f32[{rows}, {cols}] = div(e, s)
               return y
             }}"
        ));
        assert_eq!(steps(&c), 1, "{}", c.describe());
    }
}

#[test]
fn reductions_over_any_axes() {
    for sizes in [[3, 4, 5], [2, 70, 300], [100, 3, 2], [1, 40, 1]] {
        for chosen in [&[0][..], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]] {
            let left: Vec<usize> = (0..3).filter(|i| !chosen.contains(i)).map(|i| sizes[i]).collect();
            agree(&format!(
                "fn f(x: f32{sizes:?}) {{
                   s: f32{left:?} = sum(x, dims = {chosen:?})
                   m: f32{left:?} = amax(x, dims = {chosen:?})
                   a: f32{left:?} = mean(x, dims = {chosen:?})
                   return s, m, a
                 }}"
            ));
        }
    }
}

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
fn views_cost_nothing_and_copies_copy() {
    let c = agree(
        "fn f(x: f32[4, 6]) {
           t: f32[6, 4] = transpose(x, a = 0, b = 1)
           r: f32[24] = reshape(t, shape = [24])
           y: f32[24] = mul(r, 2.0)
           return y, t
         }",
    );
    assert!(steps(&c) <= 3, "{}", c.describe());
    agree("fn f(x: f32[40, 50]) { t: f32[50, 40] = transpose(x, a = 0, b = 1) y: f32[50, 40] = exp(t) return y }");
    agree(
        "fn f(x: f32[2, 3, 4]) { r: f32[6, 4] = reshape(x, shape = [6, 4]) y: f32[6, 4] = exp(r) z: f32[2, 12] = reshape(y, shape = [2, 12]) return z }",
    );
    agree("fn f(x: f32[6, 4]) { r: f32[8, 3] = reshape(x, shape = [8, 3]) y: f32[8, 3] = mul(r, r) return y, r }");
    agree(
        "fn f(x: f32[6, 4]) { r: f32[3, 4] = slice(x, dim = 0, lo = 1, hi = 6, step = 2) y: f32[3, 4] = mul(r, r) f: f32[6, 4] = flip(x, dims = [1]) return y, r, f }",
    );
    agree("fn f(x: f32[5, 7]) { p: f32[8, 7] = pad(x, lo = [1, 0], hi = [2, 0], value = 3.0) return p }");
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
fn windows_of_convolutions() {
    // (batch, channels, size, kernel, padding, stride, dilation), small ones and ones that are copied in parts
    for (b, c, n, k, p, s, d) in [
        (2, 3, 7, 3, 1, 1, 1),
        (2, 3, 7, 2, 0, 2, 1),
        (1, 1, 5, 5, 4, 1, 1),
        (2, 2, 9, 3, 2, 1, 2),
        (4, 2, 33, 3, 1, 1, 1),
        (16, 2, 33, 3, 1, 2, 1),
        (4, 2, 33, 3, 3, 1, 3),
    ] {
        let o = (n + 2 * p - d * (k - 1) - 1) / s + 1;
        agree(&format!(
            "fn f(x: f32[{b}, {c}, {n}, {n}], w: f32[2, {c}, {k}, {k}]) {{
               y: f32[{b}, 2, {o}, {o}] = conv(x, w, padding = [{p}, {p}], stride = [{s}, {s}], dilation = [{d}, {d}])
               return y
             }}"
        ));
        if s == 1 {
            agree(&format!(
                "fn f(x: f32[{b}, {c}, {n}, {n}], w: f32[2, {c}, {k}, {k}], d: f32[{b}, 2, {o}, {o}]) {{
                   dx: f32[{b}, {c}, {n}, {n}] = conv_dx(d, w, padding = [{p}, {p}], dilation = [{d}, {d}])
                   dw: f32[2, {c}, {k}, {k}] = conv_dw(x, d, padding = [{p}, {p}], dilation = [{d}, {d}])
                   return dx, dw
                 }}"
            ));
        }
        if n > 10 {
            // the oracle tries every pair of positions, which is slow
            continue;
        }
        let o = (n - 1) * s + k - 2 * p;
        agree(&format!(
            "fn f(x: f32[{b}, {c}, {n}, {n}], w: f32[{c}, 3, {k}, {k}]) {{
               y: f32[{b}, 3, {o}, {o}] = conv_transpose(x, w, padding = [{p}, {p}], stride = [{s}, {s}])
               return y
             }}"
        ));
    }
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

#[test]
fn products_read_windows_from_a_padded_copy() {
    // batch, channels and rows; along each axis the sizes, kernels, paddings, strides and dilations
    let cases: [([usize; 3], [&[usize]; 5]); 10] = [
        ([2, 3, 5], [&[40], &[3], &[1], &[1], &[1]]),
        ([1, 2, 9], [&[50], &[4], &[3], &[3], &[2]]),
        ([1, 3, 8], [&[9, 11], &[3, 3], &[1, 1], &[1, 1], &[1, 1]]),
        ([2, 2, 3], [&[9, 12], &[3, 2], &[2, 0], &[1, 2], &[1, 1]]),
        ([1, 2, 17], [&[21, 19], &[5, 3], &[2, 3], &[2, 1], &[1, 3]]),
        ([1, 4, 4], [&[12, 12], &[1, 1], &[0, 0], &[2, 2], &[1, 1]]),
        ([1, 3, 6], [&[16, 16], &[4, 4], &[0, 0], &[4, 4], &[1, 1]]),
        ([1, 1, 2], [&[7, 40], &[1, 3], &[2, 1], &[1, 1], &[1, 1]]),
        ([1, 2, 4], [&[5, 6, 7], &[2, 3, 3], &[1, 1, 1], &[1, 1, 2], &[1, 1, 1]]),
        // more windows than a block has
        ([1, 40, 8], [&[70, 70], &[3, 3], &[1, 1], &[1, 1], &[1, 1]]),
    ];
    for ([b, c, rows], [n, k, p, s, d]) in cases {
        let o: Vec<usize> = (0..n.len()).map(|i| (n[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) / s[i] + 1).collect();
        let list = |x: &[usize]| x.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let (n, k, o, p, s, d) = (list(n), list(k), list(&o), list(p), list(s), (list(d), d));
        let whole = agree(&format!(
            "fn f(x: f32[{b}, {c}, {n}], w: f32[{rows}, {c}, {k}]) {{
               y: f32[{b}, {rows}, {o}] = conv(x, w, padding = [{p}], stride = [{s}], dilation = [{}]) return y
             }}",
            d.0
        ));
        if Level::current() > Level::Baseline {
            assert!(whole.describe().to_string().contains("over windows"), "{}", whole.describe());
        }
        if d.1.iter().all(|d| *d == 1) {
            agree(&format!(
                "fn f(x: f32[{b}, {c}, {n}], w: f32[{c}, {k}]) {{
                   y: f32[{b}, {c}, {o}] = conv_apart(x, w, padding = [{p}], stride = [{s}]) return y
                 }}"
            ));
        }
    }
    // a kernel that is stored transposed
    agree(
        "fn f(x: f32[1, 3, 12, 12], w: f32[3, 5, 3, 3]) {
           t: f32[5, 3, 3, 3] = transpose(w, a = 0, b = 1) y: f32[1, 5, 12, 12] = conv(x, t, padding = [1, 1]) return y
         }",
    );
}

#[test]
fn windows_leave_out_what_is_not_finite() {
    let trace = parse("fn f(x: f32[40], w: f32[3]) { y: f32[42] = convolve(x, w, pad = 2) return y }");
    for (place, bits) in [(0, 0x7fc0_0000_u32), (1, 0x7f80_0000), (2, 0xff80_0000)] {
        let mut inputs = inputs(&trace);
        let mut bytes = inputs[1].as_bytes().to_vec();
        bytes[place * 4..place * 4 + 4].copy_from_slice(&bits.to_le_bytes());
        inputs[1] = Buffer::from_bytes(DType::F32, &[3], &bytes).unwrap();
        for threads in [1, 2] {
            let got = cpu(&trace, threads).run(&inputs).unwrap()[0].to_f64();
            // the term is there if its element of x is
            for (at, y) in got.iter().enumerate() {
                let there = (2..42).contains(&(at + place));
                assert_eq!(!y.is_finite(), there, "{place} {at}: {got:?}");
            }
        }
        // elements that are not finite reach the windows that have them, and no others
        inputs[1] = Buffer::from_numbers(DType::F32, &[3], (0..3).map(|_| cast_f64(1.0, DType::F32))).unwrap();
        let mut bytes = inputs[0].as_bytes().to_vec();
        bytes[80..84].copy_from_slice(&bits.to_le_bytes());
        inputs[0] = Buffer::from_bytes(DType::F32, &[40], &bytes).unwrap();
        let got = cpu(&trace, 1).run(&inputs).unwrap()[0].to_f64();
        assert!(got.iter().enumerate().all(|(at, y)| y.is_finite() != (20..23).contains(&at)), "{got:?}");
    }
}

#[test]
fn what_is_left_out_is_not_multiplied() {
    // a NaN weight meets only elements that its window skips at that end
    for (dtype, bits) in [("f64", 0x7ff8_u64 << 48), ("f32", 0x7fc0_0000), ("bf16", 0x7fc0), ("f16", 0x7e00)] {
        for place in 0..3 {
            let trace = parse(&format!(
                "fn f(x: {dtype}[1, 2, 6], w: {dtype}[2, 2, 3]) {{
                   y: {dtype}[1, 2, 8] = conv_transpose(x, w, padding = [0]) return y
                 }}"
            ));
            let mut inputs = inputs(&trace);
            let mut bytes = inputs[1].as_bytes().to_vec();
            let size = inputs[1].dtype().size();
            bytes[place * size..(place + 1) * size].copy_from_slice(&bits.to_le_bytes()[..size]);
            inputs[1] = Buffer::from_bytes(inputs[1].dtype(), &[2, 2, 3], &bytes).unwrap();
            let got = cpu(&trace, 1).run(&inputs).unwrap()[0].to_f64();
            // output channel 0 at elements place..place + 6 adds that weight
            for (at, y) in got.iter().enumerate() {
                assert_eq!(y.is_nan(), (place..place + 6).contains(&at), "{dtype} {place} {at}: {got:?}");
            }
        }
    }
}

#[test]
fn windows_of_pools() {
    for dtype in ["f32", "f64", "i32", "bf16"] {
        for (h, w, k, p) in [(6, 8, 2, 0), (7, 9, 3, 1), (20, 33, 4, 2), (9, 9, 5, 0)] {
            let (oh, ow) = ((h + 2 * p - k) / 2 + 1, (w + 2 * p - k) / 2 + 1);
            let out = format!("{dtype}[3, {oh}, {ow}]");
            agree(&format!(
                "fn f(x: {dtype}[3, {h}, {w}]) {{
                   (a: {out}, b: {out}, c: {out}, d: i64[3, {oh}, {ow}], e: i64[3, {oh}, {ow}]) = \
                   pools(x, kernel = [{k}, {k}], padding = [{p}, {p}])
                   return a, b, c, d, e
                 }}"
            ));
        }
    }
}

#[test]
fn indices_gather_and_scatter() {
    agree("fn f(w: f32[5, 40], i: i64[3, 2]) { y: f32[3, 2, 40] = embedding(w, i) return y }");
    agree("fn f(x: f32[6, 4], i: i64[6, 3]) { y: f32[6, 3] = gather(x, i, dim = 1) return y }");
    agree("fn f(x: f32[6, 4], i: i64[6, 3], s: f32[6, 3]) { y: f32[6, 4] = scatter_add(x, i, s, dim = 1) return y }");
    agree("fn f(g: f32[3, 2, 40], i: i64[3, 2]) { y: f32[5, 40] = embedding_grad(g, i, rows = 5) return y }");
    agree("fn f(g: f32[3, 2], i: i64[3]) { y: f32[3, 2] = embedding_grad(g, i, rows = 3) return y }");
    // only the type of `w` is passed
    agree(
        "fn f(w: f32[3, 2], g: f32[3, 2], i: i64[3]) {
           y: f32[3, 2] = embedding.vjp.weight(w, i, g)
           return y
         }",
    );
    // the scatter reads the result of a sum
    agree(
        "fn f(g: f32[3, 2, 40], i: i64[2]) {
           s: f32[2, 40] = sum(g, dims = [0])
           y: f32[5, 40] = embedding_grad(s, i, rows = 5)
           return y
         }",
    );
    agree("fn f(x: f32[4, 9]) { y: f32[4, 9] = cumsum(x, dim = 1) z: f32[4, 9] = cumsum(x, dim = 0) return y, z }");
    agree("fn f(x: f32[4, 9]) { y: i64[4] = argmax(x, dim = [1]) z: i64[9] = argmax(x, dim = [0]) return y, z }");
    agree("fn f(x: f32[4, 9]) { y: i64[4, 9] = argsort(x, dim = 1) return y }");
}

/// The initial content of a scatter is in memory before its walk, even if the program computes it: here a product
/// starts from ones, and the loops over as many places as elements could be those of the ones.
#[test]
fn scatters_start_from_what_is_written() {
    for t in ["f32", "f64", "f16", "i64"] {
        for (shape, dim) in [("3", 0), ("3, 4", 0), ("3, 3", 1), ("2, 3, 5", 1)] {
            let size = shape.split(", ").nth(dim).unwrap();
            agree(&format!(
                "fn f(x: {t}[{shape}], i: i64[{shape}], s: {t}[{shape}]) {{
                   j: i64[{shape}] = mul(i, 1)
                   p: {t}[{shape}] = segment_prod(s, j, size = {size}, dim = {dim})
                   y: {t}[{shape}] = mul(x, p)
                   return y, p
                 }}"
            ));
        }
    }
}

#[test]
fn threads_scatter_to_places_of_their_own() {
    for dim in [0, 1, 2] {
        let trace = parse(&format!(
            "fn f(x: f32[3, 90, 300], i: i64[3, 90, 300], s: f32[3, 90, 300]) {{
               y: f32[3, 90, 300] = scatter_add(x, i, s, dim = {dim}) return y
             }}"
        ));
        let inputs = inputs(&trace);
        let want = cpu(&trace, 1).run(&inputs).unwrap();
        for threads in [2, 3] {
            let shared = cpu(&trace, threads);
            for _ in 0..5 {
                assert_eq!(shared.run(&inputs).unwrap()[0].as_bytes(), want[0].as_bytes(), "dim {dim}");
            }
        }
    }
}

#[test]
fn random_numbers_are_the_oracles() {
    agree(
        "fn f(k: key) { u: f32[3, 100] = rand(k, shape = [3, 100]) v: f32[3, 100] = rand(k, shape = [3, 100]) return u, v }",
    );
    let trace =
        parse("fn f(k: key) { u: f32[50] = rand(k, shape = [50]) v: f32[50] = rand(k, shape = [50]) return u, v }");
    let outs = cpu(&trace, 1).run(&inputs(&trace)).unwrap();
    assert_eq!(outs[0].as_bytes(), outs[1].as_bytes(), "calls with one key draw the same numbers");
}

#[test]
fn numbers_arrive_when_the_program_runs() {
    agree("fn f(x: f32[30], n: f64) { y: f32[30] = mul(x, n) return y }");
}

#[test]
fn faults_of_elements_are_errors_with_names() {
    let trace = parse("fn f(w: f32[5, 4], rows: i64[2]) { y: f32[2, 4] = embedding(w, rows) return y }");
    let w = Buffer::zeros(DType::F32, &[5, 4]).unwrap();
    let c = cpu(&trace, 1);
    let e = c.run(&[w.clone(), Buffer::from_slice(&[0i64, 5], &[2]).unwrap()]).unwrap_err();
    assert_eq!((e.code, e.message.as_str()), ("E804", "index 5 is out of range for axis 0 of `w`, whose size is 5"));
    assert!(e.line.is_some());
    assert_eq!(c.run(std::slice::from_ref(&w)).unwrap_err().code, "E803");
    assert_eq!(c.run(&[w.clone(), w]).unwrap_err().message, "input 1 is f32[5, 4], the program takes i64[2]");
    let trace = parse("fn f(x: i32[3], y: i32[3]) { z: i32[3] = rem(x, y) return z }");
    let x = Buffer::from_slice(&[7i32, 8, 9], &[3]).unwrap();
    let c = cpu(&trace, 1);
    assert_eq!(
        c.run(&[x.clone(), Buffer::from_slice(&[2i32, 3, 4], &[3]).unwrap()]).unwrap()[0].to_vec::<i32>().unwrap(),
        [1, 2, 1]
    );
    assert_eq!(c.run(&[x.clone(), Buffer::from_slice(&[2i32, 0, 4], &[3]).unwrap()]).unwrap_err().code, "E805");
}

#[test]
fn donated_memory_is_used_again() {
    let trace =
        parse("fn step(p: f32[1000], g: f32[1000]) { s: f32[1000] = mul(g, 0.1) q: f32[1000] = sub(p, s) return q }");
    let c = cpu(&trace, 1);
    let mut given = inputs(&trace);
    let want = c.run(&given).unwrap();
    let at = given[0].as_bytes().as_ptr();
    let got = c.run_donating(&mut given, &[true, false]).unwrap();
    assert_eq!(got[0].as_bytes(), want[0].as_bytes());
    assert_eq!(got[0].as_bytes().as_ptr(), at);
    assert!(given[0].is_empty() && given[1].len() == 1000);
    // a shared input is not overwritten
    let mut given = inputs(&trace);
    let kept = given[0].clone();
    let before = kept.as_bytes().to_vec();
    c.run_donating(&mut given, &[true, false]).unwrap();
    assert_eq!(kept.as_bytes(), before);
}

#[test]
fn memory_is_planned() {
    let chain = |t: &str, n: usize| {
        let lines: String = (0..n).map(|i| format!("y{}: {t}[64, 64] = matmul(y{i}, w)\n", i + 1)).collect();
        format!("fn f(y0: {t}[64, 64], w: {t}[64, 64]) {{ {lines} return y{n} }}")
    };
    // in f64, sums that cancel round further than the comparison allows
    agree(&chain("f64", 3));
    let d = cpu(&parse(&chain("f32", 20)), 1).describe();
    assert_eq!((d.steps.len(), d.outputs), (20, 64 * 64 * 4));
    assert!(d.arena <= 2 * 64 * 64 * 4, "{d}");
}

#[test]
fn a_number_that_all_threads_read_is_not_overwritten() {
    let trace = parse(
        "fn f(s: f32[], x: f32[300, 1000]) {
           t: f32[] = add(s, 1.0)
           y: f32[300, 1000] = mul(x, s)
           return y, t
         }",
    );
    let (one, two) = (cpu(&trace, 1), cpu(&trace, 2));
    let want = one.run(&inputs(&trace)).unwrap();
    for _ in 0..20 {
        let got = two.run_donating(&mut inputs(&trace), &[true, true]).unwrap();
        assert!(got.iter().zip(&want).all(|(g, w)| g.as_bytes() == w.as_bytes()));
    }
}

#[test]
fn outputs_may_be_inputs_and_repeat() {
    let trace =
        parse("fn f(x: f32[2, 3]) { y: f32[2, 3] = exp(x) r: f32[6] = reshape(x, shape = [6]) return x, y, y, r }");
    let x = inputs(&trace);
    let outs = cpu(&trace, 1).run(&x).unwrap();
    assert!(outs[0].shares_data(&x[0]) && outs[3].shares_data(&x[0]) && outs[1].shares_data(&outs[2]));
    assert_eq!(outs[3].shape(), &[6]);
}

/// A user's executor that takes two lines at once.
struct AddMul;

impl Executor for AddMul {
    fn name(&self) -> &'static str {
        "addmul"
    }
    fn claim(&self, lines: &[Line]) -> Option<Claim> {
        let [add, mul, ..] = lines else { return None };
        let fits = add.name() == "add" && mul.name() == "mul" && mul.tensors[0] == add.outs[0];
        fits.then(|| Claim::Kernel {
            lines: 2,
            inputs: vec![add.tensors[0], add.tensors[1], mul.tensors[1]],
            outs: mul.outs.clone(),
            kernel: Arc::new(AddMul),
        })
    }
}

impl Kernel for AddMul {
    fn name(&self) -> String {
        "addmul".into()
    }
    fn run(&self, inputs: &[TensorRef<'_>], outs: &mut [TensorMut<'_>]) -> Result<(), ExecError> {
        let x: Vec<&[f32]> = inputs.iter().filter_map(|t| t.as_slice()).collect();
        let ([a, b, c], Some(y)) = (x.as_slice(), outs[0].as_slice_mut::<f32>()) else {
            return Err(ExecError::new("E807", "`addmul` takes f32"));
        };
        for i in 0..y.len() {
            y[i] = (a[i] + b[i]) * c[i];
        }
        Ok(())
    }
}

#[test]
fn executors_are_asked_in_order() {
    let text = "fn f(a: f32[8], b: f32[8], c: f32[8]) { s: f32[8] = add(a, b) p: f32[8] = mul(s, c) e: f32[8] = exp(p) return e }";
    let trace = parse(text);
    let c = compile_with(&trace, vec![Arc::new(AddMul), Arc::new(cpu::Cpu)], 1).unwrap();
    let d = c.describe();
    assert_eq!(d.steps.iter().map(|s| s.executor).collect::<Vec<_>>(), ["addmul", "cpu"]);
    let x = inputs(&trace);
    assert_eq!(c.run(&x).unwrap()[0].as_bytes(), cpu(&trace, 1).run(&x).unwrap()[0].as_bytes());
    // a claim that hides a value which other lines use is refused
    let trace = parse(&text.replace("return e", "return e, s"));
    assert_eq!(compile_with(&trace, vec![Arc::new(AddMul), Arc::new(cpu::Cpu)], 1).err().map(|e| e.code), Some("E802"));
}

#[test]
fn composites_are_decomposed() {
    let c = agree("fn f(x: f32[4, 9]) { y: f32[4, 9] = softmax(x, dim = 1) return y }");
    assert_eq!(steps(&c), 1, "{}", c.describe());
}

#[test]
fn programs_run_on_many_threads_at_once() {
    let trace = parse(
        "fn f(x: f32[200, 300], w: f32[300, 40]) { y: f32[200, 40] = matmul(x, w) z: f32[200, 40] = exp(y) return z }",
    );
    let c = cpu(&trace, 2);
    let x = inputs(&trace);
    let want = c.run(&x).unwrap();
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..5).for_each(|_| assert_eq!(c.run(&x).unwrap()[0].as_bytes(), want[0].as_bytes())));
        }
    });
}
