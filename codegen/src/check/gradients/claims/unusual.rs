//! E401 on data that calls seldom have: ties and kinks, numbers outside `tests: domain` or far from 0, large
//! cotangents, infinities and NaN. A rule that is right on all usual data may be wrong there.

use fulgurite_core::Value;
use fulgurite_core::signature::ArgTy;

use crate::check::cases::Case;
use crate::check::gradients::arrays::declared::{Declared, LARGE, Pair, Refuted, Seed, Way};
use crate::check::gradients::arrays::instance::Instance;
use crate::check::gradients::budget::{LARGER, TAPED, TIED};
use crate::check::gradients::claims::kinks;
use crate::check::gradients::samples::{self, Domain, Stated};
use crate::check::gradients::search::Bench;
use crate::check::thresholds;
use crate::diag::Diag;

/// Elements far from 0, on either side. Further out, most formulas have few digits left.
const FAR: (f64, f64) = (-70.0, 90.0);

/// Elements near 0 and 1. [`INSIDE`] is the interval of the elements between them.
const EDGES: [f64; 4] = [1e-6, 1.0 - 1e-6, 2e-3, 1.0 - 2e-3];
const INSIDE: (f64, f64) = (0.1, 0.9);

/// Two numbers count as equal if they differ by at most the first share of themselves, plus the second share of the
/// largest number.
const CLOSE: (f64, f64) = (1e-5, 1e-8);

/// Calls with data, each with the number by which its seed is drawn.
type Calls<'s, 'a> = Box<dyn Iterator<Item = (usize, Instance<'a>)> + 's>;

/// A claim about a declared rule on data of one kind.
struct Claim<'s, 'a> {
    /// The message about a rule for which the claim does not hold.
    says: &'s str,
    calls: Calls<'s, 'a>,
    /// Keeps the seeds of the claim apart from those of other claims.
    salt: u64,
    /// The factor by which the usual seeds are enlarged.
    times: f64,
    /// Whether the reference of the rule is the conventions at ties and kinks, and not the derivative of the meaning.
    convention: bool,
    /// Whether numbers are so large that rounding sets them apart. Then only the differences that [`apart`] returns
    /// count.
    rounded: bool,
}

impl<'a> Bench<'a> {
    /// Tries a rule that is right on the usual data on other data. `fits` tells on which of them it can be run.
    pub fn unusual(&self, rule: &Declared, fits: &dyn Fn(&Instance) -> bool) -> Option<Diag> {
        let own = samples::stated(self.source);
        // a row that deviates says where, so its rules are not tried beyond the domain
        let beyond = !own.is_empty() && self.source.deviates.is_none();
        let bounds = self.source.deviates.is_none() && thresholds::may_bound(&rule.rule.tree);
        let far = Domain::of(own.clone(), FAR);
        let edges =
            Domain { points: EDGES.to_vec(), grid: Some(0.05), in_turn: true, ..Domain::of(Vec::new(), INSIDE) };
        let claim = |says, calls, salt, convention| Claim { says, calls, salt, times: 1.0, convention, rounded: false };
        let beside = if rule.way == Way::Vjp { "meaning" } else { "gradient" };
        let kink = format!("has another convention at ties and kinks than the {beside}");
        let large = "is not the derivative for large elements";
        let claims: [Claim; 6] = [
            claim(
                "is not the derivative beyond `tests: domain`, where the row has values too",
                when(beyond, || self.beyond_domain()),
                7000,
                false,
            ),
            Claim {
                times: LARGE,
                ..claim("is not the derivative for large cotangents", Box::new(self.usual()), 6000, false)
            },
            claim(&kink, self.at_a_kink(rule, own.clone(), fits), 2000, true),
            claim(&kink, when(beyond, || self.at_a_kink(rule, Vec::new(), fits)), 2000, true),
            // the text does not tell which elements or options a number of the rule bounds, so elements far from 0 are
            // tried, and elements near 0 and 1, where logarithms are steep
            Claim {
                rounded: true,
                ..claim(
                    large,
                    when(bounds, || self.drawn(self.with_large_options().chain(self.few()), &far)),
                    8500,
                    false,
                )
            },
            Claim {
                rounded: true,
                ..claim(large, when(bounds && self.has_convention(rule), || self.drawn(self.few(), &edges)), 8500, true)
            },
        ];
        let wrong = claims.into_iter().find_map(|claim| {
            let (says, is_kink) = (claim.says, claim.salt == 2000);
            let diag = self.refuse(rule, &[self.refuted(rule, claim)?], says);
            let derived = rule.way == Way::Vjp && self.derived.rule(rule.arg).is_some();
            Some(if is_kink && !derived { diag.note("on purpose? then say why in `deviates`") } else { diag })
        });
        wrong.or_else(|| self.not_numbers(rule))
    }

    /// The first call for which a claim does not hold.
    fn refuted(&self, rule: &Declared, claim: Claim<'_, 'a>) -> Option<Refuted<'a>> {
        let Claim { calls, salt, times, convention, rounded, .. } = claim;
        let large = |seed: &Seed| if times == 1.0 { seed.clone() } else { seed.times(times) };
        let (instance, seed, pairs) = self.first(rule, salt, calls, |_, instance, seed| {
            let pairs = match convention {
                false => self.difference(rule, instance, &large(seed)),
                true => self.by_convention(rule, instance, &large(seed)),
            };
            let pairs = pairs.ok()??;
            if rounded { apart(pairs) } else { Some(pairs) }
        })?;
        Some(Refuted { instance, seed: large(&seed), pairs })
    }

    /// Tries a rule on elements that are NaN or infinite, where it may be wrong even if it is proved for numbers.
    pub fn not_numbers(&self, rule: &Declared) -> Option<Diag> {
        // a domain is stated in finite numbers, so a row that states one is not meant for infinities
        let open = samples::stated(self.source).is_empty();
        let signs = [f64::INFINITY, f64::NEG_INFINITY].into_iter().filter(|_| open);
        let kinds = std::iter::once((f64::NAN, "NaN")).chain(signs.map(|sign| (sign, "infinity")));
        kinds.filter(|_| self.has_convention(rule)).find_map(|(lost, what)| {
            let says = &*format!("has another convention at {what} than the meaning");
            let calls = Box::new(self.with(lost));
            let claim = Claim { says, calls, salt: 3000, times: 1.0, convention: true, rounded: true };
            Some(self.refuse(rule, &[self.refuted(rule, claim)?], says))
        })
    }

    /// Calls with data drawn without regard to the domain that the row states, on which it has a value all the same.
    fn beyond_domain(&self) -> impl Iterator<Item = (usize, Instance<'a>)> {
        self.few().filter_map(|(n, case)| {
            let mut domains = samples::domains(&[], self.compared, n);
            Some((n, domains.find_map(|domain| self.draw(n, case, &domain, &|_| true))?))
        })
    }

    /// These calls with data of a domain.
    fn drawn<'s>(
        &'s self,
        calls: impl Iterator<Item = (usize, &'a Case)> + 's,
        domain: &'s Domain,
    ) -> impl Iterator<Item = (usize, Instance<'a>)> + 's {
        calls.filter_map(|(n, case)| Some((n, self.draw(n, case, domain, &|_| true)?)))
    }

    /// At most [`LARGER`] calls with an option that is a number above 5, or below -5.
    fn with_large_options(&self) -> impl Iterator<Item = (usize, &'a Case)> {
        let params = self.row.sig.params.len();
        let large = move |value: &Value<ArgTy>| matches!(value, Value::Num(x) if x.as_f64().abs() > 5.0);
        self.cases().filter(move |(_, case)| case.numel() > 1 && case.args.iter().skip(params).any(large)).take(LARGER)
    }

    /// Refuses a rule that is not linear in the cotangents, because it is no gradient, whatever the row says in
    /// `deviates`.
    pub fn nonlinear(&self, rule: &Declared) -> Option<Diag> {
        let (instance, seed, pairs) = self.first(rule, 6500, self.usual(), |_, instance, seed| {
            let linear = rule.is_linear(instance, self.library, seed).unwrap_or(true);
            if linear { None } else { self.difference(rule, instance, seed).ok()? }
        })?;
        Some(self.refuse(rule, &[Refuted { instance, seed, pairs }], "is not linear"))
    }

    /// Calls in which arguments are equal, or at a kink. There are none if no convention tells the value of the rule
    /// there.
    fn at_a_kink<'s>(&'s self, rule: &Declared, own: Stated, fits: &'s dyn Fn(&Instance) -> bool) -> Calls<'s, 'a> {
        let derived = self.derived.rule(rule.arg).filter(|_| rule.way == Way::Vjp);
        // a derived rule that misses a slope which is the same on all sides is no reference
        let misses = |derived| kinks::missed(self.row, self.library, derived, rule.at).is_some();
        if !self.has_convention(rule) || derived.is_some_and(misses) {
            return Box::new(std::iter::empty());
        }
        let (least, most) = if derived.is_some() { (0, usize::MAX) } else { TAPED };
        let at_kinks = self.at_kinks(own.clone(), least..=self.most, fits).take(most);
        Box::new(at_kinks.chain(self.tied(own, fits)))
    }

    /// Calls in which all elements are equal, then calls in which most are. A rule may be right for few ties because it
    /// assumes their number.
    fn tied<'s>(
        &'s self,
        own: Stated,
        fits: &'s dyn Fn(&Instance) -> bool,
    ) -> impl Iterator<Item = (usize, Instance<'a>)> + 's {
        let calls = self.cases().filter(|(_, case)| case.numel() > 2).take(TIED);
        let calls = calls.flat_map(|at| [(0.75, 1.25), (0.25, 1.75)].map(|between| (at, between)));
        calls.filter_map(move |((n, case), between)| {
            let domain = Domain { grid: Some(1.0), ..Domain::of(own.clone(), between) };
            Some((n, self.draw(n, case, &domain, fits)?))
        })
    }

    /// Calls in which an element of an argument is `lost`, or all elements if the row is scalar. A branch that NaN
    /// takes has a derivative there. Infinities have both signs in turn. A rule that gives NaN or an infinity is not
    /// refuted, only one that gives another number.
    fn with(&self, lost: f64) -> impl Iterator<Item = (usize, Instance<'a>)> {
        let all = self.row.is_pointwise();
        // several calls are tried, because two branches may coincide where an option is 1
        self.usual().flat_map(move |(_, instance)| {
            let of = move |at: usize| {
                let middle = instance.numel_of(at).checked_sub(1)? / 2;
                let sign = |e: usize| if e.is_multiple_of(2) { lost } else { -lost };
                let by = |p: usize, e: usize, x: f64| if p == at && (all || e == middle) { sign(e) } else { x };
                Some((at, instance.with(&by, self.library)?))
            };
            (0..self.row.sig.params.len()).filter_map(of)
        })
    }
}

/// Returns these calls if the claim is made of the rule, or else none.
fn when<'s, 'a: 's, I: Iterator<Item = (usize, Instance<'a>)> + 's>(
    holds: bool,
    calls: impl FnOnce() -> I,
) -> Calls<'s, 'a> {
    Box::new(holds.then(calls).into_iter().flatten())
}

/// Returns the pairs that differ by more than rounding of large numbers explains, or `None` if there are none.
fn apart(mut pairs: Vec<Pair>) -> Option<Vec<Pair>> {
    let finite = |pair: &&Pair| pair.derived.is_finite();
    let largest = pairs.iter().filter(finite).map(|pair| pair.derived.abs()).fold(1.0, f64::max);
    pairs.retain(|pair| {
        let size = CLOSE.0 * (pair.stated.abs() + pair.derived.abs()) + CLOSE.1 * largest;
        pair.derived.is_finite() && pair.stated.is_finite() && pair.distance() > size
    });
    (!pairs.is_empty()).then_some(pairs)
}
