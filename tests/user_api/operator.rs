//! An operator of one's own, written where it is used.

use fulgurite::prelude::*;

fulgurite::op! {
    /// Huber penalty of x - y.
    huber(x: T, y: T; delta: f64 = 1.0) -> T,
    promote: float,
    dtypes: float,
    expr: { let d = abs(x - y); if d <= delta { 0.5 * d * d } else { delta * (d - 0.5 * delta) } },
}

fn robust(w: &Tensor, x: &Tensor, y: &Tensor) -> Tensor {
    grad(w, |w| x.matmul(w).huber_with(y, Huber { delta: 0.5 }).mean())
}

#[test]
fn it_runs_and_has_a_gradient() {
    let w = Tensor::from([[1.0f64], [2.0]]);
    let x = Tensor::from([[1.0f64, 0.0], [0.0, 1.0]]);
    // x w - y = [0.25, -1.5]: inside the delta, and outside
    let y = Tensor::from([[0.75f64], [3.5]]);
    assert_eq!(robust(&w, &x, &y).to_f64().expect("a gradient"), [0.125, -0.25]);
}

#[test]
fn it_broadcasts_and_refuses_as_any_row() {
    let x = Tensor::from([1.0f32, 2.0]);
    assert_eq!(x.huber(2.0).to_vec::<f32>().expect("runs"), [0.5, 0.0]);
    let e = x.huber(Tensor::from([1.0f32, 2.0, 3.0])).check().expect_err("two and three");
    assert_eq!(e.code(), "E701", "{e}");
    let e = Tensor::from([1i64, 2]).huber(1).check().expect_err("integers");
    assert_eq!(e.code(), "E703", "{e}");
}

fulgurite::op! {
    /// Square root of what is not negative.
    root(x: T) -> T,
    promote: float,
    require: { x >= 0: "x must not be negative" },
    expr: sqrt(x),
}

#[test]
fn a_condition_on_elements_is_asked_with_and_without_a_gradient() {
    assert_eq!(Tensor::from([1.0f32, 4.0]).root().to_vec::<f32>().expect("runs"), [1.0, 2.0]);
    let wrong = Tensor::from([4.0f32, -1.0]);
    for result in [wrong.root(), grad(&wrong, |x| x.root().sum())] {
        let e = result.check().expect_err("a negative element");
        assert!(e.to_string().starts_with("error[E705]: `root`: x must not be negative"), "{e}");
    }
}

#[test]
fn a_condition_on_elements_of_a_part_is_asked_in_its_gradient() {
    let (x, variance) = (Tensor::from([1.0f32, 2.0]), Tensor::from([-1.0f32, 2.0]));
    let e = grad(&variance, |v| ops::gaussian_nll_loss(&x, &x, v)).check().expect_err("a negative variance");
    assert!(e.to_string().contains("variances must not be negative"), "{e}");
}
