//! Cuts a trace over symbolic sizes in two parts: lines that depend on sizes of the call, and the lines after them that
//! do not.

use super::{Line, Sizes, SymbolicTrace, Typed};
use crate::trace::{ProxyId, ProxyTy};
use fulgurite_core::Value;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;

/// A part of a trace. Its inputs and outputs are given by their position in the whole trace.
pub struct ProgramPart {
    /// The part as a trace.
    pub trace: SymbolicTrace,
    /// The inputs.
    pub inputs: Vec<ProxyId>,
    /// The results.
    pub outputs: Vec<ProxyId>,
}

impl SymbolicTrace {
    /// The results, then the values that are written.
    pub fn results(&self) -> impl Iterator<Item = ProxyId> + '_ {
        self.outputs.iter().copied().chain(self.writes.iter().map(|w| w.value))
    }

    /// The atoms in the types of results, and in those of inputs that have the type of a result at these sizes.
    pub fn atoms_that_come_back(&self, sizes: Sizes) -> FxHashSet<String> {
        let seen = RefCell::new(FxHashSet::default());
        let note = |name: &str| {
            seen.borrow_mut().insert(name.to_owned());
            sizes(name)
        };
        let results = self.results().filter_map(|p| self.values.get(p.0 as usize));
        let types: Vec<ProxyTy> = results.filter_map(|value| value.at(&note).ok()).collect();
        for input in &self.values[..self.inputs.len()] {
            if input.at(sizes).is_ok_and(|ty| types.contains(&ty)) {
                let _ = input.at(&note);
            }
        }
        seen.into_inner()
    }

    /// For each line, whether it belongs to the tail: its types are known from the sizes that `known` returns, and so
    /// are those of all lines that read its results.
    pub fn tail(&self, known: Sizes) -> Vec<bool> {
        let settled: Vec<bool> = self.values.iter().map(|value| value.at(known).is_ok()).collect();
        let mut early = vec![false; self.values.len()];
        let mut tail = vec![false; self.lines.len()];
        let mut end = self.values.len();
        for (at, line) in self.lines.iter().enumerate().rev() {
            let made = end - line.made()..end;
            end = made.start;
            let mut fits = made.clone().all(|v| settled[v] && !early[v]);
            line.for_each_arg(|p| fits &= settled.get(p.0 as usize) == Some(&true));
            fits &= line.args.iter().all(|arg| arg.at(known).is_some());
            fits &= line.control.is_none();
            tail[at] = fits;
            if !fits {
                line.for_each_arg(|p| early[p.0 as usize] = true);
            }
        }
        tail
    }

    /// The lines before the tail, with all inputs; and the lines of the tail.
    pub fn cut(&self, tail: &[bool]) -> (ProgramPart, ProgramPart) {
        let inputs = self.inputs.len();
        let mut late = vec![false; self.values.len()];
        let mut next = inputs;
        for (line, of_tail) in self.lines.iter().zip(tail) {
            late[next..next + line.made()].fill(*of_tail);
            next += line.made();
        }
        let mut read = Vec::new();
        let mut seen = FxHashSet::default();
        for line in self.lines.iter().zip(tail).filter(|(_, of_tail)| **of_tail).map(|(line, _)| line) {
            line.for_each_arg(|p| read.extend((!late[p.0 as usize] && seen.insert(p)).then_some(p)));
        }
        let mut given = FxHashSet::default();
        let mut results = |wanted: &dyn Fn(ProxyId) -> bool| -> Vec<ProxyId> {
            let all = read.iter().copied().chain(self.results());
            all.filter(|p| wanted(*p) && given.insert(*p)).collect()
        };
        let head_outputs = results(&|p| !late[p.0 as usize] && p.0 as usize >= inputs);
        let tail_outputs = results(&|p| late[p.0 as usize]);
        let all: Vec<ProxyId> = (0..inputs as u32).map(ProxyId).collect();
        (self.part(all, head_outputs, |at| !tail[at]), self.part(read, tail_outputs, |at| tail[at]))
    }

    fn part(&self, inputs: Vec<ProxyId>, outputs: Vec<ProxyId>, has: impl Fn(usize) -> bool) -> ProgramPart {
        let mut position: FxHashMap<ProxyId, ProxyId> = FxHashMap::default();
        let mut values: Vec<Typed> = Vec::new();
        let mut define = |p: ProxyId| {
            position.insert(p, ProxyId(values.len() as u32));
            values.push(self.values[p.0 as usize].clone());
        };
        inputs.iter().copied().for_each(&mut define);
        let mut next = self.inputs.len();
        for (at, line) in self.lines.iter().enumerate() {
            if has(at) {
                (next..next + line.made()).for_each(|v| define(ProxyId(v as u32)));
            }
            next += line.made();
        }
        // invariant: a part reads its inputs and its own results
        let to = |p: &ProxyId| position.get(p).copied().unwrap_or(ProxyId(u32::MAX));
        let lines = self.lines.iter().enumerate().filter(|(at, _)| has(*at)).map(|(_, line)| line.with_args(&to));
        let input = |p: &ProxyId| super::Input { path: self.values[p.0 as usize].name.clone(), donated: false };
        let trace = SymbolicTrace {
            name: self.name.clone(),
            inputs: inputs.iter().map(input).collect(),
            lines: lines.collect(),
            outputs: outputs.iter().map(to).collect(),
            writes: Vec::new(),
            values,
        };
        ProgramPart { trace, inputs, outputs }
    }
}

impl Line {
    /// The number of values that the line makes.
    fn made(&self) -> usize {
        self.outs + self.aux
    }

    fn for_each_arg(&self, mut f: impl FnMut(ProxyId)) {
        self.args.iter().for_each(|arg| arg.for_each(&mut |p| f(*p)));
    }

    fn with_args(&self, to: &impl Fn(&ProxyId) -> ProxyId) -> Line {
        let args: Vec<Value<ProxyId>> = self.args.iter().map(|arg| arg.map(&mut |p| to(p))).collect();
        Line { args, merged: self.merged.clone(), control: self.control.clone(), ..*self }
    }
}
