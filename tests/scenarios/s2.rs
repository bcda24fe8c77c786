//! Mutations: writes are versions of values; a write through a view is one of its base.

use super::program::close;
use fulgurite::prelude::*;
use fulgurite::{Error, ErrorKind};

fn of(data: &[f64]) -> Tensor {
    Tensor::from_vec(data.to_vec(), data.len())
}

fn data(x: &Tensor) -> Vec<f64> {
    x.to_f64().unwrap_or_else(|e| panic!("{e}"))
}

/// Result and gradient (by `x`, cotangents of ones) of a program, once run at once and once compiled.
#[track_caller]
fn program(f: impl Fn(&Tensor) -> Tensor + Copy, x: &[f64], out: &[f64], gradient: &[f64]) {
    let pulled = |x: Tensor| {
        let seen = f(&x.copy());
        let ones = ops::full(seen.shape(), 1.0).cast(DType::F64);
        vjp(&x, &ones, f)
    };
    for (y, g) in [pulled(of(x)).expect("runs"), jit(pulled).call(of(x)).expect("compiles")] {
        close(&data(&y), out);
        close(&data(&g), gradient);
    }
}

/// A batch norm as a user writes it: normalised by the batch, running statistics moved without gradients.
fn batch_norm(x: &Tensor, stats: &(Tensor, Tensor, Tensor), training: bool) -> Tensor {
    let (mean, var, count) = stats;
    if !training {
        return (x - mean) * (var + 1e-5).rsqrt();
    }
    let (v, m) = x.var_mean_with(ops::VarMean { dims: 0.into(), ..d() });
    no_grad(|| {
        let _ = mean.mul_(0.9).add_(&m * 0.1);
        let _ = var.mul_(0.9).add_(&v * 0.1);
        let _ = count.add_(1);
    });
    let biased = x.var_with(ops::Var { dims: 0.into(), correction: 0.0, ..d() });
    (x - m) * (biased + 1e-5).rsqrt()
}

fn batch_norm_of(again: bool, training: bool) -> (Vec<f64>, [f64; 3]) {
    let stats = (of(&[0.0]), of(&[1.0]), Tensor::from([0i64]));
    let seen = stats.clone();
    let x = Tensor::from([[1.0f64], [3.0], [8.0]]);
    let run = jit(move |x: Tensor, ct: Tensor| {
        let at = |x: &Tensor| batch_norm(x, &stats, training);
        vjp(&x, &ct, |x| if again { checkpoint(|| at(x)) } else { at(x) }).map(|(_, g)| g)
    });
    let g = run.call((x, Tensor::from([[1.0f64], [2.0], [4.0]]))).expect("runs");
    (data(&g), [&seen.0, &seen.1, &seen.2].map(|t| data(t)[0]))
}

#[test]
fn s2_12_batch_norm() {
    let (g, [mean, var, count]) = batch_norm_of(false, true);
    close(&[mean, var, count], &[0.4, 2.2, 1.0]);
    assert!(g.iter().zip([-0.021_775_043, 0.030_484_198, -0.008_709_155]).all(|(a, b)| (a - b).abs() < 1e-8), "{g:?}");
    let (_, stats) = batch_norm_of(false, false);
    assert_eq!(stats, [0.0, 1.0, 0.0], "evaluation writes nothing");
}

#[test]
fn s2_13_batch_norm_in_a_checkpoint() {
    assert_eq!(batch_norm_of(true, true).1, batch_norm_of(false, true).1);
    close(&batch_norm_of(true, true).0, &batch_norm_of(false, true).0);
}

/// Of two writes neither happens where a line between them fails.
#[test]
fn s2_26_nothing_half_done() {
    let (a, b) = (of(&[1.0, 2.0]), of(&[3.0, 4.0]));
    let (ha, hb) = (a.clone(), b.clone());
    let run = jit(move |i: Tensor| {
        let _ = ha.add_(1);
        let picked = hb.take(&i);
        let _ = hb.add_(1);
        picked
    });
    let error = run.call(Tensor::from([7i64])).expect_err("no such element");
    assert!(error.to_string().contains("take"), "{error}");
    assert_eq!((data(&a), data(&b)), (vec![1.0, 2.0], vec![3.0, 4.0]));
    assert_eq!(data(&run.call(Tensor::from([1i64])).expect("runs")), [4.0]);
    assert_eq!((data(&a), data(&b)), (vec![2.0, 3.0], vec![4.0, 5.0]));
}

#[test]
fn s2_16_view() {
    program(
        |x| {
            let y = x * 2;
            let v = y.slice_with(ops::Slice { stop: Some(1.into()), ..d() });
            let _ = v.mul_(10);
            y
        },
        &[1.0, 2.0],
        &[20.0, 4.0],
        &[20.0, 2.0],
    );
    program(
        |x| {
            let y = x * 2;
            let v = y.slice_with(ops::Slice { stop: Some(1.into()), ..d() });
            let w = y.slice_with(ops::Slice { stop: Some(2.into()), ..d() });
            let _ = v.mul_(10);
            w
        },
        &[1.0, 2.0],
        &[20.0, 4.0],
        &[20.0, 2.0],
    );
}

/// Outside of traces a view sees what is written to its base and to other views of it, and they see what is written to it.
#[test]
fn s2_16_views_outside_of_traces() {
    let y = of(&[1.0, 2.0, 3.0]);
    let v = y.slice_with(ops::Slice { start: 1.into(), ..d() });
    let w = v.reshape((2, 1));
    let _ = w.mul_(10);
    assert_eq!((data(&y), data(&v), data(&w)), (vec![1.0, 20.0, 30.0], vec![20.0, 30.0], vec![20.0, 30.0]));
    let _ = y.add_(1);
    assert_eq!((data(&v), data(&w)), (vec![21.0, 31.0], vec![21.0, 31.0]));
    drop(y);
    let other = v.slice_with(ops::Slice { stop: Some(1.into()), ..d() });
    let _ = other.copy_(&of(&[5.0]));
    assert_eq!(data(&w), [5.0, 31.0]);
    assert_eq!(v.expand([3, 2]).mul_(2).error().expect("elements are shown three times").code(), "E714");
    assert_eq!(v.as_strided([2, 1], [0, 1]).mul_(2).error().expect("one element twice").code(), "E714");
}

/// A compiled function that writes an argument can't have a view of it as another; nothing ran then.
#[test]
fn s2_21_arguments_with_views() {
    let run = jit(|a: Tensor, b: Tensor| {
        let _ = a.add_(1);
        a * b
    });
    let a = of(&[1.0, 2.0]);
    let b = a.reshape(2);
    let line = line!() + 1;
    let error = run.call((a.clone(), b.clone())).expect_err("a view is passed");
    assert_eq!((error.code(), error.loc().line), ("E749", line), "{error}");
    assert_eq!(data(&a), [1.0, 2.0]);
    assert_eq!(data(&run.call((a.clone(), of(&[1.0, 1.0]))).expect("runs")), [2.0, 3.0]);
    // the view outside sees what the program wrote
    assert_eq!(data(&b), [2.0, 3.0]);
}

/// Views of views, of every kind that a row can say.
#[test]
fn s2_16_views_of_views() {
    let x = Tensor::from_vec((0..6).map(f64::from).collect::<Vec<_>>(), (2, 3));
    let f = |x: &Tensor| {
        let y = x * 1;
        // the second row's last element, by way of a transpose, a reshape and a selection
        let _ = y.transpose(0, 1).reshape((3, 2)).select(0, 2).select(0, 1).fill_with(|v| v.mul_(100));
        y
    };
    let run = jit(move |x: Tensor| f(&x));
    assert_eq!(data(&run.call(x.clone()).expect("runs")), [0.0, 1.0, 2.0, 3.0, 4.0, 500.0]);
    let g = grad(&x, |x| f(x).sum());
    assert_eq!(data(&g), [1.0, 1.0, 1.0, 1.0, 1.0, 100.0]);
}

trait Also {
    fn fill_with(&self, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor;
}
impl Also for Tensor {
    fn fill_with(&self, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
        f(self)
    }
}

#[test]
fn s2_17_write_after_save() {
    program(
        |x| {
            let y = x.exp();
            let _ = y.add_(1);
            y
        },
        &[1.0, 2.0],
        &[1f64.exp() + 1.0, 2f64.exp() + 1.0],
        &[1f64.exp(), 2f64.exp()],
    );
    let b = of(&[3.0, 4.0]);
    let held = b.clone();
    let g = grad(&of(&[1.0, 2.0]), |x| {
        let y = x * &b;
        let _ = b.add_(1);
        y.sum()
    });
    assert_eq!((data(&g), data(&held)), (vec![3.0, 4.0], vec![4.0, 5.0]));
    program(
        |x| {
            let y = x * 1;
            let z = &y * &y;
            let d = y.detach();
            let _ = d.mul_(3);
            z
        },
        &[1.0, 2.0],
        &[1.0, 4.0],
        &[2.0, 4.0],
    );
}

#[test]
fn s2_18_alias_of_a_detached_value() {
    program(
        |x| {
            let y = x * 1;
            let d = y.detach();
            let _ = d.mul_(3);
            &y * 2
        },
        &[1.0, 2.0],
        &[6.0, 12.0],
        &[2.0, 2.0],
    );
}

#[test]
fn s2_19_no_grad_write() {
    program(
        |x| {
            let y = x * 2;
            no_grad(|| y.mul_(3));
            &y * &y
        },
        &[1.0, 2.0],
        &[36.0, 144.0],
        &[24.0, 48.0],
    );
    let x = of(&[1.0, 2.0]);
    let (y, g) = vjp(&x, &of(&[1.0, 1.0]), |x| {
        no_grad(|| x.add_(1));
        x * x
    })
    .expect("runs");
    assert_eq!((data(&y), data(&g), data(&x)), (vec![4.0, 9.0], vec![4.0, 6.0], vec![2.0, 3.0]));
    program(
        |x| {
            let y = x * 2;
            no_grad(|| y.copy_(&of(&[5.0, 5.0])));
            y
        },
        &[1.0, 2.0],
        &[5.0, 5.0],
        &[2.0, 2.0],
    );
}

#[test]
fn s2_20_leaf() {
    let at = line!() + 3;
    let refused = |x: &Tensor| {
        grad(x, |x| {
            let _ = x.add_(1);
            (x * x).sum()
        })
    };
    let x = of(&[1.0, 2.0]);
    let error = refused(&x).error().cloned().expect("a leaf");
    assert!(matches!(error.kind(), ErrorKind::LeafMutation { index: 0, .. }), "{error}");
    assert!(error.loc().file.ends_with("s2.rs") && error.loc().line == at, "{error}");
    assert_eq!(data(&x), [1.0, 2.0], "nothing was written");
    // not differentiated by: written at the end
    let run = jit(|x: Tensor| {
        let _ = x.add_(1);
        &x * &x
    });
    assert_eq!(data(&run.call(x.clone()).expect("runs")), [4.0, 9.0]);
    assert_eq!(data(&x), [2.0, 3.0]);
}

#[test]
fn s2_21_the_same_variable_twice() {
    let run = jit(|a: Tensor, b: Tensor| {
        let _ = a.add_(1);
        &a * &b
    });
    let x = of(&[1.0, 2.0]);
    assert_eq!(data(&run.call((x.clone(), x.clone())).expect("runs")), [4.0, 9.0]);
    assert_eq!(data(&x), [2.0, 3.0]);
    let (a, b) = (of(&[1.0, 2.0]), of(&[1.0, 2.0]));
    assert_eq!(data(&run.call((a, b)).expect("runs")), [2.0, 6.0]);
    assert_eq!(run.stats().programs, 2, "{}", run.stats());
}

#[test]
fn s2_22_write_only() {
    let run = jit(|b: Tensor, x: Tensor| {
        let _ = b.copy_(&Tensor::from(0.0));
        x * 2
    });
    let b = of(&[3.0, 4.0]);
    assert_eq!(data(&run.call((b.clone(), of(&[1.0, 2.0]))).expect("runs")), [2.0, 4.0]);
    assert_eq!(data(&b), [0.0, 0.0]);
    let b = of(&[3.0, 4.0]);
    let g = grad(&of(&[1.0, 2.0]), |x| {
        let _ = b.mul_(0);
        (x * 2).sum()
    });
    assert_eq!((data(&g), data(&b)), (vec![2.0, 2.0], vec![0.0, 0.0]));
}

#[test]
fn s2_25_recompute_and_writes() {
    let b = of(&[3.0, 4.0]);
    let g = grad(&of(&[1.0, 2.0]), |x| {
        let y = checkpoint(|| (x * &b).sin());
        let _ = b.add_(1);
        y.sum()
    });
    close(&data(&g), &[3.0 * 3f64.cos(), 4.0 * 8f64.cos()]);
    assert_eq!(data(&b), [4.0, 5.0]);
    // a line that runs again reads the value as it was
    let b = of(&[3.0, 4.0]);
    let g = grad(&of(&[1.0, 2.0]), |x| {
        let y = x * tagged(fulgurite::trace::Tag::RECOMPUTE, || b.sigmoid());
        let _ = b.add_(1);
        y.sum()
    });
    close(&data(&g), &[0.952_574_126_822_433_4, 0.982_013_790_037_908_4]);
    let b = of(&[3.0, 4.0]);
    let g = grad(&of(&[1.0, 2.0]), |x| {
        let y = checkpoint(|| (x * &b).sin().cos());
        let _ = b.add_(1);
        y.sum()
    });
    let want = |x: f64, b: f64| -(x * b).sin().sin() * (x * b).cos() * b;
    close(&data(&g), &[want(1.0, 3.0), want(2.0, 4.0)]);
}

/// A tensor keeps its type for life, and a failed write is not lost where nobody looks at what it gives.
#[test]
fn s2_5_a_write_keeps_the_type() {
    let code = |e: &Error| (e.code(), e.to_string());
    let x = of(&[1.0, 2.0]);
    let wider = x.copy_(&Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]));
    let (code_, text) = code(wider.error().expect("another shape"));
    assert_eq!(code_, "E714", "{text}");
    let i = Tensor::from([1i64, 2]);
    let float = i.copy_(&of(&[0.5, 0.5]));
    assert_eq!(float.error().expect("a float in an integer").code(), "E714");
    let run = jit(|x: Tensor| {
        let _ = x.copy_(&Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]));
        x * 2
    });
    assert_eq!(run.call(x).expect_err("nobody looked").code(), "E714");
    let y = jit(|x: Tensor| {
        let y = x.expand((2, 2));
        let _ = y.mul_(2);
        y
    });
    let error = y.call(of(&[1.0, 2.0])).expect_err("elements that are seen twice");
    assert_eq!(error.code(), "E714", "{error}");
}
