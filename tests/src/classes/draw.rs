//! Tensors of a class: made by its rows, or of fields of the types that its signature says.

use super::{Fields, parts, told};
use crate::bound::Bounded;
use crate::bridge;
use crate::calls::{self, Slot, Values, Wish};
use crate::oracle::{self, Operand};
use crate::rng::Rng;
use crate::rows::TestRow;
use fulgurite::symbol::{self, Port, SubclassRef, SymbolRef};
use fulgurite::{Error, Tensor, api};
use fulgurite_core::eval::nest::{Array, Data};
use fulgurite_core::lang::ast::{Block, Elem, Node};
use fulgurite_core::loc::Loc;
use fulgurite_core::row::Meaning;
use fulgurite_core::sig::{self, ArgTy, OutTy};
use fulgurite_core::{DType, DTypeSet, Name, TensorTy, Value};

/// Attempts to make one of a given type.
const ATTEMPTS: usize = 60;

/// A tensor of a class, and what it stands for.
pub struct Made {
    /// The tensor.
    pub tensor: Tensor,
    /// `plain` of it, by the class's text.
    pub plain: Array<Bounded>,
    /// The row of the class that made it of the given elements.
    pub of: Option<&'static str>,
    /// Per element, how far it may be from these.
    pub far: Vec<f64>,
}

/// The rows that make tensors of a class: programs that end in one.
pub fn makers(class: SubclassRef) -> Vec<SymbolRef> {
    let ends = |s: &SymbolRef| match &s.row().meaning {
        Meaning::Decomp(body) => matches!(&*body.value.node, Node::Call(f, _) if f.name == class.name()),
        _ => false,
    };
    symbol::all().into_iter().filter(ends).collect()
}

/// A tensor of the class that programs see as `like`; made of these elements, if a row makes it. `when`: only such of
/// which the class says how far they are from plain ones.
pub fn tensor(class: SubclassRef, like: &Array<f64>, when: bool, rng: &mut Rng) -> Option<Made> {
    let mut makers = makers(class);
    rng.shuffle(&mut makers);
    for _ in 0..ATTEMPTS {
        let made = match makers.first() {
            Some(maker) => by_row(maker, like, rng).map(|t| (t, Some(maker.name()))),
            None => of_fields(class, like, rng).map(|t| (t, None)),
        };
        if makers.len() > 1 {
            makers.rotate_left(1);
        }
        if let Some((tensor, of)) = made
            && let Some(made) = finish(class, tensor, of, like, when)
        {
            return Some(made);
        }
    }
    None
}

fn finish(class: SubclassRef, tensor: Tensor, of: Option<&'static str>, like: &Array<f64>, when: bool) -> Option<Made> {
    if tensor.check().is_err() || tensor.dtype() != like.dtype || sizes(&tensor) != like.shape {
        return None;
    }
    let rules = class.rules();
    if when && let Some(text) = &rules.error.when {
        let all = match value::<f64>(class, &tensor, text)? {
            Value::Tensor(Operand::Tensor(a)) => a.scalars().iter().all(|s| s.as_bool()),
            Value::Num(s) => s.as_bool(),
            _ => false,
        };
        all.then_some(())?;
    }
    let Value::Tensor(Operand::Tensor(plain)) = value::<Bounded>(class, &tensor, &rules.plain)? else { return None };
    let base: Vec<f64> = if of.is_some() { floats(like) } else { numbers(&plain) };
    let each = |text: &Option<Block>| match text {
        None => Some(vec![0.0; base.len()]),
        Some(text) => match value::<f64>(class, &tensor, text)? {
            Value::Num(s) => Some(vec![s.as_f64(); base.len()]),
            Value::Tensor(Operand::Tensor(a)) => spread(&a, &like.shape),
            _ => None,
        },
    };
    let (rel, abs) = (each(&rules.error.rel)?, each(&rules.error.abs)?);
    let far = base.iter().zip(rel).zip(abs).map(|((x, rel), abs)| rel * x.abs() + abs).collect();
    Some(Made { tensor, plain, of, far })
}

fn sizes(t: &Tensor) -> Vec<usize> {
    t.shape().iter().map(|d| d.len()).collect()
}

fn floats(a: &Array<f64>) -> Vec<f64> {
    a.scalars().iter().map(|s| s.as_f64()).collect()
}

fn numbers(a: &Array<Bounded>) -> Vec<f64> {
    match &a.data {
        Data::Float(x) => x.iter().map(|x| x.value).collect(),
        Data::Int(x) => x.iter().map(|x| *x as f64).collect(),
    }
}

/// The elements of `a` for each element of a tensor of this shape: an axis of which the size is a multiple has so many
/// for each of `a`.
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
            index += rest % n / (n / m) * stride;
            rest /= n;
            stride *= m;
        }
        values[index]
    };
    Some((0..shape.iter().product()).map(at).collect())
}

/// The array with these errors.
pub fn with_error(a: &Array<f64>, far: &[f64]) -> Array<Bounded> {
    let data = match &a.data {
        Data::Float(x) => Data::Float(x.iter().zip(far).map(|(x, far)| Bounded::near(*x, *far)).collect()),
        Data::Int(x) => Data::Int(x.clone()),
    };
    Array { dtype: a.dtype, shape: a.shape.clone(), data }
}

/// The array with these errors besides its own.
pub fn widened(a: &Array<Bounded>, far: &[f64]) -> Array<Bounded> {
    let data = match &a.data {
        Data::Float(x) => Data::Float(x.iter().zip(far).map(|(x, far)| Bounded::near(x.value, x.error + far)).collect()),
        Data::Int(x) => Data::Int(x.clone()),
    };
    Array { dtype: a.dtype, shape: a.shape.clone(), data }
}

/// A row of the class on these elements, with options at random.
fn by_row(maker: SymbolRef, like: &Array<f64>, rng: &mut Rng) -> Option<Tensor> {
    let wish = Wish { dtype: Some(like.dtype), values: Values::Tame, numbers: false, empty: false, case: rng.below(64) };
    let drawn = calls::sketch(&TestRow::of(maker.row()), &wish, rng)?;
    let mut first = true;
    let args = drawn.args.iter().map(|arg| {
        arg.map(&mut |slot| match slot {
            Slot::Tensor(_) if std::mem::take(&mut first) => bridge::tensor(&Operand::Tensor(like.clone())),
            Slot::Tensor(ty) => {
                bridge::tensor(&Operand::Tensor(calls::values::array(ty, (0.5, 2.0), Values::Tame, rng)))
            }
            Slot::Number(d, s) => bridge::tensor(&Operand::Number(*d, *s)),
            Slot::Key => bridge::tensor(&Operand::Key([rng.bits() >> 1, 0])),
        })
    });
    let args: Vec<Value<Tensor>> = args.collect();
    api::call(maker, args, Loc::NOWHERE).ok()?.into_iter().next()
}

/// A tensor of fields: the first one that may be has the elements of `like`, others are as large.
fn of_fields(class: SubclassRef, like: &Array<f64>, rng: &mut Rng) -> Option<Tensor> {
    let rules = class.rules();
    let turn = rng.below(8);
    let row = rules.apart(&|elems| {
        let elem = elems[turn % elems.len()].clone();
        match &elem {
            Elem::Class(set) => {
                let all: Vec<DType> = DTypeSet::from_class(set.as_str()).map(|s| s.iter().collect()).unwrap_or_default();
                all.get(turn % all.len().max(1)).map_or(elem, |d| Elem::Class(Name::new(d.name())))
            }
            _ => elem,
        }
    })?;
    let wish = Wish { dtype: None, values: Values::Tame, numbers: false, empty: false, case: rng.below(64) };
    let drawn = calls::sketch(&TestRow::of(&row), &wish, rng)?;
    let whole = Value::Tensor(ArgTy::Tensor(TensorTy::new(like.dtype, &like.shape)));
    let metas: Vec<Value<ArgTy>> = drawn.args.iter().skip(1).map(|a| a.map(&mut |slot| slot.ty())).collect();
    let args: Vec<Value<ArgTy>> = std::iter::once(whole).chain(metas.iter().cloned()).collect();
    let solved = sig::solve_types(&row, &args).ok()?;
    let known = floats(like);
    let (lo, hi) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    let domain = if lo < hi { (lo, hi) } else { (0.5, 2.0) };
    let (mut values, mut given) = (Vec::new(), false);
    for (out, ty) in row.sig.outs.iter().zip(&solved.outs) {
        let OutTy::Tensor(ty) = ty else { return None };
        let own = out.ty.elem == row.sig.params[0].ty.elem;
        let array = match ty.dtype {
            _ if !given && ty.dtype == like.dtype && ty.sizes().as_slice() == like.shape => {
                given = true;
                like.clone()
            }
            // mostly nothing is hidden
            DType::Bool if !own => {
                let all = !rng.one_in(4);
                Array::int(ty.dtype, ty.sizes().as_slice(), (0..ty.numel()).map(|_| i64::from(all || rng.one_in(2))).collect())
            }
            _ => calls::values::array(ty, domain, Values::Tame, rng),
        };
        values.push(Value::Tensor(bridge::tensor(&Operand::Tensor(array))));
    }
    values.extend(rules.sig.opts.iter().map(|opt| {
        let at = row.sig.opts.iter().position(|o| o.name.name == opt.name.name);
        // a dtype that the whole has
        at.map_or(Value::DType(like.dtype), |at| metas[at].map(&mut |_| Tensor::poisoned(Error::new("E706", "no tensor"))))
    }));
    Some(fulgurite::subclass::make(class, values))
}

/// The fields of a tensor, and their elements.
///
/// # Errors
/// What taking it apart reports.
pub fn fields(t: &Tensor) -> Result<Fields, Error> {
    let apart = parts(t)?;
    let ty = t.ty();
    let Some(layout) = ty.as_ref().and_then(|ty| ty.subclass()) else { return Ok(Vec::new()) };
    let one = |(name, _): &(Name, _)| Ok((*name, bridge::array(&apart.field(name.as_str())?.buffer()?)));
    layout.fields.iter().map(one).collect()
}

/// A tensor made of the fields and metadata of one.
///
/// # Errors
/// What its parts report.
pub fn together(t: &Tensor) -> Result<Tensor, Error> {
    let apart = parts(t)?;
    made_of(t, &mut |name| apart.field(name.as_str()).unwrap_or_else(Tensor::poisoned))
}

/// A tensor like one, of other fields.
///
/// # Errors
/// What making it reports.
pub fn made_of(t: &Tensor, field: &mut dyn FnMut(Name) -> Tensor) -> Result<Tensor, Error> {
    let ty = t.ty();
    let Some(layout) = ty.as_ref().and_then(|ty| ty.subclass()) else {
        return Err(Error::new("E706", "a plain tensor has no fields"));
    };
    let made = fulgurite::subclass::make(layout.class, arguments(layout, field));
    made.check()?;
    Ok(made)
}

/// Fields, then metadata, in the order of the class's signature.
fn arguments<V>(layout: &fulgurite::trace::SubclassLayout, field: &mut dyn FnMut(Name) -> V) -> Vec<Value<V>> {
    let sig = &layout.class.rules().sig;
    let has = |name: Name| layout.fields.iter().any(|(n, _)| *n == name);
    let mut args = Vec::new();
    for param in &sig.params {
        let name = param.name.name;
        let item = |i: usize| Name::new(&format!("{name}.{i}"));
        args.push(match param.ty.list {
            Some(_) => Value::List((0..).map(item).take_while(|n| has(*n)).map(|n| Value::Tensor(field(n))).collect()),
            None if has(name) => Value::Tensor(field(name)),
            None => Value::Absent,
        });
    }
    // metadata hold no tensors
    args.extend(layout.meta.iter().map(|(_, v)| match v {
        Value::Num(s) => Value::Num(*s),
        Value::Size(d) => Value::Size(*d),
        Value::DType(d) => Value::DType(*d),
        Value::Word(w) => Value::Word(*w),
        Value::Str(s) => Value::Str(s.clone()),
        Value::List(items) => Value::List(items.iter().filter_map(|i| Some(Value::size(i.as_dim()?))).collect()),
        Value::Tensor(_) | Value::Type(_) | Value::Absent => Value::Absent,
    }));
    args
}

/// What a text of the class is for a tensor, by the oracle.
pub fn value<F: oracle::Domain>(class: SubclassRef, t: &Tensor, text: &Block) -> Option<Value<Operand<F>>> {
    let fields = fields(t).map_err(told).ok()?;
    let ty = t.ty();
    let layout = ty.as_ref().and_then(|ty| ty.subclass())?;
    let args = arguments(layout, &mut |name| {
        let found = fields.iter().find(|(n, _)| *n == name).map(|(_, a)| a.clone());
        Operand::Tensor(found.unwrap_or_else(|| Array::float(DType::F32, &[0], Vec::new())))
    });
    let args: Vec<Value<Operand<F>>> = args.iter().map(|a| a.map(&mut |o: &Operand<f64>| o.convert())).collect();
    oracle::rule(class.port(Port::Unflatten).row(), text, &args).ok()?.into_iter().next()
}
