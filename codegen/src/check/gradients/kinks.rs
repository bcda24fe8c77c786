//! E408: what `at` says at a kink lies between the derivatives around it.

use fulgurite_core::derive::walk;
use fulgurite_core::lang::{Expr, Node};
use fulgurite_core::row::Row;

use super::dense::Library;
use super::dual::number;
use super::grid::{Grid, product};
use super::numbers::Numbers;
use crate::diag::Diag;
use crate::schema::{RowSource, Rule};

/// Where conditions are looked for.
const PLACES: &[f64] = &[0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0];

/// How far from the kink the derivative is taken, in relation to the numbers there.
const STEP: f64 = 1e-3;

/// In how many directions from it.
const DIRECTIONS: usize = 24;

/// A derivative changes by about a step on the way; numbers of one digit.
const SLACK: f64 = 20.0 * STEP;

/// The conventions of a row that no derivative around their points supports. A row that `deviates` says why.
pub fn check(source: &RowSource, row: &Row, library: &Library) -> Vec<Diag> {
    if source.deviates.is_some() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (arg, partial, found) in conventions(source, row, library) {
        let Some(Found::Outside { point, stated, lo, hi }) = found else { continue };
        let message = format!("`at` of `{}` says a derivative by `{arg}` that is none of those around it", row.op);
        let diag = Diag::error("E408", partial.text.place, message).here(format!("{stated} at {point}"));
        let diag = diag.note(format!("around it the derivative is {}", between(lo, hi)));
        faults.push(diag.help("choose a number between them, or say in `deviates` why the gradient is another one"));
    }
    faults
}

/// Whether every convention of a row was found to be a derivative around its points.
pub fn agree(source: &RowSource, row: &Row, library: &Library) -> bool {
    conventions(source, row, library).all(|(.., found)| matches!(found, Some(Found::Between)))
}

/// Each partial of `at`: by which argument, its text, what was found.
fn conventions<'a>(
    source: &'a RowSource,
    row: &'a Row,
    library: &'a Library,
) -> impl Iterator<Item = (&'a str, &'a Rule<Expr>, Option<Found>)> {
    let partials = source.at.iter().flat_map(|kink| kink.partials.iter().map(move |partial| (kink, partial)));
    partials.map(move |(kink, (arg, partial))| {
        let at = row.sig.params.iter().position(|param| param.name.name == arg.as_str());
        let found = at.and_then(|at| look(row, library, at, &with_all(&kink.cond.tree), &with_all(&partial.tree)));
        (arg.as_str(), partial, found)
    })
}

/// `1`, or `0 to 1`.
fn between(lo: f64, hi: f64) -> String {
    let (lo, hi) = (super::show::number(lo), super::show::number(hi));
    if lo == hi { lo } else { format!("{lo} to {hi}") }
}

/// What a convention is beside the derivatives around it.
enum Found {
    /// One of them.
    Between,
    /// None: a point, what is stated there, the least and the greatest derivative.
    Outside { point: String, stated: f64, lo: f64, hi: f64 },
}

/// Every argument is a tensor here, and given.
fn with_all(e: &Expr) -> Expr {
    walk::map(e, &mut |part| match &*part.node {
        Node::Call(f, _) if f.name == "some" || f.name == "is_tensor" => Some(Expr::name("true")),
        Node::Call(f, _) if f.name == "is_number" => Some(Expr::name("false")),
        _ => None,
    })
}

/// The points where `cond` holds beside the derivatives by argument `at` around them; `None` where nothing can be said.
fn look(row: &Row, library: &Library, at: usize, cond: &Expr, partial: &Expr) -> Option<Found> {
    let value = |e: &Expr, point: &[f64]| {
        number(e, &|name| row.sig.params.iter().position(|p| p.name.name == name).and_then(|n| point.get(n).copied()))
    };
    let n = row.sig.params.len();
    let kinks: Vec<Vec<f64>> = product(&vec![PLACES.to_vec(); n])
        .into_iter()
        .filter(|point| value(cond, point) == 1.0)
        .take(DIRECTIONS)
        .collect();
    let mut numbers = Numbers::new(17);
    let around = |point: &Vec<f64>, numbers: &mut Numbers| -> Vec<Vec<f64>> {
        let moved = |numbers: &mut Numbers| point.iter().map(|x| x + STEP * (2.0 * numbers.draw() - 1.0)).collect();
        (0..DIRECTIONS).map(|_| moved(numbers)).collect()
    };
    let points: Vec<Vec<f64>> = kinks.iter().flat_map(|point| around(point, &mut numbers)).collect();
    if points.is_empty() {
        return None;
    }
    let grid = Grid::new(row, library, &|_| points.clone())?;
    let slopes = grid.slopes(None, at)?;
    let mut known = false;
    for (point, slopes) in kinks.iter().zip(slopes.chunks(DIRECTIONS)) {
        let (lo, hi) = slopes.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
        let (stated, slack) = (value(partial, point), SLACK * (1.0 + lo.abs().max(hi.abs())));
        if !stated.is_finite() || slopes.iter().any(|x| !x.is_finite()) {
            continue;
        }
        known = true;
        if !(lo - slack..=hi + slack).contains(&stated) {
            let point: Vec<String> =
                row.sig.params.iter().zip(point).map(|(p, x)| format!("{} = {x}", p.name)).collect();
            return Some(Found::Outside { point: point.join(", "), stated, lo, hi });
        }
    }
    known.then_some(Found::Between)
}
