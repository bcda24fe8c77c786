//! E405 of a row that deviates: `deviates` does not excuse every `detach`. Each `detach` that changes the gradient must
//! be shown by a point that states the gradient. The others must change nothing.

use std::sync::Arc;

use fulgurite_core::derive::walk::{map, map_block};
use fulgurite_core::lang::{Expr, Node, Span};
use fulgurite_core::row::{Meaning, Row};

use crate::check::gradients::arrays::dense::{Dense, Library};
use crate::check::gradients::arrays::dual::Dual;
use crate::check::gradients::arrays::instance::Instance;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::budget::EXCUSED;
use crate::check::gradients::claims::deviates::DETACH;
use crate::check::gradients::search::Bench;
use crate::check::{report, walk};
use crate::diag::Diag;

/// Two slopes count as equal if they differ by at most this share of them.
const CLOSE: f64 = 1e-9;

/// Returns the first `detach` of a row that deviates which changes the gradient, and which no point shows. `shows`
/// tells whether a point states a gradient that another row does not have.
pub fn check(bench: &Bench, shows: &dyn Fn(&Arc<Row>) -> bool) -> Option<Diag> {
    let (source, row) = (bench.source, bench.row);
    let (_, text) = report::body(source).filter(|_| source.deviates.is_some())?;
    let mut sites: Vec<(Site, Span)> = Vec::new();
    walk::block(walk::body(row)?, &mut |e| sites.extend(is_detach(e).then(|| (site(e), e.span))));
    // a `detach` that changes nothing stays removed: of two nested ones the second is judged without the first
    let mut dropped: Vec<Site> = Vec::new();
    let (mut shown, mut open) = (0, Vec::new());
    for (site, span) in sites {
        dropped.push(site);
        let other = Arc::new(without(row, &dropped));
        if shows(&other) {
            shown += 1;
        } else {
            let Some(change) = changes(bench, &other, &bench.library.again()) else { continue };
            open.push((span, change));
        }
        dropped.pop();
    }
    // `deviates` alone excuses a single `detach` that no point can show: a point states the gradient of the sum of all
    // results
    let alone = shown == 0 && open.len() == 1;
    let (span, change) = open.into_iter().find(|(_, change)| !alone || change.is_seen)?;
    let op = source.op.as_str();
    let message = format!("`{op}` detaches a value on which its result depends, and no point shows what comes of it");
    let diag = Diag::error("E405", text.at(span), message).here("no gradient flows through this");
    let diag = change.at.iter().fold(diag, |diag, instance| diag.note(format!("for {}", instance.case.show(row))));
    Some(diag.help(if change.is_seen {
        "state a point with `grad` where the gradient would be another one without it, or drop `detach`: `deviates` is the \
         reason of what is shown"
    } else {
        "drop `detach`, or give it a row of its own: in the gradient of the sum of all results, which a point states, it \
         does not show, and `deviates` is the reason of one alone"
    }))
}

/// A `detach`, identified by the address of its call.
type Site = usize;

fn site(e: &Expr) -> Site {
    Arc::as_ptr(&e.node) as usize
}

fn is_detach(e: &Expr) -> bool {
    matches!(&*e.node, Node::Call(f, args) if f.name == DETACH && args.len() == 1)
}

/// The row without `detach` at these sites.
fn without(row: &Row, sites: &[Site]) -> Row {
    fn bare(e: &Expr, sites: &[Site]) -> Option<Expr> {
        match &*e.node {
            Node::Call(_, args) if is_detach(e) && sites.contains(&site(e)) => {
                Some(map(&args[0].value, &mut |part| bare(part, sites)))
            }
            _ => None,
        }
    }
    let of = |body| map_block(body, &mut |e| bare(e, sites));
    let meaning = match &row.meaning {
        Meaning::Expr(body) => Meaning::Expr(of(body)),
        Meaning::View(body) => Meaning::View(of(body)),
        Meaning::Decomp(body) => Meaning::Decomp(of(body)),
        Meaning::Host(name) => Meaning::Host(*name),
    };
    Row { meaning, ..row.clone() }
}

/// The effect of a `detach`.
struct Change<'a> {
    /// A call in which the results have another derivative without it; `None` if no call could be tried.
    at: Option<Instance<'a>>,
    /// Whether the sum of the results has another derivative too.
    is_seen: bool,
}

/// Compares the derivatives of the results of `other` with those of the row. Returns the first call in which the
/// derivative of their sum differs, or else one in which that of any result does. `None` means that they agree in all
/// calls.
fn changes<'a>(bench: &Bench<'a>, other: &Row, library: &Library) -> Option<Change<'a>> {
    let (mut asked, mut hidden) = (false, None);
    let anywhere = bench.kinked_anywhere(EXCUSED.1).map(|(_, instance)| instance);
    let small = bench.everywhere(EXCUSED.1).chain(anywhere);
    for instance in small.take(EXCUSED.0) {
        let without = Instance { row: other, ..instance.clone() };
        let (Some(own), Some(other)) = (moves(&instance, bench.library), moves(&without, library)) else { continue };
        asked = true;
        if apart(own.iter().sum(), other.iter().sum()) {
            return Some(Change { at: Some(instance), is_seen: true });
        }
        if own.iter().zip(&other).any(|(a, b)| apart(*a, *b)) {
            hidden.get_or_insert(instance);
        }
    }
    match (hidden, asked) {
        (None, true) => None,
        (at, _) => Some(Change { is_seen: at.is_none(), at }),
    }
}

fn apart(a: f64, b: f64) -> bool {
    let near = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= CLOSE * (1.0 + a.abs());
    !near
}

/// The derivative of every float result if all arguments move in one direction.
fn moves(instance: &Instance, library: &Library) -> Option<Vec<f64>> {
    let mut numbers = Numbers::new(8000);
    let mut of = |at| (0..instance.numel_of(at)).map(|_| numbers.weight()).collect::<Vec<f64>>();
    let weights: Vec<Vec<f64>> = (0..instance.args.len()).map(&mut of).collect();
    let along = |p: usize, e: usize, value| Dual { value, slope: weights[p][e] };
    let results = instance.numbers_in(&mut Dense::new(library), &along).ok()?;
    Some(results.into_iter().map(|x| x.slope).collect())
}
