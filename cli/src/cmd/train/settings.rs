//! The settings of a run: sizes, length, rates. They are decided before the first step and written into the run's
//! folder, so that a resumed run needs nothing else.

use crate::args;
use crate::fault::Fault;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The numbers of a run of a task whose model has the sizes `S`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings<S> {
    /// Seed of all random numbers.
    pub seed: u64,
    /// The sizes of the model.
    pub model: S,
    /// Examples per step.
    pub batch: usize,
    /// Steps in all. 0 while `--seconds` has yet to decide.
    pub steps: u64,
    /// Steps of rising learning rate.
    pub warmup: u64,
    /// Largest learning rate.
    #[serde(with = "exact")]
    pub lr: f64,
    /// Largest norm of the gradient.
    #[serde(with = "exact")]
    pub clip: f64,
    /// Weight decay.
    #[serde(with = "exact")]
    pub decay: f64,
    /// Steps between two validations.
    pub check_every: u64,
    /// Steps between two checkpoints; 0: only at the end.
    pub save_every: u64,
}

/// The sizes of a model.
pub trait Sizes: Clone + PartialEq + std::fmt::Debug + Serialize + DeserializeOwned {
    /// Refuses impossible sizes, and sizes whose run needs more memory than machines have.
    ///
    /// # Errors
    /// E914: one of the sizes is refused.
    fn check(&self, batch: usize) -> Result<(), Fault>;
}

/// The learning rate falls to this share of its largest value.
const FLOOR: f64 = 0.05;
/// Number of steps after which their speed decides the length of a run with `--seconds`. Before that the rate does
/// not depend on the length, so the run equals one that was given the number of steps.
pub const PROBE: u64 = 20;
/// At most this size, because a larger one is a typing error.
const LARGEST: usize = 1 << 20;
/// At most this many numbers in memory at once, because they take 16 GB as f32.
const MOST: f64 = 4e9;

impl<S: Sizes> Settings<S> {
    /// The defaults with the changes of the command line. The task decides `model`.
    ///
    /// # Errors
    /// E914: a number is out of range.
    pub fn new(a: &args::Train, model: S, d: Settings<S>) -> Result<Settings<S>, Fault> {
        let settings = Settings {
            seed: a.seed,
            model,
            batch: size("--batch", a.batch, d.batch)?,
            steps: a.steps.unwrap_or(if a.seconds.is_some() { 0 } else { d.steps }),
            lr: positive("--lr", a.lr, d.lr)?,
            clip: positive("--clip", a.clip, d.clip)?,
            decay: a.decay.map_or(Ok(d.decay), |x| if x == 0.0 { Ok(x) } else { positive("--decay", Some(x), x) })?,
            save_every: a.save_every.unwrap_or(d.save_every),
            ..d
        };
        if a.steps == Some(0) {
            return Err(wrong("--steps", "0", "at least 1"));
        }
        positive("--seconds", a.seconds, 1.0)?;
        settings.model.check(settings.batch)?;
        Ok(settings)
    }

    /// Sets the number of steps, and the intervals that follow from it.
    pub fn lasting(mut self, steps: u64) -> Settings<S> {
        self.steps = steps.max(1);
        self.check_every = (self.steps / 10).max(1);
        if self.save_every == 0 {
            self.save_every = (self.steps / 4).max(1);
        }
        self
    }

    /// The learning rate of a step (from 0): a rise, then half a cosine down to a twentieth.
    pub fn lr(&self, step: u64) -> f64 {
        let (step, warmup, steps) = (step as f64, self.warmup.max(1) as f64, self.steps as f64);
        if step < warmup || steps <= warmup {
            return self.lr * ((step + 1.0) / warmup).min(1.0);
        }
        let part = ((step - warmup) / (steps - warmup)).min(1.0);
        self.lr * (FLOOR + (1.0 - FLOOR) * 0.5 * (1.0 + (std::f64::consts::PI * part).cos()))
    }

    /// The settings as an object.
    pub fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads settings that [`Settings::json`] wrote.
    ///
    /// # Errors
    /// E919: a setting is missing, not a number, or out of range.
    pub fn from_json(value: Value) -> Result<Settings<S>, Fault> {
        let s: Settings<S> = serde_json::from_value(value)
            .map_err(|e| Fault::usage("E919", "the run's settings can't be read").note(e.to_string()))?;
        let counts = [s.steps, s.check_every, s.save_every];
        let sound = (1..=LARGEST).contains(&s.batch) && counts.iter().all(|n| *n > 0);
        if !sound || [s.lr, s.clip].iter().any(|x| *x <= 0.0) || s.decay < 0.0 || s.model.check(s.batch).is_err() {
            return Err(Fault::usage("E919", "the run's settings are out of range"));
        }
        Ok(s)
    }
}

/// Fractions as texts, which no reader rounds.
mod exact {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub fn serialize<S: Serializer>(x: &f64, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(x)
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(d: D) -> Result<f64, D::Error> {
        let text = String::deserialize(d)?;
        let x: f64 = text.parse().map_err(D::Error::custom)?;
        if x.is_finite() { Ok(x) } else { Err(D::Error::custom(format!("`{text}` is not finite"))) }
    }
}

/// A size that was given, or the default.
///
/// # Errors
/// E914: the size is 0 or too large.
pub fn size(name: &str, given: Option<usize>, default: usize) -> Result<usize, Fault> {
    match given.unwrap_or(default) {
        n if (1..=LARGEST).contains(&n) => Ok(n),
        n => Err(wrong(name, &n.to_string(), &format!("1 to {LARGEST}"))),
    }
}

/// Refuses a run that keeps more numbers than fit into memory.
///
/// # Errors
/// E914: the run needs too much memory. `help` names what to make smaller.
pub fn affordable(numbers: f64, help: &str) -> Result<(), Fault> {
    if numbers > MOST {
        let claim = format!("this run would need about {:.0} GB of memory", numbers * 4e-9);
        return Err(Fault::usage("E914", claim).help(help));
    }
    Ok(())
}

fn positive(name: &str, given: Option<f64>, default: f64) -> Result<f64, Fault> {
    match given.unwrap_or(default) {
        x if x > 0.0 && x.is_finite() => Ok(x),
        x => Err(wrong(name, &x.to_string(), "a number above 0")),
    }
}

fn wrong(name: &str, given: &str, can: &str) -> Fault {
    Fault::usage("E914", format!("`{name}` is {given}, it must be {can}"))
}

#[cfg(test)]
mod tests {
    use super::super::task::Task;
    use super::super::text::{Characters, GptSizes};
    use super::*;

    fn of(line: &str) -> Result<Settings<GptSizes>, Fault> {
        let train = crate::args::tests::train(line).expect("parses");
        Settings::new(&train, Characters::sizes(&train)?, Characters::defaults())
    }

    #[test]
    fn options_replace_defaults() {
        let s = of("--steps 30 --width 32 --heads 2 --lr 0.001").expect("sound");
        let depth = Characters::defaults().model.depth;
        assert_eq!((s.steps, s.model.width, s.model.heads, s.lr, s.model.depth), (30, 32, 2, 0.001, depth));
        assert_eq!(of("--seconds 5").expect("sound").steps, 0);
    }

    #[test]
    fn impossible_numbers_are_refused() {
        for line in [
            "--steps 0",
            "--seconds 0",
            "--seconds nan",
            "--depth 0",
            "--heads 3",
            "--lr 0",
            "--lr inf",
            "--batch 0",
            "--context 9999999999",
            "--width 999936 --heads 4",
            "--clip -1",
            "--decay -1",
        ] {
            let line = line.replace(" -1", "=-1");
            assert_eq!(of(&line).expect_err(&line).code, "E914", "{line}");
        }
        assert!(of("--decay 0").is_ok());
    }

    #[test]
    fn settings_survive_the_file() {
        let s = Settings { lr: 0.1 + 0.2, seed: u64::MAX, ..of("--width 32").expect("sound") }.lasting(77);
        let text = s.json().to_string();
        assert_eq!(Settings::from_json(serde_json::from_str(&text).expect("JSON")), Ok(s));
        for hostile in [
            "{}",
            "[]",
            "null",
            &text.replace("\"heads\":4", "\"heads\":0"),
            &text.replace("32", "31"),
            &text.replace("0.30000000000000004", "nan"),
        ] {
            let value = serde_json::from_str(hostile).expect("JSON");
            assert!(Settings::<GptSizes>::from_json(value).is_err(), "{hostile}");
        }
    }

    #[test]
    fn the_rate_rises_and_falls() {
        let s = of("").expect("sound").lasting(1000);
        assert!(s.lr(0) < s.lr(10) && s.lr(10) < s.lr(s.warmup));
        assert!((s.lr(s.warmup) - s.lr).abs() < 1e-12);
        assert!((s.lr(1000) - FLOOR * s.lr).abs() < 1e-12 && s.lr(5000) > 0.0);
        assert!((PROBE..=s.warmup).contains(&PROBE));
    }
}
