//! Converts values of a dynamic language to arguments of a row, by the row's signature.

use super::{Given, Operand};
use crate::lang::ast::{Elem, OptType, Param};
use crate::row::Row;
use crate::signature::{ArgTy, Refusal};
use crate::{Name, Scalar, Value};

/// One value per parameter and option, in the order of the signature; `key` for random numbers.
///
/// # Errors
/// E702 for a value of the wrong kind, or an argument that the row does not have; E710 for an option that depends on
/// unknown elements.
pub fn arguments<V: Operand>(row: &Row, given: &[(Name, Given<V>)], key: &Given<V>) -> Result<Vec<Value<V>>, Refusal> {
    let value = |name: Name| given.iter().find(|(n, _)| *n == name).map_or(&Given::None, |(_, value)| value);
    let names = || row.sig.params.iter().map(|p| p.name.name).chain(row.sig.opts.iter().map(|o| o.name.name));
    if let Some((stray, _)) = given.iter().find(|(name, _)| names().all(|n| n != *name)) {
        return Err(Refusal::new("E702", format!("`{}` has no argument `{stray}`", row.op)));
    }
    let params = row.sig.params.iter().map(|p| {
        let given = match value(p.name.name) {
            Given::None if p.ty.elem.contains(&Elem::Key) => key,
            given => given,
        };
        param(p, given).ok_or_else(|| wrong(row, p.name.name, given, &p.ty.to_string()))
    });
    let opts = row.sig.opts.iter().map(|o| {
        let given = value(o.name.name);
        option(&o.ty, given).ok_or_else(|| match given {
            Given::Tensor(t) if open(&o.ty, t) => depends(row, o.name.name),
            _ => wrong(row, o.name.name, given, &o.ty.to_string()),
        })
    });
    params.chain(opts).collect()
}

fn wrong<V>(row: &Row, name: Name, given: &Given<V>, expected: &str) -> Refusal {
    Refusal::new("E702", format!("`{name}` of `{}` is {}, not {expected}", row.op, given.kind()))
}

fn depends(row: &Row, name: Name) -> Refusal {
    Refusal::new("E710", format!("no row stands behind `{}` with a `{name}` that depends on elements", row.op))
}

/// Whether a tensor could be the value of this option if its elements were known: one of rank 0 for a number, any for a
/// list, or for a size, which may differ in each place.
fn open<V: Operand>(ty: &OptType, t: &V) -> bool {
    match t.ty() {
        ArgTy::Tensor(of) if of.rank() > 0 => matches!(ty, OptType::Size(_)) || is_list(ty) && t.known_list().is_none(),
        _ => t.known().is_none(),
    }
}

fn is_list(ty: &OptType) -> bool {
    matches!(ty, OptType::Perm(_) | OptType::Dims { .. } | OptType::Ints { .. } | OptType::Shape { .. })
}

impl<V> Given<V> {
    /// The value without the mark of strides, for rows in which memory layout is irrelevant.
    pub(super) fn plain(self) -> Given<V> {
        match self {
            Given::Strided(t) => Given::Tensor(t),
            Given::List(items) => Given::List(items.into_iter().map(Given::plain).collect()),
            other => other,
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Given::None => "not given",
            Given::Bool(_) => "a truth value",
            Given::Int(_) | Given::Size(_) => "an integer",
            Given::Float(_) => "a float",
            Given::Str(_) => "a text",
            Given::DType(_) => "a dtype",
            Given::Tensor(_) | Given::Strided(_) => "a tensor",
            Given::List(_) => "a list",
        }
    }
}

impl<V> From<Scalar> for Given<V> {
    fn from(s: Scalar) -> Given<V> {
        match s {
            Scalar::Bool(b) => Given::Bool(b),
            Scalar::Int(i) => Given::Int(i),
            Scalar::Float(x) => Given::Float(x),
        }
    }
}

/// A tensor, a number where the signature takes one, or a list of these.
fn param<V: Clone>(param: &Param, given: &Given<V>) -> Option<Value<V>> {
    if param.ty.list.is_some() {
        let Given::List(items) = given else { return None };
        return items.iter().map(|item| one(item, false)).collect::<Option<_>>().map(Value::List);
    }
    one(given, param.ty.dims.as_ref().is_none_or(Vec::is_empty))
}

fn one<V: Clone>(given: &Given<V>, number: bool) -> Option<Value<V>> {
    Some(match given {
        Given::None => Value::Absent,
        Given::Tensor(t) => Value::Tensor(t.clone()),
        Given::Bool(b) if number => Value::Num(Scalar::Bool(*b)),
        Given::Int(i) if number => Value::Num(Scalar::Int(*i)),
        Given::Float(x) if number => Value::Num(Scalar::Float(*x)),
        Given::Size(d) if number => Value::size(*d),
        _ => return None,
    })
}

fn option<V: Operand>(ty: &OptType, given: &Given<V>) -> Option<Value<V>> {
    let int = |given: &Given<V>| match given {
        Given::Int(i) => Some(Value::Num(Scalar::Int(*i))),
        Given::Size(d) => Some(Value::size(*d)),
        _ => None,
    };
    let ints = |given: &Given<V>| match given {
        Given::List(items) => items.iter().map(int).collect::<Option<_>>().map(Value::List),
        one => int(one),
    };
    // The known element of a tensor of rank 0, or the list of a known vector, becomes the option.
    if let Given::Tensor(t) = given {
        return match t.known_list() {
            Some(items) if is_list(ty) => option(ty, &Given::List(items.into_iter().map(Given::from).collect())),
            _ => option(ty, &Given::from(t.known()?)),
        };
    }
    match (ty, given) {
        (_, Given::None) => Some(Value::Absent),
        (OptType::Num, Given::Bool(b)) | (OptType::Bool, Given::Bool(b)) => Some(Value::Num(Scalar::Bool(*b))),
        (OptType::Num, Given::Int(i)) => Some(Value::Num(Scalar::Int(*i))),
        (OptType::Num | OptType::F64, Given::Float(x)) => Some(Value::Num(Scalar::Float(*x))),
        (OptType::F64, Given::Int(i)) => Some(Value::Num(Scalar::Float(*i as f64))),
        (OptType::Num, Given::Size(d)) => Some(Value::size(*d)),
        (OptType::Str | OptType::Labels(_), Given::Str(s)) => Some(Value::Str(s.clone())),
        (OptType::Dtype(_), Given::DType(d)) => Some(Value::DType(*d)),
        (OptType::Enum(words), Given::Str(s)) => {
            let known = words.iter().find(|w| w.as_str() == s.replace('-', "_"));
            // the signature refuses another text
            Some(known.map_or_else(|| Value::Str(s.clone()), |w| Value::Word(*w)))
        }
        (OptType::Enum(words), Given::Int(i)) => {
            usize::try_from(*i).ok().and_then(|i| words.get(i)).map(|w| Value::Word(*w))
        }
        (
            OptType::I64 | OptType::Dim(_) | OptType::Gap(_) | OptType::Pos(_) | OptType::Bound(_) | OptType::Size(_),
            _,
        ) => int(given),
        _ if is_list(ty) => ints(given),
        _ => None,
    }
}
