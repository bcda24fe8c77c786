//! A program as a [`Trace`]: inputs, lines, results, guards, writes.
//!
//! All traces of one acquisition (its stages, bodies, nested `grad` traces) share one append-only [`Arena`], so ids are
//! program-wide and keep their meaning through every transform. A [`Trace`] is an ordered list over it.

use super::arena::Arena;
use super::control::LineProgram;
use super::tag::Tag;
use super::types::{BoundSymbol, ProxyId, ProxyTy, RegionId, TensorType};
use crate::error::Phase;
use fulgurite_core::DType;
use fulgurite_core::dim::DimGuard;
use fulgurite_core::loc::Loc;
use std::rc::Rc;

/// A condition under which a compiled program may run, printed in the prologue.
#[derive(Clone, Debug, PartialEq)]
pub enum Guard {
    /// Input number `.0` is a tensor of this type.
    Tensor(usize, TensorType),
    /// Input number `.0` is a key.
    Key(usize),
    /// Input number `.0` is a number of this dtype.
    Number(usize, DType),
    /// A part of the arguments that is not a tensor has this hash (its debug print is shown).
    Fixed(String),
    /// Two sizes compare in this way.
    Size(DimGuard),
    /// These inputs share storage.
    Alias(Vec<usize>),
}

/// An input cell: the identity of a mutable tensor.
#[derive(Clone, Debug)]
pub struct InputCell {
    /// The proxy of its value at entry.
    pub proxy: ProxyId,
    /// The current version's proxy (writes make new versions).
    pub version: ProxyId,
    /// Inputs with the same group may share storage.
    pub alias_group: usize,
    /// A path in the user's arguments, `0.blocks.2.qkv.w`, or a captured tensor's number.
    pub path: Rc<str>,
    /// Whether the argument was moved in and may be overwritten.
    pub donated: bool,
    /// Whether the input is a tensor that was made while the trace was recorded. Each run begins with its first value,
    /// and writes to it end with the run.
    pub constant: bool,
}

/// A write to an input, which happens after all lines succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct EpilogueWrite {
    /// The position of the input.
    pub input: usize,
    /// The value that is written.
    pub value: ProxyId,
    /// The phase of the write.
    pub phase: Phase,
}

/// A program: an ordered list of bound symbols over an arena.
#[derive(Clone)]
pub struct Trace {
    /// The name: `step`, `step.backward`, ….
    pub name: Rc<str>,
    /// The store of the trace's values.
    pub arena: Rc<Arena>,
    /// The inputs, in order.
    pub(crate) inputs: Vec<InputCell>,
    /// The results, in order.
    pub(crate) outputs: Vec<ProxyId>,
    /// The lines, in order.
    pub(crate) lines: Vec<Rc<BoundSymbol>>,
    /// The guards, and the unpacking of arguments.
    pub(crate) prologue: Vec<Guard>,
    /// The writes to inputs.
    pub(crate) epilogue: Vec<EpilogueWrite>,
    /// The number of outputs at the end that are residuals: the backward reads them, and the user does not see them.
    pub saved: usize,
    /// The scope in which the trace was opened; gradient mode and autocast outside of it do not apply inside.
    pub root: RegionId,
    /// Proxies with a smaller number may be read without a definition, because the trace was opened inside another one.
    pub outer: u32,
    /// The part of a split program; `None` before `split`.
    pub phase: Option<Phase>,
    /// While a user's transform runs, the tag of lines that it has seen in a trace inside this one.
    pub(crate) seen: Option<Tag>,
    /// The epoch of the trace: types that a later transform changed are looked up as they were.
    pub epoch: u32,
    /// The transform that made the trace, the time that it took, and the source.
    pub provenance: Provenance,
}

/// A part of a trace.
pub struct TracePart {
    /// The inputs; no two of them are one cell.
    pub inputs: Vec<InputCell>,
    /// The lines, in the order of the whole trace.
    pub lines: Vec<Rc<BoundSymbol>>,
    /// The results.
    pub outputs: Vec<ProxyId>,
    /// The conditions on the arguments.
    pub guards: Vec<Guard>,
    /// The inputs that are written after a run.
    pub writes: Vec<EpilogueWrite>,
}

/// The origin of a trace.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// The transform.
    pub made_by: &'static str,
    /// The time in microseconds.
    pub micros: u64,
    /// The stage before.
    pub from: Option<&'static str>,
}

impl Trace {
    /// The inputs, in order.
    pub fn inputs(&self) -> &[InputCell] {
        &self.inputs
    }

    /// The results, in order.
    pub fn outputs(&self) -> &[ProxyId] {
        &self.outputs
    }

    /// The lines, in order. Only a [`Rewriter`](crate::bind::Rewriter) changes them.
    pub fn lines(&self) -> &[Rc<BoundSymbol>] {
        &self.lines
    }

    /// The guards, and the unpacking of arguments.
    pub fn prologue(&self) -> &[Guard] {
        &self.prologue
    }

    /// The writes to inputs.
    pub fn epilogue(&self) -> &[EpilogueWrite] {
        &self.epilogue
    }

    /// Whether the trace writes to inputs, or has a custom backward that may.
    pub fn writes(&self) -> bool {
        !self.epilogue.is_empty() || self.lines.iter().any(|l| l.symbol.own().is_some_and(|own| own.variables > 0))
    }

    /// The type that a proxy has in this trace.
    pub fn ty(&self, id: ProxyId) -> ProxyTy {
        self.arena.ty_at(id, self.epoch)
    }

    /// Takes over from `source` the properties that a transform keeps; `by` and `started` become the provenance.
    pub(crate) fn adopt(&mut self, source: &Trace, by: &'static str, started: std::time::Instant) {
        self.name = source.name.clone();
        self.prologue = source.prologue.clone();
        self.saved = source.saved;
        self.root = source.root;
        self.outer = source.outer;
        self.phase = source.phase;
        self.seen = source.seen;
        self.provenance = Provenance {
            made_by: by,
            micros: started.elapsed().as_micros() as u64,
            from: Some(source.provenance.made_by),
        };
    }

    /// A trace of some of the lines, with the name of the whole; the values keep their ids.
    pub fn part(&self, part: TracePart) -> Trace {
        let TracePart { mut inputs, lines, outputs, guards, writes } = part;
        inputs.iter_mut().enumerate().for_each(|(i, cell)| cell.alias_group = i);
        Trace { inputs, lines, outputs, prologue: guards, epilogue: writes, ..self.clone() }
    }

    /// A program of a line as a trace, whose values are those of `arena`.
    pub fn of_program(arena: &Rc<Arena>, name: &str, program: &LineProgram) -> Trace {
        let input = |(i, p): (usize, &ProxyId)| InputCell {
            proxy: *p,
            version: *p,
            alias_group: i,
            path: arena.name(*p),
            donated: false,
            constant: false,
        };
        Trace {
            name: Rc::from(name),
            arena: arena.clone(),
            inputs: program.inputs.iter().enumerate().map(input).collect(),
            outputs: program.outputs.clone(),
            lines: program.lines.clone(),
            prologue: Vec::new(),
            epilogue: Vec::new(),
            saved: 0,
            root: program.root,
            outer: 0,
            phase: None,
            seen: None,
            epoch: program.epoch,
            provenance: Provenance { made_by: "control", micros: 0, from: None },
        }
    }

    /// The trace as a program of a line; it reads nothing but its inputs, and writes nothing.
    pub fn to_program(&self, loc: Loc) -> LineProgram {
        LineProgram {
            inputs: self.input_proxies().collect(),
            lines: self.lines.clone(),
            outputs: self.outputs.clone(),
            root: self.root,
            epoch: self.epoch,
            loc,
        }
    }

    /// The proxies of the inputs.
    pub fn input_proxies(&self) -> impl Iterator<Item = ProxyId> + '_ {
        self.inputs.iter().map(|i| i.proxy)
    }

    /// The line that makes `id`, if a line of this trace does.
    pub fn producer(&self, id: ProxyId) -> Option<&Rc<BoundSymbol>> {
        self.lines.iter().find(|l| l.outs.contains(&id) || l.aux.contains(&id))
    }
}
