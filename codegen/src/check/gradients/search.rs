//! The search for data that refute a claim about a row's rules. It pairs calls of the row with data of each kind, tries
//! them in a fixed order, and stops at the first pair that shows a fault.

use fulgurite_core::derive::Derived;
use fulgurite_core::row::Row;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::check::branches::Ids;
use crate::check::cases::{Case, Family};
use crate::check::gradients::arrays::declared::{Declared, Seed};
use crate::check::gradients::arrays::dense::Library;
use crate::check::gradients::arrays::instance::Instance;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::arrays::tape;
use crate::check::gradients::budget::{BEHIND, BESIDE, FEW, KINK_ROUNDS, MOST_KINKS, SMALL};
use crate::check::gradients::samples::{self, Domain, Stated};
use crate::schema::RowSource;

/// The calls and the data on which the rules of one row are tried.
pub struct Bench<'a> {
    /// The row as written.
    pub source: &'a RowSource,
    /// The parsed row.
    pub row: &'a Row,
    /// The row's usual calls.
    pub family: &'a Family,
    /// Further calls, whose options have other numbers than their defaults.
    pub beside: &'a [Case],
    /// Calls on which rules are compared, but no other claim is tried. They have every value of an option that names a
    /// place, more values of an option that counts, longer lists, windows, equal sizes, mixed dtypes, or options that
    /// the row's points name.
    pub valued: &'a [Case],
    /// The rows that rules may call.
    pub library: &'a Library<'a>,
    /// The rules derived from the row's meaning.
    pub derived: &'a Derived,
    /// Data drawn earlier, by seed, so that every rule of the row is tried on the same data.
    pub drawn: RefCell<FxHashMap<u64, Vec<Drawn<'a>>>>,
    /// Numbers outside the usual data with which the row compares.
    pub compared: &'a [f64],
    /// The rules of the rows that a program calls, derived once for all calls.
    pub taped: RefCell<tape::Rules<'a>>,
    /// The greatest number of elements in a call; larger calls are left out.
    pub most: usize,
    /// The calls to try, as chosen by [`calls`].
    pub calls: Vec<(usize, &'a Case)>,
    /// The branches taken in calls on which a rule was compared; `None` if branch coverage is not wanted.
    pub compared_in: Option<&'a RefCell<Ids>>,
    /// The rows reachable from the row's meaning and rules.
    pub within: &'a [Arc<Row>],
}

/// The result of a draw for a call, a domain and a bound of indices. `found` is `None` if no data gave the row finite
/// values.
pub struct Drawn<'a> {
    case: &'a Case,
    domain: Domain,
    bound: i64,
    found: Option<Instance<'a>>,
}

/// Returns the calls of at most `most` elements, smaller ones first. Once they have `together` elements in all, a
/// further call is kept only if its words, truth values and presence of arguments form a new combination.
pub fn calls<'a>(family: &'a Family, beside: &'a [Case], most: usize, together: usize) -> Vec<(usize, &'a Case)> {
    let mut calls: Vec<(usize, &'a Case)> = family.cases.iter().chain(beside).enumerate().collect();
    calls.retain(|(_, case)| (1..=most).contains(&case.numel()));
    calls.sort_by_key(|(_, case)| case.numel());
    let (mut elements, mut kinds) = (0, FxHashSet::default());
    calls.retain(|(_, case)| {
        elements += case.numel();
        kinds.insert(case.kind()) || elements <= together
    });
    calls
}

impl<'a> Bench<'a> {
    /// Calls of at most `most` elements with data inside the domain, smaller ones first.
    pub fn instances(&self, most: usize) -> impl Iterator<Item = Instance<'a>> {
        let small = self.tries().filter(move |(_, case)| case.numel() <= most);
        small.filter_map(|(n, case)| self.smooth(n, case, &|_| true))
    }

    /// The calls to try. A family of few calls is repeated, with other numbers each time.
    pub(super) fn tries(&self) -> impl Iterator<Item = (usize, &'a Case)> {
        let rounds = SMALL / self.calls.len().max(1) + 1;
        (0..rounds).flat_map(move |round| self.cases().map(move |(n, case)| (n + round, case)))
    }

    /// The calls of [`Bench::instances`], then calls with data at ties and kinks, because `if x == 0 { y } else { 0 }`
    /// depends on `y` only there.
    pub fn everywhere(&self, most: usize) -> impl Iterator<Item = Instance<'a>> {
        self.instances(most).chain(self.kinked(most).map(|(_, instance)| instance))
    }

    /// The calls of [`Bench::everywhere`] with data at ties and kinks, without the others.
    pub fn kinked(&self, most: usize) -> impl Iterator<Item = (usize, Instance<'a>)> {
        self.at_kinks(samples::stated(self.source), 0..=most, &|_| true).take(MOST_KINKS)
    }

    /// The calls of [`Bench::kinked`], drawn without regard to the domain that the row states.
    pub fn kinked_anywhere(&self, most: usize) -> impl Iterator<Item = (usize, Instance<'a>)> {
        self.at_kinks(Vec::new(), 0..=most, &|_| true).take(MOST_KINKS)
    }

    /// Calls with a number of elements in `elements`, with data at ties and kinks within the intervals `own`.
    pub(super) fn at_kinks<'s>(
        &'s self,
        own: Stated,
        elements: RangeInclusive<usize>,
        fits: &'s dyn Fn(&Instance) -> bool,
    ) -> impl Iterator<Item = (usize, Instance<'a>)> + 's {
        let written = samples::written(self.row);
        let few = self.cases().count() * KINK_ROUNDS <= MOST_KINKS;
        // few calls have numbers other than the defaults, so these get rounds of their own
        let beside = self.beside.iter().enumerate().map(|(n, case)| (BEHIND + n, case));
        let beside = beside.filter(move |(_, case)| !few && (1..=self.most).contains(&case.numel()));
        let again =
            |(n, case): (usize, &'a Case)| (1..=(BESIDE / case.numel()).max(1)).map(move |round| (round, n, case));
        let beside = beside.flat_map(again);
        let rounds = (0..if few { KINK_ROUNDS } else { 1 })
            .flat_map(|round| self.cases().map(move |(n, case)| (round, n, case)))
            .chain(beside)
            .filter(move |(_, _, case)| elements.contains(&case.numel()));
        rounds.filter_map(move |(round, n, case)| {
            let domain = samples::kinks(&own, &written, case, n + round);
            Some((n, self.draw(n + 1000 * round, case, &domain, fits)?))
        })
    }

    pub(super) fn cases(&self) -> impl Iterator<Item = (usize, &'a Case)> {
        self.calls.iter().copied()
    }

    pub(super) fn smooth(&self, n: usize, case: &'a Case, fits: &dyn Fn(&Instance) -> bool) -> Option<Instance<'a>> {
        let own = samples::stated(self.source);
        samples::domains(&own, self.compared, n).find_map(|domain| self.draw(n, case, &domain, fits))
    }

    pub(super) fn draw(
        &self,
        n: usize,
        case: &'a Case,
        domain: &Domain,
        fits: &dyn Fn(&Instance) -> bool,
    ) -> Option<Instance<'a>> {
        let finite = |bound| self.finite(n as u64, case, domain, bound);
        samples::bounds(self.row, case).find_map(|bound| finite(bound).filter(|instance| fits(instance)))
    }

    fn finite(&self, seed: u64, case: &'a Case, domain: &Domain, bound: i64) -> Option<Instance<'a>> {
        let is = |d: &&Drawn| std::ptr::eq(d.case, case) && d.bound == bound && d.domain == *domain;
        if let Some(known) = self.drawn.borrow().get(&seed).and_then(|drawn| drawn.iter().find(is)) {
            return known.found.clone();
        }
        let found = samples::finite(self.library, self.row, case, domain, seed, bound);
        let drawn = Drawn { case, domain: domain.clone(), bound, found: found.clone() };
        self.drawn.borrow_mut().entry(seed).or_default().push(drawn);
        found
    }

    /// The smallest calls of more than one element, at most [`FEW`] of them.
    pub(super) fn few(&self) -> impl Iterator<Item = (usize, &'a Case)> {
        self.cases().filter(|(_, case)| case.numel() > 1).take(FEW)
    }

    /// Returns the first of `calls` in which `look` finds something about `rule`, with the seed and the finding. `salt`
    /// keeps the seeds of one claim apart from those of the others.
    pub fn first<T>(
        &self,
        rule: &Declared,
        salt: u64,
        calls: impl Iterator<Item = (usize, Instance<'a>)>,
        mut look: impl FnMut(usize, &Instance<'a>, &Seed) -> Option<T>,
    ) -> Option<(Instance<'a>, Seed, T)> {
        let mut calls = calls.filter_map(|(n, instance)| {
            let seed = rule.seed(&instance, &mut Numbers::new(salt + n as u64))?;
            let found = look(n, &instance, &seed)?;
            Some((instance, seed, found))
        });
        calls.next()
    }

    /// The calls of [`Bench::few`] with data inside the domain.
    pub fn usual(&self) -> impl Iterator<Item = (usize, Instance<'a>)> {
        self.few().filter_map(|(n, case)| Some((n, self.smooth(n, case, &|_| true)?)))
    }
}
