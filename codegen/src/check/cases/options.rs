//! Options: the candidates of each type.

use fulgurite_core::lang::{BinOp, DimKind, Expr, Node, Opt, OptType};
use fulgurite_core::row::Row;
use fulgurite_core::signature::const_eval::{self, At};
use fulgurite_core::signature::labels::Labels;
use fulgurite_core::signature::{ArgTy, Env, Item, Size};
use fulgurite_core::{DType, Dim, Name, Scalar, Value};

use super::{Choice, Turn};
use crate::check::thresholds::{self, Threshold};
use crate::check::walk;

/// Number of alternatives of this option that are combined with those of all others: words, truth values, presence,
/// numbers that a static condition reads, and orders of axes. Several orders are needed, because most are their own
/// inverse, which hides an exchange.
pub(super) fn static_alternatives(row: &Row, opt: &Opt) -> usize {
    let values = match &opt.ty {
        OptType::Bool => 2,
        OptType::Enum(words) => words.len(),
        OptType::Str => 1 + thresholds::quoted(row).iter().filter(|text| !text.is_empty()).count(),
        OptType::Perm(_) => 4,
        OptType::Num | OptType::F64 if walk::in_condition(row, opt.name.name) => 2,
        _ => 1,
    };
    values + usize::from(opt.optional)
}

/// Whether an option is a number that a formula may compute with.
pub(super) fn is_number(opt: &Opt) -> bool {
    matches!(opt.ty, OptType::Num | OptType::F64 | OptType::I64)
}

/// Whether every tried value of an option must occur in some call: integers, integers per axis, and numbers that the
/// row compares. Shapes and places do not depend on other numbers; rules do, and [`beside_default`] covers them.
pub(super) fn varies(row: &Row, opt: &Opt) -> bool {
    match opt.ty {
        OptType::I64 => true,
        OptType::Ints { axes: None, broadcast: false, .. } => true,
        OptType::Num | OptType::F64 => !thresholds::of(row, opt.name.name).is_empty(),
        _ => false,
    }
}

/// Facts about an option that hold in every call of a row, computed once.
pub(super) struct Tried {
    /// The number of its [`static_alternatives`].
    alternatives: usize,
    /// Numbers at and next to those with which the row compares it.
    beside: Vec<Value<ArgTy>>,
    /// Whether the row may refuse some of its numbers.
    refusable: bool,
    /// The texts with which the row compares it.
    quoted: Vec<String>,
}

impl Tried {
    /// One for each option of `row`.
    pub(super) fn of(row: &Row) -> Vec<Tried> {
        let tried = |opt| {
            let beside = if is_number(opt) { beside_thresholds(row, opt) } else { Vec::new() };
            let quoted = if opt.ty == OptType::Str { thresholds::quoted(row) } else { Vec::new() };
            Tried {
                alternatives: static_alternatives(row, opt),
                beside,
                refusable: opt.ty == OptType::F64 && walk::in_condition(row, opt.name.name),
                quoted: quoted.into_iter().filter(|text| !text.is_empty()).collect(),
            }
        };
        row.sig.opts.iter().map(tried).collect()
    }
}

/// Numbers at, next to and between those with which the row compares an option.
fn beside_thresholds(row: &Row, opt: &Opt) -> Vec<Value<ArgTy>> {
    let compared = thresholds::of(row, opt.name.name);
    let whole = matches!(opt.ty, OptType::I64);
    let step = if whole { 1.0 } else { 0.5 };
    let number = |x: f64| if whole { int(x as i64) } else { Value::Num(Scalar::Float(x)) };
    let beside = |t: &Threshold| {
        let x = t.number.as_f64();
        if t.sides { vec![x, x + step, x - step] } else { vec![x] }
    };
    let mut all: Vec<f64> = compared.iter().flat_map(beside).collect();
    let mut sides: Vec<f64> = compared.iter().filter(|t| t.sides).map(|t| t.number.as_f64()).collect();
    sides.sort_by(f64::total_cmp);
    all.extend(sides.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0));
    all.into_iter().filter(|x| !whole || x.is_finite()).map(number).collect()
}

/// Numbers for an option that are neither its default nor special in most formulas: of either sign, and large. `turn`
/// rotates them.
pub(super) fn beside_default(opt: &Opt, turn: usize) -> Vec<Value<ArgTy>> {
    // f32 holds these exactly: a number that stands alone may become one
    const FRACTIONS: [f64; 6] = [0.3125, -1.75, 37.5, 0.625, 2.375, 0.15625];
    const COUNTS: [i64; 6] = [2, -3, 11, 1, 3, 0];
    let default = opt.default.as_ref().map(ToString::to_string);
    let mut all: Vec<Value<ArgTy>> = match opt.ty {
        OptType::I64 => COUNTS.map(int).to_vec(),
        _ => FRACTIONS.map(|x| Value::Num(Scalar::Float(x))).to_vec(),
    };
    let start = turn % all.len();
    all.rotate_left(start);
    let same = |v: &Value<ArgTy>| matches!(v, Value::Num(s) if Some(s.to_string()) == default);
    all.retain(|v| !same(v));
    all
}

/// A count above the usual ones.
pub(super) fn larger(opt: &Opt) -> Option<Value<ArgTy>> {
    matches!(opt.ty, OptType::I64).then(|| int(4))
}

/// Expressions, other than literals, with which conditions of a row compare an integer: `at < N + N / 9`.
pub(super) fn bounds<'r>(row: &'r Row, opt: &Opt) -> Vec<&'r Expr> {
    let mut bounds = Vec::new();
    let is_opt = |e: &Expr| matches!(&*e.node, Node::Name(name) if *name == opt.name.name);
    if !matches!(opt.ty, OptType::I64) {
        return bounds;
    }
    let mut open: Vec<&Expr> = row.require.iter().map(|require| &require.cond).collect();
    while let Some(cond) = open.pop() {
        match &*cond.node {
            Node::Binary(BinOp::And | BinOp::Or, left, right) => open.extend([left, right]),
            Node::Binary(BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge, left, right) => {
                bounds.extend(is_opt(left).then_some(right));
                bounds.extend(is_opt(right).then_some(left));
            }
            _ => {}
        }
    }
    bounds.retain(|bound| thresholds::literal(bound).is_none());
    bounds
}

/// The value of a bound in a call, and its neighbours.
pub(super) fn at_bound(bound: &Expr, env: &Env) -> Option<[Value<ArgTy>; 3]> {
    let n = const_eval::eval(env, bound, At::default()).and_then(|value| value.int()).ok()?.value();
    Some([0, -1, 1].map(|beside| int(n.saturating_add(beside))))
}

/// Fills in the options. Lists with one number per chosen axis come last, because other options choose the axes.
pub(super) fn fill(row: &Row, env: &mut Env, choice: &Choice, values: &mut [Value<ArgTy>]) -> Option<()> {
    let first = row.sig.params.len();
    for late in [false, true] {
        for (i, opt) in row.sig.opts.iter().enumerate() {
            if matches!(&opt.ty, OptType::Ints { axes: Some(_), .. }) != late {
                continue;
            }
            let value = match choice.given.iter().find(|(at, _)| *at == i) {
                Some((_, given)) => given.clone(),
                None => value(row, &choice.tried[i], env, opt, choice.opts[i], choice.turn, i as u64)?,
            };
            let item = if value.is_absent() { default(opt) } else { item(opt, &value, env) };
            env.items.extend(item.map(|item| (opt.name.name, item)));
            values[first + i] = value;
        }
    }
    Some(())
}

fn value(
    row: &Row,
    tried: &Tried,
    env: &Env,
    opt: &Opt,
    alternative: usize,
    turn: Turn,
    salt: u64,
) -> Option<Value<ArgTy>> {
    let alternatives = tried.alternatives;
    if opt.optional && alternative + 1 == alternatives {
        return Some(Value::Absent);
    }
    let candidates = candidates(row, tried, env, opt)?;
    // each of their candidates is an alternative of its own
    if matches!(opt.ty, OptType::Bool | OptType::Enum(_) | OptType::Str | OptType::Perm(_)) {
        return candidates.into_iter().nth(alternative);
    }
    // the default is one more candidate; where a condition reads the number it is the first alternative
    let numbers = matches!(opt.ty, OptType::Num | OptType::F64) && alternatives > 1 + usize::from(opt.optional);
    if opt.default.is_some() && !matches!(opt.ty, OptType::Size(_)) {
        if numbers && alternative == 0 {
            return Some(Value::Absent);
        }
        if !numbers {
            return match turn.pick(candidates.len() + 1, salt) {
                0 => Some(Value::Absent),
                nth => candidates.into_iter().nth(nth - 1),
            };
        }
    }
    let pick = turn.pick(candidates.len(), salt);
    candidates.into_iter().nth(pick)
}

/// The binding of a number or word that is not given. Sizes may follow from it.
fn default(opt: &Opt) -> Option<Item> {
    let default = opt.default.as_ref()?;
    match (&opt.ty, &*default.node) {
        (OptType::Num | OptType::F64 | OptType::I64 | OptType::Ints { axes: None, .. }, _) => {
            Some(match thresholds::literal(default)? {
                Scalar::Int(i) => Item::Int(Dim::from(i)),
                number => Item::Num(number),
            })
        }
        (OptType::Enum(_), Node::Name(word)) => Some(Item::Word(*word)),
        _ => None,
    }
}

/// The binding of a given value, roughly as the signature computes it: enough to build shapes from.
fn item(opt: &Opt, value: &Value<ArgTy>, env: &Env) -> Option<Item> {
    let wrap = |d: &Dim, n: usize| if d.value() < 0 { *d + n } else { *d };
    Some(match (&opt.ty, value) {
        (OptType::Dims { list, .. }, value) => {
            let n = rank(env, *list)?;
            let axes = value.as_dims().unwrap_or_default();
            let all = axes.is_empty();
            Item::Ints(if all { (0..n).map(Dim::from).collect() } else { axes.iter().map(|d| wrap(d, n)).collect() })
        }
        (OptType::Labels(list), Value::Str(text)) => {
            Item::Labels(Box::new(labels(env, *list)?.into_iter().find(|l| l.text == *text)?))
        }
        (_, Value::Num(Scalar::Int(i))) => Item::Int(Dim::from(*i)),
        (_, Value::Num(s)) => Item::Num(*s),
        (_, Value::List(_)) => Item::Ints(value.as_dims()?.into()),
        (_, Value::Word(w)) => Item::Word(*w),
        (_, Value::DType(d)) => Item::DType(*d),
        _ => return None,
    })
}

/// The number of axes of a list of sizes.
pub(super) fn rank(env: &Env, list: Name) -> Option<usize> {
    match env.size(list)? {
        Size::List(sizes) => Some(sizes.len()),
        _ => Some(1),
    }
}

/// An integer as a value.
pub(super) fn int(i: i64) -> Value<ArgTy> {
    Value::Num(Scalar::Int(i))
}

/// A list of integers as a value.
pub(super) fn ints(items: impl IntoIterator<Item = i64>) -> Value<ArgTy> {
    Value::List(items.into_iter().map(int).collect())
}

pub(super) fn candidates(row: &Row, tried: &Tried, env: &Env, opt: &Opt) -> Option<Vec<Value<ArgTy>>> {
    let float = |x: f64| Value::Num(Scalar::Float(x));
    let one = |size: Name| match env.size(size) {
        Some(Size::One(d)) => Some(d.value()),
        _ => None,
    };
    let sizes = |list: Name| match env.size(list) {
        Some(Size::List(l)) => Some(l.iter().map(|d| d.value()).collect::<Vec<_>>()),
        _ => None,
    };
    let with_thresholds = |mut usual: Vec<Value<ArgTy>>| {
        let more: Vec<_> = tried.beside.iter().filter(|v| !usual.contains(v)).cloned().collect();
        usual.extend(more);
        usual
    };
    Some(match &opt.ty {
        OptType::Num => with_thresholds(vec![int(1), float(0.5), int(2), int(4)]),
        OptType::F64 => {
            let mut usual = vec![float(0.5), float(1.0), float(2.0), float(0.0)];
            // a number that the row may refuse
            usual.extend(tried.refusable.then(|| float(-1.0)));
            with_thresholds(usual)
        }
        OptType::I64 => with_thresholds(vec![int(1), int(0), int(2), int(-1), int(3)]),
        OptType::Bool => vec![Value::Num(Scalar::Bool(false)), Value::Num(Scalar::Bool(true))],
        OptType::Str => std::iter::once(String::new()).chain(tried.quoted.iter().cloned()).map(Value::Str).collect(),
        OptType::Labels(list) => labels(env, *list)?.into_iter().map(|l| Value::Str(l.text)).collect(),
        OptType::Dtype(_) => [DType::F32, DType::F64, DType::I64].into_iter().map(Value::DType).collect(),
        OptType::Enum(words) => words.iter().map(|word| Value::Word(*word)).collect(),
        OptType::Dim(None) => anchored(row, env, opt.name.name)?,
        OptType::Dim(Some(list)) => {
            let n = rank(env, *list)?.max(1) as i64;
            (0..n).chain(-n..0).map(int).collect()
        }
        OptType::Gap(list) => {
            let n = rank(env, *list)? as i64;
            (0..=n).chain([-1]).map(int).collect()
        }
        OptType::Perm(list) => {
            let n = rank(env, *list)? as i64;
            vec![ints((0..n).rev()), ints((0..n).map(|i| (i + 1) % n.max(1))), ints(0..n), ints(-n..0)]
        }
        OptType::Pos(size) => {
            let n = one(*size)?;
            vec![int(0), int(-1), int(n - 1)]
        }
        OptType::Bound(size) => {
            let n = one(*size)?;
            vec![int(0), int(n), int(1), int(-1), int(n + 3)]
        }
        OptType::Dims { list, most, .. } => {
            let n = rank(env, *list)? as i64;
            let mut all = vec![ints([])];
            if n > 0 {
                all.extend([ints([0]), ints([-1]), int(n - 1)]);
            }
            if n > 1 && most.is_none() {
                all.extend([ints([0, n - 1]), ints(0..n), ints([-1, 0])]);
            }
            all
        }
        OptType::Ints { list, .. } if *list == "_" => vec![ints([]), ints([1, 2]), ints([0, 1, 1, 0])],
        OptType::Ints { list, axes: None, broadcast, .. } => {
            let n = rank(env, *list)? as i64;
            let mut all = vec![int(1), ints((0..n).map(|i| i + 1)), ints(std::iter::repeat_n(0, n as usize)), int(2)];
            if *broadcast {
                // one axis more than the argument has, on the left
                all = vec![ints((0..=n).map(|i| i + 1)), ints((0..n).map(|_| 2))];
            }
            all
        }
        OptType::Ints { list, axes: Some(axes), .. } => {
            let chosen = const_eval::axes(env, axes, rank(env, *list)?, At::default()).ok()?.len();
            vec![int(1), ints((0..chosen as i64).map(|i| i + 1)), int(-2)]
        }
        OptType::Size(size) => vec![int(one(*size)?)],
        OptType::Shape { infer: Some(from), .. } => {
            // `from` names a list of sizes, or a single size
            let all = sizes(*from).or_else(|| Some(vec![one(*from)?]))?;
            let turned: Vec<i64> = all.iter().rev().copied().collect();
            let led = std::iter::once(1).chain(all.iter().copied());
            vec![ints(turned.clone()), ints([-1]), ints(led), ints(all.iter().skip(1).copied().chain([-1])), ints(all)]
        }
        OptType::Shape { list, keep, .. } => {
            let all = sizes(*list)?;
            let mut given = vec![ints(all.clone())];
            if keep.is_some() {
                given.push(ints(all.iter().enumerate().map(|(i, n)| if i + 1 == all.len() { -1 } else { *n })));
            }
            given
        }
    })
}

/// Labels for the operands of a call: the first has all axes, the others some.
fn labels(env: &Env, list: Name) -> Option<Vec<Labels>> {
    let Size::List(sizes) = env.size(list)? else { return None };
    let operands = env.items.iter().find_map(|(_, i)| if let Item::Tensors(_, n) = i { Some(*n) } else { None })?;
    let n = sizes.len();
    let some = |i: usize| (0..n).filter(|a| (a + i) % 3 != 2).collect();
    let turned: Vec<usize> = (0..n).rev().collect();
    let make = |first: Vec<usize>, outs: &[usize]| {
        let ins: Vec<Vec<usize>> = std::iter::once(first).chain((1..operands).map(some)).collect();
        Labels::of(&ins, outs, sizes)
    };
    let every_second: Vec<usize> = (0..n).rev().step_by(2).collect();
    // one label on two axes
    let diagonal = (0..n).chain((n > 0).then_some(0)).collect();
    Some(vec![make((0..n).collect(), &every_second), make(turned.clone(), &turned), make(diagonal, &every_second)])
}

/// The position of an axis that a shape pattern names, `N@dim`, counted from both ends.
fn anchored(row: &Row, env: &Env, option: Name) -> Option<Vec<Value<ArgTy>>> {
    let dims = row.sig.params.iter().filter_map(|param| param.ty.dims.as_ref()).find(|dims| {
        dims.iter().any(|dim| matches!(&dim.kind, DimKind::One { at: Some(at), .. } if at.name == option))
    })?;
    let (mut before, mut total) = (None, 0);
    for dim in dims {
        match &dim.kind {
            DimKind::One { at: Some(at), .. } if at.name == option => {
                before = Some(total);
                total += 1;
            }
            DimKind::One { .. } => total += 1,
            DimKind::List { name, .. } | DimKind::Broadcast(name) | DimKind::Ones(name) => {
                total += rank(env, name.name)? as i64;
            }
            _ => return None,
        }
    }
    let before = before?;
    Some(vec![int(before), int(before - total)])
}
