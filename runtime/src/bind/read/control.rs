//! Binds printed lines of control flow again, with their programs.

use super::Reader;
use crate::bind::Builder;
use crate::error::Error;
use crate::trace::parse::{ArgText, Line, ProgramText};
use crate::trace::{Control, ControlKind, LineProgram, ProxyId};
use fulgurite_core::{Dim, Scalar};

impl Reader {
    /// Binds a line of control flow.
    pub(super) fn control(&mut self, line: &Line) -> Result<(), Error> {
        let mut groups: Vec<Vec<ProxyId>> = Vec::new();
        let mut options: Vec<(&str, &ArgText)> = Vec::new();
        for (name, arg) in &line.args {
            match (name, arg) {
                (Some(name), value) => options.push((name.as_str(), value)),
                (None, ArgText::List(items)) => {
                    groups.push(items.iter().map(|item| self.argument(line, item)).collect::<Result<_, _>>()?);
                }
                (None, one) => groups.push(vec![self.argument(line, one)?]),
            }
        }
        let option = |name: &str| options.iter().find(|(option, _)| *option == name).map(|(_, value)| *value);
        let flag = |name: &str| matches!(option(name), Some(ArgText::Num(Scalar::Bool(true))));
        let wrong = |what: &str| line.pos.error("E731", format!("`{}` {what}", line.op));
        let kind = match (line.op.as_str(), groups.as_slice()) {
            ("cond", [condition, _]) if condition.len() == 1 => ControlKind::Cond,
            ("while_loop", [carries, _]) => {
                let bound = match option("bound") {
                    Some(ArgText::Num(Scalar::Int(n))) => {
                        Some(usize::try_from(*n).map_err(|_| wrong("has a bad bound"))?)
                    }
                    Some(_) => return Err(wrong("has a bad bound")),
                    None => None,
                };
                ControlKind::While { carries: carries.len(), bound }
            }
            ("scan", [carries, slices, _]) => {
                let length = match option("length") {
                    Some(ArgText::Num(Scalar::Int(n))) if *n >= 0 => Dim::from(*n),
                    Some(ArgText::Size(size)) => *size,
                    _ => return Err(wrong("has no length")),
                };
                let (carries, slices) = (carries.len(), slices.len());
                ControlKind::Scan { carries, slices, length, reverse: flag("reverse"), keeps: flag("keeps") }
            }
            ("cond" | "while_loop" | "scan", _) => return Err(wrong("has other groups of arguments")),
            _ => return Err(wrong("has no programs")),
        };
        let named = line.programs.iter().map(|program| program.name.as_str());
        if !named.eq(kind.program_names().iter().copied()) {
            return Err(wrong(&format!("has the programs {}", kind.program_names().join(", "))));
        }
        self.set_place(line)?;
        let context = self.builder.context.clone();
        let programs = line.programs.iter().map(|program| self.program(program)).collect::<Result<_, _>>()?;
        self.builder.context = context;
        let mut reuse = Vec::with_capacity(line.outs.len());
        for out in &line.outs {
            let ty = out.ty.as_ref().map(|ty| self.proxy_ty(ty)).transpose()?;
            reuse.push(ty.map(|ty| self.define(out, ty)).transpose()?);
        }
        let at = |e: Error| e.note(format!("in the trace text, line {}", line.pos.line));
        let control = Control { kind, programs, simplified: false };
        let outs = self.builder.control(control, &groups.concat(), &reuse).map_err(at)?;
        let Some(made) = self.builder.lines().last().cloned() else { return Err(wrong("is not there")) };
        if outs.len() != line.outs.len() {
            return Err(line.pos.error("E732", format!("`{}` has {} results", line.op, outs.len())));
        }
        let types = made.solved.outs.iter().flat_map(|ty| ty.tensors());
        for ((p, ty), out) in outs.iter().zip(types).zip(&line.outs) {
            if self.builder.arena().tensor_ty(*p).is_none_or(|have| !have.same(ty)) {
                return Err(out.pos.error("E732", format!("`{}` is {ty}, not what is written", out.name)));
            }
        }
        self.mark_dead(line);
        Ok(())
    }

    fn argument(&self, line: &Line, arg: &ArgText) -> Result<ProxyId, Error> {
        match arg {
            ArgText::Word(word, pos) => self.lookup(&(word.clone(), *pos)),
            _ => Err(line.pos.error("E731", format!("`{}` takes values of the trace", line.op))),
        }
    }

    /// Reads a program, which knows its inputs alone.
    fn program(&mut self, text: &ProgramText) -> Result<LineProgram, Error> {
        let region = self.builder.context.region;
        let mut inner = Builder::on(self.builder.arena(), &text.name).rooted(region);
        inner.context.region = region;
        let builder = std::mem::replace(&mut self.builder, inner);
        let names = std::mem::take(&mut self.names);
        self.depth += 1;
        let made = self.inside(text);
        self.depth -= 1;
        let inner = std::mem::replace(&mut self.builder, builder);
        self.names = names;
        let loc = self.builder.context.place.loc;
        Ok(inner.finish(&made?).to_program(loc))
    }

    fn inside(&mut self, text: &ProgramText) -> Result<Vec<ProxyId>, Error> {
        for input in &text.inputs {
            let ty = input.ty.as_ref().ok_or_else(|| input.pos.error("E731", "an input needs a name"))?;
            let ty = self.proxy_ty(ty)?;
            let proxy = self.define(input, ty)?;
            self.builder.add_input(proxy, &input.name);
        }
        let mut writes = Vec::new();
        self.items(&text.items, &mut writes)?;
        if !writes.is_empty() {
            return Err(text.pos.error("E731", "a program of a line writes nothing"));
        }
        text.outputs.iter().map(|name| self.lookup(name)).collect()
    }
}
