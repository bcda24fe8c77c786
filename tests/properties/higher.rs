//! P07, P20: second and third derivatives.

use super::cases::{self, Verdict};
use super::derivatives::{self, STEP, decide, float_results, in_f64, product, random_like, shifted, step};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_tests::bridge;
use fulgurite_tests::calls::{self, Wish};
use fulgurite_tests::draws::Counts;
use fulgurite_tests::rng::Rng;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// The allowed error of the difference quotient of a function, relative to the sum of the magnitudes of its terms. Each
/// order of derivative is allowed ten times as much as the one before, because a derivative carries rounding of its
/// own.
const QUOTIENT: f64 = 1e-6;

/// The allowed error of a quotient, as a multiple of its difference from the quotient with half the step, as in
/// [`super::derivatives`].
const BENDS: f64 = 1.5;
/// The allowed rounding error of a quotient, as a multiple of the largest of three that are measured.
const ROUNDS: f64 = 8.0;

/// Whether the row has a gradient that can be differentiated. A gradient that a rule states by convention is a function
/// like any other. But if a row detaches values on purpose, its second derivative is not the derivative of its
/// gradient.
pub fn applies(row: &TestRow) -> bool {
    derivatives::has_f64(row) && (row.row.deviates.is_none() || !row.detaches())
}

/// P07: `<w, vjp(x + s) - vjp(x - s)> / 2 = <vjp of vjp (w), s> = <w, jvp of vjp (s)>`.
pub fn second(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    derivative(row, test, 2, 4, Counts::enough)
}

/// P20: the third derivative equals the difference quotient of the second. A row that clamps at a bound which its
/// values reach discards most calls, so one conclusive call is enough.
pub fn third(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    derivative(row, test, 3, 6, Counts::any)
}

/// Compares the derivative of order `order` with the difference quotient of the one below it, on `calls` calls;
/// `enough` decides whether enough of them were conclusive.
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
        let (last, lower) = (&weights[order - 1], &weights[..order - 1]);
        let slopes = bridge::vjp_of_order(call, &x, &weights).map_err(|e| format!("order {order}: {e}"))?;
        let s: Vec<_> = x.iter().map(|a| step(a, rng)).collect();
        let pushed =
            bridge::jvp_of_order(call, &x, &s, lower).map_err(|e| format!("forward over order {order}: {e}"))?;
        // ⟨last, the derivative below⟩ at this distance along the step, and the sum of the magnitudes of its terms.
        let below = |far: f64| -> Result<(f64, f64), String> {
            let grads = bridge::vjp_of_order(call, &shifted(&x, &s, far), lower);
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
        let (forward, other) = product(&pushed, last);
        // The rounding of the gradient itself: some hundred units in the last place of its terms and of the result's.
        let largest = of_above.max(of_under) + product(&weights[0], &outs).1;
        // Terms of order one may cancel inside, for example in the variance of a single observation.
        let total = |a: &[Array<f64>]| a.iter().flat_map(bridge::values).map(|x| x.abs()).sum::<f64>();
        let inside = f64::EPSILON * STEP * weights.iter().map(|w| total(w)).product::<f64>();
        let allowed = close * size + 100.0 * f64::EPSILON * largest + close * STEP * largest * STEP + inside;
        // the two modes round in other places, as the gradient does
        let apart = (forward - predicted).abs();
        if call.row.deviates.is_none() && (apart > allowed + close * other || forward.is_nan() != predicted.is_nan()) {
            return Err(format!("order {order}: reverse over reverse {predicted:e}, forward over reverse {forward:e}"));
        }
        let off = (quotient - predicted).abs();
        if off <= allowed {
            return Ok(Verdict::Held);
        }
        // Near a pole, the quotient changes with half the step. Where large terms cancel, the quotient is rounding
        // noise, which quotients with tiny steps show.
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
