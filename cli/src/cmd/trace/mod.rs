//! `fulgurite trace`: the demo's training step, or a model, after each stage of the compiler.

mod diff;
mod fold;
mod life;
mod table;
mod why;

use crate::args;
use crate::cmd::traced::ShownProgram;
use crate::cmd::{models, train};
use crate::fault::{Fault, Outcome};
use crate::ui::{Mode, Ui};
use fulgurite::Caching;
use fulgurite::bind::body_of;
use fulgurite::jit::CompileStage;
use fulgurite::trace::{BoundSymbol, PrintOptions, Trace};
use fulgurite::viewer::Viewer;
use serde_json::json;
use std::path::Path;

/// Runs the command.
///
/// # Errors
/// E921: an unknown stage. The errors of the demo's model; E930 to E936: the model of `--model`. E913: the page can't be
/// written.
pub fn run(args: &args::Trace, ui: &Ui) -> Outcome {
    let traced = match &args.model {
        Some(path) => {
            let sizes = if args.html.is_some() { Caching::Constant } else { Caching::Symbolic };
            models::trace::traced(&fulgurite_models::import(path)?, sizes, args.profile)?
        }
        None => train::traced(args.profile)?,
    };
    if let Some(path) = &args.html {
        return page(args, path, traced, ui);
    }
    let stages = traced.stages()?;
    if args.stages {
        match ui.mode() {
            Mode::Json => ui.object(&json!({"v": 1, "stages": table::json(&stages)})),
            _ => table::lines(&stages).iter().for_each(|line| ui.result(line)),
        }
        ui.status("next", "fulgurite trace --stage NAME [--depth N]  ·  fulgurite trace --diff NAME NAME");
        return Ok(());
    }
    if let Some([from, to]) = args.diff.as_deref() {
        let lines_of = |name: &str| {
            let stage = find(&stages, name)?;
            is_trace(stage).and_then(|()| text(stage, args.depth))
        };
        let (old, new) = (lines_of(from)?, lines_of(to)?);
        let lines = diff::unified(&old, &new);
        match ui.mode() {
            Mode::Json => ui.object(&json!({"v": 1, "from": from, "to": to, "diff": lines})),
            _ => lines.iter().for_each(|line| ui.result(line)),
        }
        return Ok(());
    }
    if args.value.is_some() || args.why.is_some() || args.memory {
        // The last stage is a program, without values.
        let shown = find(&stages, args.stage.as_deref().unwrap_or("simplified"))?;
        let trace = parsed(shown)?;
        let (lines, object) = match (&args.value, &args.why) {
            (Some(name), _) => life::value(&trace, name)?,
            (None, Some(line)) => why::line(&trace, line)?,
            (None, None) => life::memory(&trace),
        };
        match ui.mode() {
            Mode::Json => ui.object(&object),
            _ => lines.iter().for_each(|line| ui.result(line)),
        }
        return Ok(());
    }
    let shown = match &args.stage {
        Some(name) => find(&stages, name)?,
        None => stages.iter().rev().find(|s| s.text.is_some()).ok_or_else(no_traces)?,
    };
    let text = text(shown, args.depth)?;
    match ui.mode() {
        Mode::Json => ui.object(&json!({"v": 1, "stage": shown.name, "lines": shown.lines, "text": text})),
        Mode::Pretty if !ui.wishes().verbose => ui.result(&fold::fold(&text, ui.width())),
        _ => ui.result(text.trim_end()),
    }
    Ok(())
}

/// Writes the page. A program that does not compile has one too, and its error is that of the command.
fn page(args: &args::Trace, path: &Path, traced: ShownProgram, ui: &Ui) -> Outcome {
    let title = match &args.model {
        Some(model) => model.file_name().unwrap_or(model.as_os_str()).to_string_lossy().into_owned(),
        None => "the demo's training step".to_owned(),
    };
    let viewer = Viewer::new(title, &traced.stages).profiled(traced.profile.as_ref());
    viewer.failed(traced.failure.as_ref()).write(path)?;
    match ui.mode() {
        Mode::Json => ui.object(&json!({"v": 1, "written": path, "stages": traced.stages.len(),
            "profiled": traced.profile.is_some(), "failed": traced.failure.as_ref().map(|e| e.code())})),
        _ => ui.status("Wrote", &format!("{} (open it in a browser)", path.display())),
    }
    traced.failure.map_or(Ok(()), |e| Err(e.into()))
}

/// The last stage with this name.
fn find<'s>(stages: &'s [CompileStage], name: &str) -> Result<&'s CompileStage, Fault> {
    stages.iter().rev().find(|s| s.name == name).ok_or_else(|| {
        let mut names: Vec<&str> = stages.iter().filter(|s| s.text.is_some()).map(|s| s.name).collect();
        names.dedup();
        Fault::usage("E921", format!("the program has no stage `{name}`")).help(format!("one of {}", names.join(", ")))
    })
}

fn no_traces() -> Fault {
    Fault { status: crate::fault::BUG, ..Fault::failed("E921", "the compiler kept no trace") }
}

/// Refuses the last stage, which has the steps of a program instead of a trace.
fn is_trace(stage: &CompileStage) -> Result<(), Fault> {
    if stage.name != "compiled" {
        return Ok(());
    }
    let claim = "the stage `compiled` has steps, which have no lines and values of their own";
    Err(Fault::usage("E921", claim).help("ask of `simplified`: `--why` says in which step a line runs"))
}

fn parsed(stage: &CompileStage) -> Result<Trace, Fault> {
    is_trace(stage)?;
    Ok(Trace::parse(&text(stage, 0)?)?)
}

/// The program of a stage, with bodies opened to this depth.
fn text(stage: &CompileStage, depth: usize) -> Result<String, Fault> {
    let Some(text) = &stage.text else {
        return Err(Fault::usage("E921", format!("the stage `{}` has no trace: it is a program", stage.name)));
    };
    if depth == 0 {
        return Ok(text.clone());
    }
    // The compiler makes bodies only where it needs them; so the program is read back, and the other bodies are made.
    let trace = Trace::parse(text)?;
    trace.lines().iter().try_for_each(|line| open(&trace, line, depth))?;
    Ok(trace.print(&PrintOptions { depth, ..PrintOptions::default() }))
}

fn open(trace: &Trace, line: &BoundSymbol, depth: usize) -> Result<(), Fault> {
    if depth == 0 {
        return Ok(());
    }
    match body_of(&trace.arena, line)? {
        Some(body) => body.lines.iter().try_for_each(|inner| open(trace, inner, depth - 1)),
        None => Ok(()),
    }
}
