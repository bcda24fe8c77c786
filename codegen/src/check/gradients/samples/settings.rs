//! Values of a row's options other than their defaults. A convention that is right with the defaults may be wrong with
//! others, if the slope is an option, or if a condition reads one.

use fulgurite_core::Name;
use fulgurite_core::lang::{Expr, Node, Opt, OptType};
use fulgurite_core::row::Row;

use crate::check::gradients::arrays::dual::number;
use crate::check::thresholds;

/// Words in conditions are numbered from here, because no formula has such a large number.
const WORDS: f64 = 1e9;

/// Factors by which a default is changed: to a smaller number, a larger one, and larger ones far away, all of its sign.
/// [`ADDED`] is added to a default instead, so that 0 changes too.
const FACTORS: [f64; 4] = [0.5, 3.0, 8.0, 40.0];
const ADDED: f64 = 0.65625;

/// The number of each option that a call leaves out, by name. The words of options are in the list too, with the
/// numbers that stand for them.
pub fn defaults(row: &Row) -> Vec<(Name, f64)> {
    let mut found = Vec::new();
    for opt in &row.sig.opts {
        let words = words(opt);
        found.extend(words.clone());
        let Some(default) = &opt.default else { continue };
        let given = match (&opt.ty, &*default.node) {
            (OptType::Num | OptType::F64 | OptType::I64, _) => number(default, &|_| None),
            (OptType::Bool, Node::Name(word)) => f64::from(u8::from(*word == "true")),
            (OptType::Enum(_), Node::Name(word)) => match words.iter().find(|(name, _)| name == word) {
                Some((_, number)) => *number,
                None => continue,
            },
            _ => continue,
        };
        found.push((opt.name.name, given));
    }
    found
}

/// Whether a number stands for itself, not for a word.
pub fn is_number(x: f64) -> bool {
    x < WORDS
}

fn words(opt: &Opt) -> Vec<(Name, f64)> {
    match &opt.ty {
        OptType::Enum(words) => words.iter().zip(0..).map(|(word, n)| (*word, WORDS + f64::from(n))).collect(),
        _ => Vec::new(),
    }
}

/// Returns copies of the row with other defaults: each other truth value and word, each number alone, and all numbers
/// together. Numbers keep their order and signs, because a lower bound above the upper one has no slope that a row
/// could state.
pub fn others(row: &Row) -> Vec<Row> {
    let numbers: Vec<(usize, f64)> =
        row.sig.opts.iter().enumerate().filter_map(|(at, opt)| Some((at, plain(opt)?))).collect();
    let mut all = Vec::new();
    for (at, opt) in row.sig.opts.iter().enumerate() {
        let Some(default) = &opt.default else { continue };
        let others: Vec<Expr> = match &opt.ty {
            OptType::Bool => ["true", "false"].into_iter().map(Expr::name).collect(),
            OptType::Enum(words) => words.iter().map(|word| Expr::name(word.as_str())).collect(),
            _ => continue,
        };
        all.extend(others.into_iter().filter(|other| other != default).map(|other| with(row, &[(at, other)])));
    }
    let set = |changed: &[(usize, f64)]| {
        let whole = |at: usize| matches!(row.sig.opts[at].ty, OptType::I64);
        let given: Vec<(usize, Expr)> = changed
            .iter()
            .map(|(at, x)| {
                let whole = whole(*at) || x.fract() == 0.0 && x.abs() < WORDS;
                (*at, Expr::bare(if whole { Node::Int(x.round() as i64) } else { Node::Float(*x) }))
            })
            .collect();
        with(row, &given)
    };
    let changes: [&dyn Fn(f64) -> f64; 5] =
        [&|x| FACTORS[0] * x, &|x| FACTORS[1] * x, &|x| FACTORS[2] * x, &|x| FACTORS[3] * x, &|x| x + ADDED];
    let in_order = |changed: &[(usize, f64)]| {
        let now = |at: usize, x: f64| changed.iter().find(|(of, _)| *of == at).map_or(x, |(_, new)| *new);
        let sign = |x: f64| if x == 0.0 { 0 } else { x.signum() as i64 };
        let order = |x: f64, y: f64| x.partial_cmp(&y);
        changed.iter().all(|(at, new)| {
            let old = numbers.iter().find(|(of, _)| of == at).map_or(*new, |(_, x)| *x);
            // 0 may become positive
            (sign(old) == sign(*new) || old == 0.0 && *new > 0.0)
                && numbers.iter().filter(|(of, _)| of != at).all(|(of, x)| order(*new, now(*of, *x)) == order(old, *x))
        })
    };
    let together = changes.iter().map(|change| numbers.iter().map(|(at, x)| (*at, change(*x))).collect::<Vec<_>>());
    let mut changed: Vec<Vec<(usize, f64)>> = together.collect();
    for (at, x) in &numbers {
        let compared = thresholds::of(row, row.sig.opts[*at].name.name);
        let compared = compared.iter().map(|t| t.number.as_f64()).filter(|x| x.is_finite());
        let beside = compared.flat_map(|t| [t, t + 0.5, t - 0.5]);
        let alone = changes.iter().map(|change| change(*x)).chain(beside);
        changed.extend(alone.map(|new| vec![(*at, new)]));
    }
    changed.retain(|changed| !changed.is_empty() && in_order(changed));
    all.extend(changed.iter().map(|changed| set(changed)));
    all
}

/// The default of an option, if that is a finite number.
fn plain(opt: &Opt) -> Option<f64> {
    let default = opt.default.as_ref().filter(|_| matches!(opt.ty, OptType::Num | OptType::F64 | OptType::I64))?;
    Some(thresholds::literal(default)?.as_f64()).filter(|x| x.is_finite())
}

fn with(row: &Row, defaults: &[(usize, Expr)]) -> Row {
    let mut row = row.clone();
    for (at, default) in defaults {
        row.sig.opts[*at].default = Some(default.clone());
    }
    row
}
