//! A crate with rows and a tensor subclass of its own.
//!
//! `ops.yaml` has three rows: one pointwise, one composite of upstream rows, one in index notation, which also says what
//! it is on an upstream class; and the class `Fixed`. The build script checks them and makes from them what upstream
//! rows get: functions and methods, kernels, gradients, refusals.
//!
//! ```
//! use fulgurite::prelude::*;
//! use fulgurite_downstream::{DownstreamOps, ops::Swish};
//!
//! let x = Tensor::from([1.0f32, 2.0, 4.0]);
//! let y = x.swish_with(Swish { beta: 2.0 }).moving_mean(2).unit_length();
//! assert_eq!(y.to_vec::<f32>()?.len(), 2);
//!
//! // numbers with two decimal digits
//! let price = Tensor::from([1.25f32, 0.5]).to_fixed();
//! assert_eq!((&price + &price).field("q").to_vec::<i64>()?, [250, 100]);
//! # Ok::<(), fulgurite::Error>(())
//! ```

fulgurite::database!();

#[cfg(test)]
mod tests {
    use super::{DownstreamOps, classes, ops};
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

    fn cents(x: &Tensor) -> Vec<i64> {
        x.field("q").to_vec().expect("a field")
    }

    fn digits(x: &Tensor, digits: i64) -> Tensor {
        x.to_fixed_with(ops::ToFixed { digits: digits.into() })
    }

    /// Generated: the class's operators are those of the plain tensors, and so are their gradients.
    #[test]
    fn the_class_is_what_it_says() {
        fulgurite_tests::classes::hold("Fixed");
    }

    /// What programs see of the class, in compiled functions and at once.
    #[test]
    fn tensors_of_the_class_are_tensors() {
        let x = Tensor::from([1.256f32, -0.5]).to_fixed();
        assert_eq!((x.dtype(), cents(&x)), (DType::F32, vec![126, -50]));
        let f = jit(|x: Tensor| -(&x + &x)).keep_traces();
        let y = f.call(x.clone()).expect("runs");
        assert_eq!(cents(&y), [-252, 100]);
        assert!(f.trace("unrolled").expect("kept").contains("add(x.q, x.q)"));
        // plain where the class has no rule
        close(&(&x * &x).cast(DType::F64).plain(), &[1.26f32 as f64 * 1.26f32 as f64, 0.25]);
        let half = Tensor::from([0.5f32]).cast(DType::BF16).to_fixed();
        assert_eq!((half.dtype(), (&half + &half).dtype()), (DType::BF16, DType::BF16));
        assert_eq!(fulgurite::subclass::Subclassed::class(&x).expect("its class"), &classes::FIXED);
    }

    /// The metadata are part of what a program is compiled for.
    #[test]
    fn programs_are_compiled_for_the_metadata() {
        let x = Tensor::from([1.256f32]);
        let f = jit(|x: Tensor| x.amax());
        f.call(x.to_fixed()).expect("runs");
        f.call(x.to_fixed()).expect("runs");
        f.call(digits(&x, 1)).expect("runs");
        let stats = f.stats();
        assert_eq!((stats.hits, stats.misses.len()), (1, 2));
        assert!(stats.misses[1].reasons.join("; ").contains("`x.digits` was 2, is 1"), "{:?}", stats.misses[1].reasons);
    }

    #[test]
    fn what_the_class_refuses_is_told_at_the_call() {
        let x = Tensor::from([1.256f32]);
        let line = line!() + 1;
        let e = (x.to_fixed() + digits(&x, 3)).check().expect_err("other digits");
        assert_eq!((e.code(), e.loc().line, e.loc().file.ends_with("lib.rs")), ("E705", line, true), "{e}");
        assert!(e.to_string().contains("in the rule of `Fixed` for `add` (ops.yaml:"), "{e}");
        // with a plain one the sum is plain
        close(&(x.to_fixed() + Tensor::from([1.0f32])).cast(DType::F64), &[f64::from(1.26f32 + 1.0)]);
        let e = digits(&x, -1).check().expect_err("a condition of the row");
        assert!(e.to_string().contains("there are no fewer than no digits"), "{e}");
    }

    /// As if nothing had been rounded.
    #[test]
    fn the_gradient_goes_through() {
        let x = Tensor::from([1.256f64, -0.5]);
        close(&grad(&x, |x| (x.to_fixed() * Tensor::from([3.0f64, 4.0])).sum()), &[3.0, 4.0]);
    }

    #[test]
    fn checkpoints_hold_the_fields() {
        let path = std::env::temp_dir().join(format!("fulgurite-fixed-{}.safetensors", std::process::id()));
        let (saved, mut loaded) = (Tensor::from([1.256f32, 7.0]).to_fixed(), Tensor::from([0.0f32, 0.0]).to_fixed());
        save(&path, &saved).expect("is written");
        load(&path, &mut loaded).expect("is read");
        std::fs::remove_file(&path).expect("is there");
        assert_eq!(cents(&loaded), [126, 700]);
    }

    /// A row says what it is on a class of the upstream database.
    #[test]
    fn a_row_meets_an_upstream_class() {
        let masked = |mask: [bool; 4]| {
            let parts = vec![Operand::arg(Tensor::from([1.0f64, 3.0, 8.0, 2.0])), Operand::arg(Tensor::from(mask))];
            fulgurite::subclass::make(&fulgurite::classes::MASKED_TENSOR, parts)
        };
        let y = masked([true, true, true, false]).moving_mean(2);
        assert_eq!(y.field("mask").to_vec::<bool>().expect("a field"), [true, true, false]);
        close(&y.plain(), &[2.0, 5.5, 0.0]);
        let law = fulgurite_tests::classes::laws(&|class| class == "MaskedTensor")
            .into_iter()
            .find(|law| law.name == "MaskedTensor.moving_mean::p18_operators");
        law.expect("is generated").check().expect("holds");
    }
}
