//! Rows whose gradient has none: what is refused, and what is not.

use super::program::close;
use fulgurite::prelude::*;

mod rows {
    fulgurite::op! {
        /// The square of x, whose gradient forgets where it came from.
        forgetful(x: T) -> T,
        promote: default,
        dtypes: float,
        expr: { x * x },
        grad: { x: 2 * g * detach(x) },
        once: "its gradient detaches x",
    }
}
use rows::forgetful;

fn first(x: &Tensor) -> Tensor {
    grad(x, |x| forgetful(x).sum())
}

#[track_caller]
fn refused(e: Option<&fulgurite::Error>) {
    let e = e.expect("a second derivative");
    assert_eq!(e.code(), "E725", "{e}");
    let text = e.to_string();
    assert!(
        text.contains("`forgetful`") && text.contains("its gradient detaches x") && text.contains(file!()),
        "{text}"
    );
}

#[test]
fn the_first_gradient_is_right_and_the_second_refused() {
    let x = Tensor::from([3.0, -1.0]);
    close(&first(&x).to_f64().expect("a gradient"), &[6.0, -2.0]);
    refused(grad(&x, |x| (first(x) * x).sum()).error());
    refused(hvp(&x, &x, |x| forgetful(x).sum()).err().as_ref());
    refused(hessian(&x, |x| forgetful(x).sum()).err().as_ref());
    // a batch of gradients is differentiated like one
    let rows = Tensor::from([[3.0, -1.0], [2.0, 1.0]]);
    refused(grad(&rows, |x| vmap(x, first).map_or_else(Tensor::poisoned, |all| all.sum())).error());
    // and so are tangents, forward again or backward
    let along = |x: &Tensor| jvp(x, x, |x| forgetful(x)).map_or_else(Tensor::poisoned, |(_, t)| t.sum());
    refused(grad(&x, along).error());
}

#[test]
fn what_does_not_need_it_is_not_refused() {
    let x = Tensor::from([3.0, -1.0]);
    // a constant
    close(&grad(&x, |x| (first(x).detach() * x).sum()).to_f64().expect("a gradient"), &[6.0, -2.0]);
    // by something else
    let w = Tensor::from([1.0, 2.0]);
    close(&grad(&w, |w| (first(&x) * w).sum()).to_f64().expect("a gradient"), &[6.0, -2.0]);
    // the gradient is only passed on
    let passed = try_value_and_grad(&x, |x| Ok::<_, fulgurite::Error>((forgetful(x).sum(), first(x))));
    let ((_, inner), outer) = passed.expect("one gradient");
    close(&inner.to_f64().expect("data"), &[6.0, -2.0]);
    close(&outer.to_f64().expect("data"), &[6.0, -2.0]);
}
