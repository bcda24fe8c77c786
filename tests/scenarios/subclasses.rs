//! Tensor subclasses: dispatch while tracing, gradients of the outer operator, unrolling.

use fulgurite::ErrorKind;
use fulgurite::ops::Slice;
use fulgurite::prelude::*;
use fulgurite::subclass::{Call, ClassText};

/// Two tensors of one type that move together.
#[derive(TensorSubclass, Clone)]
#[subclass(default = "each", read = "equal", cotangent = "TwoTensor(g, g)")]
pub struct TwoTensor {
    #[field]
    pub a: Tensor,
    #[field]
    pub b: Tensor,
}

/// The same, but it wants cotangents of its own class.
#[derive(TensorSubclass, Clone)]
#[subclass(default = "each", read = "equal", cotangent = "same")]
struct Strict {
    #[field]
    a: Tensor,
    #[field]
    b: Tensor,
}

/// Sums of such tensors have a wider dtype.
#[derive(TensorSubclass, Clone)]
#[subclass(default = "each", read = "d", cotangent = "Wide(g)", ops(add = "Wide(f(d) as f64)"))]
struct Wide {
    #[field]
    d: Tensor,
}

/// A tensor and a factor; every operator gives a plain tensor.
#[derive(TensorSubclass, Clone)]
#[subclass(plain = "x * s", default = "plain")]
struct Scale {
    #[field]
    x: Tensor,
    #[field("T[]")]
    s: Tensor,
}

pub fn two(a: &[f32], b: &[f32]) -> Tensor {
    TwoTensor { a: Tensor::from(a.to_vec()), b: Tensor::from(b.to_vec()) }.into()
}

/// The numbers of both fields.
pub fn both(t: &Tensor) -> (Vec<f32>, Vec<f32>) {
    let TwoTensor { a, b } = TwoTensor::try_from(t).unwrap();
    (a.to_vec().unwrap(), b.to_vec().unwrap())
}

/// What a program asks of a value is what the class's rule made of it.
#[test]
fn s4_1_a_program_that_branches_on_a_dtype_is_told_the_truth() {
    let f = jit(|x: Tensor, y: Tensor| {
        let z = &x + &y;
        if z.dtype() == DType::F64 { z * 2.0 } else { z * 3.0 }
    });
    let f = f.named("f").keep_traces();
    let wide = || Tensor::from(Wide { d: Tensor::from([1.0f32, 1.0]) });
    let out = f.call((wide(), wide())).unwrap();
    assert_eq!((out.dtype(), out.to_vec::<f64>().unwrap()), (DType::F64, vec![4.0, 4.0]));
    let trace = f.trace("acquired").unwrap();
    assert!(trace.contains("add: Wide[f64[2]]{d: f64[2]} = add("), "{trace}");
    assert!(trace.contains("= mul(add, 2.0)"), "{trace}");
    // the same at once
    assert_eq!((wide() + wide()).dtype(), DType::F64);
}

#[test]
fn s4_2_a_line_on_a_subclass_prints_its_types_and_its_body() {
    let f = jit(|x: Tensor| x + 1.0).named("f").keep_traces();
    let y = f.call(two(&[1.0, 2.0], &[10.0, 20.0])).unwrap();
    assert_eq!(both(&y), (vec![2.0, 3.0], vec![11.0, 21.0]));
    let ty = "TwoTensor[f32[2]]{a: f32[2], b: f32[2]}";
    let want = format!(
        "fn f(x.a: f32[2], x.b: f32[2]) {{\n  \
           x: {ty} = TwoTensor.unflatten(x.a, x.b)\n  \
           add: {ty} = add(x, 1.0)\n    \
             | (x.a.1: f32[2], x.b.1: f32[2]) = TwoTensor.flatten(x)\n    \
             | in.add: f32[2] = add(x.a.1, 1.0)\n    \
             | in.add.1: f32[2] = add(x.b.1, 1.0)\n    \
             | twotensor: {ty} = TwoTensor.unflatten(in.add, in.add.1)\n    \
             | return twotensor\n  \
           (add.a: f32[2], add.b: f32[2]) = TwoTensor.flatten(add)\n  \
           return add.a, add.b\n}}\n"
    );
    let shown = plain(&f.trace("acquired").unwrap());
    assert_eq!(shown, want);
    let unrolled = "fn f(x.a: f32[2], x.b: f32[2]) {\n  add.a: f32[2] = add(x.a, 1.0)\n  \
                    add.b: f32[2] = add(x.b, 1.0)\n  return add.a, add.b\n}\n";
    assert_eq!(plain(&f.trace("unrolled").unwrap()).replace("in.add.1", "add.b").replace("in.add", "add.a"), unrolled);
    // what is printed parses back, classes included
    let parsed = fulgurite::Trace::parse(&f.trace("acquired").unwrap()).unwrap();
    assert_eq!(plain(&parsed.to_string()), want);
    // the same names on every run
    let again = jit(|x: Tensor| x + 1.0).named("f").keep_traces();
    again.call(two(&[1.0, 2.0], &[10.0, 20.0])).unwrap();
    assert_eq!(plain(&again.trace("acquired").unwrap()), want);
}

/// The program alone: no head, no places.
fn plain(trace: &str) -> String {
    let lines = trace.lines().filter(|l| !l.starts_with('#'));
    lines.map(|l| l.split("  //").next().unwrap_or(l).trim_end().to_owned() + "\n").collect()
}

#[test]
fn s4_3_a_class_whose_operators_give_plain_tensors_ends_there() {
    let f = jit(|t: Tensor| (t + 1.0).exp()).named("f").keep_traces();
    let t = Tensor::from(Scale { x: Tensor::from([1.0f32, 2.0]), s: Tensor::scalar(0.5f32) });
    let out = f.call(t).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(out, [1.5f32.exp(), 2f32.exp()]);
    let trace = f.trace("acquired").unwrap();
    assert!(trace.contains("  add: f32[2] = add(x, 1.0)"), "{trace}");
    // exp met a plain tensor: nothing was dispatched
    let exp = trace.lines().skip_while(|l| !l.contains("= exp(add)")).nth(1).unwrap();
    assert!(!exp.contains('|'), "{trace}");
}

/// A program is used again for tensors of the same class only.
#[test]
fn s4_10_a_class_is_part_of_what_a_program_was_compiled_for() {
    let f = jit(|a: Tensor| a + 1.0);
    let strict = Strict { a: Tensor::from([1.0f32]), b: Tensor::from([2.0f32]) };
    f.call(two(&[1.0], &[2.0])).unwrap();
    assert!(f.prologue().unwrap().contains("x.class = TwoTensor"), "{}", f.prologue().unwrap());
    let y = f.call(Tensor::from([1.0f32])).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0]);
    let y = f.call(Tensor::from(strict)).unwrap();
    assert!(Strict::try_from(&y).is_ok() && Subclassed::class(&y).unwrap().name() == "Strict");
    let stats = f.stats();
    assert_eq!((stats.hits, stats.misses.len()), (0, 3));
    let y = f.call(two(&[3.0], &[4.0])).unwrap();
    assert_eq!(both(&y), (vec![4.0], vec![5.0]));
    let stats = f.stats();
    assert_eq!((stats.hits, stats.misses.len()), (1, 3));
    let reasons = stats.misses[2].reasons.join("; ");
    assert!(reasons.contains("`x.class` was TwoTensor, is Strict"), "{reasons}");
}

/// What a class makes of a plain cotangent is decided while tracing.
#[test]
fn s4_12_a_plain_cotangent_becomes_one_of_the_class_or_is_refused() {
    let ones = Tensor::from([1.0f32, 1.0]);
    let (_, g) = vjp(&two(&[1.0, 2.0], &[10.0, 20.0]), &ones, |x| x * 2.0).unwrap();
    assert_eq!(both(&g), (vec![2.0, 2.0], vec![2.0, 2.0]));
    // the gradient of each field in its own
    let (_, g) = vjp(&two(&[1.0, 2.0], &[10.0, 20.0]), &ones, |x| x * x).unwrap();
    assert_eq!(both(&g), (vec![2.0, 4.0], vec![20.0, 40.0]));
    let g = grad(&two(&[1.0, 2.0], &[10.0, 20.0]), |x| (x * x).sum());
    assert_eq!(both(&g), (vec![2.0, 4.0], vec![20.0, 40.0]));
    let strict: Tensor = Strict { a: Tensor::from([1.0f32, 2.0]), b: Tensor::from([3.0f32, 4.0]) }.into();
    let e = vjp(&strict, &ones, |x| x * 2.0).unwrap_err();
    let want = ErrorKind::CotangentClass { class: Some("Strict".into()), cotangent: None };
    assert_eq!((e.code(), e.kind()), ("E716", &want));
    let own: Tensor = Strict { a: Tensor::from([1.0f32, 1.0]), b: Tensor::from([2.0f32, 2.0]) }.into();
    let (_, g) = vjp(&strict, &own, |x| x * 2.0).unwrap();
    let Strict { a, b } = Strict::try_from(&g).unwrap();
    assert_eq!((a.to_vec::<f32>().unwrap(), b.to_vec::<f32>().unwrap()), (vec![2.0, 2.0], vec![4.0, 4.0]));
}

/// Fields that disagree are not read as one.
#[test]
fn s4_13_what_is_read_of_a_subclass_is_what_its_fields_agree_in() {
    assert_eq!(two(&[1.0, 2.0], &[1.0, 2.0]).sum().item::<f32>().unwrap(), 3.0);
    let t = two(&[1.0, 2.0], &[10.0, 20.0]);
    let line = line!() + 1;
    let e = t.sum().item::<f32>().unwrap_err();
    let want = ErrorKind::SubclassAmbiguous { class: "TwoTensor".into(), fields: vec!["a".into(), "b".into()] };
    assert_eq!((e.code(), e.kind(), e.loc().line), ("E733", &want, line));
    let line = line!() + 1;
    let e = t.gt(5.0).any().item::<bool>().unwrap_err();
    assert_eq!((e.code(), e.loc().line), ("E733", line), "{e}");
}

/// An error names a few fields, however many there are.
#[test]
fn s4_28_the_fields_of_a_long_list_are_counted() {
    /// A list of tensors that can't be read as one.
    #[derive(TensorSubclass)]
    #[subclass(default = "each", read = "equal", cotangent = "same")]
    struct Row {
        #[field]
        items: Vec<Tensor>,
    }
    let items: Vec<Tensor> = (0..3000).map(|i| Tensor::from([i as f32])).collect();
    let e = Tensor::from(Row { items }).to_vec::<f32>().unwrap_err();
    let said = e.to_string();
    assert_eq!(e.code(), "E733");
    assert!(said.contains("`items.4`, and 2995 more") && !said.contains("items.5"), "{said}");
}

/// A write runs once, and never puts a tensor of a class where a plain one lives.
#[test]
fn s4_14_writes_go_to_the_fields() {
    let p = Tensor::from([0.0f32, 0.0]);
    let t = two(&[7.0, 3.0], &[16.0, 21.0]);
    let e = p.add_(&t).check().unwrap_err();
    let want = ErrorKind::SubclassWrite { to: None, from: Some("TwoTensor".into()) };
    assert_eq!((e.code(), e.kind()), ("E729", &want), "{e}");
    assert_eq!(p.to_vec::<f32>().unwrap(), [0.0, 0.0]);
    t.add_(1.0).check().unwrap();
    assert_eq!(both(&t), (vec![8.0, 4.0], vec![17.0, 22.0]));
    // in a program, through a view, of an argument and of what is captured
    let f = jit(|t: Tensor| {
        t.slice_with(Slice { stop: Some(1.into()), ..d() }).add_(5.0);
        t.sum()
    });
    let sum = f.call(t.clone()).unwrap();
    assert_eq!(both(&t), (vec![13.0, 4.0], vec![22.0, 22.0]));
    assert_eq!(both(&sum.reshape([1])), (vec![17.0], vec![44.0]));
    let captured = t.clone();
    jit(move |x: Tensor| captured.add_(&x)).call(Tensor::from([1.0f32, 1.0])).unwrap();
    assert_eq!(both(&t), (vec![14.0, 5.0], vec![23.0, 23.0]));
}

/// A state with tensors of a class is a state like any other.
#[test]
fn s4_14_a_state_of_tensors_of_a_class_is_updated_in_place() {
    let step = jit(|w: Tensor, x: Tensor| {
        let (loss, g) = value_and_grad(&w, |w| (w * &x).sum());
        (w - g * 0.5, loss)
    });
    let mut w = two(&[1.0, 2.0], &[10.0, 20.0]);
    for _ in 0..2 {
        step.update(&mut w, Tensor::from([2.0f32, 4.0])).unwrap();
    }
    assert_eq!(both(&w), (vec![-1.0, -2.0], vec![8.0, 16.0]));
    assert_eq!((step.stats().hits, step.stats().misses.len()), (1, 1));
}

#[test]
fn s4_4_an_operator_without_a_rule_names_class_call_and_rules() {
    /// Knows one operator.
    #[derive(TensorSubclass)]
    #[subclass(ops(neg = "each"))]
    struct Narrow {
        #[field]
        a: Tensor,
    }
    let t = Tensor::from(Narrow { a: Tensor::from([1.0f32]) });
    let line = line!() + 1;
    let e = jit(|t: Tensor| t.exp()).call(t.clone()).unwrap_err();
    let want = ErrorKind::NoDispatch { op: "exp".into(), class: "Narrow".into() };
    assert_eq!((e.code(), e.kind(), e.loc().line), ("E708", &want, line));
    assert!(e.to_string().contains("it has rules for neg"), "{e}");
    assert_eq!((-t).field("a").to_vec::<f32>().unwrap(), [-1.0]);
}

#[test]
fn s4_11_classes_that_meet_without_an_order_are_refused() {
    let strict: Tensor = Strict { a: Tensor::from([1.0f32]), b: Tensor::from([2.0f32]) }.into();
    let e = (two(&[1.0], &[2.0]) + strict).check().unwrap_err();
    let want = ErrorKind::MixedSubclasses { op: "add".into(), classes: vec!["TwoTensor".into(), "Strict".into()] };
    assert_eq!((e.code(), e.kind()), ("E715", &want), "{e}");
}

/// A struct and an entry of a database give the same tables.
#[test]
fn s4_26_the_derive_macro_and_a_row_give_one_class() {
    mod derived {
        use fulgurite::prelude::*;

        /// A tensor of which only the elements under a mask count
        #[derive(TensorSubclass)]
        #[subclass(
            plain = "where(mask, data, 0 as T)",
            ops(
                where_ = "Masked2(f(data), f(mask))",
                "class(pointwise)" = "Masked2(f(data), same(mask))",
                "class(view)" = "Masked2(f(data), f(mask))",
                sum = "Masked2(f(where(mask, data, 0 as T)), any(mask, dims, keepdim = keepdim))"
            ),
            grad(unflatten(data = "where(mask, g.data, 0 as T)")),
            through,
            cotangent = "Masked2(g, mask)",
            rel = "0"
        )]
        pub struct Masked2 {
            #[field]
            pub data: Tensor,
            #[field("bool[..S]")]
            pub mask: Tensor,
        }
    }
    let (data, mask) = (Tensor::from([1.0f32, 2.0]), Tensor::from([true, false]));
    let mine = Tensor::from(derived::Masked2 { data: data.clone(), mask: mask.clone() });
    let (mine, of_row) = (Subclassed::class(&mine).unwrap(), fulgurite::classes::MASKED_TENSOR.rules());
    // names of classes are unique in a program
    let rename = |text: &str| -> &'static str { text.replace("Masked2", "MaskedTensor").leak() };
    let texts = ClassText {
        class: "MaskedTensor",
        ops: mine.text.ops.iter().map(|(t, rule)| (*t, rename(rule))).collect::<Vec<_>>().leak(),
        cotangent: rename(mine.text.cotangent),
        ..mine.text
    };
    let own = fulgurite::core::subclass::Class::parse(&texts).unwrap();
    assert_eq!((own.name, &own.sig, &own.plain), (of_row.name, &of_row.sig, &of_row.plain));
    assert_eq!((&own.cotangent, own.through, own.read), (&of_row.cotangent, of_row.through, of_row.read));
    assert_eq!((&own.grads, &own.default, own.precedence), (&of_row.grads, &of_row.default, of_row.precedence));
    for (target, rule) in own.rules.iter().skip(1) {
        assert!(of_row.rules.iter().any(|(t, r)| t == target && r == rule), "{target:?}");
    }
}

/// All numbers from one to another.
#[derive(TensorSubclass, Clone)]
#[subclass(rule = interval)]
struct Interval {
    #[field]
    low: Tensor,
    #[field]
    high: Tensor,
}

/// Operators on intervals, as a function over tensors.
fn interval(call: &Call<'_>) -> Option<Result<Vec<Tensor>>> {
    let parts = call.tensors().iter().map(Interval::try_from).collect::<Result<Vec<_>>>();
    let parts = match parts {
        Ok(parts) => parts,
        Err(e) => return Some(Err(e)),
    };
    let made = match (call.op(), parts.as_slice()) {
        ("neg", [x]) => Interval { low: -&x.high, high: -&x.low },
        ("add", [x, y]) => Interval { low: &x.low + &y.low, high: &x.high + &y.high },
        ("mul", [x, y]) => {
            let all = [&x.low * &y.low, &x.low * &y.high, &x.high * &y.low, &x.high * &y.high];
            let [a, b, c, d] = &all;
            Interval { low: a.minimum(b).minimum(c.minimum(d)), high: a.maximum(b).maximum(c.maximum(d)) }
        }
        ("reshape", [_]) => {
            let low = call.with(|t| t.field("low"));
            let high = call.with(|t| t.field("high"));
            return Some(low.and_then(|low| Ok(vec![Interval { low: low[0].clone(), high: high?[0].clone() }.into()])));
        }
        ("exp", [_]) => {
            let stranger = Tensor::from([1.0f32, 2.0]);
            Interval { low: stranger.clone(), high: stranger }
        }
        _ => return None,
    };
    Some(Ok(vec![made.into()]))
}

#[test]
fn s4_26_rules_may_be_functions_over_tensors() {
    let of = |low: f32, high: f32| Tensor::from(Interval { low: Tensor::from([low]), high: Tensor::from([high]) });
    let ends = |t: &Tensor| {
        let Interval { low, high } = Interval::try_from(t).unwrap();
        (low.item::<f32>().unwrap(), high.item::<f32>().unwrap())
    };
    let f = jit(|x: Tensor, y: Tensor| -(&x * &y) + x).named("f").keep_traces();
    assert_eq!(ends(&f.call((of(-1.0, 2.0), of(3.0, 4.0))).unwrap()), (-9.0, 6.0));
    let trace = f.trace("acquired").unwrap();
    assert!(trace.contains("    | in.mul: f32[1] = mul(") && trace.contains("= neg(mul)"), "{trace}");
    assert!(!f.trace("unrolled").unwrap().contains("flatten"));
    // the same at once; a view with its options
    assert_eq!(ends(&-(of(1.0, 2.0) + of(3.0, 5.0))), (-7.0, -4.0));
    assert_eq!(of(1.0, 2.0).reshape([1, 1]).field("high").rank(), 2);
    // no rule, and a rule that brings in what is no argument
    assert_eq!(of(1.0, 2.0).sqrt().check().unwrap_err().code(), "E708");
    let e = jit(|x: Tensor| x.exp()).call(of(1.0, 2.0)).unwrap_err();
    assert!(e.code() == "E706" && e.to_string().contains("is no argument of the call"), "{e}");
    // an error of a rule is one of the call
    let line = line!() + 1;
    let e = (of(1.0, 2.0) + Tensor::from([1.0f32])).check().unwrap_err();
    assert_eq!((e.code(), e.loc().line), ("E706", line), "{e}");
}

/// What is generated for classes of databases holds of structs too; a rule that means something else is named.
#[test]
fn s4_27_classes_of_structs_are_held_to_their_operators() {
    /// Its sums are something else.
    #[derive(TensorSubclass)]
    #[subclass(default = "each", read = "a", cotangent = "Askew(g)", ops(add = "Askew(f(a) * 2)"))]
    struct Askew {
        #[field]
        a: Tensor,
    }
    let made = Tensor::from(Askew { a: Tensor::from([1.0f32]) });
    assert_eq!(Subclassed::class(&made).unwrap().name(), "Askew");
    fulgurite_tests::classes::hold("TwoTensor");
    let asked = ["Askew.add::p18_operators", "Askew.mul::p18_operators"];
    let faults: Vec<(String, String)> = fulgurite_tests::classes::laws(&|class| class == "Askew")
        .into_iter()
        .filter(|law| asked.contains(&law.name.as_str()))
        .filter_map(|law| Some((law.name.clone(), law.check().err()?)))
        .collect();
    let names: Vec<&str> = faults.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Askew.add::p18_operators"]);
    assert!(faults[0].1.contains("`Askew` at ") && faults[0].1.contains("subclasses.rs:"), "{}", faults[0].1);
}
