//! Reads large databases in parts, on all threads: the first part starts the list of rows, and the others continue it.
//!
//! A part that cannot be read alone is not an error: the file is then parsed as a whole, which reports the fault.

use super::scan::Scan;
use super::{Node, Value};
use crate::diag::Diagnostics;
use crate::parallel;
use crate::source::{FileId, SourceFile};

/// The least size in bytes for which threads pay off.
const LARGE: usize = 64 << 10;

/// The approximate bytes of a part: small enough that no thread waits long for the last one.
const PART: usize = 32 << 10;

/// The beginning of a row.
const ROW: &str = "\n- op:";

/// The tree of the whole file; `None` for a small file, or one of another form.
pub(super) fn read(file: FileId, source: &SourceFile, diags: &mut Diagnostics) -> Option<Node> {
    let text = source.text.as_str();
    if text.len() < LARGE {
        return None;
    }
    let starts = starts(text);
    let ends = starts.iter().copied().skip(1).chain([text.len()]);
    let parts: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
    let read = parallel::map(&parts, |(from, to)| {
        let tree = super::parse(&text[*from..*to]).ok()?;
        let mut diags = Diagnostics::new();
        Some((Scan::behind(*from, file, source, &mut diags).part(tree, *to), diags))
    });
    let mut parts = read.into_iter().collect::<Option<Vec<_>>>()?.into_iter();
    let (mut root, mut found) = parts.next()?;
    for (rest, more) in parts {
        root = joined(root, rest)?;
        found.extend(more);
    }
    diags.extend(found);
    Some(root)
}

/// Appends the rows of a part to those of the parts before.
fn joined(mut root: Node, rest: Node) -> Option<Node> {
    let (Value::Map(entries), Value::List(more)) = (&mut root.value, rest.value) else { return None };
    let (_, rows) = entries.last_mut().filter(|(key, _)| *key == "ops")?;
    let Value::List(items) = &mut rows.value else { return None };
    items.extend(more);
    rows.place.end = rest.place.end;
    root.place.end = rest.place.end;
    Some(root)
}

/// The starts of parts: the start of the file, and starts of rows.
fn starts(text: &str) -> Vec<usize> {
    let mut starts = vec![0];
    let mut next = PART;
    while let Some(at) = (next..text.len()).find(|at| text.is_char_boundary(*at))
        && let Some(row) = text[at..].find(ROW)
    {
        starts.push(at + row + 1);
        next = at + row + 1 + PART;
    }
    starts
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
    fn parts_make_the_tree_of_the_whole() {
        for end in ["", "- op: &a b\n  doc: [1, {x: 2}]\n", "- op: b\n  op: c\n  doc: >\n    folded\n"] {
            let text = database(end);
            let mut sources = Sources::default();
            let file = sources.add("ops.yaml", text.as_str());
            let (mut whole, mut joined) = (Diagnostics::new(), Diagnostics::new());
            let source = sources.file(file);
            let parts = read(file, source, &mut joined).unwrap();
            let tree = Scan::new(file, source, &mut whole).document(super::super::parse(&text).unwrap());
            assert_eq!(format!("{parts:?}"), format!("{tree:?}"), "{end}");
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
