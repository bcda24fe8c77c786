//! Data for calls: inside the domain of the row, with indices in range, the same on every machine.

pub mod grid;
pub mod settings;

use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::lang::{Elem, Expr, Node};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{ArgTy, Env, Size, const_eval};
use fulgurite_core::{DType, DTypeSet, Name, Scalar, Value};
use std::sync::Arc;

use crate::check::cases::{Case, MOST_DATA};
use crate::check::gradients::arrays::dense::{Dense, Library, Stop, V};
use crate::check::gradients::arrays::instance::Instance;
use crate::check::gradients::arrays::numbers::{Numbers, short};
use crate::check::{thresholds, walk};
use crate::schema::{RowSource, interval};

/// The range over which elements near one point are spread, because equal elements would be a tie.
const APART: f64 = 0.0625;

/// Numbers beyond this are not used as data, because a small number added to them keeps too few digits.
const FAR: f64 = 1e5;

/// Intervals for the elements of arguments, by name.
pub type Stated = Vec<(Name, (f64, f64))>;

/// The numbers from which elements are drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// Per argument, an interval for its elements.
    pub own: Stated,
    /// The interval for all other arguments.
    pub other: (f64, f64),
    /// If given, elements are multiples of this, or among `points`. That makes ties, and puts elements at kinks.
    pub grid: Option<f64>,
    /// Numbers at which the row may have a kink.
    pub points: Vec<f64>,
    /// Whether elements take the `points` in turn, so that none is left out. Otherwise they take them by chance, which
    /// makes more of them equal.
    pub in_turn: bool,
}

impl Domain {
    /// A domain of arbitrary numbers between bounds.
    pub fn of(own: Stated, other: (f64, f64)) -> Domain {
        Domain { own, other, grid: None, points: Vec::new(), in_turn: false }
    }
}

/// Intervals on which most formulas are smooth. They are wide, so that numbers on both sides of a cutoff are drawn.
const INTERVALS: [(f64, f64); 4] = [(-1.7, 1.9), (0.15, 0.85), (-7.0, 8.0), (1.1, 2.7)];

/// Returns the domains to try for call `n`, in an order that changes from call to call. Every other call first gets
/// numbers on both sides of `compared`, the numbers with which the row compares.
pub fn domains(own: &[(Name, (f64, f64))], compared: &[f64], n: usize) -> impl Iterator<Item = Domain> {
    /// Elements keep this distance from the numbers in `compared`, where there may be kinks.
    const BESIDE: f64 = 0.40625;
    let mut beside = compared.iter().flat_map(|x| [x + BESIDE, x - BESIDE]).collect::<Vec<f64>>();
    // a small call has room for few of these, so each call starts at another one
    let first = n / 2 * 3 % beside.len().max(1);
    beside.rotate_left(first);
    let points = if n.is_multiple_of(2) { beside } else { Vec::new() };
    let domain = move |other: (f64, f64), points: Vec<f64>| Domain { points, ..Domain::of(own.to_vec(), other) };
    let with = (!points.is_empty()).then(|| domain(INTERVALS[n % INTERVALS.len()], points));
    with.into_iter().chain((0..INTERVALS.len()).map(move |k| domain(INTERVALS[(n + k) % INTERVALS.len()], Vec::new())))
}

/// Returns the numbers outside the usual data at which a row may branch. They are those with which the row compares,
/// and those that stand in its rules, where a bound is an argument. They are also those with which the rows of `called`
/// compare, because such a row may be called with an argument, or with a multiple or a sum of one.
pub fn compared(row: &Row, called: &[Arc<Row>]) -> Vec<f64> {
    let (least, most) = INTERVALS[0];
    let mut numbers = thresholds::all(row);
    let within = called.iter().flat_map(|row| thresholds::of_elements(row));
    let within: Vec<f64> = within.filter(|x| !(least..=most).contains(x)).collect();
    if !within.is_empty() {
        let factors = thresholds::literals(row);
        let factors = factors.iter().copied().filter(|x| *x != 0.0 && x.abs() != 1.0);
        numbers.extend(factors.flat_map(|c| within.iter().flat_map(move |x| [x / c, x * c, x - c, x + c])));
        numbers.extend(within);
    }
    numbers.extend(thresholds::of_rules(row));
    numbers.retain(|x| !(least..=most).contains(x) && x.abs() < FAR);
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    numbers
}

/// Returns the domain of ties and kinks for call `n`: small whole numbers, or halves, and the numbers that the row and
/// the call name.
pub fn kinks(own: &[(Name, (f64, f64))], written: &[f64], case: &Case, n: usize) -> Domain {
    let given = case.args.iter().filter_map(|arg| match arg {
        Value::Num(number) => Some(number.as_f64()),
        _ => None,
    });
    let points = given.chain(written.iter().copied()).flat_map(|x| [x, -x]);
    let points = std::iter::once(0.0).chain(points.filter(|x| x.is_finite() && x.abs() < 100.0)).collect();
    let in_turn = n % 2 == 1;
    Domain { own: own.to_vec(), other: (-2.4, 2.4), grid: Some(if in_turn { 0.5 } else { 1.0 }), points, in_turn }
}

/// The numbers that stand in a row's formula, those with which its texts compare, and the defaults of its options.
pub fn written(row: &Row) -> Vec<f64> {
    let mut numbers = thresholds::all(row);
    numbers
        .extend(row.sig.opts.iter().filter_map(|opt| thresholds::literal(opt.default.as_ref()?)).map(Scalar::as_f64));
    if let Some(body) = row.index_body() {
        walk::block(body, &mut |e| match &*e.node {
            Node::Int(n) => numbers.push(*n as f64),
            Node::Float(x) => numbers.push(*x),
            _ => {}
        });
    }
    numbers
}

/// The intervals that a row's `tests: domain` states.
pub fn stated(source: &RowSource) -> Stated {
    let stated = source.tests.domain.iter();
    stated.filter_map(|(arg, text)| Some((Name::new(arg.as_str()), interval(text.as_str()).ok()?))).collect()
}

/// Returns the dtypes that `T` may be in some call. If options decide, it is the union over them.
pub fn taken(row: &Row) -> Option<DTypeSet> {
    row.dtypes.as_ref().map_or(Some(DTypeSet::all()), dtypes)
}

fn dtypes(e: &Expr) -> Option<DTypeSet> {
    let any = |parts: &[&Expr]| parts.iter().try_fold(DTypeSet::EMPTY, |all, part| Some(all.union(dtypes(part)?)));
    match &*e.node {
        Node::If(_, yes, no) => any(&[&yes.value, &no.value]),
        Node::Match(_, arms) => any(&arms.iter().map(|(_, value)| value).collect::<Vec<_>>()),
        _ => const_eval::dtype_set(&Env::default(), e).ok(),
    }
}

/// Returns the dtype in which gradients are tried. That is f64 if the row takes it, because elements are f64 in any
/// case, or else another float dtype.
pub fn element(row: &Row) -> Option<DType> {
    let set = taken(row)?;
    std::iter::once(DType::F64).chain(set.iter()).find(|d| set.contains(*d) && d.is_float())
}

/// Data for the `n`th call of a family from the first of the usual domains in which some are found.
pub fn usual<'a>(library: &Library, row: &'a Row, case: &'a Case, n: usize) -> Option<Instance<'a>> {
    domains(&[], &[], n).find_map(|domain| draw(library, row, case, &domain, n as u64, &|_| true))
}

/// Data for `case` on which the row has finite values and `fits` holds; `None` if none were found.
pub fn draw<'a>(
    library: &Library<'_>,
    row: &'a Row,
    case: &'a Case,
    domain: &Domain,
    seed: u64,
    fits: &dyn Fn(&Instance) -> bool,
) -> Option<Instance<'a>> {
    bounds(row, case).find_map(|bound| finite(library, row, case, domain, seed, bound).filter(|i| fits(i)))
}

/// Returns the bounds below which indices are drawn, in the order in which they are tried. The smallest size is one of
/// them, because a scatter does not notice an index out of range, but its gradient does.
pub fn bounds(row: &Row, case: &Case) -> impl Iterator<Item = i64> + use<> {
    let indices = row.sig.params.iter().any(|param| param.ty.elem.contains(&Elem::Index));
    let (least, most) = if indices { sizes(case) } else { (1, 1) };
    std::iter::once(most).chain((least != most).then_some(least))
}

/// Data for `case` on which the row has finite values; indices are below `bound`.
pub fn finite<'a>(
    library: &Library<'_>,
    row: &'a Row,
    case: &'a Case,
    domain: &Domain,
    seed: u64,
    bound: i64,
) -> Option<Instance<'a>> {
    instance(library, row, case, domain, seed, bound).filter(|i| i.is_finite())
}

/// Data for `case`. Indices are below `most`, which is lowered until they are in range. Every other seed draws negative
/// indices too, if the row takes them.
fn instance<'a>(
    library: &Library<'_>,
    row: &'a Row,
    case: &'a Case,
    domain: &Domain,
    seed: u64,
    mut most: i64,
) -> Option<Instance<'a>> {
    if case.numel() > MOST_DATA {
        return None;
    }
    // a negative index counts from the end, if the row takes it
    let mut least = if seed.is_multiple_of(2) { 0 } else { -most };
    loop {
        let mut numbers = Numbers::new(seed);
        let params = row.sig.params.iter().map(Some).chain(std::iter::repeat(None));
        let args: Vec<Value<V<f64>>> = params
            .zip(&case.args)
            .map(|(param, arg)| {
                let own = domain.own.iter().find(|(name, _)| param.is_some_and(|p| p.name.name == *name));
                let index = param.is_some_and(|p| p.ty.elem.contains(&Elem::Index));
                let fill = Fill {
                    interval: own.map_or(domain.other, |(_, interval)| *interval),
                    grid: domain.grid,
                    in_turn: domain.in_turn,
                    points: inside(domain, own.map(|(_, interval)| *interval)),
                    // other integers are small, so that some are equal
                    whole: if index { (least, most) } else { (0, 3) },
                };
                arg.map(&mut |t| fill.value(t, &mut numbers))
            })
            .collect();
        match Dense::new(library).meaning(row, &case.solved, &args) {
            Ok(results) => return Some(Instance { row, case, args, results }),
            Err(Stop::Data(_)) if least < 0 => least = 0,
            Err(Stop::Data(_)) if most > 1 => most -= 1,
            Err(_) => return None,
        }
    }
}

/// The points of a domain that lie in a stated interval, together with the elements near them.
fn inside(domain: &Domain, stated: Option<(f64, f64)>) -> Vec<f64> {
    let apart = if domain.grid.is_none() { APART } else { 0.0 };
    let fits = |x: &f64| stated.is_none_or(|(lo, hi)| lo <= *x && *x + apart <= hi);
    domain.points.iter().copied().filter(fits).collect()
}

struct Fill {
    interval: (f64, f64),
    grid: Option<f64>,
    in_turn: bool,
    points: Vec<f64>,
    /// The least integer, and the first that is too large.
    whole: (i64, i64),
}

impl Fill {
    fn value(&self, t: &ArgTy, numbers: &mut Numbers) -> V<f64> {
        let t = match t {
            ArgTy::Tensor(t) => t,
            ArgTy::Key | ArgTy::Number(_) => return V::Key([7, 11]),
        };
        let shape: Vec<usize> = t.sizes().to_vec();
        let n: usize = shape.iter().product();
        let (lo, hi) = self.interval;
        V::Array(Arc::new(match t.dtype {
            d if d.is_float() => {
                let snap = |x: f64| self.grid.map_or(x, |grid| (x / grid).round() * grid);
                let drawn = |numbers: &mut Numbers| {
                    let x = lo + (hi - lo) * numbers.draw();
                    // a narrow interval may hold no number of few digits
                    [snap(short(x)), short(x)].into_iter().find(|x| (lo..=hi).contains(x)).unwrap_or(x)
                };
                let first = if self.in_turn { (numbers.draw() * self.points.len() as f64) as usize } else { 0 };
                // at kinks half of the elements lie on a point if they take points in turn, and a third by chance
                let element = |i: usize, numbers: &mut Numbers| match self.points.len() {
                    0 => drawn(numbers),
                    // every second element lies near a point, so that no point is left out by chance
                    k if self.grid.is_none() && i.is_multiple_of(2) => {
                        short(self.points[i / 2 % k] + APART * numbers.draw())
                    }
                    k if self.in_turn && numbers.draw() < 0.5 => self.points[(first + i) % k],
                    k if self.grid.is_some() && !self.in_turn && numbers.draw() < 0.33 => {
                        self.points[(numbers.draw() * k as f64) as usize % k]
                    }
                    _ => drawn(numbers),
                };
                Array::float(d, &shape, (0..n).map(|i| element(i, numbers)).collect())
            }
            DType::Bool => Array::int(t.dtype, &shape, (0..n).map(|_| i64::from(numbers.draw() < 0.5)).collect()),
            d => {
                let (least, most) = self.whole;
                let drawn = (0..n).map(|_| least + (numbers.draw() * (most - least) as f64) as i64);
                Array::int(d, &shape, drawn.collect())
            }
        }))
    }
}

/// The smallest size of a call, and the largest up to 12. Indices are drawn below one of them.
fn sizes(case: &Case) -> (i64, i64) {
    let sizes = case.solved.env.sizes.iter().flat_map(|(_, s)| match s {
        Size::One(d) => vec![d.value()],
        Size::List(l) => l.iter().map(|d| d.value()).collect(),
        Size::Each(l) => l.iter().map(|d| d.value()).collect(),
        Size::EachList(_) => vec![],
    });
    let sizes: Vec<i64> = sizes.collect();
    let least = sizes.iter().copied().filter(|n| *n > 0).min().unwrap_or(1);
    (least, sizes.into_iter().max().unwrap_or(1).clamp(1, 12))
}
