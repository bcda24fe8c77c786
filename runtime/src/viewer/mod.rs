//! The viewer: the stages of a program, their values and steps, as one page for a browser.
//!
//! The page is a file without a network: its data stand in it as JSON, beside its own style and script. A stage is read
//! back from its text, so everything that a text shows can be drawn; the numbers of lines, which a text lacks, come from
//! the stage's marks. They tell which lines of two stages are one.

mod bodies;
pub mod notes;
pub mod page;
mod stage;
mod steps;
mod strings;
#[cfg(test)]
mod tests;

pub use stage::memory;
pub use steps::Steps;

use crate::error::Error;
use crate::executors::Executor;
use crate::jit::{CompileStage, Jit};
use crate::profile::Profile;
use crate::trace::{ProxyId, Trace};
use bodies::Bodies;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use strings::Strings;

/// The version of the document's form.
const VERSION: u32 = 1;

/// A page about the stages of one program.
pub struct Viewer<'a> {
    title: String,
    stages: &'a [CompileStage],
    executors: &'a [Arc<dyn Executor>],
    profile: Option<&'a Profile>,
    failure: Option<&'a Error>,
}

/// What the stages of a document share.
#[derive(Default)]
struct Tables {
    strings: Strings,
    bodies: Bodies,
    types: Vec<Value>,
    type_numbers: FxHashMap<String, usize>,
}

impl Tables {
    /// The number of a value's type; the table has its text and its bytes.
    fn ty(&mut self, trace: &Trace, p: ProxyId) -> usize {
        let text = trace.ty(p).to_string();
        if let Some(number) = self.type_numbers.get(&text) {
            return *number;
        }
        self.types.push(json!([text, notes::bytes(trace, p)]));
        self.type_numbers.insert(text, self.types.len() - 1);
        self.types.len() - 1
    }
}

impl<'a> Viewer<'a> {
    /// A page about these stages, whose texts are kept.
    pub fn new(title: impl Into<String>, stages: &'a [CompileStage]) -> Viewer<'a> {
        Viewer { title: title.into(), stages, executors: &[], profile: None, failure: None }
    }

    /// The executors for which the program was compiled; without any, the usual ones.
    pub fn on(self, executors: &'a [Arc<dyn Executor>]) -> Viewer<'a> {
        Viewer { executors, ..self }
    }

    /// Adds the measured times of steps.
    pub fn profiled(self, profile: Option<&'a Profile>) -> Viewer<'a> {
        Viewer { profile, ..self }
    }

    /// Adds the error with which the compilation ended.
    pub fn failed(self, failure: Option<&'a Error>) -> Viewer<'a> {
        Viewer { failure, ..self }
    }

    /// The data of the page.
    ///
    /// # Errors
    /// E921 if there are no stages, or if their texts were not kept.
    pub fn document(&self) -> Result<Value, Error> {
        self.refuse_nothing()?;
        let mut tables = Tables::default();
        let (mut stages, mut traces) = (Vec::new(), Vec::new());
        for (i, stage) in self.stages.iter().enumerate() {
            let Some(text) = &stage.text else { continue };
            let object = if stage.name == COMPILED {
                let of = compiled_trace(self.stages, i);
                let known = of.and_then(|of| traces.iter().find(|(number, _, _)| *number == of));
                // The program is compiled again, because a stage keeps no program; a fault of that is no fault of the page.
                let steps = known.and_then(|(_, at, trace)| Some((*at, Steps::of(trace, self.executors).ok()?)));
                match steps {
                    Some((at, steps)) => steps.object(stage, at, self.profile),
                    None => plain(stage, text),
                }
            } else {
                match Trace::parse(text) {
                    Ok(trace) => {
                        let object = stage::object(stage, &trace, &mut tables);
                        traces.push((i, stages.len(), trace));
                        object
                    }
                    Err(_) => plain(stage, text),
                }
            };
            stages.push(object);
        }
        Ok(json!({
            "v": VERSION,
            "title": self.title,
            "error": self.failure.map(ToString::to_string),
            "stages": stages,
            "strings": tables.strings.finish(),
            "types": tables.types,
            "bodies": tables.bodies.finish(),
        }))
    }

    fn refuse_nothing(&self) -> Result<(), Error> {
        if self.stages.is_empty() {
            let claim = format!("`{}` has no stages to show: it was not compiled yet", self.title);
            return Err(Error::new("E921", claim).help("call it before, with arguments as it usually gets"));
        }
        if self.stages.iter().all(|stage| stage.text.is_none()) {
            let claim = format!("the texts of the stages of `{}` were not kept", self.title);
            return Err(Error::new("E921", claim).help("`jit(f).keep_traces()` keeps them when it compiles"));
        }
        Ok(())
    }

    /// The page.
    ///
    /// # Errors
    /// The errors of [`Viewer::document`].
    pub fn html(&self) -> Result<String, Error> {
        Ok(page::viewer(&self.title, &self.document()?))
    }

    /// Writes the page, and replaces an old file as a whole.
    ///
    /// # Errors
    /// The errors of [`Viewer::document`]; E913 if the file can't be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        page::write(path.as_ref(), &self.html()?)
    }
}

/// The name of stages that are programs.
const COMPILED: &str = "compiled";

/// The stage whose trace became the program of stage `at`. A compilation with a forward and a backward records both
/// traces, then both programs.
fn compiled_trace(stages: &[CompileStage], at: usize) -> Option<usize> {
    let traces = || (0..at).rev().filter(|i| stages[*i].name != COMPILED && stages[*i].text.is_some());
    let fits = traces().find(|i| stages[*i].lines == stages[at].lines);
    fits.or_else(|| traces().next())
}

/// A stage that is shown as its text.
fn plain(stage: &CompileStage, text: &str) -> Value {
    json!({
        "name": stage.name, "ms": stage.time.as_secs_f64() * 1e3, "remark": stage.remark,
        "text": text.lines().collect::<Vec<_>>(),
    })
}

/// A number of bytes with three digits and its unit.
fn size_text(n: usize) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut x, mut unit) = (n as f64, 0);
    while x >= 999.5 && unit + 1 < units.len() {
        (x, unit) = (x / 1000.0, unit + 1);
    }
    match x {
        _ if unit == 0 => format!("{n} B"),
        x if x < 9.995 => format!("{x:.2} {}", units[unit]),
        x if x < 99.95 => format!("{x:.1} {}", units[unit]),
        x => format!("{x:.0} {}", units[unit]),
    }
}

impl<F> Jit<F> {
    /// Writes the stages of the program that was compiled last as one page for a browser: stages side by side, values
    /// with their uses, steps, bodies and memory over time. After a failed compilation it has the stages until the
    /// failure, and the error.
    ///
    /// ```no_run
    /// # use fulgurite_runtime::{Result, Tensor, jit};
    /// # fn main() -> Result<()> {
    /// # let x = Tensor::from([1.0f32, 2.0]);
    /// let f = jit(|x: Tensor| x).named("f").keep_traces();
    /// f.call(x)?;
    /// f.trace_html("f.html")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// E921 if nothing was compiled yet, or if [`Jit::keep_traces`] was not chosen; E913 if the file can't be written.
    pub fn trace_html(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let (stages, failure) = (self.stages(), self.failure());
        Viewer::new(self.name(), &stages).on(self.executors()).failed(failure.as_ref()).write(path)
    }
}
