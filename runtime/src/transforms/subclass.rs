//! Gradients of lines on tensors of subclasses.
//!
//! The gradient of the operator on the class is used first, if the class has one; then that of the operator, whose
//! calls dispatch again; then that of its decomposition. The class's own rule is differentiated only if it declares
//! `through`. A decomposition on such a class is then differentiated too, unless the row states that its gradient is
//! another one.
//!
//! Tensors of a class may have fields of a class that is differentiated through its rules. The operator's own gradient
//! then holds only where the inner class computes the operator's own function.

use super::rules::{self, Contribution, Site};
use crate::bind::{Builder, fields_of};
use crate::error::Error;
use crate::symbol::{Port, SubclassRef, candidates, outer};
use crate::trace::*;
use fulgurite_core::eval::tensor;
use fulgurite_core::lang::ast::{Access, Expr, Node, Out};
use fulgurite_core::lang::walk;
use fulgurite_core::row::Row;
use fulgurite_core::subclass::{Concrete, Cotangent, Grads, RuleFunction, operands, others};
use fulgurite_core::{Name, Value};
use std::borrow::Cow;
use std::rc::Rc;

/// The part of a line that is differentiated.
pub(super) enum Way {
    /// The class declares the gradient.
    Declared,
    /// The rule of the class is differentiated.
    Through,
    /// The decomposition is differentiated.
    Decomposed,
    /// The operator is differentiated.
    Outer,
    /// Nothing: tensors of this class are fields, and its rule for the operator is another function.
    Unknown(SubclassRef),
}

/// The class of the first argument that has one.
fn class_of(arena: &Arena, line: &BoundSymbol) -> Option<SubclassRef> {
    let mut class = None;
    line.for_each_arg(|p| class = class.or_else(|| arena.with_ty(p, |ty| ty.subclass().map(|l| l.class))));
    class
}

/// The part of a line on tensors of a subclass that is differentiated. For lines that make a tensor, take it apart or
/// return its plain tensor, the class's `cotangent` decides ([`port`]); a function with a custom backward uses that.
pub(super) fn way(arena: &Arena, line: &BoundSymbol) -> Option<Way> {
    let body = line.dispatch.as_ref().filter(|_| line.symbol.port().is_none() && line.symbol.own().is_none())?;
    let class = class_of(arena, line)?;
    let row = line.symbol.row();
    Some(match (grads(arena, line), within(arena, line)) {
        (Some(_), _) => Way::Declared,
        (None, _) if class.rules().through && !(body.decomposed && says(row)) => Way::Through,
        (None, Some(inner)) => match line.symbol.rule_on(inner).map(|rule| rule.function(inner.rules())) {
            None if row.is_composite() && !says(row) => Way::Decomposed,
            None | Some(RuleFunction::Same) => Way::Outer,
            Some(RuleFunction::OfOthers) if is_free_of_values(line) => Way::Outer,
            Some(_) => Way::Unknown(inner),
        },
        (None, None) => Way::Outer,
    })
}

/// The class of fields of the line's arguments that is differentiated through its rules.
fn within(arena: &Arena, line: &BoundSymbol) -> Option<SubclassRef> {
    fn among(layout: &SubclassLayout) -> Option<SubclassRef> {
        layout
            .fields
            .iter()
            .filter_map(|(_, ty)| ty.subclass.as_deref())
            .find_map(|inner| if inner.class.rules().through { Some(inner.class) } else { among(inner) })
    }
    let mut found = None;
    line.for_each_arg(|p| {
        found = found.or_else(|| arena.with_ty(p, |ty| ty.subclass().and_then(|layout| among(layout))))
    });
    found
}

/// Whether no gradient rule of the row reads elements of an argument or a result: then they hold for all elements.
fn is_free_of_values(line: &BoundSymbol) -> bool {
    let sig = &line.symbol.row().sig;
    let mut values: Vec<Name> = sig.params.iter().map(|p| p.name.name).collect();
    values.extend(sig.outs.iter().map(|out| out.name.name));
    values.push("out".into());
    let is_value = |e: &Expr| matches!(&*e.node, Node::Name(name) if values.contains(name));
    let reads = |rule: &crate::symbol::Rule| {
        // mentions, less those where a call reads the type alone
        let mut reads = 0i64;
        walk::block(&rule.block, &mut |e| {
            reads += i64::from(is_value(e));
            if let Node::Call(callee, args) = &*e.node {
                let rows = candidates(callee.name);
                let typed = |i: usize| {
                    let mut params = rows.iter().map(|row| row.row().sig.params.get(i));
                    params.all(|param| param.is_some_and(|param| param.access == Access::Like))
                };
                let positional = args.iter().take_while(|arg| arg.name.is_none()).enumerate();
                reads -=
                    positional.filter(|(i, arg)| !rows.is_empty() && is_value(&arg.value) && typed(*i)).count() as i64;
            }
        });
        reads > 0
    };
    let mut rules = sig.params.iter().filter_map(|p| line.symbol.vjp_rule(p.name.name));
    !rules.any(reads)
}

/// The error of a gradient that an operator has not on tensors whose fields are of this class.
pub(super) fn unknown(line: &BoundSymbol, inner: SubclassRef) -> Error {
    let (op, inner) = (line.symbol.name(), inner.name());
    let claim = format!("`{op}` has no gradient for tensors whose fields are of `{inner}`");
    Error::new("E711", claim)
        .note(format!("on `{inner}` it is another function, which is differentiated only where it is the outer class"))
        .help(format!("make the `{inner}` of tensors of the other class"))
        .at(line.place.loc)
}

/// Whether the row says what its gradient is, and need not mean the derivative of its decomposition: it has none, or
/// deviates from it, or makes tensors of a class.
fn says(row: &Row) -> bool {
    row.no_grad.is_some() || row.deviates.is_some() || row.sig.outs.iter().any(Out::is_from_body)
}

/// A gradient of an operator on a class.
pub(super) struct Declared {
    grads: Cow<'static, Grads>,
    /// The executor that brought the gradient.
    by: Option<&'static str>,
}

/// The gradient of the operator on the class: an executor's, or the class's own.
pub(super) fn grads(arena: &Arena, line: &BoundSymbol) -> Option<Declared> {
    line.dispatch.as_ref()?;
    let (class, op) = (class_of(arena, line)?, line.symbol.row().op);
    if let Some(own) = outer::grad(&arena.executors(), class, op) {
        return Some(Declared { grads: Cow::Owned((*own.grads).clone()), by: Some(own.executor) });
    }
    let grads = Cow::Borrowed(class.rules().grads_for(op)?);
    Some(Declared { grads, by: None })
}

/// The cotangents of parameters by the class's gradient, or the first parameter that has none.
///
/// # Errors
/// Reports errors of calls in the rules.
pub(super) fn declared(
    b: &mut Builder,
    site: Site,
    active: &[usize],
    Declared { grads, by }: Declared,
) -> Result<Found, Error> {
    let line = site.line;
    let Some(class) = class_of(b.arena(), line) else { return Ok(Err(active[0])) };
    let row = line.symbol.row();
    let arena = b.arena().clone();
    let is = |p: &ProxyId| arena.with_ty(*p, |ty| ty.subclass().is_some_and(|l| l.class == class));
    let of_class = operands(&row.sig, &line.args, &is);
    let names: Vec<Name> = of_class.iter().map(|(n, _)| *n).collect();
    let identity = |_, _| 0;
    let call = Concrete { class: class.rules(), row, args: &line.args, operands: &names, identity: &identity };
    let mut found = Vec::new();
    for &i in active {
        let arg = row.sig.params[i].name.name;
        let Some((_, rule)) = grads.iter().find(|(name, _)| *name == arg) else { return Ok(Err(i)) };
        let made_from = b.arena().len();
        let first = b.lines().len();
        let mut more = others(class.rules(), &row.sig, &line.args, &names);
        more.extend(fields_of(b, &of_class)?);
        let mut values = rules::run(b, site, &call.block(rule), &more)?;
        for line in b.take_from(first) {
            let ruled_by = line.ruled_by.or(by).or(Some(class.text.class));
            b.push(Rc::new(BoundSymbol { ruled_by, ..(*line).clone() }));
        }
        found.push((i, values.swap_remove(0), made_from));
    }
    Ok(Ok(found))
}

/// The cotangents of the fields of which a tensor is made, by the rule of its class, from its cotangent `g` and the
/// fields.
fn made(b: &mut Builder, line: &BoundSymbol, ct: ProxyId, active: &[usize], grads: &Grads) -> Result<Found, Error> {
    let row = line.symbol.row();
    let mut names = fields_of(b, &[("g".into(), ct)])?;
    names.push(("g".into(), Value::Tensor(ct)));
    let mut found = Vec::new();
    for &i in active {
        let Some((_, rule)) = grads.iter().find(|(name, _)| *name == row.sig.params[i].name.name) else {
            return Ok(Err(i));
        };
        let made_from = b.arena().len();
        let mut values = tensor::run(b, row, rule, &line.solved, &line.args, &names)?;
        found.push((i, values.swap_remove(0), made_from));
    }
    Ok(Ok(found))
}

/// If a line makes a tensor whose cotangent is plain, and the class has no rule for the cotangents of its fields, these
/// follow from the derivative of the plain tensor. Returns the class and the cotangent.
pub(super) fn stands_for(
    arena: &Arena,
    line: &BoundSymbol,
    flow: &[Option<ProxyId>],
) -> Option<(SubclassRef, ProxyId)> {
    let Some((class, Port::Unflatten)) = line.symbol.port() else { return None };
    let ct = flow.first().copied().flatten()?;
    let plain = arena.with_ty(ct, |ty| ty.subclass().is_none());
    (plain && class.rules().grads_for("unflatten".into()).is_none()).then_some((class, ct))
}

/// Records the plain tensor of a tensor that a line makes of fields.
///
/// # Errors
/// Reports errors of the class's rule, and E706 if it yields no tensor.
pub(super) fn plain_of(b: &mut Builder, line: &BoundSymbol, class: SubclassRef) -> Result<ProxyId, Error> {
    let values = tensor::run(b, line.symbol.row(), &class.rules().plain, &line.solved, &line.args, &[])?;
    match values.as_slice() {
        [Value::Tensor(plain)] => Ok(*plain),
        _ => Err(Error::new("E706", format!("`plain` of `{}` yields no tensor", class.name()))),
    }
}

/// The cotangents of the arguments of a line, each once, or the first argument that has none.
pub(super) type Found = Result<Vec<Contribution>, usize>;

/// The cotangents of the arguments of a line that makes a tensor of a class or takes one apart.
///
/// # Errors
/// Reports errors of binding.
pub(super) fn port(b: &mut Builder, site: Site, port: Port, active: &[usize]) -> Result<Found, Error> {
    let line = site.line;
    let made_from = b.arena().len();
    match port {
        Port::Unflatten => {
            let Some(ct) = site.flow.first().copied().flatten() else { return Ok(Ok(Vec::new())) };
            if let Some(grads) = line.symbol.port().and_then(|(class, _)| class.rules().grads_for("unflatten".into())) {
                return made(b, line, ct, active, grads);
            }
            let mut parts = b.flatten(ct)?.into_iter();
            let mut whole = Vec::new();
            for (i, arg) in line.args.iter().enumerate().take(line.symbol.row().sig.params.len()) {
                let value = arg.map(&mut |p| parts.next().unwrap_or(*p));
                if active.contains(&i) {
                    whole.push((i, value, made_from));
                }
            }
            Ok(Ok(whole))
        }
        Port::Flatten => {
            let Some(Value::Tensor(x)) = line.args.first() else { return Ok(Ok(Vec::new())) };
            let ty = b.arena().ty(*x);
            let Some(layout) = ty.subclass() else { return Ok(Ok(Vec::new())) };
            if layout.class.rules().cotangent == Cotangent::Plain {
                // a plain cotangent belongs to the whole tensor, and to a field only if the field is the whole tensor
                let whole = whole_field(layout);
                let fields = layout.fields.iter().zip(site.flow).filter_map(|((name, _), ct)| Some((*name, (*ct)?)));
                let others = fields.clone().any(|(name, _)| Some(name) != whole);
                let found = fields.map(|(_, ct)| (0, Value::Tensor(ct), made_from)).collect();
                return Ok(if others { Err(0) } else { Ok(found) });
            }
            let mut parts = Vec::new();
            for (out, ct) in line.outs.iter().zip(site.flow) {
                parts.push(match (ct, b.arena().tensor_ty(*out)) {
                    (Some(ct), _) => *ct,
                    (None, Some(ty)) if ty.dtype.is_float() => b.full(&ty, 0.0)?,
                    (None, _) => *out,
                });
            }
            let ct = b.unflatten(layout, &parts)?;
            Ok(Ok(vec![(0, Value::Tensor(ct), made_from)]))
        }
        // the class of the argument decides how a plain cotangent is used
        Port::Plain => {
            let ct = site.flow.first().copied().flatten();
            Ok(Ok(ct.map(|ct| (0, Value::Tensor(ct), made_from)).into_iter().collect()))
        }
    }
}

/// The field that equals the plain tensor, if there is one.
fn whole_field(layout: &SubclassLayout) -> Option<Name> {
    let plain = &layout.class.rules().plain;
    match &*plain.value.node {
        Node::Name(name) if plain.stmts.is_empty() => {
            layout.fields.iter().map(|(field, _)| *field).find(|field| field == name)
        }
        _ => None,
    }
}

/// Adds to the error of a missing rule the rules that the class of an argument has.
pub(super) fn blame(arena: &Arena, line: &BoundSymbol, error: Error) -> Error {
    if let (Some((class, Port::Flatten)), Some(arg)) = (line.symbol.port(), line.args.first()) {
        let text = &class.text.plain;
        let of = match arg {
            Value::Tensor(p) => arena.name(*p).to_string(),
            _ => "it".to_owned(),
        };
        return error.note(format!(
            "cotangents of a `{}` are plain tensors, those of `{text}`: what flows back to a field of `{of}` says none",
            class.name()
        ));
    }
    let (Some(class), Some(grads)) = (class_of(arena, line), grads(arena, line)) else { return error };
    let known: Vec<String> = grads.grads.iter().map(|(arg, _)| format!("`{arg}`")).collect();
    let op = line.symbol.name();
    error.note(format!("the gradient that `{}` has for `{op}` is by {}", class.name(), known.join(", ")))
}
