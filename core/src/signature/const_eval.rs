//! Constant evaluation of sizes, options, presence and dtypes, without reading an element.
//!
//! One evaluator serves shapes, defaults, `require`, `promote`, conditional dimensions and static `if`s. An expression
//! that mentions an element, an index or a run-time number yields [`Stop::NotStatic`]; the caller then knows that it
//! belongs to the kernel.

use super::Refusal;
use super::env::{Env, Item, Size};
use super::sizes::{fits, windows};
use super::val::bad;
use crate::builtins::{self, Builtin, ResultRule};
use crate::dtype::DTypeSet;
use crate::lang::ast::*;
use crate::lang::helpers::{self, HelperFact};
use crate::promote::{self, Kind};
use crate::{DType, Dim, Name, Scalar, counted};
use smallvec::SmallVec;

pub use super::val::{At, Dims, Static, Stop, Val, constant};

/// Evaluates `e`.
pub fn eval(env: &Env, e: &Expr, at: At) -> Static<Val> {
    Ok(match &*e.node {
        Node::Int(i) => Val::Int(Dim::from(*i)),
        Node::Float(f) => Val::Float(*f),
        Node::Str(s) => Val::Str(s.clone()),
        Node::Name(name) => lookup(env, *name, at)?,
        Node::Unary(UnOp::Neg, a) => match eval(env, a, at)? {
            Val::Int(d) => Val::Int(-d),
            Val::Float(f) => Val::Float(-f),
            _ => return Err(bad("only a number can be negated")),
        },
        Node::Unary(UnOp::Not, a) => Val::Bool(!eval(env, a, at)?.bool()?),
        Node::Binary(op, a, b) => binary(env, *op, a, b, at)?,
        Node::Cast(a, elem) => {
            let v = eval(env, a, at)?;
            match elem_dtype(env, elem)? {
                d if d.is_float() => Val::Float(v.float()?),
                DType::Bool => Val::Bool(v.scalar()?.as_bool()),
                _ => match v {
                    Val::Float(f) => Val::Int(Dim::from(f as i64)),
                    other => Val::Int(other.int()?),
                },
            }
        }
        Node::If(c, a, b) => block(env, if eval(env, c, at)?.bool()? { a } else { b }, at)?,
        Node::Match(on, arms) => {
            let Val::Word(word) = lookup(env, on.name, at)? else {
                return Err(bad("`match` needs an option with words"));
            };
            let arm = arms.iter().find(|(w, _)| w.name == word);
            eval(env, &arm.ok_or_else(|| bad(format!("`match` has no arm for `{word}`")))?.1, at)?
        }
        Node::Call(f, args) => call(env, f.name, args, at)?,
        Node::Access(a) => access(env, a, at)?,
        Node::Reduce(r) => reduce(env, r, at)?,
        Node::Zip(inner) => {
            let n = zip_len(env, inner)?.ok_or_else(|| bad("`..( )` mentions no list"))?;
            let items = (0..n).map(|axis| eval(env, inner, At { axis: Some(axis), ..at })?.int());
            Val::List(items.collect::<Static<Dims>>()?)
        }
        Node::Tuple(_) | Node::Spread(_) | Node::List(_) => return Err(Stop::NotStatic),
    })
}

/// The value in the form that a `let` binds, if there is one.
pub fn bound(value: Val) -> Option<Item> {
    Some(match value {
        Val::Int(d) => Item::Int(d),
        Val::Float(f) => Item::Num(Scalar::Float(f)),
        Val::Bool(b) => Item::Num(Scalar::Bool(b)),
        Val::List(l) => Item::Ints(l),
        Val::Word(w) => Item::Word(w),
        _ => return None,
    })
}

/// Evaluates a block whose `let`s are static.
pub fn block(env: &Env, b: &Block, at: At) -> Static<Val> {
    if b.stmts.is_empty() {
        return eval(env, &b.value, at);
    }
    let mut env = env.clone();
    for stmt in &b.stmts {
        let Stmt::Let(Pattern::Name(name), value) = stmt else { return Err(Stop::NotStatic) };
        let item = bound(eval(&env, value, at)?).ok_or(Stop::NotStatic)?;
        env.items.insert(0, (name.name, item));
    }
    eval(&env, &b.value, at)
}

/// The axis that a signature names by number: `N@0`, `swap(0, 1)`.
pub fn axis_number(name: Name) -> Option<Dim> {
    name.as_str().parse().ok().map(|n: i64| Dim::from(n))
}

fn lookup(env: &Env, name: Name, at: At) -> Static<Val> {
    if let Some(item) = env.item(name) {
        return match item {
            Item::Absent => Ok(Val::Absent),
            Item::Num(s) => Ok((*s).into()),
            Item::Int(d) => Ok(Val::Int(*d)),
            Item::Ints(l) => Ok(match at.axis {
                Some(a) => Val::Int(*l.get(a).ok_or_else(|| bad(format!("`{name}` has no axis {a}")))?),
                None => Val::List(SmallVec::from_slice(l)),
            }),
            Item::DType(d) => Ok(Val::DType(*d)),
            Item::Word(w) => Ok(Val::Word(*w)),
            Item::Str(s) => Ok(Val::Str(s.clone())),
            Item::Labels(l) => Ok(Val::Str(l.text.clone())),
            Item::Tensor(_) | Item::Tensors(..) | Item::Runtime(..) => Err(Stop::NotStatic),
        };
    }
    if let Some(size) = env.size(name) {
        return size_at(name, size, at);
    }
    if let Some(c) = constant(name) {
        return Ok(c.into());
    }
    if let Some(d) = env.dtype(name).or_else(|| DType::from_name(name.as_str())) {
        return Ok(Val::DType(d));
    }
    match (name.as_str(), at.item) {
        ("i", Some(i)) => Ok(Val::Int(Dim::from(i))),
        _ => axis_number(name).map(Val::Int).ok_or(Stop::NotStatic),
    }
}

fn size_at(name: Name, size: &Size, at: At) -> Static<Val> {
    let pick = |l: &Dims| -> Static<Val> {
        Ok(match at.axis {
            Some(a) => Val::Int(*l.get(a).ok_or_else(|| bad(format!("`{name}` has no axis {a}")))?),
            None => Val::List(SmallVec::from_slice(l)),
        })
    };
    match size {
        Size::One(d) => Ok(Val::Int(*d)),
        Size::List(l) => pick(l),
        Size::Each(l) => Ok(match at.item.or(at.axis) {
            Some(i) => Val::Int(*l.get(i).ok_or_else(|| bad(format!("`{name}` has no item {i}")))?),
            None => Val::List(SmallVec::from_slice(l)),
        }),
        Size::EachList(l) => match at.item {
            Some(i) => pick(l.get(i).ok_or_else(|| bad(format!("`{name}` has no item {i}")))?),
            None => Err(bad(format!("`{name}` differs between items"))),
        },
    }
}

fn binary(env: &Env, op: BinOp, a: &Expr, b: &Expr, at: At) -> Static<Val> {
    if matches!(op, BinOp::And | BinOp::Or) {
        // One side alone may decide, even if the other one is not static.
        let decides = op == BinOp::Or;
        let l = eval(env, a, at);
        if let Ok(Val::Bool(v)) = l
            && v == decides
        {
            return Ok(Val::Bool(decides));
        }
        let r = eval(env, b, at);
        if let Ok(Val::Bool(v)) = r
            && v == decides
        {
            return Ok(Val::Bool(decides));
        }
        let (l, r) = (l?.bool()?, r?.bool()?);
        return Ok(Val::Bool(if decides { l || r } else { l && r }));
    }
    let (l, r) = (eval(env, a, at), eval(env, b, at));
    // `option == word`: only here is a bare word a value.
    let word = |e: &Expr| match &*e.node {
        Node::Name(n) => Ok(Val::Word(*n)),
        _ => Err(Stop::NotStatic),
    };
    match (l, r) {
        (Ok(l @ Val::Word(_)), Err(Stop::NotStatic)) => apply_binary(op, l, word(b)?),
        (Err(Stop::NotStatic), Ok(r @ Val::Word(_))) => apply_binary(op, word(a)?, r),
        (Ok(Val::Absent), Err(Stop::NotStatic)) if word(b).is_ok() => Ok(Val::Bool(op == BinOp::Ne)),
        (l, r) => apply_binary(op, l?, r?),
    }
}

/// The message for a size that is divided by an option of value 0.
pub const DIVIDED_BY_ZERO: &str = "a size is divided by zero";

fn divided_by_zero() -> Refusal {
    let help = "sizes are integers and their quotients are floored; of numbers write `(a as f64) / (b as f64)`";
    Refusal::new("E704", DIVIDED_BY_ZERO).help(help)
}

/// `l op r` on values; `/` and `%` of integers floor.
pub fn apply_binary(op: BinOp, l: Val, r: Val) -> Static<Val> {
    use BinOp::*;
    Ok(match (op, &l, &r) {
        (And, Val::Bool(a), Val::Bool(b)) => Val::Bool(*a && *b),
        (Or, Val::Bool(a), Val::Bool(b)) => Val::Bool(*a || *b),
        (Eq | Ne, Val::Word(a), Val::Word(b)) => Val::Bool((a == b) == (op == Eq)),
        (Eq | Ne, Val::Str(a), Val::Str(b)) => Val::Bool((a == b) == (op == Eq)),
        (Eq | Ne, Val::DType(a), Val::DType(b)) => Val::Bool((a == b) == (op == Eq)),
        (Eq | Ne, Val::Bool(a), Val::Bool(b)) => Val::Bool((a == b) == (op == Eq)),
        (Eq | Ne, Val::List(a), Val::List(b)) => Val::Bool((a == b) == (op == Eq)),
        (_, Val::Int(_) | Val::Bool(_), Val::Int(_) | Val::Bool(_)) => {
            let (a, b) = (l.int()?, r.int()?);
            match op {
                Add | Sub | Mul => Val::Int(fits(op, a, b)?),
                Div | Rem if b == Dim::from(0) => {
                    return Err(Stop::Refused(divided_by_zero()));
                }
                Div => Val::Int(a / b),
                Rem => Val::Int(a % b),
                _ => compared(op, a, b)?,
            }
        }
        _ => {
            let (a, b) = (l.float()?, r.float()?);
            match op {
                Add => Val::Float(a + b),
                Sub => Val::Float(a - b),
                Mul => Val::Float(a * b),
                Div => Val::Float(a / b),
                Rem => Val::Float(a - b * (a / b).floor()),
                _ => compared(op, a, b)?,
            }
        }
    })
}

fn compared<N: PartialOrd>(op: BinOp, a: N, b: N) -> Static<Val> {
    Ok(Val::Bool(match op {
        BinOp::Eq => a == b,
        BinOp::Ne => a != b,
        BinOp::Lt => a < b,
        BinOp::Le => a <= b,
        BinOp::Gt => a > b,
        BinOp::Ge => a >= b,
        _ => return Err(bad("`&&` and `||` need truth values")),
    }))
}

fn access(env: &Env, a: &TensorAccess, at: At) -> Static<Val> {
    let name = a.base.name;
    let sizes = env.item(name).is_none();
    let is_name = |e: &Expr| matches!(&*e.node, Node::Name(_));
    let list: &[Dim] = match (env.size(name), env.item(name)) {
        (_, Some(Item::Ints(l))) => l,
        (Some(Size::List(l)), None) => l,
        (Some(Size::Each(l)), None) => l,
        _ => return Err(Stop::NotStatic),
    };
    let get = |i: Dim| -> Static<Dim> {
        list.get(usize::try_from(i.value()).unwrap_or(usize::MAX))
            .copied()
            .ok_or_else(|| bad(format!("`{name}` has no item {i}")))
    };
    match a.places.as_slice() {
        [Place::One(e)] => match eval(env, e, at)? {
            // The one axis of a rank-0 tensor that an option can name.
            Val::Int(i) if list.is_empty() && sizes && is_name(e) && (-1..=0).contains(&i.value()) => {
                Ok(Val::Int(Dim::from(1)))
            }
            Val::Int(i) => Ok(Val::Int(get(i)?)),
            Val::List(l) => Ok(Val::List(l.iter().map(|&i| get(i)).collect::<Static<Dims>>()?)),
            _ => Err(bad("a size is chosen by an integer or by axes")),
        },
        [Place::List(..)] | [Place::Zip(_)] => Err(Stop::NotStatic),
        _ => Err(Stop::NotStatic),
    }
}

fn reduce(env: &Env, r: &Reduce, at: At) -> Static<Val> {
    if r.binds.is_some() || r.filter.is_some() {
        return Err(Stop::NotStatic);
    }
    let n = zip_len(env, &r.body)?.ok_or_else(|| bad("a reduction over axes mentions no list"))?;
    let items = (0..n).map(|axis| eval(env, &r.body, At { axis: Some(axis), ..at })).collect::<Static<Vec<_>>>()?;
    let fold = |start: Val, op: BinOp| items.iter().try_fold(start, |acc, v| apply_binary(op, acc, v.clone()));
    Ok(match r.red {
        Red::Sum => fold(Val::Int(Dim::from(0)), BinOp::Add)?,
        Red::Prod => fold(Val::Int(Dim::from(1)), BinOp::Mul)?,
        Red::All => fold(Val::Bool(true), BinOp::And)?,
        Red::Any => fold(Val::Bool(false), BinOp::Or)?,
        Red::Max | Red::Min => {
            let mut ints = items.iter().map(Val::int).collect::<Static<Vec<_>>>()?.into_iter();
            let first = ints.next().ok_or_else(|| bad("max of no axes"))?;
            Val::Int(ints.fold(first, |a, b| if r.red == Red::Max { a.max(b) } else { a.min(b) }))
        }
        _ => return Err(Stop::NotStatic),
    })
}

fn call(env: &Env, f: Name, args: &[Arg], at: At) -> Static<Val> {
    let arg = |i: usize| args.get(i).map(|a| &a.value).ok_or_else(|| bad(format!("`{f}` needs more arguments")));
    let name = |i: usize| match &*arg(i)?.node {
        Node::Name(n) => Ok(*n),
        _ => Err(bad(format!("`{f}` needs a name"))),
    };
    let presence = |test: &dyn Fn(&Item) -> bool| -> Static<Val> {
        let n = name(0)?;
        env.item(n).map(|i| Val::Bool(test(i))).ok_or(Stop::NotStatic)
    };
    match f.as_str() {
        "some" => presence(&|i| *i != Item::Absent),
        "is_tensor" => presence(&|i| matches!(i, Item::Tensor(_) | Item::Tensors(..))),
        "is_number" => presence(&|i| !matches!(i, Item::Tensor(_) | Item::Tensors(..) | Item::Absent)),
        "is_int" | "is_bool" | "is_float" => {
            let n = name(0)?;
            let dtype = env.dtype(n).or_else(|| env.tensor(n).map(|t| t.dtype)).or(match env.item(n) {
                Some(Item::Num(s)) => Some(s.dtype()),
                Some(Item::Int(_)) => Some(DType::I64),
                Some(Item::Runtime(_, d) | Item::DType(d)) => Some(*d),
                _ => None,
            });
            let Some(d) = dtype else { return Err(Stop::NotStatic) };
            Ok(Val::Bool(match f.as_str() {
                "is_int" => d.is_int(),
                "is_float" => d.is_float(),
                _ => d == DType::Bool,
            }))
        }
        "size" if args.len() == 2 => {
            let t = env.tensor(name(0)?).ok_or(Stop::NotStatic)?;
            let axes = eval(env, arg(1)?, at)?.list()?;
            t.size_along(&axes).map(Val::Int).ok_or_else(|| bad("`size` has an axis that is not there"))
        }
        "size" => {
            Ok(Val::Int(eval(env, arg(0)?, at)?.list()?.iter().try_fold(Dim::from(1), |p, &d| fits(BinOp::Mul, p, d))?))
        }
        "len" => match name(0).ok().and_then(|n| env.item(n)) {
            Some(Item::Tensors(_, n)) => Ok(Val::Int(Dim::from(*n))),
            _ => Ok(Val::Int(Dim::from(eval(env, arg(0)?, At { axis: None, item: None })?.list()?.len()))),
        },
        "before" => {
            let list = eval(env, arg(0)?, At { axis: None, item: None })?.list()?;
            let i = eval(env, arg(1)?, at)?.int()?.len();
            Ok(Val::Int(list.iter().take(i).fold(Dim::from(0), |s, &d| s + d)))
        }
        "rank" => Ok(Val::Int(Dim::from(env.tensor(name(0)?).ok_or(Stop::NotStatic)?.rank()))),
        "part" => {
            let list = eval(env, arg(0)?, At { axis: None, item: None })?.list()?;
            let place = |e: &Expr| -> Static<usize> {
                Ok(eval(env, e, at)?.int()?.value().clamp(0, list.len() as i64) as usize)
            };
            let (from, to) = (place(arg(1)?)?, place(arg(2)?)?);
            Ok(Val::List(list[from..to.max(from)].into()))
        }
        "member" => {
            let axis = at.axis.ok_or_else(|| bad("`member` stands inside `..( )`"))?;
            let set = eval(env, arg(0)?, At { axis: None, ..at })?.list()?;
            Ok(Val::Bool(set.iter().any(|d| d.value() == axis as i64)))
        }
        "of" => {
            // The axes of its broadcast list along which this argument, or this item of it, varies.
            let part = env.part(name(0)?, at.item).ok_or(Stop::NotStatic)?;
            let Some(Size::List(full)) = env.size(part.list) else { return Err(Stop::NotStatic) };
            let skip = full.len() - part.own.len().min(full.len());
            let varies = |axis: &usize| *axis >= skip && (part.own[*axis - skip] == full[*axis]);
            Ok(Val::List((0..full.len()).filter(varies).map(Dim::from).collect()))
        }
        "unit" => {
            let set = eval(env, arg(0)?, at)?.list()?;
            // The chosen axes of size 1 in the only list.
            let list = env.sizes.iter().find_map(|(_, s)| match s {
                Size::List(l) => Some(l),
                _ => None,
            });
            let list = list.ok_or_else(|| bad("`unit` needs a list"))?;
            Ok(Val::List(set.iter().copied().filter(|d| list.get(d.len()).is_some_and(|s| s.is(1))).collect()))
        }
        "ahead" | "behind" => {
            // The remaining axes of a list on either side of the chosen ones; if those are not adjacent, they move to
            // the front.
            let gone = eval(env, arg(0)?, At { axis: None, ..at })?.list()?;
            let rank = eval(env, arg(1)?, At { axis: None, ..at })?.list()?.len();
            let together = gone.windows(2).all(|w| w[1].value() == w[0].value() + 1);
            let first = gone.first().filter(|_| together).map_or(0, |d| d.len());
            let side = if f == "ahead" { 0..first } else { first..rank };
            Ok(Val::List(side.map(Dim::from).filter(|axis| !gone.contains(axis)).collect()))
        }
        "ins" | "outs" => {
            let n = name(0)?;
            let Some(Item::Labels(labels)) = env.item(n) else { return Err(Stop::NotStatic) };
            if f == "outs" {
                return Ok(Val::List(labels.outs.clone()));
            }
            let i = eval(env, arg(1)?, at)?.int()?;
            let axes = labels.ins.get(i.len()).ok_or_else(|| bad(format!("`{n}` labels no operand {i}")))?;
            Ok(Val::List(axes.clone()))
        }
        "lone" => match env.item(name(0)?) {
            Some(Item::Labels(labels)) => Ok(Val::Bool(labels.lone())),
            _ => Err(Stop::NotStatic),
        },
        "ceil_div" => {
            let (a, b) = (eval(env, arg(0)?, at)?, eval(env, arg(1)?, at)?);
            match (&a, &b) {
                (Val::Int(a), Val::Int(b)) if !b.is(0) => Ok(Val::Int(-(-*a / *b))),
                (Val::Int(_), Val::Int(_)) => Err(Stop::Refused(divided_by_zero())),
                _ => Ok(Val::Int(Dim::from((a.float()? / b.float()?).ceil() as i64))),
            }
        }
        "pair" => {
            let axis = at.axis.ok_or_else(|| bad("`pair` stands inside `..( )`"))?;
            let whole = At { axis: None, ..at };
            let (pairs, rank) = (eval(env, arg(0)?, whole)?.list()?, eval(env, arg(1)?, whole)?.list()?.len());
            let which = eval(env, arg(2)?, at)?.int()?.len();
            let from_last = rank.saturating_sub(axis + 1);
            Ok(Val::Int(pairs.get(2 * from_last + which).copied().unwrap_or(Dim::from(0))))
        }
        "windows" => {
            let x = (0..4).map(|i| eval(env, arg(i)?, at)?.int()).collect::<Static<Vec<_>>>()?;
            let ceil = eval(env, arg(4)?, at)?.bool()?;
            if x[2].is(0) {
                return Err(Stop::Refused(Refusal::new("E704", "windows that do not move can't be counted")));
            }
            Ok(Val::Int(windows(x[0], x[1], x[2], x[3], ceil)?))
        }
        "wrap" => {
            let (i, n) = (eval(env, arg(0)?, at)?.int()?, eval(env, arg(1)?, at)?.int()?);
            Ok(Val::Int(if i < Dim::from(0) { i + n } else { i }))
        }
        "join" => {
            let operands = args
                .iter()
                .map(|a| {
                    Ok(promote::Operand::Number(match eval(env, &a.value, at)? {
                        Val::Int(_) => DType::I64,
                        other => other.scalar()?.dtype(),
                    }))
                })
                .collect::<Static<Vec<_>>>()?;
            promote::join(&operands).map(Val::DType).ok_or_else(|| bad("these dtypes have no join"))
        }
        "min" | "max" => {
            let (a, b) = (eval(env, arg(0)?, at)?, eval(env, arg(1)?, at)?);
            Ok(match (&a, &b) {
                (Val::Int(a), Val::Int(b)) => Val::Int(if f == "max" { a.max(*b) } else { a.min(*b) }),
                _ if f == "max" => Val::Float(a.float()?.max(b.float()?)),
                _ => Val::Float(a.float()?.min(b.float()?)),
            })
        }
        "div_floor" | "div_trunc" | "rem_floor" | "rem_trunc" => {
            let (a, b) = (eval(env, arg(0)?, at)?, eval(env, arg(1)?, at)?);
            match (a, b) {
                (Val::Int(_), Val::Int(b)) if b.is(0) => Err(Stop::Refused(divided_by_zero())),
                (Val::Int(a), Val::Int(b)) => {
                    let zero = Dim::from(0);
                    let towards_zero = f.as_str().ends_with("trunc") && (a < zero) != (b < zero);
                    let quotient = if towards_zero { -(-a / b) } else { a / b };
                    Ok(Val::Int(if f.as_str().starts_with("div") { quotient } else { a - quotient * b }))
                }
                (a, b) => builtin(f, &[a.float()?, b.float()?]),
            }
        }
        "abs" => Ok(match eval(env, arg(0)?, at)? {
            Val::Int(d) => Val::Int(if d < Dim::from(0) { -d } else { d }),
            v => Val::Float(v.float()?.abs()),
        }),
        "epsilon" | "largest" | "lowest" => {
            let Val::DType(d) = eval(env, arg(0)?, at)? else { return Err(bad(format!("`{f}` needs a dtype"))) };
            Ok(Val::Float(match f.as_str() {
                "epsilon" => d.epsilon(),
                "largest" => d.largest(),
                _ => d.lowest(),
            }))
        }
        _ => builtin(f, &args.iter().map(|a| eval(env, &a.value, at)?.float()).collect::<Static<Vec<f64>>>()?),
    }
}

/// A builtin function of floats.
fn builtin(f: Name, xs: &[f64]) -> Static<Val> {
    let Some(b) = Builtin::from_name(f.as_str()) else { return Err(Stop::NotStatic) };
    let x = builtins::eval_f64(b, xs);
    Ok(if b.record().result == ResultRule::Bool { Val::Bool(x != 0.0) } else { Val::Float(x) })
}

/// The number of axes of a zip: the length of the lists that it mentions.
pub fn zip_len(env: &Env, e: &Expr) -> Static<Option<usize>> {
    let mut found: Option<usize> = None;
    let mut visit = |name: Name| {
        let n = match (env.item(name), env.size(name)) {
            (Some(Item::Ints(l)), _) => Some(l.len()),
            (None, Some(Size::List(l))) => Some(l.len()),
            (None, Some(Size::Each(l))) => Some(l.len()),
            _ => None,
        };
        if let Some(n) = n {
            found = Some(found.map_or(n, |f| f.max(n)));
        }
    };
    names(e, &mut visit);
    Ok(found)
}

/// Calls `f` on every name in `e` that has a value per axis of a zip (except in `member(dims)` and chosen sizes).
pub fn names(e: &Expr, f: &mut impl FnMut(Name)) {
    match &*e.node {
        Node::Name(n) => f(*n),
        Node::Unary(_, a) | Node::Cast(a, _) | Node::Zip(a) | Node::Spread(a) => names(a, f),
        Node::Binary(_, a, b) => {
            names(a, f);
            names(b, f);
        }
        Node::If(c, a, b) => {
            names(c, f);
            block_names(a, f);
            block_names(b, f);
        }
        Node::Match(_, arms) => arms.iter().for_each(|(_, e)| names(e, f)),
        Node::Call(name, args) => {
            if name.name == "pair" {
                // The pairs are not one per axis.
                args.get(1).into_iter().for_each(|a| names(&a.value, f));
            } else if !helpers::is(name.name, HelperFact::WholeLists) {
                args.iter().for_each(|a| names(&a.value, f));
            }
        }
        Node::Tuple(items) => items.iter().for_each(|e| names(e, f)),
        Node::Reduce(_) | Node::Access(_) | Node::List(_) | Node::Int(_) | Node::Float(_) | Node::Str(_) => {}
    }
}

fn block_names(b: &Block, f: &mut impl FnMut(Name)) {
    for s in &b.stmts {
        match s {
            Stmt::Let(_, e) | Stmt::Write(_, e) => names(e, f),
        }
    }
    names(&b.value, f);
}

/// The axes (positions in the list of `rank` axes) that `axes` chooses.
pub fn axes(env: &Env, axes: &Axes, rank: usize, at: At) -> Static<Vec<usize>> {
    let one = |id: &Ident| -> Static<usize> {
        let d = lookup(env, id.name, At { axis: None, ..at })?.int()?;
        Ok(d.len())
    };
    let list = |v: Val| -> Static<Vec<usize>> { Ok(v.list()?.iter().map(|d| d.len()).collect()) };
    let chosen = match &axes.kind {
        AxesKind::Name(n) => list(lookup(env, n.name, At { axis: None, ..at })?)?,
        AxesKind::Names(ns) => ns.iter().map(one).collect::<Static<Vec<_>>>()?,
        AxesKind::Before(n) => (0..one(n)?.min(rank)).collect(),
        AxesKind::From(n) => (one(n)?..rank).collect(),
        AxesKind::Fn(f, args) if f.name == "swap" => {
            let [a, b] = args.as_slice() else { return Err(bad("`swap` takes two axes")) };
            let (a, b) = (one(a)?, one(b)?);
            let mut order: Vec<usize> = (0..rank).collect();
            if a < rank && b < rank {
                order.swap(a, b);
            }
            order
        }
        AxesKind::Fn(f, args) if f.name == "moved" => {
            let [from, to] = args.as_slice() else { return Err(bad("`moved` takes two lists of axes")) };
            let axes = |id: &Ident| list(lookup(env, id.name, At { axis: None, ..at })?);
            let (from, to) = (axes(from)?, axes(to)?);
            if from.len() != to.len() {
                let message = format!(
                    "{} can't move to {}",
                    counted(from.len(), "axis", "axes"),
                    counted(to.len(), "place", "places")
                );
                return Err(Stop::Refused(Refusal::new("E704", message)));
            }
            let mut rest = (0..rank).filter(|a| !from.contains(a));
            let taken = |place| to.iter().position(|t| *t == place).map(|i| from[i]);
            (0..rank).filter_map(|place| taken(place).or_else(|| rest.next())).collect()
        }
        AxesKind::Fn(f, args) => {
            let args: Vec<Arg> =
                args.iter().map(|a| Arg { name: None, value: Expr::new(Node::Name(a.name), a.span) }).collect();
            list(call(env, f.name, &args, At { axis: None, ..at })?)?
        }
        AxesKind::Not(inner) => self::axes(env, inner, rank, at)?,
    };
    // Options of a rank-0 tensor may be 0 or -1, but it has no axes.
    Ok(match axes.not {
        true => (0..rank).filter(|a| !chosen.contains(a)).collect(),
        false => chosen.into_iter().filter(|a| *a < rank).collect(),
    })
}

/// The dtype of an element class in this call.
pub fn elem_dtype(env: &Env, elem: &Elem) -> Static<DType> {
    let var = |n: Name| env.dtype(n).ok_or_else(|| bad(format!("`{n}` is bound to no dtype")));
    match elem {
        Elem::Var(n) => var(*n),
        Elem::Acc(n) => Ok(match var(*n)? {
            d if d.is_float() => d.opmath(),
            d => d,
        }),
        Elem::Real(n) => Ok(var(*n)?.real()),
        Elem::Index => Ok(DType::I64),
        Elem::Class(n) => DType::from_name(n.as_str()).ok_or_else(|| bad(format!("`{n}` is no dtype"))),
        Elem::Key => Err(bad("a key has no dtype")),
    }
}

/// The promotion kind that `e` (a name, or `if` over static options) yields.
pub fn kind(env: &Env, e: &Expr) -> Static<Kind> {
    match &*e.node {
        Node::Name(n) => Kind::from_name(n.as_str()).ok_or_else(|| bad(format!("`{n}` is no promotion kind"))),
        Node::If(c, a, b) => kind(env, &if eval(env, c, At::default())?.bool()? { a } else { b }.value),
        _ => Err(bad("a promotion kind is a word, or an `if` over options")),
    }
}

/// The dtype set that `e` (classes and names, `+`, `-`, `if` over static options) yields.
pub fn dtype_set(env: &Env, e: &Expr) -> Static<DTypeSet> {
    match &*e.node {
        Node::Name(n) => {
            DTypeSet::from_class(n.as_str()).ok_or_else(|| bad(format!("`{n}` is no dtype or dtype class")))
        }
        Node::Binary(BinOp::Add, a, b) => Ok(dtype_set(env, a)?.union(dtype_set(env, b)?)),
        Node::Binary(BinOp::Sub, a, b) => Ok(dtype_set(env, a)?.minus(dtype_set(env, b)?)),
        Node::If(c, a, b) => dtype_set(env, &if eval(env, c, At::default())?.bool()? { a } else { b }.value),
        _ => Err(bad("a dtype set is made of classes, names, `+` and `-`")),
    }
}
