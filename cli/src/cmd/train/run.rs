//! The training loop. Each turn takes a batch, steps and measures; some turns validate, show and save. No task is
//! special.

use super::folder::{Folder, Learner};
use super::metrics::{History, Log, Speed, Step};
use super::settings::{PROBE, Settings};
use super::show::Show;
use super::stop::Stop;
use super::task::Task;
use crate::fault::Fault;
use crate::ui::format::seconds;
use fulgurite::Jit;
use fulgurite::jit::CompileStage;
use fulgurite::optim::{AdamW, clip};
use fulgurite::prelude::*;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The share of `--seconds` that goes to steps; the rest is for validation, samples and checkpoints.
const FOR_STEPS: f64 = 0.93;
/// The largest distance of the first loss from that of even odds, in nats, without a warning.
const EVEN: f64 = 0.3;

/// The state of a run.
pub struct Training<'a, T: Task> {
    pub task: &'a mut T,
    /// The numbers of the run.
    pub settings: Settings<T::Sizes>,
    /// The folder for its files.
    pub folder: Folder,
    /// The model and its optimiser.
    pub learner: Learner<T::Model>,
    /// The key of the next batch.
    pub key: Key,
    /// Steps done.
    pub done: u64,
    /// The time that the run may take, if that decides its length.
    pub seconds: Option<f64>,
}

/// The end of a run.
pub struct Ended {
    /// Steps done.
    pub step: u64,
    /// The measurements.
    pub history: History,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
    /// Duration of the run in seconds.
    pub seconds: f64,
}

/// Runs the steps: this process, or a crew of ranks that it leads.
pub trait Engine<M: Tree> {
    /// Does step `number` on a batch, at this learning rate. Returns the loss before the step and the norm of the
    /// gradient.
    ///
    /// # Errors
    /// Errors of the step.
    fn step(
        &mut self,
        learner: &mut Learner<M>,
        batch: (Tensor, Tensor),
        number: u64,
        lr: f64,
    ) -> Result<(f64, f64), Fault>;

    /// Brings the state of other ranks into `learner`, if they have it.
    ///
    /// # Errors
    /// Errors of the other ranks.
    fn gather(&mut self, _: &mut Learner<M>) -> Result<(), Fault> {
        Ok(())
    }

    /// The compile stages of the step, if it is one program.
    fn stages(&self) -> Vec<CompileStage> {
        Vec::new()
    }
}

/// This process alone: one compiled step.
pub struct Alone<F>(Jit<F>);

/// The engine of one process.
pub fn alone<T: Task>(limit: f64) -> impl Engine<T::Model> {
    Alone(compiled_step::<T>(limit).keep_traces())
}

impl<M, F> Engine<M> for Alone<F>
where
    M: Tree + Clone + Send + Sync + 'static,
    F: Fn(Learner<M>, (Tensor, Tensor, Tensor)) -> (Learner<M>, (Tensor, Tensor)),
{
    fn step(
        &mut self,
        learner: &mut Learner<M>,
        (x, y): (Tensor, Tensor),
        _: u64,
        lr: f64,
    ) -> Result<(f64, f64), Fault> {
        let (loss, norm) = self.0.update(learner, (x, y, lr.into()))?;
        Ok((f64::from(loss.item::<f32>()?), f64::from(norm.item::<f32>()?)))
    }

    fn stages(&self) -> Vec<CompileStage> {
        self.0.stages()
    }
}

/// The state at the beginning of a run: a model, and a fresh optimiser.
pub fn learner<M: Tree, S>(model: M, settings: &Settings<S>) -> Learner<M> {
    let optimiser = AdamW::new(&model).betas(0.9, 0.99).decay(settings.decay);
    (model, optimiser)
}

/// The function of one training step. It maps the learner and (batch, labels, learning rate) to the next learner and
/// (loss before the step, norm of the gradient). Gradients longer than `limit` are shortened to it.
#[allow(clippy::type_complexity)] // a name for this tuple of tuples would hide it
pub fn compiled_step<T: Task>(
    limit: f64,
) -> Jit<impl Fn(Learner<T::Model>, (Tensor, Tensor, Tensor)) -> (Learner<T::Model>, (Tensor, Tensor))> {
    let step = move |(model, optimiser): Learner<T::Model>, (x, y, lr): (Tensor, Tensor, Tensor)| {
        let (loss, grads) = value_and_grad(&model, |m| T::loss(m, &x, &y));
        let (grads, norm) = clip(&grads, limit);
        (optimiser.step(model, grads, lr), (loss, norm))
    };
    jit(step).named("train_step")
}

impl<T: Task> Training<'_, T> {
    /// Trains until the last step, or until `stop` asks for the end. The state is saved in both cases.
    ///
    /// # Errors
    /// E918: the loss is not finite. E913, E904: a file can't be written. Errors of the step.
    pub fn go(
        mut self,
        engine: &mut dyn Engine<T::Model>,
        show: &mut Show,
        stop: &Stop,
        log: &mut Log,
        mut history: History,
    ) -> Result<Ended, Fault> {
        let start = Instant::now();
        let mut speed = Speed::default();
        let (mut saved, mut compiling) = (None, true);
        while !self.finished() && !stop.asked() {
            let before = Instant::now();
            let lr = self.settings.lr(self.done);
            // a step that fails must not use up the key of its batch
            let mut key = self.key.clone();
            let batch = self.task.batch(key.next(), &self.settings);
            let (value, norm) = engine.step(&mut self.learner, batch, self.done + 1, lr)?;
            if !value.is_finite() || !norm.is_finite() {
                return Err(self.diverged(value, norm, saved.as_ref()));
            }
            let first = self.done == 0;
            (self.key, self.done) = (key, self.done + 1);
            let measured = Step { step: self.done, loss: value, norm, lr, seconds: before.elapsed().as_secs_f64() };
            if std::mem::take(&mut compiling) {
                self.compiled(&engine.stages(), start, show)?;
            } else {
                speed.add(measured.seconds);
            }
            if first {
                self.even_odds(value, show);
            }
            log.step(&measured)?;
            history.step(&measured);
            self.plan(start.elapsed(), &speed, false, show);
            show.step(&measured, &history, &speed);
            let last = self.finished();
            let (check, save) = (due(self.done, self.settings.check_every), due(self.done, self.settings.save_every));
            if last || check || save {
                engine.gather(&mut self.learner)?;
            }
            if last || check {
                if let Some(check) = self.task.examine(&self.learner.0)? {
                    history.check(self.done, check);
                    log.check(self.done, check)?;
                    show.check(self.done, check);
                }
                self.task.exhibit(&self.learner.0, self.done, last, show)?;
            }
            if !last && save {
                saved = Some(self.save(show, false)?);
            }
            if self.seconds.is_some_and(|s| start.elapsed().as_secs_f64() > 1.2 * s + 2.0) && !last {
                show.warn("steps became slower; the time is up before the last one");
                break;
            }
        }
        // a run that was stopped early gets a length too, so that it can be resumed
        self.plan(start.elapsed(), &speed, true, show);
        engine.gather(&mut self.learner)?;
        let checkpoint = self.save(show, true)?;
        Ok(Ended { step: self.done, history, checkpoint, seconds: start.elapsed().as_secs_f64() })
    }

    /// Reports the compilation, and keeps the program's text beside the checkpoints.
    fn compiled(&self, stages: &[CompileStage], start: Instant, show: &Show) -> Result<(), Fault> {
        let compiling: Duration = stages.iter().map(|s| s.time).sum();
        let (compiling, since) = (seconds(compiling.as_secs_f64()), seconds(start.elapsed().as_secs_f64()));
        let Some(lines) = stages.last().map(|s| s.lines) else {
            show.status("Compiled", &format!("the stages of this rank; first step after {since}"));
            return Ok(());
        };
        show.status("Compiled", &format!("the training step, {lines} lines, in {compiling}; first step after {since}"));
        let text = stages.iter().rev().find_map(|s| s.text.as_deref()).unwrap_or_default();
        self.folder.write("trace.txt", text)
    }

    fn finished(&self) -> bool {
        let steps = self.settings.steps;
        steps > 0 && self.done >= steps
    }

    /// Decides how many steps fit into `--seconds`, once the speed of steps is known, or `now`.
    fn plan(&mut self, elapsed: Duration, speed: &Speed, now: bool, show: &mut Show) {
        let Some(seconds) = self.seconds else { return };
        let each = speed.median().unwrap_or(0.1);
        let known = now || self.done >= PROBE || elapsed.as_secs_f64() > seconds;
        if self.settings.steps > 0 || !known {
            return;
        }
        let left = (seconds * FOR_STEPS - elapsed.as_secs_f64()).max(0.0);
        let steps = self.done + (left / each.max(1e-9)) as u64;
        self.settings = self.settings.clone().lasting(steps);
        show.lasting(self.settings.steps);
    }

    fn save(&self, show: &Show, last: bool) -> Result<PathBuf, Fault> {
        let path = self.folder.save(&self.learner, &self.key, self.done, &*self.task, &self.settings)?;
        show.saved(self.done, &path, last);
        Ok(path)
    }

    /// Warns if the first loss is not that of even odds. An untrained model gives all outcomes the same chance, so
    /// another loss shows a wrong start.
    fn even_odds(&self, loss: f64, show: &Show) {
        let outcomes = self.task.outcomes();
        let expected = (outcomes as f64).ln();
        if (loss - expected).abs() > EVEN {
            show.warn(&format!(
                "the first loss is {loss:.2}; even odds among {outcomes} outcomes would be {expected:.2}"
            ));
        }
    }

    fn diverged(&self, loss: f64, norm: f64, saved: Option<&PathBuf>) -> Fault {
        let step = self.done + 1;
        let fault = Fault::failed("E918", format!("the loss of step {step} is {loss}"))
            .note(format!("|g| is {norm}, the learning rate {:.1e}", self.settings.lr(self.done)))
            .help("a smaller --lr");
        match saved {
            Some(path) => fault.note(format!("the last whole state is {}", path.display())),
            None => fault,
        }
    }
}

fn due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}
