//! Task `text`: a character-level GPT learns a text.

mod corpus;
pub mod model;
pub mod sample;

use super::metrics::Check;
use super::settings::{Settings, Sizes, affordable, size};
use super::show::{Show, Unit};
use super::task::{Source, Task};
use crate::args::{self, TaskName};
use crate::fault::{Fault, Outcome};
use crate::ui::{Ui, format};
use corpus::Corpus;
use fulgurite::core::counted;
use fulgurite::prelude::*;
use fulgurite::text::Alphabet;
use fulgurite_demo::gpt::{Gpt, Precision};
use sample::{Choice, Writer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Number of batches in a validation.
const BATCHES: usize = 8;
/// Characters of a sample during the run, and of the sample at its end.
const SAMPLE: (usize, usize) = (120, 400);
/// Name of the note in which a checkpoint lists the characters that its model knows.
pub const ALPHABET: &str = "alphabet";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GptSizes {
    /// Blocks.
    pub depth: usize,
    /// Numbers that represent a character.
    pub width: usize,
    /// Attention heads.
    pub heads: usize,
    /// Characters that the model looks back.
    pub context: usize,
    /// Precision of its computation.
    #[serde(default)]
    pub precision: Precision,
}

impl Sizes for GptSizes {
    fn check(&self, batch: usize) -> Result<(), Fault> {
        for (name, n) in
            [("--depth", self.depth), ("--width", self.width), ("--heads", self.heads), ("--context", self.context)]
        {
            size(name, Some(n), n)?;
        }
        let (width, heads) = (self.width, self.heads);
        if !width.is_multiple_of(heads) {
            let claim = format!("a width of {width} can't be split among {heads} heads");
            return Err(Fault::usage("E914", claim).help("make --width a multiple of --heads"));
        }
        let weights = [width, width, self.depth, 12].iter().map(|n| *n as f64).product::<f64>();
        let values = [batch, self.context, width, self.depth, 40].iter().map(|n| *n as f64).product::<f64>();
        affordable(weights + values, "smaller --width, --depth, --batch or --context")
    }
}

/// The loss of a model on pieces of text.
type Loss = Box<dyn Fn(Gpt, Tensor, Tensor) -> fulgurite::Result<Tensor>>;

/// A text, with the functions that validate a model on it and write samples.
pub struct Characters {
    text: Text,
    size: usize,
    source: Source,
    /// Start of every sample.
    prompt: Vec<i64>,
    validation: Vec<(Tensor, Tensor)>,
    loss: Loss,
    writer: Writer,
}

impl Characters {
    fn new(corpus: Corpus, prompt: Option<&str>, settings: &Settings<GptSizes>) -> Result<Characters, Fault> {
        let Corpus { text, source } = corpus;
        let size = text.len();
        let text = Text::new(&text).map_err(|e| Fault::from(e).note(format!("it is {}", source.name)))?;
        let context = settings.model.context;
        if context > text.longest() {
            let claim = format!("a context of {context} characters doesn't fit the text: {}", text.longest());
            return Err(Fault::usage("E912", claim).help("a longer text, or a smaller --context"));
        }
        let prompt = match prompt {
            // a line break is where a text may begin; a text of one line begins with any character
            None => text.alphabet().encode("\n").unwrap_or_default(),
            Some(prompt) => encode(text.alphabet(), prompt, "the text")?,
        };
        let validation = text.validation(settings.batch, context, BATCHES);
        let compiled = jit(|model: Gpt, x: Tensor, y: Tensor| model.loss(&x, &y, false));
        let loss: Loss = Box::new(move |model, x, y| compiled.call((model, x, y)));
        let writer = Writer::new(context, settings.seed, Choice::default());
        Ok(Characters { text, size, source, prompt, validation, loss, writer })
    }

    /// The demo, with its own text and settings.
    ///
    /// # Errors
    /// None, unless the program was built without its text.
    pub fn demo() -> Result<Characters, Fault> {
        Characters::new(Corpus::read(None)?, None, &Characters::defaults())
    }
}

/// A prompt as numbers. `whose` names the owner of the alphabet in messages.
///
/// # Errors
/// E914: the alphabet lacks a character.
pub fn encode(alphabet: &Alphabet, prompt: &str, whose: &str) -> Result<Vec<i64>, Fault> {
    alphabet.encode(prompt).map_err(|strange| {
        let known = format::one_line(&alphabet.text());
        Fault::usage("E914", format!("`--prompt` has the character {strange:?}, which {whose} does not have"))
            .note(format!("{} characters are known: {known}", alphabet.len()))
            .help("write the prompt with these")
    })
}

impl Task for Characters {
    type Sizes = GptSizes;
    type Model = Gpt;

    const NAME: TaskName = TaskName::Text;
    const UNIT: Unit = Unit { shown: "tok/s", key: "tok_s", loss: "nats per character" };

    /// Settings of the demo: 0.8 M parameters, about a minute on two cores.
    fn defaults() -> Settings<GptSizes> {
        Settings {
            seed: 1337,
            model: GptSizes { depth: 4, width: 128, heads: 4, context: 64, precision: Precision::F32 },
            batch: 32,
            steps: 600,
            warmup: 50,
            lr: 3e-3,
            clip: 1.0,
            decay: 0.1,
            check_every: 0,
            save_every: 0,
        }
    }

    fn accepts(_: &args::Train) -> Outcome {
        Ok(())
    }

    fn sizes(a: &args::Train) -> Result<GptSizes, Fault> {
        let d = Characters::defaults().model;
        Ok(GptSizes {
            depth: size("--depth", a.depth, d.depth)?,
            width: size("--width", a.width, d.width)?,
            heads: size("--heads", a.heads, d.heads)?,
            context: size("--context", a.context, d.context)?,
            precision: a.precision.unwrap_or_default(),
        })
    }

    fn open(args: &args::Train, known: Option<&Path>, settings: &Settings<GptSizes>) -> Result<Characters, Fault> {
        let corpus = Corpus::read(args.text.as_deref().or(known))?;
        Characters::new(corpus, args.prompt.as_deref(), settings)
    }

    fn examples(&self, settings: &Settings<GptSizes>) -> usize {
        settings.batch * settings.model.context
    }

    fn source(&self) -> &Source {
        &self.source
    }

    fn outcomes(&self) -> usize {
        self.text.symbols()
    }

    fn model(&self, key: &mut Key, settings: &Settings<GptSizes>) -> Gpt {
        model::model(key, &settings.model, self.text.symbols())
    }

    fn loss(model: &Gpt, x: &Tensor, y: &Tensor) -> Tensor {
        model.loss(x, y, false)
    }

    fn batch(&self, key: Key, settings: &Settings<GptSizes>) -> (Tensor, Tensor) {
        self.text.batch(key, settings.batch, settings.model.context)
    }

    fn examine(&mut self, model: &Gpt) -> Result<Option<Check>, Fault> {
        let mut sum = 0.0;
        for (x, y) in &self.validation {
            sum += f64::from((self.loss)(model.clone(), x.clone(), y.clone())?.item::<f32>()?);
        }
        let n = self.validation.len();
        Ok((n > 0).then(|| Check { loss: sum / n as f64, accuracy: None }))
    }

    fn exhibit(&mut self, model: &Gpt, step: u64, last: bool, show: &Show) -> Outcome {
        let length = if last { SAMPLE.1 } else { SAMPLE.0 };
        let written = self.writer.write(model, &self.prompt, length, step, |_| true)?;
        show.sample(step, &self.text.alphabet().decode(&[self.prompt.clone(), written].concat()));
        Ok(())
    }

    fn next(&self, checkpoint: &Path) -> Option<String> {
        Some(format!("fulgurite sample {}", checkpoint.display()))
    }

    fn introduce(&self, ui: &Ui, s: &Settings<GptSizes>, parameters: usize) {
        let GptSizes { depth, heads, width, context, .. } = s.model;
        let count = format::count(parameters as f64);
        ui.status(
            "Model",
            &format!(
                "{} · {} · {width} wide · {count} parameters · context {context}",
                counted(depth, "block", "blocks"),
                counted(heads, "head", "heads")
            ),
        );
        let (size, symbols) = (format::bytes(self.size), self.text.symbols());
        let (name, share) = (&self.source.name, self.text.training_share() * 100.0);
        ui.status("Data", &format!("{name}, {size}, {symbols} symbols · {share:.0} % for training · seed {}", s.seed));
    }

    fn facts(&self) -> Map<String, Value> {
        let facts = json!({"text": self.source.name, "characters": self.text.len(), "symbols": self.text.symbols()});
        facts.as_object().cloned().unwrap_or_default()
    }

    fn notes(&self) -> Vec<(&'static str, String)> {
        vec![(ALPHABET, self.text.alphabet().text())]
    }
}
