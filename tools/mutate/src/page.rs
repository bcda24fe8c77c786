//! Rewrites one key in the text of a row; everything else stays unchanged, byte for byte.

use fulgurite_codegen::schema::RowSource;
use fulgurite_codegen::source::Sources;
use fulgurite_codegen::yaml::Text;

/// The text of a row, with the places of its keys.
pub(crate) struct Page<'a> {
    /// The text from the first key to the last byte.
    text: &'a str,
    /// The keys, with the byte range of each entry.
    slots: Vec<(&'a str, std::ops::Range<usize>)>,
}

impl<'a> Page<'a> {
    /// The text of `row`.
    pub fn new(row: &'a RowSource, sources: &'a Sources) -> Page<'a> {
        let file = &sources.file(row.place.file).text;
        let (start, end) =
            row.keys.iter().fold(
                (row.place.start.min(row.op.place.start) as usize, row.place.end as usize),
                |(start, end), key| (start.min(key.place.start as usize), end),
            );
        let text = file.get(start..end).unwrap_or_default();
        let mut keys: Vec<&Text> = row.keys.iter().collect();
        keys.sort_by_key(|key| key.place.start);
        let starts: Vec<usize> = keys.iter().map(|key| key.place.start as usize - start).collect();
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        let slots = keys.iter().zip(starts.iter().zip(ends)).map(|(key, (from, to))| {
            let words = text[*from..to].trim_end().len();
            (key.as_str(), *from..from + words)
        });
        Page { slots: slots.collect(), text }
    }

    /// The row as an item of a list, with `value` as the whole entry of `key`; without the key, if there is no value.
    pub fn with(&self, key: &str, value: Option<&str>) -> String {
        let slot = self.slots.iter().find(|(name, _)| *name == key).map(|(_, range)| range.clone());
        let (before, after) = match &slot {
            Some(range) => (&self.text[..range.start], &self.text[range.end..]),
            None => (self.text.trim_end(), ""),
        };
        let new = match (value, &slot) {
            (Some(value), Some(_)) => format!("{before}{value}{after}"),
            (Some(value), None) => format!("{before}\n  {value}"),
            (None, _) => format!("{}{after}", before.trim_end()),
        };
        format!("- {}\n", new.trim_end())
    }

    /// The row as an item of a list.
    pub fn plain(&self) -> String {
        format!("- {}\n", self.text.trim_end())
    }
}

/// A rule text as a value: quoted, or below `|` at this depth.
pub fn rule(text: &str, depth: usize) -> String {
    let text = text.trim_end();
    if !text.contains('\n') && !text.contains('\'') {
        return format!("'{text}'");
    }
    let indent = " ".repeat(depth + 2);
    let lines: Vec<String> = text.lines().map(|line| format!("{indent}{line}")).collect();
    format!("|\n{}", lines.join("\n"))
}

/// Any text as a value on one line.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
