//! E411 of declared rules: where a rule is finite and its derivative has a limit, that derivative must not be NaN.
//!
//! `where(x == 0, 0, g / x)` is finite at 0, but its derivative there is 0 times infinity, because the branch that is
//! not taken is multiplied by 0. The derivative of a rule is computed as the runtime does, through the rules of the
//! rows that it calls.

use fulgurite_core::lang::{BinOp, Block, Node};

use crate::check::gradients::arrays::declared::{Declared, Seed};
use crate::check::gradients::arrays::instance::Instance;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::arrays::tape;
use crate::check::gradients::budget::{AGAIN, AGAIN_AROUND};
use crate::check::gradients::search::Bench;
use crate::check::gradients::show;
use crate::check::{closure, walk};
use crate::diag::Diag;

/// The distance from a point at which the derivative must be about the same. [`SMOOTH`] is the share by which it may
/// differ.
const STEP: f64 = 1e-3;
const SMOOTH: f64 = 2e-2;

/// Returns the first rule that has no second derivative at a point around which there is one.
pub fn check(bench: &Bench, declared: &[Declared]) -> Option<Diag> {
    if bench.source.once.is_some() {
        return None;
    }
    declared.iter().filter(|rule| may_hide(bench, &rule.rule.tree)).find_map(|rule| {
        let calls = bench.kinked(AGAIN.1).take(AGAIN.0);
        let look = |_, instance: &Instance, seed: &Seed| look(bench, rule, instance, seed);
        let (instance, seed, Lost { arg, element, near }) = bench.first(rule, 10_000, calls, look)?;
        let named = rule.named(bench.source);
        let name = bench.row.sig.params[arg].name.name;
        let message = format!("{} has no second derivative where it has a value", named.name());
        let diag = Diag::error("E411", named.text.at(rule.rule.tree.value.span), message);
        let diag = show::at(diag, rule, &instance, &seed).note(format!(
            "its derivative by element {element} of `{name}` is no number there, and about {} on all sides",
            show::number(near)
        ));
        Some(diag.help(
            "`where` multiplies what it does not choose by 0: choose what is divided by too, `where(y == 0, 1, y)`, so that \
             no quotient is infinite, or delete the rule",
        ))
    })
}

/// Whether a rule, or a program that it reaches, selects among elements and divides, or calls a function that may
/// divide.
fn may_hide(bench: &Bench, rule: &Block) -> bool {
    let (mut chooses, mut divides) = (false, false);
    let mut look = |text: &Block| {
        walk::block(text, &mut |e| match &*e.node {
            Node::Call(f, _) if f.name == "where" => chooses = true,
            Node::Call(f, _) => divides |= !matches!(f.name.as_str(), "unbroadcast" | "sum" | "expand" | "zeros"),
            Node::If(..) => chooses = true,
            Node::Binary(BinOp::Div, ..) => divides = true,
            _ => {}
        });
    };
    look(rule);
    for row in closure::all_reached(closure::text_calls(std::iter::once(rule)), bench.library.set) {
        if row.is_composite() {
            walk::body(&row).into_iter().for_each(&mut look);
        }
    }
    chooses && divides
}

/// The argument and the element with respect to which there is no derivative, and the derivative around the point.
struct Lost {
    arg: usize,
    element: usize,
    near: f64,
}

fn look(bench: &Bench, rule: &Declared, instance: &Instance, seed: &Seed) -> Option<Lost> {
    let first = rule.value(instance, bench.library, seed).ok()?;
    if !first.iter().all(|x| x.is_finite()) {
        return None;
    }
    let second = derivative(bench, rule, instance, seed)?;
    let at = |own: &Vec<f64>| own.iter().position(|x| x.is_nan());
    let (arg, element) = second.iter().enumerate().find_map(|(arg, own)| Some((arg, at(own)?)))?;
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for n in 0..AGAIN_AROUND {
        let moved = instance.shaken(STEP, &mut Numbers::new(11_000 + n), bench.library)?;
        // where the rule itself jumps, it has no derivative
        let beside = rule.value(&moved, bench.library, seed).ok()?;
        let is_near = |(a, b): (&f64, &f64)| (a - b).abs() <= SMOOTH * (1.0 + a.abs());
        if !first.iter().zip(&beside).all(is_near) {
            return None;
        }
        let near = *derivative(bench, rule, &moved, seed)?.get(arg)?.get(element)?;
        if !near.is_finite() {
            return None;
        }
        (low, high) = (low.min(near), high.max(near));
    }
    let smooth = high - low <= SMOOTH * (1.0 + low.abs().max(high.abs()));
    smooth.then_some(Lost { arg, element, near: (low + high) / 2.0 })
}

/// The derivative of a weighted sum of a rule's value with respect to each element of each argument.
fn derivative(bench: &Bench, rule: &Declared, instance: &Instance, seed: &Seed) -> Option<Vec<Vec<f64>>> {
    let names = rule.bind(instance.row, &seed.passed());
    tape::again(instance, &rule.rule.tree, &names, &mut bench.taped.borrow_mut()).ok().flatten()
}
