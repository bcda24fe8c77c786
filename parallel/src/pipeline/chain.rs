//! A chain of stages: the values that each takes from the stage before, and the gradients that it sends back.

use super::errors;
use super::stage::Stage;
use crate::schedule::Costs;
use fulgurite_runtime::Error;
use fulgurite_runtime::parts::{line_costs, written_later};
use fulgurite_runtime::trace::Trace;
use std::sync::Arc;

/// The stages of a pipeline, in order.
///
/// The first inputs of a stage are the outputs of the stage before. Its further inputs are fed to it for each
/// micro-batch and have no gradient. The chain knows which gradients are sent back: an output whose gradient the next
/// stage does not make has no cotangent.
#[derive(Debug)]
pub struct Chain {
    stages: Vec<Stage>,
    /// For each stage, the inputs whose gradient it sends back.
    sends: Vec<Vec<usize>>,
}

impl Chain {
    /// A pipeline of these stages.
    ///
    /// # Errors
    /// E756 where outputs do not fit inputs, and errors of differentiating a stage.
    pub fn new(stages: Vec<Stage>) -> Result<Chain, Error> {
        if stages.is_empty() {
            return Err(errors::misfit("a pipeline without stages"));
        }
        for (s, pair) in stages.windows(2).enumerate() {
            fit(s, &pair[0], &pair[1])?;
        }
        apart(&stages)?;
        let carried: Vec<usize> = std::iter::once(0).chain(stages.iter().map(|s| s.outputs().len())).collect();
        let (mut done, mut sends): (Vec<Stage>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        for (s, stage) in stages.into_iter().enumerate().rev() {
            let wanted = sends.last();
            let stage = stage.within(|i| i >= carried[s], |o| wanted.is_some_and(|list| !list.contains(&o)));
            let made = stage.sends()?;
            sends.push((0..made.len()).filter(|i| made[*i]).collect());
            done.push(stage);
        }
        done.reverse();
        sends.reverse();
        Ok(Chain { stages: done, sends })
    }

    /// The stages.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The number of inputs that a stage takes from the stage before.
    pub fn carried(&self, stage: usize) -> usize {
        stage.checked_sub(1).and_then(|before| self.stages.get(before)).map_or(0, |before| before.outputs().len())
    }

    /// The inputs whose gradient a stage sends to the stage before.
    pub fn sends(&self, stage: usize) -> &[usize] {
        self.sends.get(stage).map_or(&[], Vec::as_slice)
    }

    /// The stages that share a parameter, with the number of that parameter in each, in order. Stages that have no
    /// gradient by the parameter are left out.
    pub(super) fn sharing(&self, tie: usize) -> Result<Vec<(usize, usize)>, Error> {
        let mut found = Vec::new();
        for (s, stage) in self.stages.iter().enumerate() {
            let tied = stage.params().iter().enumerate().filter(|(_, slot)| slot.tied == Some(tie));
            let tied: Vec<usize> = tied.map(|(i, _)| i).collect();
            if !tied.is_empty() {
                let params = stage.backward_split(&stage.whole_mask())?.params;
                found.extend(tied.into_iter().filter(|i| params[*i].is_some()).map(|i| (s, i)));
            }
        }
        Ok(found)
    }

    /// The stages that share a parameter and want its gradient, in order, whether or not they contribute to it.
    pub(super) fn tied(&self, tie: usize) -> impl Iterator<Item = usize> + '_ {
        let has = move |stage: &Stage| stage.params().iter().any(|slot| slot.tied == Some(tie) && slot.needs_grad);
        self.stages.iter().enumerate().filter(move |(_, stage)| has(stage)).map(|(s, _)| s)
    }

    /// The costs of these stages for [`simulate`](crate::schedule::simulate): the work of F, I and W in additions by
    /// the formulas of the rows, and the bytes kept after F and after I.
    ///
    /// # Errors
    /// Reports errors of compiling and lowering.
    pub fn costs(&self) -> Result<Costs, Error> {
        let mut costs = Costs { overlap: 100, ..Costs::default() };
        for stage in &self.stages {
            let backward_split = stage.backward_split(&stage.whole_mask())?;
            let of = |trace: &Trace| Ok::<f64, Error>(line_costs(trace)?.iter().sum());
            costs.forward.push(of(&stage.of.trace)? as u64);
            costs.input.push(of(&backward_split.input)? as u64);
            let weight = backward_split.weight.iter().map(|unit| of(&unit.trace)).sum::<Result<f64, Error>>()?;
            costs.weight.push(weight as u64);
            costs.kept.push(backward_split.report.bytes_forward as u64);
            costs.handed.push(backward_split.report.bytes_handover as u64);
        }
        Ok(costs)
    }

    /// Groups of stages that share parameters, each once, in the form of
    /// [`Schedule::ties`](crate::schedule::Schedule::ties).
    pub fn ties(&self) -> Vec<Vec<usize>> {
        let slots = |s: &Stage| s.params().iter().filter_map(|p| p.tied).collect::<Vec<_>>();
        let all: std::collections::BTreeSet<usize> = self.stages.iter().flat_map(slots).collect();
        let sharing = |tie: usize| {
            let has = |s: &usize| slots(&self.stages[*s]).contains(&tie);
            (0..self.stages.len()).filter(has).collect::<Vec<_>>()
        };
        let lists: std::collections::BTreeSet<Vec<usize>> = all.into_iter().map(sharing).collect();
        lists.into_iter().filter(|list| list.len() > 1).collect()
    }
}

/// Refuses stages of which one writes a captured tensor, in the forward or the backward, that another one captures too.
fn apart(stages: &[Stage]) -> Result<(), Error> {
    for (s, stage) in stages.iter().enumerate() {
        let (trace, cells) = (&stage.of.trace, &stage.of.cells);
        let mut inputs: Vec<usize> = trace.epilogue().iter().map(|w| w.input).collect();
        for p in trace.lines().iter().flat_map(|line| written_later(&trace.arena, line)) {
            inputs.extend(trace.input_proxies().position(|input| input == p));
        }
        let first = trace.inputs().len() - cells.len();
        for input in inputs {
            let Some(cell) = input.checked_sub(first).map(|at| &cells[at]) else { continue };
            let has = |other: &Stage| other.of.cells.iter().any(|c| Arc::ptr_eq(c, cell));
            if let Some(other) = (0..stages.len()).find(|o| *o != s && has(&stages[*o])) {
                return Err(errors::shared(&trace.inputs()[input].path, s, other));
            }
        }
    }
    Ok(())
}

/// Checks that the outputs of a stage are the first inputs of the next.
fn fit(s: usize, stage: &Stage, next: &Stage) -> Result<(), Error> {
    let (outputs, inputs) = (stage.outputs(), next.inputs());
    if inputs.len() < outputs.len() {
        let claim = format!("stage {s} has {} outputs, stage {} has {} inputs", outputs.len(), s + 1, inputs.len());
        return Err(errors::misfit(claim).help("a stage takes what the stage before gives, then what is fed to it"));
    }
    for (i, (output, input)) in outputs.iter().zip(inputs).enumerate() {
        if output.ty != input.ty {
            let claim = format!(
                "output {i} of stage {s} is {}, input `{}` of stage {} is {}",
                output.ty,
                input.path,
                s + 1,
                input.ty
            );
            return Err(errors::misfit(claim));
        }
    }
    Ok(())
}
