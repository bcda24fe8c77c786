//! Batches lines of control flow whose condition is the same for all slices: the programs are batched.

use super::{Sweep, batch};
use crate::bind::copied;
use crate::error::Error;
use crate::trace::*;
use fulgurite_core::Value;
use rustc_hash::FxHashSet;

impl Sweep {
    /// Batches the line.
    pub(super) fn control(&mut self, line: &BoundSymbol, control: &Control) -> Result<(), Error> {
        let given: Vec<ProxyId> = line.args.iter().filter_map(proxy).collect();
        let differs = |p: &ProxyId| self.values.contains_key(p) || self.keys.contains(p);
        let mut flags: Vec<bool> = given.iter().map(differs).collect();
        let kind = control.kind;
        if kind == ControlKind::Cond && flags.first() == Some(&true) {
            return Err(
                one_condition(kind).help("compute both results, and choose between them slice by slice: `where`")
            );
        }
        let arena = self.b.arena().clone();
        let results = spread(&arena, control, &mut flags);
        let (carries, slices) = sizes(kind);
        let is_key = |p: &ProxyId| arena.with_ty(*p, |ty| *ty == ProxyTy::Key);
        if let Some((p, _)) = given[..carries].iter().zip(&flags).find(|(p, flag)| **flag && is_key(p)) {
            let claim = format!(
                "the carry `{}` of a `{}` is a key that each slice has its own of",
                arena.name(*p),
                kind.name()
            );
            return Err(
                Error::new("E726", claim).help("split the key outside, and slice the children: `scan` over them")
            );
        }
        if let (ControlKind::While { .. }, Some(condition)) = (kind, control.programs.first())
            && depends(&arena, condition, &flags).contains(&true)
        {
            return Err(
                one_condition(kind).help("give a bound, and keep a finished slice unchanged: `where` in the body")
            );
        }
        let mut programs = Vec::with_capacity(control.programs.len());
        for (name, program) in kind.program_names().iter().zip(&control.programs) {
            let test = *name == "condition";
            let trace = Trace::of_program(&arena, name, program);
            let made = batch(&trace, &flags[kind.before_inputs()..], self.size, &|o| !test && results[o])?;
            programs.push(copied(&arena, &made.to_program(program.loc)));
        }
        let mut args = Vec::with_capacity(given.len());
        for (i, p) in given.iter().enumerate() {
            args.push(match flags[i] {
                true if (carries..carries + slices).contains(&i) => {
                    let all = self.whole(*p)?;
                    self.swapped(all)?
                }
                true => self.whole(*p)?,
                false => self.standing(*p),
            });
        }
        let reuse: Vec<Option<ProxyId>> = line.outs.iter().zip(&results).map(|(p, b)| (!*b).then_some(*p)).collect();
        let outs = self.b.control(Control { kind, programs, simplified: false }, &args, &reuse)?;
        for (i, (old, new)) in line.outs.iter().zip(outs).enumerate().filter(|(i, _)| results[*i]) {
            let stacked = matches!(kind, ControlKind::Scan { .. }) && i >= carries;
            let all = if stacked { self.swapped(new)? } else { new };
            self.stands_for(*old, all);
        }
        Ok(())
    }

    /// The tensor with its first two axes swapped.
    fn swapped(&mut self, p: ProxyId) -> Result<ProxyId, Error> {
        let rank = self.b.arena().tensor_ty(p).map_or(0, |ty| ty.rank()) as i64;
        let order: Vec<i64> = [1, 0].into_iter().chain(2..rank).collect();
        self.b.permute(p, &order)
    }
}

fn proxy(arg: &Value<ProxyId>) -> Option<ProxyId> {
    match arg {
        Value::Tensor(p) => Some(*p),
        _ => None,
    }
}

/// The numbers of carries and of sliced tensors.
fn sizes(kind: ControlKind) -> (usize, usize) {
    match kind {
        ControlKind::Cond => (0, 0),
        ControlKind::While { carries, .. } => (carries, 0),
        ControlKind::Scan { carries, slices, .. } => (carries, slices),
    }
}

/// For each result of a line, whether it depends on an argument with a flag. A carry that some step makes depend gets a
/// flag.
fn spread(arena: &Arena, control: &Control, flags: &mut [bool]) -> Vec<bool> {
    if control.kind == ControlKind::Cond {
        let (condition, inputs) = flags.split_first().map_or((false, &[][..]), |(first, rest)| (*first, rest));
        let mut both = control.programs.iter().map(|program| depends(arena, program, inputs));
        let (then, otherwise) = (both.next().unwrap_or_default(), both.next().unwrap_or_default());
        return then.iter().zip(&otherwise).map(|(a, b)| condition || *a || *b).collect();
    }
    let (carries, _) = sizes(control.kind);
    let Some(body) = control.programs.last() else { return Vec::new() };
    loop {
        let mut results = depends(arena, body, flags);
        let mut grown = false;
        for (flag, differs) in flags[..carries].iter_mut().zip(&mut results) {
            grown |= *differs && !*flag;
            *flag |= *differs;
            *differs = *flag;
        }
        if !grown {
            return results;
        }
    }
}

/// For each result of a program, whether it depends on an input with a flag.
fn depends(arena: &Arena, program: &LineProgram, flags: &[bool]) -> Vec<bool> {
    let flagged = program.inputs.iter().zip(flags).filter(|(_, flag)| **flag);
    let mut differ: FxHashSet<ProxyId> = flagged.map(|(p, _)| *p).collect();
    for line in &program.lines {
        let mut reads = Vec::new();
        line.for_each_arg(|p| reads.push(differ.contains(&p)));
        if !reads.contains(&true) {
            continue;
        }
        match arena.control(line) {
            Some(control) => {
                let results = spread(arena, &control, &mut reads);
                differ.extend(line.outs.iter().zip(results).filter(|(_, differs)| *differs).map(|(p, _)| *p));
            }
            None => differ.extend(line.outs.iter().chain(&line.aux)),
        }
    }
    program.outputs.iter().map(|p| differ.contains(p)).collect()
}

fn one_condition(kind: ControlKind) -> Error {
    let claim = format!("the condition of a `{}` differs from slice to slice", kind.name());
    Error::new("E726", claim).note("one program runs for all slices, so all of them must go the same way")
}
