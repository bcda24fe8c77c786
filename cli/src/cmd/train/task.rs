//! What a task is: data, a model, a loss, and how one sees what was learned. The run around it (folder, metrics,
//! progress, checkpoints) knows no more of a task than this.

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

/// Something to learn. Everything is a function of settings, data and keys, so that a run can carry on bit for bit.
pub trait Task: Sized {
    /// The sizes of its model.
    type Sizes: Sizes;
    /// What is trained.
    type Model: Tree + Clone + Send + Sync + 'static;

    /// Its value of `--task`.
    const NAME: args::TaskName;
    /// A step works on so many of these.
    const UNIT: Unit;

    /// A run of this task with nothing said on the command line.
    fn defaults() -> Settings<Self::Sizes>;

    /// Refuses the options that mean nothing to it.
    ///
    /// # Errors
    /// E914: such an option was given.
    fn accepts(args: &args::Train) -> Outcome;

    /// The sizes that the command line asks for.
    ///
    /// # Errors
    /// E914: a number that can't be.
    fn sizes(args: &args::Train) -> Result<Self::Sizes, Fault>;

    /// Reads its data: what the command line names, else `known`, the file of an earlier run.
    ///
    /// # Errors
    /// E910 to E914: the data can't be read, don't fit the settings, or an option does not fit them.
    fn open(args: &args::Train, known: Option<&Path>, settings: &Settings<Self::Sizes>) -> Result<Self, Fault>;

    /// How many units a step works on.
    fn examples(&self, settings: &Settings<Self::Sizes>) -> usize;

    /// Where the data are from.
    fn source(&self) -> &Source;

    /// How many outcomes the model chooses from: what its first loss is to be.
    fn outcomes(&self) -> usize;

    /// The model before the first step.
    fn model(&self, key: &mut Key, settings: &Settings<Self::Sizes>) -> Self::Model;

    /// The loss of a batch.
    fn loss(model: &Self::Model, x: &Tensor, y: &Tensor) -> Tensor;

    /// A batch to learn from: the same for the same key.
    fn batch(&self, key: Key, settings: &Settings<Self::Sizes>) -> (Tensor, Tensor);

    /// How well the model does on what it does not learn from; nothing if all of the data are learned from.
    ///
    /// # Errors
    /// What the model reports.
    fn examine(&mut self, model: &Self::Model) -> Result<Option<Check>, Fault>;

    /// Shows what the model can do after `step`; the `last` time at more length.
    ///
    /// # Errors
    /// What the model reports.
    fn exhibit(&mut self, model: &Self::Model, step: u64, last: bool, show: &Show) -> Outcome;

    /// Pictures for the plot of the run.
    fn gallery(&self) -> Vec<Picture> {
        Vec::new()
    }

    /// A command that does something with a checkpoint, to go on with.
    fn next(&self, _checkpoint: &Path) -> Option<String> {
        None
    }

    /// Says what is learned from what, for a person.
    fn introduce(&self, ui: &Ui, settings: &Settings<Self::Sizes>, parameters: usize);

    /// The same for a program: fields of its own.
    fn facts(&self) -> Map<String, Value>;

    /// What a checkpoint says of the task beside tensors, settings and source.
    fn notes(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// Where data are from.
#[derive(Clone, Debug)]
pub struct Source {
    /// A file, unless they are part of the program.
    pub path: Option<PathBuf>,
    /// Their name in messages.
    pub name: String,
    /// Bits that other data would not have.
    pub hash: u64,
}

/// FNV-1a: not for secrets, only to notice other data.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// The fault of an option that belongs to another task.
pub fn foreign(option: &str, owner: args::TaskName, task: args::TaskName) -> Fault {
    Fault::usage("E914", format!("`{option}` belongs to `--task {owner}`, this run is of task `{task}`"))
        .help(format!("leave it out, or train another model: fulgurite train --task {owner} {option} …"))
}
