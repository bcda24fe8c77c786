//! E401, E404: the values of a declared rule are those of the derivative.

use fulgurite_core::derive;
use fulgurite_core::row::Row;
use fulgurite_core::{Name, Value};

use crate::check::gradient_rules;
use crate::check::gradients::Grade;
use crate::check::gradients::arrays::declared::{Against, Declared, Pair, Refuted, Seed, Subset, Way};
use crate::check::gradients::arrays::dense::{Dense, Stop, V};
use crate::check::gradients::arrays::instance::Instance;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::arrays::tape;
use crate::check::gradients::budget::{BEHIND, MOST_REFUTED};
use crate::check::gradients::proof;
use crate::check::gradients::search::Bench;
use crate::check::gradients::show;
use crate::check::gradients::show::linear;
use crate::check::gradients::show::term;
use crate::check::walk;
use crate::diag::Diag;
use std::cell::RefCell;

/// Whether a run failed because its data do not fit, or because it takes too long.
fn out_of_reach<X>(found: &Result<X, Stop>) -> bool {
    matches!(found, Err(Stop::Data(_) | Stop::TooLong(_)))
}

impl<'a> Bench<'a> {
    /// Compares `rule` with the derivative. The branches that the comparison takes are recorded as compared.
    pub(super) fn difference(
        &self,
        rule: &Declared,
        instance: &Instance,
        seed: &Seed,
    ) -> Result<Option<Vec<Pair>>, Stop> {
        let find = || rule.difference(Against::Meaning, instance, self.library, seed);
        let Some(compared_in) = self.compared_in else { return find() };
        let (found, taken) = self.library.listen(find);
        if found.is_ok() {
            compared_in.borrow_mut().extend(taken);
        }
        found
    }

    /// Grades `rule`: it is right by its normal form, or else on instances. `None` means that nothing can be said,
    /// because a row that it calls is wrong.
    ///
    /// # Errors
    /// The fault in the values of `rule`.
    pub fn grade(&self, rule: &Declared) -> Result<Option<Grade>, Box<Diag>> {
        let derived = self.derived.rule(rule.arg).filter(|_| rule.way == Way::Vjp);
        match derived.filter(|derived| proof::holds(self.row, rule.arg, &rule.rule.tree, derived, self.library)) {
            // a proof is about finite numbers alone
            Some(_) => match self.not_numbers(rule) {
                Some(diag) => Err(Box::new(diag)),
                None => Ok(Some(Grade::Proved)),
            },
            None => self.compare(rule),
        }
    }

    /// Grades `rule` on instances alone.
    ///
    /// # Errors
    /// The fault in the values of `rule`.
    pub fn compare(&self, rule: &Declared) -> Result<Option<Grade>, Box<Diag>> {
        let fits = |instance: &Instance| {
            let seed = rule.seed(instance, &mut Numbers::new(5));
            seed.is_none_or(|seed| !out_of_reach(&rule.value(instance, self.library, &seed)))
        };
        let (mut compared, mut stopped, mut refusing) = (0, None, None);
        let valued = self.valued.iter().enumerate().map(|(n, case)| (BEHIND + n, case));
        let mut refuted: Vec<Refuted> = self
            .tries()
            .chain(valued)
            .filter_map(|(n, case)| {
                let last = RefCell::new(None);
                let instance = self.smooth(n, case, &|instance| {
                    let found = rule.seed(instance, &mut Numbers::new(1000 + n as u64)).map(|seed| {
                        let found = self.difference(rule, instance, &seed);
                        (seed, found)
                    });
                    let fits = found.as_ref().is_none_or(|(_, found)| !matches!(found, Err(Stop::TooLong(_))));
                    last.replace(found);
                    fits
                })?;
                let (seed, found) = last.take()?;
                compared += usize::from(found.is_ok());
                let pairs = found.unwrap_or_else(|stop| {
                    if matches!(&stop, Stop::Data(_))
                        || matches!(&stop, Stop::Refused(refusal) if refusal.code != "E007")
                    {
                        refusing.get_or_insert_with(|| (instance.clone(), seed.clone(), stop.to_string()));
                    }
                    stopped = Some(stop);
                    None
                })?;
                Some(Refuted { instance, seed, pairs })
            })
            .take(MOST_REFUTED)
            .collect();
        if compared == 0 {
            return self.never_compared(rule, stopped).map_or(Ok(None), |diag| Err(Box::new(diag)));
        }
        // calls with a derivative other than zero come first, because they say more: a softmax along an axis of size 1
        // is constant
        refuted.sort_by_key(|refuted| refuted.pairs.iter().all(|pair| pair.derived.abs() < 1e-9));
        if !refuted.is_empty() {
            return Err(Box::new(self.refuse(rule, &refuted, &verdict(&refuted))));
        }
        if let Some((instance, seed, why)) = &refusing {
            let diag = self.refused(rule, instance, seed, "for a call that the row takes", why);
            return Err(Box::new(self.right_rule(rule, diag)));
        }
        if let Some(refuted) = self.of_some_results(rule)? {
            let claim = "is not the derivative where some results do not reach the loss";
            return Err(Box::new(self.refuse(rule, &[refuted], claim)));
        }
        match self.unusual(rule, &fits) {
            Some(diag) => Err(Box::new(diag)),
            None => Ok(Some(Grade::Checked(compared))),
        }
    }

    /// Compares a rule of several results in calls where some have no cotangent. A few calls suffice, because a test
    /// such as `some(g_a)` has the same outcome in all of them.
    fn of_some_results(&self, rule: &Declared) -> Result<Option<Refuted<'a>>, Box<Diag>> {
        let outs = &self.row.sig.outs;
        let mut given = if rule.way == Way::Vjp { Subset::of(outs.len()) } else { Vec::new() };
        // a mask never has a cotangent, so a set of masks alone asks for no gradient
        given.retain(|given| outs.iter().enumerate().any(|(at, out)| given.has(at) && derive::differentiable(&out.ty)));
        let wrong = given.into_iter().find_map(|given| {
            self.first(rule, 5000, self.usual(), |_, instance, seed| {
                let seed = seed.some(given);
                match self.difference(rule, instance, &seed) {
                    Ok(Some(pairs)) => Some(Ok(Refuted { instance: instance.clone(), seed, pairs })),
                    Err(Stop::Refused(refusal)) if refusal.code != "E007" => {
                        let claim = "where some results do not reach the loss";
                        let diag = self.refused(rule, instance, &seed, claim, &refusal.message);
                        let help = "a cotangent may be absent: ask `some(…)` before it is handed to a row";
                        Some(Err(Box::new(diag.help(help))))
                    }
                    Ok(None) | Err(_) => None,
                }
            })
        });
        wrong.map(|(.., found)| found).transpose()
    }

    /// The diagnostic of a rule that cannot be run.
    fn refused(&self, rule: &Declared, instance: &Instance, seed: &Seed, when: &str, why: &str) -> Diag {
        let message = format!("{} has no value {when}", rule.named(self.source).name());
        let diag = Diag::error("E401", rule.rule.text.place, message).here(why);
        show::at(diag, rule, instance, seed)
    }

    /// Whether there is a reference for `rule` at ties and kinks: the derived rule of a formula, or else the rules of
    /// the rows that a program calls. For a tangent it is the gradient. A row that deviates has none but a derived
    /// rule.
    pub(super) fn has_convention(&self, rule: &Declared) -> bool {
        let derived = rule.way == Way::Vjp && self.derived.rule(rule.arg).is_some();
        derived || self.source.deviates.is_none() && (rule.way == Way::Jvp || self.row.is_composite())
    }

    /// Compares `rule` with the reference of [`Bench::has_convention`].
    pub(super) fn by_convention(
        &self,
        rule: &Declared,
        instance: &Instance,
        seed: &Seed,
    ) -> Result<Option<Vec<Pair>>, Stop> {
        let derived = self.derived.rule(rule.arg);
        let taped = |cotangents: &[Value<V<f64>>]| {
            let of = tape::gradients(instance, &mut self.taped.borrow_mut(), cotangents)?
                .map(|mut of| of.swap_remove(rule.at));
            of.ok_or_else(|| Stop::Data("the program is differentiated another way".to_owned()))
        };
        if rule.way == Way::Vjp {
            let numbers = match derived {
                Some(derived) => rule.value_of(derived, instance, self.library, seed)?,
                None => taped(seed.values())?,
            };
            return rule.difference(Against::Numbers(&numbers), instance, self.library, seed);
        }
        let gradient = |cotangents: &[Value<V<f64>>]| match gradient_rules::holding(self.row, self.derived, rule.arg) {
            Some(gradient) => instance.vjp(self.library, gradient, rule.at, cotangents),
            None => taped(cotangents),
        };
        rule.difference(Against::Gradient(&gradient), instance, self.library, seed)
    }

    /// Warns of a rule that was never compared, because without a warning it would pass for right.
    fn never_compared(&self, rule: &Declared, stopped: Option<Stop>) -> Option<Diag> {
        let why = match stopped {
            // it calls a row with a fault of its own
            Some(Stop::Refused(refusal)) if refusal.code == "E007" => return None,
            Some(stop) => stop.to_string(),
            None => "no data were found on which the row has a finite value".to_owned(),
        };
        let message = format!("{} is not compared with the derivative", rule.named(self.source).name());
        let diag = Diag::warning("E401", rule.rule.text.place, message).note(why);
        Some(diag.help("say where the row has values: `tests: {domain: {x: 'lo..hi'}}`"))
    }

    /// The diagnostic of a refuted rule; the first call of `refuted` is shown.
    pub fn refuse(&self, rule: &Declared, refuted: &[Refuted], claim: &str) -> Diag {
        let named = rule.named(self.source);
        let Refuted { instance, seed, pairs } = &refuted[0];
        let nonlinear = !rule.is_linear(instance, self.library, seed).unwrap_or(true);
        let worst = pairs.iter().max_by(|a, b| a.distance().total_cmp(&b.distance()));
        let worst = worst.copied().unwrap_or(Pair { element: 0, stated: 0.0, derived: 0.0 });
        let element = show::element(rule, instance, worst.element);
        let values =
            format!("{element} is {}, the derivative is {}", show::number(worst.stated), show::number(worst.derived));
        let diag = if nonlinear {
            let at = named.text.at(linear::step(&rule.rule.tree, &rule.seeds(self.row)));
            let message = format!("{} {}", named.name(), self.not_linear(rule));
            Diag::error("E404", at, message).here("this part is not")
        } else {
            let term = term::wrong(rule, refuted, self.library);
            let (span, said) = term.unwrap_or((rule.rule.tree.value.span, String::new()));
            match self.ignored(rule, instance, seed) {
                Some(seed) => {
                    let message = format!("{} ignores `{seed}`, the cotangent of a result", named.name());
                    Diag::error("E508", named.text.at(rule.rule.tree.value.span), message)
                }
                None => Diag::error("E401", named.text.at(span), format!("{} {claim}", named.name())).here(said),
            }
        };
        self.right_rule(rule, show::at(diag, rule, instance, seed).note(values))
    }

    /// The cotangent of a result that moves with the argument, if the rule does not read it.
    fn ignored(&self, rule: &Declared, instance: &Instance, seed: &Seed) -> Option<Name> {
        let mut read = Vec::new();
        walk::names(&rule.rule.tree, &mut |name| read.push(name));
        let seeds = rule.seeds(self.row);
        let several = rule.way == Way::Vjp && seeds.len() > 1;
        seeds.into_iter().enumerate().filter(|(_, seed)| several && !read.contains(seed)).find_map(|(at, name)| {
            let along =
                instance.along(&mut Dense::new(self.library), rule.at, &|e| 1.0 + e as f64, seed.only(at).values());
            (along.ok()?.abs() > 1e-9).then_some(name)
        })
    }

    fn not_linear(&self, rule: &Declared) -> String {
        let seeds: Vec<String> = rule.seeds(self.row).iter().map(|seed| format!("`{seed}`")).collect();
        let seed = if rule.way == Way::Jvp { "`t`".to_owned() } else { seeds.join(", ") };
        format!("is not linear in {seed}")
    }

    /// Adds the right rule to `diag`.
    fn right_rule(&self, rule: &Declared, diag: Diag) -> Diag {
        let delete = format!("delete {}", rule.what());
        let Some(derived) = self.derived.rule(rule.arg).filter(|_| rule.way == Way::Vjp) else {
            let source = if self.row.is_composite() { "the rows of its body are differentiated" } else { "it follows" };
            return diag.help(format!("mend it, or {delete}: {source}"));
        };
        let right = derived.to_string().replace('\n', " ");
        let made: Vec<&Row> = self.derived.rows.iter().filter(|row| right.contains(row.op.as_str())).collect();
        if made.is_empty() {
            return diag.help(format!("the derived rule is `{right}`: write it, or {delete}"));
        }
        let bodies = made.iter().filter_map(|row| Some((row, row.index_body()?)));
        let diag = bodies.fold(diag, |diag, (row, body)| {
            let (names, body) = (row.sig.params.iter(), body.to_string().replace('\n', " "));
            let names: Vec<String> = names.map(|param| param.name.name.to_string()).collect();
            diag.note(format!("{}({}) = {body}", row.op, names.join(", ")))
        });
        diag.help(format!("{delete}: the derived rule is `{right}`"))
    }
}

/// Describes what is wrong with a rule: its sign, a factor, or more.
fn verdict(refuted: &[Refuted]) -> String {
    let pairs: Vec<&Pair> = refuted.iter().flat_map(|r| &r.pairs).filter(|p| p.derived.is_finite()).collect();
    let large = pairs.iter().map(|p| p.derived.abs()).fold(0.0, f64::max);
    let ratios: Vec<f64> =
        pairs.iter().filter(|p| p.derived.abs() > 1e-6 * large).map(|p| p.stated / p.derived).collect();
    let none = |x: f64| x.abs() <= 1e-6 * large;
    let beside = pairs.iter().any(|p| none(p.derived) && !none(p.stated));
    let same = |factor: f64| !beside && ratios.iter().all(|r| (r - factor).abs() <= 1e-6 * factor.abs());
    match ratios.first() {
        None => "is not zero, but the derivative is zero".to_owned(),
        Some(_) if beside && ratios.iter().all(|r| (r - 1.0).abs() <= 1e-6) => {
            "is not zero at elements whose derivative is zero".to_owned()
        }
        Some(_) if same(-1.0) => "has the wrong sign".to_owned(),
        Some(_) if ratios.iter().all(|r| *r == 0.0) => "is zero, but the derivative is not".to_owned(),
        Some(factor) if ratios.len() > 1 && same(*factor) => {
            format!("is {} times the derivative", show::factor(*factor))
        }
        Some(_) => "is not the derivative".to_owned(),
    }
}
