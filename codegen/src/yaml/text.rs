//! The text of a scalar, with the position of each of its bytes in the file.

use fulgurite_core::lang::Span;

use crate::source::{Place, SourceFile};

/// The YAML type of a scalar. Quoted and block scalars are texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarKind {
    /// A text.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool(bool),
}

/// The style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// On one line, without quotes.
    Plain,
    /// `'…'` on one line, without `''`.
    Quoted,
    /// A `|` block.
    Literal,
    /// A style in which text and file are not parallel, with its description.
    Loose(&'static str),
    /// Not in the file: derived from the text at its place.
    Made,
}

/// A scalar.
#[derive(Clone, Debug)]
pub struct Text {
    /// The text that YAML reads; numbers and truth values are kept as written.
    pub text: String,
    /// The YAML type of the scalar.
    pub kind: ScalarKind,
    /// The bytes of the scalar in the file, including quotes, without the header of a block.
    pub place: Place,
    /// The style of the scalar.
    pub style: Style,
    /// A ` # …` directly after a plain scalar: a comment to YAML, but perhaps not to its author.
    pub comment: Option<Place>,
    /// The starts of lines in `text` and in the file. Empty where these are not parallel.
    lines: Vec<(u32, u32)>,
}

impl Text {
    /// A text that was derived from the one at `place`.
    pub fn made(text: impl Into<String>, place: Place) -> Text {
        let text = text.into();
        Text { text, kind: ScalarKind::Text, place, style: Style::Made, comment: None, lines: Vec::new() }
    }

    /// A scalar without quotes, on one line.
    pub(super) fn plain(text: String, kind: ScalarKind, place: Place, comment: Option<Place>) -> Text {
        Text { text, kind, place, style: Style::Plain, comment, lines: vec![(0, place.start)] }
    }

    /// A scalar in single quotes; `place` includes the quotes.
    pub(super) fn quoted(text: String, place: Place) -> Text {
        let lines = vec![(0, place.start + 1)];
        Text { text, kind: ScalarKind::Text, place, style: Style::Quoted, comment: None, lines }
    }

    /// A scalar whose text and file are not parallel.
    pub(super) fn loose(text: String, place: Place, how: &'static str) -> Text {
        Text { style: Style::Loose(how), ..Text::made(text, place) }
    }

    /// A `|` block whose first nonblank character stands at the start of `place`.
    pub(super) fn literal(text: String, place: Place, file: &SourceFile) -> Text {
        let first = place.start as usize;
        let indent = first - file.line_start(first);
        // Blank lines before the first line are in the text as well as in the file.
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

    /// The place of a part of the text in the file; the whole scalar where these are not parallel.
    pub fn at(&self, span: Span) -> Place {
        // The end of the text is after its last word, not after the line break that ends a block.
        let words = self.text.trim_end().len() as u32;
        let (start, end) = (span.start.min(words), span.end.min(words));
        let Some(first) = self.offset(start) else { return self.place };
        let last = match end.checked_sub(1).filter(|last| *last >= start) {
            // The end is found through the last byte, because the end of a line is not the start of the next.
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
