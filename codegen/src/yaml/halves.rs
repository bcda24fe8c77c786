//! Large databases are read by two threads, in halves: one that starts the list of rows, and one that goes on with it.
//!
//! A half that is not what it should be alone is no error: then the file is parsed whole, which says what is wrong.

use std::thread;

use super::scan::Scan;
use super::{Node, Value};
use crate::diag::Diagnostics;
use crate::source::{FileId, SourceFile};

/// Bytes of files that are worth a thread.
const LARGE: usize = 64 << 10;

/// How a row starts.
const ROW: &str = "\n- op:";

/// Half of a file, and what is said of it.
type Half = (Node, Diagnostics);

/// The tree of the whole file; `None` of a small file, or one that has another form.
pub(super) fn read(file: FileId, source: &SourceFile, diags: &mut Diagnostics) -> Option<Node> {
    let text = source.text.as_str();
    let middle = middle(text).filter(|_| text.len() >= LARGE)?;
    let half = |from: usize, to: usize| -> Option<Half> {
        let tree = super::parse(&text[from..to]).ok()?;
        let mut diags = Diagnostics::new();
        Some((Scan::behind(from, file, source, &mut diags).part(tree, to), diags))
    };
    let (first, second) = thread::scope(|scope| {
        // where there is no further thread, the file is parsed whole
        let second = thread::Builder::new().spawn_scoped(scope, || half(middle, text.len())).ok();
        second.map(|second| (half(0, middle), second.join()))
    })?;
    let ((first, of_first), (second, of_second)) = (first?, second.ok()??);
    let root = joined(first, second)?;
    diags.extend(of_first);
    diags.extend(of_second);
    Some(root)
}

/// The rows of the second half behind those of the first.
fn joined(mut root: Node, rest: Node) -> Option<Node> {
    let (Value::Map(entries), Value::List(more)) = (&mut root.value, rest.value) else { return None };
    let (_, rows) = entries.last_mut().filter(|(key, _)| *key == "ops")?;
    let Value::List(items) = &mut rows.value else { return None };
    items.extend(more);
    rows.place.end = rest.place.end;
    root.place.end = rest.place.end;
    Some(root)
}

/// The first row behind the middle of a file.
fn middle(text: &str) -> Option<usize> {
    let half = (text.len() / 2..text.len()).find(|at| text.is_char_boundary(*at))?;
    Some(half + text[half..].find(ROW)? + 1)
}

#[cfg(test)]
mod tests {
    use super::super::scan::Scan;
    use super::{LARGE, read};
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
            let halves = read(file, source, &mut joined).unwrap();
            let tree = Scan::new(file, source, &mut whole).document(super::super::parse(&text).unwrap());
            assert_eq!(format!("{halves:?}"), format!("{tree:?}"), "{end}");
            assert_eq!(format!("{joined:?}"), format!("{whole:?}"), "{end}");
        }
    }

    #[test]
    fn other_files_are_parsed_whole() {
        let is_whole = |text: &str| {
            let (mut sources, mut diags) = (Sources::default(), Diagnostics::new());
            let file = sources.add("ops.yaml", text);
            read(file, sources.file(file), &mut diags).is_none() && diags.is_empty()
        };
        for end in ["subclasses: []\n", "- op: [\n", "---\n- op: a\n", "- op: *a\n"] {
            assert!(is_whole(&database(end)), "{end}");
        }
        assert!(is_whole("ops:\n- op: a\n- op: b\n"));
        assert!(is_whole(&database("").replace("ops:", "rows:")));
    }
}
