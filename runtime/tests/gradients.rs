//! Derivatives against finite differences, and the scenarios of S0 on what the gradient skips.

#![allow(missing_docs)]

mod common;

use common::eval::{Array, close, run};
use common::{database, files::plain};
use fulgurite_runtime::trace::{SplitSide, Trace};
use fulgurite_runtime::transforms::{Seed, joint, jvp, simplify, split, value_and_grad, vjp::float_inputs};

fn parse(text: &str) -> Trace {
    database();
    Trace::parse(text).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

/// Inputs with values away from kinks, different everywhere.
fn sample(trace: &Trace) -> Vec<Array> {
    let mut k = 0;
    let value = |k: &mut u32| {
        *k += 1;
        0.3 + 0.17 * f64::from(*k % 11) - 0.05 * f64::from(*k % 7) + if k.is_multiple_of(3) { -1.37 } else { 0.21 }
    };
    let inputs = trace.input_proxies().map(|p| match trace.ty(p).as_tensor() {
        Some(t) => {
            let data: Vec<f64> = (0..t.numel()).map(|_| value(&mut k)).collect();
            Array::new(&t.sizes(), &data)
        }
        None => Array::new(&[1], &[7.0]),
    });
    inputs.collect()
}

/// Sum of all float outputs.
fn total(trace: &Trace, inputs: &[Array]) -> f64 {
    let outs = run(trace, inputs);
    let floats = trace.outputs().iter().zip(outs).filter(|(p, _)| trace.arena.is_float(**p));
    floats.map(|(_, a)| a.data.iter().sum::<f64>()).sum()
}

/// Checks `value_and_grad`, its simplified form, the split pair and `jvp` of a program against central differences.
fn check(text: &str) -> Trace {
    let trace = parse(text);
    let wrt = float_inputs(&trace);
    let grad = value_and_grad(&trace, &wrt).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let simple = simplify(&grad, SplitSide::Before).unwrap_or_else(|e| panic!("{grad:?}\n{e}"));
    let inputs = sample(&trace);
    let plain_outs = run(&trace, &inputs);
    let (outs, simple_outs) = (run(&grad, &inputs), run(&simple, &inputs));
    assert_eq!(outs[..plain_outs.len()], plain_outs, "values of\n{grad:?}");
    for (a, b) in outs.iter().zip(&simple_outs) {
        assert!(close(a, b, 1e-12), "simplified:\n{simple:?}\n{a:?}\n{b:?}");
    }
    let tangents = jvp(&trace, &wrt).unwrap_or_else(|e| panic!("{text}\n{e}"));
    let ones: Vec<Seed> = vec![Seed::Input; trace.outputs().len()];
    let split = split(&joint(&trace, &wrt, &ones).unwrap()).unwrap();
    let pair = run_split(&split, &inputs, &trace);
    let position = |p| trace.input_proxies().position(|q| q == p).unwrap();
    let mut directional = 0.0;
    let mut directions = Vec::new();
    for (k, p) in wrt.iter().enumerate() {
        let at = position(*p);
        let analytic = &outs[plain_outs.len() + k];
        assert_eq!(analytic.shape, inputs[at].shape, "{grad:?}");
        if let Some(pair) = &pair[k] {
            assert!(
                close(analytic, pair, 1e-9),
                "split:\n{:?}{:?}\n{analytic:?}\n{pair:?}",
                split.forward,
                split.backward
            );
        } else {
            assert!(analytic.data.iter().all(|x| *x == 0.0));
        }
        let mut direction = inputs[at].clone();
        for i in 0..inputs[at].data.len() {
            let h = 1e-5;
            let moved = |d: f64| {
                let mut inputs = inputs.clone();
                inputs[at].data[i] += d;
                total(&trace, &inputs)
            };
            let numeric = (moved(h) - moved(-h)) / (2.0 * h);
            let x = analytic.data[i];
            assert!((x - numeric).abs() <= 1e-6 * (1.0 + x.abs()), "{grad:?}\ninput {at}, element {i}: {x} {numeric}");
            direction.data[i] = 0.5 + 0.3 * (i as f64) - 0.1 * (k as f64);
            directional += direction.data[i] * x;
        }
        directions.push(direction);
    }
    // <tangent outputs, 1> = <gradient, direction>
    let mut all = inputs.clone();
    all.extend(directions);
    let outs = run(&tangents.trace, &all);
    let sum: f64 = tangents.tangents.iter().flatten().map(|at| outs[*at].data.iter().sum::<f64>()).sum();
    assert!((sum - directional).abs() <= 1e-9 * (1.0 + sum.abs()), "jvp:\n{:?}\n{sum} {directional}", tangents.trace);
    grad
}

/// Forward, then backward with ones.
fn run_split(split: &fulgurite_runtime::transforms::Split, inputs: &[Array], original: &Trace) -> Vec<Option<Array>> {
    let outs = run(&split.forward, inputs);
    let mut back = outs[outs.len() - split.forward.saved..].to_vec();
    for (i, at) in split.cotangents.iter().enumerate() {
        if at.is_some() {
            let ty = original.ty(original.outputs()[i]);
            let sizes = ty.as_tensor().unwrap().sizes();
            back.push(Array::new(&sizes, &vec![1.0; sizes.iter().product()]));
        }
    }
    let grads = run(&split.backward, &back);
    split.grads.iter().map(|at| at.map(|at| grads[at].clone())).collect()
}

#[test]
fn pointwise_rows() {
    check(
        "fn f(x: f64[3], y: f64[2, 1]) {\n a: f64[2, 3] = mul(x, y)\n b: f64[2, 3] = div(a, y)\n c: f64[2, 3] = sub(b, x, alpha=2.0)\n d: f64[2, 3] = add(c, y, alpha=0.5)\n e: f64[2, 3] = sin(d)\n t: f64[2, 3] = tanh(e)\n return t\n}",
    );
    check(
        "fn f(x: f64[3]) {\n a: f64[3] = exp(x)\n b: f64[3] = neg(a)\n c: f64[3] = cos(b)\n d: f64[3] = rsqrt(a)\n e: f64[3] = ln(a)\n s: f64[3] = add(c, d)\n r: f64[3] = mul(s, e)\n return r, a\n}",
    );
    check(
        "fn f(x: f64[3], y: f64[3]) {\n m: f64[3] = maximum(x, y)\n c: bool[3] = gt(x, 0.0)\n w: f64[3] = where(c, m, y)\n v: f64[3] = mul(w, x)\n return v\n}",
    );
}

#[test]
fn a_pointwise_row_without_rule_is_unfolded() {
    check("fn f(x: f64[4]) {\n a: f64[4] = gelu(x)\n b: f64[4] = gelu(a, approximate=tanh)\n return b\n}");
}

#[test]
fn shapes() {
    check(
        "fn f(x: f64[2, 3], w: f64[3, 4]) {\n h: f64[2, 4] = matmul(x, w)\n r: f64[8] = reshape(h, shape=[8])\n p: f64[4, 2] = permute(h, dims=[1, 0])\n s: f64[4] = sum(p, dims=[1])\n e: f64[2, 4] = expand(s, shape=[2, 4])\n q: f64[2, 4] = mul(e, h)\n t: f64[] = sum(q)\n u: f64[2, 1] = sum(q, dims=[1], keepdim=true)\n return r, t, u\n}",
    );
    check(
        "fn f(x: f64[2, 3], y: f64[2, 1]) {\n c: f64[2, 4] = cat([x, y], dim=1)\n d: f64[2, 4] = mul(c, c)\n return d\n}",
    );
}

#[test]
fn composites() {
    check(
        "fn f(x: f64[2, 3]) {\n (v: f64[2], m: f64[2]) = var_mean(x, dims=[1])\n p: f64[2] = mul(v, m)\n return p\n}",
    );
    check(
        "fn f(x: f64[2, 3], y: f64[2, 3]) {\n s: f64[2, 3] = softmax(x, dim=1)\n p: f64[2, 3] = mul(s, y)\n return p\n}",
    );
}

#[test]
fn bodies_that_yield_their_argument() {
    check(
        "fn f(x: f64[2]) {\n (a: f64[2], b: f64[2]) = twice(x)\n c: f64[2] = same(b)\n s: f64[2] = mul(a, c)\n return s, c\n}",
    );
}

#[test]
fn several_results() {
    check("fn f(x: f64[2, 3]) {\n (v: f64[2], i: i64[2]) = max_dim(x, dim=1)\n w: f64[2] = mul(v, v)\n return w, i\n}");
}

#[test]
fn random_rows_draw_the_same_in_the_gradient() {
    check("fn f(x: f64[5], k: key) {\n d: f64[5] = dropout(x, k, p=0.5)\n e: f64[5] = mul(d, d)\n return e\n}");
    check("fn f(x: f64[5], k: key) {\n d: f64[5] = noisy(x, k)\n e: f64[5] = mul(d, d)\n return e\n}");
}

#[test]
fn higher_orders() {
    let cube = "fn f(x: f64[3]) {\n a: f64[3] = mul(x, x)\n b: f64[3] = mul(a, x)\n s: f64[] = sum(b)\n return s\n}";
    let trace = parse(cube);
    let wrt = float_inputs(&trace);
    let first = value_and_grad(&trace, &wrt).unwrap();
    let second = value_and_grad(&first, &wrt).unwrap();
    let x = Array::new(&[3], &[1.0, 2.0, -0.5]);
    let outs = run(&second, &[x]);
    // the value and the gradient both count: 3x² + 6x
    assert!(close(outs.last().unwrap(), &Array::new(&[3], &[9.0, 24.0, -2.25]), 1e-12), "{second:?}");
    // what a gradient gives is an ordinary program: all checks hold for it too
    for text in [
        cube,
        "fn f(x: f64[2, 3]) {\n a: f64[2, 3] = softmax(x, dim=1)\n b: f64[2, 3] = sin(a)\n return b\n}",
        "fn f(x: f64[2, 3], w: f64[3, 2]) {\n a: f64[2, 2] = matmul(x, w)\n b: f64[2, 2] = tanh(a)\n return b\n}",
        "fn f(x: f64[2, 3]) {\n (v: f64[2], m: f64[2]) = var_mean(x, dims=[1])\n return v\n}",
        "fn f(x: f64[3]) {\n a: f64[3] = gelu(x)\n return a\n}",
    ] {
        let trace = parse(text);
        let first = value_and_grad(&trace, &float_inputs(&trace)).unwrap();
        check(&plain(&first));
        let tangents = jvp(&trace, &float_inputs(&trace)).unwrap();
        check(&plain(&tangents.trace));
    }
}
