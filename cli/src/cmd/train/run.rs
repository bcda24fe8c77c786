//! The loop: batch, step, measure, now and then validate, sample, save.

use super::folder::{Folder, Run};
use super::metrics::{History, Log, Speed, Step};
use super::model::{self, Gpt, Learner};
use super::sample::Writer;
use super::settings::{PROBE, Settings};
use super::show::Show;
use super::stop::Stop;
use crate::fault::Fault;
use crate::ui::format::seconds;
use fulgurite::jit::Stage;
use fulgurite::prelude::*;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Batches of a validation.
const BATCHES: usize = 8;
/// Characters of a sample on the way, and at the end.
const SAMPLE: (usize, usize) = (120, 400);
/// The share of `--seconds` that goes to steps; the rest is for validation, samples and checkpoints.
const FOR_STEPS: f64 = 0.93;
/// How far the first loss may be from that of even odds, in nats.
const EVEN: f64 = 0.3;

/// Everything that a run works with.
pub struct Training<'a> {
    /// The text.
    pub text: &'a Text,
    /// How samples begin.
    pub prompt: Vec<i64>,
    /// What checkpoints say.
    pub run: Run,
    /// Where files go.
    pub folder: Folder,
    /// What is learned.
    pub learner: Learner,
    /// The key of the next batch.
    pub key: Key,
    /// Steps done.
    pub done: u64,
    /// The time that the run may take, if that decides its length.
    pub seconds: Option<f64>,
}

/// How a run ended.
pub struct Ended {
    /// Steps done.
    pub step: u64,
    /// What was measured.
    pub history: History,
    /// The last checkpoint.
    pub checkpoint: PathBuf,
    /// How long it took.
    pub seconds: f64,
}

impl Training<'_> {
    /// Trains until the last step, or until `stop` says so. Either way the state is saved.
    ///
    /// # Errors
    /// E918: the loss is not finite. E913, E904: a file can't be written. What the step reports.
    pub fn go(mut self, show: &mut Show, stop: &Stop, log: &mut Log, mut history: History) -> Result<Ended, Fault> {
        let start = Instant::now();
        let step = model::compiled_step(self.run.settings.clip).keep_traces();
        let loss = jit(|model: Gpt, x: Tensor, y: Tensor| model.loss(&x, &y));
        let logits = jit(|model: Gpt, x: Tensor| model.logits(&x));
        let Settings { batch, context, seed, .. } = self.run.settings;
        let validation = self.text.validation(batch, context, BATCHES);
        let mut writer = Writer::new(|model, x| logits.call((model, x)), context, seed);
        let mut speed = Speed::default();
        let (mut saved, mut compiling) = (None, true);
        while !self.finished() && !stop.asked() {
            let before = Instant::now();
            let lr = self.run.settings.lr(self.done);
            // a step that fails must leave the key of its batch
            let mut key = self.key.clone();
            let (x, y) = self.text.batch(key.next(), batch, context);
            let (loss_before, norm) = step.update(&mut self.learner, (x, y, lr.into()))?;
            let (value, norm) = (f64::from(loss_before.item::<f32>()?), f64::from(norm.item::<f32>()?));
            if !value.is_finite() || !norm.is_finite() {
                return Err(self.diverged(value, norm, saved.as_ref()));
            }
            let first = self.done == 0;
            (self.key, self.done) = (key, self.done + 1);
            let measured = Step { step: self.done, loss: value, norm, lr, seconds: before.elapsed().as_secs_f64() };
            if std::mem::take(&mut compiling) {
                self.compiled(&step.stages(), start, show)?;
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
            let settings = &self.run.settings;
            let last = self.finished();
            if last || due(self.done, settings.check_every) {
                let val = mean(validation.iter().map(|(x, y)| {
                    let loss = loss.call((self.learner.0.clone(), x.clone(), y.clone()))?;
                    Ok(f64::from(loss.item::<f32>()?))
                }))?;
                if let Some(val) = val {
                    history.check(self.done, val);
                    log.check(self.done, val)?;
                    show.check(self.done, val);
                }
                let length = if last { SAMPLE.1 } else { SAMPLE.0 };
                let written = writer.write(&self.learner.0, &self.prompt, length, self.done)?;
                show.sample(self.done, &self.text.decode(&[self.prompt.clone(), written].concat()));
            }
            if !last && due(self.done, settings.save_every) {
                saved = Some(self.save(show, false)?);
            }
            if self.seconds.is_some_and(|s| start.elapsed().as_secs_f64() > 1.2 * s + 2.0) && !last {
                show.warn("steps became slower; the time is up before the last one");
                break;
            }
        }
        // a run that was stopped early has a length too: it can be carried on
        self.plan(start.elapsed(), &speed, true, show);
        let checkpoint = self.save(show, true)?;
        Ok(Ended { step: self.done, history, checkpoint, seconds: start.elapsed().as_secs_f64() })
    }

    /// Says what was compiled, and keeps the program's text beside the checkpoints.
    fn compiled(&self, stages: &[Stage], start: Instant, show: &Show) -> Result<(), Fault> {
        let compiling: Duration = stages.iter().map(|s| s.time).sum();
        let (compiling, since) = (seconds(compiling.as_secs_f64()), seconds(start.elapsed().as_secs_f64()));
        let lines = stages.last().map_or(0, |s| s.lines);
        show.status("Compiled", &format!("the training step, {lines} lines, in {compiling}; first step after {since}"));
        let text = stages.iter().rev().find_map(|s| s.text.as_deref()).unwrap_or_default();
        self.folder.write("trace.txt", text)
    }

    fn finished(&self) -> bool {
        let steps = self.run.settings.steps;
        steps > 0 && self.done >= steps
    }

    /// Decides how many steps `--seconds` has room for, once their speed is known, or now.
    fn plan(&mut self, elapsed: Duration, speed: &Speed, now: bool, show: &mut Show) {
        let settings = &self.run.settings;
        let Some(seconds) = self.seconds else { return };
        let each = speed.median().unwrap_or(0.1);
        let known = now || self.done >= PROBE || elapsed.as_secs_f64() > seconds;
        if settings.steps > 0 || !known {
            return;
        }
        let left = (seconds * FOR_STEPS - elapsed.as_secs_f64()).max(0.0);
        let steps = self.done + (left / each.max(1e-9)) as u64;
        self.run.settings = settings.clone().lasting(steps);
        show.lasting(self.run.settings.steps);
    }

    fn save(&self, show: &Show, last: bool) -> Result<PathBuf, Fault> {
        let path = self.folder.save(&self.learner, &self.key, self.done, &self.run)?;
        show.saved(self.done, &path, last);
        Ok(path)
    }

    /// A model that knows nothing gives every symbol the same chance; another first loss is a wrong start.
    fn even_odds(&self, loss: f64, show: &Show) {
        let expected = (self.text.symbols() as f64).ln();
        if (loss - expected).abs() > EVEN {
            let symbols = self.text.symbols();
            show.warn(&format!(
                "the first loss is {loss:.2}; even odds among {symbols} symbols would be {expected:.2}"
            ));
        }
    }

    fn diverged(&self, loss: f64, norm: f64, saved: Option<&PathBuf>) -> Fault {
        let step = self.done + 1;
        let fault = Fault::failed("E918", format!("the loss of step {step} is {loss}"))
            .note(format!("|g| is {norm}, the learning rate {:.1e}", self.run.settings.lr(self.done)))
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

fn mean(values: impl Iterator<Item = fulgurite::Result<f64>>) -> fulgurite::Result<Option<f64>> {
    let (mut sum, mut n) = (0.0, 0usize);
    for value in values {
        sum += value?;
        n += 1;
    }
    Ok((n > 0).then(|| sum / n as f64))
}
