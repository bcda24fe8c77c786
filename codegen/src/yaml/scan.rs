//! Finds every scalar in the file.
//!
//! The parser gives texts and their starts. The style of a scalar, and the parts that the parser skips (anchors, tags,
//! comments), are in the *gap*: the bytes between one node and the next, which hold no content.

use std::collections::HashMap;

use serde_yaml::Spanned;

use super::{ALIAS_HELP, Node, Raw, ScalarKind, Text, Value};
use crate::diag::{Diag, Diagnostics};
use crate::source::{FileId, LineColumn, Place, SourceFile};

/// Walks a tree in the order of the file.
pub(super) struct Scan<'a> {
    file: FileId,
    source: &'a SourceFile,
    diags: &'a mut Diagnostics,
    /// The start of the parsed text in the file.
    from: usize,
    /// The end of the last node.
    cursor: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(file: FileId, source: &'a SourceFile, diags: &'a mut Diagnostics) -> Scan<'a> {
        Scan::behind(0, file, source, diags)
    }

    /// A scan of a text that starts on a line of the file.
    pub(super) fn behind(from: usize, file: FileId, source: &'a SourceFile, diags: &'a mut Diagnostics) -> Scan<'a> {
        Scan { file, source, diags, from, cursor: from }
    }

    /// The whole tree.
    pub(super) fn document(self, tree: Spanned<Raw>) -> Node {
        let end = self.source.text.len();
        self.part(tree, end)
    }

    /// The tree of the text up to `end`.
    pub(super) fn part(mut self, tree: Spanned<Raw>, end: usize) -> Node {
        let node = self.node(tree);
        self.gap(end);
        node
    }

    fn node(&mut self, raw: Spanned<Raw>) -> Node {
        let (start, end) = self.range(&raw);
        let block = self.gap(start);
        match raw.value {
            Raw::List(items) => {
                self.cursor = start.max(self.cursor);
                let items = items.into_iter().map(|item| self.node(item)).collect::<Vec<_>>();
                let last = items.last().map(|item| item.place.end as usize);
                Node { place: self.container(start, last, ']'), value: Value::List(items) }
            }
            Raw::Map(entries) => {
                self.cursor = start.max(self.cursor);
                let entries = self.entries(entries);
                let last = entries.last().map(|(_, node)| node.place.end as usize);
                Node { place: self.container(start, last, '}'), value: Value::Map(entries) }
            }
            Raw::Null => {
                self.cursor = end.max(self.cursor);
                Node { place: self.place(start, end), value: Value::Null }
            }
            scalar => {
                let text = self.scalar(scalar, start, end, block);
                Node { place: text.place, value: Value::Scalar(text) }
            }
        }
    }

    fn entries(&mut self, raw: Vec<(Spanned<Raw>, Spanned<Raw>)>) -> Vec<(Text, Node)> {
        let mut entries: Vec<(Text, Node)> = Vec::with_capacity(raw.len());
        let mut seen: HashMap<String, Place> = HashMap::new();
        for (key, value) in raw {
            let key = self.key(key);
            let value = self.node(value);
            if key == "<<" {
                let diag = Diag::error("E002", key.place, "rows do not merge maps with `<<`");
                self.diags.push(diag.help("write the keys out"));
                continue;
            }
            match seen.get(key.as_str()) {
                Some(first) => {
                    let diag = Diag::error("E004", key.place, format!("`{}` is given twice", key.as_str()));
                    self.diags.push(diag.here("here again").label(*first, "first here").help("delete one of them"));
                }
                None => {
                    seen.insert(key.text.clone(), key.place);
                    entries.push((key, value));
                }
            }
        }
        entries
    }

    fn key(&mut self, raw: Spanned<Raw>) -> Text {
        let node = self.node(raw);
        let found = node.kind();
        match node.value {
            Value::Scalar(text) => text,
            _ => {
                let diag = Diag::error("E005", node.place, format!("{found} stands where a key belongs"));
                self.diags.push(diag.help("a key is a word or a quoted text"));
                Text::made("", node.place)
            }
        }
    }

    fn scalar(&mut self, raw: Raw, start: usize, end: usize, block: Option<char>) -> Text {
        let written = &self.source.text[start..end];
        self.cursor = end.max(self.cursor);
        let (text, kind) = match raw {
            Raw::Text(text) => (text, ScalarKind::Text),
            Raw::Bool(value) => (written.to_owned(), ScalarKind::Bool(value)),
            _ => (written.to_owned(), ScalarKind::Number),
        };
        let place = self.place(start, start + written.trim_end().len());
        match block {
            Some('|') => return Text::literal(text, place, self.source),
            Some(_) => return Text::loose(text, place, "a folded block (`>`)"),
            None => {}
        }
        match written.bytes().next() {
            Some(b'"') => Text::loose(text, place, "double quotes"),
            Some(b'\'') if written.contains('\n') => Text::loose(text, place, "quotes over several lines"),
            // Every `''` stands for one quote, so that text and file differ in length.
            Some(b'\'') if written.len() != text.len() + 2 => Text::loose(text, place, "`''` in quotes"),
            Some(b'\'') => Text::quoted(text, place),
            _ if written.contains('\n') => Text::loose(text, place, "several lines without `|`"),
            _ if written != text => Text::loose(text, place, "a form that YAML rewrites"),
            _ => {
                let comment = self.comment(end);
                Text::plain(text, kind, place, comment)
            }
        }
    }

    /// A comment after `end` on its line.
    fn comment(&self, end: usize) -> Option<Place> {
        let rest = &self.source.text[end..];
        let comment = rest.trim_start_matches([' ', '\t']);
        let start = end + rest.len() - comment.len();
        // only the line of a comment is walked to its end, because a line can have any number of scalars
        let line = comment.starts_with('#').then(|| comment.lines().next())??;
        (start > end).then(|| self.place(start, start + line.trim_end().len()))
    }

    /// Reads the bytes up to `start`: reports anchors, tags and explicit keys, and returns the mark of a block scalar.
    fn gap(&mut self, start: usize) -> Option<char> {
        let mut block = None;
        let source = self.source;
        let from = self.cursor.min(start);
        let mut blank = source.text[..from].ends_with(|c: char| c.is_whitespace()) || from == 0;
        let mut marks = source.text[from..start].char_indices();
        while let Some((at, mark)) = marks.next() {
            let at = from + at;
            let refused = match mark {
                '#' if blank => {
                    marks.by_ref().find(|(_, c)| *c == '\n');
                    blank = true;
                    continue;
                }
                '|' | '>' => {
                    block = Some(mark);
                    None
                }
                '&' => Some(("anchors", ALIAS_HELP)),
                '!' => Some(("tags", "quote a text that starts with `!`: `'!…'`")),
                '?' if source.text[at + 1..].starts_with([' ', '\n']) => {
                    Some(("explicit keys (`? …`)", "write `key: value`"))
                }
                _ => None,
            };
            blank = mark.is_whitespace();
            if let Some((what, help)) = refused {
                let end = at + source.text[at..start].find(char::is_whitespace).unwrap_or(start - at);
                let diag = Diag::error("E002", self.place(at, end), format!("a row may not use YAML {what}"));
                self.diags.push(diag.help(help));
                // The rest of the mark's word (`!!str`) is skipped.
                while marks.clone().next().is_some_and(|(_, c)| !c.is_whitespace()) {
                    marks.next();
                }
            }
        }
        self.cursor = start.max(self.cursor);
        block
    }

    /// The place of a list or map that starts at `start` and whose last node ends at `last`.
    fn container(&mut self, start: usize, last: Option<usize>, close: char) -> Place {
        let last = last.unwrap_or(start);
        let open = if close == ']' { '[' } else { '{' };
        let mut end = last;
        if self.source.text[start..].starts_with(open) {
            let behind = last.max(start + 1);
            let mut rest = self.source.text[behind..].char_indices();
            while let Some((at, mark)) = rest.next() {
                match mark {
                    '#' => drop(rest.find(|(_, c)| *c == '\n')),
                    mark if mark == close => {
                        end = behind + at + 1;
                        break;
                    }
                    _ => {}
                }
            }
            self.cursor = self.cursor.max(end);
        }
        self.place(start, end.max(start))
    }

    /// The position of a node according to the parser, on character boundaries.
    fn range(&self, raw: &Spanned<Raw>) -> (usize, usize) {
        let at = raw.referenced;
        let text = &self.source.text;
        let bytes = at.span().byte_offset().zip(at.span().byte_len());
        let (start, end) = match bytes {
            Some((start, len)) => (self.from + start as usize, self.from + start as usize + len as usize),
            None => {
                let before = self.source.line_column(self.from).line - 1;
                let line = before + at.line() as u32;
                let start = self.source.offset(LineColumn { line, column: at.column() as u32 });
                (start, start)
            }
        };
        if text.get(start..end).is_some() { (start, end) } else { (text.len(), text.len()) }
    }

    fn place(&self, start: usize, end: usize) -> Place {
        Place { file: self.file, start: start as u32, end: end.max(start) as u32 }
    }
}
