//! `fulgurite train`: a model learns a task, and the run shows its progress.
//!
//! | module | is |
//! |---|---|
//! | [`task`] | the interface of a task |
//! | [`text`], [`digits`] | the tasks |
//! | [`parallel`] | a run on several ranks |
//! | [`settings`], [`folder`], [`metrics`], [`run`], [`show`], [`stop`] | the run around any of them |

mod digits;
pub(super) mod folder;
mod metrics;
mod parallel;
pub(super) mod run;
pub(super) mod settings;
mod show;
mod stop;
mod task;
pub(super) mod text;

use crate::args::{self, TaskName};
use crate::cmd::traced::ShownProgram;
use crate::fault::{Fault, Outcome};
use crate::ui::chart::{self, Series};
use crate::ui::{Mode, Ui};
use digits::Digits;
use folder::{Folder, Found, Learner};
use fulgurite::comm::Ranks;
use fulgurite::pipeline::StagedModel;
use fulgurite::prelude::*;
use fulgurite::tree;
use metrics::{History, Log};
use parallel::{Crew, Place, Plan};
use run::{Engine, Training};
use serde_json::json;
use settings::{Settings, Sizes};
use show::Show;
use std::path::Path;
use stop::Stop;
use task::Task;
use text::Characters;

/// Runs the command. Returns the exit status.
///
/// # Errors
/// E901 to E920, as their pages say. Errors of the model.
pub fn run(args: &args::Train, ui: &Ui) -> Result<u8, Fault> {
    if let Some(path) = &args.plot {
        chart::format(path)?;
        writable(path)?;
    }
    if args.log_every == Some(0) {
        return Err(Fault::usage("E914", "`--log-every` is 0, it must be at least 1"));
    }
    let ranks = match parallel::place(&args.processes)? {
        Place::Launcher(n) => return parallel::launch(n, ui),
        Place::Rank(ranks) => Some(ranks),
        Place::Alone => None,
    };
    let threads = crate::threads::set(args.threads, parallel::neighbours(&args.processes))?;
    let found = args.resume.as_deref().map(|path| find(path, args, ui)).transpose()?;
    match found.as_ref().map_or(args.task.unwrap_or_default(), |f| f.task) {
        TaskName::Text => learn::<Characters>(args, ui, found.as_ref(), threads, ranks),
        TaskName::Digits => learn::<Digits>(args, ui, found.as_ref(), threads, ranks),
    }
}

/// A run before its first step.
struct Prepared<T: Task> {
    settings: Settings<T::Sizes>,
    task: T,
    learner: Learner<T::Model>,
    key: Key,
    done: u64,
    parameters: usize,
    /// On several ranks: the plan of who runs which stages, and the model in stages.
    shares: Option<(Plan, StagedModel)>,
}

fn prepare<T: Task>(args: &args::Train, found: Option<&Found>, ranks: Option<usize>) -> Result<Prepared<T>, Fault> {
    T::accepts(args)?;
    let settings = match found {
        Some(found) => resumed(found, args)?,
        None => Settings::new(args, T::sizes(args)?, T::defaults())?,
    };
    let task = T::open(args, found.and_then(|f| f.source.as_deref()), &settings)?;
    let mut key = Key::new(settings.seed);
    let fresh = run::learner(task.model(&mut key, &settings), &settings);
    let parameters = parameters(&fresh.0);
    let (done, learner, key) = match found {
        None => (0, fresh, key),
        Some(found) => {
            same_data(found, &task)?;
            let (learner, key) = found.load(fresh, key)?;
            (found.step, learner, key)
        }
    };
    // a given number of steps is planned now; `--seconds` plans later
    let settings =
        if settings.steps > 0 && found.is_none() { settings.clone().lasting(settings.steps) } else { settings };
    if done >= settings.steps && settings.steps > 0 {
        return Err(Fault::usage("E919", format!("the run has done its {done} steps"))
            .help(format!("give it more: --steps {}", 2 * done)));
    }
    let shares = |size| {
        let plan = Plan::new(&args.processes, size, settings.batch)?;
        let (x, y) = task.batch(key.clone().next(), &settings);
        let model = plan.cut::<T>(&learner.0, (&x, &y))?;
        Ok::<_, Fault>((plan, model))
    };
    let shares = ranks.map(shares).transpose()?;
    Ok(Prepared { settings, task, learner, key, done, parameters, shares })
}

/// Runs the command for one task.
fn learn<T: Task>(
    args: &args::Train,
    ui: &Ui,
    found: Option<&Found>,
    threads: usize,
    ranks: Option<Ranks>,
) -> Result<u8, Fault> {
    let prepared = prepare::<T>(args, found, ranks.as_ref().map(Ranks::size));
    let Some(ranks) = ranks else {
        let prepared = prepared?;
        let mut engine = run::alone::<T>(prepared.settings.clip);
        return lead(args, ui, found, threads, prepared, &mut engine);
    };
    let leads = ranks.rank() == 0;
    let digest = prepared.as_ref().map(digest).map_err(Clone::clone);
    let ranks = match parallel::agree(ranks, digest, ui) {
        Ok(ranks) => ranks,
        Err(status) => return Ok(status),
    };
    let mut prepared = prepared?;
    let Some((plan, model)) = prepared.shares.take() else { return Err(Fault::failed("E923", "a rank has no plan")) };
    if leads {
        ui.status("Ranks", &plan.to_string());
    }
    let mut crew = Crew::new(ranks, plan, model, &prepared.learner, prepared.settings.clip);
    let ended = if leads {
        lead(args, ui, found, threads, prepared, &mut crew)
    } else {
        let Prepared { task, settings, mut key, .. } = prepared;
        parallel::follow(&mut crew, || task.batch(key.next(), &settings)).map(|()| 0)
    };
    match ended {
        Ok(status) => crew.end(leads).map(|()| status),
        Err(fault) => Ok(crew.stop(&fault, ui)),
    }
}

/// Text that must be equal on all ranks: task, settings, data, progress, key, plan and stages.
fn digest<T: Task>(p: &Prepared<T>) -> String {
    let data = folder::hash(p.task.source());
    format!("{} {} {data} {} {:?} {:?}", T::NAME, p.settings.json(), p.done, p.key, p.shares)
}

/// Carries out a run, and shows and saves it.
fn lead<T: Task>(
    args: &args::Train,
    ui: &Ui,
    found: Option<&Found>,
    threads: usize,
    prepared: Prepared<T>,
    engine: &mut dyn Engine<T::Model>,
) -> Result<u8, Fault> {
    let Prepared { settings, mut task, learner, key, done, parameters, .. } = prepared;
    let folder = match (&args.out, found) {
        (None, Some(found)) => Folder::resumed(&found.path)?,
        (out, _) => Folder::create(out.as_deref(), T::NAME)?,
    };
    folder.describe(&task, &settings)?;
    let (mut log, history) = Log::open(&folder.metrics(), done)?;
    if ui.mode() == Mode::Json {
        let mut start = json!({
            "v": 1, "event": "start", "task": T::NAME.to_string(), "settings": settings.json(),
            "parameters": parameters, "threads": threads, "step": done, "out": folder.path().display().to_string(),
        });
        task.facts().into_iter().for_each(|(name, value)| start[name] = value);
        ui.object(&start);
    }
    let written = format!("settings, metrics and checkpoints to {}", folder.path().display());
    let named = args.out.is_some() || found.is_some();
    ui.status("Writing", &if named { written } else { written + " (--out DIR: elsewhere)" });
    task.introduce(ui, &settings, parameters);
    if done > 0 {
        ui.status("Resumed", &format!("after step {done} of {} · {threads} threads", settings.steps));
    }

    let stop = Stop::listen(ui);
    let mut show = Show::new(ui, settings.steps, args.log_every, T::UNIT, task.examples(&settings));
    let title = format!("loss of {}, {}", folder.path().display(), T::UNIT.loss);
    let training = Training { task: &mut task, settings, folder, learner, key, done, seconds: args.seconds };
    let ended = training.go(engine, &mut show, &stop, &mut log, history)?;
    show.end(ended.step, &ended.history, ended.seconds, &ended.checkpoint);
    if let Some(path) = &args.plot {
        plot(path, &title, &ended.history, &task)?;
        ui.status("Plotted", &path.display().to_string());
    }
    let resume = format!("fulgurite train --resume {}", ended.checkpoint.display());
    if stop.asked() {
        ui.status("Stopped", &format!("after step {}; carry on: {resume}", ended.step));
    } else {
        ui.status("Saved", &ended.checkpoint.display().to_string());
        let next = task.next(&ended.checkpoint).map_or_else(String::new, |command| format!("{command}  ·  "));
        ui.status("next", &format!("{next}{resume} --steps {}", 2 * ended.step));
    }
    Ok(if stop.interrupted() { stop::INTERRUPTED } else { 0 })
}

/// The checkpoint to carry on from.
fn find(path: &Path, args: &args::Train, ui: &Ui) -> Result<Found, Fault> {
    let (found, broken) = Found::at(path)?;
    for fault in broken {
        ui.warn(&fault.claim);
    }
    match args.task {
        Some(task) if task != found.task => {
            let claim = format!("`{}` is a checkpoint of task `{}`", found.path.display(), found.task);
            Err(Fault::usage("E919", claim)
                .note(format!("`--task {task}` was asked for"))
                .help("leave --task out: the checkpoint says it"))
        }
        _ => Ok(found),
    }
}

/// The settings of a run that is resumed. Options may change some of them.
fn resumed<S: Sizes>(found: &Found, args: &args::Train) -> Result<Settings<S>, Fault> {
    let mut settings: Settings<S> = found.settings()?;
    settings.steps = args.steps.unwrap_or(settings.steps);
    settings.save_every = args.save_every.filter(|n| *n > 0).unwrap_or(settings.save_every);
    Ok(settings)
}

fn same_data<T: Task>(found: &Found, task: &T) -> Outcome {
    let source = task.source();
    if found.hash == folder::hash(source) {
        return Ok(());
    }
    let fault = Fault::usage("E919", format!("the run learned other data than {}", source.name));
    Err(match &found.source {
        Some(path) => fault.note(format!("its text was `{}`", path.display())).help("give that text with --text"),
        None => fault.note("its data were those of another build of fulgurite"),
    })
}

/// The number of learned parameters.
fn parameters<M: Tree>(model: &M) -> usize {
    tree::flatten(model).leaves().iter().map(|t| t.numel().len()).sum()
}

/// Tries to write to the file of a result, before an hour is spent on the result. An existing file stays as it is.
fn writable(path: &Path) -> Outcome {
    let existed = path.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|e| Fault::unwritable(path, &e))?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// The demo's training step, which is compiled and run once; with `measured`, also its times.
///
/// # Errors
/// Errors of the data.
pub(crate) fn traced(measured: bool) -> Result<ShownProgram, Fault> {
    let settings = Characters::defaults();
    let task = Characters::demo()?;
    let mut key = Key::new(settings.seed);
    let mut state = run::learner(task.model(&mut key, &settings), &settings);
    let (x, y) = task.batch(key.next(), &settings);
    let step = run::compiled_step::<Characters>(settings.clip).keep_traces();
    let mut run = || step.update(&mut state, (x.clone(), y.clone(), settings.lr.into())).map(drop);
    Ok(ShownProgram::of(measured, &mut run, || step.stages()))
}

fn plot<T: Task>(path: &Path, title: &str, history: &History, task: &T) -> Outcome {
    let curve = |name, points| Series { name, points };
    let series = [curve("train", history.training(400)), curve("validation", history.validation().clone())];
    chart::write(path, title, &series, &task.gallery())
}
