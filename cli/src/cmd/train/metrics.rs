//! Measurements of a run, in memory and in `metrics.jsonl`.

use crate::fault::Fault;
use crate::ui::curve::Points;
use fulgurite::files;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Steps done, including this one.
    pub step: u64,
    /// The loss of the batch, before the step.
    pub loss: f64,
    /// Norm of the gradient before it was clipped.
    pub norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// Duration of the step.
    pub seconds: f64,
}

/// A measurement on data that are not trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    pub loss: f64,
    /// The share of right answers, where an answer is right or wrong.
    pub accuracy: Option<f64>,
}

/// The losses of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    train: Points,
    val: Points,
    accuracy: Option<f64>,
}

/// Share of the smoothed loss that each step keeps.
const SMOOTH: f64 = 0.9;

impl History {
    /// Adds the loss of a step.
    pub fn step(&mut self, step: &Step) {
        self.train.push((step.step as f64, step.loss));
    }

    /// Adds a validation.
    pub fn check(&mut self, step: u64, check: Check) {
        self.val.push((step as f64, check.loss));
        self.accuracy = check.accuracy;
    }

    /// The smoothed loss of the last 64 steps, in which the latest counts most.
    pub fn recent(&self) -> Option<f64> {
        let tail = self.train.len().saturating_sub(64);
        self.train[tail..].iter().map(|p| p.1).reduce(|mean, x| SMOOTH * mean + (1.0 - SMOOTH) * x)
    }

    /// The last validation loss.
    pub fn last_check(&self) -> Option<f64> {
        self.val.last().map(|p| p.1)
    }

    /// The last share of right answers, where answers are right or wrong.
    pub fn accuracy(&self) -> Option<f64> {
        self.accuracy
    }

    /// The least validation loss, and the step after which it was measured.
    pub fn best(&self) -> Option<(u64, f64)> {
        self.val.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|p| (p.0 as u64, p.1))
    }

    /// The validation losses.
    pub fn validation(&self) -> &Points {
        &self.val
    }

    /// The training loss as means over at most `stretches` equal stretches, placed at their middles.
    pub fn training(&self, stretches: usize) -> Points {
        let size = self.train.len().div_ceil(stretches.max(1)).max(1);
        let mean = |part: &[(f64, f64)], f: fn(&(f64, f64)) -> f64| part.iter().map(f).sum::<f64>() / part.len() as f64;
        self.train.chunks(size).map(|part| (mean(part, |p| p.0), mean(part, |p| p.1))).collect()
    }
}

/// Speed of a run, from the durations of its last steps.
#[derive(Clone, Debug, Default)]
pub struct Speed(VecDeque<f64>);

impl Speed {
    /// Number of steps that are remembered.
    const WINDOW: usize = 50;

    /// Adds the duration of a step.
    pub fn add(&mut self, seconds: f64) {
        if self.0.len() == Speed::WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(seconds);
    }

    /// Mean seconds per step.
    pub fn seconds(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// Median seconds per step, in which single steps that were held up do not count.
    pub fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

/// The file of a run's measurements: one object a line.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
}

impl Log {
    /// Starts the file. Lines of an earlier run up to step `keep` stay, and are returned as its history. The old file
    /// is replaced as a whole, so that a run that is killed here loses no line.
    ///
    /// # Errors
    /// E910: the earlier run's lines can't be read. E913: the file can't be written.
    pub fn open(path: &Path, keep: u64) -> Result<(Log, History), Fault> {
        let old = match std::fs::read(path) {
            // a line may have been cut within a character
            Ok(bytes) if keep > 0 => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) if keep > 0 && e.kind() != ErrorKind::NotFound => return Err(Fault::unreadable(path, &e)),
            _ => String::new(),
        };
        let lines = || old.lines().filter_map(|line| Some((line, serde_json::from_str::<Value>(line).ok()?)));
        let (mut history, mut text) = (History::default(), String::new());
        for (line, value) in lines() {
            let Some(step) = value["step"].as_u64().filter(|step| *step <= keep) else { continue };
            history.train.extend(value["loss"].as_f64().map(|loss| (step as f64, loss)));
            history.val.extend(value["val"].as_f64().map(|val| (step as f64, val)));
            history.accuracy = value["accuracy"].as_f64().or(history.accuracy);
            text.push_str(line);
            text.push('\n');
        }
        let fail = |e| Fault::unwritable(path, &e);
        files::replace(path, |out| out.write_all(text.as_bytes())).map_err(fail)?;
        let file = File::options().append(true).open(path).map_err(fail)?;
        Ok((Log { file, path: path.to_owned() }, history))
    }

    /// Writes a step.
    ///
    /// # Errors
    /// E913: it can't be written.
    pub fn step(&mut self, s: &Step) -> Result<(), Fault> {
        self.line(&json!({"step": s.step, "loss": s.loss, "norm": s.norm, "lr": s.lr, "ms": s.seconds * 1e3}))
    }

    /// Writes a validation.
    ///
    /// # Errors
    /// E913: it can't be written.
    pub fn check(&mut self, step: u64, check: Check) -> Result<(), Fault> {
        let mut line = json!({"step": step, "val": check.loss});
        if let Some(accuracy) = check.accuracy {
            line["accuracy"] = accuracy.into();
        }
        self.line(&line)
    }

    fn line(&mut self, value: &Value) -> Result<(), Fault> {
        // one write: the object is not cut unless the disk is full
        let line = format!("{value}\n");
        self.file.write_all(line.as_bytes()).map_err(|e| Fault::unwritable(&self.path, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(step: u64, loss: f64) -> Step {
        Step { step, loss, norm: 1.0, lr: 1e-3, seconds: 0.04 }
    }

    fn val(loss: f64) -> Check {
        Check { loss, accuracy: None }
    }

    #[test]
    fn history_sums_up() {
        let mut h = History::default();
        assert_eq!((h.recent(), h.best(), h.training(10)), (None, None, vec![]));
        (1..=100).for_each(|i| h.step(&step(i, 4.0 - i as f64 / 50.0)));
        h.check(50, val(3.2));
        h.check(75, val(2.9));
        h.check(100, val(3.0));
        assert_eq!((h.best(), h.last_check()), (Some((75, 2.9)), Some(3.0)));
        assert_eq!(h.training(10).len(), 10);
        assert_eq!(h.training(10)[0].0, 5.5);
        let recent = h.recent().expect("steps");
        assert!((2.0..2.4).contains(&recent), "{recent}");
    }

    #[test]
    fn speed_forgets() {
        let mut speed = Speed::default();
        assert_eq!(speed.seconds(), None);
        speed.add(9.0);
        (0..Speed::WINDOW).for_each(|_| speed.add(0.5));
        assert_eq!((speed.seconds(), speed.median()), (Some(0.5), Some(0.5)));
    }

    #[test]
    fn the_log_continues_where_the_run_does() {
        let path = std::env::temp_dir().join(format!("fulgurite-log-{}.jsonl", std::process::id()));
        let (mut log, _) = Log::open(&path, 0).expect("writable");
        (1..=5).for_each(|i| log.step(&step(i, i as f64)).expect("writable"));
        log.check(3, Check { loss: 2.5, accuracy: Some(0.75) }).expect("writable");
        let (_, history) = Log::open(&path, 3).expect("writable");
        assert_eq!(history.training(100), [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]);
        assert_eq!((history.best(), history.accuracy()), (Some((3, 2.5)), Some(0.75)));
        std::fs::write(&path, "{\"step\": 1, \"loss\": 2}\nnonsense\n{\"step\": ").expect("writable");
        assert_eq!(Log::open(&path, 9).expect("writable").1.training(9), [(1.0, 2.0)]);
        std::fs::remove_file(&path).expect("there");
    }
}
