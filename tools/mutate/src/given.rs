//! Wrong rows from a file: each replaces the row with its name.

use fulgurite_codegen::schema::Database;
use fulgurite_codegen::source::Sources;
use fulgurite_core::Name;

use super::Mutant;
use super::kinds::Kind;
use super::page::Page;

/// The rows of `text`, each a wrong form of the row in `database` with its name; a line `ops:` may precede them.
///
/// # Errors
/// The name of a row that the database does not have, with its line.
pub fn read(text: &str, database: &Database, sources: &Sources) -> Result<Vec<Mutant>, (usize, String)> {
    let starts: Vec<usize> =
        text.match_indices("- op:").map(|(at, _)| at).filter(|at| starts_line(text, *at)).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let rows = starts.iter().zip(ends).map(|(start, end)| (*start, text[*start..end].trim_end()));
    rows.map(|(start, row)| {
        let op = row.lines().next().and_then(|line| line.split_once("op:")).map_or("", |(_, op)| op.trim());
        let at = database.rows.iter().position(|right| right.name() == op);
        let at = at.ok_or_else(|| (text[..start].lines().count() + 1, op.to_owned()))?;
        let right = Page::new(&database.rows[at], sources).plain();
        let (key, edit) = difference(&right, row);
        let text = format!("{row}\n");
        // The verdict decides whether `check` or PyTorch's values refute it.
        Ok(Mutant { at, row: Name::new(op), kind: Kind(0), key, edit, meaning: true, text })
    })
    .collect()
}

fn starts_line(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(|c| c == '\n')
}

/// The first key in which two rows differ, with both values.
fn difference(right: &str, wrong: &str) -> (String, (String, String)) {
    let (right, wrong) = (keys(right), keys(wrong));
    let mut names: Vec<&str> = right.iter().chain(&wrong).map(|(name, _)| *name).collect();
    names.dedup();
    let of = |keys: &[(&str, String)], name: &str| {
        keys.iter().find(|(key, _)| *key == name).map_or(String::new(), |(_, value)| value.clone())
    };
    let differs = names.into_iter().find(|name| of(&right, name) != of(&wrong, name));
    differs.map_or_else(Default::default, |name| (name.to_owned(), (of(&right, name), of(&wrong, name))))
}

/// The keys of a row with their values, as they are written.
fn keys(row: &str) -> Vec<(&str, String)> {
    let mut keys: Vec<(&str, String)> = Vec::new();
    for line in row.lines() {
        let own =
            line.strip_prefix("  ").or_else(|| line.strip_prefix("- ")).filter(|rest| !rest.starts_with([' ', '-']));
        match (own.and_then(|rest| rest.split_once(':')), keys.last_mut()) {
            (Some((key, value)), _) => keys.push((key, value.trim().to_owned())),
            (None, Some((_, value))) => *value = format!("{value}\n{line}"),
            (None, None) => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn what_was_changed_is_found() {
        let right = "- op: f\n  doc: a\n  expr: |\n    x\n  grad:\n    x: g\n";
        assert_eq!(difference(right, &right.replace("x: g", "x: -g")).0, "grad");
        assert_eq!(difference(right, &right.replace("    x\n", "    y\n")).0, "expr");
        assert_eq!(difference(right, right).0, "");
    }
}
