//! E410: the second derivative that follows from a declared rule must be the derivative of the rule's values.
//!
//! A `detach` changes no value of a rule, only its derivative. The difference quotient of the rule's values is
//! therefore compared with the derivative of the rule, which stops at each `detach` in the rule and in the rows that it
//! calls. A call in which the row's gradient deviates on purpose is left out.

use fulgurite_core::Name;
use fulgurite_core::lang::Span;

use crate::check::closure;
use crate::check::gradients::arrays::declared::{Against, Declared, Seed};
use crate::check::gradients::arrays::dual::Dual;
use crate::check::gradients::arrays::instance::Instance;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::budget::TWICE;
use crate::check::gradients::claims::deviates::{self, DETACH, says_otherwise};
use crate::check::gradients::search::Bench;
use crate::check::gradients::show;
use crate::diag::Diag;

/// The step of the difference quotient. [`CLOSE`] is the error that the quotient may have, as a share of the values of
/// which it is made.
const STEP: f64 = 1e-4;
const CLOSE: f64 = 1e-5;

/// A derivative counts as lost if it is wrong by more than this share.
const LOST: f64 = 1e-2;

/// Returns the first rule that loses a second derivative.
pub fn check(bench: &Bench, declared: &[Declared]) -> Option<Diag> {
    if bench.source.once.is_some() {
        return None;
    }
    declared.iter().find_map(|rule| {
        if let Some((span, name)) = deviates::auxiliary(bench.row, &rule.rule.tree) {
            let named = rule.named(bench.source);
            let takes = format!("nothing derives the auxiliary result `{name}`");
            let message = format!("{} can't be differentiated again: {takes}", named.name());
            return Some(Diag::error("E410", named.text.at(span), message).help(
                "an auxiliary result of an `expr` has no gradient: write the rule with the arguments, make it a result, or \
                 say in `once` why there is no second derivative",
            ));
        }
        let culprit = culprit(bench, rule)?;
        let calls = bench.instances(bench.most).filter(|instance| instance.numel() >= TWICE.1).take(TWICE.0);
        let look = |n, instance: &Instance, seed: &Seed| look(bench, rule, instance, seed, n);
        let (instance, seed, lost) = bench.first(rule, 6000, calls.enumerate(), look)?;
        let named = rule.named(bench.source);
        let (span, takes) = match culprit {
            Culprit::Text(span) => (span, "it takes a value for a constant".to_owned()),
            Culprit::Row(op) => (rule.rule.tree.value.span, format!("`{op}`, to which it comes, detaches a value")),
        };
        let message = format!("{} can't be differentiated again: {takes}", named.name());
        let diag = Diag::error("E410", named.text.at(span), message);
        let diag = show::at(diag, rule, &instance, &seed);
        let Lost { element, moves, said } = lost;
        let of = show::element(rule, &instance, element);
        let diag = diag.note(format!(
            "{of} moves {} times as much as the arguments do, its derivative says {}",
            show::number(moves),
            show::number(said)
        ));
        Some(diag.help("drop `detach`: the second derivative is that of the rule; or say in `once` why there is none"))
    })
}

/// The `detach` that may stop a second derivative: one in the rule's text, or in a row that it reaches.
enum Culprit {
    Text(Span),
    Row(Name),
}

fn culprit(bench: &Bench, rule: &Declared) -> Option<Culprit> {
    let text = &rule.rule.tree;
    if let Some(span) = deviates::first(text) {
        return Some(Culprit::Text(span));
    }
    let mut found = None;
    closure::any_reached(closure::text_calls(std::iter::once(text)), bench.library.set, &mut |row| {
        // any other row was found to detach nothing on which a result depends
        if row.deviates.is_some() && says_otherwise(row) && row.op != DETACH {
            found = Some(row.op);
        }
        found.is_some()
    });
    found.map(Culprit::Row)
}

/// An element of a rule's value, its difference quotient, and its derivative.
struct Lost {
    element: usize,
    moves: f64,
    said: f64,
}

fn look(bench: &Bench, rule: &Declared, instance: &Instance, seed: &Seed, n: usize) -> Option<Lost> {
    let library = bench.library;
    // a gradient that deviates on purpose has a second derivative that does too
    if instance.leaks(library).unwrap_or(true)
        || !matches!(rule.difference(Against::Meaning, instance, library, seed), Ok(None))
    {
        return None;
    }
    let mut numbers = Numbers::new(7000 + n as u64);
    let directions: Vec<Vec<f64>> =
        (0..instance.args.len()).map(|at| (0..instance.numel_of(at)).map(|_| numbers.weight()).collect()).collect();
    let at = |step: f64| rule.value_in(instance, library, seed, &|p, e, x| x + step * directions[p][e]).ok();
    let along = |p: usize, e: usize, value| Dual { value, slope: directions[p][e] };
    let slopes = rule.value_in(instance, library, seed, &along).ok()?;
    let quotient = |step: f64| -> Option<Vec<f64>> {
        let (above, below) = (at(step)?, at(-step)?);
        Some(above.iter().zip(&below).map(|(a, b)| (a - b) / (2.0 * step)).collect())
    };
    let fine = quotient(STEP / 2.0)?;
    let size = 1.0 + slopes.iter().map(|x| x.value.abs()).fold(0.0, f64::max);
    let apart = |element: &usize| {
        let (said, moves) = (slopes[*element].slope, fine[*element]);
        said.is_finite() && (said - moves).abs() > LOST * size.min(moves.abs().max(0.1))
    };
    let apart: Vec<usize> = (0..slopes.len().min(fine.len())).filter(apart).collect();
    // beside a kink the quotient depends on the step, because there is no derivative
    let coarse = if apart.is_empty() { return None } else { quotient(STEP)? };
    let smooth = |element: &usize| {
        let (coarse, fine) = (coarse[*element], fine[*element]);
        (coarse - fine).abs() <= CLOSE * (size + fine.abs())
    };
    let element = apart.into_iter().find(smooth)?;
    Some(Lost { element, moves: fine[element], said: slopes[element].slope })
}
