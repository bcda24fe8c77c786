//! Task `digits`: a small convolutional net learns to read handwritten digits.

mod data;
mod model;

use super::metrics::Check;
use super::settings::Settings;
use super::show::{Show, Unit};
use super::task::{Source, Task, foreign};
use crate::args::{self, TaskName};
use crate::fault::{Fault, Outcome};
use crate::ui::picture::Picture;
use crate::ui::{Ui, format};
use data::{CLASSES, INK, Image, PIXELS, SIDE};
use fulgurite::core::philox;
use fulgurite::prelude::*;
use model::{Net, NetSizes};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The loss on images, and the digit that the model reads in each.
type Exam = Box<dyn Fn(Net, Tensor, Tensor) -> fulgurite::Result<(Tensor, Tensor)>>;

/// The images, and those that the model read wrong in its last examination.
pub struct Digits {
    images: Vec<Image>,
    training: Vec<usize>,
    held_out: Vec<usize>,
    source: Source,
    exam: Exam,
    wrong: Vec<Wrong>,
}

/// A held-out image that the model reads wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The number of the image among all images.
    index: usize,
    /// The label that the model reads.
    said: i64,
}

impl Digits {
    /// Images as `f32[n, 1, 8, 8]` in 0 to 1, and their labels `i64[n]`.
    fn tensors(images: &[Image]) -> (Tensor, Tensor) {
        let pixels = images.iter().flat_map(|i| i.pixels).map(|p| f32::from(p) / f32::from(INK)).collect();
        let labels = images.iter().map(|i| i64::from(i.label)).collect();
        (Tensor::from_vec(pixels, (images.len(), 1, SIDE, SIDE)), Tensor::from_vec::<i64>(labels, images.len()))
    }

    fn chosen(&self, numbers: &[usize]) -> Vec<Image> {
        numbers.iter().filter_map(|i| self.images.get(*i)).copied().collect()
    }

    fn picture(&self, wrong: &Wrong) -> Option<Picture> {
        let image = self.images.get(wrong.index)?;
        let shades = image.pixels.map(|p| f32::from(p) / f32::from(INK)).to_vec();
        Some(Picture { width: SIDE, shades, caption: format!("{} as {}", image.label, wrong.said) })
    }
}

impl Task for Digits {
    type Sizes = NetSizes;
    type Model = Net;

    const NAME: TaskName = TaskName::Digits;
    const UNIT: Unit = Unit { shown: "images/s", key: "images_s", loss: "nats per image" };

    /// Settings for 40,000 parameters, which train in seconds on two cores.
    fn defaults() -> Settings<NetSizes> {
        Settings {
            seed: 1337,
            model: NetSizes { channels: 16, hidden: 64 },
            batch: 64,
            steps: 600,
            warmup: 30,
            lr: 3e-3,
            clip: 1.0,
            decay: 0.1,
            check_every: 0,
            save_every: 0,
        }
    }

    fn accepts(a: &args::Train) -> Outcome {
        let given = [
            ("--text", a.text.is_some()),
            ("--depth", a.depth.is_some()),
            ("--width", a.width.is_some()),
            ("--heads", a.heads.is_some()),
            ("--context", a.context.is_some()),
            ("--precision", a.precision.is_some()),
            ("--prompt", a.prompt.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(foreign(option, TaskName::Text, Digits::NAME)),
            None => Ok(()),
        }
    }

    fn sizes(_: &args::Train) -> Result<NetSizes, Fault> {
        Ok(Digits::defaults().model)
    }

    fn open(_: &args::Train, _: Option<&Path>, settings: &Settings<NetSizes>) -> Result<Digits, Fault> {
        let images = data::images();
        let (training, held_out) = data::split(images.len(), settings.seed);
        let exam = jit(|model: Net, x: Tensor, y: Tensor| {
            let logits = model.logits(&x);
            (logits.cross_entropy(&y, None), logits.argmax_with(ops::Argmax { dim: 1.into(), ..d() }))
        });
        let exam: Exam = Box::new(move |model, x, y| exam.call((model, x, y)));
        Ok(Digits { images, training, held_out, source: data::source(), exam, wrong: Vec::new() })
    }

    fn examples(&self, settings: &Settings<NetSizes>) -> usize {
        settings.batch
    }

    fn source(&self) -> &Source {
        &self.source
    }

    fn outcomes(&self) -> usize {
        CLASSES
    }

    fn model(&self, key: &mut Key, settings: &Settings<NetSizes>) -> Net {
        Net::new(key, &settings.model)
    }

    fn loss(model: &Net, x: &Tensor, y: &Tensor) -> Tensor {
        model.loss(x, y)
    }

    fn batch(&self, key: Key, settings: &Settings<NetSizes>) -> (Tensor, Tensor) {
        let Some((seed, stream)) = key.parts() else {
            return (key.handle().clone(), key.handle().clone());
        };
        let draw =
            |i: usize, draw, n| data::below(philox::uniform(seed as u64, stream as u64, i as u64, draw).into(), n);
        let one = |i: usize| {
            let image = self.images[self.training[draw(i, 0, self.training.len())]];
            // a digit moved by a pixel stays the same digit, so one image teaches all its positions
            image.moved(draw(i, 1, 3) as i64 - 1, draw(i, 2, 3) as i64 - 1)
        };
        Digits::tensors(&(0..settings.batch).map(one).collect::<Vec<Image>>())
    }

    fn examine(&mut self, model: &Net) -> Result<Option<Check>, Fault> {
        let (x, y) = Digits::tensors(&self.chosen(&self.held_out));
        let (loss, said) = (self.exam)(model.clone(), x, y)?;
        let (loss, said) = (f64::from(loss.item::<f32>()?), said.to_vec::<i64>()?);
        let answers = self.held_out.iter().zip(said).map(|(&index, said)| Wrong { index, said });
        let label = |i: usize| self.images.get(i).map(|image| i64::from(image.label));
        self.wrong = answers.filter(|a| label(a.index) != Some(a.said)).collect();
        let right = self.held_out.len() - self.wrong.len();
        Ok(Some(Check { loss, accuracy: Some(right as f64 / self.held_out.len().max(1) as f64) }))
    }

    fn exhibit(&mut self, _: &Net, step: u64, last: bool, show: &Show) -> Outcome {
        if last {
            let objects = self.wrong.iter().filter_map(|w| {
                let image = self.images.get(w.index)?;
                Some(json!({"image": w.index, "label": image.label, "said": w.said, "pixels": image.pixels.to_vec()}))
            });
            let title = format!(
                "{} of {} held-out images read wrong (what it is, as what it was read)",
                self.wrong.len(),
                self.held_out.len()
            );
            show.wrong(step, &title, &self.gallery(), objects.collect());
        }
        Ok(())
    }

    fn gallery(&self) -> Vec<Picture> {
        self.wrong.iter().filter_map(|w| self.picture(w)).collect()
    }

    fn introduce(&self, ui: &Ui, s: &Settings<NetSizes>, parameters: usize) {
        let NetSizes { channels, hidden } = s.model;
        let count = format::count(parameters as f64);
        ui.status(
            "Model",
            &format!(
                "2 convolutions · {channels} and {} channels · {hidden} hidden · {count} parameters",
                2 * channels
            ),
        );
        let (training, held) = (self.training.len(), self.held_out.len());
        ui.status(
            "Data",
            &format!(
                "{}, {SIDE} × {SIDE} · {training} for training, {held} held out · seed {}",
                self.source.name, s.seed
            ),
        );
    }

    fn facts(&self) -> Map<String, Value> {
        let facts = json!({
            "data": self.source.name, "images": self.images.len(), "pixels": PIXELS, "held_out": self.held_out.len(),
        });
        facts.as_object().cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits() -> Digits {
        let Some(args) = crate::args::tests::train("--task digits") else { panic!("train was asked for") };
        Digits::open(&args, None, &Digits::defaults()).expect("embedded")
    }

    #[test]
    fn batches_come_from_the_training_images() {
        let (task, s) = (digits(), Digits::defaults());
        let labels = |key| task.batch(Key::new(key), &s).1.to_vec::<i64>().expect("data");
        assert_eq!(labels(1), labels(1));
        assert_ne!(labels(1), labels(2));
        let (x, _) = task.batch(Key::new(1), &s);
        let batch = x.to_vec::<f32>().expect("data");
        let moves = [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 0), (0, 1), (1, -1), (1, 0), (1, 1)];
        let training = task.chosen(&task.training);
        let known = training.iter().flat_map(|image| moves.map(|(x, y)| image.moved(x, y)));
        let known: Vec<[f32; PIXELS]> = known.map(|image| image.pixels.map(|p| f32::from(p) / 16.0)).collect();
        assert!(batch.chunks(PIXELS).all(|image| known.iter().any(|k| k == image)));
    }

    /// An untrained net reads about a tenth of the images right, and its loss is ln 10.
    #[test]
    fn the_exam_counts() {
        let mut task = digits();
        let model = task.model(&mut Key::new(1), &Digits::defaults());
        let check = task.examine(&model).expect("runs").expect("images");
        let wrong = task.wrong.len() as f64 / task.held_out.len() as f64;
        assert!((check.accuracy.expect("known") + wrong - 1.0).abs() < 1e-12 && wrong > 0.7, "{check:?}");
        assert!((check.loss - 10f64.ln()).abs() < 0.1, "{check:?}");
        assert_eq!(task.gallery().len(), task.wrong.len());
    }
}
