//! Autocast: regions, their nesting, and the dtypes of gradients.

use super::program::*;
use fulgurite::ErrorKind;
use fulgurite::prelude::*;
use fulgurite::trace::{Carrier, Event, Policies, Policy, PrintOptions, SplitSide, Tag, TagDecl};
use fulgurite::transforms::{self, Seed};

fn tag(name: &'static str, carrier: Carrier, policies: Policies) {
    Tag::declare(TagDecl { name, carrier, inherit: false, must_survive: false, policies }).expect("a new kind");
}

#[test]
fn s1_1_autocast_edits_in_place() {
    tag("probe_v", Carrier::Value, Policies::both([Policy::Keep; 8]));
    tag("probe_l", Carrier::Line, Policies::both([Policy::Keep; 8]).after_split(Event::Decompose, Policy::Drop));
    let before = parse(
        "fn f(x: f32[2, 3], w: f32[3, 4]) {
  autocast(bf16) {
    y: f32[2, 4] #probe_v = matmul(x, w) #probe_l  // a.rs:16:5
    r: f32[2, 4] = sin(y)  // a.rs:17:5
  }
  return r
}
",
    );
    let after = transforms::autocast(&before).expect("casts");
    let shown = |t: &fulgurite::Trace| t.print(&PrintOptions { locs: true, ..PrintOptions::plain() });
    assert_eq!(
        shown(&after),
        "fn f(x: f32[2, 3], w: f32[3, 4]) {
  autocast(bf16) {
    x.bf16: bf16[2, 3] = cast(x, dtype=bf16)        // a.rs:16:5
    w.bf16: bf16[3, 4] = cast(w, dtype=bf16)        // …:16:5
    y: bf16[2, 4] #probe_v = matmul(x.bf16, w.bf16) #probe_l  // …:16:5
    r: bf16[2, 4] = sin(y)                          // …:17:5
  }
  return r
}
"
    );
    assert_eq!(before.lines()[0].outs, after.lines()[2].outs, "the same value");
    assert_eq!(before.ty(before.lines()[0].outs[0]).to_string(), "f32[2, 4]", "the trace before is as it was");
}

fn weights() -> (Tensor, Tensor) {
    (Tensor::from_vec(vec![0.5f32; 12], (3, 4)), Tensor::from_vec(vec![0.25f32; 16], (4, 4)))
}

#[test]
fn s1_10_autocast_off_inside() {
    let run = jit(|x: Tensor, w: Tensor| {
        let (out, g) = vjp(
            &(x, w),
            &(
                Tensor::from([[1.0f32; 4]; 3]).cast(DType::BF16),
                Tensor::from([[1.0f32; 4]; 3]),
                Tensor::from([[1.0f32; 4]; 3]).cast(DType::BF16),
            ),
            |(x, w)| {
                autocast(DType::BF16, || {
                    let a = x.matmul(w);
                    let b = autocast(None, || x.matmul(w));
                    (a, b, x.linear(w, None))
                })
            },
        )?;
        Ok::<_, fulgurite::Error>((out, g))
    })
    .keep_traces();
    let ((a, b, c), (gx, gw)) = run.call(weights()).expect("runs");
    assert_eq!([a, b, c].map(|t| t.dtype()), [DType::BF16, DType::F32, DType::BF16]);
    assert_eq!([gx, gw].map(|t| t.dtype()), [DType::F32; 2]);
    let joint = parse(&run.trace("joint").expect("kept"));
    let casts =
        joint.lines().iter().filter(|l| l.symbol.name() == "cast" && l.place.role == fulgurite::trace::Role::Forward);
    assert_eq!(casts.count(), 2, "{joint}");
}

#[test]
fn s1_11_inner_dtype_and_exit() {
    fn inner(x: &Tensor, w: &Tensor) -> Tensor {
        x.matmul(w)
    }
    let forward = |x: &Tensor, w: &Tensor| {
        let (a, b) = autocast(DType::BF16, || (autocast(DType::F16, || inner(x, w)), inner(x, w)));
        (a, b, inner(x, w))
    };
    let dtypes = |(a, b, c): (Tensor, Tensor, Tensor)| [a, b, c].map(|t| t.dtype());
    let want = [DType::F16, DType::BF16, DType::F32];
    assert_eq!(dtypes(jit(move |x: Tensor, w: Tensor| forward(&x, &w)).call(weights()).expect("runs")), want);
    let sums = jit(move |x: Tensor, w: Tensor| {
        let mut seen = Vec::new();
        let g = grad(&(x, w), |(x, w)| {
            let (a, b, c) = forward(x, w);
            // known while tracing
            seen.extend([a.dtype(), b.dtype(), c.dtype()]);
            a.cast(DType::F32).sum() + b.cast(DType::F32).sum() + c.sum()
        });
        assert_eq!(seen, want);
        g
    });
    let (gx, gw) = sums.call(weights()).expect("runs");
    assert_eq!((gx.to_f64().expect("data")[0], gw.to_f64().expect("data")[0]), (3.0, 4.5));
}

#[test]
fn s1_12_autocast_comes_before_grad() {
    let text = "fn f(x: f32[2, 3], w: f32[3, 4]) {\n autocast(bf16) {\n y: f32[2, 4] = matmul(x, w)\n }\n return y\n}";
    let trace = parse(text);
    let wrt = transforms::vjp::float_inputs(&trace);
    let joint = transforms::joint(&trace, &wrt, &[Seed::Input]).expect("differentiates");
    let error = transforms::autocast(&joint.trace).expect_err("too late");
    assert_eq!(error.kind(), &ErrorKind::TransformOrder { transform: "autocast", after: "grad" }, "{error}");
    let cast = transforms::autocast(&parse(text)).expect("casts");
    let joint = transforms::joint(&cast, &wrt, &[Seed::Input]).expect("differentiates");
    let joint = joint.edit(|t| transforms::simplify(t, SplitSide::Before)).expect("simplifies");
    let dtype = |name: &str| {
        let p = joint.trace.lines().iter().flat_map(|l| &l.outs).find(|p| &*joint.trace.arena.name(**p) == name);
        joint.trace.ty(*p.expect(name)).as_tensor().expect("a tensor").dtype
    };
    assert_eq!([dtype("ct.x.bf16"), dtype("ct.x")], [DType::BF16, DType::F32]);
}

/// Classes follow from meanings.
#[test]
fn s1_11_classes_are_derived() {
    let class = |op: &str| {
        fulgurite::symbol::find(fulgurite::core::Name::new(op)).unwrap_or_else(|| panic!("{op}")).autocast().word()
    };
    let _ = parse("fn f(x: f32[2]) {\n return x\n}");
    for op in ["matmul", "linear", "conv", "sdpa", "einsum"] {
        assert_eq!(class(op), "lower", "{op}");
    }
    for op in ["softmax", "layer_norm", "exp", "ln", "sum", "cross_entropy", "mse_loss", "cosine_similarity"] {
        assert_eq!(class(op), "fp32", "{op}");
    }
    for op in ["add", "mul", "where", "cat"] {
        assert_eq!(class(op), "promote", "{op}");
    }
    for op in ["relu", "gelu", "tanh", "transpose", "reshape"] {
        assert_eq!(class(op), "none", "{op}");
    }
}

/// What comes out of one product in bf16 goes into the next with a weight in f32.
#[test]
fn s1_12_what_is_lower_already_meets_what_is_not() {
    let (x, w) = (ops::full([3, 4], 0.5), ops::full([4, 4], 0.25));
    let f = |x: &Tensor, w: &Tensor| autocast(DType::BF16, || x.linear(w, None).linear(w, Some(&ops::full([4], 1.0))));
    let y = jit(move |x: Tensor, w: Tensor| f(&x, &w)).call((x.clone(), w.clone())).unwrap();
    assert_eq!(y.dtype(), DType::BF16);
    assert_eq!(y.to_f64().unwrap(), [1.5; 12]);
    let g = grad(&w, |w| f(&x, w).cast(DType::F32).sum());
    assert_eq!((g.dtype(), g.to_f64().unwrap()), (DType::F32, vec![3.0; 16]));
}

/// A region means the same at once and traced: around operators, closures that are differentiated or batched, and compiled
/// functions, which are compiled anew for it.
#[test]
fn regions_mean_the_same_at_once() {
    let (x, w) = (ops::randn(Key::new(1), [3usize, 4]), ops::randn(Key::new(2), [4usize, 5]));
    type Run = fn(&Tensor, &Tensor) -> Vec<Tensor>;
    fn product(x: &Tensor, w: &Tensor) -> Tensor {
        x.matmul(w)
    }
    fn loss(x: &Tensor, w: &Tensor) -> Tensor {
        x.matmul(w).exp().sum()
    }
    let runs: [Run; 7] = [
        |x, w| vec![autocast(DType::BF16, || product(x, w))],
        |x, w| autocast(DType::BF16, || vec![product(x, w), autocast(None, || product(x, w)), x.exp()]),
        |x, w| {
            let (l, g) = value_and_grad(x, |x| autocast(DType::BF16, || loss(x, w)));
            vec![l, g]
        },
        |x, w| {
            let (l, g) = autocast(DType::BF16, || value_and_grad(x, |x| loss(x, w)));
            vec![l, g]
        },
        |x, w| vec![autocast(DType::BF16, || vmap(x, |x| x.unsqueeze(0).matmul(w)).unwrap_or_else(Tensor::poisoned))],
        |x, w| {
            let inner = jit(|x: Tensor, w: Tensor| product(&x, &w));
            let call = || inner.call((x.clone(), w.clone())).unwrap_or_else(Tensor::poisoned);
            vec![call(), autocast(DType::BF16, call), autocast(DType::F16, call), call()]
        },
        |x, w| {
            let own =
                |x: &Tensor| custom_vjp(x, |x| (product(x, w), ()), |(), ct: &Tensor| ct.matmul_nt(w).cast(DType::F32));
            let (l, g) = autocast(DType::BF16, || value_and_grad(x, |x| own(x).sum()));
            vec![l, g]
        },
    ];
    let mut seen = Vec::new();
    for (n, run) in runs.into_iter().enumerate() {
        let at_once = run(&x, &w);
        let traced = jit(move |x: Tensor, w: Tensor| run(&x, &w)).call((x.clone(), w.clone()));
        let traced = traced.unwrap_or_else(|e| panic!("{n}: {e}"));
        let all = |list: &[Tensor]| list.iter().map(|t| (t.dtype(), t.to_f64().ok())).collect::<Vec<_>>();
        assert_eq!(all(&at_once), all(&traced), "run {n}");
        assert!(at_once.iter().all(|t| t.check().is_ok()), "run {n}");
        seen.push(all(&at_once));
    }
    let dtypes = |n: usize| seen[n].iter().map(|(dtype, _)| *dtype).collect::<Vec<_>>();
    assert_eq!(dtypes(1), [DType::BF16, DType::F32, DType::F32]);
    assert_eq!(dtypes(5), [DType::F32, DType::BF16, DType::F16, DType::F32]);
    // a closure that is differentiated in a region has it
    assert_eq!(seen[2], seen[3]);
    let (l, _) = value_and_grad(&x, |x| loss(x, &w));
    assert_ne!(seen[3][0].1, l.to_f64().ok());
}
