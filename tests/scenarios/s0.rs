//! The lines that the gradient transform may skip.

use super::program::*;
use fulgurite::ErrorKind;
use fulgurite::core::Name;
use fulgurite::core::row::{MeaningKind, RowText};
use fulgurite::prelude::*;
use fulgurite::symbol::{self, Symbol};
use fulgurite::trace::{PrintOptions, SplitSide};
use fulgurite::transforms::{self, Activity, LineRole, Reason, Seed, vjp::float_inputs};
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::pipeline::Table;
use std::collections::BTreeMap;

const VAR_MEAN: &str = "(v: f64[2], m: f64[2]) = var_mean(x, dims=[1])";

fn two_by_two(data: [f64; 4]) -> [Tensor; 1] {
    [of(&data, &[2, 2])]
}

/// What differentiation by all float inputs says of the line that makes `name`.
fn role(text: &str, name: &str) -> LineRole {
    let trace = parse(text);
    Activity::of(&trace, &float_inputs(&trace)).expect("activity").vjp_role(line(&trace, name))
}

/// Dense gradients of the sum of all float outputs.
fn dense(text: &str, inputs: &[Tensor]) -> Vec<Vec<f64>> {
    let trace = parse(text);
    let made = transforms::value_and_grad(&trace, &float_inputs(&trace)).unwrap_or_else(|e| panic!("{text}\n{e}"));
    numbers(&run(&made, inputs).split_off(trace.outputs().len()))
}

#[test]
fn s0_1_second_output_only() {
    let text = format!("fn f(x: f64[2, 2]) {{\n {VAR_MEAN}\n return m\n}}");
    let got = pull(&text, &["x"], &two_by_two([1.0, 3.0, 2.0, 6.0]), &[]);
    assert_eq!((&got.out[0][..], got.grad(0)), (&[2.0, 4.0][..], &[0.5; 4][..]));
    assert_eq!(got.residuals(), [""; 0]);
    let trace = parse(&text);
    let joint = transforms::joint(&trace, &float_inputs(&trace), &[Seed::Input]).expect("differentiates");
    // a composite without a rule of its own becomes its body, which makes both under their names
    for name in ["v", "m"] {
        assert_eq!(line(&joint.trace, name).place.role, fulgurite::trace::Role::Forward);
    }
}

#[test]
fn s0_2_first_output_only() {
    let text = format!("fn f(x: f64[2, 2]) {{\n {VAR_MEAN}\n return v\n}}");
    let got = pull(&text, &["x"], &two_by_two([1.0, 3.0, 2.0, 6.0]), &[]);
    assert_eq!((&got.out[0][..], got.grad(0)), (&[2.0, 8.0][..], &[-2.0, 2.0, -4.0, 4.0][..]));
    // the deviation x - m in place of x and m
    assert_eq!((got.residuals().len(), got.split.plan.bytes), (1, 4 * 8), "{}", got.split.backward);
}

#[test]
fn s0_3_float_and_integer_outputs() {
    let text = "fn f(x: f64[2, 2]) {\n (v: f64[2], i: i64[2]) = max_dim(x, dim=1)\n return v, i\n}";
    let got = pull(text, &["x"], &two_by_two([1.0, 3.0, 6.0, 2.0]), &[Some(of(&[10.0, 20.0], &[2]))]);
    assert_eq!(got.out, [[3.0, 6.0], [1.0, 0.0]]);
    assert_eq!(got.needs_grad, [true, false]);
    assert_eq!(got.split.cotangents.iter().flatten().count(), 1, "one slot");
    assert_eq!(got.grad(0), [0.0, 10.0, 20.0, 0.0]);
    assert_eq!(got.residuals(), ["i"]);
}

#[test]
fn s0_4_only_an_integer_output() {
    let text = "fn f(x: f64[2, 2]) {\n i: i64[2] = argmax(x, dim=1)\n return i\n}";
    assert_eq!(role(text, "i"), LineRole::Constant(Reason::NoFloatOutput));
    let got = pull(text, &["x"], &two_by_two([1.0, 3.0, 6.0, 2.0]), &[]);
    assert_eq!((got.out, got.grads), (vec![vec![1.0, 0.0]], vec![None]));
    assert_eq!((got.split.cotangents, got.split.backward.lines().len()), (vec![None], 0));
    let trace = parse(text);
    let error = transforms::value_and_grad(&trace, &float_inputs(&trace)).expect_err("an integer");
    let kind = ErrorKind::NotDifferentiable { value: "i".into(), ty: "i64[2]".into() };
    assert_eq!(error.kind(), &kind, "{error}");
}

/// Sizes are no values of the program: no line asks for one, and nothing is kept for them.
#[test]
fn s0_5_a_sum_with_a_position_grid() {
    let text = "fn f(a: f32[2, 3, 4]) {\n r: i64[12] = arange(stop=12)\n b: i64[1, 1, 3, 4] = reshape(r, shape=[1, 1, 3, 4])\n u: f32[2, 1, 3, 4] = unsqueeze(a, dim=1)\n o: f32[2, 1, 3, 4] = add(u, b)\n return o\n}";
    let a = Tensor::from_vec(vec![0.5f32; 24], (2, 3, 4));
    let got = pull(text, &["a"], &[a], &[]);
    let want: Vec<f64> = (0..24).map(|i| 0.5 + f64::from(i % 12)).collect();
    assert_eq!((&got.out[0], got.grad(0)), (&want, &[1.0; 24][..]));
    assert_eq!(got.residuals(), [""; 0]);
    assert_eq!(ops(&got.split.forward, fulgurite::trace::Role::Forward), ["arange", "reshape", "unsqueeze", "add"]);
}

#[test]
fn s0_6_broadcasts() {
    let text = "fn f(a: f64[2, 4, 3, 3], b: f64[2, 1, 3, 3]) {\n o: f64[2, 4, 3, 3] = add(a, b)\n return o\n}";
    let inputs = [of(&[1.0; 72], &[2, 4, 3, 3]), of(&[1.0; 18], &[2, 1, 3, 3])];
    let one = pull(text, &["a"], &inputs, &[]);
    assert_eq!((one.residuals(), one.split.plan.numbers.len(), one.split.forward.saved), (vec![], 0, 0));
    let both = pull(text, &["a", "b"], &inputs, &[]);
    assert_eq!(both.grad(1), [4.0; 18]);
    assert_eq!((both.residuals(), both.split.plan.numbers.len()), (vec![], 0));
}

const REGION: &str = "fn f(x: f64[1]) {
  y: f64[1] = sin(x)  // a.rs:3
  no_grad {
    z: f64[1] = mul(y, 2)  // a.rs:4
  }
  o: f64[1] = mul(y, z)  // a.rs:5
  return o
}
";

#[test]
fn s0_7_a_no_grad_result_used_later() {
    assert!(matches!(role(REGION, "z"), LineRole::Constant(Reason::NoGradRegion(_))));
    let got = pull(REGION, &["x"], &[of(&[0.5], &[1])], &[]);
    close(got.grad(0), &[1f64.sin()]);
    assert_eq!(got.residuals(), ["x", "z"]);
    let options = PrintOptions { locs: true, ..PrintOptions::plain() };
    let shown: Vec<String> = got
        .split
        .backward
        .print(&options)
        .lines()
        .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        shown,
        [
            "fn f.backward(z: f64[1], x: f64[1], ct.o: f64[1]) {",
            "ct.y: f64[1] = mul(ct.o, z) #backward // backward of a.rs:5",
            "ct.x: f64[1] = sin.vjp.x(x, ct.y) #backward // backward of …:3",
            "return ct.x",
            "}",
        ]
    );
}

#[test]
fn s0_8_the_same_expression_with_and_without_gradient() {
    let first = "fn f(x: f64[2]) {\n y: f64[2] = sin(x)\n no_grad {\n z: f64[2] = sin(x)\n }\n o: f64[2] = mul(y, z)\n return o\n}";
    let last = "fn f(x: f64[2]) {\n no_grad {\n z: f64[2] = sin(x)\n }\n y: f64[2] = sin(x)\n o: f64[2] = mul(y, z)\n return o\n}";
    let want = [0.454_648_713_412_840_85, -0.378_401_247_653_964_16];
    let x = of(&[1.0, 2.0], &[2]);
    for text in [first, last] {
        let sines = |t: &fulgurite::Trace| t.lines().iter().filter(|l| l.symbol.name() == "sin").count();
        let trace = parse(text);
        let merged = transforms::cse(&trace, SplitSide::Before).expect("merges");
        assert_eq!(sines(&merged), 2);
        for trace in [&trace, &merged] {
            let made = transforms::value_and_grad(trace, &float_inputs(trace)).expect("differentiates");
            close(&numbers(&run(&made, std::slice::from_ref(&x)))[1], &want);
        }
        let split = cut(&trace);
        let forward = transforms::cse(&split.forward, SplitSide::After).expect("merges");
        assert_eq!(sines(&forward), 1);
        let after = transforms::Split { forward, ..split };
        close(&apart(&after, std::slice::from_ref(&x)).1[0].as_ref().expect("live").to_f64().expect("data"), &want);
    }
}

#[test]
fn s0_9_no_grad_over_several_outputs() {
    let text = "fn f(x: f64[1, 2]) {\n no_grad {\n (v: f64[1, 1], m: f64[1, 1]) = var_mean(x, dims=[1], keepdim=true)\n }\n c: f64[1, 2] = sub(x, m)\n p: f64[1, 1] = add(v, 1)\n r: f64[1, 1] = rsqrt(p)\n o: f64[1, 2] = mul(c, r)\n return o\n}";
    close(pull(text, &["x"], &[of(&[1.0, 3.0], &[1, 2])], &[]).grad(0), &[1.0 / 3f64.sqrt(); 2]);
}

#[test]
fn s0_10_enable_grad_inside_no_grad() {
    let text = "fn f(x: f64[1]) {\n no_grad {\n y: f64[1] = mul(x, 2)\n enable_grad {\n z: f64[1] = mul(x, 3)\n }\n }\n o: f64[1] = add(y, z)\n return o\n}";
    assert_eq!(pull(text, &["x"], &[of(&[1.0], &[1])], &[]).grad(0), [3.0]);
}

#[test]
fn s0_11_flags_of_detached_outputs() {
    let text = "fn f(x: f64[1]) {\n no_grad {\n z: f64[1] = mul(x, 2)\n }\n w: f64[1] = mul(x, 3)\n return z, w\n}";
    let one = || Some(of(&[1.0], &[1]));
    let got = pull(text, &["x"], &[of(&[1.0], &[1])], &[Some(of(&[7.0], &[1])), one()]);
    assert_eq!((got.needs_grad.clone(), got.grad(0)), (vec![false, true], &[3.0][..]));
    let got = pull(text, &["x"], &[of(&[1.0], &[1])], &[one(), None]);
    assert_eq!((got.split.backward.lines().len(), got.grads), (0, vec![None]));
}

#[test]
fn s0_12_one_output_detached() {
    let text = "fn f(x: f64[1, 2]) {\n (v: f64[1], m: f64[1]) = var_mean(x, dims=[1])\n d: f64[1] = detach(v)\n o: f64[1] = mul(d, m)\n return o\n}";
    let got = pull(text, &["x"], &[of(&[1.0, 3.0], &[1, 2])], &[]);
    assert_eq!((&got.out[0][..], got.grad(0)), (&[4.0][..], &[1.0, 1.0][..]));
    assert!(matches!(role(text, "m"), LineRole::Active { out_mask, .. } if out_mask == [false, true]));
    assert_eq!(role(text, "d"), LineRole::Constant(Reason::StopGradient));
    assert!(got.residuals() == ["v"] || got.residuals() == ["d"], "{:?}", got.residuals());
}

#[test]
fn s0_13_derivative_zero_by_derivation() {
    for (op, at, want) in [("floor", 2.5, 2.0), ("round", 2.6, 3.0), ("trunc", -2.5, -2.0), ("sign", -2.0, -1.0)] {
        let text = format!("fn f(x: f64[1]) {{\n a: f64[1] = {op}(x)\n o: f64[1] = mul(a, x)\n return o\n}}");
        assert_eq!(pull(&text, &["x"], &[of(&[at], &[1])], &[]).grad(0), [want], "{op}");
        assert_eq!(role(&text, "a"), LineRole::Constant(Reason::AllPairsZero), "{op}");
    }
    let text = "fn f(x: f64[2]) {\n a: f64[2] = floor(x)\n o: f64[] = sum(a)\n return o\n}";
    assert_eq!(dense(text, &[of(&[2.5, 0.1], &[2])]), [[0.0, 0.0]]);
}

/// A primitive without rule and without an executor: opaque to differentiation.
fn opaque() {
    const TEXT: RowText = RowText {
        op: "opq",
        doc: "An opaque symbol.",
        sig: "(x: T[..S]) -> T[..S]",
        promote: "equal",
        dtypes: "all",
        kind: MeaningKind::Host,
        body: "opq",
        file: "s0.rs",
        line: 1,
        ..RowText::BLANK
    };
    static OPAQUE: Symbol = Symbol::new("scenarios", TEXT);
    symbol::register(&OPAQUE);
}

#[test]
fn s0_14_missing_rule() {
    opaque();
    let joint = |text: &str, seeds: &[Seed]| {
        let trace = parse(text);
        transforms::joint(&trace, &float_inputs(&trace), seeds)
    };
    let error = joint("fn f(x: f64[1]) {\n a: f64[1] = opq(x)  // user.rs:7\n return a\n}", &[Seed::Input])
        .expect_err("no rule");
    assert_eq!(error.kind(), &ErrorKind::NoGradRule { op: Name::new("opq"), input: Name::new("x") }, "{error}");
    assert_eq!((error.loc().file, error.loc().line), ("user.rs", 7));
    let constant =
        "fn f(x: f64[1]) {\n d: f64[1] = detach(x)\n a: f64[1] = opq(d)\n o: f64[1] = mul(a, x)\n return o\n}";
    assert_eq!(joint(constant, &[Seed::Input]).expect("the cotangent does not pass it").grads, [Some(1)]);
    let integer = "fn f(x: f64[1], i: i64[1]) {\n a: i64[1] = opq(i)\n o: f64[1] = mul(a, x)\n return o\n}";
    assert!(joint(integer, &[Seed::Input]).is_ok());
    let zero = "fn f(x: f64[1]) {\n a: f64[1] = opq(x)\n b: f64[1] = mul(x, 2)\n return a, b\n}";
    assert!(joint(zero, &[Seed::Zero, Seed::Input]).is_ok());
}

/// The check is the generator's; its wrong database stands in codegen/verbs/tests/err.
#[test]
fn s0_15_declared_against_derived() {
    let rows = |skip: &str| {
        format!(
            "ops:\n- op: times\n  doc: A product\n  sig: '(a: T, b: T) -> T'\n  promote: default\n  dtypes: float\n  expr: a * b\n{skip}  tests:\n    points: [{{a: [2.0], b: [3.0], out: [6.0]}}]\n"
        )
    };
    let report = |skip: &str| {
        let compiled = fulgurite_codegen::pipeline::compile(&rows(skip), "ops.yaml", &Table::default());
        compiled.map(|_| ()).map_err(|r| render::text(&r.diagnostics, &r.sources, Style::default()))
    };
    assert_eq!(report(""), Ok(()));
    let error = report("  skip_vjp: true\n").expect_err("a gradient flows");
    for part in ["E501", "`times`", "ops.yaml:", "`a`", "`b`"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn s0_16_by_an_integer() {
    let trace = parse("fn f(x: f64[2], i: i64[2], s: f64) {\n a: f64[2] = mul(x, s)\n return a\n}");
    let by = |name: &str| transforms::joint(&trace, &[input(&trace, name)], &[Seed::Input]);
    for (name, ty) in [("i", "i64[2]"), ("s", "f64")] {
        let error = by(name).expect_err("no float tensor");
        assert_eq!(error.kind(), &ErrorKind::NotDifferentiable { value: name.into(), ty: ty.into() }, "{error}");
    }
    assert!(by("s").expect_err("a number").to_string().contains("rank 0"));
    let joint = by("x").expect("a float tensor");
    let split = transforms::split(&joint).expect("splits");
    assert_eq!(names(&split.forward, &split.plan.numbers), ["s"]);
}

#[test]
fn s0_17_unused_input() {
    let text = "fn f(x: f64[2], y: f64[3]) {\n a: f64[2] = mul(x, 2)\n return a\n}";
    let inputs = [of(&[1.0, 1.0], &[2]), of(&[1.0; 3], &[3])];
    let got = pull(text, &["x", "y"], &inputs, &[]);
    assert_eq!(got.grads, [Some(vec![2.0, 2.0]), None]);
    let is_y = |p: fulgurite::trace::ProxyId| got.split.backward.arena.name(p).contains('y');
    let mut mentioned = false;
    got.split.backward.lines().iter().for_each(|l| l.for_each_arg(|p| mentioned |= is_y(p)));
    assert!(!mentioned && !got.split.backward.input_proxies().any(is_y), "{}", got.split.backward);
    assert_eq!(dense(text, &inputs), [vec![2.0, 2.0], vec![0.0; 3]]);
}

#[test]
fn s0_18_inputs_and_repeats_as_outputs() {
    let text = "fn f(x: f64[1], y: f64[1]) {\n a: f64[1] = mul(x, y)\n return x, a, x\n}";
    let ct = |v: f64| Some(of(&[v], &[1]));
    let got = pull(text, &["x", "y"], &[of(&[2.0], &[1]), of(&[3.0], &[1])], &[ct(1.0), ct(10.0), ct(100.0)]);
    assert_eq!((got.grad(0), got.grad(1)), (&[131.0][..], &[20.0][..]));
    assert_eq!(got.split.forward.lines().len(), 1);
}

#[test]
fn s0_19_symbolic_zero_prunes() {
    let text = "fn f(x: f64[1]) {\n a: f64[1] = sin(x)\n b: f64[1] = exp(x)\n return a, b\n}";
    let got = pull(text, &["x"], &[of(&[0.5], &[1])], &[None]);
    close(got.grad(0), &[0.5f64.exp()]);
    assert!(!got.backward().contains(&"cos"));
    assert_eq!(got.residuals(), ["b"]);
    assert_eq!(pull(text, &["x"], &[of(&[0.5], &[1])], &[]).residuals(), ["b", "x"]);
}

#[test]
fn s0_20_split_last_part() {
    let text = "fn f(x: f64[4, 6]) {\n (a: f64[4, 2], b: f64[4, 2], c: f64[4, 2]) = split_every(x, size=2, dim=1)\n return c\n}";
    let got = pull(text, &["x"], &[of(&[1.0; 24], &[4, 6])], &[]);
    let want: Vec<f64> = (0..24).map(|i| if i % 6 >= 4 { 1.0 } else { 0.0 }).collect();
    assert_eq!((got.grad(0), got.residuals()), (&want[..], vec![]));
    assert_eq!(got.backward().len(), 1, "{}", got.split.backward);
    assert!(["zeros", "full", "cat"].iter().all(|op| !got.backward().contains(op)), "{:?}", got.backward());
}

/// The largest sets that may be kept; `o` is the result, names behind it other results.
#[test]
fn s0_21_residual_table() {
    let float = "x: f64[4, 4], y: f64[4, 4]";
    let table: &[(&str, &str, &str, &[&[&str]])] = &[
        (float, "o: f64[4, 4] = add(x, y)", "xy", &[&[]]),
        (float, "o: f64[4, 4] = sub(x, y)", "xy", &[&[]]),
        (float, "o: f64[4, 4] = mul(x, 2)", "x", &[&[]]),
        (float, "o: f64[] = sum(x)", "x", &[&[]]),
        (float, "o: f64[] = mean(x)", "x", &[&[]]),
        (float, "o: f64[16] = reshape(x, shape=[16])", "x", &[&[]]),
        (float, "o: f64[4, 4] = transpose(x, dim0=0, dim1=1)", "x", &[&[]]),
        (float, "o: f64[4, 4] = exp(x)", "x", &[&["o"]]),
        (float, "o: f64[4, 4] = sigmoid(x)", "x", &[&["o"]]),
        (float, "o: f64[4, 4] = tanh(x)", "x", &[&["o"]]),
        (float, "o: f64[4, 4] = softmax(x, dim=1)", "x", &[&["o"]]),
        (float, "o: f64[4, 4] = sqrt(x)", "x", &[&["o"]]),
        (float, "o: f64[4, 4] = sin(x)", "x", &[&["x"]]),
        (float, "o: f64[4, 4] = cos(x)", "x", &[&["x"]]),
        (float, "o: f64[4, 4] = gelu(x)", "x", &[&["x"]]),
        (float, "o: f64[4, 4] = gelu(x, approximate=tanh)", "x", &[&["x"]]),
        (float, "o: f64[4, 4] = silu(x)", "x", &[&["x"]]),
        (float, "o: f64[4, 4] = pow(x, 2)", "x", &[&["x"]]),
        (float, "o: f64[4, 4] = relu(x)", "x", &[&["o"]]),
        (float, "o: f64[4, 4] = mul(x, y)", "x", &[&["y"]]),
        (float, "o: f64[4, 4] = linear(x, y)", "y", &[&["x"]]),
        ("x: f64[4, 4], y: f64[4, 4], c: bool[4, 4]", "o: f64[4, 4] = where(c, x, y)", "xy", &[&["c"]]),
        (float, "(o: f64[4], i: i64[4]) = max_dim(x, dim=1)", "x", &[&["i"]]),
        (float, "(o: f64[4], i: i64[4]) = min_dim(x, dim=1)", "x", &[&["i"]]),
        (float, "(o: f64[4, 2], i: i64[4, 2]) = topk(x, k=2)", "x", &[&["i"]]),
        (float, "(o: f64[4, 4], i: i64[4, 4]) = sort(x)", "x", &[&["i"]]),
        ("x: f64[4, 4], i: i64[3]", "o: f64[3, 4] = embedding(x, i)", "x", &[&["i"]]),
        (float, "o: f64[4, 4] = log_softmax(x, dim=1)", "x", &[&["o"]]),
        (
            "x: f64[4, 4], i: i64[4]",
            "o: f64[] = cross_entropy(x, i)",
            "x",
            &[&["i", "x"], &["i", "log_softmax", "sum.1"]],
        ),
        (
            "x: f64[4, 4], w: f64[4], b: f64[4]",
            "o: f64[4, 4] = layer_norm(x, w, b, shape=[4])",
            "xwb",
            &[&["mean", "rstd", "w", "x"]],
        ),
        ("x: f64[4, 4], k: key", "o: f64[4, 4] = dropout(x, k)", "x", &[&["mask"], &["k"]]),
    ];
    for (inputs, line, wrt, allowed) in table {
        let text = format!("fn f({inputs}) {{\n {line}\n return o\n}}");
        let trace = parse(&text);
        let wrt: Vec<_> = wrt.chars().map(|c| input(&trace, &c.to_string())).collect();
        let joint = transforms::joint(&trace, &wrt, &[Seed::Input]).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let joint = joint.edit(|trace| transforms::simplify(trace, SplitSide::Before)).expect("simplifies");
        let split = transforms::split(&joint).expect("splits");
        let kept = names(&split.forward, &split.plan.tensors);
        let within = |set: &&[&str]| kept.iter().all(|name| set.contains(&name.as_str()));
        assert!(allowed.iter().any(within), "{line} keeps {kept:?}\n{}", split.backward);
    }
}

#[test]
fn s0_22_nested() {
    let x = Tensor::from([3.0f64]);
    let cube = grad(&x, |x| grad(x, |x| (x * x * x).sum()).sum());
    assert_eq!(cube.to_f64().expect("data"), [18.0]);
    let h = |x: &Tensor| (x * x.detach()).sum();
    assert_eq!(grad(&x, h).to_f64().expect("data"), [3.0]);
    assert_eq!(grad(&x, |x| grad(x, h).sum()).to_f64().expect("data"), [0.0]);
    let region = |x: &Tensor| (no_grad(|| x * x) * x).sum();
    assert_eq!(grad(&x, region).to_f64().expect("data"), [9.0]);
    assert_eq!(grad(&x, |x| grad(x, region).sum()).to_f64().expect("data"), [0.0]);
}

/// A map of caches is read while another grows: an ordered map, so three compilations print one text.
#[test]
fn s0_23_map_of_caches() {
    let print = || {
        let run = jit(|caches: BTreeMap<String, Tensor>, x: Tensor| {
            let mut next = BTreeMap::new();
            for (layer, cache) in &caches {
                next.insert(layer.clone(), cache + &x);
                next.insert(format!("{layer}.new"), cache * 2);
            }
            next
        })
        .named("step")
        .keep_traces();
        let cache = Tensor::from_vec(vec![1.0f32; 8], (2, 4));
        let caches = BTreeMap::from([("0".to_owned(), cache.clone()), ("1".to_owned(), cache.clone())]);
        let out = run.call((caches, cache)).expect("runs");
        assert_eq!(out.keys().collect::<Vec<_>>(), ["0", "0.new", "1", "1.new"]);
        let text = run.trace("acquired").expect("kept");
        text.split_once('\n').map(|(_, rest)| rest.to_owned()).expect("a head")
    };
    let first = print();
    assert!(print() == first && print() == first, "{first}");
}
