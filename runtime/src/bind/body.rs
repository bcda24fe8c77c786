//! Decompositions: the body of a bound symbol is made when it is first needed, and kept with the symbol.

use super::{Builder, Context, control, copies, layouts};
use crate::error::Error;
use crate::symbol::SymbolRef;
use crate::trace::tag::{Event, Policy, SplitSide, TagSet};
use crate::trace::*;
use fulgurite_core::eval::tensor;
use fulgurite_core::lang::ast::Out;
use fulgurite_core::row::Meaning;
use fulgurite_core::signature::OutTy;
use fulgurite_core::{Name, Value};
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

/// The body of a line: its row's decomposition on its arguments, in its region, at its place; `None` for rows without
/// one. It is made when it is first needed, then kept in the line.
///
/// # Errors
/// Errors of binding the body's lines, at the place of the line, and E706 if the body does not yield the results of the
/// signature.
pub fn body_of(arena: &Rc<Arena>, line: &BoundSymbol) -> Result<Option<Rc<Body>>, Error> {
    if let Some(body) = line.body.get() {
        return Ok(body.clone());
    }
    let body = match copies::copy(arena, line, tags(line)) {
        Some(body) => Some(Rc::new(body)),
        None => match run(arena, line)? {
            Some((builder, values)) => {
                let body = Rc::new(finish(arena, line, builder, &values)?);
                copies::keep(arena, line, &body);
                Some(body)
            }
            None => None,
        },
    };
    Ok(line.body.get_or_init(|| body).clone())
}

/// The tags of a body's lines.
pub(super) fn tags(line: &BoundSymbol) -> TagSet {
    line.own_tags.passing(Event::Decompose, SplitSide::Before, &[Policy::All])
}

/// Fills in the result types that only the body knows, and keeps the body.
pub(super) fn type_from_body(arena: &Rc<Arena>, line: &mut BoundSymbol) -> Result<(), Error> {
    if line.symbol.is_control() {
        return control::typed(arena, line);
    }
    let Some((builder, values)) = run(arena, line)? else {
        return Err(fault(line.symbol, "its result types come from a body that it does not have"));
    };
    let mut solved = (*line.solved).clone();
    let slots = solved.outs.iter_mut().chain(&mut solved.aux);
    for (slot, value) in slots.zip(&values).filter(|(slot, _)| **slot == OutTy::FromBody) {
        *slot =
            out_ty(arena, value).ok_or_else(|| fault(line.symbol, "its body yields something that is not a tensor"))?;
    }
    line.solved = Arc::new(solved);
    let body = finish(arena, line, builder, &values)?;
    line.body = OnceCell::from(Some(Rc::new(body)));
    Ok(())
}

/// A decomposition that was run: a builder with its lines, and the values that it yields.
pub(super) type Ran = (Builder, Vec<Value<ProxyId>>);

/// Runs the decomposition, if the row has one.
pub(super) fn run(arena: &Rc<Arena>, line: &BoundSymbol) -> Result<Option<Ran>, Error> {
    let row = line.symbol.row();
    let Meaning::Decomp(block) = &row.meaning else { return Ok(None) };
    let mut builder = Builder::on(arena, line.symbol.name());
    builder.context = Context { region: line.region, place: line.place, tags: tags(line), origin: Some(line.id) };
    let values = tensor::run(&mut builder, row, block, &line.solved, &line.args, &[])
        .map_err(|e| e.at(line.place.loc).note(format!("in the body of `{}`", row.op)))?;
    let wanted = row.sig.outs.len() + row.sig.aux.len();
    if values.len() != wanted {
        let have = values.len();
        return Err(fault(line.symbol, &format!("its body yields {have} results, its signature has {wanted}")));
    }
    Ok(Some((builder, values)))
}

/// Checks the values against the line's types and flattens them: results, written arguments, auxiliary results.
fn finish(
    arena: &Rc<Arena>,
    line: &BoundSymbol,
    mut builder: Builder,
    values: &[Value<ProxyId>],
) -> Result<Body, Error> {
    let sig = &line.symbol.row().sig;
    let (results, aux) = values.split_at(sig.outs.len());
    let mut outs = Vec::new();
    for (value, ty) in results.iter().zip(&line.solved.outs) {
        flatten(&mut builder, line, value, ty, &mut outs)?;
    }
    for &i in &line.effects.writes {
        let name: Name = sig.params[i].name.name;
        let Value::Tensor(old) = line.args[i] else { continue };
        let written = builder.writes.iter().find(|(n, _)| *n == name).map(|(_, v)| v.clone());
        let ty = arena.tensor_ty(old).map_or(OutTy::FromBody, OutTy::Tensor);
        flatten(&mut builder, line, &written.unwrap_or(Value::Tensor(old)), &ty, &mut outs)?;
    }
    for (value, ty) in aux.iter().zip(&line.solved.aux) {
        flatten(&mut builder, line, value, ty, &mut outs)?;
    }
    // the program relies on the types of the line's results
    for (out, value) in line.outs.iter().chain(&line.aux).zip(&mut outs) {
        *value = layouts::brought(&mut builder, line, *value, *out)?;
    }
    Ok(Body { decomposed: true, lines: builder.take_from(0), outs })
}

/// The type of a result; `None` if it is no tensor.
pub(super) fn out_ty(arena: &Arena, value: &Value<ProxyId>) -> Option<OutTy> {
    let one = |v: &Value<ProxyId>| if let Value::Tensor(p) = v { arena.tensor_ty(*p) } else { None };
    match value {
        Value::List(items) => items.iter().map(one).collect::<Option<_>>().map(OutTy::List),
        one_value => one(one_value).map(OutTy::Tensor),
    }
}

fn flatten(
    builder: &mut Builder,
    line: &BoundSymbol,
    value: &Value<ProxyId>,
    ty: &OutTy,
    outs: &mut Vec<ProxyId>,
) -> Result<(), Error> {
    let symbol = line.symbol;
    let types = ty.tensors();
    let items = value.items();
    if items.len() != types.len() {
        let (have, want) = (items.len(), types.len());
        return Err(fault(symbol, &format!("its body yields a list of {have}, its signature says {want}")));
    }
    let plain = !symbol.row().sig.outs.iter().all(Out::is_from_body) && line.dispatch.is_none();
    for (item, want) in items.iter().zip(types) {
        let proxy = match item {
            Value::Tensor(p) => *p,
            Value::Num(_) | Value::Size(_) => builder.filled(want, item.clone())?,
            _ => return Err(fault(symbol, "its body yields something that is not a tensor")),
        };
        if plain && let Some(layout) = builder.arena().ty(proxy).subclass() {
            let class = layout.class.name();
            return Err(fault(symbol, &format!("its body yields a `{class}`, which only a result `_` can be")));
        }
        let have = builder.arena().tensor_ty(proxy);
        if have.as_ref() != Some(want) {
            let have = have.map_or_else(|| "no tensor".to_owned(), |t| t.to_string());
            return Err(fault(symbol, &format!("its body yields {have} where its signature says {want}")));
        }
        outs.push(proxy);
    }
    Ok(())
}

/// A fault of a row, which codegen should have refused.
pub(super) fn fault(symbol: SymbolRef, what: &str) -> Error {
    Error::new("E706", format!("`{}`: {what}", symbol.name())).note("this is a fault of the row")
}
