//! Programs on which other systems were reported to be wrong in silence, with the values that are right. The report is
//! named where it is public.

use fulgurite::ops::{self, Slice, Sum};
use fulgurite::prelude::*;

fn numbers(all: &[Tensor]) -> Vec<Vec<f64>> {
    all.iter().map(|t| t.to_f64().unwrap_or_else(|e| panic!("{e}"))).collect()
}

/// The results at once and compiled, of two calls each, and what the argument is behind the call.
#[track_caller]
fn every_way(f: impl Fn(Tensor) -> Vec<Tensor> + Clone, x: &Tensor, want: &[&[f64]], behind: &[f64]) {
    let close = |got: &[Vec<f64>], what: &str| {
        let same = |(a, b): (&Vec<f64>, &&[f64])| {
            let equal =
                |(x, y): (&f64, &f64)| x == y || (x - y).abs() <= 1e-9 * (1.0 + y.abs()) || x.is_nan() && y.is_nan();
            a.len() == b.len() && a.iter().zip(b.iter()).all(equal)
        };
        assert!(got.len() == want.len() && got.iter().zip(want).all(same), "{what}: {got:?}, not {want:?}");
    };
    let given = x.copy();
    close(&numbers(&f(given.clone())), "at once");
    assert_eq!(numbers(&[given])[0], behind, "the argument, at once");
    for caching in [Caching::Constant, Caching::Symbolic, Caching::Off] {
        let compiled = jit(f.clone()).caching(caching);
        for _ in 0..2 {
            let given = x.copy();
            close(&numbers(&compiled.call(given.clone()).unwrap_or_else(|e| panic!("{e}"))), "compiled");
            assert_eq!(numbers(&[given])[0], behind, "the argument, compiled");
        }
    }
}

/// A batch, or a tensor that stands for its error.
fn batched(x: &Tensor, f: impl Fn(&Tensor) -> Tensor) -> Tensor {
    vmap(x, f).unwrap_or_else(Tensor::poisoned)
}

fn matrix() -> Tensor {
    Tensor::from_vec(vec![1.0f64, -2.0, 3.0, 4.0, 5.0, -6.0], [2, 3])
}

/// pytorch/pytorch#138908: `y[i] += y[i]` with a computed index doubled twice.
#[test]
fn rows_by_a_computed_index_are_doubled_once() {
    let f = |x: Tensor| {
        let at = Tensor::from([-10i64, -9]) + 10;
        let rows = x.index_select(&at, 0);
        let new = x.index_put(&[at], &(&rows + &rows), 0);
        x.copy_(&new);
        vec![x * 1.0]
    };
    let doubled = [2.0, -4.0, 6.0, 8.0, 10.0, -12.0];
    every_way(f, &matrix(), &[&doubled], &doubled);
}

/// pytorch/pytorch#136662: a column written from another one of the same tensor, in a function that is differentiated.
#[test]
fn a_column_is_written_from_another_one_of_the_same_tensor() {
    let f = |x: Tensor| {
        let (l, g) = value_and_grad(&x, |x| {
            let y = x * 1.0;
            y.select(1, 0).add_(y.select(1, 2).abs());
            y.square().sum()
        });
        vec![l, g]
    };
    // columns (4, 10), (-2, 5), (3, -6); the last one has 2 * 4 and -2 * 10 from the first
    let gradient = [8.0, -4.0, 6.0 + 8.0, 20.0, 10.0, -12.0 - 20.0];
    every_way(f, &matrix(), &[&[16.0 + 100.0 + 4.0 + 25.0 + 9.0 + 36.0], &gradient], &[1.0, -2.0, 3.0, 4.0, 5.0, -6.0]);
}

/// Lightning-AI/lightning-thunder#652 and #720: a view of a result is written, then what was written from is.
#[test]
fn a_view_of_a_result_is_written_and_read_in_order() {
    let f = |x: Tensor| {
        let c = &x * 2.0;
        let d = &x + 1.0;
        let e = c.reshape(-1);
        e.add_(d.reshape(-1));
        d.div_(&x);
        vec![c, d, e / 2.0]
    };
    let x = Tensor::from([1.0f64, 2.0, 4.0]);
    every_way(f, &x, &[&[4.0, 7.0, 13.0], &[2.0, 1.5, 1.25], &[2.0, 3.5, 6.5]], &[1.0, 2.0, 4.0]);
    let twice = |x: Tensor| {
        x.relu_();
        x.add_(1.0);
        vec![&x + 1.0]
    };
    every_way(twice, &Tensor::from([-1.0f64, 2.0]), &[&[2.0, 4.0]], &[1.0, 3.0]);
}

/// Lightning-AI/lightning-thunder#1284: a gradient is taken by a tensor that the function writes.
#[test]
fn a_written_argument_has_no_gradient() {
    let g = grad(&Tensor::from([1.0f64, 1.0]), |x| x.mul_(2.0).sum());
    let e = g.to_f64().expect_err("refused");
    assert_eq!(e.code(), "E713", "{e}");
}

/// jax-ml/jax#6452: a gradient by a number that a batch captures is a number.
#[test]
fn a_captured_number_has_a_gradient_of_its_shape() {
    let rows = Tensor::from_vec(vec![0.5f64; 6], [3, 2]);
    let f = move |z: Tensor| {
        let g = grad(&z, |z| batched(&rows, |y: &Tensor| z.logaddexp(y.sum() + z)).sum());
        assert_eq!(g.shape(), Vec::<Dim>::new());
        vec![g]
    };
    // each slice: log(e^z + e^(z + 1)), whose slope is 1
    every_way(f, &Tensor::scalar(0.1f64), &[&[3.0]], &[0.1]);
}

fn rough(x: &Tensor) -> Tensor {
    custom_vjp(x, |x| (x * 2.0, ()), |(), ct: &Tensor| ct * 3.0)
}

/// jax-ml/jax#1249 and #17496: a backward of one's own holds in a batch, behind a batch, in a checkpoint and in a chain.
#[test]
fn a_backward_of_ones_own_is_used_wherever_the_function_stands() {
    let x = Tensor::from([1.0f64, -2.0, 5.0]);
    let still = [1.0, -2.0, 5.0];
    every_way(|x| vec![grad(&x, |x| rough(x).sum())], &x, &[&[3.0; 3]], &still);
    every_way(|x| vec![grad(&x, |x| batched(x, rough).sum())], &x, &[&[3.0; 3]], &still);
    every_way(|x| vec![batched(&x, |x| grad(x, rough))], &x, &[&[3.0; 3]], &still);
    every_way(|x| vec![batched(&x, |x| grad(x, |x| rough(&rough(x))))], &x, &[&[9.0; 3]], &still);
    every_way(|x| vec![grad(&x, |x| checkpoint(|| rough(x) * rough(x)).sum())], &x, &[&[12.0, -24.0, 60.0]], &still);
    every_way(|x| vec![grad(&x, |x| rough(&(rough(x) + 1.0)).square().sum())], &x, &[&[108.0, -108.0, 396.0]], &still);
}

/// jax-ml/jax#4047: what is not chosen by a `where` gives no NaN to the gradient of a batch either.
#[test]
fn what_is_not_chosen_gives_no_nan_in_a_batch() {
    let safe = |x: &Tensor| {
        let positive = x.gt(0.0);
        let inside = ops::where_(&positive, x, 1.0);
        ops::where_(&positive, inside.sqrt(), 0.0)
    };
    let x = Tensor::from([4.0f64, 0.0, -1.0]);
    every_way(move |x| vec![grad(&x, |x| batched(x, safe).sum())], &x, &[&[0.25, 0.0, 0.0]], &[4.0, 0.0, -1.0]);
    every_way(move |x| vec![batched(&x, |x| grad(x, safe))], &x, &[&[0.25, 0.0, 0.0]], &[4.0, 0.0, -1.0]);
}

/// pytorch/pytorch#174172: the sign of a number that is minus zero.
#[test]
fn minus_zero_as_a_number_has_a_sign() {
    let f = |x: Tensor| vec![x.copysign(-0.0), x.copysign(0.0), 1.0 / (x * 0.0).copysign(-0.0)];
    let infinite = [f64::NEG_INFINITY; 2];
    every_way(f, &Tensor::from([1.5f64, -2.0]), &[&[-1.5, -2.0], &[1.5, 2.0], &infinite], &[1.5, -2.0]);
}

/// pytorch/pytorch#114223: results do not depend on the order in which they are given.
#[test]
fn the_order_of_results_changes_none_of_them() {
    let parts = |x: &Tensor| {
        let y = ops::cat(&[(x / 3.0).transpose(0, 1)]).floor();
        let z = y.floor();
        [y, z.mean_with(ops::Mean { dims: [1].into(), ..d() }), z.sum_with(Sum { dims: [0].into(), ..d() })]
    };
    let (y, mean, sum) = ([0.0, 1.0, -1.0, 1.0, 1.0, -2.0], [0.5, 0.0, -0.5], [0.0, 0.0]);
    let still = [1.0, -2.0, 3.0, 4.0, 5.0, -6.0];
    every_way(move |x| parts(&x).to_vec(), &matrix(), &[&y, &mean, &sum], &still);
    every_way(move |x| parts(&x).into_iter().rev().collect(), &matrix(), &[&sum, &mean, &y], &still);
}

/// A part is copied onto a part that overlaps it: what is read is what was there before.
#[test]
fn overlapping_parts_are_copied_as_they_were() {
    let f = |x: Tensor| {
        let part = |start: i64, stop: i64| x.slice_with(Slice { start: start.into(), stop: Some(stop.into()), ..d() });
        part(1, 4).copy_(&part(0, 3));
        vec![x * 1.0]
    };
    let x = Tensor::from([1.0f64, 2.0, 3.0, 4.0]);
    every_way(f, &x, &[&[1.0, 1.0, 2.0, 3.0]], &[1.0, 1.0, 2.0, 3.0]);
}

/// pytorch/pytorch#139789: a function that writes an argument is called with two tensors, then with two views of one that
/// overlap. What it gives for the views is what it gives at once, or it refuses them.
#[test]
fn views_of_one_tensor_after_two_tensors() {
    let f = |x: Tensor, y: Tensor| {
        x.mul_(2.0);
        x + y
    };
    let part =
        |x: &Tensor, start: i64, stop: i64| x.slice_with(Slice { start: start.into(), stop: Some(stop.into()), ..d() });
    let ones = |n: usize| Tensor::from_vec(vec![1.0f64; n], n);
    let base = ones(8);
    assert_eq!(f(part(&base, 0, 4), part(&base, 2, 6)).to_f64().unwrap(), [4.0, 4.0, 3.0, 3.0]);
    for caching in [Caching::Constant, Caching::Symbolic, Caching::Off] {
        let compiled = jit(f).caching(caching);
        assert_eq!(compiled.call((ones(4), ones(4))).unwrap().to_f64().unwrap(), [3.0; 4]);
        let base = ones(8);
        match compiled.call((part(&base, 0, 4), part(&base, 2, 6))) {
            Ok(sum) => assert_eq!(sum.to_f64().unwrap(), [4.0, 4.0, 3.0, 3.0]),
            Err(e) => assert_eq!(e.code(), "E749"),
        }
    }
}

/// pytorch/xla#5430 and its kind: a result that is a view of an argument is written, and the argument stays what it is.
#[test]
fn a_result_that_is_a_view_of_an_argument_is_written() {
    let x = Tensor::from([1.0f64, 2.0]);
    let flat = jit(|x: Tensor| x.reshape(-1)).call(x.clone()).unwrap();
    flat.mul_(2.0);
    assert_eq!((flat.to_f64().unwrap(), x.to_f64().unwrap()), (vec![2.0, 4.0], vec![1.0, 2.0]));
}
