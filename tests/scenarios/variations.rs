//! Scenarios mixed: writes, views, regions, batches and backwards of one's own in each other. What a program gives does
//! not depend on how it is run, and its derivatives are those of finite differences.

use fulgurite::ops::{Slice, Sum, arange};
use fulgurite::prelude::*;
use fulgurite::transforms::Remat;

type Program = fn(&Tensor, &Tensor) -> Tensor;

fn data(x: &Tensor) -> Vec<f64> {
    x.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

pub(super) fn ramp(n: i64, from: f64) -> Tensor {
    ((arange(n * 4).cast(DType::F64) * 0.37 + from).sin() * 0.6).reshape((n, 4))
}

#[track_caller]
fn near(what: &str, got: &[f64], want: &[f64], by: f64) {
    let fits = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() <= by * (1.0 + b.abs()));
    assert!(fits, "{what}: {got:?}\n for {want:?}");
}

fn sum(x: Vec<f64>, y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// A program of two matrices with four columns, and its derivatives, run in every way.
#[track_caller]
pub(super) fn every_way(name: &str, f: Program) {
    let stats = every_way_at(name, &[3, 5, 2], f);
    assert_eq!(stats.misses.len(), 1, "{name}: {stats}");
}

#[track_caller]
pub(super) fn every_way_at(name: &str, sizes: &[i64], f: Program) -> fulgurite::jit::Stats {
    let say = |what: &str| format!("{name}: {what}");
    let loss = move |x: &Tensor, w: &Tensor| f(x, w).sum();
    let both = move |x: Tensor, w: Tensor| value_and_grad(&(x, w), |(x, w)| loss(x, w));
    let flat = |(l, (gx, gw)): &(Tensor, (Tensor, Tensor))| [data(l), data(gx), data(gw)].concat();
    let symbolic = jit(both).caching(Caching::Symbolic);
    for &n in sizes {
        let (x, w) = (ramp(n, 0.2), ramp(4, 1.3));
        let plain = flat(&both(x.clone(), w.clone()));
        let ways = [
            ("compiled", jit(both).call((x.clone(), w.clone()))),
            ("symbolic", symbolic.call((x.clone(), w.clone()))),
            ("less kept", jit(both).rematerialise(Remat::Share(0.2)).call((x.clone(), w.clone()))),
            ("nothing kept", jit(both).rematerialise(Remat::Bytes(0)).call((x.clone(), w.clone()))),
        ];
        for (what, got) in ways {
            near(&say(what), &flat(&got.unwrap_or_else(|e| panic!("{name}: {what}: {e}"))), &plain, 1e-11);
        }
        let (vx, vw) = (ramp(n, 2.0), ramp(4, 0.7));
        let v = [data(&vx), data(&vw)].concat();
        let at = |e: f64| (&x + &vx * e, &w + &vw * e);
        let value =
            |(x, w): (Tensor, Tensor)| data(&jit(loss_of(f)).call((x, w)).unwrap_or_else(|e| panic!("{name}: {e}")))[0];
        let h = 1e-5;
        let slope = (value(at(h)) - value(at(-h))) / (2.0 * h);
        near(&say("differences"), &[sum(plain[1..].to_vec(), &v)], &[slope], 1e-7);
        let p = (x.clone(), w.clone());
        let tangent = jvp(&p, &(vx.clone(), vw.clone()), |(x, w)| loss(x, w)).unwrap_or_else(|e| panic!("{name}: {e}"));
        near(&say("tangent"), &data(&tangent.1), &[slope], 1e-7);
        let (_, hv) = hvp(&p, &(vx.clone(), vw.clone()), |(x, w)| loss(x, w)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let slopes = |e: f64| {
            flat(&{
                let (x, w) = at(e);
                both(x, w)
            })[1..]
                .to_vec()
        };
        let want: Vec<f64> = slopes(h).iter().zip(slopes(-h)).map(|(a, b)| (a - b) / (2.0 * h)).collect();
        near(&say("second"), &[data(&hv.0), data(&hv.1)].concat(), &want, 1e-6);
    }
    symbolic.stats()
}

fn loss_of(f: Program) -> impl Fn(Tensor, Tensor) -> Tensor {
    move |x, w| f(&x, &w).sum()
}

pub(super) fn rows(x: &Tensor, from: i64, to: i64) -> Tensor {
    x.slice_with(Slice { start: from.into(), stop: Some(to.into()), ..d() })
}

fn cube(x: &Tensor) -> Tensor {
    custom_vjp(x, |x| (x * x * x, x.clone()), |x, ct: &Tensor| x.square() * 3.0 * ct)
}

#[test]
fn s2_16_views_of_views_are_written() {
    every_way("a slice of a transpose", |x, w| {
        let y = x.matmul(w);
        let v = rows(&y.t(), 1, 3);
        let _ = v.mul_(v.sin());
        let _ = rows(&v, 0, 1).add_(2.0);
        y * x
    });
    every_way("a row of a reshape", |x, w| {
        let y = x * 1.0;
        let flat = y.reshape(-1);
        let _ = rows(&flat, 1, 3).copy_(&w.select(0, 1).slice_with(Slice { stop: Some(2.into()), ..d() }));
        let two = y.transpose(0, 1).select(0, 2);
        let _ = two.mul_(&two);
        flat.sin() * y.reshape(-1)
    });
    every_way("overlapping views, read in between", |x, w| {
        let y = x.matmul(w);
        let (a, b) = (rows(&y, 0, 2), y.select(0, 1));
        let before = &a * 1.0;
        let _ = b.mul_(3.0);
        let c = &a * &before;
        let _ = a.add_(&b);
        c.sum() + y.square()
    });
}

#[test]
fn s2_25_writes_inside_of_regions() {
    every_way("in a checkpoint", |x, w| {
        checkpoint(|| {
            let y = x.matmul(w).tanh();
            let z = &y * 2.0;
            let _ = rows(&z, 0, 1).mul_(rows(&y, 1, 2));
            let _ = y.mul_(&z);
            y.exp() * z
        })
    });
    every_way("in a checkpoint, to a value of outside", |x, w| {
        let acc = x * 0.5;
        let y = checkpoint(|| {
            let s = acc.matmul(w).sin();
            let _ = acc.add_(&s);
            acc.cos() * &s
        });
        y * acc
    });
    every_way("in nested checkpoints and a no_grad", |x, w| {
        checkpoint(|| {
            let y = x.matmul(w);
            let z = checkpoint(|| {
                let s = y.sin();
                let _ = s.mul_(&y);
                s.exp()
            });
            let _ = y.add_(&z);
            y.tanh()
        }) + no_grad(|| x.detach().sum()) * 0.0
    });
    every_way("views in a checkpoint of a value of outside", |x, w| {
        let y = x.matmul(w);
        let z = checkpoint(|| {
            let v = y.select(0, 0);
            let _ = v.mul_(v.cos());
            y.sin()
        });
        z * &y
    });
    every_way("a write to what a checkpoint has read", |x, w| {
        let y = x * 1.0;
        let z = checkpoint(|| y.matmul(w).sin());
        let _ = y.mul_(&z);
        &y * z
    });
}

#[test]
fn s2_14_own_backwards_in_regions() {
    every_way("in a checkpoint", |x, w| checkpoint(|| cube(&x.matmul(w).sin()).cos()));
    every_way("around a checkpoint", |x, w| {
        let y = x.matmul(w);
        custom_vjp(&y, |y| (checkpoint(|| y.exp().sin()), y.clone()), |y, ct: &Tensor| y.exp() * y.exp().cos() * ct)
    });
    every_way("written afterwards", |x, w| {
        let y = x.matmul(w);
        let z = cube(&y);
        let _ = y.mul_(0.5);
        let _ = z.add_(&y);
        z * y
    });
    every_way("in a batch", |x, w| {
        vmap(x, |x| cube(&x.reshape((1, 4)).matmul(w)).sum()).unwrap_or_else(Tensor::poisoned)
    });
}

#[test]
fn s1_15_batches_in_checkpoints_in_batches() {
    every_way("a checkpoint in a batch", |x, w| {
        vmap(x, |x| checkpoint(|| (x.reshape((1, 4)).matmul(w)).sin().exp().sum())).unwrap_or_else(Tensor::poisoned)
    });
    every_way("a batch in a checkpoint", |x, w| {
        checkpoint(|| vmap(x, |x| (x * w.select(0, 1)).tanh().softmax(0)).unwrap_or_else(Tensor::poisoned))
    });
    every_way("a gradient in a checkpoint in a batch", |x, w| {
        vmap(x, |x| checkpoint(|| grad(x, |x| (x * w.select(0, 0)).sin().prod()))).unwrap_or_else(Tensor::poisoned)
    });
    every_way("writes in a batch", |x, w| {
        let y = vmap(&x.matmul(w), |x| {
            let y = x * 2.0;
            let head = y.slice_with(Slice { stop: Some(2.into()), ..d() });
            let _ = head.mul_(x.slice_with(Slice { start: 2.into(), ..d() }));
            y.sin()
        });
        y.unwrap_or_else(Tensor::poisoned)
    });
    every_way("writes in a checkpoint in a batch", |x, w| {
        let y = vmap(x, |x| {
            checkpoint(|| {
                let y = x * w;
                let _ = y.select(0, 1).mul_(x);
                y.cos().sum_with(Sum { dims: [0].into(), ..d() })
            })
        });
        y.unwrap_or_else(Tensor::poisoned)
    });
    every_way("a hessian of each", |x, w| {
        let each = vmap(x, |x| hessian(x, |x| (x * w.select(0, 2)).sin().prod()).map(|mut h| h.swap_remove(0)));
        each.unwrap_or_else(Tensor::poisoned)
    });
}

#[test]
fn s0_7_constants_among_writes() {
    every_way("detached and written", |x, w| {
        let y = x.matmul(w);
        let scale = no_grad(|| y.abs().amax());
        // a constant that no step of a difference changes
        let z = y / (scale * 0.0 + 10.0);
        let _ = z.mul_(x.detach().floor());
        z.sin() * 0.5
    });
}

/// A batch's size stays a symbol, whatever rows the closure calls; one example alone is a batch as well.
#[test]
fn s0_5_batches_of_any_size() {
    let programs: [(&str, Program); 7] = [
        ("views", |x, w| vmap(x, |x| x.reshape((2, 2)).matmul(&w.reshape((2, 8)))).unwrap_or_else(Tensor::poisoned)),
        ("one row", |x, w| vmap(x, |x| x.reshape((1, 4)) * w).unwrap_or_else(Tensor::poisoned)),
        ("products", |x, w| vmap(x, |x| x.matmul(w)).unwrap_or_else(Tensor::poisoned)),
        ("sums", |x, w| vmap(x, |x| x.sum() * x.prod() * w).unwrap_or_else(Tensor::poisoned)),
        ("softmax", |x, w| vmap(x, |x| (x * w).softmax(-1)).unwrap_or_else(Tensor::poisoned)),
        ("norm", |x, w| vmap(x, |x| x.layer_norm(None, None, [4]) * w).unwrap_or_else(Tensor::poisoned)),
        ("flips", |x, w| vmap(x, |x| x.flip(0) * w.roll(1, 0)).unwrap_or_else(Tensor::poisoned)),
    ];
    for (name, f) in programs {
        every_way(name, f);
        every_way_at(name, &[2, 1], f);
        every_way_at(name, &[1, 3, 1], f);
    }
}

/// Programs whose numbers are rounded have no differences to compare with; but however they are run, they round alike.
#[track_caller]
fn rounds_alike(name: &str, f: Program) {
    let both = move |x: Tensor, w: Tensor| value_and_grad(&(x, w), |(x, w)| f(x, w).sum().cast(DType::F32));
    let flat = |(l, (gx, gw)): &(Tensor, (Tensor, Tensor))| {
        assert_eq!((gx.dtype(), gw.dtype()), (DType::F32, DType::F32), "{name}");
        [data(l), data(gx), data(gw)].concat()
    };
    let symbolic = jit(both).caching(Caching::Symbolic);
    for n in [3, 5] {
        let (x, w) = (ramp(n, 0.2).cast(DType::F32), ramp(4, 1.3).cast(DType::F32));
        let plain = flat(&both(x.clone(), w.clone()));
        for got in [
            jit(both).call((x.clone(), w.clone())),
            symbolic.call((x.clone(), w.clone())),
            jit(both).rematerialise(Remat::Share(0.2)).call((x.clone(), w.clone())),
        ] {
            near(name, &flat(&got.unwrap_or_else(|e| panic!("{name}: {e}"))), &plain, 1e-6);
        }
    }
    assert_eq!(symbolic.stats().misses.len(), 1, "{name}: {}", symbolic.stats());
}

#[test]
fn s1_10_writes_and_checkpoints_in_autocast() {
    rounds_alike("a write of a lower result", |x, w| {
        let acc = x * 1.0;
        autocast(DType::BF16, || {
            let y = x.matmul(w);
            let _ = acc.add_(&y);
            autocast(None, || acc.matmul(w)) + y
        })
    });
    rounds_alike("a checkpoint in autocast", |x, w| {
        autocast(DType::BF16, || checkpoint(|| x.matmul(w).gelu().matmul(w))).softmax(-1)
    });
    rounds_alike("autocast in a checkpoint, written", |x, w| {
        checkpoint(|| {
            let y = autocast(DType::F16, || x.matmul(w));
            let v = y.select(0, 1);
            let _ = v.mul_(2.0);
            y.cast(DType::F32).exp()
        })
    });
    rounds_alike("a batch in autocast in a checkpoint", |x, w| {
        checkpoint(|| {
            autocast(DType::BF16, || vmap(x, |x| x.reshape((1, 4)).matmul(w).tanh()).unwrap_or_else(Tensor::poisoned))
        })
    });
    rounds_alike("a view of a lower result is written", |x, w| {
        autocast(DType::BF16, || {
            let y = x.matmul(w);
            let _ = rows(&y.t(), 0, 2).copy_(&x.t().slice_with(Slice { stop: Some(2.into()), ..d() }));
            y.sum()
        })
    });
    rounds_alike("a backward of one's own in autocast", |x, w| {
        autocast(DType::BF16, || {
            let y = x.matmul(w);
            custom_vjp(&y, |y| (y * y, y.clone()), |y, ct: &Tensor| y * ct * 2.0).matmul(w)
        })
    });
}

/// A training step with all three: the statistics are written once, whatever runs again, and nothing rounds otherwise.
#[test]
fn s1_16_batch_norm_in_a_checkpoint_in_autocast() {
    #[derive(Tree, Clone)]
    struct Model {
        up: Linear,
        norm: BatchNorm,
        down: Linear,
    }
    let numbers = |n: i64, from: f64| ramp(n, from).cast(DType::F32);
    let model = Model {
        up: Linear { w: numbers(6, 0.3), b: Some(arange(6).cast(DType::F32) * 0.1) },
        norm: BatchNorm::new(6),
        down: Linear { w: numbers(6, 1.1).reshape((4, 6)), b: None },
    };
    let step = |again: bool| {
        jit(move |(model, stats): (Model, BatchStats), x: Tensor| {
            let (loss, g) = value_and_grad(&model, |m| {
                autocast(DType::BF16, || {
                    let block = || m.norm.train(&m.up.at(&x), &stats).gelu();
                    let h = if again { checkpoint(block) } else { block() };
                    m.down.at(&h).square().mean()
                })
            });
            let (up, norm) = (&model.up.w - &g.up.w * 0.1, &model.norm.w - &g.norm.w * 0.1);
            let mut model = model;
            (model.up.w, model.norm.w) = (up, norm);
            ((model, stats), loss)
        })
        .keep_traces()
    };
    let run = |again: bool| {
        let f = step(again);
        let mut state = (model.clone(), BatchStats::new(6));
        let losses: Vec<Vec<f64>> = (0..3)
            .map(|k| data(&f.update(&mut state, numbers(5, k as f64)).unwrap_or_else(|e| panic!("{e}"))))
            .collect();
        let (model, stats) = state;
        let ends = [&model.up.w, &model.norm.w, &stats.mean, &stats.var].map(data).to_vec();
        (f, [losses, ends].concat())
    };
    let ((plain, want), (again, got)) = (run(false), run(true));
    assert_eq!(got, want);
    let remade = again.trace("rematerialised").unwrap_or_default();
    assert!(remade.contains("// recompute of") && remade.contains("checkpoint {\n"), "{remade}");
    let stages =
        ["joint", "acquired", "simplified"].into_iter().flat_map(|stage| [plain.trace(stage), again.trace(stage)]);
    for text in stages.chain([Some(remade)]) {
        let text = text.unwrap_or_default();
        assert_eq!(text.matches("overwrite(").count(), 2, "{text}");
    }
}

/// A write through views of views replaces elements of the tensor at the end, once: what lies between is taken again only
/// where it is used.
#[test]
fn a_write_through_four_views_is_one_scatter() {
    let f = |x: Tensor| {
        let y = &x * 1.0;
        let row = y.slice_with(Slice { dim: 0.into(), start: 1.into(), ..d() }).select(0, 1);
        row.unsqueeze(0).select(1, 2).add_(10.0);
        (y, row * 2.0)
    };
    let compiled = jit(f).keep_traces();
    let x = Tensor::from_vec((0..20).map(f64::from).collect(), [4, 5]);
    let (y, row) = compiled.call(x.clone()).expect("runs");
    let (want, wanted) = f(x);
    let numbers = |t: &Tensor| t.to_f64().expect("numbers");
    assert_eq!((numbers(&y), numbers(&row)), (numbers(&want), numbers(&wanted)));
    assert_eq!(numbers(&y)[12], 22.0);
    for (stage, most) in [("acquired", 24), ("simplified", 18)] {
        let trace = compiled.trace(stage).expect("kept");
        let count = |text: &str| trace.lines().filter(|line| line.contains(text)).count();
        assert_eq!(count(" = scatter("), 1, "{trace}");
        assert!(count(" = ") <= most, "{trace}");
    }
}
