//! The files of a database: the rows, and the points in files of their own.
//!
//! The line `points: FOLDER` before the rows names a folder beside the database. Each `.yaml` file in it maps operators
//! to further points, which count like those in the rows. A user of the rows alone (a downstream crate, a program that
//! embeds them) does not need the folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::source::{FileId, Sources};

/// A file that was read.
#[derive(Clone, Debug)]
pub struct DatabaseFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The path in the form shown in messages.
    pub shown: String,
    /// The text of the file.
    pub text: String,
}

/// A database in files.
#[derive(Clone, Debug)]
pub struct Files {
    /// The file of the rows.
    pub rows: DatabaseFile,
    /// The files of further points, in the order of their names.
    pub points: Vec<DatabaseFile>,
}

impl Files {
    /// The rows of the database at `path`, shown in messages as `shown`, without further points.
    ///
    /// # Errors
    /// The file that can't be read, with the reason.
    pub fn rows(path: &Path, shown: impl Into<String>) -> Result<Files, (PathBuf, io::Error)> {
        let text = text(path)?;
        Ok(Files { rows: DatabaseFile { path: path.to_owned(), shown: shown.into(), text }, points: Vec::new() })
    }

    /// The database at `path` with its further points.
    ///
    /// # Errors
    /// The file or folder that can't be read, with the reason.
    pub fn read(path: &Path, shown: impl Into<String>) -> Result<Files, (PathBuf, io::Error)> {
        Files::rows(path, shown)?.with_points()
    }

    /// These rows with the points of their folder.
    ///
    /// # Errors
    /// The file or folder that can't be read, with the reason.
    pub fn with_points(mut self) -> Result<Files, (PathBuf, io::Error)> {
        let Some(folder) = self.folder() else { return Ok(self) };
        let unreadable = |why| (folder.clone(), why);
        let entries = fs::read_dir(&folder).map_err(unreadable)?.collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        paths.sort();
        let beside = Path::new(&self.rows.shown).with_file_name(folder_of(&self.rows.text).unwrap_or_default());
        for path in paths {
            let shown = beside.join(path.file_name().unwrap_or_default()).display().to_string();
            self.points.push(DatabaseFile { text: text(&path)?, shown, path });
        }
        Ok(self)
    }

    /// The folder of further points, if the rows name one.
    pub fn folder(&self) -> Option<PathBuf> {
        let folder = folder_of(&self.rows.text)?;
        // beside the file, not beside a link to it
        let linked = self.rows.path.canonicalize().ok().filter(|_| self.rows.path.is_symlink());
        Some(linked.as_ref().unwrap_or(&self.rows.path).with_file_name(folder))
    }

    /// All paths whose change may change the database.
    pub fn paths(&self) -> Vec<PathBuf> {
        let points = self.points.iter().map(|part| part.path.clone());
        [self.rows.path.clone()].into_iter().chain(self.folder()).chain(points).collect()
    }

    /// The files as sources; the first has the rows.
    pub fn sources(&self) -> (Sources, FileId) {
        let mut sources = Sources::default();
        let rows = sources.add(&self.rows.shown, self.rows.text.as_str());
        self.points.iter().for_each(|part| sources.add_points(&part.shown, part.text.as_str()));
        (sources, rows)
    }
}

fn text(path: &Path) -> Result<String, (PathBuf, io::Error)> {
    fs::read_to_string(path).map_err(|why| (path.to_owned(), why))
}

/// The folder that the line `points: FOLDER` of a database names.
pub(crate) fn folder_of(text: &str) -> Option<&str> {
    let line =
        text.lines().take_while(|line| !line.starts_with("ops:")).find_map(|line| line.strip_prefix("points:"))?;
    let value = line.split(" #").next().unwrap_or_default().trim();
    let quoted = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    // Values in other styles (a list, a map, another quotation) are refused by the reader of the key.
    Some(quoted.unwrap_or(value)).filter(|folder| !folder.is_empty() && !folder.starts_with(['[', '{', '"', '|', '>']))
}
