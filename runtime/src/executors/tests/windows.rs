//! Sums and extrema over windows: convolutions and pools.

use super::*;

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

/// Convolutions in which each channel has windows of its own, and their gradients, read planes where they lie.
#[test]
fn windows_of_one_row_are_read_where_they_lie() {
    for (size, kernel, padding, stride, dilation) in [
        ([9, 20], [3, 3], [1, 1], [1, 1], [1, 1]),
        ([12, 7], [5, 3], [2, 1], [2, 1], [1, 1]),
        ([6, 33], [3, 4], [0, 5], [1, 1], [1, 2]),
        ([17, 17], [7, 7], [3, 3], [1, 1], [1, 1]),
        ([5, 40], [1, 9], [0, 4], [1, 1], [1, 1]),
        ([14, 14], [3, 3], [1, 1], [2, 2], [1, 1]),
    ] {
        let settings = format!("padding = {padding:?}, stride = {stride:?}, dilation = {dilation:?}, groups = 4");
        let out: Vec<usize> =
            (0..2).map(|i| (size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1).collect();
        let (x, w) =
            (format!("f32[2, 4, {}, {}]", size[0], size[1]), format!("f32[4, 1, {}, {}]", kernel[0], kernel[1]));
        let d = format!("f32[2, 4, {}, {}]", out[0], out[1]);
        let text = format!(
            "fn f(x: {x}, w: {w}, d: {d}) {{
               y: {d} = conv_grouped(x, w, {settings})
               dx: {x} = conv_grouped.vjp.x(x, w, d, {settings})
               return y, dx
             }}"
        );
        let steps = agree(&text).describe().to_string();
        if Level::current() > Level::Baseline && stride[1] == 1 {
            assert!(steps.contains("over windows where they lie"), "{steps}");
        }
        // A factor that is not finite meets elements outside of the plane only where the row says so.
        let trace = parse(&text);
        let oracle = compile_with(&trace, vec![Arc::new(interp::Interp)], 1).unwrap();
        for value in [f64::NAN, f64::INFINITY] {
            let mut inputs = inputs(&trace);
            let mut numbers = inputs[1].to_f64();
            numbers[1] = value;
            let numbers = numbers.into_iter().map(fulgurite_core::Scalar::Float);
            inputs[1] = Buffer::from_numbers(DType::F32, inputs[1].shape(), numbers).unwrap();
            let (got, want) = (cpu(&trace, 2).run(&inputs).unwrap(), oracle.run(&inputs).unwrap());
            for (g, w) in got.iter().zip(&want) {
                for (x, y) in g.to_f64().into_iter().zip(w.to_f64()) {
                    let close = (x - y).abs() <= 1e-4 * (1.0 + y.abs()) || (x.is_nan() && y.is_nan()) || x == y;
                    assert!(close, "{x}, should be {y}\n{text}");
                }
            }
        }
    }
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

/// An unrolled window of few elements has the bits of a line with the same elements, which are those of sums in f32.
#[test]
fn few_elements_of_a_window_are_added_as_those_of_a_line() {
    let x = &inputs(&parse("fn f(x: f32[300]) { return x }"))[0];
    for width in 1..8 {
        let n = 301 - width;
        let windows =
            agree(&format!("fn f(x: f32[300]) {{ y: f32[{n}] = windows_mean(x, width = {width}) return y }}"));
        let lines = agree(&format!("fn f(x: f32[{n}, {width}]) {{ y: f32[{n}] = mean(x, dims = [1]) return y }}"));
        let apart: Vec<f32> = x.to_f64().windows(width).flatten().map(|x| *x as f32).collect();
        let bytes: Vec<u8> = apart.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let apart = Buffer::from_bytes(DType::F32, &[n, width], &bytes).unwrap();
        let (windows, lines) = (windows.run(std::slice::from_ref(x)).unwrap(), lines.run(&[apart]).unwrap());
        assert_eq!(windows[0].as_bytes(), lines[0].as_bytes(), "{width}");
    }
}
