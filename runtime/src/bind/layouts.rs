//! Layouts of tensors of subclasses: the placement of pieces, and conversions between layouts of one tensor.

use super::Builder;
use crate::error::{Error, ErrorKind};
use crate::intrinsics::Intrinsic;
use crate::symbol::{Port, SubclassRef};
use crate::trace::*;
use fulgurite_core::sharding::Place;
use fulgurite_core::{Dim, Name, Scalar, Value};

/// The placement of a tensor, read from its metadata.
pub(super) fn place_of(layout: &SubclassLayout) -> Option<Place> {
    let meta = |name: &str| layout.meta.iter().find(|(n, _)| *n == name).map(|(_, v)| v);
    // a negative axis is invalid
    let dim = meta("dim").and_then(Value::as_dim).map_or(0, |d| usize::try_from(d.value()).unwrap_or(usize::MAX));
    meta("place").and_then(|v| if let Value::Word(word) = v { Place::new(*word, dim) } else { None })
}

/// A value of a line's body, converted to the layout of the result `out`: a decomposition on pieces may leave them with
/// another placement than the operator does, and values that it makes without inputs are plain.
///
/// # Errors
/// E708 if the class has no placements, and errors of moving the pieces.
pub(super) fn brought(b: &mut Builder, line: &BoundSymbol, value: ProxyId, out: ProxyId) -> Result<ProxyId, Error> {
    let want = b.arena().ty(out);
    match to(b, value, &want)? {
        Some(value) => Ok(value),
        None => {
            let (op, class) = (Name::new(line.symbol.name()), want.subclass().map(|layout| layout.class.name()));
            let have = b.arena().ty(value);
            let claim = format!("the decomposition of `{op}` gives a {have}, the rule of its class a {want}");
            let error = Error::new("E708", claim).help("give the class a gradient of it: `grad`").at(line.place.loc);
            Err(class.into_iter().fold(error, |e, class| e.kind_is(ErrorKind::NoDispatch { op, class })))
        }
    }
}

/// A value in another layout of its tensor; `None` if its class has no placements.
fn to(b: &mut Builder, value: ProxyId, want: &ProxyTy) -> Result<Option<ProxyId>, Error> {
    let have = b.arena().ty(value);
    if have.subclass() == want.subclass() {
        return Ok(Some(value));
    }
    let Some(wanted) = want.subclass() else { return b.plain(value).map(Some) };
    if have.subclass().is_some_and(|of| of.class != wanted.class) {
        return Ok(None);
    }
    let mut value = value;
    match (place_of(wanted), have.subclass(), want.as_tensor()) {
        (Some(place), of, Some(whole)) => {
            if of.is_none() {
                let copies = vec![value; wanted.fields.len()];
                value = unflatten(b, wanted.class, copies, Place::Replicate, &whole.shape)?;
            }
            if b.arena().ty(value).subclass().and_then(|layout| place_of(layout)) != Some(place) {
                let (word, dim) = place.words();
                let word = (Name::new("place"), Value::Word(Name::new(word)));
                let dim = (Name::new("dim"), Value::Num(Scalar::Int(dim as i64)));
                value = b
                    .call_row(Name::new(Intrinsic::Redistribute.name()), vec![Value::Tensor(value)], vec![word, dim])?
                    .outs[0];
            }
        }
        (None, Some(of), _) if of.meta == wanted.meta && of.fields.len() == wanted.fields.len() => {}
        _ => return Ok(None),
    }
    if b.arena().ty(value).subclass() == Some(wanted) {
        return Ok(Some(value));
    }
    // fields may be in pieces themselves
    let mut fields = b.flatten(value)?;
    for (field, (_, ty)) in fields.iter_mut().zip(&wanted.fields) {
        let Some(other) = to(b, *field, &ProxyTy::Tensor(ty.clone()))? else { return Ok(None) };
        *field = other;
    }
    b.unflatten(wanted, &fields).map(Some)
}

/// Makes a tensor of pieces.
pub(super) fn unflatten(
    b: &mut Builder,
    class: SubclassRef,
    pieces: Vec<ProxyId>,
    place: Place,
    shape: &[Dim],
) -> Result<ProxyId, Error> {
    let (word, dim) = place.words();
    let list = pieces.into_iter().map(Value::Tensor).collect();
    let meta = [
        ("place", Value::Word(Name::new(word))),
        ("dim", Value::Num(Scalar::Int(dim as i64))),
        ("shape", Value::List(shape.iter().map(|d| Value::size(*d)).collect())),
    ];
    let meta = meta.map(|(name, value)| (Name::new(name), value)).to_vec();
    let unflatten = Name::new(class.port(Port::Unflatten).name());
    Ok(b.call_row(unflatten, vec![Value::List(list)], meta)?.outs[0])
}
