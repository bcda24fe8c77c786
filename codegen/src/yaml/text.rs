//! A scalar's text, and where each of its bytes stands in the file.

use fulgurite_core::lang::Span;

use crate::source::{Place, SourceFile};

/// What YAML takes a scalar for. Quoted and block scalars are texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// A text.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool(bool),
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// On one line, without quotes.
    Plain,
    /// `'…'` on one line, without `''`.
    Quoted,
    /// A `|` block.
    Literal,
    /// In a way in which text and file are not parallel; which way.
    Loose(&'static str),
    /// Not in the file: made from what is at its place.
    Made,
}

/// A scalar.
#[derive(Clone, Debug)]
pub struct Text {
    /// What YAML makes of it; numbers and truth values as they are written.
    pub text: String,
    /// What it is taken for.
    pub kind: ScalarKind,
    /// Its bytes in the file, with quotes, without the header of a block.
    pub place: Place,
    /// How it is written.
    pub style: Style,
    /// A ` # …` right behind a plain scalar: YAML takes it for a comment, its author may not.
    pub comment: Option<Place>,
    /// Where lines start: in `text`, and in the file. Empty where they are not parallel.
    lines: Vec<(u32, u32)>,
}

impl Text {
    /// A text that was made from what stands at `place`.
    pub fn made(text: impl Into<String>, place: Place) -> Text {
        let text = text.into();
        Text { text, kind: ScalarKind::Text, place, style: Style::Made, comment: None, lines: Vec::new() }
    }

    /// A scalar without quotes, on one line.
    pub(super) fn plain(text: String, kind: ScalarKind, place: Place, comment: Option<Place>) -> Text {
        Text { text, kind, place, style: Style::Plain, comment, lines: vec![(0, place.start)] }
    }

    /// A scalar in single quotes; `place` has the quotes.
    pub(super) fn quoted(text: String, place: Place) -> Text {
        let lines = vec![(0, place.start + 1)];
        Text { text, kind: ScalarKind::Text, place, style: Style::Quoted, comment: None, lines }
    }

    /// A scalar whose text and file are not parallel.
    pub(super) fn loose(text: String, place: Place, how: &'static str) -> Text {
        Text { style: Style::Loose(how), ..Text::made(text, place) }
    }

    /// A `|` block whose first character that is not blank stands at the start of `place`.
    pub(super) fn literal(text: String, place: Place, file: &SourceFile) -> Text {
        let first = place.start as usize;
        let indent = first - file.line_start(first);
        // Blank lines before the first are in the text as well as in the file, one for one.
        let blank = text.bytes().take_while(|byte| *byte == b'\n').count();
        let top = file.line_index(first).saturating_sub(blank);
        let mut starts = Vec::new();
        let mut at = 0;
        for (row, start) in text.split_inclusive('\n').zip(&file.line_starts()[top..]) {
            let length = file.text[*start as usize..].bytes().take_while(|byte| *byte != b'\n').count();
            starts.push((at, start + indent.min(length) as u32));
            at += row.len() as u32;
        }
        Text { text, kind: ScalarKind::Text, place, style: Style::Literal, comment: None, lines: starts }
    }

    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where a part of the text stands in the file: all of the scalar, where the two are not parallel.
    pub fn at(&self, span: Span) -> Place {
        // The end of the text is behind its last word, not behind the line break that ends a block.
        let words = self.text.trim_end().len() as u32;
        let (start, end) = (span.start.min(words), span.end.min(words));
        let Some(first) = self.offset(start) else { return self.place };
        let last = match end.checked_sub(1).filter(|last| *last >= start) {
            // Through the last byte: the end of a line is not the start of the next.
            Some(last) => self.offset(last).map_or(first, |last| last + 1),
            None => first,
        };
        Place { file: self.place.file, start: first, end: last.max(first) }
    }

    fn offset(&self, at: u32) -> Option<u32> {
        let line = self.lines.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
        let (start, file) = self.lines[line];
        Some(file + (at - start))
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}
