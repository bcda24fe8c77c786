//! Calls in which a number of either sign meets every word, truth value and presence of another argument, and every
//! number with which another is compared. They refute a rule that takes `abs(c)` for `c` in one branch.

use fulgurite_core::lang::{Elem, Opt, OptType, Param};
use fulgurite_core::row::Row;
use fulgurite_core::signature::ArgTy;
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};

use super::options;
use super::{Case, is_empty};
use crate::check::thresholds;

/// At most this many small calls are tried per word, because each is solved anew.
const TRIED: usize = 4;

/// Numbers of either sign that are not special in most formulas.
const FRACTIONS: [f64; 2] = [-1.75, 2.375];
const COUNTS: [i64; 3] = [-1, 2, -3];

/// Calls like `cases`, with numbers of either sign for the options that `crosses` selects.
pub fn crossed<'a>(row: &Row, cases: impl Iterator<Item = &'a Case>, crosses: impl Fn(&Opt) -> bool) -> Vec<Case> {
    let first = row.sig.params.len();
    let numbers: Vec<(usize, &Opt)> = row.sig.opts.iter().enumerate().map(|(n, opt)| (first + n, opt)).collect();
    let numbers: Vec<_> = numbers.into_iter().filter(|(_, opt)| options::is_number(opt) && crosses(opt)).collect();
    if numbers.is_empty() {
        return Vec::new();
    }
    let cases = small(cases);
    let mut more: Vec<Case> = Vec::new();
    for at in 0..first + row.sig.opts.len() {
        let compared = compared(row, at);
        let kind = |case: &Case| kind(row, at, &compared, &case.args[at]);
        for (word, with) in words(&cases, kind) {
            for (place, opt) in numbers.iter().filter(|(place, _)| *place != at) {
                let met = with.iter().copied().chain(more.iter().filter(|case| kind(case).as_ref() == Some(&word)));
                let met: Vec<bool> = met.filter_map(|case| is_negative(opt, &case.args[*place])).collect();
                let missing = |value: &Value<ArgTy>| !is_negative(opt, value).is_some_and(|sign| met.contains(&sign));
                let other = |value: Value<ArgTy>| {
                    with.iter().take(TRIED).find_map(|case| case.with(row, [(*place, value.clone())]))
                };
                let found: Vec<Case> = values(opt).filter(missing).filter_map(other).collect();
                more.extend(found);
            }
        }
    }
    more
}

/// Calls with several elements and a result that is not empty, smallest first.
fn small<'a>(cases: impl Iterator<Item = &'a Case>) -> Vec<&'a Case> {
    let mut cases: Vec<&Case> = cases.filter(|case| case.numel() > 1 && !is_empty(&case.solved)).collect();
    cases.sort_by_cached_key(|case| case.numel());
    cases
}

/// Calls of a row with several arguments of its dtype in which one of them has an integer or boolean dtype instead.
/// `narrow` selects the arguments that may.
pub fn mixed(row: &Row, cases: &[Case], narrow: impl Fn(Name) -> bool) -> Vec<Case> {
    let joins =
        |param: &Param| param.ty.list.is_none() && matches!(param.ty.elem.as_slice(), [Elem::Var(v)] if *v == "T");
    let joining: Vec<usize> = (0..row.sig.params.len()).filter(|at| joins(&row.sig.params[*at])).collect();
    if joining.len() < 2 {
        return Vec::new();
    }
    let cases = small(cases.iter());
    let joining = joining.iter().filter(|at| narrow(row.sig.params[**at].name.name));
    let narrow = joining.flat_map(|at| [DType::I64, DType::Bool].map(|dtype| (*at, dtype)));
    let other = |(at, dtype): (usize, DType)| {
        cases.iter().filter(|case| is_filled(&case.args[at])).take(TRIED).find_map(|case| {
            let mut args = case.args.clone();
            args[at] = args[at].map_tensors(&mut |t| TensorTy { dtype, ..t.clone() });
            Case::of(row, args)
        })
    };
    narrow.filter_map(other).collect()
}

fn is_filled(value: &Value<ArgTy>) -> bool {
    matches!(value, Value::Tensor(ArgTy::Tensor(t)) if t.numel() > 1)
}

/// The alternative that an argument takes, where it has few: a word, a truth value, a number that the row names, or
/// its presence.
#[derive(PartialEq)]
enum Kind {
    Is(Value<ArgTy>),
    Given(bool),
}

/// The numbers with which the row compares the option at a place. None for an argument.
fn compared(row: &Row, at: usize) -> Vec<f64> {
    let opt = at.checked_sub(row.sig.params.len()).map(|opt| &row.sig.opts[opt]);
    let compared = opt.filter(|opt| options::is_number(opt)).map(|opt| thresholds::of(row, opt.name.name));
    compared.unwrap_or_default().iter().map(|threshold| threshold.number.as_f64()).collect()
}

fn kind(row: &Row, at: usize, compared: &[f64], value: &Value<ArgTy>) -> Option<Kind> {
    let given = |optional: bool| optional.then(|| Kind::Given(!value.is_absent()));
    let Some(opt) = at.checked_sub(row.sig.params.len()) else { return given(row.sig.params[at].optional) };
    let opt = &row.sig.opts[opt];
    match (&opt.ty, value) {
        (OptType::Bool | OptType::Enum(_), _) => Some(Kind::Is(value.clone())),
        (_, Value::Num(number)) if compared.contains(&number.as_f64()) => Some(Kind::Is(value.clone())),
        _ => given(opt.optional),
    }
}

/// The kinds that occur in these calls, each with the calls in which it occurs.
fn words<'a>(cases: &[&'a Case], kind: impl Fn(&Case) -> Option<Kind>) -> Vec<(Kind, Vec<&'a Case>)> {
    let mut words: Vec<(Kind, Vec<&Case>)> = Vec::new();
    for case in cases {
        let Some(word) = kind(case) else { continue };
        match words.iter_mut().find(|(known, _)| *known == word) {
            Some((_, with)) => with.push(case),
            None => words.push((word, vec![case])),
        }
    }
    words
}

fn values(opt: &Opt) -> impl Iterator<Item = Value<ArgTy>> {
    let whole = matches!(opt.ty, OptType::I64);
    let counts = COUNTS.iter().map(|n| options::int(*n));
    let fractions = FRACTIONS.iter().map(|x| Value::Num(Scalar::Float(*x)));
    counts.filter(move |_| whole).chain(fractions.filter(move |_| !whole))
}

/// Whether a number is below 0. An option that is not given has its default.
fn is_negative(opt: &Opt, value: &Value<ArgTy>) -> Option<bool> {
    match value {
        Value::Num(number) => Some(number.as_f64() < 0.0),
        _ => opt.default.as_ref().map(|default| default.to_string().starts_with('-')),
    }
}
