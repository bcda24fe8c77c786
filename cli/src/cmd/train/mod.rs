//! `fulgurite train`: a character-level GPT learns a text while one watches.

mod corpus;
mod folder;
mod metrics;
mod model;
mod run;
mod sample;
mod settings;
mod show;
mod stop;

use crate::args;
use crate::fault::{Fault, Outcome};
use crate::ui::chart::{self, Series};
use crate::ui::{Mode, Ui, format};
use corpus::Corpus;
use folder::{Folder, Found, Run};
use fulgurite::jit::Stage;
use fulgurite::prelude::*;
use metrics::{History, Log};
use run::Training;
use serde_json::json;
use settings::Settings;
use show::Show;
use std::path::Path;
use stop::Stop;

/// Runs the command. Gives the exit status.
///
/// # Errors
/// E901 to E920, as their pages say; what the model reports.
pub fn run(args: &args::Train, ui: &Ui) -> Result<u8, Fault> {
    if let Some(path) = &args.plot {
        chart::format(path)?;
        writable(path)?;
    }
    if args.log_every == Some(0) {
        return Err(Fault::usage("E914", "`--log-every` is 0, it must be at least 1"));
    }
    let threads = crate::threads::set(args.threads)?;
    let found = args.resume.as_deref().map(|path| find(path, args, ui)).transpose()?;
    let settings = match &found {
        Some(found) => found.settings.clone(),
        None => Settings::new(args)?,
    };
    let text_path = found.as_ref().and_then(|f| f.text.clone()).or_else(|| args.text.clone());
    let text_path = args.text.clone().or(text_path);
    let corpus = Corpus::read(text_path.as_deref())?;
    let text = Text::new(&corpus.text).map_err(|e| Fault::from(e).note(format!("it is {}", corpus.name)))?;
    if settings.context > text.longest() {
        let claim = format!("a context of {} characters doesn't fit the text: {}", settings.context, text.longest());
        return Err(Fault::usage("E912", claim).help("a longer text, or a smaller --context"));
    }
    let prompt = prompt(args.prompt.as_deref(), &text)?;

    let mut key = Key::new(settings.seed);
    let fresh = model::learner(&mut key, &settings, text.symbols());
    let parameters = fresh.0.parameters();
    let (folder, done, learner, key) = match &found {
        None => (Folder::create(args.out.as_deref())?, 0, fresh, key),
        Some(found) => {
            same_text(found, &corpus)?;
            let (learner, key) = found.load(fresh, key)?;
            let folder =
                args.out.as_deref().map_or_else(|| Ok(Folder::of(&found.path)), |out| Folder::create(Some(out)))?;
            (folder, found.step, learner, key)
        }
    };
    // a given number of steps is planned now; `--seconds` plans later
    let settings =
        if settings.steps > 0 && found.is_none() { settings.clone().lasting(settings.steps) } else { settings };
    if done >= settings.steps && settings.steps > 0 {
        return Err(Fault::usage("E919", format!("the run has done its {done} steps"))
            .help(format!("give it more: --steps {}", 2 * done)));
    }
    folder.describe(&settings, &corpus, text_path.as_deref())?;
    let (mut log, history) = Log::open(&folder.metrics(), done)?;
    introduce(ui, &settings, &text, &corpus, parameters, threads, done);

    let stop = Stop::listen(ui);
    let mut show = Show::new(ui, &settings, args.log_every);
    let run = Run { settings: settings.clone(), text: text_path, hash: folder::hash(&corpus) };
    let title = format!("loss of {}, nats per character", folder.path().display());
    let training = Training { text: &text, prompt, run, folder, learner, key, done, seconds: args.seconds };
    let ended = training.go(&mut show, &stop, &mut log, history)?;
    show.end(ended.step, &ended.history, ended.seconds, &ended.checkpoint);
    if let Some(path) = &args.plot {
        plot(path, &title, &ended.history)?;
        ui.status("Plotted", &path.display().to_string());
    }
    let resume = format!("fulgurite train --resume {}", ended.checkpoint.display());
    if stop.asked() {
        ui.status("Stopped", &format!("after step {}; carry on: {resume}", ended.step));
    } else {
        ui.status("Saved", &ended.checkpoint.display().to_string());
        ui.status("next", &format!("{resume} --steps {}", 2 * ended.step));
    }
    Ok(if stop.interrupted() { stop::INTERRUPTED } else { 0 })
}

/// The checkpoint to carry on from, with what may be changed about its run.
fn find(path: &Path, args: &args::Train, ui: &Ui) -> Result<Found, Fault> {
    let (mut found, broken) = Found::at(path)?;
    for fault in broken {
        ui.warn(&fault.claim);
    }
    if let Some(steps) = args.steps {
        found.settings.steps = steps;
    }
    if let Some(every) = args.save_every.filter(|n| *n > 0) {
        found.settings.save_every = every;
    }
    Ok(found)
}

fn same_text(found: &Found, corpus: &Corpus) -> Outcome {
    if found.hash == folder::hash(corpus) {
        return Ok(());
    }
    let fault = Fault::usage("E919", format!("the run learned another text than {}", corpus.name));
    Err(match &found.text {
        Some(path) => fault.note(format!("its text was `{}`", path.display())).help("give that text with --text"),
        None => fault.note("its text was the demo's of another build of fulgurite"),
    })
}

/// How samples begin: as asked, else with a line break.
fn prompt(wanted: Option<&str>, text: &Text) -> Result<Vec<i64>, Fault> {
    let Some(wanted) = wanted else { return Ok(text.encode("\n").unwrap_or_default()) };
    text.encode(wanted).ok_or_else(|| {
        let strange = wanted.chars().find(|c| text.encode(&c.to_string()).is_none()).unwrap_or_default();
        Fault::usage("E914", format!("`--prompt` has the character {strange:?}, which the text has not"))
    })
}

/// Tries to write where a result will go, before an hour is spent on it. An existing file stays as it is.
fn writable(path: &Path) -> Outcome {
    let existed = path.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| Fault::unwritable(path, &e))?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn introduce(ui: &Ui, s: &Settings, text: &Text, corpus: &Corpus, parameters: usize, threads: usize, done: u64) {
    if ui.mode() == Mode::Json {
        ui.object(&json!({
            "v": 1, "event": "start", "settings": s.json(), "parameters": parameters, "text": corpus.name,
            "characters": text.len(), "symbols": text.symbols(), "threads": threads, "step": done,
        }));
    }
    let (depth, heads, width, context) = (s.depth, s.heads, s.width, s.context);
    let count = format::count(parameters as f64);
    ui.status(
        "Model",
        &format!("{depth} blocks · {heads} heads · {width} wide · {count} parameters · context {context}"),
    );
    let (size, symbols, share) = (format::bytes(corpus.text.len()), text.symbols(), text.training_share() * 100.0);
    let name = &corpus.name;
    ui.status("Data", &format!("{name}, {size}, {symbols} symbols · {share:.0} % for training · seed {}", s.seed));
    if done > 0 {
        ui.status("Resumed", &format!("after step {done} of {} · {threads} threads", s.steps));
    }
}

/// What the compiler makes of the demo's training step: it is compiled and run once.
///
/// # Errors
/// What the model reports.
pub(crate) fn stages() -> Result<Vec<Stage>, Fault> {
    let settings = Settings::default();
    let text = Text::new(&Corpus::read(None)?.text)?;
    let mut key = Key::new(settings.seed);
    let mut state = model::learner(&mut key, &settings, text.symbols());
    let (x, y) = text.batch(key.next(), settings.batch, settings.context);
    let step = model::compiled_step(settings.clip).keep_traces();
    step.update(&mut state, (x, y, settings.lr.into()))?;
    Ok(step.stages())
}

fn plot(path: &Path, title: &str, history: &History) -> Outcome {
    let curve = |name, points| Series { name, points };
    let series = [curve("train", history.training(400)), curve("validation", history.validation().clone())];
    chart::write(path, title, &series)
}
