//! Gradients: declared rules against the derivative of the meaning, and everything else that a row claims about its
//! derivatives.
//!
//! Forward-mode differentiation with dual numbers ([`arrays::dual`]) gives the reference derivative, because it is
//! independent of the derivation of rules. A declared rule is refuted by [`arrays::instance`]s: small calls with
//! pairwise distinct sizes, every combination of options, and data inside the domain. At ties and kinks the reference
//! is the derived rule, because it carries the conventions there. A rule of a scalar row needs no instances if it has
//! the same normal form as the derived rule (`proof`). The gradient of a program at a point comes from the rules of
//! the rows that it calls ([`arrays::tape`]).

pub mod arrays;
mod budget;
mod claims;
mod proof;
pub mod samples;
mod search;
pub mod show;

use std::cell::RefCell;
use std::sync::Arc;

use fulgurite_core::Name;
use fulgurite_core::row::Row;

use super::cases::{self, Case};
use super::closure;
use super::gradient_rules;
use super::rows::RowSet;
use crate::diag::{Diag, Level};
pub use crate::grade::Grade;
use crate::schema::RowSource;
use arrays::declared::{Declared, Way};
use arrays::dense::Library;
use arrays::tape;
use claims::{
    absent, constant, covered, deviates, dtype_rules, excused, kinks, off_kink, second, twice, unstable_formulas,
    unstable_rows, zero_times_infinity,
};

/// The evidence that a row's points give about its derivatives.
pub struct Points<'a> {
    /// Returns the calls of the points.
    pub calls: &'a dyn Fn() -> Vec<Case>,
    /// Returns how many points state, for an argument, something other than the derivative.
    pub apart: &'a dyn Fn(Way, Name) -> usize,
    /// Tells whether a point states a gradient that another row, with the same values, does not have.
    pub shows: &'a dyn Fn(&Arc<Row>) -> bool,
}

/// A declared rule that was found right.
#[derive(Clone, Copy, Debug)]
pub struct Graded {
    /// The row.
    pub op: Name,
    /// The key that states the rule, `grad` or `jvp`.
    pub way: Way,
    /// The argument that the rule is for.
    pub arg: Name,
    /// How the rule was found right: by a proof, or by compared calls.
    pub grade: Grade,
}

/// Returns the faults in the derivatives of `row`, the types of whose rules were checked before. Declared rules that
/// are found right are added to `right`. `points` give access to the row's points.
pub fn check(
    source: &RowSource,
    row: &Arc<Row>,
    set: &RowSet,
    family: &cases::Family,
    points: &Points,
    right: &mut Vec<Graded>,
) -> Vec<Diag> {
    let library = Library::new(set);
    let mut faults = kinks::check(source, row, &library);
    faults.extend(unstable_formulas::check(source, row, &library));
    faults.extend(unstable_formulas::conventions(source, row, &library));
    faults.extend(unstable_rows::check(source, row, family, &library));
    faults.extend(rules(source, row, set, family, points, right));
    faults
}

fn rules(
    source: &RowSource,
    row: &Arc<Row>,
    set: &RowSet,
    family: &cases::Family,
    points: &Points,
    right: &mut Vec<Graded>,
) -> Vec<Diag> {
    if source.no_grad.is_some() {
        return absent::needless(source, row, set).into_iter().collect();
    }
    let derived = &*set.derived(row);
    let mut faults = absent::missing(source, row, derived);
    faults.extend(deviates::once(source, row, set));
    let mut library = Library::of_row(set);
    faults.extend(deviates::unruled(source, row, set, &library));
    library.extend(derived.rows.iter().cloned());
    faults.extend(zero_times_infinity::check(source, row, family, &library, derived));
    let holds = |arg: Name| Some((arg, gradient_rules::holding(row, derived, arg)?));
    let args = row.sig.params.iter().map(|param| param.name.name);
    faults.extend(kinks::smooth(source, row, &library, args.filter_map(holds)));
    let (declared, detached, skipped) =
        (gradient_rules::of(source), constant::detached(source), constant::skipped(source));
    let on_purpose = source.deviates.is_some() && deviates::says_otherwise(row);
    if declared.is_empty() && detached.is_none() && skipped.is_empty() && !on_purpose {
        return faults;
    }
    let Some(dtype) = samples::element(row) else { return faults };
    let family = cases::family(row, dtype);
    let mut beside = cases::beside_defaults(row, &family);
    beside.extend(cases::stepped(row, dtype));
    let crossed = cases::crossed(row, family.cases.iter().chain(&beside), |_| true);
    beside.extend(crossed);
    let mut valued = cases::valued(row, &family);
    valued.extend(cases::deep(row, dtype));
    valued.extend(cases::long_lists(row, dtype));
    valued.extend(cases::stepping(row, dtype, budget::STEPPING));
    valued.extend(cases::equal(row, dtype));
    let narrow = |arg: Name| !source.tests.domain.iter().any(|(of, _)| arg == of.as_str());
    valued.extend(cases::mixed(row, &family.cases, narrow));
    // points may name options that no generated call has
    valued.extend(
        (points.calls)().into_iter().filter(|case| case.solved.joined.is_none_or(|d| d.is_float() && d.opmath() == d)),
    );
    let (family, beside, valued, library) = (&family, &beside, &valued, &library);
    let (drawn, taped) = (RefCell::default(), RefCell::new(tape::Rules::new(library)));
    let known = RefCell::default();
    let within = &within(row, &declared, set);
    let compared = &samples::compared(row, within);
    let compared_in = covered::may_be_missed(row, &declared, within).then_some(&known);
    let most = budget::MOST_ELEMENTS;
    let calls = search::calls(family, beside, most, budget::MOST_TOGETHER);
    let bench = search::Bench {
        source,
        row,
        family,
        beside,
        valued,
        library,
        derived,
        drawn,
        compared,
        taped,
        most,
        calls,
        compared_in,
        within,
    };
    faults.extend(constant::in_rules(source, row));
    faults.extend(detached.and_then(|place| constant::detach(&bench, place)));
    faults.extend(skipped.into_iter().filter_map(|(at, place)| constant::skip(&bench, at, place)));
    let mut by_calls = Vec::new();
    for rule in &declared {
        match bench.grade(rule) {
            Ok(Some(grade)) => {
                right.push(Graded { op: row.op, way: rule.way, arg: rule.arg, grade });
                by_calls.extend(matches!(grade, Grade::Checked(_)).then_some(*rule));
                faults.extend(off_kink::check(&bench, rule));
            }
            Ok(None) => {}
            // if a rule is not the derivative on purpose, the points state its value
            Err(fault) => match (points.apart)(rule.way, rule.arg) {
                0 => faults.push(*fault),
                n => {
                    faults.extend(bench.nonlinear(rule));
                    right.push(Graded { op: row.op, way: rule.way, arg: rule.arg, grade: Grade::Checked(n) });
                    faults.extend(absent::partial(source, row, rule));
                }
            },
        }
    }
    // a warning does not stop the later checks
    let right = |faults: &[Diag]| faults.iter().all(|fault| fault.level != Level::Error);
    if right(&faults) {
        faults.extend(deviates::harmless(&bench, set));
        // a point that states a gradient other than the derivative justifies `deviates`
        if !declared.iter().any(|rule| (points.apart)(rule.way, rule.arg) > 0) {
            faults.extend(deviates::ruled(&bench, &declared, set));
        }
        faults.extend(dtype_rules::check(&bench, &declared, dtype));
    }
    if right(&faults) {
        faults.extend(excused::check(&bench, points.shows));
        faults.extend(twice::check(&bench, &declared));
    }
    if right(&faults) {
        faults.extend(second::check(&bench, &declared));
    }
    if right(&faults) {
        faults.extend(covered::check(&bench, &by_calls, dtype, points.calls));
    }
    faults
}

/// The rows reachable by calls from the meaning or the rules of `row`.
fn within(row: &Row, declared: &[Declared], set: &RowSet) -> Vec<Arc<Row>> {
    let called = closure::called(row).into_iter();
    let called = called.chain(closure::text_calls(declared.iter().map(|rule| &rule.rule.tree)));
    closure::all_reached(called.collect(), set)
}
