//! Random loops against their steps, written out: values, gradients, tangents, second derivatives, batches.

use fulgurite::prelude::*;
use fulgurite_tests::draws::{self, Property, Verdict};
use fulgurite_tests::rng::Rng;

/// Random bodies of loops.
const BODIES: usize = 80;

fn ramp(sizes: &[usize], at: usize) -> Tensor {
    let n: usize = sizes.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + at) % 13) as f64 * 0.125 - 0.5).collect::<Vec<f64>>(), sizes)
}

fn near(a: &[f64], b: &[f64]) -> bool {
    let one = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-7 * (1.0 + x.abs()) || x.to_bits() == y.to_bits();
    a.len() == b.len() && a.iter().zip(b).all(one)
}

/// A body that is drawn: what it draws does not depend on values.
fn body(mut rng: Rng, c: &Tensor, x: &Tensor, w: &Tensor) -> (Tensor, Tensor) {
    let mut values = vec![c.clone(), x.clone(), w.clone()];
    for _ in 0..1 + rng.below(5) {
        let a = values[rng.below(values.len())].clone();
        let b = values[rng.below(values.len())].clone();
        values.push(match rng.below(9) {
            0 => a.sin(),
            1 => a.tanh(),
            2 => &a * &b,
            3 => a + b,
            4 => a.sigmoid() - b * 0.3,
            5 => a.sum() * b * 0.1,
            6 => (&a * 0.2).exp(),
            7 => cond(&a.sum().gt(0.1), || &b * 0.7, || a.cos()).unwrap_or_else(Tensor::poisoned),
            _ => a.detach() * b,
        });
    }
    let last = values[values.len() - 1].tanh();
    (last, values[rng.below(values.len())].clone())
}

struct Body {
    rng: Rng,
    steps: usize,
    reverse: bool,
}

impl std::fmt::Display for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a body that runs {} times, in reverse: {}", self.steps, self.reverse)
    }
}

#[test]
fn random_loops_are_their_steps() {
    let drawn = |_: usize, rng: &mut Rng| {
        let (steps, reverse) = (1 + rng.below(4), rng.one_in(3));
        Some(Body { rng: rng.clone(), steps, reverse })
    };
    let name = "control_random::random_loops_are_their_steps";
    let property = Property { name, test: "--test scenarios", cases: BODIES, shrinks: true };
    let held = draws::hold(&property, drawn, |drawn, _| {
        let Body { rng, steps, reverse } = drawn;
        let looped = |(c, xs, w): &(Tensor, Tensor, Tensor)| {
            let step = |c: Tensor, x: Tensor| body(rng.clone(), &c, &x, w);
            let made = if *reverse { scan_reverse(c.clone(), xs, step) } else { scan(c.clone(), xs, step) };
            made.map_or_else(Tensor::poisoned, |(c, ys)| c.sum() + (ys * ramp(&[*steps, 1], 5)).sum())
        };
        let counted = |(c, xs, w): &(Tensor, Tensor, Tensor)| {
            let start = (Tensor::scalar(0i64), c.clone());
            let next = |(n, c): (Tensor, Tensor)| {
                let c = body(rng.clone(), &c, &xs.select(0, 0), w).0;
                (n + 1, c)
            };
            let made = while_loop(Some(steps + 1), start, |(n, _)| n.lt(*steps as i64), next);
            made.map_or_else(Tensor::poisoned, |(_, c)| c.sum())
        };
        let unrolled = |(c, xs, w): &(Tensor, Tensor, Tensor)| {
            let mut c = c.clone();
            let mut total = Tensor::scalar(0.0f64);
            for step in 0..*steps {
                let at = if *reverse { steps - 1 - step } else { step } as i64;
                let (next, y) = body(rng.clone(), &c, &xs.select(0, at), w);
                (c, total) = (next, total + (y * ramp(&[*steps, 1], 5).select(0, at)).sum());
            }
            c.sum() + total
        };
        let uncounted = |(c, xs, w): &(Tensor, Tensor, Tensor)| {
            (0..*steps).fold(c.clone(), |c, _| body(rng.clone(), &c, &xs.select(0, 0), w).0).sum()
        };
        let p = (ramp(&[3], 1), ramp(&[*steps, 3], 2), ramp(&[3], 3));
        let v = (ramp(&[3], 7), ramp(&[*steps, 3], 8), ramp(&[3], 9));
        let all = |f: &dyn Fn(&(Tensor, Tensor, Tensor)) -> Tensor| -> Result<Vec<Vec<f64>>> {
            let g = grad(&p, f);
            let (gj, tj) = (hvp(&p, &v, f)?, jvp(&p, &v, f)?);
            let compiled = try_value_and_grad(&p, |p| Ok::<_, Error>(f(p)))?.0;
            let batch = (ramp(&[2, 3], 1), ramp(&[2, *steps, 3], 2), ramp(&[2, 3], 3));
            let shared = p.2.clone();
            let slices = (batch.0.clone(), batch.1.clone());
            let apart = vmap(&slices, |(c, xs)| grad(&(c.clone(), xs.clone(), shared.clone()), f).0);
            let together = grad(&batch.0, |cs| {
                let each = vmap(&(cs.clone(), batch.1.clone()), |(c, xs)| f(&(c.clone(), xs.clone(), shared.clone())));
                each.map_or_else(Tensor::poisoned, |each| each.sum())
            });
            let outs = [f(&p), compiled, g.0, g.1, g.2, tj.1, gj.1.0, gj.1.1, gj.1.2];
            let mut outs = outs.iter().map(Tensor::to_f64).collect::<Result<Vec<_>>>()?;
            // a choice whose condition differs from slice to slice is refused
            match (apart.and_then(|t| t.to_f64()), together.to_f64()) {
                (Ok(apart), Ok(together)) => outs.extend([apart, together]),
                (Err(a), Err(b)) if a.code() == "E726" && b.code() == "E726" => {}
                (apart, together) => return Err(Error::new("E726", format!("{apart:?} {together:?}"))),
            }
            Ok(outs)
        };
        for (a, b) in [(&looped as &dyn Fn(&_) -> _, &unrolled as &dyn Fn(&_) -> _), (&counted, &uncounted)] {
            let (a, b) = (all(a).map_err(|e| e.to_string())?, all(b).map_err(|e| e.to_string())?);
            if a.len() != b.len() || a.iter().zip(&b).any(|(a, b)| !near(a, b)) {
                return Err(format!("the loop gives {a:?}\nits steps give {b:?}"));
            }
        }
        Ok(Verdict::Held)
    });
    held.unwrap_or_else(|fault| panic!("{fault}"));
}
