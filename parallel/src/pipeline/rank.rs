//! Runs the list of actions of one rank.

use super::chain::Chain;
use super::cotangents::Cotangents;
use super::errors;
use super::run::StageRun;
use super::sums::{Accumulate, Arithmetic};
use crate::schedule::{Action, Kind, Schedule, Work};
use fulgurite_runtime::Error;
use fulgurite_runtime::tensor::Tensor;
use fulgurite_runtime::trace::ProxyTy;
use std::collections::BTreeMap;

/// The kind of a message between stages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Direction {
    /// The message has outputs of a forward.
    Forward,
    /// The message has gradients of inputs.
    Backward,
    /// The message has the gradient of a shared parameter, given by its number. The micro-batch of such a message is 0.
    Tied(usize),
}

/// A message from one stage to another. Between any two ranks, a message with these fields is sent once in a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Edge {
    /// The stage that sends.
    pub from: usize,
    /// The stage that receives.
    pub to: usize,
    /// The micro-batch.
    pub micro_batch: usize,
    /// The kind of the message.
    pub direction: Direction,
}

/// Carries tensors between stages on different ranks.
pub trait Transport {
    /// Sends, without waiting for the other side.
    ///
    /// # Errors
    /// Reports errors of the carrier.
    fn send(&mut self, edge: Edge, values: Vec<Tensor>) -> Result<(), Error>;

    /// Waits for the message of this edge, whose tensors have these types.
    ///
    /// # Errors
    /// Reports errors of the carrier.
    fn receive(&mut self, edge: Edge, types: &[ProxyTy]) -> Result<Vec<Tensor>, Error>;
}

/// Gives the inputs of a stage for a micro-batch that do not come from the stage before.
pub type Feed<'f> = dyn FnMut(usize, usize) -> Result<Vec<Tensor>, Error> + 'f;

/// A rank during one step.
pub struct Rank<'c> {
    chain: &'c Chain,
    place: Vec<usize>,
    runs: BTreeMap<usize, StageRun<'c>>,
    /// Messages between two stages of this rank.
    here: BTreeMap<Edge, Vec<Tensor>>,
    outputs: BTreeMap<usize, Vec<Tensor>>,
    reduced: BTreeMap<usize, Vec<Option<Tensor>>>,
    arithmetic: Arithmetic,
    peak: usize,
}

/// The results of a rank at the end of a step.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// For each stage, the gradients of its parameters as means over micro-batches. `None` means that there is no
    /// gradient.
    pub grads: BTreeMap<usize, Vec<Option<Tensor>>>,
    /// For each micro-batch, the outputs of the last stage, if that stage is on this rank.
    pub outputs: BTreeMap<usize, Vec<Tensor>>,
    /// The most bytes that were kept for micro-batches under way.
    pub peak: usize,
}

impl<'c> Rank<'c> {
    /// Makes rank number `rank` of a schedule; `params` gives the parameters of a stage, in order.
    ///
    /// # Errors
    /// E756 if the schedule has other stages, and E748 or E712 for other parameters.
    pub fn new(
        chain: &'c Chain,
        schedule: &Schedule,
        rank: usize,
        params: impl Fn(usize) -> Vec<Tensor>,
        order: Accumulate,
    ) -> Result<Rank<'c>, Error> {
        let stages = chain.stages();
        if schedule.stages != stages.len() || schedule.place.len() != stages.len() {
            let claim = format!("the schedule has {} stages, the pipeline {}", schedule.stages, stages.len());
            return Err(errors::misfit(claim));
        }
        let mut runs = BTreeMap::new();
        for stage in (0..stages.len()).filter(|s| schedule.place[*s] == rank) {
            let run = StageRun::new(&stages[stage], stage, &params(stage), schedule.micro_batches)?;
            runs.insert(stage, run.accumulating(order));
        }
        Ok(Rank {
            chain,
            place: schedule.place.clone(),
            runs,
            here: BTreeMap::new(),
            outputs: BTreeMap::new(),
            reduced: BTreeMap::new(),
            arithmetic: Arithmetic::default(),
            peak: 0,
        })
    }

    /// The bytes that are kept for micro-batches under way.
    pub fn bytes(&self) -> usize {
        self.runs.values().map(StageRun::bytes).sum()
    }

    /// The gradients of a stage once they are reduced; a gradient of a shared parameter is still a part of a sum.
    pub fn reduced(&self, stage: usize) -> Option<&[Option<Tensor>]> {
        self.reduced.get(&stage).map(Vec::as_slice)
    }

    /// Runs one action. A send happens behind the work that makes its values, and a receive where work needs it, so
    /// actions that only name a send or a receive do nothing.
    ///
    /// # Errors
    /// E752 for an action out of order, and errors of running and of the transport.
    pub fn act(&mut self, action: Action, feed: &mut Feed, transport: &mut dyn Transport) -> Result<(), Error> {
        match action {
            Action::Do(_) | Action::Overlap(..) => action.works().try_for_each(|work| self.work(work, feed, transport)),
            Action::Reduce(stage) => self.reduce(stage, transport),
            Action::Send(_) | Action::Receive(_) => Ok(()),
        }
    }

    pub(super) fn work(&mut self, work: Work, feed: &mut Feed, transport: &mut dyn Transport) -> Result<(), Error> {
        let Work { stage, kind, micro_batch } = work;
        // an action may come from outside, so the stage may not be on this rank
        self.run(stage)?;
        match kind {
            Kind::F => {
                let carried = self.chain.carried(stage);
                let types = types(self.chain.stages()[stage].inputs().iter().take(carried));
                let mut inputs = match stage.checked_sub(1) {
                    Some(from) if carried > 0 => {
                        let edge = Edge { from, to: stage, micro_batch, direction: Direction::Forward };
                        self.receive(edge, &types, transport)?
                    }
                    _ => Vec::new(),
                };
                inputs.extend(feed(stage, micro_batch)?);
                let outputs = self.run(stage)?.forward(micro_batch, &inputs)?;
                drop(inputs);
                if stage + 1 == self.chain.stages().len() {
                    self.outputs.insert(micro_batch, outputs);
                } else if !outputs.is_empty() {
                    let edge = Edge { from: stage, to: stage + 1, micro_batch, direction: Direction::Forward };
                    self.send(edge, outputs, transport)?;
                }
            }
            Kind::B | Kind::I => {
                let cotangents = self.cotangents(stage, micro_batch, transport)?;
                let run = self.run(stage)?;
                let mut grads = match kind {
                    Kind::B => run.backward(micro_batch, cotangents)?,
                    _ => run.input_backward(micro_batch, cotangents)?,
                };
                let sends = self.chain.sends(stage);
                if let (Some(to), false) = (stage.checked_sub(1), sends.is_empty()) {
                    let lost = || Error::bug("E709", "a gradient that is sent back was not made");
                    let values = sends.iter().map(|i| grads[*i].take().ok_or_else(lost)).collect::<Result<_, _>>()?;
                    let edge = Edge { from: stage, to, micro_batch, direction: Direction::Backward };
                    self.send(edge, values, transport)?;
                }
            }
            Kind::W => _ = self.run(stage)?.weight_backward(micro_batch)?,
        }
        self.peak = self.peak.max(self.bytes());
        Ok(())
    }

    /// The cotangents that the backward of a stage starts from: those that the next stage sends, or the loss.
    fn cotangents(
        &mut self,
        stage: usize,
        micro_batch: usize,
        transport: &mut dyn Transport,
    ) -> Result<Cotangents, Error> {
        let stages = self.chain.stages();
        if stage + 1 == stages.len() {
            return Ok(Cotangents::Loss);
        }
        let outputs = stages[stage].outputs();
        let mut leaves: Vec<Option<Tensor>> = vec![None; outputs.len()];
        let sent = self.chain.sends(stage + 1);
        if !sent.is_empty() {
            let types = types(sent.iter().map(|i| &outputs[*i]));
            let edge = Edge { from: stage + 1, to: stage, micro_batch, direction: Direction::Backward };
            let values = self.receive(edge, &types, transport)?;
            sent.iter().zip(values).for_each(|(i, value)| leaves[*i] = Some(value));
        }
        Ok(Cotangents::Leaves(leaves))
    }

    /// Completes the gradients of a stage; gradients of shared parameters are sent to the other stages that have them.
    pub(super) fn reduce(&mut self, stage: usize, transport: &mut dyn Transport) -> Result<(), Error> {
        let grads = self.run(stage)?.reduce()?;
        let slots = self.chain.stages()[stage].params();
        for (slot, grad) in slots.iter().zip(&grads) {
            let (Some(tie), Some(grad)) = (slot.tied, grad) else { continue };
            // stages that read the parameter without a gradient have it too, and want the whole gradient
            for to in self.chain.tied(tie).filter(|to| *to != stage).collect::<Vec<_>>() {
                let edge = Edge { from: stage, to, micro_batch: 0, direction: Direction::Tied(tie) };
                self.send(edge, vec![grad.clone()], transport)?;
            }
        }
        self.reduced.insert(stage, grads);
        Ok(())
    }

    /// Reduces the stages that the list did not reduce, adds up the parts of shared parameters in the order of stages,
    /// and returns the results.
    ///
    /// # Errors
    /// E752 while a micro-batch is not done, and errors of the transport.
    pub fn finish(mut self, transport: &mut dyn Transport) -> Result<Done, Error> {
        self.reduce_all(transport)?;
        let mut grads = self.reduced.clone();
        for (stage, list) in &mut grads {
            let slots = self.chain.stages()[*stage].params();
            for (slot, grad) in slots.iter().zip(list.iter_mut()) {
                if let Some(tie) = slot.tied.filter(|_| slot.needs_grad) {
                    *grad = self.tied(*stage, tie, &slot.ty, transport)?;
                }
            }
        }
        Ok(Done { grads, outputs: self.outputs, peak: self.peak })
    }

    pub(super) fn reduce_all(&mut self, transport: &mut dyn Transport) -> Result<(), Error> {
        let open: Vec<usize> = self.runs.keys().copied().filter(|s| !self.reduced.contains_key(s)).collect();
        open.into_iter().try_for_each(|stage| self.reduce(stage, transport))
    }

    /// The whole gradient by a shared parameter, for one of the stages that have the parameter.
    fn tied(
        &mut self,
        stage: usize,
        tie: usize,
        ty: &ProxyTy,
        transport: &mut dyn Transport,
    ) -> Result<Option<Tensor>, Error> {
        let mut sum: Option<Tensor> = None;
        for (from, param) in self.chain.sharing(tie)? {
            let part = match from == stage {
                true => self.reduced.get(&stage).and_then(|grads| grads[param].clone()),
                false => {
                    let edge = Edge { from, to: stage, micro_batch: 0, direction: Direction::Tied(tie) };
                    self.receive(edge, std::slice::from_ref(ty), transport)?.pop()
                }
            };
            sum = match (sum, part) {
                (Some(sum), Some(part)) => Some(self.arithmetic.add(sum, part)?),
                (sum, part) => sum.or(part),
            };
        }
        Ok(sum)
    }

    fn run(&mut self, stage: usize) -> Result<&mut StageRun<'c>, Error> {
        let place = self.place.get(stage).copied();
        self.runs.get_mut(&stage).ok_or_else(|| {
            let whose = place.map_or_else(|| "nowhere".to_owned(), |rank| format!("on rank {rank}"));
            errors::misfit(format!("stage {stage} runs {whose}, not here")).help("check the schedule")
        })
    }

    fn send(&mut self, edge: Edge, values: Vec<Tensor>, transport: &mut dyn Transport) -> Result<(), Error> {
        if self.runs.contains_key(&edge.to) {
            self.here.insert(edge, values);
            return Ok(());
        }
        transport.send(edge, values)
    }

    fn receive(&mut self, edge: Edge, types: &[ProxyTy], transport: &mut dyn Transport) -> Result<Vec<Tensor>, Error> {
        if !self.runs.contains_key(&edge.from) {
            return transport.receive(edge, types);
        }
        self.here.remove(&edge).ok_or_else(|| {
            let Edge { from, to, micro_batch, .. } = edge;
            let claim = format!("stage {to} waits for what stage {from} gives for micro-batch {micro_batch}");
            errors::misfit(claim).help("check the schedule")
        })
    }
}

fn types<'s>(slots: impl Iterator<Item = &'s super::Slot>) -> Vec<ProxyTy> {
    slots.map(|s| s.ty.clone()).collect()
}

/// Runs the list of one rank and returns its results. Every rank of the schedule must be run this way somewhere.
///
/// # Errors
/// Reports errors of an action, with the rank and the action.
pub fn run_rank(
    chain: &Chain,
    schedule: &Schedule,
    rank: usize,
    params: impl Fn(usize) -> Vec<Tensor>,
    order: Accumulate,
    feed: &mut Feed,
    transport: &mut dyn Transport,
) -> Result<Done, Error> {
    let mut this = Rank::new(chain, schedule, rank, params, order)?;
    let list = schedule.lists.get(rank).map_or(&[][..], Vec::as_slice);
    for (position, action) in list.iter().enumerate() {
        this.act(*action, feed, transport).map_err(|e| at(e, rank, position, *action))?;
    }
    this.finish(transport).map_err(|e| e.note(format!("rank {rank}, behind its list")))
}

/// Adds to an error the place in the schedule where it occurred.
pub(super) fn at(e: Error, rank: usize, position: usize, action: Action) -> Error {
    e.note(format!("rank {rank}, at `{action}`, action {position} of its list"))
}
