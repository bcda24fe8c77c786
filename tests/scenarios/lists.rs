//! Lists of many tensors, which are joined in parts.

use fulgurite::ops::{self, Cat, Stack};
use fulgurite::prelude::*;

/// Tensors of different numbers.
fn parts(count: usize) -> Vec<Tensor> {
    (0..count).map(|i| Tensor::from_vec(vec![i as f64, 0.5 - i as f64, 7.0], [3, 1])).collect()
}

fn bits(t: &Tensor) -> Vec<u64> {
    t.to_f64().expect("numbers").into_iter().map(f64::to_bits).collect()
}

type Join = fn(&[Tensor], i64) -> Tensor;

/// What a join gives at once and compiled, and its gradient by each tensor, is what it gives of the list cut in two.
#[test]
fn long_lists_are_joined_as_short_ones() {
    let joins: [(&str, Join); 2] = [
        ("cat", |xs, dim| ops::cat_with(xs, Cat { dim: dim.into() })),
        ("stack", |xs, dim| ops::stack_with(xs, Stack { dim: dim.into() })),
    ];
    for (name, join) in joins {
        for count in [64, 65, 1000, 4000] {
            for dim in [0, -1] {
                let xs = parts(count);
                let (left, right) = xs.split_at(count / 2);
                let cut =
                    [left, right].map(|half| half.chunks(50).map(|few| join(few, dim)).collect::<Vec<_>>()).concat();
                let want = ops::cat_with(&cut, Cat { dim: dim.into() });
                let got = join(&xs, dim);
                let compiled = jit(move |xs: Vec<Tensor>| join(&xs, dim)).call(xs.clone()).expect("runs");
                assert_eq!((got.shape(), bits(&got)), (want.shape(), bits(&want)), "{name} of {count} along {dim}");
                assert_eq!(bits(&compiled), bits(&want), "{name} of {count} along {dim}, compiled");
            }
        }
        let xs = parts(300);
        let compiled = jit(move |xs: Vec<Tensor>| grad(&xs, |xs: &Vec<Tensor>| join(xs, 0).square().sum()));
        for (x, g) in xs.iter().zip(compiled.call(xs.clone()).expect("runs")) {
            assert_eq!(bits(&g), bits(&(x * 2.0)), "{name}");
        }
    }
}

/// The gradient of what takes a tensor apart into many is a long list too.
#[test]
fn a_long_sequence_has_a_gradient() {
    let x = ops::arange(1500).cast(DType::F64).reshape((1500, 1));
    let g = grad(&x, |x| ops::unbind(x).iter().fold(Tensor::scalar(0.0f64), |sum, row| sum * 0.5 + row.sum()));
    let want: Vec<f64> = (0..1500).map(|i| 0.5f64.powi(1499 - i)).collect();
    assert_eq!(g.to_f64().expect("numbers"), want);
}

/// Where the dtypes differ the list is joined at once, since the dtype of the result follows from all of it.
#[test]
fn a_list_of_too_many_dtypes_is_refused_with_the_number_that_fits() {
    let mut xs = parts(2000);
    xs[1] = xs[1].cast(DType::F32);
    let e = ops::cat(&xs).to_f64().expect_err("too long");
    assert_eq!(e.code(), "E704");
    assert!(e.to_string().contains("of at most 1024 tensors each"), "{e}");
}
