//! E401 on data that calls seldom have: ties and kinks, numbers outside `tests: domain` or far from 0, large cotangents,
//! infinities and NaN. A rule that is right on all usual data may be wrong there.

use fulgurite_core::sig::ArgTy;
use fulgurite_core::{Name, Value};

use super::declared::{Declared, LARGE, Pair, Refuted, Way};
use super::instance::Instance;
use super::kinks;
use super::numbers::Numbers;
use super::sample::{self, Domain};
use super::values::Bench;
use crate::check::cases::Case;
use crate::check::thresholds;
use crate::diag::Diag;

/// Where the rules of a program's rows say what holds there, each call takes many of them: so many elements are enough
/// for some to be equal, and so many calls are tried.
const TAPED: (usize, usize) = (3, 4);

/// Elements far from 0, on either side. Further out, most formulas have few digits left.
const FAR: (f64, f64) = (-70.0, 90.0);

/// Elements near 0 and 1, and those between them.
const EDGES: [f64; 4] = [1e-6, 1.0 - 1e-6, 2e-3, 1.0 - 2e-3];
const INSIDE: (f64, f64) = (0.1, 0.9);

/// So many calls with equal elements are tried.
const TIED: usize = 6;

/// So many calls with large options are tried.
const LARGER: usize = 6;

/// What is no further apart than this, in relation to the numbers themselves and to the largest of them, is one.
const CLOSE: (f64, f64) = (1e-5, 1e-8);

impl<'a> Bench<'a> {
    /// What is wrong with a rule that is right on the usual data; `fits` says which of the others it can be run on.
    pub fn unusual(&self, rule: &Declared, fits: &dyn Fn(&Instance) -> bool) -> Option<Diag> {
        let refuse = |refuted, claim: &str| self.refuse(rule, &[refuted], claim);
        if let Some(refuted) = self.beyond_domain(rule) {
            let claim = "is not the derivative beyond `tests: domain`, where the row has values too";
            return Some(refuse(refuted, claim));
        }
        if let Some(refuted) = self.of_large_seeds(rule) {
            return Some(refuse(refuted, "is not the derivative for large cotangents"));
        }
        let own = sample::stated(self.source);
        let beyond = !own.is_empty() && self.source.deviates.is_none();
        let at_kinks = |own| self.at_a_kink(rule, own, fits);
        if let Some(refuted) = at_kinks(own).or_else(|| beyond.then(|| at_kinks(Vec::new())).flatten()) {
            let beside = if rule.way == Way::Vjp { "meaning" } else { "gradient" };
            let diag = refuse(refuted, &format!("has another convention at ties and kinks than the {beside}"));
            let derived = rule.way == Way::Vjp && self.derived.rule(rule.arg).is_some();
            return Some(if derived { diag } else { diag.note("on purpose? then say why in `deviates`") });
        }
        if let Some(refuted) = self.far(rule) {
            return Some(refuse(refuted, "is not the derivative for large elements"));
        }
        self.not_numbers(rule)
    }

    /// What is wrong with a rule where elements are NaN or infinite, though it may be an identity between numbers.
    pub fn not_numbers(&self, rule: &Declared) -> Option<Diag> {
        let beside = |what: &str| format!("has another convention at {what} than the meaning");
        let nan = self.with(rule, &|_, _| f64::NAN).map(|refuted| (refuted, beside("NaN")));
        let infinite = |sign: f64| {
            // what a row is meant for is said in numbers
            let open = sample::stated(self.source).is_empty();
            let found = open.then(|| self.with(rule, &|e, _| if e % 2 == 0 { sign } else { -sign })).flatten();
            found.map(|refuted| (refuted, beside("infinity")))
        };
        let (refuted, claim) = nan.or_else(|| [f64::INFINITY, f64::NEG_INFINITY].into_iter().find_map(infinite))?;
        Some(self.refuse(rule, &[refuted], &claim))
    }

    /// On numbers that the row is not meant for, and of which it has a value all the same. A row that deviates says where.
    fn beyond_domain(&self, rule: &Declared) -> Option<Refuted<'a>> {
        if sample::stated(self.source).is_empty() || self.source.deviates.is_some() {
            return None;
        }
        self.few().find_map(|(n, case)| {
            let instance =
                sample::domains(&[], self.compared, n).find_map(|domain| self.draw(n, case, &domain, &|_| true))?;
            let seed = rule.seed(&instance, &mut Numbers::new(7000 + n as u64))?;
            let pairs = self.difference(rule, &instance, &seed).ok()??;
            Some(Refuted { instance, seed, pairs })
        })
    }

    /// Where a rule bounds what flows.
    fn of_large_seeds(&self, rule: &Declared) -> Option<Refuted<'a>> {
        self.few().find_map(|(n, case)| {
            let instance = self.smooth(n, case, &|_| true)?;
            let seed = rule.seed(&instance, &mut Numbers::new(6000 + n as u64))?.times(LARGE);
            let pairs = self.difference(rule, &instance, &seed).ok()??;
            Some(Refuted { instance, seed, pairs })
        })
    }

    /// Where a rule bounds what is made of elements or options by a number: which of them come to it is not in the text. They
    /// are far from 0, some options too, or near 0 and 1, where logarithms are far from 0. `far` elements are those that the
    /// row is meant for.
    fn far(&self, rule: &Declared) -> Option<Refuted<'a>> {
        if self.source.deviates.is_some() || !thresholds::may_bound(&rule.rule.tree) {
            return None;
        }
        let far = Domain::of(sample::stated(self.source), FAR);
        let edges =
            Domain { points: EDGES.to_vec(), grid: Some(0.05), in_turn: true, ..Domain::of(Vec::new(), INSIDE) };
        let of_far = self.with_large_options().chain(self.few()).map(|at| (at, &far));
        let of_edges = self.few().map(|at| (at, &edges)).filter(|_| self.has_convention(rule));
        of_far.chain(of_edges).find_map(|((n, case), domain)| {
            let instance = self.draw(n, case, domain, &|_| true)?;
            let seed = rule.seed(&instance, &mut Numbers::new(8500 + n as u64))?;
            // near 0 and 1 some elements are equal
            let found = match domain.grid {
                Some(_) => self.by_convention(rule, &instance, &seed),
                None => self.difference(rule, &instance, &seed),
            };
            let pairs = apart(found.ok()??)?;
            Some(Refuted { instance, seed, pairs })
        })
    }

    /// Some calls with a number of more than one digit, or near it.
    fn with_large_options(&self) -> impl Iterator<Item = (usize, &'a Case)> {
        let params = self.row.sig.params.len();
        let large = move |value: &Value<ArgTy>| matches!(value, Value::Num(x) if x.as_f64().abs() > 5.0);
        self.cases().filter(move |(_, case)| case.numel() > 1 && case.args.iter().skip(params).any(large)).take(LARGER)
    }

    /// A rule that is no linear function of the cotangents is no gradient, whatever the row says in `deviates`.
    pub fn nonlinear(&self, rule: &Declared) -> Option<Diag> {
        let refuted = self.few().find_map(|(n, case)| {
            let instance = self.smooth(n, case, &|_| true)?;
            let seed = rule.seed(&instance, &mut Numbers::new(6500 + n as u64))?;
            let linear = rule.is_linear(&instance, self.library, &seed).unwrap_or(true);
            let pairs = if linear { None } else { self.difference(rule, &instance, &seed).ok()? };
            Some(Refuted { instance, seed, pairs: pairs? })
        })?;
        Some(self.refuse(rule, &[refuted], "is not linear"))
    }

    /// Where arguments are equal, or at a kink.
    fn at_a_kink(
        &self,
        rule: &Declared,
        own: Vec<(Name, (f64, f64))>,
        fits: &dyn Fn(&Instance) -> bool,
    ) -> Option<Refuted<'a>> {
        if !self.has_convention(rule) {
            return None;
        }
        let derived = self.derived.rule(rule.arg).filter(|_| rule.way == Way::Vjp);
        // where that misses a slope that is the same on all sides, it is no convention
        if derived.is_some_and(|derived| kinks::missed(self.row, self.library, derived, rule.at).is_some()) {
            return None;
        }
        let (least, most) = if derived.is_some() { (0, usize::MAX) } else { TAPED };
        let at_kinks = self.at_kinks(own.clone(), least..=self.most, fits).take(most);
        at_kinks.chain(self.tied(own, fits)).find_map(|(n, instance)| {
            let seed = rule.seed(&instance, &mut Numbers::new(2000 + n as u64))?;
            let pairs = self.by_convention(rule, &instance, &seed).ok().flatten()?;
            Some(Refuted { instance, seed, pairs })
        })
    }

    /// Calls in which all elements are one, then such in which most are: of few ties a rule may know how many there are.
    fn tied<'s>(
        &'s self,
        own: Vec<(Name, (f64, f64))>,
        fits: &'s dyn Fn(&Instance) -> bool,
    ) -> impl Iterator<Item = (usize, Instance<'a>)> + 's {
        let calls = self.cases().filter(|(_, case)| case.numel() > 2).take(TIED);
        let calls = calls.flat_map(|at| [(0.75, 1.25), (0.25, 1.75)].map(|between| (at, between)));
        calls.filter_map(move |((n, case), between)| {
            let domain = Domain { grid: Some(1.0), ..Domain::of(own.clone(), between) };
            Some((n, self.draw(n, case, &domain, fits)?))
        })
    }

    /// Where an argument has an element that is no number, of a scalar row all of them: a branch that NaN takes has a
    /// derivative there. A rule that gives NaN or an infinity says no less, so only another number counts.
    fn with(&self, rule: &Declared, lost: &dyn Fn(usize, f64) -> f64) -> Option<Refuted<'a>> {
        if !self.has_convention(rule) {
            return None;
        }
        let all = self.row.is_pointwise();
        // where an option is 1 two branches may be one
        self.few().filter_map(|(n, case)| self.smooth(n, case, &|_| true)).find_map(|instance| {
            (0..self.row.sig.params.len()).find_map(|at| {
                let middle = instance.numel_of(at).checked_sub(1)? / 2;
                let by = |p: usize, e: usize, x: f64| if p == at && (all || e == middle) { lost(e, x) } else { x };
                let instance = instance.with(&by, self.library)?;
                let seed = rule.seed(&instance, &mut Numbers::new(3000 + at as u64))?;
                let pairs = apart(self.by_convention(rule, &instance, &seed).ok().flatten()?)?;
                Some(Refuted { instance, seed, pairs })
            })
        })
    }
}

/// Those that differ by more than what rounding of large numbers makes of them, if there are some.
fn apart(mut pairs: Vec<Pair>) -> Option<Vec<Pair>> {
    let finite = |pair: &&Pair| pair.derived.is_finite();
    let largest = pairs.iter().filter(finite).map(|pair| pair.derived.abs()).fold(1.0, f64::max);
    pairs.retain(|pair| {
        let size = CLOSE.0 * (pair.stated.abs() + pair.derived.abs()) + CLOSE.1 * largest;
        pair.derived.is_finite() && pair.stated.is_finite() && pair.distance() > size
    });
    (!pairs.is_empty()).then_some(pairs)
}
