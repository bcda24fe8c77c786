//! Batches one line of a trace.

use super::{Sweep, Way};
use crate::bind::{Context, body_of};
use crate::error::{Error, ErrorKind};
use crate::symbol::{self, SymbolRef};
use crate::trace::*;
use fulgurite_core::{Name, Value, batch};
use std::rc::Rc;

impl Sweep {
    /// Batches the line.
    pub(super) fn line(&mut self, line: &Rc<BoundSymbol>) -> Result<(), Error> {
        let flags = self.flags(line);
        let sig = &line.symbol.row().sig;
        let options = sig.opts.iter().zip(line.args.iter().skip(sig.params.len()));
        if let Some((option, _)) = options.into_iter().find(|(_, arg)| self.varies(arg)) {
            let claim = format!("`{}` takes one `{}` for all slices", line.symbol.name(), option.name.name);
            let help = "compute it outside of `vmap`, of values that all slices share";
            return Err(Error::new("E726", claim).help(help).at(line.place.loc));
        }
        if !flags.contains(&true) {
            let mut moved = false;
            line.for_each_arg(|p| moved |= self.standing.contains_key(&p));
            let line = if moved { Rc::new(line.remap(&mut |p| self.standing(p))) } else { line.clone() };
            self.b.push(line);
            return Ok(());
        }
        if let Some(key) = self.own_key(line) {
            let claim = format!(
                "`{}` draws with one `{key}` for all slices, and here each slice has another one",
                line.symbol.name()
            );
            let help = "pass the key to `vmap` as a `Key`, so that slices draw apart, or call it on slices one by one";
            return Err(Error::new("E726", claim).help(help).at(line.place.loc));
        }
        if line.dispatch.is_some() || line.symbol.port().is_some() {
            let claim = format!("`{}` on a tensor of a subclass can't be batched yet", line.symbol.name());
            return Err(Error::new("E726", claim).help("call it outside of `vmap`").at(line.place.loc));
        }
        let refused = |why| symbol::refused(line.symbol, &why).at(line.place.loc);
        let control = self.b.arena().control(line);
        let way = if control.is_some() { Ok(Way::Body) } else { batch::way(line.symbol.row()) }.map_err(refused)?;
        let context = Context {
            region: line.region,
            place: line.place,
            tags: line.own_tags,
            // a gradient's line keeps the origin of the line that it differentiates
            origin: line.origin.or(Some(line.id)),
        };
        let before = std::mem::replace(&mut self.b.context, context);
        let done = match way {
            _ if control.is_some() => control.map_or(Ok(()), |control| self.control(line, &control)),
            Way::Pointwise if drawn(line, &flags) => Err(one_position(line)),
            Way::Pointwise => self.aligned(line).and_then(|args| self.record(line, line.symbol, args)),
            Way::Primitive => {
                self.slices(line, flags, false).and_then(|made| self.record(line, line.symbol, made.args))
            }
            Way::Row => self.indexed(line, flags),
            Way::Body => match line.symbol.own() {
                Some(ports) => self.own(line, ports),
                None => self.composite(line, &flags),
            },
        };
        self.b.context = before;
        done.map_err(|e| e.at(line.place.loc))
    }

    /// Batches a row in index notation: by a call of the row itself if that is equivalent, otherwise by the row with
    /// one more axis.
    fn indexed(&mut self, line: &Rc<BoundSymbol>, flags: Vec<bool>) -> Result<(), Error> {
        // a derived row has lost the requirements that limit how many axes may be in front, and its own gradient may
        // have them
        let derived = line.symbol.name().contains(".vjp.");
        let special = !line.symbol.text.kernels.is_empty();
        let tensors = || line.symbol.row().sig.params.iter().map(|p| !batch::is_key(p)).collect::<Vec<bool>>();
        // a special kernel is worth a copy of shared arguments for every slice
        let tries = [(!derived).then(|| flags.clone()), special.then(tensors)];
        for wanted in tries.into_iter().flatten() {
            let start = self.b.lines().len();
            if let Some(own) = self.candidate(line, &wanted) {
                let after = self.b.lines().len();
                let made = self.slices(line, wanted, false)?;
                let batch = symbol::batched(line.symbol, &made.flags)?;
                let same = !batch.sized && self.same_loops((line.symbol, &own), (batch.symbol, &made));
                self.b.take_from(if same { after } else { start });
                if same {
                    return self.record(line, line.symbol, own);
                }
            }
        }
        let mut made = self.slices(line, flags, false)?;
        let batch = symbol::batched(line.symbol, &made.flags)?;
        if batch.sized {
            made.args.push(Value::size(self.size));
        }
        self.record(line, batch.symbol, made.args)
    }

    /// Batches a composite: by a call of the row itself if its body is equivalent, otherwise by the lines of its body.
    fn composite(&mut self, line: &Rc<BoundSymbol>, flags: &[bool]) -> Result<(), Error> {
        let arena = self.b.arena().clone();
        let none = || Error::bug("E706", format!("`{}` has no body", line.symbol.name()));
        let body = body_of(&arena, line)?.ok_or_else(none)?;
        let start = self.b.lines().len();
        for inner in &body.lines {
            self.line(inner)?;
        }
        let lines = self.b.take_from(start);
        let made: Vec<Option<ProxyId>> = body.outs.iter().map(|p| self.values.get(p).copied()).collect();
        self.check_writes(line, &made)?;
        if line.effects.writes.is_empty()
            && let Some(outs) = made.iter().copied().collect::<Option<Vec<_>>>()
            && let Some(args) = self.candidate(line, flags)
        {
            let at = self.b.lines().len();
            if let Ok(()) = self.record(line, line.symbol, args)
                && let Some(own) = self.b.lines().get(at).cloned()
                && let Ok(Some(whole)) = body_of(&arena, &own)
                && self.b.lines().len() == at + 1
                && self.same_lines(&lines, &outs, &whole)
            {
                return Ok(());
            }
            self.b.take_from(start);
        }
        lines.into_iter().for_each(|l| self.b.push(l));
        for (old, inner) in line.outs.iter().chain(&line.aux).zip(&body.outs) {
            match self.values.get(inner).copied() {
                Some(all) => self.stands_for(*old, all),
                None => _ = self.standing.insert(*old, self.standing(*inner)),
            }
        }
        Ok(())
    }

    /// Refuses a body that writes values of single slices to an argument that all slices share.
    fn check_writes(&self, line: &BoundSymbol, made: &[Option<ProxyId>]) -> Result<(), Error> {
        let results = line.outs.len() - line.effects.writes.len();
        for (&arg, version) in line.effects.writes.iter().zip(&made[results..]) {
            if version.is_some() && !self.varies(&line.args[arg]) {
                let name = line.symbol.row().sig.params[arg].name.name;
                return Err(shared_is_written(name.as_str(), Some(line)));
            }
        }
        Ok(())
    }

    /// Binds the call that stands for `line`; its results are all slices of the line's results.
    fn record(&mut self, line: &BoundSymbol, symbol: SymbolRef, args: Vec<Value<ProxyId>>) -> Result<(), Error> {
        let arena = self.b.arena().clone();
        let old: Vec<ProxyId> = line.outs.iter().chain(&line.aux).copied().collect();
        let mut call = self.b.solve(symbol, args)?;
        if call.solved.joined != line.solved.joined {
            // tensors of rank 0 are weaker in promotion than their batches, so arguments are cast to the dtype of the
            // slices
            let args = self.computed(line, call.args)?;
            call = self.b.solve(symbol, args)?;
        }
        let made = self.b.record_as(call, !line.aux.is_empty(), &mut |i, hint, ty| {
            Ok(arena.proxy(&old.get(i).map_or_else(|| hint.into(), |p| arena.name(*p)), ty))
        })?;
        for (old, new) in old.into_iter().zip(made.outs.iter().chain(&made.aux)) {
            let Some(slice) = arena.tensor_ty(old) else { continue };
            // an axis that the arguments only implied is dropped again
            let shape = self.lead(&slice).shape;
            let new = self.b.reshape(*new, &shape)?;
            let new = self.b.cast(new, slice.dtype)?;
            self.stands_for(old, new);
        }
        Ok(())
    }

    /// Notes that `all` has the slices of `old`.
    pub(super) fn stands_for(&mut self, old: ProxyId, all: ProxyId) {
        let arena = self.b.arena();
        arena.set_tags(all, arena.tags(all).union(arena.tags(old)));
        self.values.insert(old, all);
    }
}

/// Whether a key is batched.
fn drawn(line: &BoundSymbol, flags: &[bool]) -> bool {
    line.symbol.row().sig.params.iter().zip(flags).any(|(p, flag)| *flag && batch::is_key(p))
}

/// The error for a pointwise row with a key per slice.
fn one_position(line: &BoundSymbol) -> Error {
    let keys = line.symbol.row().sig.params.iter().filter(|p| batch::is_key(p));
    let of = keys.map(|p| p.name.name).next().unwrap_or(Name::new("key"));
    let reason = format!("`{of}` draws at one position for all elements, so no slice has draws of its own");
    symbol::refused(line.symbol, &batch::NotBatchable { of, span: Default::default(), inside: true, reason })
}

/// The error for a write that differs from slice to slice.
pub(super) fn shared_is_written(name: &str, by: Option<&BoundSymbol>) -> Error {
    let claim = format!("`{name}` is the same for all slices of a batch, and is written a value of one slice");
    let kind = ErrorKind::Refused { op: by.map_or(Name::new("vmap"), |l| Name::new(l.symbol.name())), arg: None };
    let error = Error::new("E728", claim).kind_is(kind);
    let error = by.map_or(error.clone(), |l| error.at(l.place.loc));
    error.help("return the value from the closure, or pass the tensor to `vmap` so that each slice has its own")
}
