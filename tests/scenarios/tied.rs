//! Parameters and buffers of several stages.

use fulgurite::pipeline::{Accumulate, Chain, Cut, Stage, StagedModel, run};
use fulgurite::prelude::*;
use fulgurite::schedule::Generator;

type P = (Tensor, Tensor);

fn x() -> Tensor {
    Tensor::from([[1.0f64, 2.0]])
}

fn params() -> P {
    (Tensor::from([[1.0f64, 0.5], [0.25, 1.0]]), Tensor::from([[0.5f64, -1.0], [2.0, 0.75]]))
}

/// A weight that stages share, read by some of them without a gradient: each has the whole gradient, under every schedule.
#[test]
fn a_shared_weight_read_without_a_gradient() {
    type Read = fn(&Tensor) -> Tensor;
    let reads: [(&str, Read); 4] = [
        ("with", |w| w.square().sum()),
        ("no_grad", |w| no_grad(|| w.square().sum())),
        ("detach", |w| w.detach().square().sum()),
        ("a whole number", |w| w.round().cast(DType::I64).cast(DType::F64).sum()),
    ];
    for (name, first) in reads {
        for (other, third) in reads {
            let f = move |(w, v): P, x: Tensor| {
                let a = named("a", || x.matmul(&w).tanh() * first(&w));
                let b = named("b", || a.matmul(&v) * first(&w));
                named("c", || (b * third(&w)).sum())
            };
            let p = params();
            let whole = jit(move |p: P, x: Tensor| value_and_grad(&p, |p| f(p.clone(), x.clone())));
            let (_, want) = whole.call((p.clone(), x())).unwrap_or_else(|e| panic!("{e}"));
            let model = StagedModel::cut("tied", f, &p, &x(), Cut::At(&["b", "c"])).unwrap_or_else(|e| panic!("{e}"));
            for kind in ["gpipe", "1f1b", "zb1p"] {
                for ranks in [1, 3] {
                    let chunks = 3 / ranks;
                    if chunks > 1 && kind != "gpipe" {
                        continue;
                    }
                    let s = Generator { kind, ranks, micro_batches: 2, chunks };
                    let Ok(s) = s.make() else { continue };
                    let mut feed = |stage: usize, _: usize| Ok(model.feed(stage, &x()));
                    let done = run(model.chain(), &s, |i| model.params(i, &p), Accumulate::Arrival, &mut feed);
                    let done = done.unwrap_or_else(|e| panic!("{name}, {other}, {kind} on {ranks}: {e}"));
                    let grads = model.grads(&done);
                    for (got, want) in grads.iter().zip([&want.0, &want.1]) {
                        let got = got.as_ref().map(|g| g.to_vec::<f64>().expect("a gradient"));
                        let want = want.to_vec::<f64>().expect("a gradient");
                        let got = got.unwrap_or_else(|| vec![0.0; want.len()]);
                        let fits = got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-9 * (1.0 + b.abs()));
                        assert!(fits, "{name}, {other}, {kind} on {ranks}: {got:?}, not {want:?}");
                    }
                    // every stage that has the weight has the same gradient of it
                    let of = |stage: usize| done.iter().find_map(|d| d.grads.get(&stage)).expect("a stage")[0].clone();
                    let all: Vec<_> = (0..3).map(|s| of(s).map(|g| g.to_vec::<f64>().expect("data"))).collect();
                    assert!(all.iter().all(|g| *g == all[0]), "{name}, {other}, {kind}: {all:?}");
                }
            }
        }
    }
}

/// Gives what it is given, and adds the size of cotangents to a buffer when its backward runs.
fn counted(x: &Tensor, buffer: &Tensor) -> Tensor {
    let buffer = buffer.clone();
    custom_vjp(
        x,
        |x| (x * 1.0, ()),
        move |(), ct: &Tensor| {
            let _ = buffer.add_(ct.abs().sum());
            ct.clone()
        },
    )
}

/// What a buffer holds must not depend on who runs the ranks.
#[test]
fn a_buffer_of_several_stages_is_not_written() {
    let (p, buffer) = (params(), Tensor::from([0.0f64]));
    let cut = |first: bool, second: bool, read: bool| {
        let buffer = buffer.clone();
        let f = move |(w, v): P, x: Tensor| {
            let a = named("a", || x.matmul(&w).tanh());
            let a = if first { named("a2", || counted(&a, &buffer)) } else { a };
            named("b", || {
                let b = a.matmul(&v);
                let b = if second { counted(&b, &buffer) } else { b };
                if read { (b * no_grad(|| &buffer * 1.0)).sum() } else { b.sum() }
            })
        };
        StagedModel::cut("counted", f, &p, &x(), Cut::At(&["b"]))
    };
    assert!(cut(true, false, false).is_ok() && cut(false, true, true).is_ok());
    for (first, second, read) in [(true, true, false), (true, false, true)] {
        let error = cut(first, second, read).expect_err("refused");
        assert!(error.code() == "E756" && error.to_string().contains("is written"), "{error}");
    }
    // stages that are functions of their own
    let stage = |buffer: &Tensor| {
        let buffer = buffer.clone();
        Stage::of("s", move |w: Tensor, x: Tensor| counted(&x.matmul(&w), &buffer), &p.0, &x()).expect("a stage")
    };
    assert!(Chain::new(vec![stage(&buffer), stage(&Tensor::from([0.0f64]))]).is_ok());
    let error = Chain::new(vec![stage(&buffer), stage(&buffer)]).expect_err("refused");
    assert!(error.code() == "E756" && error.to_string().contains("is written"), "{error}");
}
