//! `fulgurite sample`: text from a checkpoint of `train --task text`, printed as it is generated.

use super::train::folder::Found;
use super::train::run as training;
use super::train::settings::Settings;
use super::train::text::model::model;
use super::train::text::sample::{Choice, Writer};
use super::train::text::{self, GptSizes};
use crate::args::{self, TaskName, Weights};
use crate::fault::Fault;
use crate::ui::{Mode, Ui, format};
use fulgurite::prelude::*;
use fulgurite::text::Alphabet;
use fulgurite_demo::gpt::Gpt;
use serde_json::json;
use std::time::Instant;

/// Runs the command.
///
/// # Errors
/// E901 to E905, E910, E919: there is no usable checkpoint. E914: an option has an impossible value. The errors of the
/// model.
pub fn run(args: &args::Sample, ui: &Ui) -> Result<u8, Fault> {
    let choice = choice(args)?;
    let tokens = bounded("--tokens", args.tokens, 1)?;
    crate::threads::set(args.threads, 1)?;
    let (found, broken) = Found::at(&args.checkpoint)?;
    broken.iter().for_each(|fault| ui.warn(&fault.claim));
    if found.task != TaskName::Text {
        let claim = format!("`{}` is a checkpoint of task `{}`: it writes no text", found.path.display(), found.task);
        return Err(Fault::usage("E919", claim).help("train one that does: fulgurite train"));
    }
    let alphabet = Alphabet::of(found.note(text::ALPHABET)?);
    let prompt = match &args.prompt {
        Some(prompt) => text::encode(&alphabet, prompt, "the checkpoint's alphabet")?,
        None => alphabet.encode("\n").unwrap_or_default(),
    };
    let settings: Settings<GptSizes> = found.settings()?;
    let model = load(&found, &settings, alphabet.len())?;
    let context = settings.model.context;
    ui.status("Loaded", &format!("{}, step {}, context {context}", found.path.display(), found.step));
    let model = match args.weights {
        Weights::F32 => model,
        form => rounded(model, form, ui)?,
    };
    // Every character reads the whole model.
    let model = fulgurite_demo::device::hold(model)?;

    let mut writer = Writer::new(context, args.seed, choice);
    let begun = args.prompt.as_deref().unwrap_or_default();
    let start = Instant::now();
    if ui.mode() != Mode::Json {
        ui.piece(&shown(ui, begun));
    }
    // The programs are compiled during the first character.
    let mut first = None;
    let each = |token: i64| {
        first.get_or_insert_with(|| start.elapsed().as_secs_f64());
        let piece = alphabet.decode(&[token]);
        match ui.mode() {
            Mode::Json => ui.object(&json!({"v": 1, "event": "token", "text": piece})),
            _ => ui.piece(&shown(ui, &piece)),
        }
        !ui.closed()
    };
    let written = writer.write(&model, &prompt, tokens, 0, each)?;
    let seconds = start.elapsed().as_secs_f64();
    match ui.mode() {
        Mode::Json => ui.object(&json!({
            "v": 1, "event": "end", "prompt": begun, "text": alphabet.decode(&written), "tokens": written.len(),
            "seconds": seconds, "first_seconds": first,
        })),
        _ => ui.piece("\n"),
    }
    let first = first.unwrap_or(seconds);
    let rate = match written.len() {
        0 | 1 => String::new(),
        n => format!(", then {}/s", format::count((n - 1) as f64 / (seconds - first).max(1e-9))),
    };
    let (n, all) = (written.len(), format::seconds(seconds));
    ui.status("Wrote", &format!("{n} characters in {all}: the first after {}{rate}", format::seconds(first)));
    Ok(0)
}

/// The rule by which characters are chosen.
fn choice(args: &args::Sample) -> Result<Choice, Fault> {
    let temperature = args.temperature;
    if !(temperature > 0.0 && temperature.is_finite()) {
        let claim = format!("`--temperature` is {temperature}, it must be a number above 0");
        return Err(Fault::usage("E914", claim).help("--top-k 1 always takes the likeliest character"));
    }
    let top_k = args.top_k.map(|k| bounded("--top-k", k, 1)).transpose()?;
    Ok(Choice { temperature, top_k })
}

/// A count of at least `least` that is not a typing error.
fn bounded(option: &str, n: usize, least: usize) -> Result<usize, Fault> {
    /// At most this many characters, because a larger number is a typing error.
    const MOST: usize = 1 << 30;
    if (least..=MOST).contains(&n) {
        return Ok(n);
    }
    Err(Fault::usage("E914", format!("`{option}` is {n}, it must be {least} to {MOST}")))
}

/// The model of a checkpoint. The file also holds the optimiser's state, which is read and dropped.
fn load(found: &Found, settings: &Settings<GptSizes>, symbols: usize) -> Result<Gpt, Fault> {
    let mut key = Key::new(settings.seed);
    let learner = training::learner(model(&mut key, &settings.model, symbols), settings);
    let ((model, _), _) = found.load(learner, key)?;
    Ok(model)
}

/// The model with the matrices of its blocks quantised in groups.
fn rounded(model: Gpt, form: Weights, ui: &Ui) -> Result<Gpt, Fault> {
    /// Numbers that share a scale.
    const GROUP: i64 = 32;
    let mut bytes = (0, 0);
    let model = model.with_matrices(|w| {
        let row = w.shape().last().map_or(1, |n| n.value());
        let group = if row % GROUP == 0 { GROUP } else { row };
        let made = match form {
            Weights::Int4 => w.to_int4_groups_with(ops::ToInt4Groups { group: group.into() }),
            _ => w.to_int8_groups_with(ops::ToInt8Groups { group: group.into() }),
        };
        bytes.0 += size(w);
        bytes.1 += made.wrapped().map_or(0, |parts| parts.fields().iter().map(size).sum());
        made
    })?;
    let [before, after] = [bytes.0, bytes.1].map(format::bytes);
    ui.status("Rounded", &format!("the matrices of the blocks, {before}, to {after}"));
    Ok(model)
}

/// Bytes of a tensor's elements.
fn size(t: &Tensor) -> usize {
    t.buffer().map_or(0, |b| b.byte_len())
}

/// Text for a reader: on a terminal, control characters are replaced, so that they cannot move the cursor.
fn shown(ui: &Ui, text: &str) -> String {
    let plain = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c };
    if ui.mode() == Mode::Pretty { text.chars().map(plain).collect() } else { text.to_owned() }
}
