//! Derivatives against finite differences, and the scenarios of S0 on what the gradient skips.

#![allow(missing_docs)]

mod common;

use common::eval::{Array, close, run};
use common::{database, files::plain};
use fulgurite_runtime::ErrorKind;
use fulgurite_runtime::trace::{Stage, Trace};
use fulgurite_runtime::transforms::{
    Facts, LineRole, Reason, Seed, cse, joint, jvp, simplify, split, value_and_grad, vjp::float_inputs,
};

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
    let simple = simplify(&grad, Stage::Before).unwrap_or_else(|e| panic!("{grad:?}\n{e}"));
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
    check("fn f(x: f64[5], k: key) {\n d: f64[5] = dropout(x, k, p=0.5) site=3\n e: f64[5] = mul(d, d)\n return e\n}");
    check("fn f(x: f64[5], k: key) {\n d: f64[5] = noisy(x, k) site=3\n e: f64[5] = mul(d, d)\n return e\n}");
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

fn grad_of(text: &str, inputs: &[Array]) -> Vec<Array> {
    let trace = parse(text);
    let grad = value_and_grad(&trace, &float_inputs(&trace)).unwrap_or_else(|e| panic!("{text}\n{e}"));
    run(&grad, inputs).split_off(trace.outputs().len())
}

fn one(x: f64) -> Array {
    Array::new(&[1], &[x])
}

/// (residual tensors, lines of the backward) by names.
fn residuals(text: &str, seeds: &[Seed]) -> (Vec<String>, Vec<String>) {
    let trace = parse(text);
    let joint = joint(&trace, &float_inputs(&trace), seeds).unwrap();
    let joint = joint.edit(|t| simplify(t, Stage::Before)).unwrap();
    let s = split(&joint).unwrap();
    let names = s.plan.tensors.iter().map(|p| trace.arena.name(*p).to_string()).collect();
    let ops = s.backward.lines().iter().map(|l| l.symbol.name().to_owned()).collect();
    let saved = &s.forward.outputs()[s.forward.outputs().len() - s.forward.saved..];
    let read: Vec<_> = s.backward.input_proxies().take(saved.len()).collect();
    assert_eq!(saved, read, "R0.6");
    (names, ops)
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[test]
fn s0_1_and_2_one_of_two_results() {
    let x = Array::new(&[2, 2], &[1.0, 3.0, 2.0, 6.0]);
    let mean = "fn f(x: f64[2, 2]) {\n (v: f64[2], m: f64[2]) = var_mean(x, dims=[1])\n return m\n}";
    assert_eq!(grad_of(mean, std::slice::from_ref(&x))[0].data, [0.5; 4]);
    assert_eq!(residuals(mean, &[Seed::Input]).0, [""; 0]);
    let var = "fn f(x: f64[2, 2]) {\n (v: f64[2], m: f64[2]) = var_mean(x, dims=[1])\n return v\n}";
    assert_eq!(grad_of(var, &[x])[0].data, [-2.0, 2.0, -4.0, 4.0]);
}

#[test]
fn s0_3_and_4_integer_results() {
    let text = "fn f(x: f64[2, 2]) {\n (v: f64[2], i: i64[2]) = max_dim(x, dim=1)\n return v, i\n}";
    let trace = parse(text);
    let j = joint(&trace, &float_inputs(&trace), &[Seed::Input, Seed::Input]).unwrap();
    assert_eq!(j.needs_grad, [true, false]);
    assert_eq!(j.cotangents, [Some(1), None]);
    assert_eq!(residuals(text, &[Seed::Input, Seed::Input]).0, ["i"]);
    let trace = parse("fn f(x: f64[2, 2]) {\n i: i64[2] = argmax(x, dim=1)\n return i\n}");
    let facts = Facts::of(&trace, &float_inputs(&trace)).unwrap();
    assert_eq!(facts.why_constant(&trace.lines()[0]), Some(Reason::NoFloatOutput));
    let j = joint(&trace, &float_inputs(&trace), &[Seed::Input]).unwrap();
    assert_eq!((j.grads, j.trace.lines().len()), (vec![None], 1));
    let error = value_and_grad(&trace, &float_inputs(&trace)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::NotDifferentiable { value, ty } if value == "i" && ty == "i64[2]"),
        "{error}"
    );
}

const REGION: &str = "fn f(x: f64[1]) {
  y: f64[1] = sin(x)
  no_grad {
    z: f64[1] = mul(y, 2.0)
  }
  o: f64[1] = mul(y, z)
  return o
}
";

#[test]
fn s0_7_a_no_grad_result_used_later() {
    let g = grad_of(REGION, &[one(0.5)]);
    assert!((g[0].data[0] - 2.0 * 0.5f64.sin() * 0.5f64.cos()).abs() < 1e-12);
    let trace = parse(REGION);
    let facts = Facts::of(&trace, &float_inputs(&trace)).unwrap();
    assert!(matches!(facts.vjp_role(&trace.lines()[1]), LineRole::Constant(Reason::NoGradRegion(_))));
    assert_eq!(sorted(residuals(REGION, &[Seed::Input]).0), ["x", "z"]);
    assert_eq!(residuals(REGION, &[Seed::Input]).1, ["mul", "cos", "mul"]);
}

#[test]
fn s0_8_the_same_expression_with_and_without_gradient() {
    for text in [
        "fn f(x: f64[2]) {\n  y: f64[2] = sin(x)\n  no_grad {\n    z: f64[2] = sin(x)\n  }\n  o: f64[2] = mul(y, z)\n  return o\n}\n",
        "fn f(x: f64[2]) {\n  no_grad {\n    z: f64[2] = sin(x)\n  }\n  y: f64[2] = sin(x)\n  o: f64[2] = mul(y, z)\n  return o\n}\n",
    ] {
        let trace = parse(text);
        let merged = cse(&trace, Stage::Before).unwrap();
        assert_eq!(merged.lines().len(), 3);
        for trace in [&trace, &merged] {
            let grad = value_and_grad(trace, &float_inputs(trace)).unwrap();
            let outs = run(&grad, &[Array::new(&[2], &[1.0, 2.0])]);
            assert!(close(&outs[1], &Array::new(&[2], &[0.454_648_713, -0.378_401_248]), 1e-8));
        }
        let s = split(&joint(&trace, &float_inputs(&trace), &[Seed::Input]).unwrap()).unwrap();
        assert_eq!(cse(&s.forward, Stage::After).unwrap().lines().len(), 2);
    }
}

#[test]
fn s0_10_and_11_regions() {
    let text = "fn f(x: f64[1]) {\n no_grad {\n y: f64[1] = mul(x, 2.0)\n enable_grad {\n z: f64[1] = mul(x, 3.0)\n }\n }\n o: f64[1] = add(y, z)\n return o\n}";
    assert_eq!(grad_of(text, &[one(1.0)])[0].data, [3.0]);
    let text = "fn f(x: f64[1]) {\n no_grad {\n z: f64[1] = mul(x, 2.0)\n }\n w: f64[1] = mul(x, 3.0)\n return z, w\n}";
    let trace = parse(text);
    let j = joint(&trace, &float_inputs(&trace), &[Seed::Ones, Seed::Zero]).unwrap();
    assert_eq!(j.needs_grad, [false, true]);
    assert_eq!((j.grads, j.trace.lines().len()), (vec![None], 2));
    assert_eq!(grad_of(text, &[one(1.0)])[0].data, [3.0]);
}

#[test]
fn s0_12_one_result_detached() {
    let text = "fn f(x: f64[1, 2]) {\n (v: f64[1], m: f64[1]) = var_mean(x, dims=[1])\n d: f64[1] = detach(v)\n o: f64[1] = mul(d, m)\n return o\n}";
    assert_eq!(grad_of(text, &[Array::new(&[1, 2], &[1.0, 3.0])])[0].data, [1.0, 1.0]);
    let trace = parse(text);
    let facts = Facts::of(&trace, &float_inputs(&trace)).unwrap();
    let role = facts.vjp_role(&trace.lines()[0]);
    assert!(matches!(&role, LineRole::Active { out_mask, .. } if *out_mask == [false, true]), "{role:?}");
    assert_eq!(facts.why_constant(&trace.lines()[1]), Some(Reason::StopGradient));
    // `d` stands for `v` here: `detach` is a line of its own
    assert_eq!(residuals(text, &[Seed::Input]).0, ["d"]);
}

#[test]
fn s0_13_zero_by_derivation() {
    let text = "fn f(x: f64[1]) {\n a: f64[1] = floor(x)\n o: f64[1] = mul(a, x)\n return o\n}";
    assert_eq!(grad_of(text, &[one(2.5)])[0].data, [2.0]);
    let trace = parse("fn f(x: f64[1]) {\n a: f64[1] = floor(x)\n return a\n}");
    let facts = Facts::of(&trace, &float_inputs(&trace)).unwrap();
    assert_eq!(facts.why_constant(&trace.lines()[0]), Some(Reason::AllPairsZero));
    assert_eq!(grad_of("fn f(x: f64[1]) {\n a: f64[1] = floor(x)\n return a\n}", &[one(2.5)])[0].data, [0.0]);
}

#[test]
fn s0_14_missing_rule() {
    let trace = parse("fn f(x: f64[1]) {\n a: f64[1] = opq(x)          // user.rs:7\n return a\n}");
    let error = value_and_grad(&trace, &float_inputs(&trace)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoGradRule { op, input } if *op == "opq" && *input == "x"), "{error}");
    assert_eq!((error.code(), error.loc().line), ("E711", 7));
    let text = "fn f(x: f64[1]) {\n d: f64[1] = detach(x)\n a: f64[1] = opq(d)\n o: f64[1] = mul(a, x)\n return o\n}";
    let trace = parse(text);
    value_and_grad(&trace, &float_inputs(&trace)).unwrap();
    let trace = parse("fn f(x: f64[1]) {\n a: f64[1] = opq(x)\n b: f64[1] = mul(x, 2.0)\n return a, b\n}");
    let j = joint(&trace, &float_inputs(&trace), &[Seed::Zero, Seed::Ones]).unwrap();
    assert_eq!(j.grads, [Some(2)]);
}

#[test]
fn s0_16_integers_and_numbers() {
    let trace = parse("fn f(x: f64[2], i: i64[2], s: f64) {\n a: f64[2] = mul(x, s)\n return a\n}");
    let inputs: Vec<_> = trace.input_proxies().collect();
    let error = joint(&trace, &[inputs[1]], &[Seed::Ones]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NotDifferentiable { value, ty } if value == "i" && ty == "i64[2]"));
    let error = joint(&trace, &[inputs[2]], &[Seed::Ones]).unwrap_err();
    assert!(error.to_string().contains("rank 0"), "{error}");
    let s = split(&joint(&trace, &[inputs[0]], &[Seed::Input]).unwrap()).unwrap();
    assert_eq!((s.plan.tensors.len(), s.plan.numbers.as_slice()), (0, &inputs[2..]));
}

#[test]
fn s0_17_to_19_zeros() {
    let text = "fn f(x: f64[2], y: f64[3]) {\n a: f64[2] = mul(x, 2.0)\n return a\n}";
    let g = grad_of(text, &[Array::new(&[2], &[1.0, 2.0]), Array::new(&[3], &[1.0; 3])]);
    assert_eq!((g[0].data.as_slice(), g[1].data.as_slice()), (&[2.0; 2][..], &[0.0; 3][..]));
    let trace = parse(text);
    assert_eq!(joint(&trace, &float_inputs(&trace), &[Seed::Input]).unwrap().grads, [Some(1), None]);
    // inputs and repeats as outputs
    let trace = parse("fn f(x: f64[1], y: f64[1]) {\n a: f64[1] = mul(x, y)\n return x, a, x\n}");
    let j = joint(&trace, &float_inputs(&trace), &[Seed::Input; 3]).unwrap();
    let outs = run(&j.trace, &[one(2.0), one(3.0), one(1.0), one(10.0), one(100.0)]);
    assert_eq!((outs[3].data[0], outs[4].data[0]), (131.0, 20.0));
    assert_eq!(split(&j).unwrap().forward.lines().len(), 1);
    // a symbolic zero prunes
    let text = "fn f(x: f64[1]) {\n a: f64[1] = sin(x)\n b: f64[1] = exp(x)\n return a, b\n}";
    assert_eq!(residuals(text, &[Seed::Zero, Seed::Input]), (vec!["b".into()], vec!["mul".into()]));
    assert_eq!(sorted(residuals(text, &[Seed::Input; 2]).0), ["b", "x"]);
}

#[test]
fn s0_21_residual_table() {
    for (line, want) in [
        ("add(x, y)", vec![]),
        ("mul(x, 2.0)", vec![]),
        ("sum(x, dims=[0])", vec![]),
        ("reshape(x, shape=[4])", vec![]),
        ("permute(x, dims=[1, 0])", vec![]),
        ("exp(x)", vec!["o"]),
        ("tanh(x)", vec!["o"]),
        ("softmax(x, dim=1)", vec!["o"]),
        ("sin(x)", vec!["x"]),
        ("gelu(x)", vec!["x"]),
        ("gelu(x, approximate=tanh)", vec!["x"]),
        ("mul(x, y)", vec!["x", "y"]),
        ("where(c, x, y)", vec!["c"]),
    ] {
        let shape = match line.split('(').next().unwrap() {
            "sum" => "[2]",
            "reshape" => "[4]",
            _ => "[2, 2]",
        };
        let text =
            format!("fn f(x: f64[2, 2], y: f64[2, 2], c: bool[2, 2]) {{\n o: f64{shape} = {line}\n return o\n}}");
        assert_eq!(sorted(residuals(&text, &[Seed::Input]).0), want, "{line}");
    }
    assert_eq!(
        residuals("fn f(x: f64[4], k: key) {\n o: f64[4] = dropout(x, k)\n return o\n}", &[Seed::Input]).0,
        ["mask"]
    );
}

/// The same program with one result less, by way of its text.
fn without_first_result(trace: &Trace) -> Trace {
    let text = trace.to_string();
    let (lines, results) = text.rsplit_once("return ").unwrap();
    parse(&format!("{lines}return {}", results.split_once(", ").unwrap().1))
}

#[test]
fn s0_22_nested() {
    let text = "fn f(x: f64[1]) {\n d: f64[1] = detach(x)\n h: f64[1] = mul(x, d)\n return h\n}";
    let trace = parse(text);
    let wrt = float_inputs(&trace);
    let first = value_and_grad(&trace, &wrt).unwrap();
    assert_eq!(run(&first, &[one(3.0)])[1].data, [3.0]);
    let gradient_only = without_first_result(&first);
    let wrt = float_inputs(&gradient_only);
    assert_eq!(run(&value_and_grad(&gradient_only, &wrt).unwrap(), &[one(3.0)])[1].data, [0.0]);
    let text = "fn f(x: f64[1]) {\n no_grad {\n s: f64[1] = mul(x, x)\n }\n h: f64[1] = mul(s, x)\n return h\n}";
    let trace = parse(text);
    let wrt = float_inputs(&trace);
    let first = value_and_grad(&trace, &wrt).unwrap();
    let gradient_only = without_first_result(&first);
    let wrt = float_inputs(&gradient_only);
    assert_eq!(run(&gradient_only, &[one(3.0)])[0].data, [9.0]);
    assert_eq!(run(&value_and_grad(&gradient_only, &wrt).unwrap(), &[one(3.0)])[1].data, [0.0]);
}

#[test]
fn s1_6_and_7_tags_and_places_of_backward_lines() {
    use fulgurite_runtime::trace::{Carrier, Policies, Policy, Role, Tag, TagDecl};
    let all = Policies::both([Policy::All; 8]);
    let decl = TagDecl { name: "probe", carrier: Carrier::Line, inherit: true, must_survive: false, policies: all };
    let probe = Tag::declare(decl).unwrap();
    assert_eq!(Tag::declare(decl).unwrap(), probe);
    assert_eq!(Tag::declare(TagDecl { inherit: false, ..decl }).unwrap_err().code(), "E724");
    let trace = parse(
        "fn f(x: f64[2]) {\n s: f64[2] = sin(x) #probe #recompute   // a.rs:1\n r: f64[2] = mul(s, x) #probe  // a.rs:2\n return r\n}",
    );
    let j = joint(&trace, &float_inputs(&trace), &[Seed::Input]).unwrap();
    let (forward, backward) = j.trace.lines().split_at(2);
    assert!(forward.iter().zip(trace.lines()).all(|(a, b)| std::rc::Rc::ptr_eq(a, b)));
    assert!(backward.len() >= 4);
    for line in backward {
        assert!(line.own_tags.contains(Tag::BACKWARD) && line.own_tags.contains(probe), "{:?}", j.trace);
        assert!(!line.own_tags.contains(Tag::RECOMPUTE));
        assert!(line.place.loc.file == "a.rs" && line.place.role != Role::Forward);
    }
    let sums: Vec<_> = backward.iter().filter(|l| l.place.role == Role::Accumulate).collect();
    assert_eq!((sums.len(), sums[0].place.loc.line), (1, 1));
}
