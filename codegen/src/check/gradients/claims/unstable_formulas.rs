//! E304, E411: formulas that lose their value, or their derivative, to the way they are written.
//!
//! A pointwise body is run twice on the same f32 numbers, in f64 and with every step rounded to f32. A difference much
//! larger than a rounding of the arguments explains was lost on the way: digits cancel, or a power overflows. A
//! derivative that is NaN where the value is finite is infinity times 0: a function with an infinite slope behind a
//! factor that is 0. A number that `at` states is computed in both ways too.

use fulgurite_core::Name;
use fulgurite_core::lang::{Block, Expr, Node};
use fulgurite_core::row::{Meaning, Row};

use crate::check::gradients::arrays::dense::Library;
use crate::check::gradients::claims::kinks::{condition, with_all};
use crate::check::gradients::samples;
use crate::check::gradients::samples::grid::{Grid, Single, is_builtin, product};
use crate::check::{gradient_rules, report, walk};
use crate::diag::Diag;
use crate::schema::RowSource;
use crate::yaml::Text;

/// Numbers at which formulas break: small ones, ones around 1, and ones beyond the range of `exp`. The more arguments
/// there are, the fewer numbers each gets, because all combinations are tried.
const HARD: [&[f64]; 3] = [
    &[
        1e-6, 1e-4, 1e-2, 0.3, 0.7, 1.0, 1.0001, 1.3, 3.0, 3.7, 8.0, 20.0, 50.0, 100.0, 1e3, -1e-6, -1e-4, -1e-2, -0.3,
        -0.7, -1.0, -1.3, -3.0, -3.7, -8.0, -20.0, -50.0, -100.0, -1e3, 1e-8, -1e-8, 200.0, -200.0, 1e6,
    ],
    &[1e-5, 1e-2, 0.5, 1.0, 3.0, 30.0, 100.0, 1e3, -1e-5, -1e-2, -0.5, -1.0, -3.0, -30.0, -100.0, -1e3],
    &[1e-4, 0.5, 1.0, 30.0, 100.0, -0.5, -30.0],
];

/// Two numbers whose squares overflow, though a result such as their `hypot` need not.
const LARGE: [f64; 2] = [1e20, 1e20];

/// Numbers at which functions have infinite slopes or none.
const EDGES: &[f64] = &[0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0];

/// At most this relative error is accepted, because two digits must be left.
const LOSS: f64 = 1e-2;

/// The relative error that rounding the arguments explains: 64 roundings of f32.
const SPREAD: f64 = 64.0 * 6e-8;

/// An error below this share of the arguments is accepted, because results that fade where arguments are large lose
/// their digits. The share is of at most [`FAR`], because further out differences of neighbouring results are small.
const NOTHING: f64 = 1e-9;
const FAR: f64 = 1e3;

/// Larger results may overflow, because in a product with a small factor another factor may leave the range of f32 by
/// itself.
pub const LARGEST: f64 = 1e26;

/// Below this f32 has no full precision.
const TINY: f64 = 1e-36;

/// Checks the meaning and the rules of a row, if it is a formula.
pub fn check(source: &RowSource, row: &Row, library: &Library) -> Vec<Diag> {
    let Some((key, text)) = report::body(source) else { return Vec::new() };
    let claim = |code, message: String| Diag::warning(code, text.place, format!("`{key}` of `{}` {message}", row.op));
    let mut diags = Vec::new();
    let domain = samples::stated(source);
    let own = if is_builtin(row) { None } else { unstable(row, None, &domain, library) };
    diags.extend(own.map(|found| found.refuse(format!("`{key}` of `{}`", row.op), text)));
    for declared in gradient_rules::of(source) {
        let found = unstable(row, Some(&declared.rule.tree), &domain, library);
        diags.extend(found.map(|found| found.refuse(declared.named(source).name(), &declared.rule.text)));
    }
    if !is_stated(source)
        && !is_builtin(row)
        && let Some((point, value, arg)) = without_slope(row, library)
    {
        let diag = claim("E411", "multiplies an infinite derivative by 0".to_owned());
        let diag = diag.note(format!("at {point} it is {value}, its derivative by `{arg}` is no number"));
        diags.push(diag.help(
            "choose by `if` before the function is applied, so that it is not reached, or say what holds there in `at`",
        ));
    }
    diags
}

/// Whether a row states its gradient where a slope is infinite, or states that it is not meant for such numbers.
pub fn is_stated(source: &RowSource) -> bool {
    !source.at.is_empty() || !source.tests.domain.is_empty() || source.no_grad.is_some()
}

/// A point at which single precision gives another value.
pub struct Unstable {
    /// The arguments.
    pub point: String,
    /// The value in f64.
    pub exact: f64,
    /// The value in f32.
    pub single: f64,
}

impl Unstable {
    /// Returns E304 for `text`, which `what` names.
    pub fn refuse(self, what: String, text: &Text) -> Diag {
        let Unstable { point, exact, single } = self;
        let how = if single.is_finite() { "loses digits" } else { "overflows on the way" };
        let diag = Diag::error("E304", text.place, format!("{what} {how} in f32, where its result does not"));
        diag.note(format!("at {point} it is {single:e} in f32, {exact:e} in f64")).help(
            "write it with `expm1`, `log1p`, `hypot` and the like, or choose a form by `if`; where it is not meant for such \
             numbers, say for which: `tests: {domain: {x: 'lo..hi'}}`",
        )
    }
}

/// The first point of the row's domain at which a result of the meaning, or of a rule, is unstable in f32.
fn unstable(row: &Row, rule: Option<&Block>, domain: &[(Name, (f64, f64))], library: &Library) -> Option<Unstable> {
    let outs = if rule.is_some() { 1 } else { row.sig.outs.len() };
    (0..outs).find_map(|out| unstable_result(row, rule, out, domain, library))
}

/// The first point of the row's domain at which result `out` is unstable in f32.
fn unstable_result(
    row: &Row,
    rule: Option<&Block>,
    out: usize,
    domain: &[(Name, (f64, f64))],
    library: &Library,
) -> Option<Unstable> {
    let grid = Grid::of(row, out, library, &|n| {
        let params = row.sig.params.iter();
        let stated = params.map(|param| probes(HARD[n - 1], stated_of(domain, param.name.name)));
        let mut points = product(&stated.collect::<Vec<_>>());
        points.extend((n == LARGE.len() && domain.is_empty()).then(|| LARGE.to_vec()));
        points
    })?;
    let exact = grid.rule(rule, &|_, x| x)?;
    let single = grid.rule(rule, &|_, x| Single(x))?;
    let slopes: Vec<Vec<f64>> = grid.places.iter().map(|at| grid.slopes(rule, *at)).collect::<Option<_>>()?;
    (0..exact.len()).find_map(|n| {
        let (exact, single) = (exact[n], single[n].0);
        let spread: f64 = slopes.iter().zip(&grid.points[n]).map(|(slopes, x)| (slopes[n] * x).abs()).sum();
        let size: f64 = grid.points[n].iter().map(|x| x.abs()).fold(0.0, f64::max);
        let allowed = LOSS * exact.abs() + SPREAD * spread + NOTHING * size.min(FAR) + TINY;
        let beyond = !exact.is_finite() || exact.abs() > LARGEST || !spread.is_finite();
        let near = (exact - single).abs() <= allowed;
        // a gradient that fades has lost its digits with the result that it reads, as in `1 - out * out`
        let shown = rule.is_none() || !single.is_finite();
        (!beyond && !near && shown).then(|| Unstable { point: grid.show(n), exact, single })
    })
}

/// Whether f32 has lost a number, whatever its arguments were: the number is another one, or not finite.
fn is_lost(exact: f64, single: f64) -> bool {
    let near = (exact - single).abs() <= LOSS * exact.abs() + TINY;
    exact.is_finite() && exact.abs() <= LARGEST && !near
}

/// The interval that is stated for an argument.
pub fn stated_of(domain: &[(Name, (f64, f64))], arg: Name) -> Option<(f64, f64)> {
    domain.iter().find(|(name, _)| *name == arg).map(|(_, interval)| *interval)
}

/// Returns those of `values` inside an interval, its ends and its middle, so that no interval is without probes.
fn probes(values: &[f64], interval: Option<(f64, f64)>) -> Vec<f64> {
    let Some((lo, hi)) = interval else { return values.to_vec() };
    let inside = values.iter().copied().filter(|x| lo < *x && *x < hi);
    inside.chain([lo, lo + (hi - lo) / 2.0, hi]).collect()
}

/// The first point at which the value is finite and a derivative is NaN.
fn without_slope(row: &Row, library: &Library) -> Option<(String, f64, Name)> {
    let grid = Grid::new(row, library, &|n| product(&vec![EDGES.to_vec(); n]))?;
    let values = grid.run(&|_, x| x)?;
    grid.places.iter().find_map(|at| {
        let slopes = grid.slopes(None, *at)?;
        let n = (0..values.len()).find(|n| values[*n].is_finite() && slopes[*n].is_nan())?;
        Some((grid.show(n), values[n], row.sig.params[*at].name.name))
    })
}

/// Numbers at which conditions are tried, besides those with which they compare. f32 loses none of them.
const PLACES: &[f64] = &[0.0, 1.0, -1.0, 1e-12, 1e-4, 100.0, -100.0, 1e3, -1e3];

/// Returns a fault for each convention that loses its value in f32, at a point of the row's domain where it applies.
pub fn conventions(source: &RowSource, row: &Row, library: &Library) -> Vec<Diag> {
    let mut faults = Vec::new();
    for kink in &source.at {
        let cond = with_all(&kink.cond.tree);
        for (arg, partial) in &kink.partials {
            let found = computes(&partial.tree)
                .then(|| unstable_convention(source, row, &cond, &with_all(&partial.tree), library));
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

fn unstable_convention(
    source: &RowSource,
    row: &Row,
    cond: &Expr,
    partial: &Expr,
    library: &Library,
) -> Option<Unstable> {
    let stated = samples::stated(source);
    let compared = samples::written(row).into_iter().flat_map(|x| [x, x + 1.0, x - 1.0]);
    let places: Vec<f64> = PLACES.iter().copied().chain(compared).collect();
    let values = row.sig.params.iter().map(|param| probes(&places, stated_of(&stated, param.name.name)));
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
        let lost = values[n].is_finite() && is_lost(exact, single);
        lost.then(|| Unstable { point: grid.show(n), exact, single })
    })
}
