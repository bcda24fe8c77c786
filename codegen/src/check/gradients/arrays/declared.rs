//! A declared rule: its value on an instance, and what that value must be.

use fulgurite_core::Value;
use fulgurite_core::eval::loop_nest::Field;
use fulgurite_core::lang::Block;
use std::ops::Range;

pub use crate::check::gradient_rules::{Declared, Way};
use crate::check::gradients::arrays::dense::{Dense, Library, Stop, V};
use crate::check::gradients::arrays::instance::{Instance, Lift, dot, elements, lifted, numbers};
use crate::check::gradients::arrays::numbers::Numbers;

/// How much larger than the usual seeds one is that shows where a rule bounds them.
pub const LARGE: f64 = 4096.0;

/// What part of them two numbers may be apart and count as one: a summand of 1e-13 that keeps a denominator from 0 is a share
/// of 1e-7 of `exp(-14)`, and f32 has no more digits.
const SHARE: f64 = 2e-7;

/// What a rule is linear in: a cotangent per result, or the tangent of the argument.
#[derive(Clone)]
pub struct Seed {
    values: Vec<Value<V<f64>>>,
    /// Which cotangents the rule gets; the others are zeros and absent.
    given: Subset,
}

/// Some of the results, by position.
#[derive(Clone, Copy)]
pub struct Subset(u64);

impl Subset {
    /// All of them.
    const ALL: Subset = Subset(u64::MAX);

    /// Up to this many results each subset of fewer is tried, of more each result alone.
    const MOST: usize = 3;

    /// Those of `n` results that reach a loss where not all do.
    pub fn of(n: usize) -> Vec<Subset> {
        match n {
            0 | 1 => Vec::new(),
            n if n <= Subset::MOST => (1..(1 << n) - 1).map(Subset).collect(),
            n => (0..n.min(64)).map(|at| Subset(1 << at)).collect(),
        }
    }

    /// Whether result `at` is one of them.
    pub fn has(self, at: usize) -> bool {
        at >= 64 || self.0 >> at & 1 == 1
    }
}

/// What an argument's gradient is for a cotangent per result.
pub type Gradient<'a> = dyn Fn(&[Value<V<f64>>]) -> Result<Vec<f64>, Stop> + 'a;

/// A number that a rule gives, and the derivative.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Which element, in row-major order.
    pub element: usize,
    /// By the rule.
    pub stated: f64,
    /// By the meaning.
    pub derived: f64,
}

/// A call on which a rule is wrong.
pub struct Refuted<'a> {
    /// The call.
    pub instance: Instance<'a>,
    /// What the rule was given.
    pub seed: Seed,
    /// What it made of it.
    pub pairs: Vec<Pair>,
}

impl Declared<'_> {
    /// A seed for this instance; `None` where nothing flows.
    pub fn seed(&self, instance: &Instance, numbers: &mut Numbers) -> Option<Seed> {
        let values = match self.way {
            Way::Vjp => instance.cotangents(numbers),
            Way::Jvp => vec![instance.tangent(self.at, numbers)],
        };
        // to no elements of a result nothing flows, and the gradient is zero
        let flows = values.iter().any(|seed| !elements(seed).is_empty());
        (flows && instance.numel_of(self.at) > 0).then_some(Seed { values, given: Subset::ALL })
    }

    /// The rule's numbers.
    ///
    /// # Errors
    /// What its calls refuse.
    pub fn value(&self, instance: &Instance, library: &Library<'_>, seed: &Seed) -> Result<Vec<f64>, Stop> {
        self.value_of(&self.rule.tree, instance, library, seed)
    }

    /// The numbers of another rule for the same argument.
    ///
    /// # Errors
    /// What its calls refuse.
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

    /// The rule's numbers where the arguments, and with them the results, are lifted into a field by `f`.
    ///
    /// # Errors
    /// What the meaning's or the rule's calls refuse.
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

    /// Every number of the rule beside the derivative, if one differs from it.
    ///
    /// # Errors
    /// What the rule's or the meaning's calls refuse.
    pub fn difference(
        &self,
        instance: &Instance,
        library: &Library<'_>,
        seed: &Seed,
    ) -> Result<Option<Vec<Pair>>, Stop> {
        let mut stated = self.value(instance, library, seed)?;
        if self.way == Way::Vjp {
            // what a rule leaves out is zero
            stated.resize(instance.numel_of(self.at).max(stated.len()), 0.0);
        }
        if self.way == Way::Jvp {
            let tangent = elements(&seed.values[0]).concat();
            let moved = |e: usize| tangent.get(e).copied().unwrap_or(0.0);
            let derived = instance.moves(&mut Dense::new(library), self.at, &moved)?;
            return Ok(unequal(&stated, &derived, seed));
        }
        // one direction says whether there is anything to look for
        let mut numbers = Numbers::new(stated.len() as u64);
        let direction: Vec<f64> = stated.iter().map(|_| numbers.weight()).collect();
        let differs = |part: Range<usize>| {
            let within = |e: usize| if part.contains(&e) { direction[e] } else { 0.0 };
            let along = instance.along(&mut Dense::new(library), self.at, &within, &seed.values)?;
            let (stated, direction) = (&stated[part.clone()], &direction[part.clone()]);
            let terms: f64 = stated.iter().zip(direction).map(|(s, d)| (s * d).abs()).sum();
            Ok(!close(dot(stated, direction), along, terms + seed.size() * 0.1))
        };
        if !differs(0..stated.len())? {
            return Ok(None);
        }
        let column = |at: usize| {
            instance.along(&mut Dense::new(library), self.at, &|e| if e == at { 1.0 } else { 0.0 }, &seed.values)
        };
        one_by_one(&stated, seed, &differs, &column)
    }

    /// The same against the derived rule `rule`, which knows the conventions at ties and kinks.
    ///
    /// # Errors
    /// What the rules' calls refuse.
    pub fn difference_from(
        &self,
        rule: &Block,
        instance: &Instance,
        library: &Library<'_>,
        seed: &Seed,
    ) -> Result<Option<Vec<Pair>>, Stop> {
        self.difference_from_numbers(&self.value_of(rule, instance, library, seed)?, instance, library, seed)
    }

    /// The same against these numbers; none are zeros.
    ///
    /// # Errors
    /// What the rule's calls refuse.
    pub fn difference_from_numbers(
        &self,
        derived: &[f64],
        instance: &Instance,
        library: &Library<'_>,
        seed: &Seed,
    ) -> Result<Option<Vec<Pair>>, Stop> {
        let stated = self.value(instance, library, seed)?;
        let mut derived = derived.to_vec();
        derived.resize(stated.len(), 0.0);
        Ok(unequal(&stated, &derived, seed))
    }

    /// The same of a tangent against what is the gradient for a cotangent: one is the transpose of the other, also at ties
    /// and kinks.
    ///
    /// # Errors
    /// What the rules' calls refuse.
    pub fn difference_from_gradient(
        &self,
        gradient: &Gradient,
        instance: &Instance,
        library: &Library<'_>,
        seed: &Seed,
    ) -> Result<Option<Vec<Pair>>, Stop> {
        let stated = self.value(instance, library, seed)?;
        let tangent = elements(&seed.values[0]).concat();
        let along = |cotangents: &Seed| Ok::<f64, Stop>(dot(&gradient(&cotangents.values)?, &tangent));
        // one direction says whether there is anything to look for
        let all = Seed::from(instance.cotangents(&mut Numbers::new(stated.len() as u64)));
        let weights: Vec<f64> = all.values.iter().flat_map(elements).flatten().collect();
        let differs = |part: Range<usize>| {
            let found = along(&all.part(&part))?;
            let (stated, weights) = (&stated[part.clone()], &weights[part.clone()]);
            let terms: f64 = stated.iter().zip(weights).map(|(s, w)| (s * w).abs()).sum();
            // where one is no number, others are asked one by one
            Ok(!found.is_finite() || !close(dot(stated, weights), found, terms + seed.size() * 0.1))
        };
        if !differs(0..stated.len())? {
            return Ok(None);
        }
        one_by_one(&stated, seed, &differs, &|at| along(&all.unit(at)))
    }

    /// Whether the rule's value for a sum of seeds is the sum of its values, and grows as they do.
    ///
    /// # Errors
    /// What the rule's calls refuse.
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
    /// This and twice the other.
    fn plus_twice(&self, other: &Seed) -> Seed {
        let mut others = other.values.iter().flat_map(elements).flatten();
        self.each(&mut |x| x + 2.0 * others.next().unwrap_or(0.0))
    }

    /// A multiple of it.
    pub fn times(&self, factor: f64) -> Seed {
        self.each(&mut |x| factor * x)
    }

    /// The same for result `at`, zeros for all others.
    pub fn only(&self, at: usize) -> Seed {
        Seed { given: Subset::ALL, ..self.some(Subset(1 << at.min(63))) }
    }

    /// The same for these results; all others do not reach the loss.
    pub fn some(&self, given: Subset) -> Seed {
        let some = |(n, v): (usize, &Value<V<f64>>)| if given.has(n) { v.clone() } else { lifted(v, &mut |_| 0.0) };
        Seed { values: self.values.iter().enumerate().map(some).collect(), given }
    }

    /// What the rule is given.
    pub fn passed(&self) -> Vec<Value<V<f64>>> {
        let pass = |(n, v): (usize, &Value<V<f64>>)| if self.given.has(n) { v.clone() } else { Value::Absent };
        self.values.iter().enumerate().map(pass).collect()
    }

    /// 1 for element `at`, counted through all of them, zeros for all others.
    fn unit(&self, at: usize) -> Seed {
        self.numbered(&|n, _| f64::from(u8::from(n == at)))
    }

    /// The seed with its own elements in this range, and zeros in all other places.
    fn part(&self, part: &Range<usize>) -> Seed {
        self.numbered(&|n, x| if part.contains(&n) { x } else { 0.0 })
    }

    /// Other numbers for its elements, by their places among all of them.
    fn numbered(&self, number: &dyn Fn(usize, f64) -> f64) -> Seed {
        let mut places = 0..;
        let each = self.each(&mut |x| places.next().map_or(x, |n| number(n, x)));
        Seed { given: Subset::ALL, ..each }
    }

    /// Other numbers for its elements, in their order.
    fn each(&self, number: &mut dyn FnMut(f64) -> f64) -> Seed {
        Seed { values: self.values.iter().map(|v| lifted(v, number)).collect(), given: self.given }
    }

    /// The sum of its sizes.
    fn size(&self) -> f64 {
        self.values.iter().flat_map(elements).flatten().map(f64::abs).sum()
    }

    /// Its elements, result by result.
    pub fn values(&self) -> &[Value<V<f64>>] {
        &self.values
    }
}

/// A rule's numbers beside the derivative, element by element; of many those from the first on that differs, and some that
/// lie evenly among all. `differs` says whether a part of them does, `column` is the derivative by one.
fn one_by_one(
    stated: &[f64],
    seed: &Seed,
    differs: &dyn Fn(Range<usize>) -> Result<bool, Stop>,
    column: &dyn Fn(usize) -> Result<f64, Stop>,
) -> Result<Option<Vec<Pair>>, Stop> {
    /// Each derivative is a run of the whole call: of 4,096 elements all of them would take seconds.
    const MOST: usize = 96;
    let n = stated.len();
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
        // differences of a few that none of them shows alone
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

    /// How far apart they are.
    pub fn distance(&self) -> f64 {
        let distance = (self.stated - self.derived).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    }
}

/// Whether two numbers are one but for rounding, where numbers of this size were added up. An infinite derivative says
/// nothing: it is outside the domain.
fn close(stated: f64, derived: f64, size: f64) -> bool {
    if !derived.is_finite() {
        return true;
    }
    // a share of infinity is infinite
    stated.is_finite() && (stated - derived).abs() <= SHARE * (stated.abs() + derived.abs()) + 1e-10 * size
}
