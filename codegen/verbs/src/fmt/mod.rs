//! The canonical form of a database: the order of keys, quotes, spacing of rule texts, lists on one line where they
//! fit.
//!
//! Comments keep their position: a comment on a line of its own stays above the next key or row, others stay at the end
//! of their line. A value with a comment inside stays as it is written.

use fulgurite_codegen::diag::{Diag, Diagnostics};
use fulgurite_codegen::schema::{self, Database, KEYS, further, read_database};
use fulgurite_codegen::source::{FileId, Place, Sources};
use fulgurite_codegen::yaml::{self, Node, ScalarKind, Text, Value};
use fulgurite_core::lang::Dialect;

use rule::Language;
use trivia::Comment;

mod rule;
pub mod scalar;
mod trivia;

/// The width of a line, where line breaks allow it.
const WIDTH: usize = 120;

/// A database in canonical form.
pub struct Formatted {
    /// The text of the database.
    pub text: String,
    /// The rows that changed, with their places.
    pub changed: Vec<(String, Place)>,
    /// The original text.
    pub sources: Sources,
}

/// A text in canonical form, or its files and faults.
pub type Formatting = Result<Formatted, (Sources, Diagnostics)>;

/// The parsed text.
struct Reading {
    database: Database,
    file: FileId,
    sources: Sources,
    diags: Diagnostics,
}

fn read(path: &str, text: &str) -> Reading {
    let (mut sources, mut diags) = (Sources::default(), Diagnostics::new());
    let file = sources.add(path, text);
    let database = read_database(file, &sources, &mut diags);
    Reading { database, file, sources, diags }
}

/// Formats the text of a database.
///
/// # Errors
/// The faults of reading; names and meanings are not checked.
pub fn format(path: &str, text: &str) -> Formatting {
    let mut before = read(path, text);
    if before.diags.errors() > 0 {
        return Err((before.sources, before.diags));
    }
    let tree = yaml::read(before.file, &before.sources, &mut before.diags);
    let Some(tree) = tree else { return Err((before.sources, before.diags)) };
    let made = File { text, comments: trivia::comments(text, &tree) }.text(&tree);
    let after = read(path, &made);
    let pairs = || before.database.rows.iter().zip(&after.database.rows);
    if !same(&before.database, &after.database) {
        let row = pairs().find(|(a, b)| !a.is_same(b)).map_or(tree.place.head(), |(a, _)| a.op.place);
        let diag = Diag::error("E999", row, "in canonical form this reads as something else: a bug of ours");
        before.diags.push(diag.help("please report it with this row; nothing was written"));
        return Err((before.sources, before.diags));
    }
    let written = |reading: &Reading, row: &schema::RowSource| reading.sources.text(row.place).to_owned();
    let changed = pairs().filter(|(a, b)| written(&before, a) != written(&after, b));
    let changed = changed.map(|(a, _)| (a.op.text.clone(), a.op.place)).collect();
    Ok(Formatted { text: made, changed, sources: before.sources })
}

/// Formats a file of points or of calls.
///
/// # Errors
/// The faults of reading.
pub fn format_further(path: &str, text: &str) -> Formatting {
    let (mut sources, mut diags) = (Sources::default(), Diagnostics::new());
    let file = sources.add(path, text);
    let read = further::read(file, &sources, &mut diags);
    if diags.errors() > 0 {
        return Err((sources, diags));
    }
    let Some(tree) = yaml::read(file, &sources, &mut diags) else { return Err((sources, diags)) };
    let made = File { text, comments: trivia::comments(text, &tree) }.further(&tree);
    let after = sources.add(path, made.as_str());
    let again = further::read(after, &sources, &mut diags);
    let is_same = yaml::read(after, &sources, &mut diags).is_some_and(|after| after.plain() == tree.plain());
    if !is_same {
        let diag =
            Diag::error("E999", tree.place.head(), "in canonical form these points read as others: a bug of ours");
        diags.push(diag.help("please report it with this file; nothing was written"));
        return Err((sources, diags));
    }
    let changed = read.iter().zip(&again).filter(|(a, b)| sources.text(a.place) != sources.text(b.place));
    let changed = changed.map(|(a, _)| (a.op.text.clone(), a.op.place)).collect();
    Ok(Formatted { text: made, changed, sources })
}

/// Whether two texts contain the same rows and subclasses.
fn same(a: &Database, b: &Database) -> bool {
    let row = |(a, b): (&schema::RowSource, &schema::RowSource)| a.is_same(b);
    a.rows.len() == b.rows.len()
        && a.rows.iter().zip(&b.rows).all(row)
        && a.subclasses.as_ref().map(Node::plain) == b.subclasses.as_ref().map(Node::plain)
}

struct File<'a> {
    text: &'a str,
    comments: Vec<Comment>,
}

impl File<'_> {
    fn text(&self, root: &Node) -> String {
        let Value::Map(entries) = &root.value else { return self.text.to_owned() };
        let ops = entries.iter().find(|(key, _)| *key == "ops");
        let Some((key, Node { value: Value::List(rows), .. })) = ops else { return self.text.to_owned() };
        let mut made = self.text[..key.place.start as usize].to_owned();
        made += "ops:\n";
        let mut end = key.place.end as usize + 1;
        for (n, row) in rows.iter().enumerate() {
            let start = row.place.start as usize;
            let dash = self.text[..start].trim_end().strip_suffix('-').map_or(start, str::len).max(end);
            let between = self.rest(end, dash);
            let remarks = trivia::between(between);
            if n > 0 || between.starts_with('\n') && !remarks.is_empty() {
                made.push('\n');
            }
            remarks.iter().for_each(|line| made += &format!("{line}\n"));
            made += &self.row(row);
            end = row.place.end as usize;
        }
        let behind = trivia::between(self.rest(end, self.text.len()));
        if !behind.is_empty() {
            made += &format!("\n{}\n", behind.join("\n").trim());
        }
        made
    }

    /// A file of points or of calls: each operator, with one line per point.
    fn further(&self, root: &Node) -> String {
        let Value::Map(entries) = &root.value else { return self.text.to_owned() };
        let mut made = String::new();
        let mut end = 0;
        for (op, node) in entries {
            let remarks = trivia::between(&self.text[end..op.place.start as usize]);
            // calls on one line stand together
            if !made.is_empty() && (!remarks.is_empty() || matches!(node.value, Value::List(_))) {
                made.push('\n');
            }
            remarks.iter().for_each(|line| made += &format!("{line}\n"));
            let name = scalar::plain_or_quoted(op.as_str());
            end = op.place.end as usize;
            let inside = end..node.place.end as usize;
            let points = match &node.value {
                Value::List(points) => points.as_slice(),
                _ if self.comments.iter().any(|comment| inside.contains(&comment.start)) => {
                    made += &format!("{name}{}\n", &self.text[inside.clone()]);
                    end = inside.end;
                    &[]
                }
                _ => {
                    made += &(value(&name, node, &["further"], 0).join("\n") + "\n");
                    end = inside.end;
                    &[]
                }
            };
            if !points.is_empty() {
                made += &format!("{name}:\n");
            }
            for point in points {
                let (start, stop) = (point.place.start as usize, point.place.end as usize);
                let above = self.comments.iter().filter(|c| (end..start).contains(&c.start));
                above.for_each(|comment| made += &format!("{}\n", comment.text));
                made += &item(point, &["tests", "points", "-"]).join("\n");
                made.push('\n');
                end = stop;
            }
            let line = self.text[end..].find('\n').map_or(self.text.len(), |n| end + n + 1);
            let behind = self.comments.iter().filter(|c| (end..line).contains(&c.start));
            behind.for_each(|comment| made += &format!("{}\n", comment.text));
            end = line;
        }
        let behind = trivia::between(&self.text[end.min(self.text.len())..]);
        if !behind.is_empty() {
            made += &format!("\n{}\n", behind.join("\n").trim());
        }
        made
    }

    /// `from..to` without the rest of the first line.
    fn rest(&self, from: usize, to: usize) -> &str {
        let from = self.text[from..].find('\n').map_or(self.text.len(), |n| from + n + 1);
        self.text.get(from..to).unwrap_or_default()
    }

    fn row(&self, row: &Node) -> String {
        let Value::Map(entries) = &row.value else { return self.text[row.place.range()].to_owned() };
        let mut lines: Vec<(usize, Vec<String>)> = Vec::new();
        let mut end = row.place.start as usize;
        for (key, node) in entries {
            let start = key.place.start as usize;
            let remarks = self.comments.iter().filter(|c| c.own_line && (end..start).contains(&c.start));
            let mut made: Vec<String> = remarks.map(|c| c.text.clone()).collect();
            end = (node.place.end as usize).max(key.place.end as usize);
            made.extend(self.entry(key, node, start, end));
            lines.push((KEYS.iter().position(|known| *key == *known.name).unwrap_or(KEYS.len()), made));
        }
        lines.sort_by_key(|(at, _)| *at);
        let mut made = String::new();
        for (n, line) in lines.iter().flat_map(|(_, lines)| lines).enumerate() {
            let indent = if n == 0 { "- " } else { "  " };
            made += format!("{indent}{line}").trim_end();
            made.push('\n');
        }
        made
    }

    /// A key and its value, with the comment at the end of the line.
    fn entry(&self, key: &Text, node: &Node, start: usize, end: usize) -> Vec<String> {
        let line_end = self.text[end..].find('\n').map_or(self.text.len(), |n| end + n);
        let behind = self.comments.iter().find(|c| !c.own_line && (end..line_end).contains(&c.start));
        let inside = self.comments.iter().any(|c| (start..end).contains(&c.start));
        let several = self.text[start..end].contains('\n') && behind.is_some();
        if inside || several {
            let written = &self.text[start..behind.map_or(end, |_| line_end)];
            // The further lines are already indented by at least two columns.
            let own = |(n, line): (usize, &str)| match n {
                0 => line.to_owned(),
                _ => line.strip_prefix("  ").unwrap_or(line).to_owned(),
            };
            return written.lines().enumerate().map(own).collect();
        }
        let mut made = value(key.as_str(), node, &[key.as_str()], 2);
        let Some(comment) = behind else { return made };
        match (made.as_mut_slice(), &node.value) {
            ([line], Value::Scalar(text)) if text.kind == ScalarKind::Text => {
                // A comment after an unquoted rule would end the rule.
                let written = line.strip_prefix(&format!("{}: ", key.as_str())).unwrap_or_default();
                if language(&[key.as_str()]).is_some() && !written.starts_with('\'') {
                    *line = format!("{}: {}", key.as_str(), scalar::quoted(written));
                }
                *line = format!("{line} {}", comment.text);
            }
            ([line], _) => *line = format!("{line} {}", comment.text),
            // On the lines below the key, the comment would be a part of the text.
            _ => made.insert(0, comment.text.clone()),
        }
        made
    }
}

/// The language of the text at this path of keys; `None` if it is not a rule text.
fn language(path: &[&str]) -> Option<Language> {
    match path {
        ["sig"] => Some(Language::Signature),
        ["promote" | "dtypes" | "acc"] | ["at", _, _] => Some(Language::Condition),
        ["expr" | "view"] => Some(Language::Block(Dialect::Index)),
        ["decomp"] | ["grad" | "jvp", _] => Some(Language::Block(Dialect::Tensor)),
        ["subclass", _] => Some(Language::Class),
        _ => None,
    }
}

/// `key: value` in lines, of which all but the first are indented below the key; `indent` is that of the key.
fn value(key: &str, node: &Node, path: &[&str], indent: usize) -> Vec<String> {
    let room = WIDTH.saturating_sub(indent + key.chars().count() + 2);
    let below = |lines: Vec<String>| lines.into_iter().map(|line| format!("  {line}"));
    match &node.value {
        Value::Null => vec![format!("{key}:")],
        Value::Scalar(text) => {
            let (head, lines) = scalar_lines(text, path, room, WIDTH - indent - 2);
            [format!("{key}: {head}")].into_iter().chain(below(lines)).collect()
        }
        Value::List(_) | Value::Map(_) => match flow(node, path).filter(|flow| flow.chars().count() <= room) {
            Some(flow) => vec![format!("{key}: {flow}")],
            None => [format!("{key}:")].into_iter().chain(nested(node, path, indent)).collect(),
        },
    }
}

/// The part of a text on the line of its key, and the lines below.
fn scalar_lines(text: &Text, path: &[&str], room: usize, below: usize) -> (String, Vec<String>) {
    let top = path.len() == 1;
    let inline = |line: &str| match (path, top) {
        (["sig"], _) => scalar::quoted(line),
        _ if text.kind != ScalarKind::Text => line.to_owned(),
        (_, true) if language(path).is_some() => scalar::rule(line),
        (_, true) => scalar::plain_or_quoted(line),
        _ => scalar::word_or_quoted(line),
    };
    let Some(language) = language(path) else {
        // A message or name stays on one line, whatever its length.
        return match text.as_str().contains('\n') {
            true => ("|".to_owned(), text.as_str().trim_end().lines().map(str::to_owned).collect()),
            false => (inline(text.as_str()), Vec::new()),
        };
    };
    let whole = rule::lines(text.as_str(), language, usize::MAX);
    if let [line] = whole.as_slice() {
        let written = inline(line);
        // A rule in quotes must have no apostrophe, which would shift the positions of its parts in the file.
        let traceable = !written.starts_with('\'') || !line.contains('\'');
        let lines = rule::lines(text.as_str(), language, below);
        if traceable && (written.chars().count() <= room || lines.len() == 1) {
            return (written, Vec::new());
        }
        return ("|".to_owned(), lines);
    }
    ("|".to_owned(), rule::lines(text.as_str(), language, below))
}

/// A list or map on one line, if each of its texts fits one line.
fn flow(node: &Node, path: &[&str]) -> Option<String> {
    Some(match &node.value {
        Value::Null => "null".to_owned(),
        Value::Scalar(text) => {
            let line = match language(path) {
                Some(language) => rule::lines(text.as_str(), language, usize::MAX),
                None => vec![text.as_str().to_owned()],
            };
            match line.as_slice() {
                [line] if text.kind != ScalarKind::Text => line.clone(),
                [line] if !line.contains(['\n', '\'']) => scalar::word_or_quoted(line),
                _ => return None,
            }
        }
        Value::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(|item| flow(item, &inner(path, "-"))).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, node)| {
                let value = flow(node, &inner(path, key.as_str()))?;
                Some(format!("{}: {value}", map_key(key, path)?))
            });
            format!("{{{}}}", entries.collect::<Option<Vec<_>>>()?.join(", "))
        }
    })
}

fn inner<'a>(path: &[&'a str], key: &'a str) -> Vec<&'a str> {
    path.iter().copied().chain([key]).collect()
}

/// A key inside of a value: a condition, or a name.
fn map_key(key: &Text, path: &[&str]) -> Option<String> {
    let line = match path {
        ["require" | "at"] => rule::lines(key.as_str(), Language::Condition, usize::MAX).join(" "),
        _ => key.as_str().to_owned(),
    };
    (!line.contains(['\n', '\''])).then(|| scalar::word_or_quoted(&line))
}

/// An item of a list, on a line of its own.
fn item(item: &Node, path: &[&str]) -> Vec<String> {
    match flow(item, path) {
        Some(flow) => vec![format!("- {flow}")],
        // A text with an apostrophe becomes a block, which preserves positions.
        None => match &item.value {
            Value::Scalar(text) => vec!["- |".to_owned(), format!("    {}", text.as_str().trim())],
            _ => vec![format!("- {}", item.plain())],
        },
    }
}

/// A list or map below its key: each item on a line of its own.
fn nested(node: &Node, path: &[&str], indent: usize) -> Vec<String> {
    match &node.value {
        Value::List(items) => items.iter().flat_map(|node| item(node, &inner(path, "-"))).collect(),
        Value::Map(entries) => {
            let entry = |(key, node): &(Text, Node)| {
                let word = map_key(key, path).unwrap_or_else(|| scalar::plain_or_quoted(key.as_str()));
                value(&word, node, &inner(path, key.as_str()), indent + 2)
            };
            entries.iter().flat_map(entry).map(|line| format!("  {line}")).collect()
        }
        _ => Vec::new(),
    }
}
