//! A crate with rows of its own.
//!
//! `ops.yaml` has three rows: one pointwise, one composite of upstream rows, one in index notation. The build script
//! checks them and makes from them what upstream rows get: functions and methods, kernels, gradients, refusals.
//!
//! ```
//! use fulgurite::prelude::*;
//! use fulgurite_downstream::{DownstreamOps, ops::Swish};
//!
//! let x = Tensor::from([1.0f32, 2.0, 4.0]);
//! let y = x.swish_with(Swish { beta: 2.0 }).moving_mean(2).unit_length();
//! assert_eq!(y.to_vec::<f32>()?.len(), 2);
//! # Ok::<(), fulgurite::Error>(())
//! ```

fulgurite::database!();

#[cfg(test)]
mod tests {
    use super::{DownstreamOps, ops};
    use fulgurite::prelude::*;

    fn close(got: &Tensor, want: &[f64]) {
        let got = got.to_f64().expect("no error on the way");
        assert_eq!(got.len(), want.len(), "{got:?}");
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?} for {want:?}");
    }

    #[test]
    fn rows_run() {
        let x = Tensor::from([3.0f64, 4.0]);
        close(&x.unit_length(), &[0.6, 0.8]);
        close(&Tensor::from([1.0f64, 3.0, 8.0]).moving_mean(2), &[2.0, 5.5]);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        close(&x.swish_with(ops::Swish { beta: 0.5 }), &[3.0 * sigmoid(1.5), 4.0 * sigmoid(2.0)]);
    }

    /// Derived, also through an index row and a composite.
    #[test]
    fn rows_have_gradients() {
        let x = Tensor::from([1.0f64, 3.0, 8.0]);
        close(&grad(&x, |x| (x.moving_mean(2) * Tensor::from([1.0f64, 10.0])).sum()), &[0.5, 5.5, 5.0]);
        // the length of a normalised vector does not change
        close(&grad(&x, |x| x.unit_length().square().sum()), &[0.0, 0.0, 0.0]);
    }

    #[test]
    fn rows_refuse() {
        let x = Tensor::from([1.0f64, 3.0]);
        let e = x.moving_mean(3).to_f64().expect_err("wider than the axis");
        assert_eq!(e.code(), "E705", "{e}");
        assert!(e.to_string().contains("width must lie in 1..=L"), "{e}");
    }

    /// Upstream and downstream operators mix in one compiled function.
    #[test]
    fn rows_are_compiled() {
        let f = jit(|x: Tensor| x.gelu().swish() + x.unit_length());
        let x = Tensor::from([0.5f32, -1.0]);
        let (once, again) = (f.call(x.clone()).expect("runs"), f.call(x.clone()).expect("runs"));
        assert_eq!(once.to_vec::<f32>().expect("f32"), again.to_vec::<f32>().expect("f32"));
        assert_eq!(f.stats().hits, 1);
    }
}
