//! The values of the helpers of the tensor language, whose table is [`crate::lang::helpers`].
//!
//! | helper | is |
//! |---|---|
//! | `last(N)` | the trailing axes that the list `N` has, as negative axes |
//! | `except(x, k)` | every axis of `x` but `k`, an axis or a list of them |
//! | `sizes(x, axes)` | the sizes of these axes |
//! | `part(l, a, b)`, `times(e, n)` | entries `a..b` of a list; a list of `n` times `e` |
//! | `entry(l, i)` | entry `i` of a list |
//! | `on(v, y, k)` | the vector `v` shaped to lie along axis `k` of `y` |
//! | `unbroadcast(e, x)` | `e` summed to the shape of `x` |
//! | `zeros(x)` | zeros of the type of `x` |
//! | `size(x, dims)`, `size(S)`, `len(xs)` | products of sizes, lengths |
//! | `dtype(x)` | the dtype of a tensor |
//! | `epsilon(T)`, `largest(T)`, `ceil_div`, `min`, `max`, scalar builtins | on numbers and sizes |

use super::{Machine, Value, dim_of};
use crate::builtins::{self, Builtin};
use crate::row::Row;
use crate::signature::{self, ArgTy, Meeting, Refusal, meet};
use crate::{Dim, Name, Scalar, TensorTy};

/// Floats below 2^53 without a fraction are exact integers.
const WHOLE: f64 = (1u64 << 53) as f64;

type Out<M> = Result<Value<<M as Machine>::V>, <M as Machine>::Error>;

/// The rows that programs call without naming them: those of operators, and those that helpers call.
pub const UNNAMED: &[&str] = &[
    "add",
    "cast",
    "div",
    "eq",
    "expand",
    "full",
    "ge",
    "gt",
    "le",
    "logical_and",
    "logical_not",
    "logical_or",
    "lt",
    "mul",
    "ne",
    "neg",
    "remainder",
    "reshape",
    "sub",
    "sum",
    "where",
];

/// Calls a row with one result, one of [`UNNAMED`].
pub fn call1<M: Machine>(machine: &mut M, op: &str, args: Vec<Value<M::V>>) -> Out<M> {
    debug_assert!(UNNAMED.contains(&op), "`{op}` is not in the list of what is called unnamed");
    let mut results = machine.call(Name::new(op), args, Vec::new())?;
    if results.is_empty() {
        return Err(Refusal::new("E706", format!("`{op}` yields nothing")).into());
    }
    Ok(results.remove(0))
}

/// The result of the helper called `f`, if it exists for these arguments.
pub fn helper<M: Machine>(
    machine: &mut M,
    f: Name,
    args: &[Value<M::V>],
    row: &Row,
) -> Result<Option<Value<M::V>>, M::Error> {
    let fault = |m: &str| -> M::Error { Refusal::new("E706", format!("a rule of `{}`: `{f}` {m}", row.op)).into() };
    let ints = |l: Vec<i64>| Value::List(l.into_iter().map(|i| Value::Num(Scalar::Int(i))).collect());
    let ty = |machine: &M, v: &Value<M::V>| -> Option<TensorTy> {
        match v {
            Value::Tensor(t) => match machine.ty(t) {
                ArgTy::Tensor(t) => Some(t),
                _ => None,
            },
            Value::Type(t) => Some(t.clone()),
            _ => None,
        }
    };
    let some = match (f.as_str(), args) {
        ("last", [list]) => {
            let n = list.as_dims().ok_or_else(|| fault("needs a list of sizes"))?.len() as i64;
            ints((-n..0).collect())
        }
        ("rank", [x]) => {
            let rank = ty(machine, x).ok_or_else(|| fault("needs a tensor"))?.rank();
            Value::Num(Scalar::Int(rank as i64))
        }
        ("except", [x, k]) => {
            let rank = ty(machine, x).ok_or_else(|| fault("needs a tensor"))?.rank() as i64;
            let k = k.as_dims().ok_or_else(|| fault("needs axes"))?;
            let named = |a: i64| k.iter().any(|k| k.value() == a || k.value().saturating_add(rank) == a);
            ints((0..rank).filter(|a| !named(*a)).collect())
        }
        ("sizes", [x, axes]) => {
            let shape = ty(machine, x).ok_or_else(|| fault("needs a tensor"))?.shape;
            let axes = axes.as_dims().ok_or_else(|| fault("needs axes"))?;
            let at =
                |d: &Dim| shape.get(if d.value() < 0 { d.value() + shape.len() as i64 } else { d.value() } as usize);
            let sizes: Option<Vec<_>> = axes.iter().map(|d| at(d).map(|d| Value::size(*d))).collect();
            Value::List(sizes.ok_or_else(|| fault("has an axis that is not there"))?)
        }
        ("part", [list, from, to]) => {
            let items = list.as_dims().ok_or_else(|| fault("needs a list"))?;
            let place = |v: &Value<M::V>| dim_of(v).map(|d| d.value().clamp(0, items.len() as i64) as usize);
            let (from, to) = place(from).zip(place(to)).ok_or_else(|| fault("needs two places"))?;
            Value::List(items[from..to.max(from)].iter().map(|&d| Value::size(d)).collect())
        }
        ("times", [value, count]) => {
            let n = dim_of(count).filter(|n| n.value() >= 0).ok_or_else(|| fault("needs a count"))?;
            if n.len() > signature::MOST_ITEMS {
                return Err(fault("makes a list that is too long"));
            }
            Value::List(vec![value.clone(); n.len()])
        }
        // An integer and a size make a size, which may be symbolic.
        ("whole", [Value::Num(Scalar::Float(x))]) if x.fract() == 0.0 && x.abs() < WHOLE => {
            Value::Num(Scalar::Int(*x as i64))
        }
        ("whole", [x]) => x.clone(),
        ("entry", [Value::List(items), at]) => {
            let at = dim_of(at).filter(|at| at.value() >= 0).ok_or_else(|| fault("needs a position"))?;
            items.get(at.len()).cloned().ok_or_else(|| fault("has a position behind the list"))?
        }
        ("on", [v, y, k]) => {
            let (t, rank) = (ty(machine, v), ty(machine, y).ok_or_else(|| fault("needs a tensor"))?.rank() as i64);
            let n = t.and_then(|t| t.shape.first().copied()).ok_or_else(|| fault("needs a vector"))?;
            let k = dim_of(k).ok_or_else(|| fault("needs an axis"))?.value();
            let shape = (0..rank).map(|a| {
                if a == k || a == k.saturating_add(rank) { Value::size(n) } else { Value::Num(Scalar::Int(1)) }
            });
            return call1(machine, "reshape", vec![v.clone(), Value::List(shape.collect())]).map(Some);
        }
        // Only values that are known while tracing can be checked.
        ("checked", [v, Value::Num(holds)]) if holds.as_bool() => v.clone(),
        ("checked", [_, Value::Num(_)]) => {
            return Err(Refusal::new("E705", "two values that must agree differ").into());
        }
        ("unbroadcast", [Value::Absent, _]) => Value::Absent,
        ("unbroadcast", [Value::List(items), Value::List(likes)]) => {
            let one = |(e, like): (&Value<M::V>, &Value<M::V>)| match ty(machine, like) {
                Some(like) if !e.is_absent() => machine.unbroadcast(e.clone(), &like),
                _ => Ok(Value::Absent),
            };
            Value::List(items.iter().zip(likes).map(one).collect::<Result<_, _>>()?)
        }
        ("unbroadcast", [e, like]) => match ty(machine, like) {
            Some(like) => return machine.unbroadcast(e.clone(), &like).map(Some),
            None => Value::Absent,
        },
        ("zeros", [like]) => {
            let t = ty(machine, like).ok_or_else(|| fault("needs a tensor"))?;
            return zeros(machine, &t).map(Some);
        }
        ("size", [x, dims]) => {
            let t = ty(machine, x).ok_or_else(|| fault("needs a tensor"))?;
            let axes = dims.as_dims().ok_or_else(|| fault("needs axes"))?;
            Value::size(t.size_along(&axes).ok_or_else(|| fault("has an axis that is not there"))?)
        }
        ("size", [list]) => {
            let sizes = list.as_dims().ok_or_else(|| fault("needs a list of sizes"))?;
            Value::size(sizes.into_iter().fold(Dim::from(1), |p, d| p * d))
        }
        ("len", [Value::List(items)]) => Value::Num(Scalar::Int(items.len() as i64)),
        ("epsilon", [Value::DType(d)]) => Value::Num(Scalar::Float(d.epsilon())),
        ("largest", [Value::DType(d)]) => Value::Num(Scalar::Float(d.largest())),
        ("lowest", [Value::DType(d)]) => Value::Num(Scalar::Float(d.lowest())),
        ("ceil_div", [a, b]) => match (dim_of(a), dim_of(b)) {
            (Some(a), Some(b)) if !b.is(0) => Value::size(-(-a / b)),
            _ => return Err(fault("needs sizes, and no division by 0")),
        },
        ("abs", [a]) if let Some(a) = dim_of(a) => Value::size(a.max(-a)),
        ("min" | "max", [a, b]) => match (dim_of(a), dim_of(b)) {
            (Some(a), Some(b)) => Value::size(if f == "max" { a.max(b) } else { a.min(b) }),
            _ => match numbers(args) {
                Some(x) => Value::Num(Scalar::Float(if f == "max" { x[0].max(x[1]) } else { x[0].min(x[1]) })),
                None => return Ok(None),
            },
        },
        // the values of sizes are only read by a function of numbers, because that specialises the program to them
        (name, _) => {
            let Some(builtin) = Builtin::from_name(name) else { return Ok(None) };
            match numbers(args) {
                Some(x) if !x.is_empty() => Value::Num(Scalar::Float(builtins::eval_f64(builtin, &x))),
                _ => return Ok(None),
            }
        }
    };
    Ok(Some(some))
}

fn numbers<V>(args: &[Value<V>]) -> Option<Vec<f64>> {
    args.iter()
        .map(|a| match a {
            Value::Num(s) => Some(s.as_f64()),
            Value::Size(d) => Some(d.value() as f64),
            _ => None,
        })
        .collect()
}

/// Zeros of type `t`.
pub fn zeros<M: Machine>(machine: &mut M, t: &TensorTy) -> Out<M> {
    let shape = Value::List(t.shape.iter().map(|&d| Value::size(d)).collect());
    call1(machine, "full", vec![shape, Value::Num(Scalar::Int(0)), Value::DType(t.dtype)])
}

/// `value` summed over the axes along which `like` was broadcast, in the shape of `like`.
pub fn sum_to<M: Machine>(machine: &mut M, value: Value<M::V>, like: &TensorTy) -> Out<M> {
    let Value::Tensor(v) = &value else {
        // A number as cotangent (a constant derivative) fills the argument's shape.
        let shape = Value::List(like.shape.iter().map(|&d| Value::size(d)).collect());
        return call1(machine, "full", vec![shape, value, Value::DType(like.dtype)]);
    };
    let ArgTy::Tensor(t) = machine.ty(v) else { return Ok(value) };
    if t.rank() == like.rank() && t.shape.iter().zip(&like.shape).all(|(a, b)| a.same(*b)) {
        return Ok(value);
    }
    // Axes are compared from the right: where only `like` has 1 the value is summed, where only the value has 1 it is
    // expanded.
    let int = |i: usize| Value::Num(Scalar::Int(i as i64));
    let sizes = |l: &[Dim]| Value::List(l.iter().map(|&d| Value::size(d)).collect());
    let lead = t.rank().saturating_sub(like.rank());
    let (mut kept, mut axes): (Vec<Dim>, Vec<Value<M::V>>) = (Vec::new(), (0..lead).map(int).collect());
    for (a, &want) in like.shape.iter().enumerate() {
        let at = (a + t.rank()).checked_sub(like.rank());
        let own = at.map_or(Dim::from(1), |at| t.shape[at]);
        match meet(own, want) {
            Meeting::Equal => kept.push(want),
            Meeting::SecondIsOne => {
                kept.push(want);
                axes.extend(at.map(int));
            }
            Meeting::FirstIsOne | Meeting::Apart => kept.push(own),
        }
    }
    let only_lead = axes.len() == lead && t.rank() >= like.rank();
    let mut summed = if axes.is_empty() { value } else { call1(machine, "sum", vec![value, Value::List(axes)])? };
    if !only_lead {
        summed = call1(machine, "reshape", vec![summed, sizes(&kept)])?;
    }
    match kept.iter().zip(&like.shape).all(|(a, b)| a.same(*b)) {
        true => Ok(summed),
        false => call1(machine, "expand", vec![summed, sizes(&like.shape)]),
    }
}
