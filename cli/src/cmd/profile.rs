//! `--profile`: the steps of compiled programs as a table, and as trace events.

use crate::fault::{Fault, Outcome};
use crate::ui::{Mode, Ui};
use fulgurite::files;
use fulgurite::profile::{Profile, ProfiledStep, profile};
use serde_json::{Value, json};
use std::path::PathBuf;

/// The rows of the table without `--verbose`.
const SHOWN: usize = 25;

/// Profiles parts of a command, if its user wants it.
pub struct Profiler {
    /// Nothing without `--profile`; the file of trace events, if one is named.
    wanted: Option<Option<PathBuf>>,
    events: Vec<Value>,
    parts: usize,
}

impl Profiler {
    /// The profiler that `--profile` asks for.
    pub fn new(wanted: &Option<Option<PathBuf>>) -> Profiler {
        Profiler { wanted: wanted.clone(), events: Vec::new(), parts: 0 }
    }

    /// Runs a part of the command, and shows its steps.
    pub fn run<R>(&mut self, name: &str, ui: &Ui, f: impl FnOnce() -> R) -> R {
        let Some(file) = &self.wanted else { return f() };
        let (result, profile) = profile(f);
        if ui.mode() == Mode::Json {
            profile.slowest().into_iter().for_each(|step| ui.object(&record(name, step)));
        } else {
            let most = if ui.wishes().verbose { usize::MAX } else { SHOWN };
            ui.result(&format!("{name}: {:.3} ms in steps", profile.time().as_secs_f64() * 1e3));
            ui.piece(&profile.table(most));
        }
        if file.is_some() {
            self.events.extend(trace_events(name, self.parts, &profile));
            if profile.left_out > 0 {
                ui.warn(&format!("{} runs of steps are not among the trace events", profile.left_out));
            }
        }
        self.parts += 1;
        result
    }

    /// Writes the file of trace events.
    ///
    /// # Errors
    /// E913 if it can't be written.
    pub fn finish(self, ui: &Ui) -> Outcome {
        if let Some(Some(path)) = self.wanted {
            let text = json!({"traceEvents": self.events, "displayTimeUnit": "ms"}).to_string();
            files::refresh(&path, text).map_err(|e| Fault::unwritable(&path, &e))?;
            ui.status("Wrote", &format!("{}", path.display()));
        }
        Ok(())
    }
}

/// A step as JSON.
fn record(name: &str, step: &ProfiledStep) -> Value {
    json!({
        "v": 1, "event": "step_time", "part": name, "program": step.program, "step": step.number,
        "executor": step.info.executor, "what": step.info.what, "rows": step.info.rows,
        "places": step.places.iter().map(|place| place.to_string()).collect::<Vec<_>>(),
        "runs": step.runs, "time_s": step.time.as_secs_f64(), "bytes": step.info.bytes,
        "bytes_per_s": step.bytes_per_second(), "flops_per_s": step.flops_per_second(),
        "floor": step.share_of_floor(),
    })
}

/// The runs in the trace event format of browsers' profilers. Times are in microseconds.
fn trace_events(name: &str, part: usize, profile: &Profile) -> Vec<Value> {
    let title = json!({"name": "process_name", "ph": "M", "pid": part, "args": {"name": name}});
    let events = profile.events.iter().map(|event| {
        let step = &profile.steps[event.step];
        json!({
            "name": step.rows(), "cat": step.info.executor, "ph": "X", "pid": part, "tid": step.program,
            "ts": event.start.as_secs_f64() * 1e6, "dur": event.time.as_secs_f64() * 1e6,
            "args": {
                "step": step.info.what, "bytes": step.info.bytes,
                "places": step.places.iter().map(|place| place.to_string()).collect::<Vec<_>>(),
            },
        })
    });
    std::iter::once(title).chain(events).collect()
}
