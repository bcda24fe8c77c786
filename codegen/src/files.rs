//! The files of a database: the rows, other libraries' calls of rows elsewhere, and points in files of their own.
//!
//! The line `points: FOLDER` before the rows names a folder beside the database. Each `.yaml` file in it maps operators
//! to further points, which count like those in the rows, and to other libraries' calls, whose recorded results check
//! the rows. A user of the rows alone (a downstream crate, a program that embeds them) does not need the folder.
//!
//! The line `calls: FILE` names a file that maps rows of the databases upstream to other libraries' calls of them. It
//! is a part of the database.

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
    /// The file of calls of upstream rows.
    pub calls: Option<DatabaseFile>,
    /// The files of further points, in the order of their names.
    pub points: Vec<DatabaseFile>,
}

impl Files {
    /// The rows of the database at `path`, shown in messages as `shown`, without further points.
    ///
    /// # Errors
    /// The file that can't be read, with the reason.
    pub fn rows(path: &Path, shown: impl Into<String>) -> Result<Files, (PathBuf, io::Error)> {
        let mut files = Files::of_text(path.to_owned(), shown.into(), text(path)?);
        let calls = files.beside("calls");
        files.calls = calls.map(|(path, shown)| Ok(DatabaseFile { text: text(&path)?, shown, path })).transpose()?;
        Ok(files)
    }

    /// A database of one text, with `path` as its (future) file.
    pub fn of_text(path: PathBuf, shown: String, text: String) -> Files {
        Files { rows: DatabaseFile { path, shown, text }, calls: None, points: Vec::new() }
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
        let Some((folder, beside)) = self.beside("points") else { return Ok(self) };
        let unreadable = |why| (folder.clone(), why);
        let entries = fs::read_dir(&folder).map_err(unreadable)?.collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
        let mut paths: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
        paths.sort();
        for path in paths {
            let shown = Path::new(&beside).join(path.file_name().unwrap_or_default()).display().to_string();
            self.points.push(DatabaseFile { text: text(&path)?, shown, path });
        }
        Ok(self)
    }

    /// The folder of further points, if the rows name one.
    pub fn folder(&self) -> Option<PathBuf> {
        self.beside("points").map(|(folder, _)| folder)
    }

    /// The path that the key `key` of the rows names, and the path in the form shown in messages.
    fn beside(&self, key: &str) -> Option<(PathBuf, String)> {
        let name = path_of(&self.rows.text, key)?;
        // A link to the file may stand elsewhere, so the path is relative to the file itself.
        let linked = self.rows.path.canonicalize().ok().filter(|_| self.rows.path.is_symlink());
        let path = linked.as_ref().unwrap_or(&self.rows.path).with_file_name(name);
        Some((path, Path::new(&self.rows.shown).with_file_name(name).display().to_string()))
    }

    /// All paths whose change may change the database.
    pub fn paths(&self) -> Vec<PathBuf> {
        let parts = self.calls.iter().chain(&self.points).map(|part| part.path.clone());
        [self.rows.path.clone()].into_iter().chain(self.folder()).chain(parts).collect()
    }

    /// The files as sources; the first has the rows.
    pub fn sources(&self) -> (Sources, FileId) {
        let mut sources = Sources::default();
        let rows = sources.add(&self.rows.shown, self.rows.text.as_str());
        self.calls.iter().for_each(|part| sources.add_calls(&part.shown, part.text.as_str()));
        self.points.iter().for_each(|part| sources.add_points(&part.shown, part.text.as_str()));
        (sources, rows)
    }
}

fn text(path: &Path) -> Result<String, (PathBuf, io::Error)> {
    fs::read_to_string(path).map_err(|why| (path.to_owned(), why))
}

/// The path that the line `KEY: PATH` of a database names: the folder of `points`, the file of `calls`.
pub(crate) fn path_of<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let mut lines = text.lines().take_while(|line| !line.starts_with("ops:"));
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let value = value.split(" #").next().unwrap_or_default().trim();
    let quoted = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    // Values in other styles (a list, a map, another quotation) are refused by the reader of the key.
    Some(quoted.unwrap_or(value)).filter(|folder| !folder.is_empty() && !folder.starts_with(['[', '{', '"', '|', '>']))
}
