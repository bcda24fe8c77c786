//! The line protocol: one command per input line, one JSON object per output line.

use crate::meter::{self, Cost};
use crate::numbers;
use fulgurite::{Error, Result};
use serde_json::{Value, json};
use std::io::{BufRead, Write};

/// A workload with its inputs.
pub trait Work {
    /// Runs one repetition and keeps its results.
    ///
    /// # Errors
    /// The error of tracing or running.
    fn step(&mut self) -> Result<()>;
    /// The tensors to check, in the protocol's order; a loss is one number.
    ///
    /// # Errors
    /// The error of running.
    fn results(&mut self) -> Result<Vec<Vec<f32>>>;
    /// Resets the state to that after loading.
    ///
    /// # Errors
    /// The error of making it.
    fn reset(&mut self) -> Result<()> {
        Ok(())
    }
    /// The number of units by which a repetition's time is divided.
    fn units(&self) -> usize {
        1
    }
    /// The source of the check value.
    fn checked(&self) -> Checked {
        Checked::Results
    }
}

/// The source of a check value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checked {
    /// The results of one repetition.
    Results,
    /// The first results of this many first steps, as one tensor.
    Losses(usize),
    /// The results after this many steps.
    After(usize),
}

/// Makes the workload with a name; `None` if there is none.
pub type Maker = fn(&str) -> Option<Result<Box<dyn Work>>>;

/// A program that speaks the protocol.
pub struct Server {
    names: &'static [&'static str],
    make: Maker,
    threads: usize,
    loaded: Option<Loaded>,
}

struct Loaded {
    name: String,
    work: Box<dyn Work>,
    init_s: f64,
    first_s: f64,
    base_kb: u64,
    load_peak_kb: u64,
    run_peak_kb: u64,
}

/// At most this many repetitions in one command, because more are a mistake.
const MOST: usize = 10_000_000;

impl Server {
    /// A server of these workloads.
    pub fn new(names: &'static [&'static str], make: Maker, threads: usize) -> Server {
        Server { names, make, threads, loaded: None }
    }

    /// Answers commands until `quit` or the end of the input.
    ///
    /// # Errors
    /// Only that the output is closed.
    pub fn serve(&mut self, input: impl BufRead, mut output: impl Write) -> std::io::Result<()> {
        for line in input.lines() {
            let line = match line {
                Ok(line) => line,
                Err(e) if e.kind() == std::io::ErrorKind::InvalidData => "?".to_owned(),
                Err(e) => return Err(e),
            };
            if line.trim().is_empty() {
                continue;
            }
            let quit = line.trim() == "quit";
            let answer = if quit { json!({"ok": true}) } else { self.answer(&line) };
            writeln!(output, "{answer}")?;
            output.flush()?;
            if quit {
                break;
            }
        }
        Ok(())
    }

    /// The answer to one command.
    pub fn answer(&mut self, line: &str) -> Value {
        let mut words = line.split_whitespace();
        let (command, argument) = (words.next().unwrap_or_default(), words.next());
        let answer = match (command, argument) {
            ("hello", None) => {
                Ok(json!({"impl": "fulgurite", "version": env!("CARGO_PKG_VERSION"), "threads": self.threads}))
            }
            ("list", None) => Ok(json!({"workloads": self.names})),
            ("load", Some(name)) => self.load(name),
            ("time", Some(k)) => match k.parse::<usize>() {
                Ok(k) if (1..=MOST).contains(&k) => self.time(k).map(|costs| {
                    let part = |f: fn(&Cost) -> f64| costs.iter().map(f).collect::<Vec<f64>>();
                    json!({"wall": part(|c| c.wall), "cpu": part(|c| c.cpu)})
                }),
                _ => Err(Error::new("E916", format!("`{k}` is no number of repetitions"))),
            },
            ("check", None) => self.check().map(|pairs| json!({"check": pairs})),
            ("mem", None) => self.memory(),
            _ => Err(Error::new("E916", "unknown command")),
        };
        answer.unwrap_or_else(|fault| json!({"ok": false, "error": fault.claim()}))
    }

    /// `load`: makes the inputs, runs the first repetition.
    ///
    /// # Errors
    /// E916 `unsupported`: there is no such workload. The error of making or running it.
    pub fn load(&mut self, name: &str) -> Result<Value> {
        let make = self.make;
        self.load_made(name, || make(name).unwrap_or_else(|| Err(Error::new("E916", "unsupported"))))
    }

    fn load_made(&mut self, name: &str, make: impl FnOnce() -> Result<Box<dyn Work>>) -> Result<Value> {
        self.loaded = None;
        let base_kb = meter::resident_kb();
        meter::forget_peak();
        let (init, work) = meter::measure(make);
        let mut work = work?;
        let (first, done) = meter::measure(|| work.step());
        done?;
        let units = work.units();
        let load_peak_kb = meter::peak_kb();
        let (init_s, first_s) = (init.wall, first.wall);
        let name = name.to_owned();
        self.loaded = Some(Loaded { name, work, init_s, first_s, base_kb, load_peak_kb, run_peak_kb: 0 });
        Ok(json!({"ok": true, "init_s": init_s, "first_s": first_s, "units": units}))
    }

    fn loaded(&mut self) -> Result<&mut Loaded> {
        self.loaded.as_mut().ok_or_else(|| Error::new("E916", "nothing loaded"))
    }

    /// `time`: the cost of each of `k` repetitions.
    ///
    /// # Errors
    /// The error of running; E916: nothing is loaded.
    pub fn time(&mut self, k: usize) -> Result<Vec<Cost>> {
        let loaded = self.loaded()?;
        meter::forget_peak();
        let mut costs = Vec::with_capacity(k);
        for _ in 0..k {
            let (cost, done) = meter::measure(|| loaded.work.step());
            done?;
            costs.push(cost);
        }
        loaded.run_peak_kb = loaded.run_peak_kb.max(meter::peak_kb());
        Ok(costs)
    }

    /// `check`: the check values, from a fresh state.
    ///
    /// # Errors
    /// The error of running; E916: nothing is loaded.
    pub fn check(&mut self) -> Result<Vec<[f64; 2]>> {
        let work = &mut self.loaded()?.work;
        work.reset()?;
        let tensors = match work.checked() {
            Checked::Results => {
                work.step()?;
                work.results()?
            }
            Checked::After(steps) => {
                (0..steps).try_for_each(|_| work.step())?;
                work.results()?
            }
            Checked::Losses(steps) => {
                let mut losses = Vec::with_capacity(steps);
                for _ in 0..steps {
                    work.step()?;
                    losses.extend(work.results()?.first().and_then(|t| t.first()));
                }
                vec![losses]
            }
        };
        Ok(tensors.iter().map(|t| numbers::check(t)).collect())
    }

    fn memory(&mut self) -> Result<Value> {
        let l = self.loaded()?;
        Ok(json!({
            "base_kb": l.base_kb, "now_kb": meter::resident_kb(),
            "load_peak_kb": l.load_peak_kb, "run_peak_kb": l.run_peak_kb,
        }))
    }

    /// `--run`: one record of a workload, in the form of the protocol's driver.
    ///
    /// # Errors
    /// The error of a command.
    pub fn record(&mut self, name: &str, reps: usize) -> Result<Value> {
        self.load(name)?;
        self.measured(reps)
    }

    /// The record of a workload that is none of the server's own, under the name `WORKLOAD.VARIANT`.
    ///
    /// # Errors
    /// The error of making or running it.
    pub fn record_of(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Result<Box<dyn Work>>,
        reps: usize,
    ) -> Result<Value> {
        self.load_made(name, make)?;
        self.measured(reps)
    }

    /// The record of the workload that is loaded.
    fn measured(&mut self, reps: usize) -> Result<Value> {
        let costs = self.time(reps.clamp(1, MOST))?;
        let check = self.check()?;
        let threads = self.threads;
        let l = self.loaded()?;
        let (workload, variant) = l.name.split_once('.').unwrap_or((&l.name, ""));
        let least = |f: fn(&Cost) -> f64| costs.iter().map(f).fold(f64::INFINITY, f64::min);
        let mut walls: Vec<f64> = costs.iter().map(|c| c.wall).collect();
        walls.sort_by(f64::total_cmp);
        Ok(json!({
            "workload": workload, "variant": variant, "impl": "fulgurite", "version": env!("CARGO_PKG_VERSION"),
            "threads": threads, "median_s": walls[walls.len() / 2], "min_s": least(|c| c.wall),
            "cpu_min_s": least(|c| c.cpu), "n": costs.len(), "units": l.work.units(), "init_s": l.init_s,
            "first_s": l.first_s, "check": check, "rss_run_kb": l.run_peak_kb.saturating_sub(l.base_kb),
        }))
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
