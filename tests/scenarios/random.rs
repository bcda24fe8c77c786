//! Random programs that ask of sizes: with symbolic sizes they give the bits of constant ones, whatever is called.

use fulgurite::ops::{Mean, Slice, Sum, arange, cat};
use fulgurite::prelude::*;
use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::rng::Rng;
use std::cell::Cell;

/// Programs, and calls of each.
const PROGRAMS: usize = 60;
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

/// A program, as what its choices are drawn from: whatever the sizes are, they are the same choices.
struct Program {
    rng: Rng,
    /// Sizes of the calls, and the rank of the second argument.
    calls: Vec<[usize; 3]>,
    flat: bool,
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a program that is called with sizes {:?}", self.calls)
    }
}

/// What it draws does not depend on sizes; what it does with it may.
fn program(mut rng: Rng, x: &Tensor, y: &Tensor) -> Tensor {
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
    let (hits, misses) = (Cell::new(0), Cell::new(0));
    let drawn = |case: usize, rng: &mut Rng| {
        let calls = (0..CALLS).map(|_| [(); 3].map(|()| 1 + rng.below(6))).collect();
        Some(Program { calls, flat: case.is_multiple_of(2), rng: rng.clone() })
    };
    let name = "random::random_programs_mean_the_same_at_all_sizes";
    let property = Property { name, test: "--test scenarios", cases: PROGRAMS, shrinks: true };
    let held = draws::hold(&property, drawn, |drawn, _| {
        let rng = drawn.rng.clone();
        let f = move |x: Tensor, y: Tensor| {
            let (value, (gx, gy)) = value_and_grad(&(x, y), |(x, y)| program(rng.clone(), x, y));
            (value, gx, gy)
        };
        let (symbolic, constant) = (jit(f.clone()).caching(Caching::Symbolic), jit(f));
        for (call, &[a, b, c]) in drawn.calls.iter().enumerate() {
            let other = if drawn.flat { vec![b] } else { vec![a, c] };
            let (x, y) = (ramp(&[a, b], call), ramp(&other, call + 5));
            let run = |f: Result<(Tensor, Tensor, Tensor)>| {
                let (v, x, y) = f.map_err(|e| e.to_string())?;
                let one = |t: Tensor| {
                    let numbers = t.to_f64().map_err(|e| e.to_string())?;
                    Ok((t.shape(), numbers.into_iter().map(f64::to_bits).collect::<Vec<_>>()))
                };
                [v, x, y].into_iter().map(one).collect::<std::result::Result<Vec<_>, String>>()
            };
            let (got, want) = (run(symbolic.call((x.clone(), y.clone())))?, run(constant.call((x, y)))?);
            if got != want {
                let prologue = symbolic.prologue().unwrap_or_default();
                return Err(format!("call {call} at {a} {b} {c} gives {got:?}, not {want:?}\n{prologue}"));
            }
        }
        let stats = symbolic.stats();
        if stats.to_string().contains("can't be") {
            return Err(stats.to_string());
        }
        hits.set(hits.get() + stats.plans);
        misses.set(misses.get() + stats.misses.len());
        Ok(Verdict::Held)
    });
    let held = held.unwrap_or_else(|fault| panic!("{fault}"));
    let (hits, misses) = (hits.get(), misses.get());
    // most calls differ in sizes, and many of them need no new program
    assert!(held.is_none_or(|counts| hits > counts.asked as u64), "{hits} plans, {misses} programs");
    println!("{hits} plans, {misses} programs");
}
