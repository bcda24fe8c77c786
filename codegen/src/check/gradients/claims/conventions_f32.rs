//! E304 of conventions: a number that `at` states is computed in f64 and with every step rounded to f32, as meanings
//! are.

use fulgurite_core::lang::{Block, Expr, Node};
use fulgurite_core::row::{Meaning, Row};

use crate::check::gradients::arrays::dense::Library;
use crate::check::gradients::claims::kinks::{condition, with_all};
use crate::check::gradients::claims::unstable_formulas::{self, Unstable};
use crate::check::gradients::samples;
use crate::check::gradients::samples::grid::{Grid, Single, product};
use crate::check::walk;
use crate::diag::Diag;
use crate::schema::RowSource;

/// Numbers at which conditions are tried, besides those with which they compare. f32 loses none of them.
const PLACES: &[f64] = &[0.0, 1.0, -1.0, 1e-12, 1e-4, 100.0, -100.0, 1e3, -1e3];

/// Returns a fault for each convention that loses its value in f32, at a point of the row's domain where it applies.
pub fn check(source: &RowSource, row: &Row, library: &Library) -> Vec<Diag> {
    let mut faults = Vec::new();
    for kink in &source.at {
        let cond = with_all(&kink.cond.tree);
        for (arg, partial) in &kink.partials {
            let found =
                computes(&partial.tree).then(|| unstable(source, row, &cond, &with_all(&partial.tree), library));
            let what = format!("`at` of `{}` for `{}`", row.op, arg.as_str());
            faults.extend(found.flatten().map(|found| found.refuse(what, &partial.text)));
        }
    }
    faults
}

/// Whether a partial is computed; a bare number or name loses no digits.
fn computes(partial: &Expr) -> bool {
    walk::any_expr(partial, &mut |e| matches!(&*e.node, Node::Call(..) | Node::Binary(..)))
}

fn unstable(source: &RowSource, row: &Row, cond: &Expr, partial: &Expr, library: &Library) -> Option<Unstable> {
    let stated = samples::stated(source);
    let compared = samples::written(row).into_iter().flat_map(|x| [x, x + 1.0, x - 1.0]);
    let places: Vec<f64> = PLACES.iter().copied().chain(compared).collect();
    let values = row.sig.params.iter().map(|param| {
        let interval = stated.iter().find(|(name, _)| *name == param.name.name).map(|(_, interval)| *interval);
        unstable_formulas::probes(&places, interval)
    });
    let mut points = product(&values.collect::<Vec<_>>());
    points.retain(|point| condition(row, cond, point));
    if points.is_empty() {
        return None;
    }
    let body = Block { stmts: Vec::new(), value: partial.clone() };
    let formula = Row { meaning: Meaning::Expr(body), at: Vec::new(), ..row.clone() };
    let at = |row: &Row| -> Option<(Vec<f64>, Vec<f64>)> {
        let grid = Grid::new(row, library, &|_| points.clone())?;
        let single = grid.run(&|_, x| Single(x))?;
        Some((grid.run(&|_, x| x)?, single.into_iter().map(|x| x.0).collect()))
    };
    let (values, _) = at(row)?;
    let (exact, single) = at(&formula)?;
    let grid = Grid::new(row, library, &|_| points.clone())?;
    (0..points.len()).find_map(|n| {
        let (exact, single) = (exact[n], single[n]);
        let lost = values[n].is_finite() && unstable_formulas::is_lost(exact, single);
        lost.then(|| Unstable { point: grid.show(n), exact, single })
    })
}
