//! Calls in which several windows fit, steps and shifts are above 1, and unrelated sizes are equal. They refute an
//! index or a rule that is right only for steps of 1, for one window, or while all sizes differ.

use fulgurite_core::lang::{Opt, OptType};
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Name, Scalar, Value};
use rustc_hash::FxHashSet;

use super::drawer::{Draw, Drawer};
use super::names::Free;
use super::sizes::{self, Variant};
use super::{Case, Turn};
use crate::check::thresholds;

/// At most this many elements per call, because more are compared slowly. Nine places along an axis hold four steps
/// of two.
const ELEMENTS: usize = 72;

/// At most this many combinations of words, truth values and presence, because their number grows exponentially.
const STATICS: usize = 1 << 8;

/// The longest axis or window: a step of 4 is taken twice in 9 elements.
const LONGEST: i64 = 9;

/// Salts from here on are not used by other decisions.
const SALT: u64 = 9000;

/// Steps and shifts to try. Those above 1 come more often.
const STEPS: [i64; 9] = [2, 3, 4, 1, 3, -2, 0, -3, 5];

/// Whether an option counts elements along an axis: a step, a shift, a width.
fn counts(ty: &OptType) -> bool {
    matches!(ty, OptType::I64 | OptType::Size(_) | OptType::Bound(_) | OptType::Pos(_))
        || matches!(ty, OptType::Ints { list, axes: None, broadcast: false, .. } if *list != "_")
}

/// Accepted calls of a row with steps, shifts or widths along axes that hold several of them. At most `enough` calls,
/// no two with equal options. Those with the most steps above 1, then those with the largest results, come first. A
/// row without such options has none.
pub fn stepping(row: &Row, dtype: DType, enough: usize) -> Vec<Case> {
    /// Draws for each call that is wanted: a row with four options accepts about one in eight.
    const TRIES: u64 = 16;
    let steps: Vec<usize> = (0..row.sig.opts.len()).filter(|at| counts(&row.sig.opts[*at].ty)).collect();
    if steps.is_empty() {
        return Vec::new();
    }
    let free = Free::of(row);
    let mut drawer = Drawer::new(row, dtype, STATICS);
    let shapes = sizes::configurations(&free, &[]);
    let first = row.sig.params.len();
    let numbers = |at: &usize| {
        let compared = thresholds::of(row, row.sig.opts[*at].name.name).into_iter().map(|t| t.number.as_i64());
        let beside = compared.filter(|t| t.abs() <= LONGEST).flat_map(|t| [t, t + 1, t - 1]);
        STEPS.into_iter().chain(beside).collect::<Vec<i64>>()
    };
    let numbers: Vec<Vec<i64>> = steps.iter().map(numbers).collect();
    let mut found: Vec<Case> = Vec::new();
    for n in 1..=TRIES * enough as u64 {
        let turn = Turn(n);
        let Some((ranks, _)) = shapes.get(turn.pick(shapes.len(), SALT)) else { break };
        let chosen = turn.pick(drawer.statics.len(), SALT + 1);
        let single = |(k, name): (usize, &Name)| {
            // every other size is long, so that others are windows in it
            let short = turn.pick(2, SALT + 10 + k as u64) == 1;
            let size = turn.pick(LONGEST as usize, SALT + 30 + k as u64) as i64;
            (*name, if short { 1 + size / 3 } else { LONGEST - size / 2 })
        };
        let pins: Vec<(Name, i64)> = free.singles.iter().enumerate().map(single).collect();
        let number = |(k, at): (usize, &usize)| match row.sig.opts[*at].ty {
            OptType::I64 => {
                let of = &numbers[k];
                Some((*at, Value::Num(Scalar::Int(of[turn.pick(of.len(), SALT + 60 + k as u64)]))))
            }
            // other options follow from sizes
            _ => None,
        };
        let given: Vec<_> = steps.iter().enumerate().filter_map(number).collect();
        let draw = Draw { turn, chosen, ranks, attempt: 2, pins: &pins, given: &given, ..Draw::default() };
        let fits = |case: &Case| (1..=ELEMENTS).contains(&case.numel()) && case.results() > 1;
        found.extend(drawer.case(&draw).filter(fits));
    }
    let far = |case: &Case| steps.iter().filter(|at| beyond_one(&case.args[first + **at])).count();
    found.sort_by_cached_key(|case| std::cmp::Reverse((far(case), case.results())));
    let mut met = FxHashSet::default();
    found.retain(|case| met.insert(format!("{:?}", &case.args[first..])));
    found.truncate(enough);
    found
}

/// At most `enough` accepted calls of a row with few elements along each axis, and with steps, shifts and widths of
/// about the same number. Windows that lie entirely outside the elements are among them.
pub fn tight(row: &Row, dtype: DType, enough: usize) -> Vec<Case> {
    /// At most this many draws of options for each size.
    const TRIES: u64 = 160;
    const SIZES: [i64; 3] = [2, 1, 3];
    const NUMBERS: [i64; 5] = [1, 0, 2, 3, 4];
    let free = Free::of(row);
    let mut drawer = Drawer::new(row, dtype, STATICS);
    // several axes of a list would show no more than one
    let ranks = vec![1; free.lists.len()];
    let mut met = FxHashSet::default();
    let made = (0..TRIES * SIZES.len() as u64).filter_map(|n| {
        let turn = Turn(n);
        let chosen = turn.pick(drawer.statics.len(), SALT + 201);
        let number = |k: usize| Value::Num(Scalar::Int(NUMBERS[turn.pick(NUMBERS.len(), SALT + 210 + k as u64)]));
        let given = |(at, opt): (usize, &Opt)| match &opt.ty {
            OptType::I64 => Some((at, number(at))),
            OptType::Ints { list, axes: None, broadcast: false, .. } if free.lists.contains(list) => {
                Some((at, Value::List(vec![number(at)])))
            }
            _ => None,
        };
        let given: Vec<_> = row.sig.opts.iter().enumerate().filter_map(given).collect();
        let variant = Variant::Alike(SIZES[n as usize % SIZES.len()]);
        let case = drawer.case(&Draw { turn, chosen, ranks: &ranks, variant, given: &given, ..Draw::default() })?;
        (case.numel() > 0 && met.insert(format!("{:?}", case.args))).then_some(case)
    });
    made.take(enough).collect()
}

/// Whether a number is above 1 or below -1, or one of a list is.
fn beyond_one(value: &Value<ArgTy>) -> bool {
    value.items().iter().any(|item| matches!(item, Value::Num(Scalar::Int(i)) if i.abs() > 1))
}

/// Accepted calls of a row with several sizes, in which all sizes, or two of them, are equal and above 1.
pub fn equal(row: &Row, dtype: DType) -> Vec<Case> {
    /// Enough for each of a few statics to meet each shape and size once.
    const MOST: usize = 12;
    const TRIES: u64 = 60;
    const SIZES: [i64; 3] = [3, 2, 4];
    let free = Free::of(row);
    let shapes = sizes::configurations(&free, &[]);
    let axes = |ranks: &[usize]| ranks.iter().sum::<usize>() + free.singles.len() + free.each.len();
    let shapes: Vec<_> = shapes.iter().map(|(ranks, _)| ranks).filter(|ranks| axes(ranks) > 1).collect();
    if shapes.is_empty() {
        return Vec::new();
    }
    let mut drawer = Drawer::new(row, dtype, STATICS);
    let made = (0..TRIES).filter_map(|n| {
        let turn = Turn(n);
        let ranks = shapes[n as usize % shapes.len()];
        let chosen = turn.pick(drawer.statics.len(), SALT + 101);
        let size = SIZES[(n / 2) as usize % SIZES.len()];
        // all sizes are equal, or two while the others differ
        let two = free.singles.len() > 2 && n % 2 == 1;
        let pins: Vec<(Name, i64)> = match two {
            true => {
                let at = turn.pick(free.singles.len(), SALT + 102);
                let other = (at + 1 + turn.pick(free.singles.len() - 1, SALT + 103)) % free.singles.len();
                vec![(free.singles[at], size), (free.singles[other], size)]
            }
            false => Vec::new(),
        };
        let variant = if two { Variant::Distinct } else { Variant::Alike(size) };
        let case = drawer.case(&Draw { turn, chosen, ranks, variant, pins: &pins, ..Draw::default() })?;
        ((1..=2 * ELEMENTS).contains(&case.numel()) && case.results() > 1).then_some(case)
    });
    made.take(MOST).collect()
}
