//! The reference of a database: every row on one page of Markdown, under the comments that divide the file.

use std::fmt::Write;

use fulgurite_codegen::check::Checked;
use fulgurite_codegen::schema::{ClassSource, Database};
use fulgurite_codegen::source::Sources;
use fulgurite_core::lower::Rows;

use super::classes::ExplainedClass;
use super::meets;
use super::wrap::wrap;
use super::{Explained, Gradient};

/// The width of a line; longer lines of a definition continue on the next one.
const WIDTH: usize = 100;
/// The heading of rows above the first dividing comment.
const UNDIVIDED: &str = "Operators";

/// Rows of the file from one dividing comment to the next.
pub struct RowGroup {
    /// The comment up to its first colon.
    pub title: String,
    /// The rest of the comment after its first colon.
    pub says: String,
    /// The rows, in the order of the file.
    pub rows: Vec<Explained>,
}

/// Renders the page. `checked` is `database`, completed; `table` holds every row that may be called.
pub fn page(database: &Database, checked: &Checked, table: &(dyn Rows + Sync), sources: &Sources) -> String {
    let groups = groups(database, checked, table, sources);
    let count: usize = groups.iter().map(|group| group.rows.len()).sum();
    let file = database.rows.first().map_or("", |row| &sources.file(row.op.place.file).path);
    let mut text = format!("{}\n{count} rows:\n\n", HEAD.replace("FILE", file));
    for group in &groups {
        let links = group.rows.iter().map(|row| format!("[`{}`](#{})", row.op, anchor(&row.op)));
        let links: Vec<String> = links.collect();
        let _ = writeln!(text, "- {}: {}", group.title, links.join(" "));
    }
    let classes = classes(database, checked, table, sources);
    if !classes.is_empty() {
        let links = classes.iter().flat_map(|(class, rows)| {
            std::iter::once(class.class.as_str()).chain(rows.iter().map(|row| row.op.as_str()))
        });
        let links: Vec<String> = links.map(|name| format!("[`{name}`](#{})", anchor(name))).collect();
        let _ = writeln!(text, "- Tensor subclasses: {}", links.join(" "));
    }
    for group in &groups {
        let _ = write!(text, "\n## {}\n", group.title);
        if !group.says.is_empty() {
            let _ = write!(text, "\n{}\n", group.says);
        }
        group.rows.iter().for_each(|row| text += &section(row));
    }
    if !classes.is_empty() {
        text += "\n## Tensor subclasses\n\nWhat their keys say: [subclasses.md](subclasses.md).\n";
    }
    for (class, rows) in &classes {
        text += &class.section();
        rows.iter().for_each(|row| text += &section(row));
    }
    text
}

/// The tensor subclasses, each with the rows that make its tensors.
pub fn classes(
    database: &Database,
    checked: &Checked,
    table: &(dyn Rows + Sync),
    sources: &Sources,
) -> Vec<(ExplainedClass, Vec<Explained>)> {
    let one = |(at, source): (usize, &ClassSource)| {
        let met = meets::meets(database, &checked.rows, table, at);
        let rows = source.from.iter();
        let rows = rows.map(|row| super::made(row, source.class.as_str(), table, sources));
        (super::classes::class(source, met, sources), rows.collect())
    };
    database.classes.iter().enumerate().map(one).collect()
}

/// Whether a page of Markdown is made by [`page`].
pub fn is_page(text: &str) -> bool {
    let mut lines = HEAD.lines();
    let first = lines.next().zip(lines.nth(1).and_then(|line| line.split_once("FILE")));
    first.is_some_and(|(head, (_, says))| {
        text.starts_with(head) && text.lines().nth(2).is_some_and(|line| line.ends_with(says))
    })
}

const HEAD: &str = "\
# Operators

Every operator of `FILE`, as the generator reads it: do not edit this page.

A block shows the signature and the meaning in [the language of rows](row-language.md), then a line `d/dx` for each
argument that has a gradient: `g` is the cotangent of the result, `out` the result. Such a rule is *written* in the row
and compared with the derivative, or *derived* from the meaning, or the gradient flows *through the body*.
`cargo ops explain OP` says the same and more, with reasons; `--code` shows the generated Rust.
";

/// The anchor that GitHub makes of a heading: dots vanish.
fn anchor(op: &str) -> String {
    op.to_lowercase().chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

/// The rows of a database under the comments that divide its file.
pub fn groups(database: &Database, checked: &Checked, table: &(dyn Rows + Sync), sources: &Sources) -> Vec<RowGroup> {
    let mut groups: Vec<RowGroup> = Vec::new();
    let mut end = 0;
    for (source, row) in database.rows.iter().zip(&checked.rows) {
        let name = source.op.place;
        let above = sources.file(name.file).text.get(end..name.start as usize).unwrap_or_default();
        end = name.end as usize;
        let divider = divider(above);
        let explained = super::row(source, row, database, checked, table, sources);
        match (divider, groups.last_mut()) {
            (None, Some(group)) => group.rows.push(explained),
            (divider, _) => {
                let (title, says) = divider.unwrap_or_else(|| (UNDIVIDED.to_owned(), String::new()));
                groups.push(RowGroup { title, says, rows: vec![explained] });
            }
        }
    }
    groups
}

/// The comment above a row that a blank line separates from it, as a title (up to the first colon, or else the
/// first sentence) and a text. A
/// comment directly above a row belongs to that row.
fn divider(above: &str) -> Option<(String, String)> {
    let above = above.rsplit_once("\nops:").map_or(above, |(_, rows)| rows);
    let is_comment = |line: &&str| line.starts_with('#');
    let mut lines = above.lines().rev().skip_while(|line| line.starts_with("- op:")).skip_while(is_comment);
    let mut comment: Vec<&str> = lines.by_ref().skip_while(|line| line.is_empty()).take_while(is_comment).collect();
    comment.reverse();
    let words: Vec<&str> = comment.iter().map(|line| line.trim_start_matches('#').trim()).collect();
    let text = words.join(" ");
    let (title, says) = text.split_once(": ").or_else(|| text.split_once(". ")).unwrap_or((&text, ""));
    let title = title.trim_end_matches('.');
    let capital = |text: &str| {
        let mut letters = text.chars();
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect::<String>()
    };
    (!title.is_empty()).then(|| (capital(title), capital(says)))
}

fn section(row: &Explained) -> String {
    let mut text = format!("\n### {}\n\n{}.\n\n```text\n", row.op, row.doc);
    let mut code = |line: &str| wrap(line, WIDTH).iter().for_each(|line| text += &format!("{line}\n"));
    code(&format!("{}{}", row.op, row.sig));
    for (key, meaning) in row.keys.iter().filter(|(key, _)| BODIES.contains(key)) {
        match meaning.lines().count() {
            1 => code(&format!("  {key} {meaning}")),
            _ => {
                code(&format!("  {key}"));
                meaning.lines().for_each(|line| code(&format!("    {line}")));
            }
        }
    }
    let ruled = row.gradients.iter().filter(|gradient| gradient.rule.is_some());
    ruled.for_each(|gradient| rule(gradient, &mut code));
    text += "```\n\n";
    facts(row).into_iter().for_each(|fact| text += &format!("- {fact}\n"));
    text
}

/// The keys that can give the meaning of a row.
const BODIES: [&str; 4] = ["expr", "view", "decomp", "host"];

/// `d/dx rule`, with one statement per line if it is long, and the rows that it calls.
fn rule(gradient: &Gradient, code: &mut dyn FnMut(&str)) {
    let line = format!("  d/d{} {}", gradient.arg, gradient.text());
    match line.chars().count() {
        0..=WIDTH => code(&line),
        _ => line.replace("; ", ";\n    ").lines().for_each(&mut *code),
    }
    gradient.rows.iter().for_each(|row| code(&format!("    where {row}")));
}

/// The facts outside of the code block, one sentence each.
fn facts(row: &Explained) -> Vec<String> {
    let mut all = Vec::new();
    let says = |key: &'static str| {
        let texts = row.keys.iter().chain(&row.found).filter(move |(k, _)| *k == key);
        texts.map(|(_, text)| text.as_str())
    };
    let found = |key: &str| row.found.iter().any(|(k, _)| *k == key);
    let mut types = Vec::new();
    types.extend(says("promote").map(|kind| format!("promotes `{kind}`")));
    types.extend(says("dtypes").map(|set| format!("takes `{set}`{}", if found("dtypes") { " (found)" } else { "" })));
    types.extend(says("acc").map(|acc| format!("sums in `{acc}`")));
    if !types.is_empty() {
        all.push(format!("Types: {}.", types.join("; ")));
    }
    all.extend(
        says("require")
            .filter_map(|text| text.split_once(": "))
            .map(|(cond, message)| format!("Refuses, unless `{cond}`: {message}.")),
    );
    all.extend(gradients(row));
    all.extend(says("ties").map(|ties| format!("Ties: the gradient goes to the `{ties}` of equal elements.")));
    all.extend(says("deviates").map(|why| format!("Its gradient is not the derivative: {why}.")));
    all.extend(says("once").map(|why| format!("Its gradient has no gradient: {why}.")));
    all.extend(says("rounds").map(|why| format!("It rounds to f16 and bf16 between its parts: {why}.")));
    all.extend(says("makes").map(|what| format!("Makes {what}.")));
    all.extend(says("grad").map(|rule| format!("Gradient, written: `{rule}`.")));
    all.extend(says("no_grad").filter(|_| row.kind == "of a class").map(|why| format!("No gradient: {why}.")));
    match kernel(row) {
        family if family.is_empty() => {}
        family => all.push(format!("Kernel: {family}.")),
    }
    if !row.like.is_empty() {
        let names: Vec<String> = row.like.iter().map(|name| format!("`{name}`")).collect();
        all.push(format!("Other libraries: {}.", names.join(", ")));
    }
    all
}

/// The kernel family, and the number of generated kernels. Only `explain` tells the reason why there are none, because
/// it is repeated for many rows.
fn kernel(row: &Explained) -> String {
    let family = row.facts.iter().find(|fact| fact.name == "kernel").map(|fact| fact.value.clone());
    let counted = row.kernels.iter().filter(|(_, what)| what.starts_with(|c: char| c.is_ascii_digit()));
    let counted = counted.map(|(at, what)| format!("{what} on {}", at.to_uppercase()));
    family.into_iter().chain(counted).collect::<Vec<_>>().join(", ")
}

/// The gradients by origin: written, derived or through the body; and the missing ones, with the reason.
fn gradients(row: &Explained) -> Option<String> {
    let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
    for gradient in &row.gradients {
        let how = if gradient.rule.is_some() { gradient.source().to_owned() } else { gradient.text() };
        match parts.iter_mut().find(|(known, _)| *known == how) {
            Some((_, args)) => args.push(gradient.arg.as_str()),
            None => parts.push((how, vec![gradient.arg.as_str()])),
        }
    }
    let told = parts.iter().map(|(how, args)| {
        let args: Vec<String> = args.iter().map(|arg| format!("`{arg}`")).collect();
        format!("{} {how}", args.join(", "))
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("Gradient: {}.", told.join("; ")))
}
