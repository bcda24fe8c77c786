//! A declared rule: its value on an instance, and the comparison of that value with the derivative.

use fulgurite_core::Value;
use fulgurite_core::eval::loop_nest::Field;
use fulgurite_core::lang::Block;
use std::ops::Range;

pub use crate::check::gradient_rules::{Declared, Way};
use crate::check::gradients::arrays::dense::{Dense, Library, Stop, V};
use crate::check::gradients::arrays::instance::{Instance, Lift, dot, elements, lifted, numbers};
use crate::check::gradients::arrays::numbers::Numbers;

/// The factor by which a seed is enlarged, to reveal a rule that bounds its cotangents.
pub const LARGE: f64 = 4096.0;

/// Two numbers count as equal if they differ by at most this share of them. A summand of 1e-13 that keeps a denominator
/// from 0 is a share of 1e-7 of `exp(-14)`, and f32 has no more digits.
const SHARE: f64 = 2e-7;

/// The values in which a rule must be linear: a cotangent per result, or the tangent of the argument.
#[derive(Clone)]
pub struct Seed {
    values: Vec<Value<V<f64>>>,
    /// The cotangents that the rule is given. The others are zero, and are passed as absent.
    given: Subset,
}

/// A set of results, by position.
#[derive(Clone, Copy)]
pub struct Subset(u64);

impl Subset {
    /// Every result.
    const ALL: Subset = Subset(u64::MAX);

    /// Of at most this many results, every proper subset is tried. Of more results each is tried alone, because the
    /// number of subsets doubles with each result.
    const MOST: usize = 3;

    /// Returns the sets of results to try, out of `n`, such that some results do not reach the loss.
    pub fn of(n: usize) -> Vec<Subset> {
        match n {
            0 | 1 => Vec::new(),
            n if n <= Subset::MOST => (1..(1 << n) - 1).map(Subset).collect(),
            n => (0..n.min(64)).map(|at| Subset(1 << at)).collect(),
        }
    }

    /// Whether result `at` is in the set.
    pub fn has(self, at: usize) -> bool {
        at >= 64 || self.0 >> at & 1 == 1
    }
}

/// The gradient of an argument, as a function of a cotangent per result.
pub type Gradient<'a> = dyn Fn(&[Value<V<f64>>]) -> Result<Vec<f64>, Stop> + 'a;

/// The reference of a rule.
pub enum Against<'a> {
    /// The derivative of the meaning.
    Meaning,
    /// These numbers, in order. Numbers that are missing at the end are zeros.
    Numbers(&'a [f64]),
    /// The gradient, of which a `jvp` rule is the transpose, at ties and kinks too.
    Gradient(&'a Gradient<'a>),
}

/// An element of a rule's value beside its reference.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The position of the element, in row-major order.
    pub element: usize,
    /// The number that the rule gives.
    pub stated: f64,
    /// The reference: the derivative, or the convention at a kink.
    pub derived: f64,
}

/// A call on which a rule is wrong.
pub struct Refuted<'a> {
    /// The call.
    pub instance: Instance<'a>,
    /// The seed that the rule was given.
    pub seed: Seed,
    /// The elements of the rule's value beside their references.
    pub pairs: Vec<Pair>,
}

impl Declared<'_> {
    /// Draws a seed for this instance; `None` if the argument has no float elements, or no float result has a cotangent
    /// for a `grad`.
    pub fn seed(&self, instance: &Instance, numbers: &mut Numbers) -> Option<Seed> {
        let values = match self.way {
            Way::Vjp => instance.cotangents(numbers),
            Way::Jvp => vec![instance.tangent(self.at, numbers)],
        };
        // a float result without elements still has a gradient, which is zero
        let flows = values.iter().any(|seed| !elements(seed).is_empty());
        (flows && instance.numel_of(self.at) > 0).then_some(Seed { values, given: Subset::ALL })
    }

    /// Returns the value of the rule, one number per element.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the rule fails.
    pub fn value(&self, instance: &Instance, library: &Library<'_>, seed: &Seed) -> Result<Vec<f64>, Stop> {
        self.value_of(&self.rule.tree, instance, library, seed)
    }

    /// Returns the value of another rule for the same argument.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the rule fails.
    pub fn value_of(
        &self,
        rule: &Block,
        instance: &Instance,
        library: &Library<'_>,
        seed: &Seed,
    ) -> Result<Vec<f64>, Stop> {
        match self.way {
            Way::Vjp => instance.vjp(library, rule, self.at, &seed.passed()),
            Way::Jvp => instance.jvp(library, rule, self.at, &seed.values[0]),
        }
    }

    /// Returns the value of the rule over the field into which `f` lifts the arguments. The results are computed from
    /// the lifted arguments.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the meaning or of the rule fails.
    pub fn value_in<F: Field>(
        &self,
        instance: &Instance,
        library: &Library<'_>,
        seed: &Seed,
        f: &Lift<F>,
    ) -> Result<Vec<F>, Stop> {
        let seeds: Vec<_> = seed.passed().iter().map(|seed| lifted(seed, &mut F::constant)).collect();
        let seeds = self.bind(instance.row, &seeds);
        Ok(numbers(&instance.rule_in(library, &self.rule.tree, seeds, f)?))
    }

    /// Compares the rule with a reference. Returns elements of both, or `None` if the rule agrees.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the rule or of the reference fails.
    pub fn difference(
        &self,
        against: Against,
        instance: &Instance,
        library: &Library<'_>,
        seed: &Seed,
    ) -> Result<Option<Vec<Pair>>, Stop> {
        let mut stated = self.value(instance, library, seed)?;
        let tangent = || elements(&seed.values[0]).concat();
        match against {
            Against::Numbers(derived) => {
                let mut derived = derived.to_vec();
                derived.resize(stated.len(), 0.0);
                Ok(unequal(&stated, &derived, seed))
            }
            Against::Gradient(gradient) => {
                let tangent = tangent();
                let along = |cotangents: &Seed| Ok(dot(&gradient(&cotangents.values)?, &tangent));
                let all = Seed::from(instance.cotangents(&mut Numbers::new(stated.len() as u64)));
                let weights: Vec<f64> = all.values.iter().flat_map(elements).flatten().collect();
                let part = |part: &Range<usize>| along(&all.part(part));
                // if the sum is not finite, the elements are compared one by one
                one_by_one(&stated, &weights, seed, true, &part, &|at| along(&all.unit(at)))
            }
            Against::Meaning if self.way == Way::Jvp => {
                let tangent = tangent();
                let moved = |e: usize| tangent.get(e).copied().unwrap_or(0.0);
                Ok(unequal(&stated, &instance.moves(&mut Dense::new(library), self.at, &moved)?, seed))
            }
            Against::Meaning => {
                // elements that a rule leaves out are zero
                stated.resize(instance.numel_of(self.at).max(stated.len()), 0.0);
                let mut numbers = Numbers::new(stated.len() as u64);
                let weights: Vec<f64> = stated.iter().map(|_| numbers.weight()).collect();
                let along =
                    |u: &dyn Fn(usize) -> f64| instance.along(&mut Dense::new(library), self.at, u, &seed.values);
                let part = |part: &Range<usize>| along(&|e| if part.contains(&e) { weights[e] } else { 0.0 });
                one_by_one(&stated, &weights, seed, false, &part, &|at| along(&|e| f64::from(u8::from(e == at))))
            }
        }
    }

    /// Whether the rule is linear on this instance: additive for two seeds, and homogeneous for a large factor.
    ///
    /// # Errors
    /// A [`Stop`] if a call of the rule fails.
    pub fn is_linear(&self, instance: &Instance, library: &Library<'_>, seed: &Seed) -> Result<bool, Stop> {
        let Some(other) = self.seed(instance, &mut Numbers::new(77)) else { return Ok(true) };
        let other = other.some(seed.given);
        let (one, two) = (self.value(instance, library, seed)?, self.value(instance, library, &other)?);
        let both = self.value(instance, library, &seed.plus_twice(&other))?;
        let size = seed.size();
        let sums = both.iter().zip(one.iter().zip(&two)).all(|(both, (one, two))| close(*both, one + 2.0 * two, size));
        let large = self.value(instance, library, &seed.times(LARGE))?;
        let grows = large.iter().zip(&one).all(|(large, one)| close(*large, LARGE * one, LARGE * size));
        Ok(sums && grows)
    }
}

impl From<Vec<Value<V<f64>>>> for Seed {
    fn from(values: Vec<Value<V<f64>>>) -> Seed {
        Seed { values, given: Subset::ALL }
    }
}

impl Seed {
    /// Returns the sum of this seed and twice the other.
    fn plus_twice(&self, other: &Seed) -> Seed {
        let mut others = other.values.iter().flat_map(elements).flatten();
        self.each(&mut |x| x + 2.0 * others.next().unwrap_or(0.0))
    }

    /// Returns a multiple of this seed.
    pub fn times(&self, factor: f64) -> Seed {
        self.each(&mut |x| factor * x)
    }

    /// Returns this seed with zeros for all results but `at`. The rule is given all cotangents.
    pub fn only(&self, at: usize) -> Seed {
        Seed { given: Subset::ALL, ..self.some(Subset(1 << at.min(63))) }
    }

    /// Returns this seed for the results in `given`. All others do not reach the loss.
    pub fn some(&self, given: Subset) -> Seed {
        let some = |(n, v): (usize, &Value<V<f64>>)| if given.has(n) { v.clone() } else { lifted(v, &mut |_| 0.0) };
        Seed { values: self.values.iter().enumerate().map(some).collect(), given }
    }

    /// Returns the values that the rule is given, absent for results that do not reach the loss.
    pub fn passed(&self) -> Vec<Value<V<f64>>> {
        let pass = |(n, v): (usize, &Value<V<f64>>)| if self.given.has(n) { v.clone() } else { Value::Absent };
        self.values.iter().enumerate().map(pass).collect()
    }

    /// Returns the seed that is 1 at element `at`, counted through all results, and 0 elsewhere.
    fn unit(&self, at: usize) -> Seed {
        self.numbered(&|n, _| f64::from(u8::from(n == at)))
    }

    /// Returns this seed with zeros outside the range `part`.
    fn part(&self, part: &Range<usize>) -> Seed {
        self.numbered(&|n, x| if part.contains(&n) { x } else { 0.0 })
    }

    /// Replaces each element by `number` of its position among all elements, and of its value.
    fn numbered(&self, number: &dyn Fn(usize, f64) -> f64) -> Seed {
        let mut places = 0..;
        let each = self.each(&mut |x| places.next().map_or(x, |n| number(n, x)));
        Seed { given: Subset::ALL, ..each }
    }

    /// Replaces each element by `number` of it, in order.
    fn each(&self, number: &mut dyn FnMut(f64) -> f64) -> Seed {
        Seed { values: self.values.iter().map(|v| lifted(v, number)).collect(), given: self.given }
    }

    /// The sum of the elements' magnitudes.
    fn size(&self) -> f64 {
        self.values.iter().flat_map(elements).flatten().map(f64::abs).sum()
    }

    /// The values of the seed, result by result.
    pub fn values(&self) -> &[Value<V<f64>>] {
        &self.values
    }
}

/// Pairs the elements of a rule's value with the derivative, unless `weights`, a random direction, show that none
/// differs. Of many elements it takes those that follow the first one that differs, and some spread evenly over all.
/// `along` computes the sum of a range of derivatives with these weights, and `column` one derivative. `lost` tells
/// whether the elements of a range count as different if their sum is not finite.
fn one_by_one(
    stated: &[f64],
    weights: &[f64],
    seed: &Seed,
    lost: bool,
    along: &dyn Fn(&Range<usize>) -> Result<f64, Stop>,
    column: &dyn Fn(usize) -> Result<f64, Stop>,
) -> Result<Option<Vec<Pair>>, Stop> {
    /// Of many elements about this many are paired at most, because each derivative is a run of the whole call: all of
    /// 4,096 elements would take seconds.
    const MOST: usize = 96;
    let n = stated.len();
    let differs = |part: Range<usize>| {
        let found = along(&part)?;
        let (stated, weights) = (&stated[part.clone()], &weights[part]);
        let terms: f64 = stated.iter().zip(weights).map(|(s, w)| (s * w).abs()).sum();
        let near = close(dot(stated, weights), found, terms + seed.size() * 0.1);
        Ok::<bool, Stop>(lost && !found.is_finite() || !near)
    };
    if !differs(0..n)? {
        return Ok(None);
    }
    let pairs = |chosen: &mut dyn Iterator<Item = usize>| -> Result<Option<Vec<Pair>>, Stop> {
        let pair = |element: usize| Ok(Pair { element, stated: stated[element], derived: column(element)? });
        let pairs = chosen.map(pair).collect::<Result<Vec<Pair>, Stop>>()?;
        let size = seed.size();
        Ok(pairs.iter().any(|pair| pair.differs(size)).then_some(pairs))
    };
    if n <= 4 * MOST {
        return pairs(&mut (0..n));
    }
    let (mut first, mut end) = (0, n);
    while end - first > 1 {
        let middle = first + (end - first) / 2;
        if differs(first..middle)? { end = middle } else { first = middle }
    }
    let behind = first..n.min(first + MOST / 2);
    let evenly = (0..n).step_by(n / (MOST / 2)).filter(|at| !behind.contains(at));
    match pairs(&mut behind.clone().chain(evenly))? {
        Some(found) => Ok(Some(found)),
        // no chosen element differs by itself, so all of them are paired
        None => pairs(&mut (0..n)),
    }
}

fn unequal(stated: &[f64], derived: &[f64], seed: &Seed) -> Option<Vec<Pair>> {
    let size = seed.size();
    let pairs = stated.iter().zip(derived).enumerate();
    let pairs: Vec<Pair> =
        pairs.map(|(element, (stated, derived))| Pair { element, stated: *stated, derived: *derived }).collect();
    pairs.iter().any(|pair| pair.differs(size)).then_some(pairs)
}

impl Pair {
    fn differs(&self, size: f64) -> bool {
        !close(self.stated, self.derived, size)
    }

    /// The distance between both numbers; infinite if one of them is NaN.
    pub fn distance(&self) -> f64 {
        let distance = (self.stated - self.derived).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    }
}

/// Whether two numbers are equal up to rounding, where terms of magnitude `size` were added up. A derivative that is
/// not finite refutes nothing, because the point is outside the domain.
fn close(stated: f64, derived: f64, size: f64) -> bool {
    if !derived.is_finite() {
        return true;
    }
    // an infinite number would allow an infinite distance
    stated.is_finite() && (stated - derived).abs() <= SHARE * (stated.abs() + derived.abs()) + 1e-10 * size
}
