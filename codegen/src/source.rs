//! Source files, and places in them.
//!
//! A [`Place`] is a file and a byte range, small enough to accompany every part of a text. Lines and columns are
//! computed only when a message is printed.

use std::ops::Range;

/// Identifies a file of a [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

/// A byte range in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Place {
    /// The range as indices into the file's text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The empty place at the start of this one.
    pub fn head(self) -> Place {
        Place { end: self.start, ..self }
    }

    /// Whether this place contains the first byte of the other one.
    pub fn holds(self, other: Place) -> bool {
        self.file == other.file && self.range().contains(&(other.start as usize))
    }

    /// The smallest place that contains both (if they are in different files, `self`).
    pub fn to(self, other: Place) -> Place {
        if self.file != other.file {
            return self;
        }
        Place { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// A line and column in editors' numbering: from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColumn {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
}

/// One file.
#[derive(Debug)]
pub struct SourceFile {
    /// The path in the form shown in messages.
    pub path: String,
    /// The text of the file.
    pub text: String,
    /// The start of each line.
    lines: Vec<u32>,
}

impl SourceFile {
    /// The line and column of a byte offset.
    pub fn line_column(&self, offset: usize) -> LineColumn {
        let offset = self.floor(offset);
        let line = self.line_index(offset);
        let start = self.lines[line] as usize;
        let column = self.text.get(start..offset).map_or(0, |before| before.chars().count());
        LineColumn { line: line as u32 + 1, column: column as u32 + 1 }
    }

    /// The byte offset of a line and column, or the nearest one.
    pub fn offset(&self, place: LineColumn) -> usize {
        let Some(start) = self.lines.get((place.line.max(1) - 1) as usize) else { return self.text.len() };
        let start = *start as usize;
        let line = self.text[start..].split('\n').next().unwrap_or("");
        let ahead = line.char_indices().nth((place.column.max(1) - 1) as usize);
        start + ahead.map_or(line.len(), |(at, _)| at)
    }

    /// The start of the line that contains this offset.
    pub fn line_start(&self, offset: usize) -> usize {
        self.lines[self.line_index(offset)] as usize
    }

    /// The index of the line that contains this offset, from 0.
    pub(crate) fn line_index(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start as usize <= offset).max(1) - 1
    }

    pub(crate) fn line_starts(&self) -> &[u32] {
        &self.lines
    }

    /// The nearest character boundary at or before `offset`.
    fn floor(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }
}

/// The files of one run.
#[derive(Debug, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
    points: Vec<FileId>,
    calls: Option<FileId>,
}

impl Sources {
    /// Adds a file. `path` is shown in messages as it is given.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) -> FileId {
        let text = text.into();
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1)).collect();
        self.files.push(SourceFile { path: path.into(), text, lines });
        FileId(self.files.len() as u32 - 1)
    }

    /// Adds a file of points, which the rows of these sources get beside their own.
    pub fn add_points(&mut self, path: impl Into<String>, text: impl Into<String>) {
        let file = self.add(path, text);
        self.points.push(file);
    }

    /// Adds the file of calls of upstream rows.
    pub fn add_calls(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.calls = Some(self.add(path, text));
    }

    /// The file of calls of upstream rows.
    pub fn calls(&self) -> Option<FileId> {
        self.calls
    }

    /// The files of points.
    pub fn points(&self) -> &[FileId] {
        &self.points
    }

    /// The file with this id.
    ///
    /// # Panics
    /// If the id belongs to another `Sources`.
    pub fn file(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// The text at this place (empty if there is none).
    pub fn text(&self, place: Place) -> &str {
        self.file(place.file).text.get(place.range()).unwrap_or("")
    }

    /// `ops.yaml:12:3`
    pub fn show(&self, place: Place) -> String {
        let file = self.file(place.file);
        let at = file.line_column(place.start as usize);
        format!("{}:{}:{}", file.path, at.line, at.column)
    }

    /// The line on which a place starts, from 1.
    pub fn line(&self, place: Place) -> u32 {
        self.file(place.file).line_column(place.start as usize).line
    }
}
