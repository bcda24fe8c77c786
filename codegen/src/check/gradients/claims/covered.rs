//! E401: a rule must be compared with the derivative in every branch of its own and of the meaning.

use fulgurite_core::lang::Block;
use fulgurite_core::row::Row;
use fulgurite_core::signature::OutTy;
use fulgurite_core::{DType, TensorTy};
use std::cell::RefCell;
use std::sync::Arc;

use crate::check::branches::{self, Branch, Id, Ids};
use crate::check::cases::{self, Case, Family};
use crate::check::coverage::{self, MOST_ELEMENTS, Trail, of_index};
use crate::check::expanded::{Expanded, Look};
use crate::check::gradients::arrays::declared::Declared;
use crate::check::gradients::arrays::tape;
use crate::check::gradients::budget::{TRIES, TRIES_WITHIN};
use crate::check::gradients::claims::dtype_rules;
use crate::check::gradients::samples;
use crate::check::gradients::search::{self, Bench};
use crate::check::report;
use crate::check::rows::RowSet;
use crate::check::{closure, rules, walk};
use crate::diag::{Diag, Level};
use crate::yaml::Text;

/// Whether a rule of `row`, its meaning or a row that they reach has branches.
pub fn may_be_missed(row: &Row, declared: &[Declared], within: &[Arc<Row>]) -> bool {
    let own = declared.iter().map(|rule| &rule.rule.tree).chain(walk::body(row));
    !declared.is_empty() && (own.into_iter().any(branches::any) || !inner(within).is_empty())
}

/// Compares the rules of `declared` in the branches that no compared call has taken. Returns a fault of a rule there,
/// or a branch that no call takes. `points` are the calls of the row's points.
pub fn check(bench: &Bench, declared: &[Declared], tried: DType, points: &dyn Fn() -> Vec<Case>) -> Option<Diag> {
    let (row, set, compared_in) = (bench.row, bench.library.set, bench.compared_in?);
    if declared.is_empty() {
        return None;
    }
    let own = own(bench, declared);
    let strict: Ids = own.iter().map(|(_, branch)| branch.id).collect();
    let missing = |all: &Ids| -> Ids { all.difference(&compared_in.borrow()).copied().collect() };
    let flows = |case: &Case| declared.iter().any(|rule| flows(rule, case));
    let (mut met, mut mute) = (Ids::default(), Ids::default());
    let mut wrong = |dtype: DType, of: &Ids, tries: usize| {
        let open = missing(of);
        if open.is_empty() {
            return None;
        }
        let own = tries == TRIES;
        let known = bench.family.cases.iter().filter(|_| own && dtype == tried).cloned();
        let takes = |case: &Case| takes(row, declared, set, case, own);
        // the branches of called rows mostly serve other callers, so not every combination of options is tried for them
        let each = std::iter::once_with(|| cases::each(row, dtype)).take(usize::from(own)).flatten();
        let mut first = known.chain(points()).chain(each);
        let found = coverage::search(row, dtype, &mut first, tries, &open, &takes, &flows);
        met.extend(&found.taken);
        mute.extend(&found.mute);
        let family = &Family { cases: found.cases, refused: None };
        let library = &bench.library.with_all_digits();
        let (drawn, taped) = (RefCell::default(), RefCell::new(tape::Rules::new(library)));
        // each of these calls takes a branch that no other call takes, so none is left out
        let (most, calls) = (MOST_ELEMENTS, search::calls(family, &[], MOST_ELEMENTS, usize::MAX));
        let more = Bench { family, beside: &[], valued: &[], library, drawn, taped, most, calls, ..*bench };
        let wrong = |rule: &Declared| more.compare(rule).err().filter(|diag| diag.level == Level::Error);
        declared.iter().find_map(wrong).map(|diag| *diag)
    };
    let texts = declared.iter().map(|rule| &rule.rule.tree).chain(walk::body(row));
    let asks = texts.into_iter().any(|text| dtype_rules::asks(row, text));
    let others = samples::taken(row)?.iter().filter(|d| asks && d.has_gradient() && *d != tried);
    let found = std::iter::once(tried).chain(others).find_map(|dtype| wrong(dtype, &strict, TRIES));
    if let Some(diag) = found.or_else(|| wrong(tried, &inner(&helpers(bench, declared)), TRIES_WITHIN)) {
        return Some(diag);
    }
    let open = missing(&strict);
    let missed = |id: &Id| open.contains(id) && (met.contains(id) || !mute.contains(id));
    let of_text = |text: &Text| {
        let own = own.iter().filter(|(of, branch)| std::ptr::eq(of.text, text) && missed(&branch.id));
        own.map(|(_, branch)| branch).collect::<Vec<_>>()
    };
    let first = |(of, branch): &&(Own, Branch)| {
        missed(&branch.id) && branches::needless(&of_text(of.text)).is_some_and(|first| first.id == branch.id)
    };
    let (of, branch) = own.iter().find(first)?;
    let message = match of.rule {
        Some(rule) => format!("{} has a branch in which", rule.named(bench.source).name()),
        None => format!("`{}` has a branch in which its `{}`", row.op, declared[0].key()),
    };
    let diag =
        Diag::error("E401", of.text.at(branch.span), format!("{message} it is not compared with the derivative"));
    let diag = diag.here("no call that was tried comes here, and has a value");
    Some(diag.help("state one that does, in `tests: points`; or delete the branch"))
}

/// A text of the row: one of its rules, or its meaning if there is no `rule`.
struct Own<'a> {
    rule: Option<&'a Declared<'a>>,
    text: &'a Text,
}

/// The branches of a row's own texts.
fn own<'a>(bench: &'a Bench, declared: &'a [Declared]) -> Vec<(Own<'a>, Branch)> {
    let mut all = Vec::new();
    let mut add = |rule: Option<&'a Declared<'a>>, text: &'a Text, tree: &Block| {
        all.extend(branches::of(bench.row, tree).into_iter().map(|branch| (Own { rule, text }, branch)));
    };
    declared.iter().for_each(|rule| add(Some(rule), &rule.rule.text, &rule.rule.tree));
    if let (Some((_, text)), Some(body)) = (report::body(bench.source), walk::body(bench.row)) {
        add(None, text, body);
    }
    all
}

/// The rows reachable from the rules of a row. Rows that only the meaning reaches are left out, because their
/// derivatives are checked on their own.
fn helpers(bench: &Bench, declared: &[Declared]) -> Vec<Arc<Row>> {
    closure::all_reached(closure::text_calls(declared.iter().map(|rule| &rule.rule.tree)), bench.library.set)
}

/// The branches of these rows.
fn inner(rows: &[Arc<Row>]) -> Ids {
    let of = |row: &Arc<Row>| -> Vec<Branch> {
        let body = walk::body(row).filter(|body| branches::any(body));
        body.into_iter().flat_map(|body| branches::of(row, body)).collect()
    };
    rows.iter().flat_map(of).map(|branch| branch.id).collect()
}

/// The branches that the rules take in a call, and those of the meaning if it is wanted.
fn takes(row: &Row, declared: &[Declared], set: &RowSet, case: &Case, meaning: bool) -> Ids {
    let mut trail = Expanded::new(set, Trail::default());
    // a call that is refused has taken the branches before the refusal
    match walk::body(row).filter(|_| meaning) {
        Some(body) if row.is_composite() => _ = trail.follow(row, body, &case.solved, &case.args, &[]),
        Some(body) => of_index(body, &case.solved.env, &mut |branch| trail.look.took(branch)),
        None => {}
    }
    for rule in declared {
        let names = rules::names_of(row, case, set, rule);
        _ = trail.follow(row, &rule.rule.tree, &case.solved, &case.args, &names);
    }
    trail.look.taken
}

/// Whether a call has a derivative to compare: float elements in the argument and in a result.
fn flows(rule: &Declared, case: &Case) -> bool {
    let some = |t: &TensorTy| t.dtype.is_float() && t.numel() > 0;
    let any = |out: &OutTy| *out == OutTy::FromBody || out.tensors().iter().any(some);
    case.args[rule.at].tensors().any(some) && case.solved.outs.iter().any(any)
}
