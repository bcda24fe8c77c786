//! Large databases are parsed by two threads, in halves: one that starts the list of rows, and one that goes on with it.
//!
//! A half that is not what it should be alone is no error: then the file is parsed whole, which says what is wrong.

use std::thread;

use serde_yaml::Spanned;

use super::scan::Scan;
use super::{Node, Raw, Value};
use crate::diag::Diagnostics;
use crate::source::{FileId, SourceFile};

/// Bytes of files that are worth a thread.
const LARGE: usize = 64 << 10;

/// How a row starts.
const ROW: &str = "\n- op:";

/// A file in two parts.
pub(super) struct Halves {
    first: Spanned<Raw>,
    second: Spanned<Raw>,
    /// Where the second starts.
    middle: usize,
}

/// Both halves; `None` of a small file, or one that has another form.
pub(super) fn parse(text: &str) -> Option<Halves> {
    let middle = middle(text).filter(|_| text.len() >= LARGE)?;
    let (start, rest) = text.split_at(middle);
    let (first, second) = thread::scope(|scope| {
        // where there is no further thread, the file is parsed whole
        let second = thread::Builder::new().spawn_scoped(scope, || super::parse(rest)).ok();
        second.map(|second| (super::parse(start), second.join()))
    })?;
    let (first, second) = (first.ok()?, second.ok()?.ok()?);
    let starts_list = match &first.value {
        Raw::Map(entries) => matches!(entries.last(), Some((key, rows))
            if matches!(&key.value, Raw::Text(key) if key == "ops") && matches!(rows.value, Raw::List(_))),
        _ => false,
    };
    (starts_list && matches!(second.value, Raw::List(_))).then_some(Halves { first, second, middle })
}

/// The first row behind the middle of a file.
fn middle(text: &str) -> Option<usize> {
    let half = (text.len() / 2..text.len()).find(|at| text.is_char_boundary(*at))?;
    Some(half + text[half..].find(ROW)? + 1)
}

impl Halves {
    /// The tree of the whole file.
    pub(super) fn document(self, file: FileId, source: &SourceFile, diags: &mut Diagnostics) -> Node {
        let mut root = Scan::new(file, source, diags).part(self.first, self.middle);
        let rest = Scan::behind(self.middle, file, source, diags).part(self.second, source.text.len());
        if let (Value::Map(entries), Value::List(more)) = (&mut root.value, rest.value)
            && let Some((_, rows)) = entries.last_mut()
            && let Value::List(items) = &mut rows.value
        {
            items.extend(more);
            rows.place.end = rest.place.end;
        }
        root.place.end = rest.place.end;
        root
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::Scan;
    use super::{LARGE, parse};
    use crate::diag::Diagnostics;
    use crate::source::Sources;

    /// A large database with faults of style near its end.
    fn database(end: &str) -> String {
        let row = |n: usize| format!("- op: row{n}\n  doc: é, 'x' # a comment\n  expr: |\n    let y = x;\n    y\n\n");
        let rows: String = (0..LARGE / 40).map(row).collect();
        format!("subclasses: []\nops:\n{rows}{end}")
    }

    #[test]
    fn halves_make_the_tree_of_the_whole() {
        for end in ["", "- op: &a b\n  doc: [1, {x: 2}]\n", "- op: b\n  op: c\n  doc: >\n    folded\n"] {
            let text = database(end);
            let mut sources = Sources::default();
            let file = sources.add("ops.yaml", text.as_str());
            let (mut whole, mut joined) = (Diagnostics::new(), Diagnostics::new());
            let source = sources.file(file);
            let halves = parse(&text).unwrap().document(file, source, &mut joined);
            let tree = Scan::new(file, source, &mut whole).document(super::super::parse(&text).unwrap());
            assert_eq!(format!("{halves:?}"), format!("{tree:?}"), "{end}");
            assert_eq!(format!("{joined:?}"), format!("{whole:?}"), "{end}");
        }
    }

    #[test]
    fn other_files_are_parsed_whole() {
        for end in ["subclasses: []\n", "- op: [\n", "---\n- op: a\n", "- op: *a\n"] {
            assert!(parse(&database(end)).is_none(), "{end}");
        }
        assert!(parse("ops:\n- op: a\n- op: b\n").is_none());
        assert!(parse(&database("").replace("ops:", "rows:")).is_none());
    }
}
