//! Runs a derivative rule of a line.
//!
//! A zero cotangent is `Absent` in rules: arithmetic drops it, and so do calls that are 0 if it is 0
//! ([`facts::is_zero`]). A rule that needs a value in the place of an absent one runs again with zeros made for it.

use super::activity::cotangent_name;
use super::list_arguments;
use crate::bind::Builder;
use crate::error::Error;
use crate::symbol::{Registered, SymbolRef, candidates};
use crate::trace::*;
use fulgurite_core::derive::differentiable;
use fulgurite_core::eval::tensor::{self, Called, Machine};
use fulgurite_core::facts;
use fulgurite_core::lang::ast::Block;
use fulgurite_core::signature::{ArgTy, Refusal};
use fulgurite_core::{Name, Named, Scalar, TensorTy, Value};

/// A parameter, its cotangent, and the number of the first value made for it.
pub(super) type Contribution = (usize, Value<ProxyId>, usize);

/// The line and the cotangents on which a rule runs.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) line: &'a BoundSymbol,
    /// For each result, its cotangent or tangent; `None` is zero.
    pub(super) flow: &'a [Option<ProxyId>],
    /// Whether `flow` has tangents; a sum back to the shape of an argument is then left out.
    pub(super) tangents: bool,
}

/// The cotangent of parameter `i` of a line, by the row's rule; `None` if there is no rule. The value is `Absent` if
/// the cotangent is zero.
///
/// # Errors
/// Reports errors of calls in the rule.
pub(super) fn vjp(b: &mut Builder, site: Site, i: usize) -> Result<Option<Value<ProxyId>>, Error> {
    let arg = site.line.symbol.row().sig.params[i].name.name;
    let Some(rule) = site.line.symbol.vjp_rule(arg) else { return Ok(None) };
    if rule.zero {
        return Ok(Some(Value::Absent));
    }
    run(b, site, &rule.block, &[]).map(|mut values| Some(values.swap_remove(0)))
}

/// The contribution of the tangent of parameter `i` to the tangents of a line's results, by the row's `jvp` rule.
///
/// # Errors
/// Reports errors of calls in the rule.
pub(super) fn jvp(
    b: &mut Builder,
    line: &BoundSymbol,
    i: usize,
    t: Value<ProxyId>,
) -> Result<Option<Vec<Value<ProxyId>>>, Error> {
    let row = line.symbol.row();
    let arg = row.sig.params[i].name.name;
    let Some((_, rule)) = row.jvp.iter().find(|(name, _)| *name == arg) else { return Ok(None) };
    let flow = vec![None; line.outs.len()];
    let names = [(Name::new("t"), t.clone()), (Name::new(&format!("t_{arg}")), t)];
    run(b, Site { line, flow: &flow, tangents: true }, rule, &names).map(Some)
}

/// Runs a rule: first with absent zeros, and if that fails with zeros made.
pub(super) fn run(
    b: &mut Builder,
    site: Site,
    rule: &Block,
    more: &[Named<ProxyId>],
) -> Result<Vec<Value<ProxyId>>, Error> {
    let line = site.line;
    let zeros = line.outs.iter().zip(site.flow).any(|(o, f)| f.is_none() && b.arena().is_float(*o));
    let start = b.lines().len();
    let first = attempt(b, site, rule, more);
    let dense = match first {
        Err(_) if zeros && more.is_empty() => {
            b.take_from(start);
            let mut flow = site.flow.to_vec();
            for (slot, out) in flow.iter_mut().zip(&line.outs) {
                if slot.is_none() && b.arena().tensor_ty(*out).is_some_and(|t| t.dtype.is_float()) {
                    *slot = b.zero_cotangent(*out)?;
                }
            }
            attempt(b, Site { flow: &flow, ..site }, rule, more)
        }
        done => done,
    };
    dense.map_err(|e| e.at(line.place.loc).note(format!("in the gradient of `{}`", line.symbol.name())))
}

fn attempt(b: &mut Builder, site: Site, rule: &Block, more: &[Named<ProxyId>]) -> Result<Vec<Value<ProxyId>>, Error> {
    let line = site.line;
    let mut names = scope(b.arena(), line, site.flow);
    names.extend(more.iter().cloned());
    let mut machine = RuleMachine { builder: b, tangents: site.tangents };
    let values = tensor::run(&mut machine, line.symbol.row(), rule, &line.solved, &line.args, &names)?;
    if values.is_empty() {
        return Err(Error::bug("E706", format!("a rule of `{}` yields nothing", line.symbol.name())));
    }
    Ok(values)
}

/// The names that a rule may read besides arguments and options: results, auxiliary results, cotangents.
fn scope(arena: &Arena, line: &BoundSymbol, flow: &[Option<ProxyId>]) -> Vec<Named<ProxyId>> {
    let sig = &line.symbol.row().sig;
    let groups = line.out_groups();
    let mut names = Vec::new();
    let tensor = |f: &Option<ProxyId>| f.map_or(Value::Absent, Value::Tensor);
    let mut floats = Vec::new();
    for ((out, value), range) in sig.outs.iter().zip(line.results()).zip(&groups) {
        let cotangent = match &value {
            Value::List(_) if flow[range.clone()].iter().all(Option::is_none) => Value::Absent,
            // a zero piece is represented by its type, which has its size
            Value::List(_) => {
                let piece = |i: usize| match (flow[i], arena.tensor_ty(line.outs[i])) {
                    (None, Some(ty)) => Value::Type(ty),
                    (f, _) => tensor(&f),
                };
                Value::List(range.clone().map(piece).collect())
            }
            _ => tensor(&flow[range.start]),
        };
        names.push((out.name.name, value));
        names.push((cotangent_name(out.name.name), cotangent.clone()));
        if differentiable(&out.ty) {
            floats.push(cotangent);
        }
    }
    if let ([only], [_]) = (sig.outs.as_slice(), groups.as_slice()) {
        let value = names.iter().find(|(n, _)| *n == only.name.name).map(|(_, v)| v.clone());
        names.extend(value.map(|v| (Name::new("out"), v)));
    }
    // if a single result can have a cotangent, `g` names that cotangent
    if let [only] = floats.as_slice() {
        names.push((Name::new("g"), only.clone()));
    }
    let end = groups.last().map_or(0, |r| r.end);
    for (k, &written) in line.effects.writes.iter().enumerate() {
        names.push((cotangent_name(sig.params[written].name.name), tensor(&flow[end + k])));
    }
    names.extend(sig.aux.iter().zip(&line.aux).map(|(out, p)| (out.name.name, Value::Tensor(*p))));
    names
}

/// A builder that knows zeros and tangents.
struct RuleMachine<'b> {
    builder: &'b mut Builder,
    tangents: bool,
}

impl Machine for RuleMachine<'_> {
    type V = ProxyId;
    type Error = Error;

    fn call(&mut self, op: Name, mut positional: Vec<Value<Self::V>>, named: Vec<Named<Self::V>>) -> Called<Self> {
        if positional.iter().any(|v| v.is_absent() || matches!(v, Value::List(_)))
            && let Some(value) = self.of_zeros(op, &mut positional, &named)?
        {
            return Ok(vec![value]);
        }
        self.builder.call(op, positional, named)
    }

    fn ty(&self, v: &ProxyId) -> ArgTy {
        self.builder.arena().arg_ty(*v)
    }

    fn write(&mut self, name: Name, _: Value<ProxyId>) -> Result<(), Error> {
        Err(Refusal::new("E706", format!("a gradient rule writes `{name}`")).into())
    }

    fn unbroadcast(&mut self, value: Value<ProxyId>, like: &TensorTy) -> Result<Value<ProxyId>, Error> {
        if self.tangents {
            return Ok(value);
        }
        self.builder.unbroadcast(value, like)
    }
}

impl RuleMachine<'_> {
    /// The value of a call with an argument that is zero, or has pieces that are zero, if it can be computed without
    /// making zeros. Otherwise a zero that the row only selects becomes the number 0.
    fn of_zeros(
        &mut self,
        op: Name,
        positional: &mut [Value<ProxyId>],
        named: &[Named<ProxyId>],
    ) -> Result<Option<Value<ProxyId>>, Error> {
        let takes =
            |symbol: &SymbolRef| symbol.row().sig.params.len() + symbol.row().sig.opts.len() >= positional.len();
        let rows: Vec<SymbolRef> = candidates(op).into_iter().filter(takes).collect();
        let Some(first) = rows.first() else { return Ok(None) };
        // an optional argument that is absent is not zero
        let needed = |i: usize| first.row().sig.params.get(i).is_some_and(|param| !param.optional);
        let zero: Vec<bool> = positional.iter().enumerate().map(|(i, v)| is_zero(v) && needed(i)).collect();
        if zero.contains(&true) && rows.iter().all(|symbol| facts::is_zero(symbol.row(), &zero, &Registered)) {
            return Ok(Some(Value::Absent));
        }
        for (i, value) in positional.iter_mut().enumerate() {
            if value.is_absent() && needed(i) && facts::is_branch(first.row(), i) {
                *value = Value::Num(Scalar::Int(0));
            }
        }
        list_arguments::assemble(self.builder, first, positional, named)
    }
}

fn is_zero(v: &Value<ProxyId>) -> bool {
    match v {
        Value::Absent => true,
        Value::Num(number) => number.as_f64() == 0.0,
        _ => false,
    }
}
