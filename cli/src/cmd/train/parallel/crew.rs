//! One rank's part of a run.
//!
//! A step: the stages of this rank run their works in the order of the schedule; when the last backward of a stage is
//! done, its gradients are summed over the copies while the rest goes on. Then rank 0 makes the length of the whole
//! gradient out of those of the stages, and every rank takes the optimiser's step for its own.
//!
//! Losses, gradients and lengths are added in the order of micro-batches, stages and copies, never in that of arrival:
//! the same cuts and micro-batches give the same bits on one rank and on many.

use super::super::folder::Learner;
use super::super::run::Engine;
use super::super::task::Parted;
use super::agree::stop;
use super::plan::Plan;
use super::sums::{Sum, numbers, place_of, tree_of};
use super::wire;
use crate::fault::Fault;
use crate::ui::Ui;
use fulgurite::comm::{FIRST_TAG, Ranks, Tag, bytes, floats};
use fulgurite::jit;
use fulgurite::optim::AdamW;
use fulgurite::pipeline::{Accumulate, Cotangents, Stage, StageRun};
use fulgurite::prelude::*;
use fulgurite::schedule::{Kind, Work};
use fulgurite::{Error, tree};
use std::collections::HashMap;
use std::ops::Range;

/// What rank 0 tells the others to do.
const COMMAND: Tag = FIRST_TAG;
const MEASURES: Tag = FIRST_TAG + 1;
const FACTOR: Tag = FIRST_TAG + 2;
const TIE: Tag = FIRST_TAG + 3;
const STATE: Tag = FIRST_TAG + 4;
/// Values between stages: by stage and direction, and by micro-batch as far as tags go; beyond that in their order.
const VALUES: Tag = 1 << 13;
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

/// A stage of this rank.
struct Own<T: Parted> {
    number: usize,
    learner: Learner<T::Part>,
    /// Made when its first input is there.
    stage: Option<Stage>,
}

/// The optimiser's step for a part: from gradients, their factor, and the learning rate.
type Update<M> = Box<dyn Fn(&mut Learner<M>, (M, Tensor, Tensor)) -> Result<(), Error>>;

/// A rank with its stages.
pub struct Crew<T: Parted> {
    ranks: Ranks,
    plan: Plan,
    own: Vec<Own<T>>,
    update: Update<T::Part>,
    clip: f64,
    /// The step under way.
    step: u64,
}

impl<T: Parted> Crew<T> {
    /// This rank's stages of a model; longer gradients are shortened to `clip`.
    pub fn new(ranks: Ranks, plan: Plan, whole: &Learner<T::Model>, clip: f64) -> Crew<T> {
        let own = |number: usize| {
            let units = plan.cuts[number].clone();
            Own { number, learner: learner_of::<T>(whole, &units), stage: None }
        };
        let own = plan.stages(ranks.rank()).map(own).collect();
        let update = jit(|(part, optimiser): Learner<T::Part>, (grads, factor, lr): (T::Part, Tensor, Tensor)| {
            let grads = tree::map(&grads, |g| g * &factor);
            (optimiser.step(part, grads, lr), ())
        });
        let update: Update<T::Part> = Box::new(move |learner, batch| update.update(learner, batch));
        Crew { ranks, plan, own, update, clip, step: 0 }
    }

    /// This rank's part of a step. On rank 0 the loss before it, and the length of the gradient.
    fn work(&mut self, (x, y): (&Tensor, &Tensor), number: u64, lr: f64) -> Result<(f64, f64), Error> {
        self.step = number;
        let (mut sums, losses) = self.backwards(x, y)?;
        let (ranks, copies) = (&mut self.ranks, self.plan.copies);
        ranks.doing(format!("the sums of step {number}"));
        let mut grads: Vec<Vec<f32>> = Vec::new();
        for own in &self.own {
            let at = sums.iter().position(|sum| sum.stage == own.number);
            let sum = at.map(|at| sums.swap_remove(at)).ok_or_else(|| lost(own.number))?;
            grads.push(sum.finish(ranks)?);
        }
        self.tie(&mut grads)?;
        // the runs give means over a copy's micro-batches
        let scale = (copies as f64).recip();
        let (factor, loss, norm) = self.factor(&grads, losses, scale)?;
        for (own, grads) in self.own.iter_mut().zip(&grads) {
            let grads = tree_of(&own.learner.0, grads)?;
            let factor = Tensor::scalar((factor * scale) as f32);
            (self.update)(&mut own.learner, (grads, factor, Tensor::scalar(lr as f32)))?;
        }
        Ok((loss, norm))
    }

    /// Forwards and backwards of all micro-batches. Gives the sums over the copies that are under way, and the losses.
    fn backwards(&mut self, x: &Tensor, y: &Tensor) -> Result<(Vec<Sum>, Vec<f64>), Error> {
        let Crew { ranks, plan, own, .. } = self;
        let (copy, me, m) = (plan.copy(ranks.rank()), ranks.rank(), plan.micro_batches());
        let mut flow = Flow { plan, ranks, copy, me, here: HashMap::new() };
        let (mut sums, mut losses, mut undone) = (Vec::<Sum>::new(), vec![0.0; m], HashMap::new());
        let (mut parts, mut made) = (Vec::new(), Vec::new());
        for Own { number, learner, stage, .. } in own {
            parts.push((*number, &learner.0));
            made.push(Some(stage));
        }
        let last = plan.schedule.stages - 1;
        // for what types a stage is compiled is known when its first input is there
        let mut runs: Vec<Option<StageRun>> = parts.iter().map(|_| None).collect();
        for action in &plan.schedule.lists[me % plan.ranks()] {
            for work in action.works() {
                flow.ranks.doing(format!("{work} of step {}", self.step));
                let at = parts.iter().position(|(n, _)| *n == work.stage).ok_or_else(|| lost(work.stage))?;
                let (number, part) = parts[at];
                let mb = work.micro_batch;
                let over = match work.kind {
                    Kind::F => {
                        let input = if number == 0 { plan.examples(x, copy, mb)? } else { flow.take(work)? };
                        let answers = (number == last).then(|| plan.examples(y, copy, mb)).transpose()?;
                        if let Some(slot) = made[at].take() {
                            let stage = match slot {
                                Some(stage) => stage,
                                None => slot.insert(compile::<T>(number, part, &input, answers.as_ref())?),
                            };
                            let run = StageRun::new(stage, number, part, m)?;
                            runs[at] = Some(run.accumulating(Accumulate::ByMicroBatch));
                        }
                        let run = runs[at].as_mut().ok_or_else(|| lost(number))?;
                        let out = match answers {
                            Some(y) => run.forward(mb, &(input, y))?,
                            None => run.forward(mb, &input)?,
                        };
                        let out = out.into_iter().next().ok_or_else(|| lost(number))?;
                        if number == last {
                            losses[mb] = f64::from(out.item::<f32>()?);
                        } else {
                            flow.give(work, out)?;
                        }
                        false
                    }
                    Kind::B | Kind::I => {
                        let cotangent = match number == last {
                            true => Cotangents::Loss,
                            false => Cotangents::Leaves(vec![Some(flow.take(work)?)]),
                        };
                        let run = runs[at].as_mut().ok_or_else(|| lost(number))?;
                        let grads = match work.kind {
                            Kind::B => run.backward(mb, cotangent)?,
                            _ => run.input_backward(mb, cotangent)?,
                        };
                        if number > 0 {
                            let grad = grads.into_iter().next().flatten().ok_or_else(|| lost(number))?;
                            flow.give(work, grad)?;
                        }
                        work.kind == Kind::B
                    }
                    Kind::W => {
                        runs[at].as_mut().ok_or_else(|| lost(number))?.weight_backward(mb)?;
                        true
                    }
                };
                for sum in &mut sums {
                    sum.advance(flow.ranks)?;
                }
                let left = undone.entry(number).or_insert(m);
                *left -= usize::from(over);
                if *left == 0 && over {
                    let run = runs[at].as_mut().ok_or_else(|| lost(number))?;
                    let grads = flat(run.reduce()?, part)?;
                    sums.push(Sum::start(flow.ranks, number, &plan.group(number), &grads)?);
                }
            }
        }
        Ok((sums, losses))
    }

    /// Adds up the gradients of the parameter that first and last stage share: that of the first stage first.
    fn tie(&mut self, grads: &mut [Vec<f32>]) -> Result<(), Error> {
        let last = self.plan.schedule.stages - 1;
        let Some((first_path, last_path)) = T::TIED.filter(|_| last > 0) else { return Ok(()) };
        let find = |number: usize, path: &str| {
            let at = self.own.iter().position(|own| own.number == number)?;
            Some((at, place_of(&self.own[at].learner.0, path)?))
        };
        let (first, end) = (find(0, first_path), find(last, last_path));
        let copy = self.plan.copy(self.ranks.rank());
        let (home, away) = (self.plan.rank(copy, 0), self.plan.rank(copy, last));
        let ranks = &mut self.ranks;
        let mut swap = |mine: Vec<f32>, with: usize| -> Result<Vec<f32>, Error> {
            ranks.send(with, TIE, bytes(&mine))?;
            let came = floats(&ranks.receive(with, TIE, &"the gradient of the shared table")?);
            if came.len() != mine.len() {
                return Err(Error::new("E773", "the shared table has another size on another rank"));
            }
            Ok(came)
        };
        let (a, b) = match (&first, &end) {
            (Some((i, a)), Some((j, b))) => (grads[*i][a.clone()].to_vec(), grads[*j][b.clone()].to_vec()),
            (Some((i, a)), None) => {
                let mine = grads[*i][a.clone()].to_vec();
                (mine.clone(), swap(mine, away)?)
            }
            (None, Some((j, b))) => {
                let mine = grads[*j][b.clone()].to_vec();
                (swap(mine.clone(), home)?, mine)
            }
            (None, None) => return Ok(()),
        };
        let mut sum = a;
        fulgurite::comm::add(&mut sum, &b);
        for (at, place) in first.into_iter().chain(end) {
            grads[at][place].copy_from_slice(&sum);
        }
        Ok(())
    }

    /// The factor that shortens the gradient to the limit. On rank 0 loss and length too.
    fn factor(&mut self, grads: &[Vec<f32>], losses: Vec<f64>, scale: f64) -> Result<(f64, f64, f64), Error> {
        let plan = &self.plan;
        let last = plan.schedule.stages - 1;
        // per stage: the square of its gradient's length; a table that two stages share counts in the first
        let mut measures = if self.own.iter().any(|own| own.number == last) { losses } else { Vec::new() };
        for (own, grads) in self.own.iter().zip(grads) {
            let shared = T::TIED.filter(|_| own.number == last && last > 0);
            let shared = shared.and_then(|(_, path)| place_of(&own.learner.0, path)).unwrap_or(0..0);
            let counts = grads.iter().enumerate().filter(|(i, _)| !shared.contains(i));
            measures.push(counts.map(|(_, x)| f64::from(*x) * f64::from(*x)).sum());
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
        // as the row `clip_scale` has it
        let factor = (self.clip / (norm + 1e-6)).min(1.0);
        let factor = self.ranks.broadcast(0, FACTOR, factor.to_ne_bytes().to_vec(), &"the length of the gradient")?;
        let factor = factor.try_into().map_or(f64::NAN, f64::from_ne_bytes);
        Ok((factor, loss / (plan.copies * plan.micro_batches()) as f64, norm))
    }

    /// What the stages of the first copy have learned, put together on rank 0.
    fn collect(&mut self, whole: Option<&mut Learner<T::Model>>) -> Result<(), Error> {
        self.ranks.doing(format!("the state behind step {}", self.step));
        if self.plan.copy(self.ranks.rank()) != 0 {
            return Ok(());
        }
        let Some(whole) = whole else {
            for own in &self.own {
                let (part, optimiser) = &own.learner;
                let all = [numbers(part)?, numbers(&optimiser.m)?, numbers(&optimiser.v)?, numbers(&optimiser.step)?];
                self.ranks.send(0, STATE, bytes(&all.concat()))?;
            }
            return Ok(());
        };
        for (number, units) in self.plan.cuts.iter().enumerate() {
            let (part, optimiser) = match self.own.iter().find(|own| own.number == number) {
                Some(own) => own.learner.clone(),
                None => {
                    let from = self.plan.rank(0, number);
                    let all = floats(&self.ranks.receive(from, STATE, &format!("the state of stage {number}"))?);
                    let like = (T::part(&whole.0, units), T::part(&whole.1.m, units), T::part(&whole.1.v, units));
                    let (part, m, v, step) = tree_of(&(like.0, like.1, like.2, whole.1.step.clone()), &all)?;
                    let AdamW { beta1, beta2, eps, decay, .. } = whole.1;
                    (part, AdamW { m, v, step, beta1, beta2, eps, decay })
                }
            };
            T::put(&mut whole.0, units, part);
            T::put(&mut whole.1.m, units, optimiser.m);
            T::put(&mut whole.1.v, units, optimiser.v);
            whole.1.step = optimiser.step;
        }
        Ok(())
    }

    fn command(&mut self, command: Command) -> Result<Command, Error> {
        let bytes = self.ranks.broadcast(0, COMMAND, command.write(), &"what to do next")?;
        Command::read(&bytes).ok_or_else(|| Error::new("E773", "rank 0 gave a command that this rank does not know"))
    }

    /// Ends in order; rank 0, which leads, says so to the others.
    ///
    /// # Errors
    /// E770 to E773: a rank fails.
    pub fn end(mut self, leads: bool) -> Result<(), Fault> {
        if leads {
            self.command(Command::End)?;
        }
        Ok(self.ranks.close()?)
    }

    /// Ends because of a fault, tells the others, and says it unless another rank has. Gives the exit status.
    pub fn stop(self, fault: &Fault, ui: &Ui) -> u8 {
        stop(self.ranks, fault, ui)
    }
}

impl<T: Parted> Engine<T::Model> for Crew<T> {
    fn step(
        &mut self,
        _: &mut Learner<T::Model>,
        batch: (Tensor, Tensor),
        number: u64,
        lr: f64,
    ) -> Result<(f64, f64), Fault> {
        self.command(Command::Step(number, lr))?;
        Ok(self.work((&batch.0, &batch.1), number, lr)?)
    }

    fn gather(&mut self, learner: &mut Learner<T::Model>) -> Result<(), Fault> {
        self.command(Command::State)?;
        self.collect(Some(learner))?;
        self.ranks.doing("validation, samples, or a checkpoint");
        Ok(())
    }
}

/// What a rank other than 0 does until the run ends. `batch` gives the examples of the next step.
///
/// # Errors
/// E770 to E773: a rank fails. What the model reports.
pub fn follow<T: Parted>(crew: &mut Crew<T>, mut batch: impl FnMut() -> (Tensor, Tensor)) -> Result<(), Fault> {
    loop {
        match crew.command(Command::End)? {
            Command::Step(number, lr) => {
                let (x, y) = batch();
                crew.work((&x, &y), number, lr)?;
                crew.ranks.doing(format!("the end of step {number}"));
            }
            Command::State => crew.collect(None)?,
            Command::End => return Ok(()),
        }
    }
}

/// Values on their way from stage to stage.
struct Flow<'a> {
    plan: &'a Plan,
    ranks: &'a mut Ranks,
    copy: usize,
    me: usize,
    /// For works of this rank.
    here: HashMap<(usize, bool, usize), Tensor>,
}

impl Flow<'_> {
    /// The stage from which a work takes its value; it is the one to which its other direction gives.
    fn before(work: Work) -> usize {
        if work.kind == Kind::F { work.stage - 1 } else { work.stage + 1 }
    }

    fn tag(stage: usize, forward: bool, mb: usize) -> Tag {
        VALUES + ((stage * 2 + usize::from(forward)) * APART + mb % APART) as Tag
    }

    /// The value that a work begins with: an activation, or the cotangent of what its stage gave.
    fn take(&mut self, work: Work) -> Result<Tensor, Error> {
        let (forward, mb) = (work.kind == Kind::F, work.micro_batch);
        let from = self.plan.rank(self.copy, Flow::before(work));
        if from == self.me {
            return self.here.remove(&(work.stage, forward, mb)).ok_or_else(|| lost(work.stage));
        }
        let source = Work { stage: Flow::before(work), ..work };
        let bytes = self.ranks.receive(from, Flow::tag(work.stage, forward, mb), &format!("the result of {source}"))?;
        wire::read(&bytes)
    }

    /// What a work gave, to the stage that goes on with it.
    fn give(&mut self, work: Work, value: Tensor) -> Result<(), Error> {
        let (forward, mb) = (work.kind == Kind::F, work.micro_batch);
        let to = if forward { work.stage + 1 } else { work.stage - 1 };
        let rank = self.plan.rank(self.copy, to);
        if rank == self.me {
            self.here.insert((to, forward, mb), value);
            return Ok(());
        }
        self.ranks.send(rank, Flow::tag(to, forward, mb), wire::write(&value)?)
    }
}

/// A bug of ours: a legal schedule has no such work.
fn lost(stage: usize) -> Error {
    Error::bug("E709", format!("a work of stage {stage} has nothing to work on"))
}

/// What is learned by these units of a model: without memory of the optimiser if it has none.
fn learner_of<T: Parted>(whole: &Learner<T::Model>, units: &Range<usize>) -> Learner<T::Part> {
    let (model, AdamW { m, v, step, beta1, beta2, eps, decay }) = whole;
    let (m, v) = (T::part(m, units), T::part(v, units));
    let (beta1, beta2, eps, decay) = (*beta1, *beta2, *eps, *decay);
    (T::part(model, units), AdamW { m, v, step: step.clone(), beta1, beta2, eps, decay })
}

/// A stage for inputs of these types; with `answers` it gives the loss.
fn compile<T: Parted>(number: usize, part: &T::Part, x: &Tensor, answers: Option<&Tensor>) -> Result<Stage, Error> {
    let name = format!("stage{number}");
    match answers {
        None => Stage::of(&name, |part: T::Part, x: Tensor| T::through(&part, &x), part, x),
        Some(y) => {
            let ends = |part: T::Part, (x, y): (Tensor, Tensor)| T::ends(&part, &x, &y);
            Stage::of(&name, ends, part, &(x.clone(), y.clone()))
        }
    }
}

/// Gradients, leaf after leaf; those that are absent are zero.
fn flat<M: Tree>(grads: Vec<Option<Tensor>>, part: &M) -> Result<Vec<f32>, Error> {
    let leaves = tree::flatten(part);
    let mut all = Vec::new();
    for (grad, leaf) in grads.iter().zip(leaves.leaves()) {
        match grad {
            Some(grad) => all.extend(numbers(grad)?),
            None => all.resize(all.len() + leaf.buffer()?.len(), 0.0),
        }
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
