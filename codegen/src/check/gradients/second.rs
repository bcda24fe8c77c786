//! E411 of written rules: where a rule is a number and its derivative has a limit, that derivative is a number too.
//!
//! `where(x == 0, 0, g / x)` is finite at 0, and its derivative there is 0 times infinity: the branch that is not taken is
//! multiplied by 0. The derivative of a rule is that which the runtime takes, through the rules of the rows that it calls.

use fulgurite_core::lang::{BinOp, Block, Node};
use fulgurite_core::{Name, Value, derive};

use super::declared::{Declared, Seed, Way};
use super::dense::V;
use super::instance::Instance;
use super::numbers::Numbers;
use super::values::Bench;
use super::{show, tape};
use crate::check::report::Rule;
use crate::check::{closure, walk};
use crate::diag::Diag;

/// So many calls at ties and kinks are tried, of no more elements.
const CALLS: usize = 4;
const MOST: usize = 16;

/// In how many directions, and how far from a point the derivative has to be much the same, in relation to it.
const AROUND: u64 = 6;
const STEP: f64 = 1e-3;
const SMOOTH: f64 = 2e-2;

/// The first rule that has no second derivative at a point around which there is one.
pub fn check(bench: &Bench, declared: &[Declared]) -> Option<Diag> {
    if bench.source.once.is_some() {
        return None;
    }
    declared.iter().filter(|rule| may_hide(bench, &rule.rule.tree)).find_map(|rule| {
        let calls = bench.kinked(MOST).take(CALLS);
        let (instance, seed, Lost { arg, element, near }) = calls.into_iter().find_map(|(n, instance)| {
            let seed = rule.seed(&instance, &mut Numbers::new(10_000 + n as u64))?;
            let lost = look(bench, rule, &instance, &seed)?;
            Some((instance, seed, lost))
        })?;
        let what = format!("`{}` in `{}`", rule.key(), rule.arg);
        let named = Rule { source: bench.source, what: &what, text: &rule.rule.text };
        let name = bench.row.sig.params[arg].name.name;
        let message = format!("{} has no second derivative where it has a value", named.name());
        let diag = Diag::error("E411", named.text.at(rule.rule.tree.value.span), message);
        let diag = diag.note(format!("for {}", instance.case.show(bench.row)));
        let diag = diag.note(format!("where {}", show::data(rule, &instance, &seed)));
        let diag = diag.note(format!(
            "its derivative by element {element} of `{name}` is no number there, and about {} on all sides",
            show::number(near)
        ));
        Some(diag.help(
            "`where` multiplies what it does not choose by 0: choose what is divided by too, `where(y == 0, 1, y)`, so that \
             no quotient is infinite, or delete the rule",
        ))
    })
}

/// Whether a rule, or a program to which it comes, chooses among elements and divides.
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

/// By which element of which argument there is no derivative, and what it is around the point.
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
    for n in 0..AROUND {
        let mut numbers = Numbers::new(11_000 + n);
        let by: Vec<f64> = (0..MOST * instance.args.len()).map(|_| STEP * numbers.weight()).collect();
        let moved = instance.moved(&|p, e, _| by[p * MOST + e], bench.library)?;
        // where the rule itself jumps it has no derivative
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

/// The derivative of a rule's value, weighted, by each element of each argument.
fn derivative(bench: &Bench, rule: &Declared, instance: &Instance, seed: &Seed) -> Option<Vec<Vec<f64>>> {
    let row = instance.row;
    let given = seed.passed();
    let names: Vec<(Name, Value<V<f64>>)> = match rule.way {
        Way::Vjp => row.sig.outs.iter().map(|out| derive::cotangent(row, out.name.name)).zip(given).collect(),
        Way::Jvp => {
            let names = [Name::new("t"), Name::new(&format!("t_{}", rule.arg))];
            names.into_iter().map(|name| Some((name, given.first()?.clone()))).collect::<Option<_>>()?
        }
    };
    tape::again(instance, &rule.rule.tree, &names, &mut bench.taped.borrow_mut()).ok().flatten()
}
