//! Binding, the one way into a trace: every operator call of a user, a decomposition, a gradient rule or a transform is
//! bound here.
//!
//! Binding resolves the overload, offers the call to subclass dispatch, solves the signature (sizes, promotion,
//! refusals, result types) and records one bound symbol at the builder's current region, place and tags. A [`Builder`]
//! is a trace under construction; it is also the [`Machine`](fulgurite_core::eval::tensor::Machine) that runs rules.

mod autocast;
mod body;
mod builder;
mod calls;
mod control;
mod copies;
mod custom_vjp;
mod dispatch;
mod layouts;
mod lists;
mod machine;
mod placed;
mod read;
mod refusal;
mod rewriter;
mod solved;
pub mod symbolic;

pub use body::body_of;
pub(crate) use builder::value_name;
pub use builder::{Builder, Context};
pub use control::{control_of, copied};
pub use custom_vjp::rule_of;
pub use dispatch::Ruled;
pub(crate) use dispatch::fields_of;
pub use placed::collectives;
pub use refusal::may_refuse;
pub use rewriter::Rewriter;
pub use symbolic::SymbolicTrace;

use crate::error::{Error, ErrorKind};
use crate::symbol::{self, Port, SymbolRef};
use crate::tensor::dtype_of_number;
use crate::trace::*;
use fulgurite_core::lang::ast::Access;
use fulgurite_core::loc::Loc;
use fulgurite_core::signature::{self, OutTy, Refusal, Solved};
use fulgurite_core::{Dim, Name, Named, TensorTy, Value};
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// A call that its signature accepts and that is not recorded yet.
#[derive(Clone, Debug)]
pub struct AcceptedCall {
    /// The row, with its overload resolved.
    pub symbol: SymbolRef,
    /// One value per parameter and option.
    pub args: Vec<Value<ProxyId>>,
    /// The sizes, dtypes and options that the signature bound.
    pub solved: Arc<Solved>,
}

/// Chooses the proxies of results, by position (auxiliary results continue the count), a hint for the name, and the
/// type.
pub(crate) type MakeOut<'a> = dyn FnMut(usize, &str, ProxyTy) -> Result<ProxyId, Error> + 'a;

impl Builder {
    /// Binds a call of `symbol` (or of an overload of it) written at `loc`. `args` has one value per parameter and
    /// option in signature order; absent ones at the end may be left out. Returns the results, with lists flattened,
    /// then the new version of each written argument.
    ///
    /// # Errors
    /// E701 to E706 if no overload accepts the call, and E707 if its tensors are on different devices.
    pub fn bind(&mut self, symbol: SymbolRef, args: Vec<Value<ProxyId>>, loc: Loc) -> Result<Vec<ProxyId>, Error> {
        self.context.place.loc = loc;
        let (symbol, args) = if lists::is_long(&args) { lists::in_parts(self, symbol, args)? } else { (symbol, args) };
        let call = match self.casts {
            None => self.accept(symbol, args)?,
            // an argument that autocast made may be refused beside another one, until that is cast as well
            Some(_) => match self.accept(symbol, args.clone()) {
                Ok(call) => call,
                Err(refused) => match self.autocast(symbol, &args)?.map(|args| self.accept(symbol, args)) {
                    Some(Ok(call)) => call,
                    _ => return Err(refused),
                },
            },
        };
        Ok(self.record(call)?.outs.clone())
    }

    /// Binds a call of the row `op` (or of an overload) with positional and named arguments, at the builder's place.
    ///
    /// # Errors
    /// The errors of [`Builder::bind`]; E710 for a name that no linked database has.
    pub fn call_row(
        &mut self,
        op: Name,
        positional: Vec<Value<ProxyId>>,
        named: Vec<Named<ProxyId>>,
    ) -> Result<Rc<BoundSymbol>, Error> {
        if lists::is_long(&positional)
            && let Some(symbol) = symbol::find(op)
            && let Ok(args) = signature::arrange(symbol.row(), positional.clone(), named.clone())
        {
            let (symbol, args) = lists::in_parts(self, symbol, args)?;
            let call = self.accept(symbol, args)?;
            return self.record(call);
        }
        let call = self.resolve(op, positional, named)?;
        self.record(call)
    }

    /// The overload of `op` that accepts these arguments, with its result types; nothing is recorded.
    ///
    /// # Errors
    /// Reports the errors of [`Builder::call_row`].
    pub fn resolve(
        &self,
        op: Name,
        positional: Vec<Value<ProxyId>>,
        named: Vec<Named<ProxyId>>,
    ) -> Result<AcceptedCall, Error> {
        let candidates = symbol::candidates(op);
        let mut first: Option<Error> = None;
        for symbol in &candidates {
            let arranged = signature::arrange(symbol.row(), positional.clone(), named.clone());
            let accepted = match arranged {
                Ok(args) => self.solve(symbol, args),
                Err(refusal) => Err(self.refused(refusal, symbol, &positional)),
            };
            match accepted {
                Ok(call) => return Ok(call),
                Err(error) => _ = first.get_or_insert(error),
            }
        }
        let error = first.unwrap_or_else(|| unknown(op));
        Err(note_overloads(error, &candidates).at(self.context.place.loc))
    }

    /// Like [`Builder::resolve`], from a symbol and arguments in its order.
    fn accept(&self, symbol: SymbolRef, mut args: Vec<Value<ProxyId>>) -> Result<AcceptedCall, Error> {
        let wanted = symbol.row().sig.params.len() + symbol.row().sig.opts.len();
        if args.len() < wanted {
            args.resize(wanted, Value::Absent);
        }
        let error = match self.solve(symbol, args.clone()) {
            Ok(call) => return Ok(call),
            Err(error) => error,
        };
        while args.last().is_some_and(Value::is_absent) {
            args.pop();
        }
        let candidates = symbol::candidates(Name::new(symbol.name()));
        for overload in candidates.iter().filter(|s| !std::ptr::eq(**s, symbol)) {
            if let Ok(args) = signature::arrange(overload.row(), args.clone(), Vec::new())
                && let Ok(call) = self.solve(overload, args)
            {
                return Ok(call);
            }
        }
        Err(note_overloads(error, &candidates).at(self.context.place.loc))
    }

    /// Solves the signature.
    pub(crate) fn solve(&self, symbol: SymbolRef, mut args: Vec<Value<ProxyId>>) -> Result<AcceptedCall, Error> {
        let row = symbol.row();
        for (param, arg) in row.sig.params.iter().zip(&mut args) {
            if param.access == Access::Like {
                self.forget_value(arg);
            } else if has_type(arg) {
                let name = param.name.name;
                return Err(Error::new("E706", format!("`{}`: of `{name}` only the type is known", row.op)));
            }
        }
        let options = row.sig.opts.iter().zip(args.iter().skip(row.sig.params.len()));
        if let Some((option, _)) = options.into_iter().find(|(_, arg)| self.has_subclass(arg)) {
            let name = option.name.name;
            let claim = format!("`{}`: `{name}` is an option, a tensor of a subclass was given", row.op);
            return Err(Error::new("E702", claim));
        }
        match solved::solve(symbol, &args, self.arena()) {
            Ok(solved) => Ok(AcceptedCall { symbol, args, solved }),
            Err(refusal) => Err(self.refused(refusal, symbol, &args)),
        }
    }

    /// Keeps only the type of a `like` argument, so that its value is not kept alive.
    fn forget_value(&self, arg: &mut Value<ProxyId>) {
        match arg {
            Value::Tensor(p) => {
                if let Some(ty) = self.arena().tensor_ty(*p) {
                    *arg = Value::Type(ty);
                }
            }
            Value::List(items) => items.iter_mut().for_each(|i| self.forget_value(i)),
            _ => {}
        }
    }

    /// Records an accepted call with new proxies for its results.
    ///
    /// # Errors
    /// E707, and errors of making a body if the result types come from it.
    pub fn record(&mut self, call: AcceptedCall) -> Result<Rc<BoundSymbol>, Error> {
        let call = match self.autocast(call.symbol, &call.args)? {
            Some(args) => self.accept(call.symbol, args)?,
            None => call,
        };
        let call = self.with_tensor_fields(call)?;
        let arena = self.arena().clone();
        self.record_as(call, false, &mut |_, hint, ty| Ok(arena.proxy(hint, ty)))
    }

    /// A call that makes a tensor of a subclass, with tensors in the place of numbers, because fields are tensors.
    fn with_tensor_fields(&mut self, mut call: AcceptedCall) -> Result<AcceptedCall, Error> {
        if !matches!(call.symbol.port(), Some((_, Port::Unflatten))) {
            return Ok(call);
        }
        let mut changed = false;
        for (field, arg) in call.symbol.row().sig.params.iter().zip(&mut call.args) {
            if let (Value::Num(_) | Value::Size(_), Some(dtype)) = (&arg, dtype_of_number(field)) {
                *arg = Value::Tensor(self.filled(&TensorTy::new::<Dim>(dtype, &[]), arg.clone())?);
                changed = true;
            }
        }
        if changed { self.accept(call.symbol, call.args) } else { Ok(call) }
    }

    /// Records a line again on values of other types; `to` are the values that it reads.
    ///
    /// # Errors
    /// Reports the errors of [`Builder::bind`].
    pub(crate) fn bind_again(
        &mut self,
        line: &BoundSymbol,
        mut to: impl FnMut(ProxyId) -> ProxyId,
    ) -> Result<Rc<BoundSymbol>, Error> {
        let args = line.args.iter().map(|arg| arg.map(&mut |p: &ProxyId| to(*p))).collect();
        let call = self.solve(line.symbol, args).map_err(|e| e.at(line.place.loc))?;
        let arena = self.arena().clone();
        self.record_as(call, !line.aux.is_empty(), &mut |_, hint, ty| Ok(arena.proxy(hint, ty)))
    }

    /// Records an accepted call with the proxies that `make` returns, and its auxiliary results if wanted.
    pub(crate) fn record_as(
        &mut self,
        call: AcceptedCall,
        aux: bool,
        make: &mut MakeOut,
    ) -> Result<Rc<BoundSymbol>, Error> {
        let AcceptedCall { symbol, args, solved } = call;
        let row = symbol.row();
        let device = self.device(symbol, &args)?;
        let mut line = BoundSymbol {
            id: self.arena().next_line(symbol),
            symbol,
            args,
            outs: Vec::new(),
            dead: 0,
            aux: Vec::new(),
            solved,
            region: self.context.region,
            own_tags: self.context.tags,
            place: self.context.place,
            merged: Vec::new(),
            origin: self.context.origin,
            claimed_by: None,
            ruled_by: None,
            effects: Effects::default(),
            dispatch: None,
            body: Default::default(),
        };
        line.effects.random = row.takes_key() && !row.is_composite();
        let written = row.sig.params.iter().enumerate().filter(|(i, p)| p.access == Access::Mut && is_given(&line, *i));
        line.effects.writes = written.map(|(i, _)| i).collect();
        let subclassed = line.args.iter().any(|arg| self.has_subclass(arg));
        if !subclassed && line.solved.outs.iter().chain(&line.solved.aux).any(|o| *o == OutTy::FromBody) {
            body::type_from_body(self.arena(), &mut line)?;
        }
        let dispatched = match symbol.own() {
            Some(ports) if subclassed => Some(self.handed_on(&mut line, ports)),
            None if subclassed || symbol.port().is_some() || line.body.get().is_some() => self.dispatch(&mut line)?,
            _ => None,
        };
        let aux = aux && (dispatched.is_none() || !line.solved.aux.is_empty());
        let tensor = |ty: &TensorTy| {
            ProxyTy::Tensor(TensorType { ty: ty.clone(), device, requires_grad: false, subclass: None })
        };
        let (mut outs, mut extra) = (Vec::new(), Vec::new());
        let mut at = 0;
        for (i, ty) in line.solved.outs.iter().enumerate() {
            let name = self.hint(&line, i);
            for ty in ty.tensors() {
                let ty = dispatched.as_ref().map_or_else(|| tensor(ty), |types| types[at].clone());
                outs.push(make(at, &name, ty)?);
                at += 1;
            }
        }
        for &i in &line.effects.writes {
            let Value::Tensor(old) = line.args[i] else { continue };
            let name = self.arena().name(old);
            let base = name.split('@').next().unwrap_or(&name);
            let new = make(at, &format!("{base}@{}", self.count_version(old)), self.arena().ty(old))?;
            self.arena().set_tags(new, self.arena().tags(new).union(self.arena().tags(old).at_write()));
            outs.push(new);
            at += 1;
        }
        if aux {
            for (out, ty) in row.sig.aux.iter().zip(&line.solved.aux) {
                for ty in ty.tensors() {
                    let ty = dispatched.as_ref().map_or_else(|| tensor(ty), |types| types[at].clone());
                    extra.push(make(at, hint(symbol, out.name.name), ty)?);
                    at += 1;
                }
            }
        }
        (line.outs, line.aux) = (outs, extra);
        if dispatched.is_some() {
            self.arena().note_parts(&line);
        }
        self.note_versions(&line);
        let line = Rc::new(line);
        self.push(line.clone());
        Ok(line)
    }

    /// The name of result `i` of a line, unless it has another one.
    fn hint(&self, line: &BoundSymbol, i: usize) -> Cow<'static, str> {
        let (symbol, first) = (line.symbol, line.args.first());
        let arg = if let Some(Value::Tensor(p)) = first { Some(self.arena().name(*p)) } else { None };
        match (symbol.port(), line.solved.outs.get(i)) {
            (Some((class, Port::Flatten)), _) => {
                let of = arg.as_deref().unwrap_or_default().to_owned();
                let layout =
                    first.and_then(|p| if let Value::Tensor(p) = p { Some(self.arena().ty(*p)) } else { None });
                let field = layout.as_ref().and_then(|ty| Some(ty.subclass()?.fields.get(i)?.0));
                field.map_or_else(|| class.text.class.into(), |field| format!("{of}.{field}").into())
            }
            (Some((class, Port::Unflatten)), _) => {
                let field = class.rules().fields().next().map_or("", |f| f.as_str());
                let of = arg.as_deref().and_then(|name| name.strip_suffix(field)?.strip_suffix('.'));
                of.map_or_else(|| class.text.class.to_lowercase(), str::to_owned).into()
            }
            _ => hint(symbol, symbol.row().sig.outs.get(i).map_or(Name::new("out"), |out| out.name.name)).into(),
        }
    }

    fn has_subclass(&self, arg: &Value<ProxyId>) -> bool {
        let mut has = false;
        arg.for_each(&mut |p| has |= self.arena().with_ty(*p, |ty| ty.subclass().is_some()));
        has
    }

    /// The device of the results, which is that of the tensors. A tensor of rank 0 in host memory fits any device.
    fn device(&self, symbol: SymbolRef, args: &[Value<ProxyId>]) -> Result<Device, Error> {
        let mut found: Option<(ProxyId, Device)> = None;
        let mut clash = None;
        for arg in args {
            arg.for_each(&mut |p| {
                let ProxyTy::Tensor(t) = self.arena().ty(*p) else { return };
                match found {
                    Some((_, device)) if device == t.device => {}
                    _ if t.device == Device::Cpu && t.ty.rank() == 0 => {}
                    None => found = Some((*p, t.device)),
                    Some(first) => clash = Some((first, (*p, t.device))),
                }
            });
        }
        if let Some(((a, on), (b, other))) = clash {
            let (a, b) = (self.arena().name(a), self.arena().name(b));
            let claim = format!("`{}`: `{a}` is on {on}, `{b}` on {other}", symbol.name());
            return Err(Error::new("E707", claim).at(self.context.place.loc));
        }
        Ok(found.map_or(Device::Cpu, |(_, device)| device))
    }

    /// The error of a refusal, with the operator, its arguments and the places where they were made.
    fn refused(&self, refusal: Refusal, symbol: SymbolRef, args: &[Value<ProxyId>]) -> Error {
        let (op, arg) = (Name::new(symbol.name()), refusal.arg);
        let mut shapes = Vec::new();
        let mut notes = Vec::new();
        for (param, value) in symbol.row().sig.params.iter().zip(args) {
            value.for_each(&mut |p| {
                let name = param.name.name;
                if let Some(ty) = self.arena().tensor_ty(*p) {
                    notes.push(format!("{name}: {ty}   `{}`{}", self.arena().name(*p), self.made_by(*p)));
                    shapes.push((name, ty));
                }
            });
        }
        let kind = match refusal.code {
            "E701" => ErrorKind::ShapeMismatch { op, shapes, arg },
            _ => ErrorKind::Refused { op, arg },
        };
        let mut error = Error::from(refusal).kind_is(kind);
        for note in notes {
            error = error.note(note);
        }
        let text = &symbol.text;
        error.note(format!("rule: {} {}   {}:{}", text.op, text.sig.trim(), text.file, text.line))
    }

    /// The text `, made by add at file:line:column`, for messages.
    fn made_by(&self, id: ProxyId) -> String {
        match self.lines().iter().find(|l| l.outs.contains(&id)) {
            Some(line) if line.place.loc != Loc::NOWHERE => {
                format!(", made by {} at {}", line.symbol.name(), line.place.loc)
            }
            Some(line) => format!(", made by {}", line.symbol.name()),
            None => String::new(),
        }
    }
}

/// The name of a result, unless it has another one.
fn hint(symbol: SymbolRef, out: Name) -> &'static str {
    if symbol.row().sig.named_outs { out.as_str() } else { symbol.name() }
}

fn is_given(line: &BoundSymbol, i: usize) -> bool {
    matches!(line.args.get(i), Some(Value::Tensor(_)))
}

fn has_type(arg: &Value<ProxyId>) -> bool {
    arg.items().iter().any(|item| matches!(item, Value::Type(_)))
}

fn unknown(op: Name) -> Error {
    let error = Error::new("E710", format!("no linked database has a row `{op}`"));
    error.kind_is(ErrorKind::UnknownSymbol { op })
}

fn note_overloads(error: Error, candidates: &[SymbolRef]) -> Error {
    if candidates.len() < 2 {
        return error;
    }
    let names: Vec<_> = candidates[1..].iter().map(|s| format!("`{}`", s.name())).collect();
    error.note(format!("the overloads {} refuse the call too", names.join(", ")))
}
