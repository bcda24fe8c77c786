//! Functions, gradients, trees, shapes, options.

use fulgurite::ops::Sum;
use fulgurite::prelude::*;
use std::collections::BTreeMap;

fn close(got: &Tensor, want: &[f64]) {
    let got = got.to_f64().expect("no error on the way");
    assert!(got.len() == want.len() && got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?} for {want:?}");
}

#[test]
fn gradients_have_the_form_of_what_they_are_taken_by() {
    let p = BTreeMap::from([("a".to_owned(), Tensor::from([1.0f32, 2.0])), ("b".to_owned(), Tensor::from([3.0f32]))]);
    let (loss, g) = value_and_grad(&p, |p| (&p["a"] * &p["b"]).sum());
    assert_eq!(loss.item::<f32>().expect("a loss"), 9.0);
    close(&g["a"], &[3.0, 3.0]);
    close(&g["b"], &[3.0]);
}

#[test]
fn gradients_nest() {
    let x = Tensor::from([2.0f64, 3.0]);
    close(&grad(&x, |x| grad(x, |x| (x * x * x).sum()).sum()), &[12.0, 18.0]);
}

#[test]
fn forward_mode_agrees_with_reverse() {
    let x = Tensor::from([0.3f64, -0.7]);
    let f = |x: &Tensor| x.tanh().sum();
    let (_, forward) = jvp(&x, &Tensor::from([1.0f64, 0.0]), f).expect("runs");
    let reverse = grad(&x, f).to_f64().expect("runs");
    close(&forward, &reverse[..1]);
}

#[test]
fn products_with_the_second_derivative() {
    let (x, v) = (Tensor::from([1.0f64, 2.0]), Tensor::from([1.0f64, -1.0]));
    let (g, h) = hvp(&x, &v, |x| (x * x * x).sum() + x.prod()).expect("runs");
    close(&g, &[3.0 + 2.0, 12.0 + 1.0]);
    // [[6, 1], [1, 12]] v
    close(&h, &[6.0 - 1.0, 1.0 - 12.0]);
    let reverse = grad(&x, |x| (grad(x, |x| (x * x * x).sum() + x.prod()) * &v).sum());
    close(&reverse, &[5.0, -11.0]);
}

#[test]
fn captured_tensors_are_read_at_each_call() {
    let w = Tensor::from([2.0f32]);
    let f = jit(|x: Tensor| &x * &w);
    close(&f.call(Tensor::from([3.0f32])).expect("runs"), &[6.0]);
    w.set(&Tensor::from([5.0f32])).expect("same type");
    close(&f.call(Tensor::from([3.0f32])).expect("runs"), &[15.0]);
}

#[test]
fn numbers_of_the_run_do_not_compile_again() {
    let f = jit(|x: Tensor, scale: Tensor| x * scale);
    for scale in [1.0, 2.0, 3.0] {
        close(&f.call((Tensor::from([1.0f32]), Tensor::from(scale))).expect("runs"), &[scale]);
    }
    assert_eq!(f.stats().misses.len(), 1, "{}", f.stats());
}

#[test]
fn results_may_be_any_error() {
    let f = jit(|x: Tensor| -> std::result::Result<Tensor, String> {
        if x.rank() == 1 { Ok(x.sum()) } else { Err("give a vector".to_owned()) }
    });
    close(&f.call(Tensor::from([1.0f32, 2.0])).expect("a vector"), &[3.0]);
    let e = f.call(Tensor::from([[1.0f32]])).expect_err("a matrix");
    assert!(e.to_string().contains("give a vector"), "{e}");
}

#[test]
fn options_are_structs_with_defaults() {
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    close(&x.sum(), &[10.0]);
    let rows = x.sum_with(Sum { dims: [1].into(), ..d() });
    close(&rows, &[3.0, 7.0]);
    let kept = x.sum_with(Sum { dims: [-1].into(), keepdim: true, ..d() });
    assert_eq!(kept.rank(), 2);
}

#[test]
fn numbers_stand_beside_tensors() {
    let x = Tensor::from([1.0f32, 2.0]);
    close(&(2 * &x + 1.0 - &x / 2), &[2.5, 4.0]);
    assert_eq!((&x * 2).dtype(), DType::F32);
    assert_eq!((Tensor::from([1i64]) * 0.5).dtype(), DType::F32);
}

#[test]
fn pieces_are_taken_apart() {
    let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let [a, b, c] = x.chunk();
    close(&(a + b * c), &[16.0, 26.0]);
    // fewer pieces than names
    let [_, _, _, _, far] = x.reshape((2, 3)).chunk::<5>();
    assert!(far.check().is_err());
}

#[test]
fn a_function_is_called_from_several_threads() {
    let f = jit(|x: Tensor| x.exp().sum());
    std::thread::scope(|s| {
        let all: Vec<_> =
            (0..4).map(|_| s.spawn(|| f.call(Tensor::from([0.0f32, 0.0])).and_then(|t| t.item::<f32>()))).collect();
        for one in all {
            assert_eq!(one.join().expect("no panic").expect("runs"), 2.0);
        }
    });
}
