//! One rank's part of a run.
//!
//! In a step, the stages of this rank run their works in the order of the schedule. When the last backward of a stage
//! is done, its gradients are summed over the copies while the other works go on. Then rank 0 computes the norm of
//! the whole gradient from those of the stages, and every rank takes the optimiser's step for its own stages.
//!
//! Losses, gradients and norms are added in the order of micro-batches, stages and copies, never in that of arrival.
//! Equal cuts and micro-batches therefore give equal bits on one rank and on many.

use super::super::folder::Learner;
use super::super::run::Engine;
use super::agree::stop;
use super::plan::{MOST, Plan};
use super::sums::{Sum, numbers, tree_of};
use super::wire;
use crate::fault::Fault;
use crate::ui::Ui;
use fulgurite::comm::{FIRST_TAG, Ranks, Tag, bytes, floats};
use fulgurite::jit;
use fulgurite::optim::AdamW;
use fulgurite::pipeline::{Accumulate, Direction, Edge, Rank, StagedModel, Transport};
use fulgurite::prelude::*;
use fulgurite::schedule::{Action, Kind, Work};
use fulgurite::trace::ProxyTy;
use fulgurite::{Error, tree};
use std::collections::HashMap;

/// Commands of rank 0 to the others.
const COMMAND: Tag = FIRST_TAG;
const MEASURES: Tag = FIRST_TAG + 1;
const FACTOR: Tag = FIRST_TAG + 2;
const STATE: Tag = FIRST_TAG + 3;
/// Gradients of parameters that stages share, by the stages that send and receive. These tags follow those of sums.
const TIES: Tag = (1 << 13) + 128;
/// Values between stages, by stage, direction and micro-batch. Micro-batches at a distance of `APART` share a tag,
/// and their messages keep their order.
const VALUES: Tag = 1 << 14;
const APART: usize = 128;

/// A command: a step with its number and learning rate, the state to rank 0, or the end.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Command {
    Step(u64, f64),
    State,
    End,
}

impl Command {
    fn write(self) -> Vec<u8> {
        let (kind, number, lr) = match self {
            Command::Step(number, lr) => (0u8, number, lr),
            Command::State => (1, 0, 0.0),
            Command::End => (2, 0, 0.0),
        };
        [&[kind][..], &number.to_ne_bytes(), &lr.to_ne_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Option<Command> {
        let (kind, rest) = bytes.split_first()?;
        let (number, lr) = rest.split_at_checked(8)?;
        Some(match kind {
            0 => Command::Step(u64::from_ne_bytes(number.try_into().ok()?), f64::from_ne_bytes(lr.try_into().ok()?)),
            1 => Command::State,
            2 => Command::End,
            _ => return None,
        })
    }
}

/// A stage of this rank: its parameters, and the optimiser's state for them.
struct Own {
    number: usize,
    learner: Learner<Vec<Tensor>>,
}

/// The optimiser's step for a stage: from gradients, their factor, and the learning rate.
type Update = Box<dyn Fn(&mut Learner<Vec<Tensor>>, (Vec<Tensor>, Tensor, Tensor)) -> Result<(), Error>>;

/// A rank with its stages.
pub struct Crew {
    ranks: Ranks,
    plan: Plan,
    model: StagedModel,
    own: Vec<Own>,
    update: Update,
    clip: f64,
    /// The step under way.
    step: u64,
}

impl Crew {
    /// Takes this rank's stages out of a model that was cut as the plan says. Gradients longer than `clip` are
    /// shortened to it.
    pub fn new<M: Tree>(ranks: Ranks, plan: Plan, model: StagedModel, whole: &Learner<M>, clip: f64) -> Crew {
        let own = |number: usize| Own { number, learner: learner_of(&model, number, whole) };
        let own = plan.stages(ranks.rank()).map(own).collect();
        let update =
            jit(|(params, optimiser): Learner<Vec<Tensor>>, (grads, factor, lr): (Vec<Tensor>, Tensor, Tensor)| {
                let grads = tree::map(&grads, |g| g * &factor);
                (optimiser.step(params, grads, lr), ())
            });
        let update: Update = Box::new(move |learner, batch| update.update(learner, batch));
        Crew { ranks, plan, model, own, update, clip, step: 0 }
    }

    /// Does this rank's part of a step. On rank 0 it returns the loss before the step and the norm of the gradient.
    fn work(&mut self, (x, y): (&Tensor, &Tensor), number: u64, lr: f64) -> Result<(f64, f64), Error> {
        self.step = number;
        let (grads, losses) = self.gradients(x, y)?;
        // a copy gives the mean over its micro-batches
        let scale = (self.plan.copies as f64).recip();
        let (factor, loss, norm) = self.factor(&grads, losses, scale)?;
        for (own, grads) in self.own.iter_mut().zip(grads) {
            let factor = Tensor::scalar((factor * scale) as f32);
            (self.update)(&mut own.learner, (grads, factor, Tensor::scalar(lr as f32)))?;
        }
        Ok((loss, norm))
    }

    /// Runs forwards and backwards of all micro-batches. Returns the gradients of each stage, summed over the copies,
    /// and the losses.
    fn gradients(&mut self, x: &Tensor, y: &Tensor) -> Result<(Vec<Vec<Tensor>>, Vec<f64>), Error> {
        let Crew { ranks, plan, model, own, step, .. } = self;
        let (copy, chain) = (plan.copy(ranks.rank()), model.chain());
        let of = |stage: usize| own.iter().find(|own| own.number == stage).map(|own| own.learner.0.clone());
        let (order, me) = (Accumulate::ByMicroBatch, ranks.rank() % plan.ranks());
        let mut rank = Rank::new(chain, &plan.schedule, me, |stage| of(stage).unwrap_or_default(), order)?;
        let mut feed = |stage: usize, mb: usize| {
            Ok(model.feed(stage, &(plan.examples(x, copy, mb)?, plan.examples(y, copy, mb)?)))
        };
        let mut flow = Flow { plan, ranks, copy };
        let tied = |stage: usize| chain.stages()[stage].params().iter().map(|slot| slot.tied.is_some());
        let list = &plan.schedule.lists[me];
        let (mut sums, mut undone) = (Vec::<Sum>::new(), HashMap::new());
        for action in list {
            flow.ranks.doing(format!("{action} of step {step}"));
            rank.act(*action, &mut feed, &mut flow)?;
            let mut complete = match action {
                Action::Reduce(stage) => vec![*stage],
                _ => Vec::new(),
            };
            for work in action.works().filter(|work| matches!(work.kind, Kind::B | Kind::W)) {
                let left = undone.entry(work.stage).or_insert(plan.micro_batches());
                *left -= 1;
                // a list may contain the reduction itself
                if *left == 0 && !list.contains(&Action::Reduce(work.stage)) {
                    rank.act(Action::Reduce(work.stage), &mut feed, &mut flow)?;
                    complete.push(work.stage);
                }
            }
            for stage in complete {
                let grads = rank.reduced(stage).ok_or_else(|| lost(stage))?;
                let alone = grads.iter().zip(tied(stage)).filter(|(_, tied)| !tied).map(|(grad, _)| grad);
                sums.push(Sum::start(flow.ranks, stage, &plan.group(stage), &flat(alone)?)?);
            }
            for sum in &mut sums {
                sum.advance(flow.ranks)?;
            }
        }
        flow.ranks.doing(format!("the sums of step {step}"));
        let done = rank.finish(&mut flow)?;
        // gradients of parameters that stages share are complete only now
        for (stage, grads) in &done.grads {
            let shared = grads.iter().zip(tied(*stage)).filter(|(_, tied)| *tied).map(|(grad, _)| grad);
            sums.push(Sum::start(flow.ranks, MOST + stage, &plan.group(*stage), &flat(shared)?)?);
        }
        let mut summed = HashMap::new();
        for sum in sums {
            summed.insert(sum.stage, sum.finish(flow.ranks)?);
        }
        let mut all = Vec::new();
        for own in own {
            let mut parts =
                [summed.remove(&own.number), summed.remove(&(MOST + own.number))].map(Option::unwrap_or_default);
            let like = done.grads.get(&own.number).ok_or_else(|| lost(own.number))?;
            let mut grads = Vec::new();
            for ((param, grad), tied) in own.learner.0.iter().zip(like).zip(tied(own.number)) {
                let shape = param.buffer()?.shape().to_vec();
                let len = if grad.is_some() { shape.iter().product() } else { 0 };
                let rest = parts[usize::from(tied)].split_off(len);
                let mut own = std::mem::replace(&mut parts[usize::from(tied)], rest);
                own.resize(shape.iter().product(), 0.0);
                grads.push(Tensor::from_vec(own, &shape[..]));
            }
            all.push(grads);
        }
        let loss =
            |(_, out): (&usize, &Vec<Tensor>)| out.first().map_or(Ok(f64::NAN), |x| x.item::<f32>().map(f64::from));
        Ok((all, done.outputs.iter().map(loss).collect::<Result<_, _>>()?))
    }

    /// The factor that shortens the gradient to the limit. On rank 0 also the loss and the norm of the gradient.
    fn factor(&mut self, grads: &[Vec<Tensor>], losses: Vec<f64>, scale: f64) -> Result<(f64, f64, f64), Error> {
        let (plan, stages) = (&self.plan, self.model.chain().stages());
        let last = plan.schedule.stages - 1;
        // per stage: the square of its gradient's norm; parameters that stages share count in the first of them
        let before =
            |stage: usize, tie: usize| stages[..stage].iter().any(|s| s.params().iter().any(|p| p.tied == Some(tie)));
        let mut measures = if self.own.iter().any(|own| own.number == last) { losses } else { Vec::new() };
        for (own, grads) in self.own.iter().zip(grads) {
            let slots = stages[own.number].params().iter();
            let counts =
                grads.iter().zip(slots).filter(|(_, slot)| slot.tied.is_none_or(|tie| !before(own.number, tie)));
            let mut square = 0.0;
            for (grad, _) in counts {
                square += numbers(grad)?.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
            }
            measures.push(square);
        }
        let sent = measures.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let all = self.ranks.gather(0, MEASURES, sent, &"losses and lengths")?;
        let (mut loss, mut squares) = (0.0, vec![0.0; last + 1]);
        for (rank, bytes) in all.iter().enumerate() {
            let mut values = bytes.as_chunks().0.iter().map(|b| f64::from_ne_bytes(*b));
            if plan.stages(rank).any(|stage| stage == last) {
                loss += values.by_ref().take(plan.micro_batches()).sum::<f64>();
            }
            if plan.copy(rank) == 0 {
                plan.stages(rank).zip(values).for_each(|(stage, square)| squares[stage] = square);
            }
        }
        let norm = squares.iter().sum::<f64>().sqrt() * scale;
        // as the row `clip_scale` computes it
        let factor = (self.clip / (norm + 1e-6)).min(1.0);
        let factor = self.ranks.broadcast(0, FACTOR, factor.to_ne_bytes().to_vec(), &"the length of the gradient")?;
        let factor = factor.try_into().map_or(f64::NAN, f64::from_ne_bytes);
        Ok((factor, loss / (plan.copies * plan.micro_batches()) as f64, norm))
    }

    /// Puts together on rank 0 the parameters and optimiser states of the first copy's stages.
    fn collect<M: Tree>(&mut self, whole: Option<&mut Learner<M>>) -> Result<(), Error> {
        self.ranks.doing(format!("the state behind step {}", self.step));
        if self.plan.copy(self.ranks.rank()) != 0 {
            return Ok(());
        }
        let Some(whole) = whole else {
            for own in &self.own {
                self.ranks.send(0, STATE, bytes(&numbers(&own.learner)?))?;
            }
            return Ok(());
        };
        for stage in 0..self.plan.schedule.stages {
            let (params, optimiser) = match self.own.iter().find(|own| own.number == stage) {
                Some(own) => own.learner.clone(),
                None => {
                    let from = self.plan.rank(0, stage);
                    let all = floats(&self.ranks.receive(from, STATE, &format!("the state of stage {stage}"))?);
                    tree_of(&learner_of(&self.model, stage, whole), &all)?
                }
            };
            let leaves = self.model.leaves(stage);
            put(&mut whole.0, leaves, params);
            put(&mut whole.1.m, leaves, optimiser.m);
            put(&mut whole.1.v, leaves, optimiser.v);
            whole.1.step = optimiser.step;
        }
        Ok(())
    }

    fn command(&mut self, command: Command) -> Result<Command, Error> {
        let bytes = self.ranks.broadcast(0, COMMAND, command.write(), &"what to do next")?;
        Command::read(&bytes).ok_or_else(|| Error::new("E773", "rank 0 gave a command that this rank does not know"))
    }

    /// Ends the run in order. Rank 0, which leads, tells the others.
    ///
    /// # Errors
    /// E770 to E773: a rank fails.
    pub fn end(mut self, leads: bool) -> Result<(), Fault> {
        if leads {
            self.command(Command::End)?;
        }
        Ok(self.ranks.close()?)
    }

    /// Ends the run because of a fault, and tells the others. Reports it unless another rank has. Returns the exit
    /// status.
    pub fn stop(self, fault: &Fault, ui: &Ui) -> u8 {
        stop(self.ranks, fault, ui)
    }
}

impl<M: Tree> Engine<M> for Crew {
    fn step(&mut self, _: &mut Learner<M>, batch: (Tensor, Tensor), number: u64, lr: f64) -> Result<(f64, f64), Fault> {
        self.command(Command::Step(number, lr))?;
        Ok(self.work((&batch.0, &batch.1), number, lr)?)
    }

    fn gather(&mut self, learner: &mut Learner<M>) -> Result<(), Fault> {
        self.command(Command::State)?;
        self.collect(Some(learner))?;
        self.ranks.doing("validation, samples, or a checkpoint");
        Ok(())
    }
}

/// Follows the commands of rank 0 until the run ends. `batch` gives the examples of the next step.
///
/// # Errors
/// E770 to E773: a rank fails. Errors of the model.
pub fn follow(crew: &mut Crew, mut batch: impl FnMut() -> (Tensor, Tensor)) -> Result<(), Fault> {
    loop {
        match crew.command(Command::End)? {
            Command::Step(number, lr) => {
                let (x, y) = batch();
                crew.work((&x, &y), number, lr)?;
                crew.ranks.doing(format!("the end of step {number}"));
            }
            Command::State => crew.collect(None::<&mut Learner<()>>)?,
            Command::End => return Ok(()),
        }
    }
}

/// Carries tensors between the stages of a copy.
struct Flow<'a> {
    plan: &'a Plan,
    ranks: &'a mut Ranks,
    copy: usize,
}

/// The tag of a message between stages.
fn tag(edge: Edge) -> Tag {
    let Edge { from, to, micro_batch, direction } = edge;
    let values = |forward: bool| VALUES + ((to * 2 + usize::from(forward)) * APART + micro_batch % APART) as Tag;
    match direction {
        Direction::Forward => values(true),
        Direction::Backward => values(false),
        Direction::Tied(_) => TIES + (from * MOST + to) as Tag,
    }
}

impl Transport for Flow<'_> {
    fn send(&mut self, edge: Edge, values: Vec<Tensor>) -> Result<(), Error> {
        self.ranks.send(self.plan.rank(self.copy, edge.to), tag(edge), wire::write(&values)?)
    }

    fn receive(&mut self, edge: Edge, _: &[ProxyTy]) -> Result<Vec<Tensor>, Error> {
        let Edge { from, micro_batch, direction, .. } = edge;
        let work = |kind| format!("the result of {}", Work { stage: from, kind, micro_batch });
        let what = match direction {
            Direction::Forward => work(Kind::F),
            Direction::Backward => work(self.plan.backward(from, micro_batch)),
            Direction::Tied(_) => format!("the gradients that stage {from} shares"),
        };
        wire::read(&self.ranks.receive(self.plan.rank(self.copy, from), tag(edge), &what)?)
    }
}

/// An internal error, because a legal schedule has no such work.
fn lost(stage: usize) -> Error {
    Error::bug("E709", format!("a work of stage {stage} has nothing to work on"))
}

/// The part of a model's parameters and optimiser state that belongs to a stage.
fn learner_of<M: Tree>(model: &StagedModel, stage: usize, whole: &Learner<M>) -> Learner<Vec<Tensor>> {
    let (params, AdamW { m, v, step, beta1, beta2, eps, decay }) = whole;
    let (m, v) = (model.params(stage, m), model.params(stage, v));
    let (beta1, beta2, eps, decay) = (*beta1, *beta2, *eps, *decay);
    (model.params(stage, params), AdamW { m, v, step: step.clone(), beta1, beta2, eps, decay })
}

/// Puts leaves back into a tree, by their numbers.
fn put<M: Tree>(tree: &mut M, at: &[usize], new: Vec<Tensor>) {
    let mut leaves: Vec<Tensor> = tree::flatten(tree).leaves().iter().map(|t| (*t).clone()).collect();
    at.iter().zip(new).for_each(|(at, new)| leaves[*at] = new);
    *tree = tree.rebuild(&mut tree::Leaves::new(&mut leaves.into_iter()));
}

/// The numbers of gradients, one after the other. Absent gradients are left out.
fn flat<'g>(grads: impl Iterator<Item = &'g Option<Tensor>>) -> Result<Vec<f32>, Error> {
    let mut all = Vec::new();
    for grad in grads.flatten() {
        all.extend(numbers(grad)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_they_were_written() {
        for command in [Command::Step(u64::MAX, 0.1), Command::State, Command::End] {
            assert_eq!(Command::read(&command.write()), Some(command));
        }
        assert_eq!((Command::read(&[]), Command::read(&[9; 17])), (None, None));
    }
}
