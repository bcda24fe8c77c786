//! Binds printed traces again: names and types come from the text, all else follows from the rows.

mod control;

use super::{AcceptedCall, Builder};
use crate::error::Error;
use crate::symbol;
use crate::trace::parse::{self, ArgText, Line, Pos, TraceItem, TraceText, TypedName, WrittenClass, WrittenTy};
use crate::trace::tag::{Carrier, Tag, TagSet};
use crate::trace::*;
use fulgurite_core::lang::ast::OptType;
use fulgurite_core::loc::Loc;
use fulgurite_core::signature;
use fulgurite_core::{DType, Name, TensorTy, Value};
use rustc_hash::FxHashMap;
use std::sync::Arc;

impl Trace {
    /// Reads a printed trace. Every line is bound again, and the written types must agree with the rows.
    ///
    /// # Errors
    /// E731 if the text is not a trace or has an unknown name, E732 if it disagrees with the rows, and errors of
    /// binding.
    pub fn parse(text: &str) -> Result<Trace, Error> {
        let text = parse::parse(text)?;
        let builder = Builder::new(&text.name);
        let (names, inputs, regions) = Default::default();
        Reader { builder, names, inputs, regions, file: "", depth: 0 }.trace(&text)
    }
}

struct Reader {
    builder: Builder,
    names: FxHashMap<String, ProxyId>,
    /// The inputs by their numbers.
    inputs: FxHashMap<ProxyId, usize>,
    /// Regions that are opened more than once, by their number in the text.
    regions: FxHashMap<i64, RegionId>,
    file: &'static str,
    /// The number of programs of lines around the text that is being read.
    depth: usize,
}

impl Reader {
    fn trace(mut self, text: &TraceText) -> Result<Trace, Error> {
        text.atoms.iter().for_each(|(name, value)| self.builder.arena().add_atom(name, *value));
        for (number, input) in text.inputs.iter().enumerate() {
            let ty = input.ty.as_ref().ok_or_else(|| input.pos.error("E731", "an input needs a name"))?;
            let ty = self.proxy_ty(ty)?;
            let proxy = self.define(input, ty)?;
            self.builder.add_input(proxy, &input.name);
            self.inputs.insert(proxy, number);
        }
        let mut writes = Vec::new();
        self.items(&text.items, &mut writes)?;
        let outputs = text.outputs.iter().chain(&text.saved);
        let outputs = outputs.map(|name| self.lookup(name)).collect::<Result<Vec<_>, _>>()?;
        let mut trace = self.builder.finish(&outputs);
        trace.saved = text.saved.len();
        trace.epilogue = writes;
        trace.provenance.made_by = "parse";
        Ok(trace)
    }

    fn items(&mut self, items: &[TraceItem], writes: &mut Vec<EpilogueWrite>) -> Result<(), Error> {
        for item in items {
            match item {
                TraceItem::Line(line) => self.line(line)?,
                TraceItem::Region { kind, number, tags, items } => {
                    let parent = self.builder.context.region;
                    let known = number.and_then(|n| self.regions.get(&n).copied());
                    let region = match known {
                        Some(region) => region,
                        None => self.builder.arena().add_region(parent, kind.clone(), Loc::NOWHERE),
                    };
                    if let Some(number) = number {
                        self.regions.insert(*number, region);
                    }
                    self.builder.arena().add_region_tags(region, tag_set(tags, Carrier::Region)?);
                    self.builder.context.region = region;
                    self.items(items, writes)?;
                    self.builder.context.region = parent;
                }
                TraceItem::Write { input, value, phase } => {
                    let (cell, new) = (self.lookup(input)?, self.lookup(value)?);
                    let at = self.inputs.get(&cell).copied();
                    let at = at.ok_or_else(|| input.1.error("E731", format!("`{}` is no input", input.0)))?;
                    writes.push(EpilogueWrite { input: at, value: new, phase: *phase });
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &Line) -> Result<(), Error> {
        if !line.programs.is_empty() {
            return self.control(line);
        }
        let found = symbol::find(line.op).or_else(|| symbol::batch_named(line.op));
        let symbol =
            found.ok_or_else(|| line.pos.error("E731", format!("no linked database has a row `{}`", line.op)))?;
        let sig = &symbol.row().sig;
        let params: Vec<Name> = sig.params.iter().map(|p| p.name.name).collect();
        let opt = |name: Name| sig.opts.iter().find(|o| o.name.name == name).map(|o| &o.ty);
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        for (name, arg) in &line.args {
            match name {
                None if named.is_empty() && positional.len() < params.len() => positional.push(self.value(arg, None)?),
                None => {
                    let at = line.pos;
                    return Err(
                        at.error("E731", format!("`{}` has {} arguments; options are named", line.op, params.len()))
                    );
                }
                Some(name) => named.push((*name, self.value(arg, opt(*name))?)),
            }
        }
        self.set_place(line)?;
        let at = |e: Error| e.note(format!("in the trace text, line {}", line.pos.line));
        let args = signature::arrange(symbol.row(), positional, named).map_err(|r| at(Error::from(r)))?;
        let call: AcceptedCall = self.builder.solve(symbol, args).map_err(at)?;
        let written: Vec<&TypedName> = line.outs.iter().chain(&line.aux).collect();
        let types = written.iter().map(|out| out.ty.as_ref().map(|ty| self.proxy_ty(ty)).transpose());
        let types = types.collect::<Result<Vec<_>, _>>()?;
        let arena = self.builder.arena().clone();
        let mut made = Vec::new();
        let depth = self.depth;
        let recorded = self.builder.record_as(call, !line.aux.is_empty(), &mut |i, hint, ty| {
            let Some(out) = written.get(i) else {
                return Err(line.pos.error("E732", format!("`{}` has more results than are written", line.op)));
            };
            let Some(want) = &types[i] else { return Ok(arena.proxy(hint, ty)) };
            if !agrees(want, &ty) {
                return Err(out.pos.error("E732", format!("`{}` is {ty}, not what is written", out.name)));
            }
            let proxy = value_of(&arena, depth, &self.names, out, ty)?;
            arena.set_tags(proxy, tag_set(&out.tags, Carrier::Value)?);
            made.push((out.name.clone(), proxy));
            Ok(proxy)
        });
        let recorded = recorded.map_err(at)?;
        if recorded.outs.len() + recorded.aux.len() != written.len() {
            return Err(line.pos.error("E732", format!("`{}` has fewer results than are written", line.op)));
        }
        self.names.extend(made);
        self.mark_dead(line);
        Ok(())
    }

    /// Marks the results of the last line that are written `_`.
    fn mark_dead(&mut self, line: &Line) {
        let dead = line.outs.iter().enumerate().filter(|(i, o)| o.ty.is_none() && *i < 64);
        let dead = dead.fold(0, |bits, (i, _)| bits | 1 << i);
        if let (Some(last), true) = (self.builder.lines().len().checked_sub(1), dead != 0) {
            let line = (*self.builder.lines()[last]).clone();
            self.builder.replace(last, std::rc::Rc::new(BoundSymbol { dead, ..line }));
        }
    }

    fn set_place(&mut self, line: &Line) -> Result<(), Error> {
        let (mut role, mut loc) = (Role::Forward, Loc::NOWHERE);
        if let Some((written, file, number, column)) = &line.place {
            if file != "…" {
                self.file = Name::new(file).as_str();
            }
            (role, loc) = (*written, Loc { file: self.file, line: *number, column: *column });
        }
        let context = &mut self.builder.context;
        context.place = Place { loc, role };
        context.tags = tag_set(&line.tags, Carrier::Line)?;
        Ok(())
    }

    /// The value of an argument for an option of this type, or for a parameter.
    fn value(&self, arg: &ArgText, opt: Option<&OptType>) -> Result<Value<ProxyId>, Error> {
        Ok(match arg {
            ArgText::Num(number) => Value::Num(*number),
            ArgText::Size(size) => Value::size(*size),
            ArgText::Str(text) => Value::Str(text.clone()),
            ArgText::Type(ty) => Value::Type(ty.clone()),
            ArgText::List(items) => Value::List(items.iter().map(|i| self.value(i, opt)).collect::<Result<_, _>>()?),
            ArgText::Word(word, pos) => match opt {
                Some(OptType::Enum(_)) => Value::Word(Name::new(word)),
                Some(OptType::Dtype(_)) => match DType::from_name(word) {
                    Some(dtype) => Value::DType(dtype),
                    None => return Err(pos.error("E731", format!("`{word}` is no dtype"))),
                },
                _ => Value::Tensor(self.lookup(&(word.clone(), *pos))?),
            },
        })
    }

    fn proxy_ty(&self, ty: &WrittenTy) -> Result<ProxyTy, Error> {
        written_ty(ty, &|arg, opt| self.value(arg, opt))
    }

    fn lookup(&self, (name, pos): &(String, Pos)) -> Result<ProxyId, Error> {
        let found = self.names.get(name).copied();
        found.ok_or_else(|| pos.error("E731", format!("`{name}` is not defined before")))
    }

    fn define(&mut self, name: &TypedName, ty: ProxyTy) -> Result<ProxyId, Error> {
        let arena = self.builder.arena();
        let proxy = value_of(arena, self.depth, &self.names, name, ty)?;
        arena.set_tags(proxy, tag_set(&name.tags, Carrier::Value)?);
        self.names.insert(name.name.clone(), proxy);
        Ok(proxy)
    }
}

/// The value of this name. In a program of a line, whose names are its own, it may get another number.
fn value_of(
    arena: &Arena,
    depth: usize,
    known: &FxHashMap<String, ProxyId>,
    name: &TypedName,
    ty: ProxyTy,
) -> Result<ProxyId, Error> {
    if depth > 0 && !known.contains_key(&name.name) {
        return Ok(arena.proxy(&name.name, ty));
    }
    arena.proxy_named(&name.name, ty).map_err(|e| name.pos.error("E731", e.claim()))
}

/// Returns the value of an argument for an option of this type.
type Values<'a> = dyn Fn(&ArgText, Option<&OptType>) -> Result<Value<ProxyId>, Error> + 'a;

fn written_ty(ty: &WrittenTy, values: &Values) -> Result<ProxyTy, Error> {
    let tensor = |ty: &TensorTy, device: Device, subclass| {
        ProxyTy::Tensor(TensorType { ty: ty.clone(), device, requires_grad: false, subclass })
    };
    Ok(match ty {
        WrittenTy::Tensor(ty, device) => tensor(ty, *device, None),
        WrittenTy::Number(dtype) => ProxyTy::Number(*dtype),
        WrittenTy::Key => ProxyTy::Key,
        WrittenTy::Subclass(written) => {
            let WrittenClass { class: name, outer, fields, meta, pos } = &**written;
            let unknown = || pos.error("E731", format!("no linked database has a subclass `{name}`"));
            let class = symbol::class(*name).ok_or_else(unknown)?;
            let field = |(name, ty): &(Name, WrittenTy)| match written_ty(ty, values)? {
                ProxyTy::Tensor(t) => Ok((*name, t)),
                _ => Err(pos.error("E731", format!("the field `{name}` is no tensor"))),
            };
            let fields = fields.iter().map(field).collect::<Result<_, _>>()?;
            let opts = &class.rules().sig.opts;
            let value = |(name, arg): &(Name, ArgText)| {
                let opt = opts.iter().find(|o| o.name.name == *name).map(|o| &o.ty);
                let absent = matches!(arg, ArgText::Word(word, _) if word == "_");
                Ok::<_, Error>((*name, if absent { Value::Absent } else { values(arg, opt)? }))
            };
            let meta = meta.iter().map(value).collect::<Result<_, _>>()?;
            tensor(outer, Device::Cpu, Some(Arc::new(SubclassLayout { class, fields, meta })))
        }
    })
}

fn agrees(written: &ProxyTy, ty: &ProxyTy) -> bool {
    match (written, ty) {
        (ProxyTy::Tensor(want), ProxyTy::Tensor(t)) => {
            want.ty.same(&t.ty) && want.device == t.device && want.subclass == t.subclass
        }
        _ => written == ty,
    }
}

fn tag_set(written: &[(String, Pos)], carrier: Carrier) -> Result<TagSet, Error> {
    let mut tags = TagSet::EMPTY;
    for (name, pos) in written {
        let tag = Tag::find(name).ok_or_else(|| pos.error("E731", format!("no tag `{name}` is declared")))?;
        if tag.decl().carrier != carrier {
            return Err(pos.error("E731", format!("the tag `{name}` can't stand here")));
        }
        tags = tags.with(tag);
    }
    Ok(tags)
}
