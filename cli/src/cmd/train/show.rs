//! Output of a run: moving lines for a person, one line per event for a log, one object per event for a program.

use super::metrics::{Check, History, Speed, Step};
use crate::ui::live::{Live, bar};
use crate::ui::picture::{self, Picture};
use crate::ui::{Ink, Mode, Ui, curve, format};
use serde_json::{Value, json};
use std::path::Path;

/// Rows of the curve while the run goes, and at its end.
const ROWS: (usize, usize) = (5, 10);
/// Columns before a curve.
const MARGIN: usize = 9;

/// Unit of the work in a step.
#[derive(Clone, Copy, Debug)]
pub struct Unit {
    /// The rate in this unit for a person: `tok/s`.
    pub shown: &'static str,
    /// The rate in this unit for a log or a program: `tok_s`.
    pub key: &'static str,
    /// Unit of the loss.
    pub loss: &'static str,
}

/// Output of a run.
pub struct Show<'a> {
    ui: &'a Ui,
    live: Live<'a>,
    /// Steps from one line of a log to the next, if given.
    every: Option<u64>,
    steps: u64,
    /// Unit of the work in a step, and the number of units.
    unit: Unit,
    units: usize,
}

impl<'a> Show<'a> {
    /// Output for a run of `steps` steps, each of which works on `units` of `unit`. `every` is the number of steps
    /// from one line of a log to the next (default: a hundred lines per run).
    pub fn new(ui: &'a Ui, steps: u64, every: Option<u64>, unit: Unit, units: usize) -> Show<'a> {
        Show { ui, live: Live::new(ui), every, steps, unit, units }
    }

    /// Notes the number of steps once it is decided.
    pub fn lasting(&mut self, steps: u64) {
        self.steps = steps;
    }

    /// Prints a line beside the progress: a verb and its result.
    pub fn status(&self, verb: &str, text: &str) {
        self.live.clear();
        self.ui.status(verb, text);
    }

    /// Prints a warning.
    pub fn warn(&self, text: &str) {
        self.live.clear();
        self.ui.warn(text);
    }

    /// Shows a step.
    pub fn step(&self, step: &Step, history: &History, speed: &Speed) {
        let last = step.step == self.steps;
        match self.ui.mode() {
            Mode::Pretty if self.ui.wishes().quiet => {}
            Mode::Pretty if self.live.due() || last => self.live.draw(&self.lines(step, history, speed)),
            Mode::Pretty => {}
            Mode::Plain if step.step.is_multiple_of(self.log_every()) || step.step == 1 || last => {
                let val = history.last_check().map_or_else(String::new, |v| format!(" val={v:.4}"));
                let right = history.accuracy().map_or_else(String::new, |a| format!(" accuracy={a:.4}"));
                self.ui.result(&format!(
                    "step={} loss={:.4}{val}{right} norm={:.3} lr={} ms={:.1} {}={:.0}",
                    step.step,
                    step.loss,
                    step.norm,
                    format::scientific(step.lr),
                    step.seconds * 1e3,
                    self.unit.key,
                    self.units as f64 / step.seconds
                ));
            }
            Mode::Plain => {}
            Mode::Json => self.ui.object(&json!({
                "v": 1, "event": "step", "step": step.step, "of": self.steps, "loss": step.loss, "norm": step.norm,
                "lr": step.lr, "ms": step.seconds * 1e3, (self.unit.key): self.units as f64 / step.seconds,
                "left_s": speed.seconds().map(|s| s * self.left(step) as f64),
            })),
        }
    }

    /// Shows a validation. In a log, the next line of a step has it.
    pub fn check(&self, step: u64, check: Check) {
        if self.ui.mode() == Mode::Json {
            let mut event = json!({"v": 1, "event": "check", "step": step, "val": check.loss});
            if let Some(accuracy) = check.accuracy {
                event["accuracy"] = accuracy.into();
            }
            self.ui.object(&event);
        }
    }

    /// Shows the mistakes of the model, as pictures or as objects.
    pub fn wrong(&self, step: u64, title: &str, pictures: &[Picture], objects: Vec<Value>) {
        if self.ui.mode() == Mode::Json {
            self.ui.object(&json!({"v": 1, "event": "wrong", "step": step, "wrong": objects}));
            return;
        }
        self.live.clear();
        self.ui.result(&format!("{} {title}", self.ui.verb("wrong")));
        let margin = MARGIN + 3;
        for line in picture::draw(self.ui, pictures, self.ui.width().saturating_sub(margin)) {
            self.ui.result(format!("{:margin$}{line}", "").trim_end());
        }
    }

    /// Shows a text that the model wrote.
    pub fn sample(&self, step: u64, text: &str) {
        match self.ui.mode() {
            Mode::Pretty => {
                self.live.clear();
                let width = self.ui.width() - 12;
                let lines = format::block(text, width);
                for (i, line) in lines.iter().enumerate() {
                    let verb = if i == 0 { "sample" } else { "" };
                    self.ui.result(&format!("{} {}", self.ui.verb(verb), line));
                }
            }
            Mode::Plain => self.ui.result(&format!("sample step={step} \"{}\"", format::one_line(text))),
            Mode::Json => self.ui.object(&json!({"v": 1, "event": "sample", "step": step, "text": text})),
        }
    }

    /// Shows that a checkpoint was written. Only a program learns of the `last` one here: for people the end of the run
    /// reports it.
    pub fn saved(&self, step: u64, path: &Path, last: bool) {
        if self.ui.mode() == Mode::Json {
            self.ui.object(&json!({"v": 1, "event": "saved", "step": step, "path": path.display().to_string()}));
        } else if !last && (self.ui.wishes().verbose || self.ui.mode() == Mode::Plain) {
            self.status("Saved", &path.display().to_string());
        }
    }

    /// Shows the end of the run: the curve, and the last values.
    pub fn end(&self, step: u64, history: &History, seconds: f64, checkpoint: &Path) {
        let (val, best, right) = (history.last_check(), history.best(), history.accuracy());
        match self.ui.mode() {
            Mode::Json => self.ui.object(&json!({
                "v": 1, "event": "end", "step": step, "of": self.steps, "loss": history.recent(), "val": val,
                "best": best.map(|b| b.1), "best_step": best.map(|b| b.0), "accuracy": right, "seconds": seconds,
                "checkpoint": checkpoint.display().to_string(),
            })),
            Mode::Plain => {
                let known =
                    [("loss", history.recent()), ("val", val), ("best", best.map(|b| b.1)), ("accuracy", right)];
                let known = known.iter().filter_map(|(name, x)| x.map(|x| format!(" {name}={x:.4}")));
                let line = format!("end step={step}{} seconds={seconds:.1}", known.collect::<String>());
                self.ui.result(&line);
            }
            Mode::Pretty => {
                self.live.clear();
                self.curve(history, ROWS.1).iter().for_each(|line| self.ui.result(line));
                let val = val.map_or_else(String::new, |v| format!(", validation loss {v:.3} {}", self.unit.loss));
                let right = right.map_or_else(String::new, |a| format!(", {} right", percent(a)));
                self.ui.status("Trained", &format!("{step} steps in {}{val}{right}", format::seconds(seconds)));
            }
        }
    }

    /// Steps from one line of a log to the next.
    fn log_every(&self) -> u64 {
        self.every.unwrap_or(self.steps / 100).max(1)
    }

    fn left(&self, step: &Step) -> u64 {
        self.steps.saturating_sub(step.step)
    }

    fn lines(&self, step: &Step, history: &History, speed: &Speed) -> Vec<String> {
        let mut first = vec![format!("{}/{}", step.step, self.steps)];
        let part = step.step as f64 / self.steps.max(1) as f64;
        let mut rest = vec![format!("{:3.0} %", part * 100.0)];
        if let Some(s) = speed.seconds() {
            rest.push(format!("{:.0} ms/step", s * 1e3));
            rest.push(format!("{} {}", format::count(self.units as f64 / s), self.unit.shown));
            rest.push(format!("{} left", format::seconds(s * self.left(step) as f64)));
        }
        let used = MARGIN + first[0].len() + 4 + rest.iter().map(|r| r.len() + 3).sum::<usize>();
        let room = self.ui.width().saturating_sub(used);
        if room >= 5 {
            first.push(bar(self.ui, part, room));
        }
        let mut loss = Vec::new();
        loss.extend(history.recent().map(|x| format!("train {x:.3}")));
        loss.extend(history.last_check().map(|x| format!("val {x:.3}")));
        loss.extend(history.best().map(|(at, x)| format!("best {x:.3} at {at}")));
        loss.extend(history.accuracy().map(|a| format!("{} right", percent(a))));
        loss.push(format!("|g| {:.2}", step.norm));
        loss.push(format!("lr {}", format::scientific(step.lr)));
        let head = |verb: &str| self.ui.paint(Ink::Verb, &format!("{verb:>6}"));
        let width = self.ui.width().saturating_sub(MARGIN);
        let rest = fit(&rest, width.saturating_sub(first[0].len() + room.max(1) + 2));
        let mut lines = vec![
            format!("{}  {} {rest}", head("step"), first.join(" ")),
            format!("{}  {}", head("loss"), fit(&loss, width)),
        ];
        lines.extend(self.curve(history, ROWS.0));
        lines
    }

    fn curve(&self, history: &History, rows: usize) -> Vec<String> {
        let width = self.ui.width().saturating_sub(MARGIN + 1).min(80);
        let series = [history.training(2 * width), history.validation().clone()];
        let Some(drawn) = curve::draw(&series, width, rows, self.ui.wishes().ascii) else { return Vec::new() };
        let label = MARGIN - 1;
        let row = |(name, cells): &(String, String)| format!("{name:>label$} {}", self.ui.paint(Ink::Line, cells));
        let mut lines: Vec<String> = drawn.rows.iter().map(row).collect();
        lines.push(format!("{:>label$} {}", "", self.ui.paint(Ink::Faint, &drawn.axis)));
        lines
    }
}

/// A share as a percentage: `98.6 %`.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The first parts, as many as fit in `width` columns.
fn fit(parts: &[String], width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        let gap = if line.is_empty() { "" } else { "   " };
        if line.chars().count() + gap.len() + part.chars().count() > width {
            break;
        }
        line.push_str(gap);
        line.push_str(part);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::Wishes;

    #[test]
    fn lines_fit_the_terminal() {
        let ui = Ui::new(Wishes { json: true, ..Wishes::default() });
        let unit = Unit { shown: "tok/s", key: "tok_s", loss: "nats per character" };
        let show = Show::new(&ui, 2000, None, unit, 32 * 64);
        let (mut history, mut speed) = (History::default(), Speed::default());
        let mut step = Step { step: 0, loss: 4.0, norm: 0.84, lr: 6e-4, seconds: 0.0412 };
        for i in 1..=400 {
            step = Step { step: i, loss: 4.6 / (1.0 + i as f64 / 100.0), ..step };
            history.step(&step);
            speed.add(step.seconds);
        }
        history.check(400, Check { loss: 2.38, accuracy: None });
        let lines = show.lines(&step, &history, &speed);
        assert_eq!(lines.len(), 2 + ROWS.0 + 1);
        assert!(lines.iter().all(|l| l.chars().count() <= ui.width()), "{lines:#?}");
        assert!(lines[0].starts_with("  step  400/2000 ━"), "{}", lines[0]);
        assert!(lines[0].ends_with(" 20 %   41 ms/step   49.7 k tok/s   1 m 06 s left"), "{}", lines[0]);
        assert!(lines[1].ends_with("val 2.380   best 2.380 at 400   |g| 0.84   lr 6.0e-4"), "{}", lines[1]);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let parts = ["abc".to_owned(), "def".to_owned()];
        assert_eq!((fit(&parts, 9), fit(&parts, 8), fit(&parts, 2)), ("abc   def".into(), "abc".into(), String::new()));
    }
}
