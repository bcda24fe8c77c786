//! Tensors of a class for tests, made by the rows of the class, or from fields of the types in its signature.

use std::sync::Arc;

use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::{Block, Elem, Opt, OptType};
use fulgurite_core::row::Row;
use fulgurite_core::signature::{self, OutTy};
use fulgurite_core::subclass::Class;
use fulgurite_core::{DType, DTypeSet, Name, Scalar, TensorTy, Value};

use super::world::{Made, Tensor, World};
use crate::check::gradients::arrays::dense::{V, floats};
use crate::check::gradients::arrays::numbers::{Numbers, short};

/// At most this many ways of making a tensor are tried, and at most [`MOST_KEPT`] tensors are kept, because each is run
/// in every call.
const MOST_TRIED: usize = 48;
const MOST_KEPT: usize = 2;

/// At most this many ways of making a tensor are searched for fields of other shapes, because each runs a row.
const MOST_SEARCHED: usize = 10;

/// At most this many tensors are made from fields, because each is run in every call.
const MOST_OF_FIELDS: usize = 4;

/// A tensor of a class, with its original and its allowed error.
pub struct Operand {
    /// The tensor.
    pub made: Arc<Made>,
    /// The plain tensor that it stands for.
    pub plain: Arc<Array<f64>>,
    /// The row of the class that made it, and the original.
    pub of: Option<(Name, Arc<Array<f64>>)>,
    /// Per element, the allowed distance from the original, or else from the plain tensor.
    pub far: Vec<f64>,
}

/// Tensors of `class` that programs see with the type of `like`. Rows of the class make them from `like`; if there are
/// none, they are made from drawn fields.
pub fn operands(world: &World, class: usize, like: &Arc<Array<f64>>, seed: u64) -> Vec<Operand> {
    so_many(world, class, like, seed, MOST_KEPT)
}

/// Tensors as of [`operands`], at most `most` from each row.
pub fn so_many(world: &World, class: usize, like: &Arc<Array<f64>>, seed: u64, most: usize) -> Vec<Operand> {
    let mut found = Vec::new();
    let mut ops: Vec<&Arc<Row>> = world.makers.values().filter(|row| makes(world, row, class)).collect();
    ops.sort_by_key(|row| row.op.as_str());
    for row in ops {
        let (mut kept, mut alike): (Vec<Operand>, Option<Operand>) = (Vec::new(), None);
        for n in 0..MOST_TRIED {
            let made = |like: &Arc<Array<f64>>| made_by(world, class, row, arguments(row, like, n)?, like);
            if arguments(row, like, n).is_none() {
                break;
            }
            // a row that is meant for positive numbers makes NaN of others
            let positive = || made(&Arc::new(positive(like))).filter(|operand| !has_lost(operand));
            let Some(operand) = made(like).and_then(|first| {
                let other = if has_lost(&first) { positive() } else { None };
                other.or(Some(first))
            }) else {
                continue;
            };
            // the last place is kept for fields of other shapes, or other metadata, if some call makes such a tensor
            let other = kept.iter().all(|known| built(&known.made) != built(&operand.made));
            if kept.len() + 1 < most || other {
                kept.push(operand);
            } else {
                alike.get_or_insert(operand);
            }
            if kept.len() == most || n >= MOST_SEARCHED {
                break;
            }
        }
        found.extend(kept.into_iter().chain(alike).take(most));
    }
    if found.is_empty() {
        found.extend(of_fields(world, class, like, seed));
    }
    found
}

/// Whether a number became NaN.
fn has_lost(operand: &Operand) -> bool {
    let Some((_, of)) = &operand.of else { return false };
    floats(&operand.plain).iter().zip(floats(of)).any(|(x, of)| x.is_nan() && !of.is_nan())
}

fn positive(like: &Array<f64>) -> Array<f64> {
    let data = match &like.data {
        Data::Float(x) => Data::Float(x.iter().map(|x| x.abs() + 0.125).collect()),
        Data::Int(x) => Data::Int(x.iter().map(|x| x.abs().max(1)).collect()),
    };
    Array { data, ..like.clone() }
}

/// The shapes of fields, and the metadata.
fn built(made: &Made) -> (Vec<Option<Vec<usize>>>, String) {
    let shape = |value: &Value<Tensor>| match value {
        Value::Tensor(Tensor::Plain(V::Array(a))) => Some(a.shape.clone()),
        Value::Absent => None,
        _ => Some(Vec::new()),
    };
    (made.fields.iter().chain(&made.meta).map(shape).collect(), format!("{:?}", made.meta))
}

/// The truth values among the fields.
fn truths(made: &Made) -> Vec<Vec<f64>> {
    let truth = |value: &Value<Tensor>| match value {
        Value::Tensor(Tensor::Plain(V::Array(a))) if a.dtype == DType::Bool => Some(floats(a)),
        _ => None,
    };
    made.fields.iter().filter_map(truth).collect()
}

/// Tensors of `class` with the type of `like`, whatever they stand for.
pub fn wholes(world: &World, class: usize, like: &Arc<Array<f64>>) -> Vec<Arc<Made>> {
    let rows = world.makers.values().filter(|row| makes(world, row, class));
    let by_rows = rows
        .flat_map(|row| calls(row, like).into_iter().take(MOST_SEARCHED).filter_map(|args| whole(world, row, args)));
    let mut found: Vec<Arc<Made>> = by_rows.collect();
    let ways = ways_of(world, class).min(MOST_SEARCHED);
    for row in aparts(&world.classes[class]) {
        let parts = (0..ways).filter_map(|n| parts(world, class, &row, like, n, Drawn { seed: 1, alike: true }));
        found.extend(parts.filter_map(|parts| world.make(class, parts).ok()));
    }
    found.retain(|made| made.class == class && made.ty == TensorTy::new(like.dtype, &like.shape));
    found
}

/// Whether a row's body ends in a tensor of the class.
fn makes(world: &World, row: &Row, class: usize) -> bool {
    let body = match &row.meaning {
        fulgurite_core::row::Meaning::Decomp(body) => body,
        _ => return false,
    };
    matches!(&*body.value.node, fulgurite_core::lang::Node::Call(f, _) if f.name == world.classes[class].name)
}

fn made_by(
    world: &World,
    class: usize,
    row: &Arc<Row>,
    args: Vec<Value<Tensor>>,
    like: &Arc<Array<f64>>,
) -> Option<Operand> {
    finish(world, class, whole(world, row, args)?, like, Some((row.op, like.clone())))
}

/// Runs a row, and returns the tensor of a class that it makes, if there is one.
fn whole(world: &World, row: &Arc<Row>, args: Vec<Value<Tensor>>) -> Option<Arc<Made>> {
    let solved = signature::solve(row, &args, &Tensor::ty).ok()?;
    let mut results = world.run(row, &solved, &args).ok()?;
    if let Value::Tensor(Tensor::Made(made)) = results.swap_remove(0) { Some(made) } else { None }
}

fn finish(
    world: &World,
    class: usize,
    made: Arc<Made>,
    like: &Array<f64>,
    of: Option<(Name, Arc<Array<f64>>)>,
) -> Option<Operand> {
    if made.class != class || made.ty != TensorTy::new(like.dtype, &like.shape) || !counts(world, &made) {
        return None;
    }
    let V::Array(plain) = world.plain(&Tensor::Made(made.clone())).ok()? else { return None };
    let far = far(world, &made, of.as_ref().map_or(&plain, |(_, of)| of))?;
    Some(Operand { made, plain, of, far })
}

/// Whether the `error` of the class applies to this tensor.
pub fn counts(world: &World, made: &Made) -> bool {
    let Some(when) = &world.classes[made.class].error.when else { return true };
    match world.of(made, when) {
        Ok(Value::Tensor(Tensor::Plain(V::Array(a)))) => a.scalars().iter().all(|s| s.as_bool()),
        Ok(Value::Num(s)) => s.as_bool(),
        _ => false,
    }
}

/// The distance from each element of `of` that the class allows.
fn far(world: &World, made: &Made, of: &Array<f64>) -> Option<Vec<f64>> {
    let error = &world.classes[made.class].error;
    let (rel, abs) = (each(world, made, &error.rel, of)?, each(world, made, &error.abs, of)?);
    Some(floats(of).iter().zip(rel).zip(abs).map(|((x, rel), abs)| rel * x.abs() + abs).collect())
}

/// The value of a text of `error` for each element of `of`; 0 if there is no text.
pub fn each(world: &World, made: &Made, text: &Option<Block>, of: &Array<f64>) -> Option<Vec<f64>> {
    let Some(text) = text else { return Some(vec![0.0; of.len()]) };
    match world.of(made, text).ok()? {
        Value::Num(s) => Some(vec![s.as_f64(); of.len()]),
        Value::Tensor(Tensor::Plain(V::Array(a))) => spread(&a, &of.shape),
        _ => None,
    }
}

/// Repeats the elements of `a` to fill `shape`. Along an axis whose size is a multiple of that in `a`, each element of
/// `a` fills a group.
fn spread(a: &Array<f64>, shape: &[usize]) -> Option<Vec<f64>> {
    let lacking = shape.len().checked_sub(a.shape.len())?;
    let sizes: Vec<usize> = std::iter::repeat_n(1, lacking).chain(a.shape.iter().copied()).collect();
    if shape.iter().zip(&sizes).any(|(n, m)| *m == 0 && *n > 0 || *m > 0 && n % m != 0) {
        return None;
    }
    let values = floats(a);
    let at = |flat: usize| {
        let (mut rest, mut index, mut stride) = (flat, 0, 1);
        for (n, m) in shape.iter().zip(&sizes).rev() {
            let i = rest % n;
            rest /= n;
            index += i / (n / m) * stride;
            stride *= m;
        }
        values[index]
    };
    Some((0..shape.iter().product()).map(at).collect())
}

/// Calls in which a row makes a tensor of a class from `like`.
pub fn calls(row: &Row, like: &Arc<Array<f64>>) -> Vec<Vec<Value<Tensor>>> {
    (0..MOST_TRIED).map_while(|n| arguments(row, like, n)).collect()
}

/// Returns call `n` of a row that makes tensors of a class, or `None` if there is none. Its first tensor is `like`,
/// others are the number 1, and options rotate through a few values.
fn arguments(row: &Row, like: &Arc<Array<f64>>, mut n: usize) -> Option<Vec<Value<Tensor>>> {
    let mut args = Vec::new();
    for (i, param) in row.sig.params.iter().enumerate() {
        let rank0 = param.ty.dims.as_ref().is_some_and(|d| d.is_empty());
        args.push(match (i, &param.ty.list) {
            (_, Some(_)) => return None,
            (0, None) => Value::Tensor(Tensor::Plain(V::Array(like.clone()))),
            _ if param.optional => Value::Absent,
            _ if rank0 => {
                let dtype =
                    if let [Elem::Class(c)] = param.ty.elem.as_slice() { first(c.as_str())? } else { like.dtype };
                Value::Tensor(Tensor::Plain(V::Array(Arc::new(constant(&TensorTy::new::<usize>(dtype, &[]), 1.0)))))
            }
            _ => return None,
        });
    }
    for opt in &row.sig.opts {
        let ways = ways(opt);
        args.push(ways[n % ways.len()].clone());
        n /= ways.len();
    }
    // a remainder means that every combination was returned before
    (n == 0).then_some(args)
}

/// Values of an option to try.
fn ways(opt: &Opt) -> Vec<Value<Tensor>> {
    let int = |i| Value::Num(Scalar::Int(i));
    let given: Vec<Value<Tensor>> = match &opt.ty {
        OptType::I64 => vec![int(2), int(1), int(4), int(3)],
        OptType::Num | OptType::F64 => vec![Value::Num(Scalar::Float(0.5)), Value::Num(Scalar::Float(1.0))],
        OptType::Bool => vec![Value::Num(Scalar::Bool(true)), Value::Num(Scalar::Bool(false))],
        OptType::Str => vec![Value::Str("text".to_owned())],
        OptType::Dtype(_) => [DType::F8E5M2, DType::F16, DType::F32].into_iter().map(Value::DType).collect(),
        OptType::Enum(words) => words.iter().map(|word| Value::Word(*word)).collect(),
        OptType::Dim(_) => vec![int(-1), int(0)],
        _ => vec![Value::List(Vec::new()), int(0)],
    };
    let absent = (opt.optional || opt.default.is_some()).then_some(Value::Absent);
    absent.into_iter().chain(given).collect()
}

fn first(class: &str) -> Option<DType> {
    let set = DTypeSet::from_class(class)?;
    [DType::F32, DType::I64].into_iter().find(|d| set.contains(*d)).or_else(|| set.iter().next())
}

fn constant(t: &TensorTy, x: f64) -> Array<f64> {
    crate::check::gradients::arrays::dense::filled(t, x)
}

/// Makes tensors from drawn fields: floats in the range of `like`, and integers from its elements. Optional fields are
/// given and left out, truth values are mixed and all true, and metadata take several values.
fn of_fields(world: &World, class: usize, like: &Arc<Array<f64>>, seed: u64) -> Vec<Operand> {
    let mut found: Vec<(String, Operand)> = Vec::new();
    let has_truths =
        |row: &Row| row.sig.outs.iter().any(|out| matches!(out.ty.elem[..], [Elem::Class(c)] if c == "bool"));
    let drawn = |row: Row| {
        let alike = if has_truths(&row) { vec![false, true] } else { vec![false] };
        alike.into_iter().map(move |alike| (row.clone(), Drawn { seed, alike }))
    };
    for (row, drawn) in aparts(&world.classes[class]).into_iter().flat_map(drawn) {
        for n in 0..ways_of(world, class).min(MOST_TRIED) {
            let parts = parts(world, class, &row, like, n, drawn);
            let fit = parts.and_then(|parts| finish(world, class, world.make(class, parts).ok()?, like, None));
            // a further tensor must have other fields, or other metadata
            let key = |Operand { made, .. }: &Operand| format!("{:?} {:?} {:?}", built(made), truths(made), made.meta);
            if let Some(operand) = fit
                && found.iter().all(|(known, _)| *known != key(&operand))
            {
                found.push((key(&operand), operand));
            }
            if found.len() >= MOST_OF_FIELDS {
                return found.into_iter().map(|(_, operand)| operand).collect();
            }
        }
    }
    found.into_iter().map(|(_, operand)| operand).collect()
}

/// How fields are drawn.
#[derive(Clone, Copy)]
struct Drawn {
    seed: u64,
    /// Whether truth values are all true.
    alike: bool,
}

/// The number of combinations of metadata.
fn ways_of(world: &World, class: usize) -> usize {
    world.classes[class].sig.opts.iter().map(|opt| ways(opt).len()).product()
}

/// Returns rows that take a plain tensor apart into the fields of a class: one for all fields, and, if some are
/// optional, one for the required ones. A field that is a list counts as one tensor.
fn aparts(class: &Class) -> Vec<Row> {
    let some_optional = class.sig.params.iter().any(|param| param.optional);
    let given = if some_optional { vec![true, false] } else { vec![true] };
    let apart = |given: bool| {
        let mut single = class.clone();
        single.sig.params.retain(|param| given || !param.optional);
        for param in &mut single.sig.params {
            (param.optional, param.ty.list) = (false, None);
        }
        single.apart(&|elems| match &elems[0] {
            Elem::Class(set) => Elem::Class(first(set.as_str()).map_or(*set, |d| Name::new(d.name()))),
            other => other.clone(),
        })
    };
    given.into_iter().filter_map(apart).collect()
}

/// Returns the fields and metadata for combination `n` of metadata, if they go with `like`. `row` takes the plain
/// tensor apart into some of the fields; the others are absent.
fn parts(
    world: &World,
    class: usize,
    row: &Row,
    like: &Arc<Array<f64>>,
    mut n: usize,
    drawn: Drawn,
) -> Option<Vec<Value<Tensor>>> {
    let of = &world.classes[class];
    let opts = row.sig.opts.iter().map(|opt| {
        let ways = ways(opt);
        let way = ways[n % ways.len()].clone();
        n /= ways.len();
        way
    });
    let whole = Value::Tensor(Tensor::Plain(V::Array(like.clone())));
    let args: Vec<Value<Tensor>> = std::iter::once(whole).chain(opts).collect();
    let solved = signature::solve(row, &args, &Tensor::ty).ok()?;
    let mut numbers = Numbers::new(drawn.seed);
    let mut parts = Vec::new();
    for param in &of.sig.params {
        let at = row.sig.outs.iter().position(|out| out.name.name == param.name.name);
        let Some((out, ty)) = at.map(|at| (&row.sig.outs[at], &solved.outs[at])) else {
            parts.push(Value::Absent);
            continue;
        };
        let OutTy::Tensor(ty) = ty else { return None };
        let own = out.ty.elem == row.sig.params[0].ty.elem;
        let mut one = || {
            let field = field(ty, own, drawn.alike, like, &mut numbers);
            Value::Tensor(Tensor::Plain(V::Array(Arc::new(field))))
        };
        parts.push(if param.ty.list.is_some() { Value::List(vec![one(), one()]) } else { one() });
    }
    // metadata have their names in the row; a dtype that is missing there is that of the plain tensor
    parts.extend(of.sig.opts.iter().map(|opt| {
        let at = row.sig.opts.iter().position(|o| o.name.name == opt.name.name);
        at.map_or(Value::DType(like.dtype), |at| args[1 + at].clone())
    }));
    Some(parts)
}

fn field(ty: &TensorTy, own: bool, alike: bool, like: &Array<f64>, numbers: &mut Numbers) -> Array<f64> {
    let shape: Vec<usize> = ty.sizes().to_vec();
    let n: usize = shape.iter().product();
    let known = floats(like);
    let (lo, hi) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    match ty.dtype {
        d if d.is_float() => {
            let draw = |_| {
                if lo < hi { short(lo + (hi - lo) * numbers.draw()) } else { known.first().copied().unwrap_or(1.0) }
            };
            Array::float(d, &shape, (0..n).map(draw).collect())
        }
        DType::Bool if alike && !own => Array::int(ty.dtype, &shape, vec![1; n]),
        DType::Bool => Array::int(ty.dtype, &shape, (0..n).map(|_| i64::from(numbers.draw() < 0.5)).collect()),
        // integers are those of the plain tensor, so that indices stay in range
        d => {
            Array::int(d, &shape, (0..n).map(|i| known.get(i % known.len().max(1)).map_or(0, |x| *x as i64)).collect())
        }
    }
}
