//! Calls beyond the family of a row, for checks that search for a call with some property.

use fulgurite_core::lang::{DimKind, OptType, Param};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, Size};
use fulgurite_core::value::Shape;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};

use super::drawer::{Draw, Drawer};
use super::names::Free;
use super::sizes::{self, Variant};
use super::{Case, Turn};
use crate::check::thresholds;

/// At most this many combinations of words, truth values and presence, because their number grows exponentially.
const STATICS: usize = 1 << 12;

/// Sizes and numbers that conditions commonly name.
const SIZES: [i64; 8] = [1, 2, 3, 4, 5, 8, 16, 32];
const NUMBERS: [f64; 10] = [0.0, 1.0, 2.0, -1.0, 3.0, 0.5, -0.5, 10.0, -10.0, 100.0];

/// Accepted calls of `row` with `T` of `dtype`. Statics and shapes are chosen independently; every other call also
/// has sizes and numbers near those in the texts of the row. There are `tries` attempts, the same on every machine.
/// Sizes taken from the texts are at most `largest`.
pub fn more(row: &Row, dtype: DType, tries: usize, largest: i64) -> impl Iterator<Item = Case> + '_ {
    drawn(row, dtype, largest, move |_| tries, |turn, statics| turn.pick(statics, SALT + 1))
}

/// Accepted calls like those of [`more`], in which every combination of statics has its turns, so that chance leaves
/// none out.
pub fn each(row: &Row, dtype: DType) -> impl Iterator<Item = Case> + '_ {
    /// Attempts per combination, because shapes that do not fit and requirements refuse some.
    const ROUNDS: usize = 4;
    const LARGEST: i64 = 64;
    // every other call has sizes of its own; with an even number of combinations, half of these would never have them
    let round = |statics: usize| statics | 1;
    let tries = move |statics| ROUNDS * round(statics);
    drawn(row, dtype, LARGEST, tries, move |turn, statics| turn.0 as usize % round(statics))
}

/// Accepted calls among `tries` attempts, a function of the number of combinations of statics. `choose` selects the
/// combination of each.
fn drawn<'a>(
    row: &'a Row,
    dtype: DType,
    largest: i64,
    tries: impl Fn(usize) -> usize,
    choose: impl Fn(Turn, usize) -> usize + 'a,
) -> impl Iterator<Item = Case> + 'a {
    let drawer = Drawer::new(row, dtype, STATICS);
    let mut shapes = drawer.shapes();
    // one list without axes beside one with several
    if drawer.free.lists.len() == 2 {
        shapes.extend([vec![0, 2], vec![2, 0], vec![0, 3], vec![3, 0]].map(|ranks| (ranks, Variant::Distinct)));
    }
    let broadcasts = |param: &Param| match &param.ty.dims {
        Some(dims) => !dims.is_empty() && dims.iter().all(|dim| matches!(dim.kind, DimKind::Broadcast(_))),
        None => true,
    };
    let broadcasts: Vec<usize> = (0..row.sig.params.len()).filter(|at| broadcasts(&row.sig.params[*at])).collect();
    let written = thresholds::literals(row);
    let near = written.iter().flat_map(|x| [*x, x + 1.0, x - 1.0, 2.0 * x, x / 2.0]);
    let numbers: Vec<f64> = NUMBERS.into_iter().chain(near.clone()).collect();
    let whole = near.filter(|x| x.fract() == 0.0 && (0.0..=largest as f64).contains(x)).map(|x| x as i64);
    let whole: Vec<i64> = SIZES.into_iter().chain(whole).collect();
    (1..=tries(drawer.statics.len()) as u64).filter_map(move |n| {
        let turn = Turn(n);
        let (ranks, variant) = shapes.get(turn.pick(shapes.len(), SALT))?;
        let chosen = choose(turn, drawer.statics.len());
        let pins = if n.is_multiple_of(2) { pins(&drawer.free, &whole, turn) } else { Vec::new() };
        let attempt = turn.pick(3, SALT + 2) as u64;
        // a size of 1 or 0 is left to the pins
        let variant = if pins.is_empty() { *variant } else { Variant::Distinct };
        let mut args = drawer.args(&Draw { turn, chosen, ranks, variant, attempt, pins: &pins, ..Draw::default() })?;
        if n % 4 < 2 {
            number(row, &numbers, turn, &mut args);
        }
        // an argument that broadcasts may have no axis at all
        if n % 5 == 3 && broadcasts.len() > 1 {
            let at = broadcasts[turn.pick(broadcasts.len(), SALT + 11)];
            args[at] = args[at].map_tensors(&mut |t| TensorTy { shape: Shape::new(), ..t.clone() });
        }
        Case::of(row, args)
    })
}

/// Calls of a row with numbers per axis (strides, padding) in which each axis has its own number. Sizes are small, so
/// that kernels of several elements fit, which show how far apart their elements lie. Large calls are left out.
pub fn stepped(row: &Row, dtype: DType) -> Vec<Case> {
    /// Attempts, and calls that are enough.
    const TRIES: u64 = 4000;
    const ENOUGH: usize = 72;
    /// At most this many elements per call.
    const ELEMENTS: usize = 100;
    let is_stepped =
        |ty: &OptType| matches!(ty, OptType::Ints { list, axes: None, broadcast: false, .. } if *list != "_");
    let steps: Vec<usize> = (0..row.sig.opts.len()).filter(|at| is_stepped(&row.sig.opts[*at].ty)).collect();
    if steps.is_empty() {
        return Vec::new();
    }
    let free = Free::of(row);
    let mut drawer = Drawer::new(row, dtype, STATICS);
    let is_along = |at: &usize, ranks: &[usize]| match &row.sig.opts[*at].ty {
        OptType::Ints { list, .. } => free.lists.iter().position(|name| name == list).is_none_or(|l| ranks[l] > 0),
        _ => false,
    };
    let mut shapes = sizes::configurations(&free, &[]);
    shapes.retain(|(ranks, _)| steps.iter().any(|at| is_along(at, ranks)));
    let follow = sizes::follow(row, &free);
    let numbers = |at: &usize| {
        let compared = thresholds::of(row, row.sig.opts[*at].name.name).into_iter().map(|t| t.number.as_i64());
        let beside = compared.flat_map(|t| [t, t.wrapping_add(1), t.wrapping_sub(1)]);
        [1, 2, 3, 0, -1].into_iter().chain(beside).collect::<Vec<i64>>()
    };
    let numbers: Vec<Vec<i64>> = steps.iter().map(numbers).collect();
    let first = row.sig.params.len();
    let made = (1..=TRIES).filter_map(|n| {
        let turn = Turn(n);
        let (ranks, _) = shapes.get(turn.pick(shapes.len(), SALT + 8))?;
        let chosen = turn.pick(drawer.statics.len(), SALT + 9);
        let single = |(k, name): (usize, &Name)| (*name, 1 + turn.pick(2, SALT + 50 + k as u64) as i64);
        let pins: Vec<(Name, i64)> = free.singles.iter().enumerate().map(single).collect();
        let draw = Draw { turn, chosen, ranks, attempt: 2, pins: &pins, ..Draw::default() };
        let Case { mut args, solved } = drawer.case(&draw)?;
        let mut given = Vec::new();
        for (k, at) in steps.iter().enumerate() {
            let numbers = &numbers[k];
            let OptType::Ints { list, .. } = &row.sig.opts[*at].ty else { continue };
            let axes = match solved.env.size(*list)? {
                Size::List(sizes) => sizes.len(),
                _ => 1,
            };
            let salt = SALT + 100 * (k as u64 + 1);
            let each = (0..axes as u64).map(|axis| numbers[turn.pick(numbers.len(), salt + axis)]);
            let value = Value::List(each.map(|x| Value::Num(Scalar::Int(x))).collect());
            args[first + at] = value.clone();
            given.extend((axes > 0).then_some((*at, value)));
        }
        // other sizes may follow from these numbers
        let other = || drawer.case(&Draw { given: &given, ..draw }).filter(|_| follow);
        let case = Case::of(row, args).or_else(other)?;
        (!given.is_empty() && case.numel() <= ELEMENTS && !super::is_empty(&case.solved)).then_some(case)
    });
    made.take(ENOUGH).collect()
}

/// Calls of a row with two lists of sizes, one of them longer than in the usual calls. An axis that must be as long
/// as one of the other list is then not always the last.
pub fn deep(row: &Row, dtype: DType) -> Vec<Case> {
    let lists = Free::of(row).lists;
    if lists.len() != 2 {
        return Vec::new();
    }
    let apart = |case: &Case| {
        lists.iter().all(|list| match case.solved.env.size(*list) {
            Some(Size::List(sizes)) => sizes.iter().enumerate().all(|(at, n)| !sizes[..at].contains(n)),
            _ => false,
        })
    };
    let shapes = [vec![1, 3], vec![3, 1]].map(|ranks| (ranks, Variant::Distinct));
    rare(Drawer::new(row, dtype, STATICS), &shapes, None, 6, apart)
}

/// Calls of a row with a list of more tensors than in the usual calls: a rule may be right for three tensors and
/// wrong for a fourth.
pub fn long_lists(row: &Row, dtype: DType) -> Vec<Case> {
    const ITEMS: usize = 5;
    if row.sig.params.iter().all(|param| param.ty.list.is_none()) {
        return Vec::new();
    }
    let drawer = Drawer::new(row, dtype, STATICS);
    let shapes = sizes::configurations(&drawer.free, &[]);
    rare(drawer, &shapes, Some(ITEMS), 3, |case| case.numel() > 1)
}

/// At most `enough` small calls of these shapes for which `fits` holds.
fn rare(
    mut drawer: Drawer,
    shapes: &[(Vec<usize>, Variant)],
    items: Option<usize>,
    enough: usize,
    fits: impl Fn(&Case) -> bool,
) -> Vec<Case> {
    /// Attempts, and elements of a call at most.
    const TRIES: u64 = 96;
    const ELEMENTS: usize = 200;
    let made = (1..=TRIES).filter_map(|n| {
        let turn = Turn(n);
        let (ranks, variant) = shapes.get(n as usize % shapes.len().max(1))?;
        let chosen = turn.pick(drawer.statics.len(), SALT + 10);
        let draw = Draw { turn, chosen, ranks, variant: *variant, attempt: 2, items, ..Draw::default() };
        let case = drawer.case(&draw)?;
        (fits(&case) && case.numel() <= ELEMENTS && !super::is_empty(&case.solved)).then_some(case)
    });
    made.take(enough).collect()
}

/// Salts from here on are not used by other decisions.
const SALT: u64 = 5000;

/// Pins for one size, or for two equal ones, at one of these numbers.
fn pins(free: &Free, whole: &[i64], turn: Turn) -> Vec<(Name, i64)> {
    let n = free.singles.len();
    if n == 0 {
        return Vec::new();
    }
    let size = whole[turn.pick(whole.len(), SALT + 3)];
    let first = turn.pick(n, SALT + 4);
    let second = turn.pick(n, SALT + 5);
    let mut pins = vec![(free.singles[first], size)];
    if second != first {
        pins.push((free.singles[second], size));
    }
    pins
}

/// Replaces a number among the options by one of these.
fn number(row: &Row, numbers: &[f64], turn: Turn, args: &mut [Value<signature::ArgTy>]) {
    let is_number = |ty: &OptType| matches!(ty, OptType::Num | OptType::F64 | OptType::I64);
    let places: Vec<usize> = (0..row.sig.opts.len()).filter(|at| is_number(&row.sig.opts[*at].ty)).collect();
    if places.is_empty() {
        return;
    }
    let at = places[turn.pick(places.len(), SALT + 6)];
    let x = numbers[turn.pick(numbers.len(), SALT + 7)];
    let whole = matches!(row.sig.opts[at].ty, OptType::I64);
    let number = if whole { Scalar::Int(x as i64) } else { Scalar::Float(x) };
    args[row.sig.params.len() + at] = Value::Num(number);
}
