//! Draws tensors of a class: made by its rows, or from fields of the types in its signature.

use super::{Fields, parts, told};
use crate::bound::Bounded;
use crate::bridge;
use crate::calls::{self, Slot, Values};
use crate::oracle::{self, Operand};
use crate::rng::Rng;
use fulgurite::symbol::{self, Port, SubclassRef, SymbolRef};
use fulgurite::trace::{ProxyId, ProxyTy};
use fulgurite::{Builder, Error, Tensor, api};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::ast::{Block, Elem, Node, Opt, OptType};
use fulgurite_core::loc::Loc;
use fulgurite_core::row::Meaning;
use fulgurite_core::signature::{self, OutTy};
use fulgurite_core::{DType, DTypeSet, Name, Scalar, TensorTy, Value};
use std::sync::LazyLock;

/// Attempts to find options with which a tensor of a given type is made.
const ATTEMPTS: usize = 24;

/// Attempts to draw elements for which the class states a bound.
const DRAWS: usize = 6;

/// A tensor of a class, with the plain tensor that it stands for.
pub struct Made {
    /// The tensor.
    pub tensor: Tensor,
    /// The `plain` of the tensor, by the text of the class.
    pub plain: Array<Bounded>,
    /// The row of the class that made it from the given elements.
    pub of: Option<&'static str>,
    /// For each element, the bound of its distance from the given one.
    pub far: Vec<f64>,
}

/// The rows that make tensors of a class: programs whose last call is the class.
pub fn makers(class: SubclassRef) -> Vec<SymbolRef> {
    static ALL: LazyLock<Vec<(Name, SymbolRef)>> = LazyLock::new(|| {
        let ends = |s: SymbolRef| match &s.row().meaning {
            Meaning::Decomp(body) => match &*body.value.node {
                Node::Call(f, _) => symbol::class(f.name).map(|_| (f.name, s)),
                _ => None,
            },
            _ => None,
        };
        symbol::all().into_iter().filter_map(ends).collect()
    });
    ALL.iter().filter(|(of, _)| *of == class.name()).map(|(_, s)| *s).collect()
}

/// A plan to make a tensor of a class: its origin and options.
pub struct Plan {
    /// The row of the class that makes it; `None`: it is made from its fields.
    maker: Option<SymbolRef>,
    /// The arguments of the row, of which the first is the given tensor; or one value per field and piece of metadata.
    args: Vec<Value<Slot>>,
    /// Per argument, whether it has the dtype that programs see.
    own: Vec<bool>,
}

/// A way to make a tensor of the class that programs see as one of type `ty`.
pub fn plan(class: SubclassRef, ty: &TensorTy, rng: &mut Rng) -> Option<Plan> {
    let makers = makers(class);
    (0..ATTEMPTS).find_map(|_| match makers.as_slice() {
        [] => of_fields(class, ty, rng),
        makers => by_row(makers[rng.below(makers.len())], ty, rng),
    })
}

impl Plan {
    fn symbol(&self, class: SubclassRef) -> SymbolRef {
        self.maker.unwrap_or_else(|| class.port(Port::Unflatten))
    }

    /// The tensor as a value of a trace.
    ///
    /// # Errors
    /// The error of binding.
    pub fn bind(&self, class: SubclassRef, b: &mut Builder) -> Result<ProxyId, Error> {
        let args = self.args.iter().map(|a| a.map(&mut |slot| input(b, slot))).collect();
        Ok(b.bind(self.symbol(class), args, Loc::NOWHERE)?[0])
    }

    /// The tensor with elements equal or near to those of `like`. With `when`, only tensors for which the class states
    /// a bound.
    pub fn make(&self, class: SubclassRef, like: &Array<f64>, when: bool, rng: &mut Rng) -> Option<Made> {
        (0..DRAWS).find_map(|_| {
            let tensor = self.tensor(class, like, rng)?;
            finish(class, tensor, self.maker.map(|m| m.name()), like, when)
        })
    }

    fn tensor(&self, class: SubclassRef, like: &Array<f64>, rng: &mut Rng) -> Option<Tensor> {
        let known = floats(like);
        let (lo, hi) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
        let domain = if lo < hi && self.maker.is_none() { (lo, hi) } else { (0.5, 2.0) };
        let (mut given, mut at) = (false, 0);
        let mut one = |slot: &Slot| {
            let own = self.own.get(at).copied().unwrap_or(false);
            at += 1;
            let ty = match slot {
                Slot::Tensor(ty) => ty,
                Slot::Number(d, s) => return bridge::tensor(&Operand::Number(*d, *s)),
                Slot::Key => return bridge::tensor(&Operand::Key([rng.bits() >> 1, 0])),
            };
            let same = ty.dtype == like.dtype && ty.sizes().as_slice() == like.shape;
            let array = match ty.dtype {
                _ if same && !std::mem::replace(&mut given, true) => like.clone(),
                // Mostly all elements are visible.
                DType::Bool if !own => {
                    let all = !rng.one_in(4);
                    let truths = (0..ty.numel()).map(|_| i64::from(all || rng.one_in(2)));
                    Array::int(ty.dtype, ty.sizes().as_slice(), truths.collect())
                }
                _ => calls::values::array(ty, domain, Values::Tame, rng),
            };
            bridge::tensor(&Operand::Tensor(array))
        };
        let args: Vec<Value<Tensor>> = self.args.iter().map(|a| a.map(&mut one)).collect();
        api::call(self.symbol(class), args, Loc::NOWHERE).ok()?.into_iter().next()
    }
}

/// An input of a trace.
pub fn input(b: &mut Builder, slot: &Slot) -> ProxyId {
    let ty = match slot {
        Slot::Tensor(ty) => ProxyTy::tensor(ty.clone()),
        Slot::Number(d, _) => ProxyTy::Number(*d),
        Slot::Key => ProxyTy::Key,
    };
    b.input("x", ty)
}

/// A tensor of the class that programs see as `like`; with its elements, if a row makes it.
pub fn tensor(class: SubclassRef, like: &Array<f64>, when: bool, rng: &mut Rng) -> Option<Made> {
    plan(class, &TensorTy::new(like.dtype, &like.shape), rng)?.make(class, like, when, rng)
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

/// The elements of `a` repeated for a tensor of this shape: an axis whose size is a multiple repeats each element of
/// `a`.
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

/// The array with these errors added to its own.
pub fn widened(a: &Array<Bounded>, far: &[f64]) -> Array<Bounded> {
    let data = match &a.data {
        Data::Float(x) => {
            Data::Float(x.iter().zip(far).map(|(x, far)| Bounded::near(x.value, x.error + far)).collect())
        }
        Data::Int(x) => Data::Int(x.clone()),
    };
    Array { dtype: a.dtype, shape: a.shape.clone(), data }
}

/// A plan with a row of the class for such a tensor, with random options.
fn by_row(maker: SymbolRef, ty: &TensorTy, rng: &mut Rng) -> Option<Plan> {
    let row = maker.row();
    let mut args = vec![Value::Tensor(Slot::Tensor(ty.clone()))];
    for param in row.sig.params.iter().skip(1) {
        let numeric = |d: &DType| d.is_float() || d.is_int();
        let set = match param.ty.elem.as_slice() {
            [Elem::Class(set)] => DTypeSet::from_class(set.as_str()),
            _ => None,
        };
        let dtype = set.and_then(|s| s.iter().find(numeric)).unwrap_or(ty.dtype);
        let rank0 = param.ty.dims.as_ref().is_some_and(|d| d.is_empty());
        args.push(match rank0 {
            _ if param.optional => Value::Absent,
            true => Value::Tensor(Slot::Tensor(TensorTy::new::<usize>(dtype, &[]))),
            false => Value::Tensor(Slot::Tensor(ty.clone())),
        });
    }
    args.extend(row.sig.opts.iter().map(|opt| rng.pick(&ways(opt)).clone()));
    // Options that do not fit this shape are refused before anything runs.
    signature::solve(row, &args, &Slot::ty).ok()?;
    Some(Plan { maker: Some(maker), args, own: Vec::new() })
}

/// The values of an option to try.
fn ways(opt: &Opt) -> Vec<Value<Slot>> {
    let int = |i| Value::Num(Scalar::Int(i));
    let given: Vec<Value<Slot>> = match &opt.ty {
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

/// A plan with the fields of such a tensor, with random metadata.
fn of_fields(class: SubclassRef, ty: &TensorTy, rng: &mut Rng) -> Option<Plan> {
    let rules = class.rules();
    let turn = rng.below(8);
    let row = rules.apart(&|elems| {
        let elem = elems[turn % elems.len()].clone();
        match &elem {
            Elem::Class(set) => {
                let all: Vec<DType> =
                    DTypeSet::from_class(set.as_str()).map(|s| s.iter().collect()).unwrap_or_default();
                all.get(turn % all.len().max(1)).map_or(elem, |d| Elem::Class(Name::new(d.name())))
            }
            _ => elem,
        }
    })?;
    let mut given = vec![Value::Tensor(Slot::Tensor(ty.clone()))];
    given.extend(row.sig.opts.iter().map(|opt| rng.pick(&ways(opt)).clone()));
    let solved = signature::solve(&row, &given, &Slot::ty).ok()?;
    let mut args = Vec::new();
    for out in &solved.outs {
        let OutTy::Tensor(ty) = out else { return None };
        args.push(Value::Tensor(Slot::Tensor(ty.clone())));
    }
    args.extend(rules.sig.opts.iter().map(|opt| {
        let at = row.sig.opts.iter().position(|o| o.name.name == opt.name.name);
        // A dtype of the whole tensor.
        at.map_or(Value::DType(ty.dtype), |at| given[1 + at].clone())
    }));
    let own = row.sig.outs.iter().map(|out| out.ty.elem == row.sig.params[0].ty.elem).collect();
    Some(Plan { maker: None, args, own })
}

/// The fields of a tensor, with their elements.
///
/// # Errors
/// The error of taking it apart.
pub fn fields(t: &Tensor) -> Result<Fields, Error> {
    let apart = parts(t)?;
    let ty = t.ty();
    let Some(layout) = ty.as_ref().and_then(|ty| ty.subclass()) else { return Ok(Vec::new()) };
    let one = |(name, _): &(Name, _)| Ok((*name, bridge::array(&apart.field(name.as_str())?.buffer()?)));
    layout.fields.iter().map(one).collect()
}

/// A tensor made from the fields and metadata of another.
///
/// # Errors
/// The error of its parts.
pub fn together(t: &Tensor) -> Result<Tensor, Error> {
    let apart = parts(t)?;
    made_of(t, &mut |name| apart.field(name.as_str()).unwrap_or_else(Tensor::poisoned))
}

/// A tensor with the metadata of another and other fields.
///
/// # Errors
/// The error of making it.
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
    // Metadata has no tensors.
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

/// The value of a text of the class for a tensor, by the oracle.
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
