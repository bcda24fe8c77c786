//! Forward mode: adds tangents to the values.
//!
//! A row's `jvp` rule is used first. The tangent of a pointwise row is the sum of its VJP rules with tangents in the
//! place of the cotangent, because a pointwise derivative is its own transpose. A composite is differentiated through
//! its body. For any other row, the VJP is transposed by differentiating its lines by the cotangent, in which they are
//! linear.

use super::activity::{Activity, LineRole, proxies};
use super::control;
use super::custom_vjp::{self, Own};
use super::dce::live;
use super::inline::{self, Mode, Redirect};
use super::pullback::{Pullback, Style, with_aux};
use super::rules::{self, Site};
use super::vjp::{Cotangent, reverse};
use crate::bind::{Builder, Context};
use crate::error::{Error, ErrorKind};
use crate::trace::verify;
use crate::trace::*;
use fulgurite_core::{Scalar, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::time::Instant;

/// A trace with values and tangents.
#[derive(Clone, Debug)]
pub struct Jvp {
    /// The trace. Its inputs are those of the original, then one tangent per value of `wrt`. Its outputs are the
    /// values, then the tangents that are not zero.
    pub trace: Trace,
    /// For each output of the original, the output that is its tangent; `None` if that is zero.
    pub tangents: Vec<Option<usize>>,
}

impl Jvp {
    /// The tangent of output number `i`.
    pub fn tangent(&self, i: usize) -> Cotangent {
        self.tangents[i].map_or(Cotangent::Zero, |at| Cotangent::Value(self.trace.outputs[at]))
    }
}

/// Adds tangents to `trace`, for tangents of `wrt`.
///
/// # Errors
/// E711 if there is neither a rule nor a transpose, and E712 if `wrt` has a value that is not a float tensor.
pub fn jvp(trace: &Trace, wrt: &[ProxyId]) -> Result<Jvp, Error> {
    let started = Instant::now();
    let arena = &trace.arena;
    if let Some(p) = wrt.iter().find(|p| !arena.is_float(**p)) {
        let (value, ty) = (arena.name(*p).to_string(), trace.ty(*p).to_string());
        let error = Error::new("E712", format!("`{value}` is {ty}, which has no tangent"));
        return Err(error.kind_is(ErrorKind::NotDifferentiable { value, ty }));
    }
    super::once::check(trace, wrt, trace.outputs.iter().copied())?;
    let mut redirect = Redirect::default();
    let lines = inline::active(arena, trace.root, &trace.lines, wrt, Mode::Forward, &mut redirect)?;
    let outputs: Vec<ProxyId> = trace.outputs.iter().map(|p| redirect.get(*p)).collect();
    let activity = Activity::sweep(arena, trace.root, &lines, wrt, &outputs);
    let mut b = Builder::continuing(trace);
    let mut tangents = FxHashMap::default();
    for p in wrt {
        let t = b.input(&format!("t.{}", arena.name(*p)), arena.ty(*p));
        tangents.insert(*p, t);
    }
    let mut sweep = Forward { b, tangents, from: 0 };
    for line in &lines {
        match activity.vjp_role(line) {
            LineRole::Active { in_mask, out_mask } if out_mask.contains(&true) => {
                if sweep.control(line)? {
                    continue;
                }
                let line = with_aux(arena, line, &in_mask);
                sweep.b.push(line.clone());
                sweep.line(&line, &in_mask)?;
            }
            // the line is constant, or only constants read it
            _ => sweep.b.push(line.clone()),
        }
    }
    let mut all = outputs.clone();
    let tangents = outputs.iter().map(|p| {
        all.push(*sweep.tangents.get(p)?);
        Some(all.len() - 1)
    });
    let tangents = tangents.collect();
    let mut made = sweep.b.finish(&all);
    made.epilogue = trace.epilogue.clone();
    made.epilogue.iter_mut().for_each(|w| w.value = redirect.get(w.value));
    made.adopt(trace, "jvp", started);
    verify::step(trace, &made)?;
    Ok(Jvp { trace: made, tangents })
}

/// Forward mode for the programs of lines.
fn forward(trace: &Trace, wrt: &[ProxyId]) -> Result<(Trace, Vec<Option<ProxyId>>), Error> {
    let Jvp { trace, tangents } = jvp(trace, wrt)?;
    let tangents = tangents.iter().map(|at| at.map(|at| trace.outputs[at])).collect();
    Ok((trace, tangents))
}

struct Forward {
    b: Builder,
    /// The tangents that are not zero.
    tangents: FxHashMap<ProxyId, ProxyId>,
    /// The number of the first line that was made for the current line.
    from: usize,
}

impl Forward {
    /// Records a line of control flow, together with its tangents. Returns whether it was one.
    fn control(&mut self, line: &Rc<BoundSymbol>) -> Result<bool, Error> {
        let context =
            Context { region: line.region, place: line.place, tags: line.own_tags.inherited(), origin: Some(line.id) };
        let before = std::mem::replace(&mut self.b.context, context);
        let made = control::tangents(&mut self.b, line, &self.tangents, forward);
        self.b.context = before;
        let Some(made) = made? else { return Ok(false) };
        self.tangents.extend(made);
        Ok(true)
    }

    fn line(&mut self, line: &Rc<BoundSymbol>, in_mask: &[bool]) -> Result<(), Error> {
        let active: Vec<usize> = (0..in_mask.len())
            .filter(|i| in_mask[*i] && proxies(&line.args[*i]).iter().any(|p| self.tangents.contains_key(p)))
            .collect();
        if active.is_empty() {
            return Ok(());
        }
        if line.dispatch.is_some() || line.symbol.port().is_some() {
            return Err(no_rule(line, active[0]).note("tensors of subclasses have no tangents yet"));
        }
        if let Some(reason) = &line.symbol.row().no_grad {
            return Err(no_rule(line, active[0]).note(format!("the row says: {reason}")));
        }
        // lines of a rule that may be differentiated only once are recognised by their role
        let role = if line.symbol.row().once.is_some() { Role::Backward } else { line.place.role };
        let context = Context {
            region: line.region,
            place: Place { role, ..line.place },
            tags: line.own_tags.inherited(),
            origin: Some(line.id),
        };
        let before = std::mem::replace(&mut self.b.context, context);
        self.from = self.b.lines().len();
        let done = self.tangents_of(line, &active);
        self.b.context = before;
        done
    }

    fn tangents_of(&mut self, line: &Rc<BoundSymbol>, active: &[usize]) -> Result<(), Error> {
        let row = line.symbol.row();
        let has_jvp = |i: &usize| row.jvp.iter().any(|(name, _)| *name == row.sig.params[*i].name.name);
        let (ruled, rest): (Vec<usize>, Vec<usize>) = active.iter().partition(|i| has_jvp(i));
        if line.symbol.own().is_some() {
            return self.transpose(line, active);
        }
        let has_vjp = |i: &usize| line.symbol.vjp_rule(row.sig.params[*i].name.name).is_some();
        if rest.is_empty() || row.is_pointwise() && rest.iter().all(has_vjp) {
            self.by_rules(line, &ruled)?;
            return self.pointwise(line, &rest);
        }
        match rest.iter().find(|i| !has_vjp(i)) {
            Some(i) if row.is_pointwise() => Err(no_rule(line, *i)),
            _ => self.transpose(line, active),
        }
    }

    /// Applies the row's `jvp` rules, one value per result and argument.
    fn by_rules(&mut self, line: &Rc<BoundSymbol>, active: &[usize]) -> Result<(), Error> {
        for &i in active {
            let t = line.args[i].map(&mut |p| self.tangents.get(p).copied());
            let made_from = self.b.arena().len();
            let Some(values) = rules::jvp(&mut self.b, line, i, optional(t))? else { continue };
            for (out, value) in line.outs.clone().into_iter().zip(flatten(values)) {
                self.add(out, value, made_from)?;
            }
        }
        Ok(())
    }

    /// Applies the VJP rules with the tangent in the place of the cotangent, because a pointwise derivative is its own
    /// transpose.
    fn pointwise(&mut self, line: &Rc<BoundSymbol>, active: &[usize]) -> Result<(), Error> {
        for &i in active {
            let Value::Tensor(p) = line.args[i] else { continue };
            let Some(t) = self.tangents.get(&p).copied() else { continue };
            let arena = self.b.arena().clone();
            for (o, out) in line.outs.iter().enumerate().filter(|(_, o)| arena.is_float(**o)) {
                let mut flow = vec![None; line.outs.len()];
                flow[o] = Some(t);
                let made_from = self.b.arena().len();
                let site = Site { line, flow: &flow, tangents: true };
                if let Some(value) = rules::vjp(&mut self.b, site, i)? {
                    self.add(*out, value, made_from)?;
                }
            }
        }
        Ok(())
    }

    /// Transposes the VJP: its lines are linear in the cotangent, so their gradient by it is the tangent.
    fn transpose(&mut self, line: &Rc<BoundSymbol>, active: &[usize]) -> Result<(), Error> {
        let arena = self.b.arena().clone();
        for (o, out) in line.outs.iter().enumerate().filter(|(_, o)| arena.is_float(**o)) {
            let cotangent = arena.proxy("g", arena.ty(*out));
            let mut flow = vec![None; line.outs.len()];
            flow[o] = Some(cotangent);
            let start = self.b.lines().len();
            let mut ends = Vec::new();
            let site = Site { line, flow: &flow, tangents: false };
            let mut own = Own { tangents: true, reverse: Some(reverse), ..Own::default() };
            let found = custom_vjp::cotangents(&mut self.b, site, active, &mut own)?.map_err(|i| no_rule(line, i))?;
            for (i, value, _) in found {
                let pairs = proxies(&line.args[i]).into_iter().zip(flatten(vec![value]));
                ends.extend(pairs.filter_map(|(p, v)| match v {
                    Value::Tensor(v) => self.tangents.get(&p).map(|t| (v, *t)),
                    _ => None,
                }));
            }
            let linear = self.b.take_from(start);
            let values: Vec<ProxyId> = ends.iter().map(|(v, _)| *v).collect();
            let mut redirect = Redirect::default();
            let root = self.b.root();
            let linear = inline::active(&arena, root, &linear, &[cotangent], Mode::Reverse(&values), &mut redirect)?;
            let values: Vec<ProxyId> = values.into_iter().map(|v| redirect.get(v)).collect();
            let activity = Activity::sweep(&arena, root, &linear, &[cotangent], &values);
            linear.iter().for_each(|l| self.b.push(l.clone()));
            let made_from = arena.len();
            let mut pullback = Pullback::new(&mut self.b, activity, Style::tangent(), Some(reverse));
            for (value, (_, t)) in values.into_iter().zip(&ends) {
                pullback.add(value, *t)?;
            }
            pullback.run(&linear)?;
            let found = pullback.cotangent(cotangent);
            // the VJP's own lines are removed, except for those that the transpose reads
            let recorded = self.b.take_from(start);
            let needed = live(&recorded, found.into_iter(), &|_| false);
            let mut reads_cotangent = false;
            needed.iter().for_each(|l| l.for_each_arg(|p| reads_cotangent |= p == cotangent));
            if reads_cotangent && line.symbol.own().is_some() {
                let claim = "a function's own backward is not linear in the cotangent, so the function has no tangent";
                return Err(Error::new("E711", claim).at(line.place.loc));
            }
            if reads_cotangent {
                let claim = format!("the gradient rule of `{}` is not linear in its cotangent", line.symbol.name());
                return Err(Error::bug("E706", claim).at(line.place.loc));
            }
            needed.into_iter().for_each(|l| self.b.push(l));
            if let Some(found) = found {
                self.add(*out, Value::Tensor(found), made_from)?;
            }
        }
        Ok(())
    }

    /// The sum of two tangents. Quotients by one divisor are added before they are divided: if the divisor is 0, both
    /// quotients are infinite, while the sum of the dividends has a sign.
    fn sum(&mut self, a: ProxyId, b: ProxyId) -> Result<ProxyId, Error> {
        let shared = |p: ProxyId, q: ProxyId| {
            let ((x, d), (y, e)) = (self.quotient(p)?, self.quotient(q)?);
            (d == e).then_some((x, y, d))
        };
        let Some((x, y, divisor)) = shared(a, b) else { return self.b.add(a, b) };
        let dividend = self.b.add(x, y)?;
        self.b.div(dividend, divisor)
    }

    /// The dividend and the divisor, if a value made for the current line is a quotient of two tensors.
    fn quotient(&self, p: ProxyId) -> Option<(ProxyId, ProxyId)> {
        let line = self.b.lines()[self.from..].iter().find(|l| l.outs.contains(&p))?;
        match line.args.as_slice() {
            [Value::Tensor(x), Value::Tensor(y)] if line.symbol.facts().divides => Some((*x, *y)),
            _ => None,
        }
    }

    /// Adds to the tangent of a result, in the result's type.
    fn add(&mut self, out: ProxyId, value: Value<ProxyId>, made_from: usize) -> Result<(), Error> {
        let Some(want) = self.b.arena().tensor_ty(out) else { return Ok(()) };
        let t = match value {
            Value::Absent => return Ok(()),
            Value::Num(number) if number.as_f64() == 0.0 => return Ok(()),
            Value::Num(number) => self.b.full(&want, Scalar::Float(number.as_f64()))?,
            Value::Size(_) => self.b.filled(&want, value)?,
            Value::Tensor(p) => {
                let p = self.b.cast(p, want.dtype)?;
                self.b.expand(p, &want.shape)?
            }
            _ => return Err(Error::bug("E706", "a tangent rule yields no tensor")),
        };
        let sum = match self.tangents.get(&out) {
            Some(before) => self.sum(*before, t)?,
            None => t,
        };
        if sum.0 as usize >= made_from {
            let arena = self.b.arena();
            arena.rename(sum, &format!("t.{}", arena.name(out)));
        }
        self.tangents.insert(out, sum);
        Ok(())
    }
}

/// A list of tangents, absent where there is none.
fn optional(v: Value<Option<ProxyId>>) -> Value<ProxyId> {
    match v {
        Value::Tensor(t) => t.map_or(Value::Absent, Value::Tensor),
        Value::List(items) => Value::List(items.into_iter().map(optional).collect()),
        _ => Value::Absent,
    }
}

fn flatten(values: Vec<Value<ProxyId>>) -> Vec<Value<ProxyId>> {
    let spread = |v| match v {
        Value::List(items) => items,
        one => vec![one],
    };
    values.into_iter().flat_map(spread).collect()
}

fn no_rule(line: &BoundSymbol, i: usize) -> Error {
    let row = line.symbol.row();
    let input = row.sig.params[i].name.name;
    Error::new("E711", format!("`{}` has no tangent rule for `{input}`", row.op))
        .kind_is(ErrorKind::NoGradRule { op: row.op, input })
        .at(line.place.loc)
}
