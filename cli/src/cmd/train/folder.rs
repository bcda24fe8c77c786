//! The folder of a run: `config.json`, `metrics.jsonl`, `trace.txt`, `step-N.safetensors`.

use super::settings::{Settings, Sizes};
use super::task::{Source, Task};
use crate::args::TaskName;
use crate::fault::{Fault, Outcome};
use clap::ValueEnum;
use fulgurite::checkpoint::{Metadata, inspect, save_with};
use fulgurite::files;
use fulgurite::optim::AdamW;
use fulgurite::prelude::*;
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

/// The default folder for runs of a task.
fn default(task: TaskName) -> &'static Path {
    Path::new(match task {
        TaskName::Text => "runs/demo",
        TaskName::Digits => "runs/digits",
    })
}

/// Checkpoints kept per run. Older ones of the run are removed.
const KEPT: usize = 2;

/// The state that a run needs to go on.
#[derive(Tree, Clone, Debug)]
struct State<M: Tree> {
    model: M,
    optimiser: AdamW<M>,
    /// The key of the next batch.
    key: Key,
}

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// The state that a step changes: the model, and the optimiser with its moments.
pub type Learner<M> = (M, AdamW<M>);

/// A checkpoint that was found, not yet read.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// The task of its run.
    pub task: TaskName,
    /// Steps done.
    pub step: u64,
    /// The file of its data, if they came from a file.
    pub source: Option<PathBuf>,
    /// The data's [`Source::hash`], as it is written.
    pub hash: String,
    settings: Value,
    metadata: Metadata,
}

impl Folder {
    /// Creates a folder for a new run. An earlier run's checkpoints in the default folder are removed. An earlier run
    /// in a folder that was named is an error.
    ///
    /// # Errors
    /// E910, E913: it can't be read or written. E920: it holds a run.
    pub fn create(out: Option<&Path>, task: TaskName) -> Result<Folder, Fault> {
        let path = out.unwrap_or(default(task)).to_owned();
        let folder = Folder { path };
        // a folder that can't be examined must not be taken for an empty one
        let examined = |path: &Path| path.try_exists().map_err(|e| Fault::unreadable(path, &e));
        let config = folder.config();
        let held = examined(&config)?;
        if out.is_some() && held {
            let shown = folder.path.display().to_string();
            let fault = Fault::usage("E920", format!("`{shown}` holds a run already"));
            let fault = match folder.checkpoints()?.is_empty() {
                true => fault.note("it ended before its first checkpoint").help(format!("remove `{shown}`")),
                false => fault.help(format!("carry it on: fulgurite train --resume {shown}")),
            };
            return Err(fault.help("or name another folder with --out"));
        }
        std::fs::create_dir_all(&folder.path).map_err(|e| Fault::unwritable(&folder.path, &e))?;
        if held {
            for (_, old) in folder.checkpoints()? {
                std::fs::remove_file(&old).map_err(|e| Fault::unwritable(&old, &e))?;
            }
        }
        folder.clear()?;
        Ok(folder)
    }

    /// The folder of a checkpoint, to carry its run on.
    ///
    /// # Errors
    /// E913: the unfinished files of a killed run can't be removed.
    pub fn resumed(checkpoint: &Path) -> Result<Folder, Fault> {
        let parent = checkpoint.parent().filter(|p| !p.as_os_str().is_empty());
        let folder = Folder { path: parent.unwrap_or(Path::new(".")).to_owned() };
        folder.clear()?;
        Ok(folder)
    }

    /// Removes the unfinished files of runs that were killed.
    fn clear(&self) -> Outcome {
        files::remove_unfinished(&self.path).map(drop).map_err(|e| Fault::unwritable(&self.path, &e))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of measurements.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    fn config(&self) -> PathBuf {
        self.path.join("config.json")
    }

    /// Writes the settings to `config.json`, for people and for [`Folder::create`].
    ///
    /// # Errors
    /// E913: it can't be written.
    pub fn describe<T: Task>(&self, task: &T, settings: &Settings<T::Sizes>) -> Result<(), Fault> {
        let source = task.source();
        let value = json!({
            "v": 1, "task": T::NAME.to_string(), "settings": settings.json(), "data": source.name,
            "file": source.path.as_deref().map(|p| p.display().to_string()), "hash": hash(source),
        });
        self.write("config.json", &(serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"))
    }

    /// Writes a text beside the checkpoints, as a whole or not at all.
    ///
    /// # Errors
    /// E913: it can't be written.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        let path = self.path.join(name);
        files::replace(&path, |out| out.write_all(text.as_bytes())).map_err(|e| Fault::unwritable(&path, &e))
    }

    /// The checkpoints, newest first.
    ///
    /// # Errors
    /// E910: the folder can't be read.
    fn checkpoints(&self) -> Result<Vec<(u64, PathBuf)>, Fault> {
        let listed = || std::fs::read_dir(&self.path)?.map(|e| Ok(e?.path())).collect::<io::Result<Vec<_>>>();
        let listed = listed().map_err(|e| Fault::unreadable(&self.path, &e))?;
        let mut found: Vec<(u64, PathBuf)> = listed.into_iter().filter_map(|p| Some((number(&p)?, p))).collect();
        found.sort_by(|a, b| b.cmp(a));
        Ok(found)
    }

    /// Writes a checkpoint, then removes older ones except the newest. One that can't be removed stays.
    ///
    /// # Errors
    /// E904: it can't be written. E910: the folder can't be read.
    pub fn save<T: Task>(
        &self,
        learner: &Learner<T::Model>,
        key: &Key,
        step: u64,
        task: &T,
        settings: &Settings<T::Sizes>,
    ) -> Result<PathBuf, Fault> {
        let (model, optimiser) = learner.clone();
        let state = State { model, optimiser, key: key.clone() };
        let source = task.source();
        let texts = [
            ("task", T::NAME.to_string()),
            ("settings", settings.json().to_string()),
            ("step", step.to_string()),
            ("file", source.path.as_deref().map_or_else(String::new, |p| p.display().to_string())),
            ("hash", hash(source)),
        ];
        let texts = texts.into_iter().chain(task.notes());
        let metadata: Metadata = texts.map(|(name, text)| (name.to_owned(), text)).collect();
        let path = self.path.join(format!("step-{step}.safetensors"));
        save_with(&path, &state, &metadata)?;
        for (_, old) in self.checkpoints()?.into_iter().filter(|(n, _)| *n < step).skip(KEPT - 1) {
            let _ = std::fs::remove_file(old);
        }
        Ok(path)
    }
}

/// The hash of data as it is written.
pub fn hash(source: &Source) -> String {
    format!("{:016x}", source.hash)
}

/// The number N of a file `step-N.safetensors`.
fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok()
}

impl Found {
    /// The checkpoint of this name, or the newest whole one of a folder. The second result holds the faults of newer
    /// ones, which are broken.
    ///
    /// # Errors
    /// E910: it can't be read, or holds no checkpoint. E901, E902, E904: no whole checkpoint is there. E919: it is
    /// not one of `fulgurite train`.
    pub fn at(path: &Path) -> Result<(Found, Vec<Fault>), Fault> {
        let folder = match std::fs::metadata(path) {
            Ok(about) => about.is_dir(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => return Err(Fault::unreadable(path, &e)),
        };
        if !folder {
            return Ok((Found::read(path)?, Vec::new()));
        }
        let mut broken = Vec::new();
        for (_, file) in (Folder { path: path.to_owned() }).checkpoints()? {
            match Found::read(&file) {
                Ok(found) => return Ok((found, broken)),
                Err(fault) => broken.push(fault),
            }
        }
        Err(broken.into_iter().next().unwrap_or_else(|| {
            Fault::usage("E910", format!("`{}` holds no checkpoint", path.display()))
                .note("checkpoints are called step-N.safetensors")
        }))
    }

    fn read(path: &Path) -> Result<Found, Fault> {
        let metadata = inspect(path)?.metadata;
        let foreign = || Fault::usage("E919", format!("`{}` is no checkpoint of `fulgurite train`", path.display()));
        let text = |name: &str| metadata.get(name).ok_or_else(foreign);
        let name = text("file")?;
        Ok(Found {
            path: path.to_owned(),
            task: TaskName::from_str(text("task")?, false).map_err(|_| foreign())?,
            step: text("step")?.parse().map_err(|_| foreign())?,
            source: (!name.is_empty()).then(|| PathBuf::from(name)),
            hash: text("hash")?.clone(),
            settings: serde_json::from_str(text("settings")?).map_err(|_| foreign())?,
            metadata,
        })
    }

    /// The settings of its run.
    ///
    /// # Errors
    /// E919: they can't be read.
    pub fn settings<S: Sizes>(&self) -> Result<Settings<S>, Fault> {
        Settings::from_json(self.settings.clone())
    }

    /// The note of its task under a name.
    ///
    /// # Errors
    /// E919: there is no such note.
    pub fn note(&self, name: &str) -> Result<&str, Fault> {
        self.metadata.get(name).map(String::as_str).ok_or_else(|| {
            Fault::usage("E919", format!("`{}` says nothing of its {name}", self.path.display()))
                .note("it is no checkpoint of this version of `fulgurite train`")
        })
    }

    /// Reads the file into a state that was made for the run's settings.
    ///
    /// # Errors
    /// E901, E902, E904, E905: the file is broken, or its tensors are others.
    pub fn load<M: Tree>(&self, learner: Learner<M>, key: Key) -> Result<(Learner<M>, Key), Fault> {
        let (model, optimiser) = learner;
        let mut state = State { model, optimiser, key };
        load(&self.path, &mut state)?;
        Ok(((state.model, state.optimiser), state.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_known_by_their_names() {
        assert_eq!(number(Path::new("a/step-120.safetensors")), Some(120));
        for other in ["step-.safetensors", "step-1.safetensors.tmp", "step--1.safetensors", "x", "/"] {
            assert_eq!(number(Path::new(other)), None, "{other}");
        }
    }
}
