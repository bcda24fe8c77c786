//! Tasks: data, a model, a loss, and a way to see what was learned. The run around a task (folder, metrics, progress,
//! checkpoints) knows it only through [`Task`].

use super::metrics::Check;
use super::settings::{Settings, Sizes};
use super::show::{Show, Unit};
use crate::args;
use crate::fault::{Fault, Outcome};
use crate::ui::Ui;
use crate::ui::picture::Picture;
use fulgurite::prelude::*;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A task to train for. Everything is a function of settings, data and keys, so that a run can resume bit for bit.
pub trait Task: Sized {
    /// The sizes of its model.
    type Sizes: Sizes;
    /// The model that is trained.
    type Model: Tree + Clone + Send + Sync + 'static;

    /// The value of `--task` that chooses the task.
    const NAME: args::TaskName;
    /// Unit of the work in a step.
    const UNIT: Unit;

    /// Settings of a run without options.
    fn defaults() -> Settings<Self::Sizes>;

    /// Refuses options that do not apply to the task.
    ///
    /// # Errors
    /// E914: such an option was given.
    fn accepts(args: &args::Train) -> Outcome;

    /// The sizes that the command line asks for.
    ///
    /// # Errors
    /// E914: a number is out of range.
    fn sizes(args: &args::Train) -> Result<Self::Sizes, Fault>;

    /// Reads the data: the file that the command line names, else `known`, the file of an earlier run.
    ///
    /// # Errors
    /// E910 to E914: the data can't be read, don't fit the settings, or an option does not fit them.
    fn open(args: &args::Train, known: Option<&Path>, settings: &Settings<Self::Sizes>) -> Result<Self, Fault>;

    /// Number of units in the work of a step.
    fn examples(&self, settings: &Settings<Self::Sizes>) -> usize;

    /// The source of the data.
    fn source(&self) -> &Source;

    /// Number of outcomes that the model chooses from, which determines its first loss.
    fn outcomes(&self) -> usize;

    /// The model before the first step.
    fn model(&self, key: &mut Key, settings: &Settings<Self::Sizes>) -> Self::Model;

    /// The loss of a batch.
    fn loss(model: &Self::Model, x: &Tensor, y: &Tensor) -> Tensor;

    /// A batch to train on. Equal keys give equal batches.
    fn batch(&self, key: Key, settings: &Settings<Self::Sizes>) -> (Tensor, Tensor);

    /// Measures the model on data that are not trained on. `None` if all data are trained on.
    ///
    /// # Errors
    /// Errors of the model.
    fn examine(&mut self, model: &Self::Model) -> Result<Option<Check>, Fault>;

    /// Shows what the model has learned after `step`, at more length the `last` time.
    ///
    /// # Errors
    /// Errors of the model.
    fn exhibit(&mut self, model: &Self::Model, step: u64, last: bool, show: &Show) -> Outcome;

    /// Pictures for the plot of the run.
    fn gallery(&self) -> Vec<Picture> {
        Vec::new()
    }

    /// A command to go on with, which does something with a checkpoint.
    fn next(&self, _checkpoint: &Path) -> Option<String> {
        None
    }

    /// Tells a person which model learns which data.
    fn introduce(&self, ui: &Ui, settings: &Settings<Self::Sizes>, parameters: usize);

    /// Facts about the data for a program, as fields of their own.
    fn facts(&self) -> Map<String, Value>;

    /// Notes of a checkpoint about the task, beside tensors, settings and source.
    fn notes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Source of data.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, unless the data are part of the program.
    pub path: Option<PathBuf>,
    /// The name of the data in messages.
    pub name: String,
    /// Hash by which other data are noticed.
    pub hash: u64,
}

/// FNV-1a. It notices other data, but protects nothing.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// The fault of an option that belongs to another task.
pub fn foreign(option: &str, owner: args::TaskName, task: args::TaskName) -> Fault {
    Fault::usage("E914", format!("`{option}` belongs to `--task {owner}`, this run is of task `{task}`"))
        .help(format!("leave it out, or train another model: fulgurite train --task {owner} {option} …"))
}
