//! The folder of a run: `config.json`, `metrics.jsonl`, `trace.txt`, `step-N.safetensors`.

use super::corpus::Corpus;
use super::model::{Gpt, Learner};
use super::settings::Settings;
use crate::fault::Fault;
use fulgurite::checkpoint::{Metadata, inspect, save_with};
use fulgurite::optim::AdamW;
use fulgurite::prelude::*;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Where runs without a name go.
const DEFAULT: &str = "runs/demo";
/// Checkpoints that are kept; older ones of the same run are removed.
const KEPT: usize = 2;

/// All that a run needs to go on.
#[derive(Tree, Clone, Debug)]
struct State {
    model: Gpt,
    optimiser: AdamW<Gpt>,
    /// The key of the next batch.
    key: Key,
}

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// A checkpoint that was found, not yet read.
#[derive(Clone, Debug)]
pub struct Found {
    /// The file.
    pub path: PathBuf,
    /// The run's settings.
    pub settings: Settings,
    /// Steps done.
    pub step: u64,
    /// The text that it learned: a file, or the demo's.
    pub text: Option<PathBuf>,
    /// The text's [`Corpus::hash`].
    pub hash: String,
}

impl Folder {
    /// A folder for a new run. What an earlier run left in the default folder goes; in a folder that was named it is in
    /// the way.
    ///
    /// # Errors
    /// E913: it can't be written. E920: it holds a run.
    pub fn create(out: Option<&Path>) -> Result<Folder, Fault> {
        let path = out.unwrap_or(Path::new(DEFAULT)).to_owned();
        let folder = Folder { path };
        if out.is_some() && folder.config().exists() {
            let shown = folder.path.display().to_string();
            return Err(Fault::usage("E920", format!("`{shown}` holds a run already"))
                .help(format!("carry it on: fulgurite train --resume {shown}"))
                .help("or name another folder with --out"));
        }
        std::fs::create_dir_all(&folder.path).map_err(|e| Fault::unwritable(&folder.path, &e))?;
        if folder.config().exists() {
            for (_, old) in folder.checkpoints() {
                std::fs::remove_file(&old).map_err(|e| Fault::unwritable(&old, &e))?;
            }
        }
        Ok(folder)
    }

    /// The folder of a checkpoint.
    pub fn of(checkpoint: &Path) -> Folder {
        let parent = checkpoint.parent().filter(|p| !p.as_os_str().is_empty());
        Folder { path: parent.unwrap_or(Path::new(".")).to_owned() }
    }

    /// Where it is.
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

    /// Writes the settings, for people and for [`Folder::create`].
    ///
    /// # Errors
    /// E913: it can't be written.
    pub fn describe(&self, settings: &Settings, corpus: &Corpus, text: Option<&Path>) -> Result<(), Fault> {
        let value = json!({
            "v": 1, "settings": settings.json(), "text": text.map(|p| p.display().to_string()),
            "text_name": corpus.name, "text_hash": hash(corpus),
        });
        let path = self.config();
        let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
        std::fs::write(&path, pretty + "\n").map_err(|e| Fault::unwritable(&path, &e))
    }

    /// Writes a text beside the checkpoints.
    ///
    /// # Errors
    /// E913: it can't be written.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Fault> {
        let path = self.path.join(name);
        std::fs::write(&path, text).map_err(|e| Fault::unwritable(&path, &e))
    }

    /// The checkpoints, newest first.
    fn checkpoints(&self) -> Vec<(u64, PathBuf)> {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut found: Vec<(u64, PathBuf)> = entries.filter_map(|e| Some((number(&e.path())?, e.path()))).collect();
        found.sort_by(|a, b| b.cmp(a));
        found
    }

    /// Writes a checkpoint, then removes all but the newest.
    ///
    /// # Errors
    /// E904: it can't be written.
    pub fn save(&self, learner: &Learner, key: &Key, step: u64, run: &Run) -> Result<PathBuf, Fault> {
        let (model, optimiser) = learner.clone();
        let state = State { model, optimiser, key: key.clone() };
        let texts = [
            ("settings", run.settings.json().to_string()),
            ("step", step.to_string()),
            ("text", run.text.as_deref().map_or_else(String::new, |p| p.display().to_string())),
            ("text_hash", run.hash.clone()),
        ];
        let metadata: Metadata = texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect();
        let path = self.path.join(format!("step-{step}.safetensors"));
        save_with(&path, &state, &metadata)?;
        for (_, old) in self.checkpoints().into_iter().filter(|(n, _)| *n < step).skip(KEPT - 1) {
            let _ = std::fs::remove_file(old);
        }
        Ok(path)
    }
}

/// What a checkpoint says beside its tensors.
#[derive(Clone, Debug)]
pub struct Run {
    /// The numbers of the run.
    pub settings: Settings,
    /// The file of the text.
    pub text: Option<PathBuf>,
    /// The text's hash.
    pub hash: String,
}

/// A text's hash as it is written.
pub fn hash(corpus: &Corpus) -> String {
    format!("{:016x}", corpus.hash)
}

/// N of `step-N.safetensors`.
fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok()
}

impl Found {
    /// The checkpoint of this name, or the newest whole one of a folder. The second result says which newer ones are
    /// broken.
    ///
    /// # Errors
    /// E901, E902, E904: no whole checkpoint is there. E919: it is not one of `fulgurite train`.
    pub fn at(path: &Path) -> Result<(Found, Vec<Fault>), Fault> {
        if !path.is_dir() {
            return Ok((Found::read(path)?, Vec::new()));
        }
        let mut broken = Vec::new();
        for (_, file) in (Folder { path: path.to_owned() }).checkpoints() {
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
        let settings = serde_json::from_str(text("settings")?).map_err(|_| foreign())?;
        let name = text("text")?;
        Ok(Found {
            path: path.to_owned(),
            settings: Settings::from_json(settings)?,
            step: text("step")?.parse().map_err(|_| foreign())?,
            text: (!name.is_empty()).then(|| PathBuf::from(name)),
            hash: text("text_hash")?.clone(),
        })
    }

    /// Fills what was made for the run's settings.
    ///
    /// # Errors
    /// E901, E902, E904, E905: the file is broken, or its tensors are others.
    pub fn load(&self, learner: Learner, key: Key) -> Result<(Learner, Key), Fault> {
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
