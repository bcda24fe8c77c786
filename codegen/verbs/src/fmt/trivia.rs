//! Trivia: the comments and blank lines between keys and values.

use fulgurite_codegen::source::Place;
use fulgurite_codegen::yaml::{Node, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comment {
    /// The position of its `#`.
    pub(super) start: usize,
    /// The text from `#` to the end of the line.
    pub(super) text: String,
    /// Whether it is the only content of its line.
    pub(super) own_line: bool,
}

/// Every comment of `text`; `root` has the places of its scalars.
pub(super) fn comments(text: &str, root: &Node) -> Vec<Comment> {
    let mut scalars = Vec::new();
    places(root, &mut scalars);
    let mut comments = Vec::new();
    let mut cursor = 0;
    for (start, end) in scalars.into_iter().chain([(text.len(), text.len())]) {
        if start > cursor {
            gap(text, cursor, start, &mut comments);
        }
        cursor = cursor.max(end);
    }
    comments
}

fn places(node: &Node, out: &mut Vec<(usize, usize)>) {
    let put = |place: Place, out: &mut Vec<(usize, usize)>| out.push((place.start as usize, place.end as usize));
    match &node.value {
        Value::Null => {}
        Value::Scalar(text) => put(text.place, out),
        Value::List(items) => items.iter().for_each(|item| places(item, out)),
        Value::Map(entries) => {
            for (key, node) in entries {
                put(key.place, out);
                places(node, out);
            }
        }
    }
}

fn gap(text: &str, from: usize, to: usize, comments: &mut Vec<Comment>) {
    let mut at = from;
    while let Some(found) = text[at..to].find('#') {
        let start = at + found;
        let line = text[..start].rfind('\n').map_or(0, |n| n + 1);
        let before = &text[line..start];
        let end = text[start..].find('\n').map_or(text.len(), |n| start + n);
        if before.is_empty() || before.ends_with(char::is_whitespace) {
            let own_line = before.trim().is_empty();
            comments.push(Comment { start, text: text[start..end].trim_end().to_owned(), own_line });
        }
        at = end.min(to);
    }
}

/// The comments between two rows, with one blank line where there are blank lines. The brackets, commas and dashes of a
/// list are none.
pub(super) fn between(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim) {
        let bare = line.trim_start_matches(|c: char| c.is_whitespace() || "[],-".contains(c));
        let line = if bare.is_empty() || bare.starts_with('#') { bare } else { line };
        let blank = line.is_empty();
        if blank && lines.last().is_none_or(String::is_empty) {
            continue;
        }
        lines.push(line.to_owned());
    }
    match lines.iter().all(String::is_empty) {
        true => Vec::new(),
        false => lines,
    }
}
