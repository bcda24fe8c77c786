//! Calls in which a number of either sign meets every word, truth value and presence of what stands beside it, and the
//! numbers with which others are compared: a rule that takes `abs(c)` for `c` in one branch is right on all others.

use fulgurite_core::lang::{Elem, Opt, OptType, Param};
use fulgurite_core::row::Row;
use fulgurite_core::sig::{self, ArgTy};
use fulgurite_core::{DType, Name, Scalar, TensorTy, Value};

use super::options;
use super::{Case, is_empty};
use crate::check::thresholds;

/// So many small calls with such a word are tried.
const TRIED: usize = 4;

/// Numbers of either sign: none of them is special in most formulas.
const FRACTIONS: [f64; 2] = [-1.75, 2.375];
const COUNTS: [i64; 3] = [-1, 2, -3];

/// Calls like `cases`, with numbers for those of the options that `crosses` says.
pub fn crossed<'a>(row: &Row, cases: impl Iterator<Item = &'a Case>, crosses: impl Fn(&Opt) -> bool) -> Vec<Case> {
    let first = row.sig.params.len();
    let numbers = || row.sig.opts.iter().enumerate().filter(|(_, opt)| options::is_number(opt) && crosses(opt));
    if numbers().next().is_none() {
        return Vec::new();
    }
    let mut cases: Vec<&Case> = cases.filter(|case| case.numel() > 1 && !is_empty(&case.solved)).collect();
    cases.sort_by_cached_key(|case| case.numel());
    let mut more: Vec<Case> = Vec::new();
    for at in 0..first + row.sig.opts.len() {
        for word in words(row, at, &cases) {
            for (number, opt) in numbers().filter(|(number, _)| first + number != at) {
                let place = first + number;
                let with = |case: &&Case| kind(row, at, &case.args[at]).as_ref() == Some(&word);
                let met = cases.iter().copied().chain(&more).filter(with);
                let met: Vec<bool> = met.filter_map(|case| is_negative(opt, &case.args[place])).collect();
                let missing = |value: &Value<ArgTy>| !is_negative(opt, value).is_some_and(|sign| met.contains(&sign));
                let found: Vec<Case> = values(opt)
                    .filter(missing)
                    .filter_map(|value| {
                        cases.iter().copied().filter(with).take(TRIED).find_map(|case| {
                            let mut args = case.args.clone();
                            args[place] = value.clone();
                            let solved = sig::accepted(row, &args).filter(|solved| !is_empty(solved))?;
                            Some(Case { args, solved })
                        })
                    })
                    .collect();
                more.extend(found);
            }
        }
    }
    more
}

/// Calls of a row with several arguments of its dtype in which one that may be `narrow` is of another: an integer, or a
/// truth value.
pub fn mixed(row: &Row, cases: &[Case], narrow: impl Fn(Name) -> bool) -> Vec<Case> {
    let joins =
        |param: &Param| param.ty.list.is_none() && matches!(param.ty.elem.as_slice(), [Elem::Var(v)] if *v == "T");
    let joining: Vec<usize> = (0..row.sig.params.len()).filter(|at| joins(&row.sig.params[*at])).collect();
    if joining.len() < 2 {
        return Vec::new();
    }
    let mut cases: Vec<&Case> = cases.iter().filter(|case| case.numel() > 1 && !is_empty(&case.solved)).collect();
    cases.sort_by_cached_key(|case| case.numel());
    let joining = joining.iter().filter(|at| narrow(row.sig.params[**at].name.name));
    let narrow = joining.flat_map(|at| [DType::I64, DType::Bool].map(|dtype| (*at, dtype)));
    let other = |(at, dtype): (usize, DType)| {
        cases.iter().filter(|case| is_filled(&case.args[at])).take(TRIED).find_map(|case| {
            let mut args = case.args.clone();
            args[at] = args[at].map(&mut |t| match t {
                ArgTy::Tensor(t) => ArgTy::Tensor(TensorTy { dtype, ..t.clone() }),
                other => other.clone(),
            });
            let solved = sig::accepted(row, &args)?;
            Some(Case { args, solved })
        })
    };
    narrow.filter_map(other).collect()
}

fn is_filled(value: &Value<ArgTy>) -> bool {
    matches!(value, Value::Tensor(ArgTy::Tensor(t)) if t.numel() > 1)
}

/// What an argument is, where it has few alternatives: a word, a truth value, a number that the row names, or whether it is
/// there.
#[derive(PartialEq)]
enum Kind {
    Is(Value<ArgTy>),
    Given(bool),
}

fn kind(row: &Row, at: usize, value: &Value<ArgTy>) -> Option<Kind> {
    let first = row.sig.params.len();
    match at.checked_sub(first).map(|opt| &row.sig.opts[opt]) {
        None => row.sig.params[at].optional.then(|| Kind::Given(!value.is_absent())),
        Some(opt) if matches!(opt.ty, OptType::Bool | OptType::Enum(_)) => Some(Kind::Is(value.clone())),
        Some(opt) if options::is_number(opt) && !value.is_absent() => {
            let Value::Num(number) = value else { return None };
            let compared = thresholds::of(row, opt.name.name);
            compared.iter().any(|t| t.number.as_f64() == number.as_f64()).then(|| Kind::Is(value.clone()))
        }
        Some(opt) => opt.optional.then(|| Kind::Given(!value.is_absent())),
    }
}

/// All that it is in some of these calls.
fn words(row: &Row, at: usize, cases: &[&Case]) -> Vec<Kind> {
    let mut words = Vec::new();
    for case in cases {
        match kind(row, at, &case.args[at]) {
            Some(word) if !words.contains(&word) => words.push(word),
            _ => {}
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

/// Whether a number is below 0; what is not given is its default.
fn is_negative(opt: &Opt, value: &Value<ArgTy>) -> Option<bool> {
    match value {
        Value::Num(number) => Some(number.as_f64() < 0.0),
        _ => opt.default.as_ref().map(|default| default.to_string().starts_with('-')),
    }
}
