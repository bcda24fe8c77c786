//! Copies of weights that do not change between runs. No other test may run in this process, because the limit of kept
//! bytes is one for all programs.

#![allow(missing_docs)]

mod common;

use common::database;
use fulgurite_core::Name;
use fulgurite_kernels::abi::Level;
use fulgurite_runtime::executors::{kept_bytes, set_kept_limit};
use fulgurite_runtime::operand::Operand;
use fulgurite_runtime::tensor::Dims;
use fulgurite_runtime::{Tensor, api, jit, symbol};

/// The product with a weight that is stored as PyTorch stores it: a row for each feature of the result.
fn linear(x: &Tensor, w: &Tensor) -> Tensor {
    database();
    let find = |name| symbol::find(Name::new(name)).unwrap();
    let turned = api::call_one(find("permute"), vec![w.arg(), Dims::from([1, 0]).value()]);
    api::call_one(find("matmul"), vec![x.arg(), turned.arg()])
}

/// Numbers that are no multiples of each other.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1013) as f32 / 1013.0 - 0.4).collect()
}

fn tensor(shape: [usize; 2], seed: usize) -> Tensor {
    Tensor::from_vec(numbers(shape[0] * shape[1], seed), shape)
}

fn bits(x: &Tensor) -> Vec<u32> {
    x.to_vec::<f32>().expect("f32").iter().map(|x| x.to_bits()).collect()
}

#[test]
fn weights_that_stay_are_kept_and_those_that_change_are_not() {
    // without fused multiply-add no product reads lines, so none keeps a copy of them
    if Level::current() == Level::Baseline {
        return;
    }
    let (rows, depth, columns) = (37, 96, 200);
    let run = jit(|x: Tensor, w: Tensor| linear(&x, &w));
    let at_once = |x: &Tensor, w: &Tensor| bits(&linear(x, w));
    let x = tensor([rows, depth], 1);
    let w = tensor([columns, depth], 2);
    let wanted = at_once(&x, &w);
    let call = |x: &Tensor, w: &Tensor| bits(&run.call((x.clone(), w.clone())).unwrap());
    assert_eq!(call(&x, &w), wanted);
    assert_eq!(kept_bytes(), 0, "one run says nothing about the next");
    for _ in 0..3 {
        assert_eq!(call(&x, &w), wanted);
        assert!(kept_bytes() >= 4 * depth * columns);
    }
    // another input, the same weight
    let y = tensor([rows, depth], 3);
    assert_eq!(call(&y, &w), at_once(&y, &w));
    // another weight
    let v = tensor([columns, depth], 4);
    for _ in 0..6 {
        assert_eq!(call(&x, &v), at_once(&x, &v));
    }
    // weights that change in each run
    for seed in 5..9 {
        let w = tensor([columns, depth], seed);
        assert_eq!(call(&x, &w), at_once(&x, &w));
    }
    assert_eq!(kept_bytes(), 0);
    set_kept_limit(0);
    for _ in 0..9 {
        assert_eq!(call(&x, &w), wanted);
    }
    assert_eq!(kept_bytes(), 0);
    set_kept_limit(256 << 20);
    for _ in 0..9 {
        assert_eq!(call(&x, &w), wanted);
    }
    assert!(kept_bytes() > 0);
    drop(run);
    assert_eq!(kept_bytes(), 0, "a program takes its copies with it");
    // weights of windows of 3 × 3, whose transform is kept where the convolution has one
    let (channels, side) = (32, 16);
    let image = Tensor::from_vec(numbers(channels * side * side, 11), [channels, side, side]);
    let weights = |seed| Tensor::from_vec(numbers(channels * channels * 9, seed), [channels, channels, 3, 3]);
    let convolve =
        |x: &Tensor, w: &Tensor| api::call_one(symbol::find(Name::new("windows")).unwrap(), vec![x.arg(), w.arg()]);
    let convolution = jit(move |x: Tensor, w: Tensor| convolve(&x, &w));
    for seed in [12, 13] {
        let w = weights(seed);
        let wanted = bits(&convolve(&image, &w));
        for _ in 0..4 {
            assert_eq!(bits(&convolution.call((image.clone(), w.clone())).unwrap()), wanted);
        }
        assert!(kept_bytes() >= 4 * 16 * channels * channels);
    }
    drop(convolution);
    assert_eq!(kept_bytes(), 0);
    // a weight that a step replaces: the last owner gives it away, so that its copy goes too
    let step = jit(|x: Tensor, w: Tensor| (linear(&x, &w), &w * 2));
    let mut w = tensor([columns, depth], 10);
    for _ in 0..4 {
        let want = (at_once(&x, &w), bits(&(&w * 2)));
        let (y, next) = step.call((x.clone(), w)).unwrap();
        assert_eq!((bits(&y), bits(&next)), want);
        assert_eq!(kept_bytes(), 0);
        w = next;
    }
    for _ in 0..4 {
        step.call((x.clone(), w.clone())).unwrap();
    }
    assert!(kept_bytes() > 0, "others have a share, so the step does not replace it");
    let want = (at_once(&x, &w), bits(&(&w * 2)));
    let (y, next) = step.call((x.clone(), w)).unwrap();
    assert_eq!((bits(&y), bits(&next)), want);
    assert_eq!(kept_bytes(), 0);
}
