//! Finished traces over symbolic sizes, kept as data and bound again at the sizes of a call.
//!
//! **Invariant:** every line passes `bind` at the new sizes, and its results must have the types of the symbolic trace
//! at those sizes. So a trace whose guards are incomplete is noticed before it is planned.

mod cut;

pub use cut::ProgramPart;

use super::{AcceptedCall, Builder};
use crate::error::Error;
use crate::symbol::SymbolRef;
use crate::trace::*;
use fulgurite_core::loc::Loc;
use fulgurite_core::{Dim, Scalar, Value};
use rustc_hash::FxHashMap;
use std::rc::Rc;
use std::sync::Arc;

/// The values of atoms in a call.
pub type Sizes<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// A trace as data: it shares nothing with other traces and may move to other threads.
pub struct SymbolicTrace {
    name: String,
    inputs: Vec<Input>,
    values: Vec<Typed>,
    lines: Vec<Line>,
    outputs: Vec<ProxyId>,
    writes: Vec<EpilogueWrite>,
}

struct Input {
    path: String,
    donated: bool,
}

/// A value: inputs come first, then the results of lines, in order. Lines refer to values by position.
#[derive(Clone)]
struct Typed {
    name: String,
    ty: ProxyTy,
    tags: TagSet,
}

/// The programs of a line of control flow.
struct SymbolicControl {
    kind: ControlKind,
    programs: Vec<(SymbolicTrace, Loc)>,
}

struct Line {
    symbol: SymbolRef,
    args: Vec<Value<ProxyId>>,
    outs: usize,
    aux: usize,
    dead: u64,
    tags: TagSet,
    place: Place,
    merged: Vec<Loc>,
    /// The operator of the line from which a transform made this one.
    of: Option<&'static str>,
    claimed_by: Option<&'static str>,
    /// The programs of a line of control flow.
    control: Option<Arc<SymbolicControl>>,
}

impl SymbolicTrace {
    /// The trace as data. Regions are dropped, because they have no effect after a trace is planned.
    pub fn of(trace: &Trace) -> SymbolicTrace {
        let arena = &trace.arena;
        let mut position: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
        let mut values = Vec::new();
        let mut define = |p: ProxyId| {
            position.insert(p, ProxyId(values.len() as u32));
            values.push(Typed { name: arena.name(p).to_string(), ty: trace.ty(p), tags: arena.tags(p) });
        };
        trace.input_proxies().for_each(&mut define);
        trace.lines.iter().flat_map(|line| line.outs.iter().chain(&line.aux)).for_each(|p| define(*p));
        // a verified trace reads only values that it defines
        let at = |p: &ProxyId| position.get(p).copied().unwrap_or(ProxyId(u32::MAX));
        let line = |line: &Rc<BoundSymbol>| Line {
            symbol: line.symbol,
            args: line.args.iter().map(|arg| arg.map(&mut |p| at(p))).collect(),
            outs: line.outs.len(),
            aux: line.aux.len(),
            dead: line.dead,
            tags: line.own_tags,
            place: line.place,
            merged: line.merged.clone(),
            of: line.origin.and_then(|id| arena.op(id)),
            claimed_by: line.claimed_by,
            control: arena.control(line).map(|control| Arc::new(SymbolicControl::of(arena, &control))),
        };
        let input = |cell: &InputCell| Input { path: cell.path.to_string(), donated: cell.donated };
        SymbolicTrace {
            name: trace.name.to_string(),
            inputs: trace.inputs.iter().map(input).collect(),
            lines: trace.lines.iter().map(line).collect(),
            outputs: trace.outputs.iter().map(at).collect(),
            writes: trace.epilogue.iter().map(|w| EpilogueWrite { value: at(&w.value), ..w.clone() }).collect(),
            values,
        }
    }

    /// Whether the values have, at `sizes`, the sizes with which they were traced. They do not if one of them came from
    /// another trace, in which a size of equal name had another value.
    pub fn was_made_at(&self, sizes: Sizes) -> bool {
        let same = |d: &Dim| d.at(sizes).is_some_and(|now| now.hint() == d.hint());
        let tensors = self.values.iter().filter_map(|v| v.ty.as_tensor());
        tensors.flat_map(|ty| &ty.shape).all(same)
            && self.lines.iter().filter_map(|l| l.control.as_ref()).all(|control| control.was_made_at(sizes))
            && self.lines.iter().flat_map(|l| &l.args).all(|arg| match arg {
                Value::Size(d) => same(d),
                Value::List(items) => items.iter().filter_map(Value::as_dim).all(|d| same(&d)),
                _ => true,
            })
    }

    /// The trace at these sizes, with every line bound again.
    ///
    /// # Errors
    /// Errors of binding, and E730 if a line's results differ from those of the symbolic trace.
    pub fn at(&self, sizes: Sizes) -> Result<Trace, Error> {
        self.on(&Arena::new(), sizes)
    }

    /// Like [`SymbolicTrace::at`], with values of this arena.
    fn on(&self, arena: &Rc<Arena>, sizes: Sizes) -> Result<Trace, Error> {
        let mut builder = Builder::on(arena, &self.name);
        let mut made: Vec<ProxyId> = Vec::with_capacity(self.values.len());
        for (input, value) in self.inputs.iter().zip(&self.values) {
            let proxy = arena.proxy(&value.name, value.at(sizes)?);
            arena.set_tags(proxy, value.tags);
            builder.add_input(proxy, &input.path);
            made.push(proxy);
        }
        builder.inputs_mut().iter_mut().zip(&self.inputs).for_each(|(cell, input)| cell.donated = input.donated);
        let mut next = self.inputs.len();
        for line in &self.lines {
            let values = &self.values[next..next + line.outs + line.aux];
            next += values.len();
            self.line(&mut builder, line, values, &mut made, sizes)?;
        }
        let of = |p: &ProxyId| made.get(p.0 as usize).copied().ok_or_else(|| stray(&self.name));
        let mut trace = builder.finish(&self.outputs.iter().map(of).collect::<Result<Vec<_>, _>>()?);
        let write = |w: &EpilogueWrite| Ok(EpilogueWrite { value: of(&w.value)?, ..w.clone() });
        trace.epilogue = self.writes.iter().map(write).collect::<Result<_, Error>>()?;
        trace.provenance.made_by = "sizes";
        Ok(trace)
    }

    fn line(
        &self,
        builder: &mut Builder,
        line: &Line,
        values: &[Typed],
        made: &mut Vec<ProxyId>,
        sizes: Sizes,
    ) -> Result<(), Error> {
        let arena = builder.arena().clone();
        let context = &mut builder.context;
        context.place = line.place;
        context.tags = line.tags;
        context.origin = line.of.map(|op| arena.next_line_of(op));
        let mut known = true;
        let mut arg = |arg: &Value<ProxyId>| {
            let of = |p: &ProxyId| made.get(p.0 as usize).copied();
            let arg = arg.at(sizes)?;
            Some(arg.map(&mut |p| {
                known &= of(p).is_some();
                of(p).unwrap_or(*p)
            }))
        };
        let args = line.args.iter().map(&mut arg).collect::<Option<Vec<_>>>().ok_or_else(|| no_size(line.place.loc))?;
        let mut args = args;
        if let (Some(control), Some(last)) = (&line.control, args.last_mut()) {
            *last = Value::Num(Scalar::Int(control.on(&arena, sizes)? as i64));
        }
        if !known {
            return Err(stray(&self.name));
        }
        let call: AcceptedCall = builder.solve(line.symbol, args).map_err(|e| e.at(line.place.loc))?;
        let op = line.symbol.name();
        let differs = |claim: String| Error::bug("E730", format!("`{op}` at other sizes: {claim}")).at(line.place.loc);
        let recorded = builder.record_as(call, line.aux > 0, &mut |i, _, ty| {
            let value = values.get(i).ok_or_else(|| differs("it has more results".to_owned()))?;
            let want = value.at(sizes)?;
            if ty != want {
                return Err(differs(format!("`{}` is {ty}, not {want}", value.name)));
            }
            let proxy = arena.proxy(&value.name, ty);
            arena.set_tags(proxy, value.tags);
            Ok(proxy)
        })?;
        if (recorded.outs.len(), recorded.aux.len()) != (line.outs, line.aux) {
            return Err(differs("it has fewer results".to_owned()));
        }
        made.extend(recorded.outs.iter().chain(&recorded.aux));
        if line.dead != 0 || !line.merged.is_empty() || line.claimed_by.is_some() {
            let (dead, merged, claimed_by) = (line.dead, line.merged.clone(), line.claimed_by);
            let last = builder.lines().len() - 1;
            builder.replace(last, Rc::new(BoundSymbol { dead, merged, claimed_by, ..(*recorded).clone() }));
        }
        Ok(())
    }
}

impl SymbolicControl {
    fn was_made_at(&self, sizes: Sizes) -> bool {
        let length = match self.kind {
            ControlKind::Scan { length, .. } => length.at(sizes).is_some_and(|now| now.hint() == length.hint()),
            _ => true,
        };
        length && self.programs.iter().all(|(program, _)| program.was_made_at(sizes))
    }

    fn of(arena: &Rc<Arena>, control: &Control) -> SymbolicControl {
        let pairs = control.kind.program_names().iter().zip(&control.programs);
        let programs =
            pairs.map(|(name, program)| (SymbolicTrace::of(&Trace::of_program(arena, name, program)), program.loc));
        SymbolicControl { kind: control.kind, programs: programs.collect() }
    }

    /// The number in this arena of the programs at these sizes.
    fn on(&self, arena: &Rc<Arena>, sizes: Sizes) -> Result<usize, Error> {
        let mut programs = Vec::with_capacity(self.programs.len());
        for (program, loc) in &self.programs {
            programs.push(program.on(arena, sizes)?.to_program(*loc));
        }
        let kind = match self.kind {
            ControlKind::Scan { carries, slices, length, reverse, keeps } => {
                let length = length.at(sizes).ok_or_else(|| no_size(Loc::NOWHERE))?;
                ControlKind::Scan { carries, slices, length, reverse, keeps }
            }
            other => other,
        };
        Ok(arena.add_control(Rc::new(Control { kind, programs, simplified: true })))
    }
}

impl Typed {
    fn at(&self, sizes: Sizes) -> Result<ProxyTy, Error> {
        match &self.ty {
            ProxyTy::Tensor(t) => {
                let ty = t.ty.at(sizes).ok_or_else(|| no_size(Loc::NOWHERE))?;
                Ok(ProxyTy::Tensor(TensorType { ty, ..t.clone() }))
            }
            other => Ok(other.clone()),
        }
    }
}

fn no_size(loc: Loc) -> Error {
    Error::new("E745", "a size of this call could not be computed")
        .note("it is larger than any size, or divided by zero")
        .at(loc)
}

fn stray(trace: &str) -> Error {
    Error::bug("E709", format!("`{trace}` reads a value of another trace"))
}
