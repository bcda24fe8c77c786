//! E304 for rows that are no formula of few floats: reductions, moves, composites.
//!
//! A call is run on hard numbers in f64 and with every step rounded to f32, as in
//! [`unstable_formulas`](super::unstable_formulas). To find the error that rounding of the arguments explains, the
//! arguments are moved by roundings.

use fulgurite_core::Name;
use fulgurite_core::builtins::Builtin;
use fulgurite_core::lang::ast::{BinOp, Param};
use fulgurite_core::lang::{Block, Elem, Expr, Node, OptType};
use fulgurite_core::row::{Meaning, Row};

use crate::check::cases::{self, Family};
use crate::check::gradients::arrays::declared::Declared;
use crate::check::gradients::arrays::dense::{Dense, Library};
use crate::check::gradients::arrays::instance::{Instance, elements};
use crate::check::gradients::arrays::numbers::Numbers;
use crate::check::gradients::budget::{ARGUMENTS, HARD};
use crate::check::gradients::claims::unstable_formulas::{LARGEST, Unstable, stated_of};
use crate::check::gradients::samples::grid::Single;
use crate::check::gradients::samples::{self, Domain};
use crate::check::gradients::show;
use crate::check::{closure, gradient_rules, report, walk};
use crate::diag::Diag;
use crate::schema::RowSource;
use fulgurite_core::eval::loop_nest::Field;

/// Intervals beyond the range of `exp` on either side, and intervals where differences of squares are small beside the
/// squares.
const INTERVALS: [(f64, f64); 4] = [(99.0, 101.0), (-101.0, -99.0), (1000.0, 1001.0), (-300.0, 300.0)];

/// The interval of the other arguments.
const USUAL: (f64, f64) = (0.25, 1.75);

/// The error that is accepted, as a share of the element. [`BESIDE`] is a share of the largest element: a difference of
/// neighbours is exact, but the number that multiplies it is not.
const LOSS: f64 = 1e-2;
const BESIDE: f64 = 1e-3;

/// An error below this share of the arguments is accepted, because results that fade where arguments are large lose
/// their digits.
const NOTHING: f64 = 1e-9;

/// The share by which arguments are moved to find the error that rounding explains: 64 roundings of f32. They are moved
/// in [`DIRECTIONS`] directions.
const ROUNDINGS: f64 = 64.0 * 6e-8;
const DIRECTIONS: u64 = 3;

/// Checks the meaning of a row and its rules.
pub fn check(source: &RowSource, row: &Row, family: &Family, library: &Library) -> Vec<Diag> {
    if row.is_pointwise() {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if let Some((key, text)) = report::body(source).filter(|_| !only_moves(row)) {
        let found = first(source, row, family, library, &|instance| unstable(instance, library));
        faults.extend(found.map(|found| found.refuse(format!("`{key}` of `{}`", row.op), text)));
    }
    for rule in gradient_rules::of(source).iter().filter(|rule| may_overflow(&rule.rule.tree, library)) {
        let found = first(source, row, family, library, &|instance| overflows(rule, instance, library));
        faults.extend(found.map(|found| found.refuse(rule.named(source).name(), &rule.rule.text)));
    }
    faults
}

/// Whether a rule reaches a builtin whose value leaves the range of f32 for arguments that are not large.
fn may_overflow(rule: &Block, library: &Library) -> bool {
    const STEEP: [&str; 7] = ["exp", "exp2", "expm1", "pow", "sinh", "cosh", "gamma"];
    let steep = |e: &Expr| matches!(&*e.node, Node::Call(f, _) if STEEP.contains(&f.name.as_str()));
    let look = |text: &Block| walk::any(text, &mut |e| steep(e));
    let called = closure::text_calls(std::iter::once(rule));
    look(rule) || closure::any_reached(called, library.set, &mut |row| walk::body(row).is_some_and(look))
}

/// Returns the first finding of `look` in a call on hard numbers.
fn first(
    source: &RowSource,
    row: &Row,
    family: &Family,
    library: &Library,
    look: &dyn Fn(&Instance) -> Option<Unstable>,
) -> Option<Unstable> {
    let stated = samples::stated(source);
    let is_float = |param: &&Param| param.ty.elem.iter().any(|e| matches!(e, Elem::Var(_) | Elem::Acc(_)));
    let tried: Vec<Name> = row.sig.params.iter().filter(is_float).map(|p| p.name.name).take(ARGUMENTS).collect();
    let beside = if numbers(row) { cases::beside_defaults(row, family) } else { Vec::new() };
    let small = family.cases.iter().find(|case| (1..=HARD).contains(&case.numel()));
    small.into_iter().chain(beside.first()).find_map(|case| {
        tried.iter().find_map(|arg| {
            let interval = stated_of(&stated, *arg);
            let hard = interval.as_ref().map_or(INTERVALS.as_slice(), std::slice::from_ref);
            hard.iter().find_map(|interval| {
                let own = stated.iter().copied().chain([(*arg, *interval)]).collect();
                let domain = Domain::of(own, USUAL);
                let instance = samples::finite(library, row, case, &domain, 0, 1)?;
                look(&instance)
            })
        })
    })
}

/// Whether the text of a row computes nothing that could lose digits. It then only moves, adds, or calls rows that are
/// checked themselves.
fn only_moves(row: &Row) -> bool {
    let computes = |e: &Expr| match &*e.node {
        Node::Binary(op, ..) => matches!(op, BinOp::Sub | BinOp::Mul | BinOp::Div),
        Node::Call(f, _) => Builtin::from_name(f.name.as_str()).is_some(),
        _ => false,
    };
    let (Meaning::Decomp(body) | Meaning::Expr(body)) = &row.meaning else { return true };
    !walk::any(body, &mut |e| computes(e))
}

/// Whether an option is a number that has a default. A formula may be stable for the default alone, so other numbers
/// are tried too.
fn numbers(row: &Row) -> bool {
    row.sig.opts.iter().any(|opt| opt.default.is_some() && matches!(opt.ty, OptType::F64 | OptType::Num))
}

/// Returns an element that differs in f32 by more than the roundings of the arguments explain.
fn unstable(instance: &Instance, library: &Library) -> Option<Unstable> {
    let outs = instance.row.sig.outs.len();
    let exact: Vec<f64> = instance.results.iter().take(outs).flat_map(elements).flatten().collect();
    let dense = || Dense::new(library);
    let singles = instance.numbers_in(&mut dense(), &|_, _, x| Single::constant(x)).ok()?;
    let singles: Vec<f64> = singles.into_iter().map(|x| x.0).collect();
    let most = f64::from(f32::MAX);
    // each result has elements of its own magnitude: a mean is large beside a variance
    let largest = instance.results.iter().take(outs).flat_map(|result| {
        let own: Vec<f64> = elements(result).concat();
        let largest = own.iter().map(|x| x.abs()).filter(|x| *x <= most).fold(0.0, f64::max);
        std::iter::repeat_n(largest, own.len())
    });
    let largest: Vec<f64> = largest.collect();
    let size = instance.args.iter().flat_map(elements).flatten().map(f64::abs).fold(0.0, f64::max);
    let differs = |n: usize| {
        let allowed = LOSS * exact[n].abs() + BESIDE * largest[n] + NOTHING * size;
        exact[n].abs() <= most && is_beyond(exact[n] - singles[n], allowed)
    };
    if exact.len() != singles.len() || !(0..exact.len()).any(differs) {
        return None;
    }
    let mut spread = vec![0.0f64; exact.len()];
    for seed in 0..DIRECTIONS {
        let mut numbers = Numbers::new(seed);
        let signs: Vec<f64> =
            (0..instance.numel().max(1)).map(|_| if numbers.draw() < 0.5 { -1.0 } else { 1.0 }).collect();
        let rounded = |p: usize, e: usize, x: f64| x * (1.0 + ROUNDINGS * signs[(p * 7 + e) % signs.len()]);
        let moved = instance.numbers_in(&mut dense(), &rounded).ok()?;
        spread.iter_mut().zip(moved.iter().zip(&exact)).for_each(|(s, (m, x))| *s = s.max((m - x).abs()));
    }
    let n = (0..exact.len()).find(|n| differs(*n) && is_beyond(exact[*n] - singles[*n], 2.0 * spread[*n]))?;
    Some(Unstable { point: show::arguments(instance), exact: exact[n], single: singles[n] })
}

/// Returns an element of a rule that is infinite or NaN in single precision, and a number that f32 holds in f64.
fn overflows(rule: &Declared, instance: &Instance, library: &Library) -> Option<Unstable> {
    let seed = rule.seed(instance, &mut Numbers::new(13))?;
    let exact = rule.value(instance, library, &seed).ok()?;
    let single = rule.value_in(instance, library, &seed, &|_, _, x| Single(x)).ok()?;
    let single: Vec<f64> = single.into_iter().map(|x| x.0).collect();
    let n = exact.iter().zip(&single).position(|(exact, single)| exact.abs() <= LARGEST && !single.is_finite())?;
    Some(Unstable { point: show::arguments(instance), exact: exact[n], single: single[n] })
}

/// Whether a difference is larger than `allowed`, or NaN.
fn is_beyond(difference: f64, allowed: f64) -> bool {
    difference.is_nan() || difference.abs() > allowed
}
