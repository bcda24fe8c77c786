//! W1, W2: chains of pointwise operators and their gradients. W11: the cost of a call and of a line.

use crate::work::{Made, Pure, fill};
use fulgurite::prelude::*;

fn chain(x: &Tensor, b: &Tensor, c: &Tensor) -> Tensor {
    let t = (x * b + c).tanh();
    let t = (t + x * 0.5).sigmoid();
    &t / (&t * &t + 1.0).sqrt()
}

fn arith(x: &Tensor, b: &Tensor, c: &Tensor) -> Tensor {
    let y = (x * b + c).maximum(0.0) * 0.5 + x;
    &y * &y - b
}

/// The workloads of this file.
pub fn make(name: &str) -> Option<Made> {
    Some(match name {
        "W1.chain" => forward(4096, chain),
        "W1.arith" => forward(4096, arith),
        "W1.small" => forward(64, chain),
        "W2.chain" => backward(4096),
        "W2.small" => backward(64),
        _ => return calls(name),
    })
}

fn inputs(rows: usize) -> (Tensor, Tensor, Tensor) {
    (fill(1, [rows, 1024], 2.0, 0.0), fill(2, [1024], 1.0, 0.0), fill(3, [rows, 1], 1.0, 0.0))
}

fn forward(rows: usize, f: fn(&Tensor, &Tensor, &Tensor) -> Tensor) -> Made {
    let (x, b, c) = inputs(rows);
    let run = jit(move |x: Tensor, b: Tensor, c: Tensor| f(&x, &b, &c));
    Pure::work(move || Ok(vec![run.call((x.clone(), b.clone(), c.clone()))?]))
}

fn backward(rows: usize) -> Made {
    let (args, g) = (inputs(rows), fill(4, [rows, 1024], 1.0, 0.0));
    let run = jit(|args: (Tensor, Tensor, Tensor), g: Tensor| vjp(&args, &g, |(x, b, c)| chain(x, b, c)));
    Pure::work(move || {
        let (_, (dx, db, dc)) = run.call((args.clone(), g.clone()))?;
        Ok(vec![dx, db, dc])
    })
}

/// Calls in one repetition of W11.
const CALLS: usize = 100;

/// W11.pwN and W11.mmN.
fn calls(name: &str) -> Option<Made> {
    let lines = |n: &str| n.parse::<usize>().ok().filter(|n| (1..=1000).contains(n));
    if let Some(n) = name.strip_prefix("W11.pw").and_then(lines) {
        let run = jit(move |x: Tensor| (0..n).fold(x.clone(), |t, _| t * 0.99 + &x));
        let x = fill(1, [16], 1.0, 0.0);
        return Some(repeated(x, move |x| run.call(x)));
    }
    let n = name.strip_prefix("W11.mm").and_then(lines)?;
    let run = jit(move |x: Tensor| (0..n).fold(x.clone(), |t, _| x.matmul(&t)));
    let x = fill(1, [4, 4], 0.5, 0.0);
    Some(repeated(x, move |x| run.call(x)))
}

fn repeated(x: Tensor, mut run: impl FnMut(Tensor) -> fulgurite::Result<Tensor> + 'static) -> Made {
    Pure::units(CALLS, move || {
        let mut last = run(x.clone())?;
        for _ in 1..CALLS {
            last = run(x.clone())?;
        }
        Ok(vec![last])
    })
}
