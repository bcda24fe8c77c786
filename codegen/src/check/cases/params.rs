//! Arguments: presence, alternatives of unions, dtypes, shapes that broadcast.

use fulgurite_core::lang::{DimKind, DimPat, Elem, Node, Param};
use fulgurite_core::row::Row;
use fulgurite_core::signature::const_eval::At;
use fulgurite_core::signature::shapes::{self, Axis, Built, Index};
use fulgurite_core::signature::{ArgTy, Env};
use fulgurite_core::value::Shape;
use fulgurite_core::{DType, DTypeSet, Dim, Name, Scalar, TensorTy, Value};

use super::names::Free;
use super::sizes::Variant;
use super::{Choice, options};

/// An alternative per argument, and a static alternative per option.
pub(super) type Choices = (Vec<Option<usize>>, Vec<usize>);

/// Every combination of static decisions, or an even selection of about `most`.
pub(super) fn product(row: &Row, most: usize) -> Vec<Choices> {
    let params: Vec<usize> =
        row.sig.params.iter().map(|param| param.ty.elem.len() + usize::from(param.optional)).collect();
    let opts: Vec<usize> = row.sig.opts.iter().map(|opt| options::static_alternatives(row, opt)).collect();
    let total = params.iter().chain(&opts).fold(1usize, |n, k| n.saturating_mul((*k).max(1)));
    // an odd step still visits both alternatives of every decision between two
    let step = if total > most { total.div_ceil(most) | 1 } else { 1 };
    (0..total)
        .step_by(step)
        .map(|mut n| {
            let mut digit = |base: usize| {
                let digit = n % base.max(1);
                n /= base.max(1);
                digit
            };
            // the last alternative of an optional argument is its absence
            let params = row.sig.params.iter().zip(&params);
            let params = params.map(|(param, k)| Some(digit(*k)).filter(|d| *d < param.ty.elem.len())).collect();
            (params, opts.iter().map(|k| digit(*k)).collect())
        })
        .collect()
}

/// The length of each list argument: the rank of `K` where `K@arg` says so, else one to three.
pub(super) fn list_lengths(row: &Row, free: &Free, ranks: &[usize], choice: &Choice) -> Vec<Option<usize>> {
    let anchored = |list: Name| {
        let dims = row.sig.params.iter().filter_map(|param| param.ty.dims.as_ref()).flatten();
        dims.filter_map(|dim| match &dim.kind {
            DimKind::One { size, at: Some(at), .. } if at.name == list => match &*size.node {
                Node::Name(name) => free.lists.iter().position(|l| l == name),
                _ => None,
            },
            _ => None,
        })
        .next()
    };
    let lengths = row.sig.params.iter().enumerate().map(|(i, param)| {
        param.ty.list.as_ref()?;
        choice.params.get(i).copied().flatten()?;
        Some(match anchored(param.name.name) {
            Some(at) => ranks[at],
            None => choice.items.unwrap_or([2, 3, 1][choice.turn.pick(3, 300 + i as u64)]),
        })
    });
    lengths.collect()
}

/// Fills in the arguments.
pub(super) fn fill(
    row: &Row,
    env: &mut Env,
    items: &[Option<usize>],
    choice: &Choice,
    variant: Variant,
    values: &mut [Value<ArgTy>],
) -> Option<()> {
    let full = pointwise_shape(variant);
    for (i, param) in row.sig.params.iter().enumerate() {
        let Some(alternative) = choice.params[i] else { continue };
        let elem = param.ty.elem.get(alternative)?;
        if *elem == Elem::Key {
            values[i] = Value::Tensor(ArgTy::Key);
            continue;
        }
        let dtype = dtype(elem, choice)?;
        let at = |item| At { axis: None, item };
        values[i] = match (&param.ty.dims, items[i]) {
            (None, _) => broadcasting(i, dtype, full, choice, variant),
            (Some(dims), Some(n)) => {
                let mut item = |k| Some(tensor(dtype, shape(env, param, dims, at(Some(k)), choice, variant)?));
                Value::List((0..n).map(&mut item).collect::<Option<_>>()?)
            }
            (Some(dims), None) if dims.is_empty() && choice.turn.pick(3, 400 + i as u64) == 2 => number(dtype),
            (Some(dims), None) => tensor(dtype, shape(env, param, dims, at(None), choice, variant)?),
        };
    }
    Some(())
}

fn tensor(dtype: DType, shape: Shape) -> Value<ArgTy> {
    Value::Tensor(ArgTy::Tensor(TensorTy { dtype, shape }))
}

fn number(dtype: DType) -> Value<ArgTy> {
    Value::Num(match dtype {
        DType::Bool => Scalar::Bool(true),
        d if d.is_int() => Scalar::Int(2),
        _ => Scalar::Float(0.5),
    })
}

/// The shape that arguments without brackets broadcast to.
fn pointwise_shape(variant: Variant) -> [i64; 2] {
    match variant {
        Variant::Distinct | Variant::Falling | Variant::Narrow(..) => [2, 3],
        Variant::WithOne => [1, 3],
        Variant::WithZero => [0, 3],
        Variant::Ones => [1, 1],
        Variant::Alike(size) => [size, size],
    }
}

/// An argument without brackets: the whole shape, its tail, with an axis of 1, of rank 0, or a number.
fn broadcasting(i: usize, dtype: DType, full: [i64; 2], choice: &Choice, variant: Variant) -> Value<ArgTy> {
    let form = match variant {
        Variant::Narrow(narrow, _) if narrow != i => 0,
        Variant::Narrow(_, first) => {
            if first {
                2
            } else {
                3
            }
        }
        _ => choice.turn.pick(6, 500 + i as u64),
    };
    let sizes: &[i64] = match form {
        0 | 1 => &full,
        2 => &full[1..],
        3 => &[full[0], 1],
        4 => &[],
        _ => return number(dtype),
    };
    tensor(dtype, sizes.iter().copied().map(Dim::from).collect())
}

/// The dtype of an argument of class `elem`. Where `T` is no float, another variable may be one: scales of integers are
/// floats.
fn dtype(elem: &Elem, choice: &Choice) -> Option<DType> {
    let t = choice.dtype;
    Some(match elem {
        Elem::Var(var) if *var != "T" && !t.is_float() && choice.turn.pick(2, salt(*var)) == 1 => DType::F32,
        Elem::Var(_) => t,
        Elem::Index => DType::I64,
        Elem::Key => return None,
        Elem::Acc(_) => t.opmath(),
        Elem::Real(_) => t.real(),
        Elem::Class(class) => {
            let set = DTypeSet::from_class(class.as_str())?;
            [DType::F32, DType::I64].into_iter().find(|d| set.contains(*d)).or_else(|| set.iter().next())?
        }
    })
}

/// A number for the draws of a dtype variable, which does not depend on the order in which names were made.
fn salt(var: Name) -> u64 {
    700 + var.as_str().bytes().map(u64::from).sum::<u64>()
}

/// The shape of an argument with brackets; lists that broadcast lose leading axes or have some as 1.
fn shape(env: &mut Env, param: &Param, dims: &[DimPat], at: At, choice: &Choice, variant: Variant) -> Option<Shape> {
    let mut own;
    // sizes that a pattern binds are known in this shape alone
    let env = if dims.iter().any(names_sizes) {
        own = env.clone();
        &mut own
    } else {
        env
    };
    let mut out = Built::new();
    let salt = 600 + 31 * param.name.span.start as u64 + at.item.unwrap_or(0) as u64;
    for dim in dims {
        let axes = shapes::build(env, std::slice::from_ref(dim), at).ok()?;
        match &dim.kind {
            DimKind::Broadcast(_) | DimKind::BroadcastList(_) => out.extend(narrowed(axes, choice, salt)),
            _ => out.extend(axes),
        }
    }
    let imagined = dims.iter().any(|d| matches!(d.kind, DimKind::One { at: Some(_), .. }));
    // the axis that an option names may be imagined: the tensor then has rank 0
    if variant == Variant::Ones && imagined && out.len() == 1 && matches!(out[0].index, Index::One(_)) {
        out.clear();
    }
    Some(out.into_iter().map(|axis| axis.size).collect())
}

/// Whether a part of a pattern binds a size.
fn names_sizes(dim: &DimPat) -> bool {
    match &dim.kind {
        DimKind::One { name, .. } | DimKind::Zip { name, .. } => name.is_some(),
        DimKind::BroadcastList(inner) | DimKind::Group(inner) => inner.iter().any(names_sizes),
        _ => false,
    }
}

fn narrowed(axes: Built, choice: &Choice, salt: u64) -> Built {
    let n = axes.len();
    let form = choice.turn.pick(4, salt);
    let one = |axis: Axis| Axis { size: Dim::from(1), index: axis.index };
    match form {
        2 if n > 0 => axes.into_iter().skip(1).collect(),
        3 if n > 0 => {
            let narrow = choice.turn.pick(n, salt + 1);
            axes.into_iter().enumerate().map(|(i, axis)| if i == narrow { one(axis) } else { axis }).collect()
        }
        _ => axes,
    }
}
