//! Classes with what stands around them: autocast, frozen parameters, pieces of tensors of another class.

use fulgurite::ops::{Amax, Mean, RedistributePlace, Sum, arange, from_shards, full, where_};
use fulgurite::prelude::*;
use fulgurite::subclass;

fn nums(t: &Tensor) -> Vec<f64> {
    t.plain().to_f64().unwrap_or_else(|e| panic!("{e}"))
}

fn masked(data: &Tensor, mask: &Tensor) -> Tensor {
    subclass::make(&fulgurite::classes::MASKED_TENSOR, vec![Operand::arg(data), Operand::arg(mask)])
}

/// Sums over ranks are added in another order.
#[track_caller]
fn near(got: &[f64], want: &[f64]) {
    let fits = got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-5 * (1.0 + b.abs()));
    assert!(fits, "{got:?}, not {want:?}");
}

/// At once and compiled.
#[track_caller]
fn both(name: &str, x: Tensor, f: impl Fn(Tensor) -> Tensor + Send + Sync + 'static) -> Vec<f64> {
    let at_once = f(x.clone()).plain();
    let at_once = at_once.to_f64().unwrap_or_else(|e| panic!("{name}: {e}"));
    let compiled = jit(move |x: Tensor| f(x).plain()).call(x).and_then(|y| y.to_f64());
    assert_eq!(compiled.unwrap_or_else(|e| panic!("{name}, compiled: {e}")), at_once, "{name}");
    at_once
}

/// Counts, masked means and truths over pieces: every dtype has the folds of its reductions.
#[test]
fn reductions_of_every_dtype_over_pieces() {
    type Reduce = fn(Tensor) -> Tensor;
    let all: [(&str, Reduce); 7] = [
        ("sum", |x| x.sum().cast(DType::F32)),
        ("sum along the cut", |x| x.sum_with(Sum { dims: [0].into(), ..d() }).cast(DType::F64)),
        ("sum of truths", |x| x.gt(1.0).sum().cast(DType::F32)),
        ("any", |x| x.gt(1.0).any()),
        ("amax", |x| x.amax_with(Amax { dims: [0].into(), ..d() }) * 2.0),
        ("mean of those shown", |x| {
            let on = x.gt(1.0);
            where_(&on, &x, 0.0).sum().cast(DType::F32) / on.sum()
        }),
        ("cut again", |x| x.sum_with(Sum { dims: [0].into(), ..d() }).redistribute_with(cut()).cast(DType::F32)),
    ];
    for dtype in [DType::F32, DType::F64, DType::I64, DType::I32, DType::U8] {
        let x = arange(24).remainder(5).cast(dtype).reshape((8, 3));
        for (name, f) in all {
            if name == "cut again" {
                let got = both(name, x.shard(3), f);
                assert_eq!(got, nums(&x.sum_with(Sum { dims: [0].into(), ..d() })), "{dtype} {name}");
                continue;
            }
            let want = nums(&f(x.clone()));
            for ranks in [1, 3, 4] {
                assert_eq!(both(name, x.shard(ranks), f), want, "{dtype} {name} on {ranks}");
                assert_eq!(both(name, x.replicate(ranks), f), want, "{dtype} {name} on {ranks}");
            }
        }
    }
}

fn cut() -> ops::Redistribute {
    ops::Redistribute { place: RedistributePlace::Shard, ..d() }
}

#[test]
fn where_meets_masks() {
    let x = masked(&Tensor::from([1.0, 2.0, 3.0, 4.0]), &Tensor::from([true, false, true, false]));
    let y = masked(&Tensor::from([5.0, 6.0, 7.0, 8.0]), &Tensor::from([true, true, false, false]));
    let c = Tensor::from([true, true, false, false]);
    let plain = Tensor::from([9.0; 4]);
    let shown = |t: &Tensor| (t.field("data").to_f64().expect("data"), t.field("mask").to_vec::<bool>().expect("mask"));
    let (t, f) = (true, false);
    for (name, got, want) in [
        ("two masks", where_(&c, &x, &y), (vec![1.0, 2.0, 7.0, 8.0], vec![t, f, f, f])),
        ("a number", where_(&c, &x, 0.0), (vec![1.0, 2.0, 0.0, 0.0], vec![t, f, t, t])),
        ("a number first", where_(&c, 0.0, &x), (vec![0.0, 0.0, 3.0, 4.0], vec![t, t, t, f])),
        ("a plain tensor", where_(&c, &x, &plain), (vec![1.0, 2.0, 9.0, 9.0], vec![t, f, t, t])),
        ("a masked condition", where_(x.gt(1.5), 1.0, 0.0), (vec![0.0, 1.0, 1.0, 1.0], vec![t, f, t, f])),
    ] {
        assert_eq!(shown(&got), want, "{name}");
    }
    let g = grad(&Tensor::from([1.0, 2.0, 3.0, 4.0]), |d| {
        where_(&c, masked(d, &Tensor::from([true, false, true, false])), 0.0).square().sum().plain()
    });
    assert_eq!(g.to_f64().expect("a gradient"), [2.0, 0.0, 0.0, 0.0]);
}

/// Pieces of a class that means something else than its plain tensors are what the whole is.
#[test]
fn pieces_of_masks_are_what_the_whole_is() {
    type Op = fn(&Tensor) -> Tensor;
    let all: [(&str, Op); 11] = [
        ("itself", |x| x.clone()),
        ("pointwise", |x| (x * 2.0).exp()),
        ("softmax 0", |x| x.softmax(0)),
        ("softmax 1", |x| x.softmax(1)),
        ("sum", |x| x.sum()),
        ("sum 0", |x| x.sum_with(Sum { dims: [0].into(), ..d() })),
        ("sum 1", |x| x.sum_with(Sum { dims: [1].into(), ..d() })),
        ("mean", |x| x.mean()),
        ("mean 0", |x| x.mean_with(Mean { dims: [0].into(), ..d() })),
        ("mean 1", |x| x.mean_with(Mean { dims: [1].into(), ..d() })),
        ("amax 0", |x| x.amax_with(Amax { dims: [0].into(), ..d() })),
    ];
    let data = Tensor::from([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0], [2.0, 2.5, 4.0], [-3.0, 1.5, 0.75]]);
    let mask = Tensor::from([[true, false, true], [true, true, false], [false, true, false], [true, true, true]]);
    let whole = masked(&data, &mask);
    for ranks in [1usize, 2, 4] {
        let rows = 4 / ranks;
        let piece = |i: usize| {
            let of = |t: &Tensor| {
                t.slice_with(ops::Slice { start: (i * rows).into(), stop: Some((i * rows + rows).into()), ..d() })
            };
            masked(&of(&data), &of(&mask))
        };
        let pieces = from_shards(&(0..ranks).map(piece).collect::<Vec<_>>());
        for (name, op) in all {
            let got = both(name, pieces.clone(), move |x| op(&x));
            let want = nums(&op(&whole));
            let fits = got.len() == want.len() && got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12);
            assert!(fits, "{name} on {ranks}: {got:?}, not {want:?}");
        }
    }
}

/// A zero gradient of a tensor of a class is of its form: a frozen parameter trains with the others.
#[test]
fn frozen_parameters_in_pieces() {
    let step = jit(|(w, u): (Tensor, Tensor), x: Tensor| {
        let (l, (gw, gu)) =
            value_and_grad(&(w.clone(), u.clone()), |(w, u)| x.matmul(w).square().sum() + u.detach().sum());
        ((w - gw * 0.01, u - gu * 0.01), l)
    });
    let w = || full([4, 4], 0.5);
    let mut state = (w().replicate(4), w().replicate(4));
    let mut plain = (w(), w());
    let x = full([8, 4], 1.0);
    for _ in 0..3 {
        let got = step.update(&mut state, x.shard(4)).unwrap_or_else(|e| panic!("{e}"));
        let want = step.update(&mut plain, x.clone()).expect("plain");
        near(&nums(&got), &nums(&want));
    }
    near(&nums(&state.0), &nums(&plain.0));
    assert_eq!(nums(&state.1), [0.5; 16]);
    for place in [w().replicate(4), w().shard(4)] {
        let g = grad(&place, |w| w.detach().sum() * 2.0);
        assert_eq!(g.class(), place.class());
        assert_eq!(nums(&g), [0.0; 16]);
    }
}

/// A class with cotangents of its own class alone has a zero of its own.
#[test]
fn zeros_of_every_form() {
    #[derive(TensorSubclass, Clone)]
    #[subclass(default = "each", read = "a", cotangent = "same")]
    struct Pair {
        #[field]
        a: Tensor,
        #[field("i64[..S]")]
        b: Tensor,
    }
    let x = Tensor::from(Pair { a: Tensor::from([1.0f64, 2.0]), b: Tensor::from([3i64, 4]) });
    let g = grad(&(x, Tensor::from([1.0f64])), |(_, y)| y.sum()).0;
    let Pair { a, b } = Pair::try_from(&g).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((a.to_vec::<f64>().expect("a"), b.to_vec::<i64>().expect("b")), (vec![0.0; 2], vec![3, 4]));
}

/// A quantised weight computes in the dtype of the region, and passes gradients on.
#[test]
fn quantised_weights_in_autocast() {
    let w = (arange(32).cast(DType::F32) * 0.7).sin().reshape((2, 16));
    let x = (arange(16).cast(DType::F32) * 0.3).cos().reshape((1, 16));
    for q in [
        w.to_int8_groups_with(ops::ToInt8Groups { group: 16.into() }),
        w.to_int4_groups_with(ops::ToInt4Groups { group: 16.into() }),
    ] {
        let plain = q.plain();
        for dtype in [DType::BF16, DType::F16] {
            let run = |w: Tensor, x: Tensor| {
                jit(move |x: Tensor| autocast(dtype, || (x.linear(&w, None), grad(&x, |x| x.linear(&w, None).sum()))))
                    .call(x)
                    .unwrap_or_else(|e| panic!("{dtype}: {e}"))
            };
            let (y, g) = run(q.clone(), x.clone());
            let (wy, wg) = run(plain.clone(), x.clone());
            assert_eq!((y.dtype(), g.dtype()), (dtype, DType::F32));
            for (a, b) in nums(&y).iter().chain(&nums(&g)).zip(nums(&wy).iter().chain(&nums(&wg))) {
                assert!((a - b).abs() < 0.02 * (1.0 + b.abs()), "{dtype}: {a} {b}");
            }
        }
    }
}

/// What a function with a backward of its own, or a class, is made of keeps its dtypes in an autocast region.
#[test]
fn autocast_leaves_functions_and_fields_alone() {
    let (x, w) = (Tensor::from([[1.0f32, 2.0]]), Tensor::from([[0.5f32], [0.25]]));
    let f = move |x: &Tensor| {
        let w = w.clone();
        custom_vjp(x, |x| (x.matmul(&w), ()), |(), ct: &Tensor| ct.matmul(&w.t()).cast(DType::F32))
    };
    let y = {
        let f = f.clone();
        jit(move |x: Tensor| autocast(DType::BF16, || f(&x))).call(x.clone()).unwrap_or_else(|e| panic!("{e}"))
    };
    assert_eq!((y.dtype(), nums(&y)), (DType::BF16, vec![1.0]));
    let g = jit(move |x: Tensor| autocast(DType::BF16, || grad(&x, |x| f(x).sum()))).call(x).expect("a gradient");
    assert_eq!((g.dtype(), nums(&g)), (DType::F32, vec![0.5, 0.25]));

    #[derive(TensorSubclass, Clone)]
    #[subclass(plain = "d as f32 * s", default = "plain", outer = "f32[..S]")]
    struct Mixed {
        #[field("bf16[..S]")]
        d: Tensor,
        #[field("f32[..S]")]
        s: Tensor,
    }
    let made = jit(|d: Tensor, s: Tensor| autocast(DType::F16, || (Tensor::from(Mixed { d, s }) * 1.0).plain()));
    let y = made.call((Tensor::from([2.0f32]).cast(DType::BF16), Tensor::from([3.0f32])));
    assert_eq!(nums(&y.unwrap_or_else(|e| panic!("{e}"))), [6.0]);
}

/// The largest of truths under a mask is a truth, and one that the mask hides is none.
#[test]
fn the_largest_of_masked_truths() {
    let x = masked(&Tensor::from([false, true, false]), &Tensor::from([true, false, true]));
    assert_eq!((x.amax().plain().dtype(), nums(&x.amax())), (DType::Bool, vec![0.0]));
    let (least, most) = x.aminmax();
    assert_eq!((least.dtype(), most.dtype(), nums(&most)), (DType::Bool, DType::Bool, vec![0.0]));
}
