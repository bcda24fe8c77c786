//! P07: the derivative of the gradient.

use super::cases::{self, Verdict};
use super::derivatives::{STEP, decide, float_results, in_f64, product, random_like, shifted, step};
use fulgurite_core::eval::nest::Array;
use fulgurite_tests::bridge;
use fulgurite_tests::calls::Wish;
use fulgurite_tests::rows::TestRow;
use libtest_mimic::Failed;

/// The difference quotient of a gradient, relative to the sum of the magnitudes of its terms: ten times that of a first
/// derivative, because the gradient carries rounding of its own.
const QUOTIENT: f64 = 1e-5;

/// `<w, vjp(x + s) - vjp(x - s)> / 2 = <vjp of vjp (w), s>`
pub fn derivative(row: &'static TestRow, test: &str) -> Result<(), Failed> {
    cases::each(row, test, 4, Wish::smooth, |call, rng| {
        let x = bridge::floats(call);
        let outs = float_results(call)?;
        if !in_f64(&outs) {
            return Ok(Verdict::Discarded);
        }
        let g = random_like(&outs, rng);
        let w = random_like(&x, rng);
        let second = bridge::vjp_of_vjp(call, &x, &g, &w).map_err(|e| format!("vjp of vjp: {e}"))?;
        let s: Vec<_> = x.iter().map(|a| step(a, rng)).collect();
        let mut ends = [0.0; 2];
        let mut hashes = Vec::new();
        let mut largest = 0.0f64;
        for sign in [-1.0, 0.0, 1.0] {
            let moved = shifted(&x, &s, sign);
            hashes.push(decide(call, &bridge::with_floats(call, &moved))?.1);
            if sign != 0.0 {
                let (_, grads) = bridge::vjp(call, &moved, &g).map_err(|e| format!("vjp: {e}"))?;
                let (value, size) = product(&grads, &w);
                ends[(sign > 0.0) as usize] = value;
                largest = largest.max(size);
            }
        }
        if hashes.iter().any(|h| *h != hashes[0]) || ends.iter().any(|e| !e.is_finite()) {
            return Ok(Verdict::Discarded);
        }
        let moved = (ends[1] - ends[0]) / 2.0;
        let (predicted, size) = product(&second, &s);
        // rounding of the gradient itself: some hundred units in the last place of its terms and of the result's
        let largest = largest + product(&g, &outs).1;
        // terms of order one may cancel inside, as where one observation varies about its mean
        let total = |a: &[Array<f64>]| a.iter().flat_map(bridge::values).map(|x| x.abs()).sum::<f64>();
        let inside = f64::EPSILON * STEP * total(&g) * total(&w);
        let allowed = QUOTIENT * size + 100.0 * f64::EPSILON * largest + QUOTIENT * STEP * largest * STEP + inside;
        if (moved - predicted).abs() > allowed || predicted.is_nan() {
            return Err(format!(
                "the second derivative says {predicted:e}, the gradient moves by {moved:e}; {allowed:.1e} is allowed"
            ));
        }
        Ok(Verdict::Held)
    })
}
