//! A program as a [`Trace`]: inputs, lines, results, guards, writes.
//!
//! All traces of one acquisition (its stages, bodies, nested `grad` traces) share one append-only [`Arena`], so ids are
//! program-wide and "the same id through every transform" has a meaning. A [`Trace`] is an ordered list over it.

use super::arena::Arena;
use super::tag::Tag;
use super::types::{BoundSymbol, ProxyId, ProxyTy, RegionId, TensorType};
use crate::error::Phase;
use fulgurite_core::DType;
use fulgurite_core::dim::DimGuard;
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
    /// Two sizes compare like this.
    Size(DimGuard),
    /// These inputs share storage (empty groups so far are not recorded).
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
    /// Whether it is a tensor that was made while the trace was recorded: each run begins with its first value, and what is
    /// written to it ends with the run.
    pub constant: bool,
}

/// Writes to inputs after all lines succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct EpilogueWrite {
    /// The input's position.
    pub input: usize,
    /// What is written.
    pub value: ProxyId,
    /// When.
    pub phase: Phase,
}

/// A program: an ordered list of bound symbols over an arena.
#[derive(Clone)]
pub struct Trace {
    /// `step`, `step.backward`, …
    pub name: Rc<str>,
    /// Where its values live.
    pub arena: Rc<Arena>,
    /// Inputs, in order.
    pub(crate) inputs: Vec<InputCell>,
    /// Results, in order.
    pub(crate) outputs: Vec<ProxyId>,
    /// Lines, in order.
    pub(crate) lines: Vec<Rc<BoundSymbol>>,
    /// Guards and unpacking.
    pub(crate) prologue: Vec<Guard>,
    /// Writes to inputs.
    pub(crate) epilogue: Vec<EpilogueWrite>,
    /// How many of the last outputs are residuals: not results for the user, but what the backward reads.
    pub saved: usize,
    /// The scope in which it was opened: gradient mode and autocast around it do not reach inside.
    pub root: RegionId,
    /// Proxies with a smaller number may be read without being defined: the trace was opened inside another one.
    pub outer: u32,
    /// Which part of a split program it is; `None` before `split`.
    pub phase: Option<Phase>,
    /// While a transform of a user runs: the tag of lines that it has seen in a trace inside this one.
    pub(crate) seen: Option<Tag>,
    /// When it was made: types that a later transform changed are looked up as they were.
    pub epoch: u32,
    /// Which transform made it, how long that took (µs), from what.
    pub provenance: Provenance,
}

/// What a part of a trace has of it.
pub struct TracePart {
    /// Its inputs; no two of them are one cell.
    pub inputs: Vec<InputCell>,
    /// Its lines, in the order of the whole.
    pub lines: Vec<Rc<BoundSymbol>>,
    /// Its results.
    pub outputs: Vec<ProxyId>,
    /// What must hold of the arguments.
    pub guards: Vec<Guard>,
    /// The inputs that are written after a run.
    pub writes: Vec<EpilogueWrite>,
}

/// Where a trace comes from.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// The transform.
    pub made_by: &'static str,
    /// Microseconds.
    pub micros: u64,
    /// The stage before.
    pub from: Option<&'static str>,
}

impl Trace {
    /// Inputs, in order.
    pub fn inputs(&self) -> &[InputCell] {
        &self.inputs
    }

    /// Results, in order.
    pub fn outputs(&self) -> &[ProxyId] {
        &self.outputs
    }

    /// Its lines, in order. Only a [`Rewriter`](crate::bind::Rewriter) makes others.
    pub fn lines(&self) -> &[Rc<BoundSymbol>] {
        &self.lines
    }

    /// Guards and unpacking.
    pub fn prologue(&self) -> &[Guard] {
        &self.prologue
    }

    /// Writes to inputs.
    pub fn epilogue(&self) -> &[EpilogueWrite] {
        &self.epilogue
    }

    /// Whether it writes to inputs, or has a backward that may.
    pub fn writes(&self) -> bool {
        !self.epilogue.is_empty() || self.lines.iter().any(|l| l.symbol.own().is_some_and(|own| own.variables > 0))
    }

    /// The type that a proxy has in this trace.
    pub fn ty(&self, id: ProxyId) -> ProxyTy {
        self.arena.ty_at(id, self.epoch)
    }

    /// What a trace made from `source` has in common with it; `by` and `started` say who made it.
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

    /// A trace of some of its lines, under its name; the values are the same ones.
    pub fn part(&self, part: TracePart) -> Trace {
        let TracePart { mut inputs, lines, outputs, guards, writes } = part;
        inputs.iter_mut().enumerate().for_each(|(i, cell)| cell.alias_group = i);
        Trace { inputs, lines, outputs, prologue: guards, epilogue: writes, ..self.clone() }
    }

    /// The proxies of its inputs.
    pub fn input_proxies(&self) -> impl Iterator<Item = ProxyId> + '_ {
        self.inputs.iter().map(|i| i.proxy)
    }

    /// The line that makes `id`, if one of this trace does.
    pub fn producer(&self, id: ProxyId) -> Option<&Rc<BoundSymbol>> {
        self.lines.iter().find(|l| l.outs.contains(&id) || l.aux.contains(&id))
    }
}
