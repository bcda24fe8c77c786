//! P07, P20: the derivative of a gradient, and that of this derivative.

use super::cases::{self, Verdict};
use super::derivatives::{self, STEP, decide, float_results, in_f64, product, random_like, shifted, step};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Wish};
use fulgurite_tests::draws::Counts;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// The difference quotient of a first derivative, relative to the sum of the magnitudes of its terms. That of each further
/// order is allowed ten times as much, because a derivative carries rounding of its own.
const QUOTIENT: f64 = 1e-6;

/// The error of a quotient, in differences between it and the one with half its step, as in [`super::derivatives`].
const BENDS: f64 = 1.5;
/// The rounding of a quotient, in the largest of three that were seen.
const ROUNDS: f64 = 8.0;

/// Rows with a gradient that can be differentiated. A gradient that a rule states by convention is a function like any
/// other. A row that detaches values on purpose has no function of which its second derivative could be the derivative.
pub fn applies(row: &TestRow) -> bool {
    derivatives::has_floats(row) && (row.row.deviates.is_none() || !row.detaches())
}

/// `<w, vjp(x + s) - vjp(x - s)> / 2 = <vjp of vjp (w), s>`
pub fn second(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    derivative(row, test, 2, 4, Counts::enough)
}

/// The derivative of the function that gives the second derivative, against the quotient of its differences. A row that is
/// clamped at the end that it reaches discards most calls, so one that is compared is enough.
pub fn third(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    derivative(row, test, 3, 6, Counts::any)
}

/// Holds the derivative of order `order` against the difference quotient of the one below it, on `calls` calls; `enough`
/// says whether enough of them were compared.
fn derivative(
    row: &'static TestRow,
    test: &str,
    order: usize,
    calls: usize,
    enough: impl Fn(Counts) -> Result<(), String>,
) -> Result<(), Failed> {
    let close = QUOTIENT * 10f64.powi(order as i32 - 1);
    let drawn = |case: usize, rng: &mut Rng| calls::generate(row, &Wish::smooth(case), rng);
    let counts = cases::hold(test, calls, drawn, |call, rng| {
        let x = bridge::floats(call);
        let outs = float_results(call)?;
        if !in_f64(&outs) {
            return Ok(Verdict::Discarded);
        }
        let mut weights = vec![random_like(&outs, rng)];
        weights.extend((1..order).map(|_| random_like(&x, rng)));
        let (last, below) = (&weights[order - 1], &weights[..order - 1]);
        let slopes = bridge::vjp_of_order(call, &x, &weights).map_err(|e| format!("order {order}: {e}"))?;
        let s: Vec<_> = x.iter().map(|a| step(a, rng)).collect();
        // ⟨last, the derivative below⟩ this far along the step, and the sum of the magnitudes of its terms
        let below = |far: f64| -> Result<(f64, f64), String> {
            let grads = bridge::vjp_of_order(call, &shifted(&x, &s, far), below);
            Ok(product(&grads.map_err(|e| format!("order {}: {e}", order - 1))?, last))
        };
        let moved = |far: f64| -> Result<f64, String> { Ok((below(far)?.0 - below(-far)?.0) / (2.0 * far)) };
        let decided = |far: f64| Ok::<_, String>(decide(call, &bridge::with_floats(call, &shifted(&x, &s, far)))?.1);
        let ((above, of_above), (under, of_under)) = (below(1.0)?, below(-1.0)?);
        let here = decided(0.0)?;
        if decided(1.0)? != here || decided(-1.0)? != here || !above.is_finite() || !under.is_finite() {
            return Ok(Verdict::Discarded);
        }
        let quotient = (above - under) / 2.0;
        let (predicted, size) = product(&slopes, &s);
        // rounding of the gradient itself: some hundred units in the last place of its terms and of the result's
        let largest = of_above.max(of_under) + product(&weights[0], &outs).1;
        // terms of order one may cancel inside, as where one observation varies about its mean
        let total = |a: &[Array<f64>]| a.iter().flat_map(bridge::values).map(|x| x.abs()).sum::<f64>();
        let inside = f64::EPSILON * STEP * weights.iter().map(|w| total(w)).product::<f64>();
        let allowed = close * size + 100.0 * f64::EPSILON * largest + close * STEP * largest * STEP + inside;
        let off = (quotient - predicted).abs();
        if off <= allowed {
            return Ok(Verdict::Held);
        }
        // beside a pole the quotient is another one with half the step; where large terms cancel it is rounding, which a
        // step that is none shows
        let bends = BENDS * (moved(0.5)? - quotient).abs();
        let rounds = [1e-6, 2e-6, 3e-6].into_iter().try_fold(0.0f64, |most, far| -> Result<f64, String> {
            Ok(most.max(ROUNDS * (moved(far)? * far).abs()))
        })?;
        if !predicted.is_nan() && off <= bends.max(rounds) {
            return Ok(Verdict::Discarded);
        }
        Err(format!(
            "the derivative of order {order} says {predicted:e}, the one below it moves by {quotient:e}; {allowed:.1e} is \
             allowed"
        ))
    })?;
    Ok(counts.map_or(Ok(()), enough)?)
}
