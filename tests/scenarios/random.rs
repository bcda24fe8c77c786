//! Random programs that ask of sizes: with symbolic sizes they give the bits of constant ones, whatever is called.

use fulgurite::ops::{Mean, Slice, Sum};
use fulgurite::prelude::*;
use fulgurite_tests::rng::Rng;

/// Programs (`FULGURITE_PROGRAMS=N` runs more), and calls of each.
const PROGRAMS: u64 = 60;
const CALLS: usize = 6;

fn ramp(sizes: &[usize], at: usize) -> Tensor {
    let n: usize = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + at) % 13) as f32 * 0.125 - 0.5).collect(), sizes)
}

/// Whether two shapes broadcast, as a user would ask.
fn fit(a: &Tensor, b: &Tensor) -> bool {
    let one = Dim::from(1);
    a.shape().iter().rev().zip(b.shape().iter().rev()).all(|(a, b)| a == b || *a == one || *b == one)
}

/// The program of a seed. What it draws does not depend on sizes; what it does with it may.
fn program(seed: u64, x: &Tensor, y: &Tensor) -> Tensor {
    let mut rng = Rng::new(seed);
    let mut values = vec![x.clone(), y.clone()];
    for _ in 0..3 + rng.below(7) {
        let (i, j) = (rng.below(values.len()), rng.below(values.len()));
        let (a, b) = (values[i.max(j)].clone(), values[rng.below(values.len())].clone());
        let shape = a.shape();
        let axis = rng.below(4);
        let (at, small) = (axis as i64, Dim::from(2 + rng.below(4)));
        let inside = axis < shape.len();
        let made = match rng.below(13) {
            0 | 1 if fit(&a, &b) => &a + &b,
            2 if fit(&a, &b) => &a * &b,
            3 if inside => a.sum_with(Sum { dims: at.into(), keepdim: small > Dim::from(3), ..d() }),
            4 if inside => a.mean_with(Mean { dims: at.into(), ..d() }),
            5 if inside && shape[axis] > small => {
                a.slice_with(Slice { dim: at.into(), start: 1.into(), stop: Some(shape[axis] - 1), ..d() })
            }
            6 if shape.len() > 1 => a.transpose(0, 1),
            7 if inside => cat(&[a.transpose(0, at), a.transpose(0, at) * 2.0]),
            8 if inside && (a.numel() % small).is(0) => a.reshape((small, -1)),
            9 if inside => a.softmax(at),
            10 if shape.len() < 4 => a.unsqueeze(0),
            11 if inside => &a * shape[axis] + arange(*shape.last().unwrap_or(&small)).cast(DType::F32),
            12 => match a.numel() < small * small {
                true => a.tanh(),
                false => a * 0.5,
            },
            _ => continue,
        };
        // no size grows beyond what a test can run
        if made.numel() < Dim::from(3000) {
            values.push(made);
        }
    }
    values.iter().map(|v| (v * 0.25).sum()).reduce(|a, b| a + b).unwrap_or_else(|| x.sum())
}

#[test]
fn random_programs_mean_the_same_at_all_sizes() {
    let count = std::env::var("FULGURITE_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    let (mut hits, mut misses) = (0, 0);
    for seed in 0..count {
        let f = move |x: Tensor, y: Tensor| {
            let (value, (gx, gy)) = value_and_grad(&(x, y), |(x, y)| program(seed, x, y));
            (value, gx, gy)
        };
        let (symbolic, constant) = (jit(f).caching(Caching::Symbolic), jit(f));
        let mut rng = Rng::new(seed ^ 0x5eed);
        for call in 0..CALLS {
            let (a, b, c) = (1 + rng.below(6), 1 + rng.below(6), 1 + rng.below(6));
            let other = if seed % 2 == 0 { vec![b] } else { vec![a, c] };
            let (x, y) = (ramp(&[a, b], call), ramp(&other, call + 5));
            let run = |f: Result<(Tensor, Tensor, Tensor)>| {
                let (v, x, y) = f.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                [v, x, y].map(|t| {
                    (t.shape(), t.to_f64().expect("numbers").into_iter().map(f64::to_bits).collect::<Vec<_>>())
                })
            };
            let (got, want) = (run(symbolic.call((x.clone(), y.clone()))), run(constant.call((x, y))));
            assert_eq!(
                got,
                want,
                "seed {seed}, call {call} at {a} {b} {c}\n{}",
                symbolic.prologue().unwrap_or_default()
            );
        }
        let stats = symbolic.stats();
        assert!(!stats.to_string().contains("can't be"), "seed {seed}: {stats}");
        hits += stats.plans;
        misses += stats.misses.len();
    }
    // most calls differ in sizes, and many of them need no new program
    assert!(hits > count, "{hits} plans, {misses} programs");
    println!("{hits} plans, {misses} programs");
}
