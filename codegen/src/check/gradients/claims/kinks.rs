//! E408: a derivative that `at` states at a kink lies between the derivatives around it. Where no `at` applies, and the
//! formula as a whole has no kink, the gradient is the derivative.

use fulgurite_core::Name;
use fulgurite_core::derive::walk;
use fulgurite_core::lang::walk::any_expr;
use fulgurite_core::lang::{Block, Expr, Node, OptType};
use fulgurite_core::row::Row;

use crate::check::gradients::arrays::dense::Library;
use crate::check::gradients::arrays::dual::number;
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::samples;
use crate::check::gradients::samples::grid::{Grid, product};
use crate::check::gradients::samples::settings;
use crate::check::report;
use crate::diag::Diag;
use crate::schema::{RowSource, Rule};

/// Numbers at which conditions are tried.
const PLACES: &[f64] = &[0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0];

/// The greatest distance of an argument from the kink at which the derivative is taken.
const STEP: f64 = 1e-3;

/// The number of points around a kink at which the derivative is taken, and of kinks that are tried.
const DIRECTIONS: usize = 24;

/// The distance allowed from the derivatives around a kink. On the way of a step, a derivative changes by about the
/// step times the second derivative, for which 20 is allowed.
const SLACK: f64 = 20.0 * STEP;

/// Refuses the conventions of a row that lie outside the derivatives around their points. A row that `deviates` is
/// exempt, because it says why.
pub fn check(source: &RowSource, row: &Row, library: &Library) -> Vec<Diag> {
    if source.deviates.is_some() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (arg, partial, found) in conventions(source, row, library) {
        let Some(Found::Outside { point, stated, lo, hi }) = found else { continue };
        let message = format!("`at` of `{}` says a derivative by `{arg}` that is none of those around it", row.op);
        let diag = Diag::error("E408", partial.text.place, message).here(format!("{stated} at {point}"));
        let diag = match lo <= hi {
            true => diag.note(format!("around it the derivative is {}", between(lo, hi))),
            false => diag.note("the row has a value there"),
        };
        faults.push(diag.help("choose a number between them, or say in `deviates` why the gradient is another one"));
    }
    faults
}

/// Refuses the gradient of a formula that is wrong at a point where parts of it have kinks and the whole has none.
/// There the conventions of the parts need not add up to the slope of the whole. `rules` are the rules that hold, by
/// argument.
pub fn smooth<'r>(
    source: &RowSource,
    row: &Row,
    library: &Library,
    rules: impl Iterator<Item = (Name, &'r Block)>,
) -> Option<Diag> {
    let (_, text) = report::body(source).filter(|_| source.deviates.is_none())?;
    rules.into_iter().find_map(|(arg, rule)| {
        let at = row.sig.params.iter().position(|param| param.name.name == arg)?;
        let Missed { point, said, slope } = missed(row, library, rule, at)?;
        let (said, slope) = (crate::check::gradients::show::number(said), crate::check::gradients::show::number(slope));
        let message = format!("the gradient of `{}` by `{arg}` misses a slope where its parts have kinks", row.op);
        let diag = Diag::error("E408", text.place, message);
        let diag = diag.note(format!("where {point} it is {said}, the derivative is {slope} on both sides"));
        let cond = point.replace(" = ", " == ").replace(", ", " && ");
        Some(
            diag.help(format!(
                "state it: `at: {{'{cond}': {{{arg}: {slope}}}}}`, or write the formula without the kink"
            )),
        )
    })
}

/// A point where a rule gives another slope than there is on all sides.
pub struct Missed {
    point: String,
    said: f64,
    slope: f64,
}

/// Finds a point where `rule` misses the slope with respect to argument `at`, although slope and value are the same on
/// both sides.
pub fn missed(row: &Row, library: &Library, rule: &Block, at: usize) -> Option<Missed> {
    /// The distances by which an argument is moved, in steps: two on either side.
    const SIDES: [f64; 4] = [-1.0, -0.5, 0.5, 1.0];
    /// A formula has at most this many arguments and [`WEIGHT`] operations, because the points multiply with each
    /// argument, and derivatives grow with the formula.
    const ARGUMENTS: usize = 2;
    const WEIGHT: u32 = 256;
    let n = row.sig.params.len();
    if !row.is_pointwise() || n > ARGUMENTS {
        return None;
    }
    let mut centres = product(&vec![PLACES.to_vec(); n]);
    // at a tie a convention may give all of the slope to one argument
    centres.retain(|point| n < 2 || point[0] != point[1]);
    let moved = |point: &Vec<f64>| {
        let beside = SIDES.map(|side| {
            let mut moved = point.clone();
            moved[at] += side * STEP;
            moved
        });
        std::iter::once(point.clone()).chain(beside).collect::<Vec<_>>()
    };
    let grid = Grid::new(row, library, &|_| centres.iter().flat_map(moved).collect())?;
    // the derivative of a long formula is longer still, and deeply nested
    grid.weight().filter(|weight| *weight <= WEIGHT)?;
    let (values, slopes) = (grid.run(&|_, x| x)?, grid.rule(Some(rule), &|_, x| x)?);
    let spread =
        |of: &[f64]| of.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    let mut each = values.chunks(1 + SIDES.len()).zip(slopes.chunks(1 + SIDES.len())).enumerate();
    each.find_map(|(k, (values, slopes))| {
        let ((lo, hi), (least, most)) = (spread(&slopes[1..]), spread(&values[1..]));
        let (said, value) = (slopes[0], values[0]);
        let (mean, size) = ((lo + hi) / 2.0, 1.0 + lo.abs().max(hi.abs()));
        let known = [said, lo, hi, value, least, most].iter().all(|x| x.is_finite());
        let even = hi - lo <= SLACK * size && most - least <= 4.0 * STEP * size;
        let joined = (least - STEP * size..=most + STEP * size).contains(&value);
        let away = (said - mean).abs() > 4.0 * SLACK * size;
        (known && even && joined && away).then(|| Missed { point: grid.show(k * (1 + SIDES.len())), said, slope: mean })
    })
}

/// Whether every convention of a row was found to lie between the derivatives around its points.
pub fn agree(source: &RowSource, row: &Row, library: &Library) -> bool {
    conventions(source, row, library).all(|(.., found)| matches!(found, Some(Found::Between)))
}

/// Each partial of `at`: its argument, its text, and the finding.
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

/// Formats a range: `1`, or `0 to 1`.
fn between(lo: f64, hi: f64) -> String {
    let (lo, hi) = (crate::check::gradients::show::number(lo), crate::check::gradients::show::number(hi));
    if lo == hi { lo } else { format!("{lo} to {hi}") }
}

/// The position of a convention among the derivatives around it.
enum Found {
    /// The convention lies between them.
    Between,
    /// The convention lies outside them: a point, the number stated there, the least and the greatest derivative.
    Outside { point: String, stated: f64, lo: f64, hi: f64 },
}

/// Whether a condition holds at a point, a number for each argument.
pub fn condition(row: &Row, cond: &Expr, point: &[f64]) -> bool {
    value(row, cond, point, &[]) == 1.0
}

fn value(row: &Row, e: &Expr, point: &[f64], options: &[(Name, f64)]) -> f64 {
    let params = || row.sig.params.iter().map(|p| p.name.name).zip(point.iter().copied());
    number(e, &|name| params().chain(options.iter().copied()).find(|(of, _)| *of == name).map(|(_, x)| x))
}

/// Replaces the tests of an argument's presence and type, because here every argument is given and a tensor.
pub fn with_all(e: &Expr) -> Expr {
    walk::map(e, &mut |part| match &*part.node {
        Node::Call(f, _) if f.name == "some" || f.name == "is_tensor" => Some(Expr::name("true")),
        Node::Call(f, _) if f.name == "is_number" => Some(Expr::name("false")),
        _ => None,
    })
}

/// Runs [`look_with`] with the defaults of the options, then with other values. Options without a default get numbers
/// that rise or fall in the order of the options. If a condition reads one of several such options, a convention is
/// wrong only if it is wrong for all of the numbers, because bounds in the wrong order have no slope that a row could
/// state.
fn look(row: &Row, library: &Library, at: usize, cond: &Expr, partial: &Expr) -> Option<Found> {
    /// The number of the first option, and the increment from one option to the next.
    const WAYS: [(f64, f64); 3] = [(1.0, 1.0), (9.0, -1.0), (-9.0, 1.0)];
    let opts = row.sig.opts.iter().filter(|opt| matches!(opt.ty, OptType::Num | OptType::F64 | OptType::I64));
    let open: Vec<Name> = opts.filter(|opt| opt.default.is_none() && !opt.optional).map(|opt| opt.name.name).collect();
    if open.is_empty() {
        let usual = look_with(row, library, at, cond, partial, &settings::defaults(row));
        if matches!(usual, Some(Found::Outside { .. })) {
            return usual;
        }
        let others = settings::others(row);
        let mut found = others.iter().map(|row| look_with(row, library, at, cond, partial, &settings::defaults(row)));
        return found.find(|found| matches!(found, Some(Found::Outside { .. }))).unwrap_or(usual);
    }
    let asked = any_expr(cond, &mut |e| matches!(&*e.node, Node::Name(name) if open.contains(name)));
    let in_order = asked && open.len() > 1;
    let (mut outside, mut between) = (None, false);
    for (first, step) in WAYS {
        let mut called = row.clone();
        for opt in &mut called.sig.opts {
            if let Some(n) = open.iter().position(|name| *name == opt.name.name) {
                opt.default = Some(Expr::bare(Node::Int((first + step * n as f64) as i64)));
            }
        }
        match look_with(&called, library, at, cond, partial, &settings::defaults(&called)) {
            Some(Found::Between) if in_order => return Some(Found::Between),
            Some(Found::Between) => between = true,
            found => outside = outside.or(found),
        }
    }
    outside.or(between.then_some(Found::Between))
}

/// Compares `partial`, at points where `cond` holds, with the derivatives with respect to argument `at` around them.
/// `None` means that nothing can be said. `options` are the numbers of the options.
fn look_with(
    row: &Row,
    library: &Library,
    at: usize,
    cond: &Expr,
    partial: &Expr,
    options: &[(Name, f64)],
) -> Option<Found> {
    let n = row.sig.params.len();
    let given = || options.iter().copied().filter(|(_, x)| settings::is_number(*x));
    // the numbers with which the row compares, and their neighbours, because a condition may hold on an interval
    let compared = samples::compared(row, &[]).into_iter().chain(given().map(|(_, x)| x));
    let compared = compared.flat_map(|x| [x, x + 1.0, x - 1.0]);
    let places: Vec<f64> = PLACES.iter().copied().chain(compared).collect();
    let value = |e: &Expr, point: &[f64]| value(row, e, point, options);
    let kinks = product(&vec![places; n]).into_iter().filter(|point| value(cond, point) == 1.0);
    let kinks: Vec<Vec<f64>> = kinks.take(DIRECTIONS).collect();
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
        // the formula may have no value on one side
        let inside = slopes.iter().filter(|x| x.is_finite());
        let (lo, hi) = inside.fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
        let (stated, slack) = (value(partial, point), SLACK * (1.0 + lo.abs().max(hi.abs())));
        if lo > hi && !stated.is_nan() {
            continue;
        }
        // a row without a value here has no derivative to compare; a derivative that grows may be infinite here
        let may_be = |most: f64| {
            !has_value(row, library, point)
                || stated.is_infinite() && grows(row, library, at, point, most * stated.signum())
        };
        if !stated.is_finite() && may_be(lo.abs().max(hi.abs())) {
            continue;
        }
        known = true;
        if !(lo - slack..=hi + slack).contains(&stated) {
            let params = row.sig.params.iter().map(|p| p.name.name).zip(point.iter().copied());
            let point: Vec<String> = params.chain(given()).map(|(name, x)| format!("{name} = {x}")).collect();
            return Some(Found::Outside { point: point.join(", "), stated, lo, hi });
        }
    }
    known.then_some(Found::Between)
}

/// Whether the derivative nearer to a point is larger than `most`, the derivative around it, and of its sign.
fn grows(row: &Row, library: &Library, at: usize, point: &[f64], most: f64) -> bool {
    /// The factor by which the distance is smaller, about as near as f32 numbers can be. [`LARGER`] is the factor by
    /// which the derivative must be larger, which is small because a logarithm grows slowly.
    const NEARER: f64 = 1e-3;
    const LARGER: f64 = 1.1;
    let mut numbers = Numbers::new(18);
    let mut moved = || {
        let near = |x: &f64| if *x == 0.0 { NEARER * NEARER * NEARER } else { NEARER };
        point.iter().map(|x| x + near(x) * STEP * (2.0 * numbers.draw() - 1.0)).collect::<Vec<f64>>()
    };
    let points: Vec<Vec<f64>> = (0..DIRECTIONS).map(|_| moved()).collect();
    let slopes = Grid::new(row, library, &|_| points.clone()).and_then(|grid| grid.slopes(None, at));
    slopes.is_none_or(|slopes| slopes.iter().any(|x| x * most.signum() > LARGER * (most.abs() + 0.1)))
}

fn has_value(row: &Row, library: &Library, point: &[f64]) -> bool {
    let values = Grid::new(row, library, &|_| vec![point.to_vec()]).and_then(|grid| grid.run(&|_, x| x));
    values.is_some_and(|values| values.iter().all(|x| x.is_finite()))
}
