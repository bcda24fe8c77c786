//! Products that leave out blocks which are unused or zero.

use super::*;
use fulgurite_core::Scalar;

/// An f32 buffer of this shape.
fn floats(shape: &[usize], numbers: impl Iterator<Item = f64>) -> Buffer {
    Buffer::from_numbers(DType::F32, shape, numbers.map(Scalar::Float)).unwrap()
}

/// Runs a program on both executors with these inputs, whole and in blocks of rows, and compares all results; NaN equals
/// NaN. Returns the steps of the whole program and those of the one in blocks.
fn same_both(text: &str, inputs: &[Buffer]) -> [String; 2] {
    let trace = parse(text);
    let oracle = compile_with(&trace, vec![Arc::new(interp::Interp)], 1).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let want = oracle.run(inputs).unwrap_or_else(|e| panic!("{text}\n{e}"));
    [cpu, blocked].map(|compiled| {
        let (one, two) = (compiled(&trace, 1), compiled(&trace, 2));
        let (got, shared) = (one.run(inputs).unwrap(), two.run(inputs).unwrap());
        for (i, (g, w)) in got.iter().zip(&want).enumerate() {
            assert_eq!(g.as_bytes(), shared[i].as_bytes(), "result {i} depends on the threads\n{text}");
            for (k, (x, y)) in g.to_f64().into_iter().zip(w.to_f64()).enumerate() {
                let close = (x - y).abs() <= 2e-4 * (1.0 + y.abs()) || (x.is_nan() && y.is_nan()) || x == y;
                assert!(close, "result {i}, element {k}: {x}, should be {y}\n{text}\n{}", one.describe());
            }
        }
        one.describe().to_string()
    })
}

/// Like [`same_both`]; returns the steps of the whole program.
fn same(text: &str, inputs: &[Buffer]) -> String {
    let [whole, _] = same_both(text, inputs);
    whole
}

/// The part of a step that runs block by block.
const BLOCKS: &str = "blocks of";

/// Masked attention with its gradients, for `l` queries and `s` keys. The cotangent of its result is `d`, or, as in a model
/// with further layers, computed of the result and `d`.
fn attention(l: usize, s: usize, width: usize, further: bool) -> String {
    let (named, cotangent) = match further {
        true => ("e", format!("d: f32[2, {l}, 17] = add(y, e)")),
        false => ("d", String::new()),
    };
    format!(
        "fn f(q: f32[2, {l}, 3], k: f32[2, {s}, 3], v: f32[2, {s}, 17], {named}: f32[2, {l}, 17]) {{
           kt: f32[2, 3, {s}] = transpose(k, a = 1, b = 2)
           a: f32[2, {l}, {s}] = matmul(q, kt)
           m: f32[2, {l}, {s}] = band(a, width = {width}, value = -inf)
           p: f32[2, {l}, {s}] = softmax(m, dim = 2)
           y: f32[2, {l}, 17] = matmul(p, v)
           {cotangent}
           vt: f32[2, 17, {s}] = transpose(v, a = 1, b = 2)
           dp: f32[2, {l}, {s}] = matmul(d, vt)
           pt: f32[2, {s}, {l}] = transpose(p, a = 1, b = 2)
           dv: f32[2, {s}, 17] = matmul(pt, d)
           x: f32[2, {l}, {s}] = mul(dp, p)
           r: f32[2, {l}, 1] = sum(x, dims = [2], keepdim = true)
           c: f32[2, {l}, {s}] = sub(dp, r)
           g: f32[2, {l}, {s}] = mul(p, c)
           da: f32[2, {l}, {s}] = band(g, width = {width}, value = 0)
           dq: f32[2, {l}, 3] = matmul(da, k)
           dt: f32[2, {s}, {l}] = transpose(da, a = 1, b = 2)
           dk: f32[2, {s}, 3] = matmul(dt, q)
           qt: f32[2, 3, {l}] = transpose(q, a = 1, b = 2)
           dkt: f32[2, 3, {s}] = matmul(qt, da)
           return y, dv, dq, dk, dkt
         }}"
    )
}

const LEFT_OUT: &str = "% of its blocks unused";
const ZEROS: &str = "but where its reader has zeros";

#[test]
fn attention_leaves_out_what_its_mask_drops() {
    for (l, s, width) in [(64, 64, 1000), (64, 70, 20), (50, 80, 7), (33, 40, 1000)] {
        let text = attention(l, s, width, false);
        let steps = same(&text, &inputs(&parse(&text)));
        assert_eq!(steps.matches(LEFT_OUT).count(), 2, "{steps}");
        let text = attention(l, s, width, true);
        let steps = same(&text, &inputs(&parse(&text)));
        assert_eq!((steps.matches(LEFT_OUT).count(), steps.matches(ZEROS).count()), (1, 1), "{steps}");
    }
}

/// The scores of attention and their gradients exist as blocks alone: those of the forward are made again for a backward
/// that needs its result.
#[test]
fn attention_runs_in_blocks_of_rows() {
    for (l, s, width) in [(64, 64, 1000), (64, 80, 20), (50, 80, 7), (33, 48, 1000), (41, 43, 9)] {
        for (further, groups) in [(false, 1), (true, 2)] {
            let text = attention(l, s, width, further);
            let [whole, steps] = same_both(&text, &inputs(&parse(&text)));
            assert_eq!((whole.matches(BLOCKS).count(), steps.matches(BLOCKS).count()), (0, groups), "{steps}");
        }
    }
}

/// The memory of attention with its gradients grows as the number of places does, not as its square.
#[test]
fn the_memory_of_attention_in_blocks_is_linear() {
    let peak = |l: usize, further: bool| {
        let trace = parse(&attention(l, l, 10_000, further));
        [cpu, blocked].map(|compiled| compiled(&trace, 1).describe().peak)
    };
    for further in [false, true] {
        let ([whole, few], [_, more]) = (peak(512, further), peak(1024, further));
        let scores = 4 * 2 * 512 * 512;
        assert!(whole >= scores && few < scores / 4 && more < 5 * few / 2, "{whole} {few} {more}");
    }
}

/// Attention of several heads with its gradients. The heads lie side by side in the operands, several may share keys and values,
/// and sizes are multiples of a vector or not.
#[test]
fn attention_of_random_heads_agrees() {
    let mut state = 11u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let mut blocks = 0;
    for _ in 0..60 {
        let (b, h) = (1 + draw(2), 1 + draw(3));
        let (t, s, d) = ([16, 24, 33, 40, 64][draw(5)], [16, 32, 33, 48, 80][draw(5)], [3, 16, 20][draw(3)]);
        let (g, width) = ([1, h][draw(2)], [1000, 30, 9][draw(3)]);
        let heads = |from: &str, to: &str, n: usize, heads: usize| {
            format!(
                "{to}0: f32[{b}, {n}, {heads}, {d}] = reshape({from}, shape = [{b}, {n}, {heads}, {d}])
                 {to}: f32[{b}, {heads}, {n}, {d}] = transpose({to}0, a = 1, b = 2)"
            )
        };
        let (scores, result) = (format!("f32[{b}, {h}, {t}, {s}]"), format!("f32[{b}, {h}, {t}, {d}]"));
        let cotangent = if draw(2) == 0 { "e" } else { "y" };
        let text = format!(
            "fn f(x: f32[{b}, {t}, {hd}], k: f32[{b}, {s}, {gd}], v: f32[{b}, {s}, {gd}], c: f32[{b}, {t}, {hd}]) {{
               {q}
               {k}
               {v}
               {e}
               kt: f32[{b}, {g}, {d}, {s}] = transpose(kh, a = 2, b = 3)
               vt: f32[{b}, {g}, {d}, {s}] = transpose(vh, a = 2, b = 3)
               a: {scores} = matmul(q, kt)
               m: {scores} = band(a, width = {width}, value = -inf)
               p: {scores} = softmax(m, dim = 3)
               y: {result} = matmul(p, vh)
               dy: {result} = add({cotangent}, e)
               dp: {scores} = matmul(dy, vt)
               pt: f32[{b}, {h}, {s}, {t}] = transpose(p, a = 2, b = 3)
               dv: f32[{b}, {h}, {s}, {d}] = matmul(pt, dy)
               w: {scores} = mul(dp, p)
               r: f32[{b}, {h}, {t}, 1] = sum(w, dims = [3], keepdim = true)
               n: {scores} = sub(dp, r)
               ds: {scores} = mul(p, n)
               da: {scores} = band(ds, width = {width}, value = 0)
               dq: {result} = matmul(da, kh)
               dt: f32[{b}, {h}, {s}, {t}] = transpose(da, a = 2, b = 3)
               dk: f32[{b}, {h}, {s}, {d}] = matmul(dt, q)
               yt: f32[{b}, {t}, {h}, {d}] = transpose(y, a = 1, b = 2)
               z: f32[{b}, {t}, {hd}] = reshape(yt, shape = [{b}, {t}, {hd}])
               return z, dv, dq, dk
             }}",
            hd = h * d,
            gd = g * d,
            q = heads("x", "q", t, h),
            k = heads("k", "kh", s, g),
            v = heads("v", "vh", s, g),
            e = heads("c", "e", t, h),
        );
        let [_, steps] = same_both(&text, &inputs(&parse(&text)));
        blocks += steps.matches(BLOCKS).count();
    }
    assert!(blocks > 60, "{blocks} steps run in blocks of rows");
}

/// A sum over blocks is complete after the last one, so what reads it runs later.
#[test]
fn a_sum_over_blocks_is_read_after_the_last_one() {
    let text = "fn f(q: f32[64, 2], k: f32[2, 64], c: f32[64, 16]) {
           a: f32[64, 64] = matmul(q, k)
           t: f32[64, 64] = transpose(a, a = 0, b = 1)
           u: f32[64, 16] = matmul(t, c)
           w: f32[16, 64] = transpose(u, a = 0, b = 1)
           b: f32[64, 64] = matmul(c, w)
           e: f32[64, 64] = mul(a, b)
           y: f32[64, 2] = matmul(e, q)
           return y
         }";
    let [_, steps] = same_both(text, &inputs(&parse(text)));
    assert_eq!(steps.matches(BLOCKS).count(), 2, "{steps}");
}

/// A fusion after a sum over rows reads them again, and no product runs with it: the rows it reads are in memory.
#[test]
fn a_fusion_that_runs_alone_reads_whole_values() {
    let text = "fn f(x: f32[2, 64, 1], k: f32[2, 1, 64]) {
           a: f32[2, 64, 64] = matmul(x, k)
           m: f32[2, 64, 1] = matmul(a, x)
           s: f32[2, 64, 64] = exp(a)
           n: f32[2, 64, 1] = matmul(s, x)
           y: f32[2, 64, 64] = mul(s, m)
           return n, y
         }";
    let [_, steps] = same_both(text, &inputs(&parse(text)));
    assert_eq!(steps.matches(BLOCKS).count(), 1, "{steps}");
}

/// A gradient of weights sums over the rows of all batches. Blocks of another product in the same step have rows of one batch
/// alone, also where the rows of a batch are no whole number of blocks.
#[test]
fn a_sum_over_all_batches_has_blocks_within_each() {
    let text = "fn f(q: f32[3, 33, 3], k: f32[3, 3, 48], v: f32[3, 48, 5], d: f32[99, 5]) {
           a: f32[3, 33, 48] = matmul(q, k)
           y: f32[3, 33, 5] = matmul(a, v)
           b: f32[99, 48] = reshape(a, shape = [99, 48])
           t: f32[48, 99] = transpose(b, a = 0, b = 1)
           w: f32[48, 5] = matmul(t, d)
           return y, w
         }";
    let [_, steps] = same_both(text, &inputs(&parse(text)));
    assert_eq!(steps.matches(BLOCKS).count(), 1, "{steps}");
}

/// A product with one batch of several reads that batch for each of its own, so it can't follow the blocks of all batches.
#[test]
fn a_product_with_one_batch_reads_whole_values() {
    let rest = |reader: &str| {
        format!(
            "fn f(q: f32[2, 64, 3], k: f32[2, 3, 48], v: f32[2, 48, 5]) {{
               a: f32[2, 64, 48] = matmul(q, k)
               {reader}
               y: f32[2, 64, 5] = matmul(s, v)
               return y
             }}"
        )
    };
    for (reader, blocks) in [
        ("s: f32[2, 64, 48] = exp(a)", 1),
        ("s: f32[1, 64, 48] = slice(a, dim = 0, lo = 0, hi = 1, step = 1)", 0),
        ("s: f32[1, 64, 48] = slice(a, dim = 0, lo = 1, hi = 2, step = 1)", 0),
    ] {
        let text = rest(reader);
        let [_, steps] = same_both(&text, &inputs(&parse(&text)));
        assert_eq!(steps.matches(BLOCKS).count(), blocks, "{steps}");
    }
}

/// A NaN or an infinity reaches all elements that it reaches in the whole product, also through blocks of zeros.
#[test]
fn what_is_not_finite_is_not_left_out() {
    for text in [false, true].map(|further| attention(64, 64, 1000, further)) {
        let trace = parse(&text);
        for (input, element) in [(0, 5), (0, 100), (1, 4), (1, 150), (2, 3), (2, 1000), (3, 8), (3, 1050)] {
            for value in [f64::NAN, f64::INFINITY, 3e38, 1e30] {
                let mut inputs = inputs(&trace);
                let mut numbers = inputs[input].to_f64();
                numbers[element] = value;
                inputs[input] = floats(inputs[input].shape(), numbers.into_iter());
                same(&text, &inputs);
            }
        }
    }
}

/// Products of which some reader uses every element, beside one that does not.
#[test]
fn what_one_reader_drops_another_may_use() {
    let product = "a: f32[64, 64] = matmul(q, k)
         m: f32[64, 64] = band(a, width = 1000, value = 0)";
    let alone = "y: f32[64, 64] = exp(m) return y";
    let others = [
        // the product itself, a sum over it that the mask drops afterwards, its transpose under the same mask
        "return a, m",
        "r: f32[64, 1] = sum(a, dims = [1], keepdim = true)
         t: f32[64, 64] = mul(r, m)
         u: f32[64, 64] = band(t, width = 1000, value = 0)
         return u",
        "t: f32[64, 64] = transpose(a, a = 0, b = 1)
         u: f32[64, 64] = band(t, width = 1000, value = 0)
         return m, u",
        // a number that would overflow, and one that is no multiple
        "e: f32[64, 64] = exp(a)
         t: f32[64, 64] = mul(e, m)
         return t",
        "t: f32[64, 64] = matmul(a, k)
         return m, t",
    ];
    for (rest, drops) in [(alone, true)].into_iter().chain(others.map(|o| (o, false))) {
        let text = format!("fn f(q: f32[64, 64], k: f32[64, 64]) {{ {product} {rest} }}");
        let steps = same(&text, &inputs(&parse(&text)));
        assert_eq!(steps.contains(LEFT_OUT), drops, "{text}\n{steps}");
    }
}

/// Random programs of products, masks, softmax, sums and products of elements; every size and mask may be too small to
/// leave anything out.
#[test]
fn random_programs_of_products_and_masks_agree() {
    let mut state = 7u64;
    let mut draw = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut left_out, mut zeros, mut blocks) = (0, 0, 0);
    for _ in 0..250 {
        let (l, s) = ([32, 40, 64, 48][draw(4)], [32, 33, 64, 56][draw(4)]);
        let ty = format!("f32[2, {l}, {s}]");
        let mut lines = format!("v0: {ty} = matmul(q, k) v1: {ty} = matmul(c, b)");
        let count = 3 + draw(6);
        for at in 2..2 + count {
            let (x, y) = (draw(at), draw(at));
            let value = ["0", "-inf", "1"][draw(3)];
            let width = [1000, 20, 9][draw(3)];
            lines += &match draw(8) {
                0 | 1 => format!(" v{at}: {ty} = band(v{x}, width = {width}, value = {value})"),
                2 => format!(" v{at}: {ty} = softmax(v{x}, dim = 2)"),
                3 => format!(" v{at}: {ty} = mul(v{x}, v{y})"),
                4 => format!(
                    " r{at}: f32[2, {l}, 1] = sum(v{x}, dims = [2], keepdim = true) v{at}: {ty} = sub(v{y}, r{at})"
                ),
                5 => format!(" v{at}: {ty} = add(v{x}, v{y})"),
                6 => format!(
                    " t{at}: f32[2, {s}, {l}] = transpose(v{x}, a = 1, b = 2)
                      u{at}: f32[2, {s}, 16] = matmul(t{at}, c)
                      w{at}: f32[2, 16, {s}] = transpose(u{at}, a = 1, b = 2)
                      v{at}: {ty} = matmul(c, w{at})"
                ),
                _ => format!(" w{at}: f32[2, {l}, 16] = matmul(v{x}, w) v{at}: {ty} = matmul(w{at}, b)"),
            };
        }
        let last = 1 + count;
        let text = format!(
            "fn f(q: f32[2, {l}, 2], k: f32[2, 2, {s}], c: f32[2, {l}, 16], b: f32[2, 16, {s}], w: f32[2, {s}, 16]) {{
               {lines}
               s: f32[2, {l}, {s}] = band(v{last}, width = 1000, value = 0)
               z: f32[2, {l}, 16] = matmul(s, w)
               return s, z
             }}"
        );
        // small numbers, so that products of products stay apart from infinity or go beyond it for good
        let inputs: Vec<Buffer> =
            inputs(&parse(&text)).iter().map(|b| floats(b.shape(), b.to_f64().into_iter().map(|x| x / 16.0))).collect();
        let [steps, in_blocks] = same_both(&text, &inputs);
        left_out += steps.matches(LEFT_OUT).count();
        zeros += steps.matches(ZEROS).count();
        blocks += in_blocks.matches(BLOCKS).count();
    }
    assert!(left_out > 30 && zeros > 3, "{left_out} products have unused elements, {zeros} are beside zeros");
    assert!(blocks > 150, "{blocks} steps run in blocks of rows");
}
