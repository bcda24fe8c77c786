//! E401 of a row that `deviates`: it may pick any subgradient at a kink; wherever the function is smooth, its rules
//! must give the derivative. A point is smooth where the derivative does not change around it.

use crate::check::gradients::arrays::declared::{Declared, Pair, Refuted, Seed, Way};
use crate::check::gradients::arrays::dense::Dense;
use crate::check::gradients::arrays::instance::{Instance, dot};
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::budget::{AROUND, CLOSER, OFF_KINKS};
use crate::check::gradients::search::Bench;
use crate::diag::Diag;

/// The distance from a point at which the derivative is taken again. [`SMOOTH`] is how much it may change on the way if
/// the point is smooth.
const STEP: f64 = 1e-6;
const SMOOTH: f64 = 1e-4;

/// Two numbers count as equal if they differ by at most this share of the terms that are summed.
const CLOSE: f64 = 1e-3;

/// Refuses `rule`, a `grad`, if it is not the derivative at a point around which the derivative does not change.
pub fn check(bench: &Bench, rule: &Declared) -> Option<Diag> {
    let claim = "is not the derivative at a point where that has neither tie nor kink";
    Some(bench.refuse(rule, &[refuted(bench, rule)?], claim))
}

fn refuted<'a>(bench: &Bench<'a>, rule: &Declared) -> Option<Refuted<'a>> {
    if bench.source.deviates.is_none() || rule.way == Way::Jvp {
        return None;
    }
    let (calls, most) = OFF_KINKS;
    let mut closer = 0;
    let found = bench.first(rule, 8000, bench.kinked(most).take(calls), |n, instance, seed| {
        let stated = rule.value(instance, bench.library, seed).ok()?;
        let mut numbers = Numbers::new(9000 + n as u64);
        let direction: Vec<f64> = stated.iter().map(|_| numbers.weight()).collect();
        let slope =
            |instance: &Instance| along(bench, rule, instance, seed, &|e| direction.get(e).copied().unwrap_or(0.0));
        let (said, derived) = (dot(&stated, &direction), slope(instance)?);
        let size = 1.0 + stated.iter().map(|x| x.abs()).sum::<f64>();
        if closer == CLOSER || !derived.is_finite() || (said - derived).abs() <= CLOSE * size {
            return None;
        }
        closer += 1;
        let mut moved = || slope(&instance.shaken(STEP, &mut numbers, bench.library)?);
        if !(0..AROUND).all(|_| moved().is_some_and(|near| (near - derived).abs() <= SMOOTH * size)) {
            return None;
        }
        let pair = |(element, stated): (usize, &f64)| {
            let derived = along(bench, rule, instance, seed, &|e| f64::from(u8::from(e == element)))?;
            Some(Pair { element, stated: *stated, derived })
        };
        stated.iter().enumerate().map(pair).collect::<Option<Vec<Pair>>>()
    });
    found.map(|(instance, seed, pairs)| Refuted { instance, seed, pairs })
}

fn along(bench: &Bench, rule: &Declared, instance: &Instance, seed: &Seed, u: &dyn Fn(usize) -> f64) -> Option<f64> {
    instance.along(&mut Dense::new(bench.library), rule.at, u, seed.values()).ok()
}
