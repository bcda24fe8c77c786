//! Unrolling: lines on tensors of subclasses become lines on their fields.
//!
//! Unrolling runs once, after differentiation, on whole programs. An executor may claim a line on tensors of subclasses
//! before; it then runs on the fields of the arguments. Making a tensor of fields and taking it apart again cancel.

use super::inline::{Redirect, inline};
use crate::error::Error;
use crate::symbol::{Port, outer};
use crate::trace::*;
use fulgurite_core::signature;
use fulgurite_core::{Name, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Whether a line of the trace involves tensors of subclasses.
pub fn has_subclasses(trace: &Trace) -> bool {
    trace.lines.iter().any(|l| l.dispatch.is_some() || l.symbol.port().is_some())
}

/// Returns the executor that runs a line on tensors of subclasses whole, if there is one.
pub type Claims<'a> = dyn Fn(&BoundSymbol) -> Option<&'static str> + 'a;

/// The program on fields. Its inputs and outputs are plain already, because acquisition takes them apart.
///
/// # Errors
/// E730 in debug builds, also for an input or output of a subclass.
pub fn unroll(trace: &Trace, claims: &Claims) -> Result<Trace, Error> {
    if !has_subclasses(trace) {
        return Ok(trace.clone());
    }
    let started = Instant::now();
    let mut unroll = Unroll {
        arena: &trace.arena,
        claims,
        redirect: Redirect::default(),
        fields: FxHashMap::default(),
        made: FxHashSet::default(),
        lines: Vec::new(),
    };
    trace.lines.iter().try_for_each(|line| unroll.line(line))?;
    let Unroll { redirect, lines, .. } = unroll;
    let outputs: Vec<ProxyId> = trace.outputs.iter().map(|p| redirect.get(*p)).collect();
    let mut source = trace.clone();
    source.epilogue.iter_mut().for_each(|w| w.value = redirect.get(w.value));
    super::finish(&source, "unroll", started, lines, &outputs)
}

struct Unroll<'a> {
    arena: &'a Arena,
    claims: &'a Claims<'a>,
    redirect: Redirect,
    /// The fields of tensors that were made of fields.
    fields: FxHashMap<ProxyId, Vec<ProxyId>>,
    /// The values that bodies made so far.
    made: FxHashSet<ProxyId>,
    lines: Vec<Rc<BoundSymbol>>,
}

impl Unroll<'_> {
    /// The body. If the line is a copy of another (because it runs again, or belongs to a custom backward), the body
    /// gets lines and values of its own, at the place of the copy.
    fn own(&mut self, line: &BoundSymbol, body: &Rc<Body>) -> Rc<Body> {
        let body = if body.made().any(|p| self.made.contains(&p)) {
            let Body { lines, outs, decomposed } = body.copy(self.arena);
            let here = |inner: &Rc<BoundSymbol>| {
                Rc::new(BoundSymbol {
                    region: line.region,
                    place: Place { role: line.place.role, ..inner.place },
                    own_tags: inner.own_tags.union(line.own_tags),
                    ..(**inner).clone()
                })
            };
            Rc::new(Body { lines: lines.iter().map(here).collect(), outs, decomposed })
        } else {
            body.clone()
        };
        self.made.extend(body.made());
        body
    }

    fn line(&mut self, line: &Rc<BoundSymbol>) -> Result<(), Error> {
        let line = self.redirect.apply(line);
        match (line.symbol.port(), &line.dispatch) {
            (Some((_, Port::Unflatten)), _) => {
                let mut fields = Vec::new();
                line.for_each_arg(|p| fields.push(p));
                self.fields.insert(line.outs[0], fields);
            }
            (Some((_, Port::Flatten)), _) => {
                let of =
                    line.args.first().and_then(|a| if let Value::Tensor(p) = a { self.fields.get(p) } else { None });
                match of.cloned() {
                    Some(fields) => {
                        line.outs.iter().zip(fields).for_each(|(out, field)| self.redirect.insert(*out, field));
                    }
                    None => self.lines.push(line),
                }
            }
            (_, Some(body)) => match (self.claims)(&line) {
                Some(executor) => self.claimed(&line, executor)?,
                None => {
                    let body = self.own(&line, body);
                    let rule = self.rule_of(&line);
                    for inner in inline(&line, &body, &mut self.redirect) {
                        let ruled_by = inner.ruled_by.or(rule);
                        self.line(&Rc::new(BoundSymbol { ruled_by, ..(*inner).clone() }))?;
                    }
                }
            },
            (_, None) => self.lines.push(line),
        }
        Ok(())
    }

    /// The class whose rule is the body of a line.
    fn rule_of(&self, line: &BoundSymbol) -> Option<&'static str> {
        let mut class = None;
        let ty = |p: ProxyId| self.arena.with_ty(p, |ty| ty.subclass().map(|layout| layout.class.text.class));
        line.for_each_arg(|p| class = class.or_else(|| ty(p)));
        class
    }

    /// The line on the fields of its arguments and results, without a body, as its executor runs it.
    fn claimed(&mut self, line: &BoundSymbol, executor: &'static str) -> Result<(), Error> {
        let mut ins = Vec::new();
        line.for_each_arg(|p| self.plain(p, &mut ins));
        let mut outs = Vec::new();
        for out in &line.outs {
            let fields = self.made(*out);
            self.plain_made(*out, &fields, &mut outs);
        }
        let types = |of: &[ProxyId]| of.iter().filter_map(|p| self.arena.tensor_ty(*p)).collect::<Vec<_>>();
        let symbol = outer::claimed(line.symbol, &types(&ins), &types(&outs))?;
        let args: Vec<Value<ProxyId>> = ins.iter().map(|p| Value::Tensor(*p)).collect();
        let solved = Arc::new(signature::solve(symbol.row(), &args, &|p: &ProxyId| self.arena.arg_ty(*p))?);
        self.lines.push(Rc::new(BoundSymbol {
            symbol,
            args,
            outs,
            aux: Vec::new(),
            solved,
            claimed_by: Some(executor),
            dispatch: None,
            body: Default::default(),
            ..line.clone()
        }));
        Ok(())
    }

    /// The plain tensors of which a value is made.
    fn plain(&self, p: ProxyId, into: &mut Vec<ProxyId>) {
        match self.fields.get(&p) {
            Some(fields) => fields.iter().for_each(|f| self.plain(*f, into)),
            None => into.push(p),
        }
    }

    fn plain_made(&self, p: ProxyId, fields: &[ProxyId], into: &mut Vec<ProxyId>) {
        match fields {
            [] => into.push(p),
            fields => fields.iter().for_each(|f| self.plain(*f, into)),
        }
    }

    /// New values for the fields of a result; none for a plain one.
    fn made(&mut self, p: ProxyId) -> Vec<ProxyId> {
        let ty = self.arena.ty(p);
        let Some(layout) = ty.subclass() else { return Vec::new() };
        let name = self.arena.name(p);
        let field =
            |(field, t): &(Name, TensorType)| self.arena.proxy(&format!("{name}.{field}"), ProxyTy::Tensor(t.clone()));
        let fields: Vec<ProxyId> = layout.fields.iter().map(field).collect();
        for field in &fields {
            self.made(*field);
        }
        self.fields.insert(p, fields.clone());
        fields
    }
}
