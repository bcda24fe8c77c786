//! E408: what `at` says at a kink lies between the derivatives around it.

use fulgurite_core::derive::walk;
use fulgurite_core::lang::{Expr, Node};
use fulgurite_core::row::Row;

use super::dense::Library;
use super::dual::number;
use super::grid::{Grid, product};
use super::numbers::Numbers;
use crate::diag::Diag;
use crate::schema::RowSource;

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
    let refuted = |kink: &crate::schema::Kink| {
        let cond = with_all(&kink.cond.tree);
        kink.partials.iter().find_map(|(arg, partial)| {
            let at = row.sig.params.iter().position(|param| param.name.name == arg.as_str())?;
            let (point, stated, lo, hi) = outside(row, library, at, &cond, &with_all(&partial.tree))?;
            let (op, arg) = (row.op, arg.as_str());
            let message = format!("`at` of `{op}` says a derivative by `{arg}` that is none of those around it");
            let diag = Diag::error("E408", partial.text.place, message).here(format!("{stated} at {point}"));
            let diag = diag.note(format!("around it the derivative is {lo} to {hi}"));
            Some(diag.help("choose a number between them, or say in `deviates` why the gradient is another one"))
        })
    };
    source.at.iter().filter_map(refuted).collect()
}

/// Every argument is a tensor here, and given.
fn with_all(e: &Expr) -> Expr {
    walk::map(e, &mut |part| match &*part.node {
        Node::Call(f, _) if f.name == "some" || f.name == "is_tensor" => Some(Expr::name("true")),
        Node::Call(f, _) if f.name == "is_number" => Some(Expr::name("false")),
        _ => None,
    })
}

/// A point where `cond` holds and `partial` is not between the derivatives by argument `at` around it: the point, what
/// is stated, the least and the greatest derivative.
fn outside(row: &Row, library: &Library, at: usize, cond: &Expr, partial: &Expr) -> Option<(String, f64, f64, f64)> {
    let value = |e: &Expr, point: &[f64]| {
        number(e, &|name| row.sig.params.iter().position(|p| p.name.name == name).and_then(|n| point.get(n).copied()))
    };
    let n = row.sig.params.len();
    let kinks: Vec<Vec<f64>> =
        product(PLACES, n).into_iter().filter(|point| value(cond, point) == 1.0).take(DIRECTIONS).collect();
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
    kinks.iter().zip(slopes.chunks(DIRECTIONS)).find_map(|(point, slopes)| {
        let (lo, hi) = slopes.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
        let (stated, slack) = (value(partial, point), SLACK * (1.0 + lo.abs().max(hi.abs())));
        let known = slopes.iter().all(|x| x.is_finite()) && stated.is_finite();
        let shown = || row.sig.params.iter().zip(point).map(|(p, x)| format!("{} = {x}", p.name)).collect::<Vec<_>>();
        (known && !(lo - slack..=hi + slack).contains(&stated)).then(|| (shown().join(", "), stated, lo, hi))
    })
}
