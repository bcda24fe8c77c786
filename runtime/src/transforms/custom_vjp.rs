//! Gradients of functions with a custom backward: the lines recorded at the call are copied over the values at hand.
//!
//! Such a backward may read and write inputs of the program. It reads their values when it runs, which a joint trace
//! can't express for a forward that runs apart. So these values are inputs of the joint trace, and [`Joint::closed`]
//! replaces them where forward and backward run in one program.
//!
//! [`Joint::closed`]: super::vjp::Joint::closed

use super::activity::proxies;
use super::batched_rules;
use super::control;
use super::inline::Redirect;
use super::regions::Outside;
use super::rules::{Contribution, Site};
use super::subclass;
use crate::bind::{Builder, Context, rule_of};
use crate::error::{Error, ErrorKind};
use crate::symbol::Ports;
use crate::trace::tag::Event;
use crate::trace::*;
use fulgurite_core::Value;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Instant;

/// A write by a backward.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// The input of the forward.
    pub(super) input: usize,
    /// The value that is written.
    pub(super) value: ProxyId,
}

/// The reads and writes of custom backwards so far.
#[derive(Default)]
pub(super) struct Own {
    /// For each input of the forward that is read, the input of the joint trace.
    pub(super) variables: Vec<(usize, ProxyId)>,
    /// The writes, in order.
    pub(super) writes: Vec<Write>,
    /// Reverse mode, for the programs of lines.
    pub(super) reverse: Option<control::Reverse>,
    /// Whether tangents are computed; backwards have no variables then.
    pub(super) tangents: bool,
}

/// The cotangents of these parameters of a line, each with the number of the first value made for it; or the first
/// parameter without a rule.
///
/// # Errors
/// Reports errors of calls in rules.
pub(super) fn cotangents(
    b: &mut Builder,
    site: Site,
    active: &[usize],
    own: &mut Own,
) -> Result<Result<Vec<Contribution>, usize>, Error> {
    if let Some(ports) = site.line.symbol.own() {
        return own.cotangents(b, site, ports).map(Ok);
    }
    if site.line.symbol.is_control() {
        let none = || Error::bug("E709", "a program of a line has no reverse mode");
        let reverse = own.reverse.ok_or_else(none)?;
        let mut now = |b: &mut Builder, variable| match own.tangents {
            true => Err(no_tangent(site.line)),
            false => own.now(b, variable),
        };
        return control::cotangents(b, site, active, reverse, &mut now).map(Ok);
    }
    if let Some((_, port)) = site.line.symbol.port() {
        return subclass::port(b, site, port, active);
    }
    if let Some(grads) = subclass::grads(b.arena(), site.line) {
        return subclass::declared(b, site, active, grads);
    }
    let mut found = Vec::new();
    for i in as_declared(site.line, active) {
        let made_from = b.arena().len();
        match batched_rules::vjp(b, site, i)? {
            Some(value) => found.push((i, value, made_from)),
            None => return Ok(Err(i)),
        }
    }
    Ok(Ok(found))
}

/// The parameters in the order of the row's rules. In a second derivative, contributions to one value are added in the
/// opposite order, and rounding shows the order where they cancel.
fn as_declared(line: &BoundSymbol, active: &[usize]) -> Vec<usize> {
    let row = line.symbol.row();
    let place = |i: &usize| {
        let name = row.sig.params[*i].name.name;
        row.vjp.iter().position(|(arg, _)| *arg == name).unwrap_or(row.vjp.len())
    };
    let mut params = active.to_vec();
    params.sort_by_key(place);
    params
}

impl Own {
    /// The cotangents of a function's arguments, each with the number of the first value made for it.
    ///
    /// # Errors
    /// E711 and E718.
    pub(super) fn cotangents(
        &mut self,
        b: &mut Builder,
        site: Site,
        ports: Ports,
    ) -> Result<Vec<(usize, Value<ProxyId>, usize)>, Error> {
        let line = site.line;
        let rule = rule_of(b.arena(), line)?;
        let group = |from: usize| line.args[from..].iter().map(proxies).filter_map(|p| p.first().copied());
        // a kept result is read as the line's own, whose derivative is this backward
        let results = || line.args.iter().map(proxies).zip(&line.outs).take(ports.outs);
        let own = |kept: ProxyId| results().find(|(arg, _)| arg.first() == Some(&kept)).map_or(kept, |(_, out)| *out);
        let kept: Vec<ProxyId> = group(ports.outs + ports.ins).take(ports.kept).map(own).collect();
        let names: Vec<ProxyId> = group(ports.outs + ports.ins + ports.kept).take(ports.variables).collect();
        if self.tangents && !names.is_empty() {
            return Err(no_tangent(line));
        }
        let writes = rule.writes.iter().filter(|_| !self.tangents);
        let writes = writes.map(|(j, value)| Ok((written_input(b, line, names.get(*j))?, *value)));
        let writes = writes.collect::<Result<Vec<_>, Error>>()?;
        let made_from = b.arena().len();
        let mut read: FxHashSet<ProxyId> = rule.grads.iter().flatten().copied().collect();
        read.extend(rule.writes.iter().map(|(_, value)| *value));
        rule.lines.iter().for_each(|l| l.for_each_arg(|p| _ = read.insert(p)));
        let mut map: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
        for (proxy, input) in rule.inputs.iter().filter(|(proxy, _)| read.contains(proxy)) {
            let value = match *input {
                OwnInput::Kept(i) => kept.get(i).copied(),
                OwnInput::Cotangent(o) => match (site.flow.get(o).copied().flatten(), line.outs.get(o)) {
                    (Some(flow), _) => Some(flow),
                    (None, Some(out)) => b.zero_cotangent(*out)?,
                    (None, None) => None,
                },
                OwnInput::Variable(j) => names.get(j).map(|name| self.now(b, *name)).transpose()?,
            };
            let lost = || Error::bug("E706", "a function's own backward lost an argument");
            map.insert(*proxy, value.ok_or_else(lost)?);
        }
        copy(b, &rule, &mut map)?;
        let to = |p: ProxyId| map.get(&p).copied().unwrap_or(p);
        self.writes.extend(writes.into_iter().map(|(input, value)| Write { input, value: to(value) }));
        let grads = rule.grads.iter().enumerate();
        Ok(grads.filter_map(|(i, g)| Some((ports.outs + i, Value::Tensor(to((*g)?)), made_from))).collect())
    }

    /// The present value of a variable. An input of the program is read when the backward runs, and so is a view of one,
    /// as a batch makes of it. Any other value was made before the call, and does not change.
    ///
    /// # Errors
    /// Reports errors of binding.
    fn now(&mut self, b: &mut Builder, variable: ProxyId) -> Result<ProxyId, Error> {
        if let Some(input) = input_of(b, variable) {
            return Ok(self.input_now(b, input));
        }
        let maker = b.lines().iter().find(|l| l.outs.contains(&variable)).cloned();
        let Some(view) = maker.filter(|l| l.symbol.is_view()) else { return Ok(variable) };
        let mut present = FxHashMap::default();
        for of in view.args.iter().flat_map(proxies) {
            present.insert(of, self.now(b, of)?);
        }
        if present.iter().all(|(of, now)| of == now) {
            return Ok(variable);
        }
        let again = b.bind_again(&view, |p| present.get(&p).copied().unwrap_or(p))?;
        let at = view.outs.iter().position(|out| *out == variable);
        at.and_then(|at| again.outs.get(at).copied()).ok_or_else(|| Error::bug("E706", "a view lost a result"))
    }

    /// The present value of an input.
    fn input_now(&mut self, b: &mut Builder, input: usize) -> ProxyId {
        if let Some(write) = self.writes.iter().rev().find(|w| w.input == input) {
            return write.value;
        }
        if let Some((_, proxy)) = self.variables.iter().find(|(i, _)| *i == input) {
            return *proxy;
        }
        let (of, path) = (b.inputs()[input].proxy, b.inputs()[input].path.clone());
        let ty = b.arena().ty(of);
        let proxy = b.input(&format!("{path}@now"), ty);
        self.variables.push((input, proxy));
        proxy
    }
}

fn no_tangent(line: &BoundSymbol) -> Error {
    Error::new("E711", "a function whose own backward reads or writes variables has no tangent")
        .help("take the gradient, or write the function without variables")
        .at(line.place.loc)
}

fn input_of(b: &Builder, variable: ProxyId) -> Option<usize> {
    b.inputs().iter().position(|input| input.proxy == variable)
}

/// The input of the program that a backward writes.
///
/// # Errors
/// E718 if the variable stands for no input.
fn written_input(b: &Builder, line: &BoundSymbol, variable: Option<&ProxyId>) -> Result<usize, Error> {
    let variable = *variable.ok_or_else(|| Error::bug("E706", "a function's own backward lost a variable"))?;
    input_of(b, variable).ok_or_else(|| {
        let value = b.arena().name(variable).to_string();
        let claim = format!("a backward writes to `{value}`, which is made in what is differentiated");
        let kind = ErrorKind::BackwardWriteToIntermediate { value, line: String::new() };
        Error::new("E718", claim).kind_is(kind).at(line.place.loc)
    })
}

/// The inputs that the custom backward of a line writes, in the names of the line.
pub fn written(arena: &Arena, line: &BoundSymbol) -> Vec<ProxyId> {
    let (Some(ports), Ok(rule)) = (line.symbol.own(), rule_of(arena, line)) else { return Vec::new() };
    let variables = &line.args[ports.outs + ports.ins + ports.kept..];
    rule.writes.iter().filter_map(|(j, _)| variables.get(*j).and_then(|v| proxies(v).first().copied())).collect()
}

/// The trace without the lines that only attach a custom backward to a function, for programs that are not
/// differentiated any more.
///
/// # Errors
/// E730 in debug builds.
pub fn settle(trace: &Trace) -> Result<Trace, Error> {
    let started = Instant::now();
    let trace = &control::settled(trace, settle)?;
    if trace.lines.iter().all(|l| l.symbol.own().is_none()) {
        return Ok(trace.clone());
    }
    let mut redirect = Redirect::default();
    let mut lines = Vec::with_capacity(trace.lines.len());
    for line in &trace.lines {
        if line.symbol.own().is_none() {
            lines.push(redirect.apply(line));
            continue;
        }
        for (out, arg) in line.outs.iter().zip(&line.args) {
            let Value::Tensor(arg) = arg else { continue };
            let tags = trace.arena.tags(*out).union(trace.arena.tags(*arg));
            trace.arena.set_tags(*arg, tags);
            redirect.insert(*out, *arg);
        }
    }
    let mut source = trace.clone();
    source.epilogue.iter_mut().for_each(|w| w.value = redirect.get(w.value));
    let outputs: Vec<ProxyId> = trace.outputs.iter().map(|p| redirect.get(*p)).collect();
    super::finish(&source, "settle", started, lines, &outputs)
}

/// Records the rule's lines over other values; `map` has the first of these. Lines whose values have other types than
/// at recording are bound again, because a cotangent may be divided otherwise.
///
/// # Errors
/// Reports errors of binding.
fn copy(b: &mut Builder, rule: &OwnRule, map: &mut FxHashMap<ProxyId, ProxyId>) -> Result<(), Error> {
    let arena = b.arena().clone();
    // regions around the call of the function do not matter, but regions in its backward that set gradient modes do
    let inner = |kind: &RegionKind| matches!(kind, RegionKind::NoGrad | RegionKind::EnableGrad | RegionKind::Named(_));
    let mut regions = Outside::new(rule.root, inner, Event::Replace);
    let context = b.context.clone();
    for of in &rule.lines {
        let mut other = false;
        of.for_each_arg(|p| {
            other |= map.get(&p).is_some_and(|to| arena.ty(*to).subclass() != arena.ty(p).subclass());
        });
        let region = if of.region == rule.root { context.region } else { regions.of(&arena, of.region) };
        let place = Place { loc: of.place.loc, role: context.place.role };
        let tags = of.own_tags.union(context.tags);
        if other {
            let at = Context { region, place, tags, origin: context.origin };
            let line = b.in_context(at, |b| b.bind_again(of, |p| map.get(&p).copied().unwrap_or(p)))?;
            map.extend(of.outs.iter().chain(&of.aux).copied().zip(line.outs.iter().chain(&line.aux).copied()));
            continue;
        }
        let mut make = |p: &ProxyId| {
            let new = arena.proxy(&arena.name(*p), arena.ty(*p));
            map.insert(*p, new);
            new
        };
        let outs = of.outs.iter().map(&mut make).collect();
        let aux = of.aux.iter().map(&mut make).collect();
        let mut to = |p: ProxyId| map.get(&p).copied().unwrap_or(p);
        let args = of.args.iter().map(|a| a.map(&mut |p| to(*p))).collect();
        let dispatch = of.dispatch.as_ref().map(|body| Rc::new(body.remap(&mut to)));
        b.push(Rc::new(BoundSymbol {
            id: arena.next_line(of.symbol),
            args,
            outs,
            aux,
            region,
            own_tags: tags,
            place,
            origin: context.origin,
            merged: Vec::new(),
            claimed_by: None,
            ruled_by: None,
            body: OnceCell::new(),
            dispatch,
            ..(**of).clone()
        }));
    }
    Ok(())
}
