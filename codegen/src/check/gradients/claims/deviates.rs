//! E502: a row states `deviates`, although its gradient is the derivative, or `once`, although nothing stops a second
//! derivative.

use std::sync::Arc;

use fulgurite_core::derive::{self, differentiable};
use fulgurite_core::lang::ast::Expr;
use fulgurite_core::lang::{Block, Node, Span};
use fulgurite_core::row::Row;
use fulgurite_core::{Name, Value};

use crate::check::gradients::arrays::declared::{Declared, Seed, Way};
use crate::check::gradients::arrays::dense::{Dense, Library, V};
use crate::check::gradients::arrays::instance::{Instance, dot, elements};
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::arrays::tape;
use crate::check::gradients::claims::kinks;
use crate::check::gradients::search::Bench;
use crate::check::rows::RowSet;
use crate::check::{closure, gradient_rules, walk};
use crate::diag::Diag;
use crate::schema::RowSource;

/// The row that stops a gradient.
pub const DETACH: &str = "detach";

/// Two numbers count as equal if they differ by at most this share of the terms that were summed.
const CLOSE: f64 = 1e-7;

/// Refuses `deviates` of a row without rules of its own, if it detaches no value, and neither it nor a row that it
/// calls has a convention apart from the derivative. Its gradient is then the derivative.
pub fn unruled(source: &RowSource, row: &Row, set: &RowSet, library: &Library) -> Option<Diag> {
    if source.deviates.is_none()
        || gradient_rules::any(source)
        || says_otherwise(row)
        || stands_apart(source, row, set, library)
    {
        return None;
    }
    refuse(source, "nothing is detached", Vec::new())
}

/// Refuses `deviates` of a row without rules of its own, if it detaches only values on which no result depends.
pub fn harmless(bench: &Bench, set: &RowSet) -> Option<Diag> {
    let (source, row) = (bench.source, bench.row);
    if source.deviates.is_none()
        || gradient_rules::any(source)
        || !says_otherwise(row)
        || stands_apart(source, row, set, bench.library)
    {
        return None;
    }
    (!leaks(bench)).then(|| refuse(source, HARMLESS, Vec::new())).flatten()
}

/// The reason why a `detach` leaves the gradient as it is.
const HARMLESS: &str = "no result depends on what is detached";

/// Whether a result depends on a value that the meaning detaches; `true` also if no call could be tried.
fn leaks(bench: &Bench) -> bool {
    let mut asked = false;
    let anywhere = bench.kinked_anywhere(bench.most).map(|(_, instance)| instance);
    let leak = bench.everywhere(bench.most).chain(anywhere).any(|instance| {
        asked = true;
        instance.leaks(bench.library).unwrap_or(true)
    });
    leak || !asked
}

/// Refuses `deviates` of a row whose rules, in `declared`, are the derivative at ties and kinks and detach nothing.
/// That they are the derivative where the meaning is smooth was found before.
pub fn ruled(bench: &Bench, declared: &[Declared], set: &RowSet) -> Option<Diag> {
    let (source, row) = (bench.source, bench.row);
    let harmless = says_otherwise(row);
    if source.deviates.is_none()
        || declared.is_empty()
        || declared.iter().any(|rule| detaches(&rule.rule.tree))
        || stands_apart(source, row, set, bench.library)
        || harmless && leaks(bench)
        || may_differ(bench, declared)
    {
        return None;
    }
    let agree = |rule: &Declared| format!("{} is the derivative, at ties and kinks too", rule.what());
    refuse(source, if harmless { HARMLESS } else { "its rules detach nothing" }, declared.iter().map(agree).collect())
}

fn refuse(source: &RowSource, why: &str, notes: Vec<String>) -> Option<Diag> {
    let says = source.deviates.as_ref()?;
    let message = format!("`{}` says that its gradient deviates, but it is the derivative: {why}", source.op.as_str());
    let diag = notes.into_iter().fold(Diag::error("E502", says.place, message), Diag::note);
    Some(diag.help("delete it; to keep a gradient from flowing, `detach` a value"))
}

/// Whether a convention of the row lies outside the derivatives around it, or a row that is called may deviate.
fn stands_apart(source: &RowSource, row: &Row, set: &RowSet, library: &Library) -> bool {
    if !kinks::agree(source, row, library) {
        return true;
    }
    // a row without `deviates` detaches nothing that changes a result; the row's own `detach` is judged elsewhere
    let differs = &mut |row: &Arc<Row>| (row.deviates.is_some() || !row.at.is_empty()) && row.op != DETACH;
    closure::any_reached(closure::called(row), set, differs)
}

/// Whether the meaning of a row detaches a value.
pub fn says_otherwise(row: &Row) -> bool {
    walk::body(row).is_some_and(detaches)
}

/// Whether a text detaches a value.
pub fn detaches(text: &Block) -> bool {
    first(text).is_some()
}

/// The first `detach` of a text.
pub fn first(text: &Block) -> Option<Span> {
    walk::find(text, &|e| matches!(&*e.node, Node::Call(f, _) if f.name == DETACH))
}

/// The first auxiliary result in a rule that has no derivative: a float that no program makes.
pub fn auxiliary(row: &Row, rule: &Block) -> Option<(Span, Name)> {
    if row.is_composite() {
        return None;
    }
    let mut floats = row.sig.aux.iter().filter(|out| differentiable(&out.ty)).map(|out| out.name.name);
    let read = |aux| {
        move |e: &Expr| match &*e.node {
            Node::Name(name) => *name == aux,
            Node::Access(access) => access.base.name == aux,
            _ => false,
        }
    };
    floats.find_map(|aux| walk::find(rule, &read(aux)).map(|span| (span, aux)))
}

/// Whether a rule differs from the derivative at a tie or kink, or cannot be compared there.
fn may_differ(bench: &Bench, declared: &[Declared]) -> bool {
    let mut compared = vec![false; declared.len()];
    // calls are the outer loop: if one rule differs, the others need no more calls
    for (n, instance) in bench.kinked(bench.most) {
        for (rule, compared) in declared.iter().zip(&mut compared) {
            let Some(seeds) = Seeds::of(rule, &instance, n) else { continue };
            let Some((stated, derived, size)) = seeds.both(bench, rule, &instance) else { continue };
            *compared = true;
            // an infinite derivative refutes nothing
            let apart = (stated - derived).abs();
            if derived.is_finite() && (apart.is_nan() || apart > CLOSE * size) {
                return true;
            }
        }
    }
    compared.contains(&false)
}

/// Cotangents for the results, and a tangent for one argument. The number ⟨g, J t⟩ can be computed from either side.
struct Seeds {
    g: Vec<Value<V<f64>>>,
    t: Value<V<f64>>,
}

impl Seeds {
    fn of(rule: &Declared, instance: &Instance, n: usize) -> Option<Seeds> {
        let mut numbers = Numbers::new(4000 + n as u64);
        rule.seed(instance, &mut numbers)?;
        Some(Seeds { g: instance.cotangents(&mut numbers), t: instance.tangent(rule.at, &mut numbers) })
    }

    /// ⟨g, J t⟩ by the rule and by the meaning, and the size of the summed terms.
    fn both(&self, bench: &Bench, rule: &Declared, instance: &Instance) -> Option<(f64, f64, f64)> {
        let (weights, along) = (flat(&self.g), elements(&self.t).concat());
        let (one, other) = match rule.way {
            Way::Vjp => (rule.value(instance, bench.library, &Seed::from(self.g.clone())).ok()?, &along),
            Way::Jvp => (rule.value(instance, bench.library, &Seed::from(vec![self.t.clone()])).ok()?, &weights),
        };
        let size = one.iter().zip(other).map(|(a, b)| (a * b).abs()).sum::<f64>() + 1.0;
        Some((dot(&one, other), self.derived(bench, rule, instance, &along)?, size))
    }

    /// ⟨g, J t⟩ as the runtime derives it: by the derived rule, or by the rules of the rows that a program calls, or
    /// else by dual numbers.
    fn derived(&self, bench: &Bench, rule: &Declared, instance: &Instance, along: &[f64]) -> Option<f64> {
        if let Some(derived) = bench.derived.rule(rule.arg) {
            return Some(dot(&instance.vjp(bench.library, derived, rule.at, &self.g).ok()?, along));
        }
        if let Ok(Some(all)) = tape::gradients(instance, &mut bench.taped.borrow_mut(), &self.g) {
            return Some(dot(all.get(rule.at)?, along));
        }
        let moved = instance.moves(&mut Dense::new(bench.library), rule.at, &|e| along.get(e).copied().unwrap_or(0.0));
        Some(dot(&moved.ok()?, &flat(&self.g)))
    }
}

fn flat(values: &[Value<V<f64>>]) -> Vec<f64> {
    values.iter().flat_map(elements).flatten().collect()
}

/// Refuses `once` of a row whose gradient can be differentiated again. Derived rules always can. Declared rules can if
/// they detach nothing, and every row that they call can.
pub fn once(source: &RowSource, row: &Row, set: &RowSet) -> Option<Diag> {
    let says = source.once.as_ref()?;
    let op = source.op.as_str();
    let rules: Vec<&Block> = source.grad.iter().chain(&source.jvp).map(|(_, rule)| &rule.tree).collect();
    if rules.is_empty() {
        let message = format!("`{op}` says that its gradient has none, but the gradient is derived, and can be again");
        let diag = Diag::error("E502", says.place, message);
        return Some(diag.help("delete it; it is for rows with a `grad` or `jvp` of their own"));
    }
    if rules.iter().any(|rule| detaches(rule) || auxiliary(row, rule).is_some()) || calls_stop(source, set) {
        return None;
    }
    let message = format!("`{op}` says that its gradient has none, but its rules can be differentiated again");
    let diag = Diag::error("E502", says.place, message);
    let diag = diag.note(
        "they detach nothing, read no auxiliary result of an `expr`, and every row that they call has a derivative",
    );
    Some(diag.help("delete it; it is for rules that take a value for a constant: `detach`"))
}

/// Whether a row that the rules reach stops a second derivative: it has no gradient, states `once`, detaches a value,
/// or has an argument without a rule.
fn calls_stop(source: &RowSource, set: &RowSet) -> bool {
    closure::any_reached(closure::rule_calls(source), set, &mut |row| {
        let stops = row.no_grad.is_some() || row.once.is_some() || says_otherwise(row);
        stops || row.vjp.is_empty() && !derive::derive(row, set).failed.is_empty()
    })
}
