//! Diagnostics as text in the manner of rustc, and as JSON.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level as Title, Renderer, Snippet};
use serde_json::json;

use super::{Diag, Diagnostics, Label, Level};
use crate::source::{FileId, Sources};

/// At most this many diagnostics are printed, and the rest is counted, because a reader mends the first ones first.
pub const MOST_PRINTED: usize = 20;

/// The style of rendered text.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether to use ANSI colours.
    pub color: bool,
    /// The width in columns, to which source lines are cut.
    pub width: usize,
}

impl Default for Style {
    fn default() -> Style {
        Style { color: false, width: 100 }
    }
}

/// The whole report: diagnostics by place, at most [`MOST_PRINTED`], then the counts.
pub fn text(diags: &Diagnostics, sources: &Sources, style: Style) -> String {
    let sorted = diags.sorted();
    let mut report = String::new();
    for diag in sorted.iter().take(MOST_PRINTED) {
        report.push_str(&one(diag, sources, style));
        report.push_str("\n\n");
    }
    if let Some(hidden) = sorted.len().checked_sub(MOST_PRINTED).filter(|hidden| *hidden > 0) {
        report.push_str(&format!("{hidden} more not shown: mend these first, or use --json\n"));
    }
    let counts = [(diags.errors(), Level::Error), (diags.warnings(), Level::Warning)];
    let counts: Vec<String> = counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, level)| plural(n, level)).collect();
    if !counts.is_empty() {
        report.push_str(&counts.join(", "));
        report.push('\n');
    }
    report
}

fn plural(count: usize, level: Level) -> String {
    format!("{count} {}{}", level.word(), if count == 1 { "" } else { "s" })
}

/// One diagnostic, without a final newline.
pub fn one(diag: &Diag, sources: &Sources, style: Style) -> String {
    let title = match diag.level {
        Level::Error => Title::ERROR,
        Level::Warning => Title::WARNING,
    };
    let mut group = Group::with_title(title.primary_title(&diag.message).id(diag.code));
    for file in files(diag) {
        let source = sources.file(file);
        let at = |label: &Label| {
            let end = source.text.len();
            let range = label.place.range();
            range.start.min(end)..range.end.min(end)
        };
        let words = |label: &Label| Some(label.text.clone()).filter(|text| !text.is_empty());
        let mut snippet = Snippet::source(source.text.as_str()).path(source.path.as_str());
        if diag.primary.place.file == file {
            snippet = snippet.annotation(AnnotationKind::Primary.span(at(&diag.primary)).label(words(&diag.primary)));
        }
        for label in diag.secondary.iter().filter(|label| label.place.file == file) {
            snippet = snippet.annotation(AnnotationKind::Context.span(at(label)).label(words(label)));
        }
        group = group.element(snippet);
    }
    for note in &diag.notes {
        group = group.element(Title::NOTE.no_name().message(note));
    }
    if let Some(help) = &diag.help {
        group = group.element(Title::HELP.message(help));
    }
    let page = format!("cargo ops explain {}", diag.code);
    group = group.element(Title::NOTE.with_name("see").message(page));
    let renderer = if style.color { Renderer::styled() } else { Renderer::plain() };
    renderer.decor_style(DecorStyle::Ascii).term_width(style.width).render(&[group])
}

/// The files that a diagnostic points into, the primary one first.
fn files(diag: &Diag) -> Vec<FileId> {
    let mut files = vec![diag.primary.place.file];
    for label in &diag.secondary {
        if !files.contains(&label.place.file) {
            files.push(label.place.file);
        }
    }
    files
}

/// One JSON object per line, all diagnostics, by place.
pub fn json(diags: &Diagnostics, sources: &Sources) -> String {
    diags.sorted().into_iter().map(|diag| json_line(diag, sources) + "\n").collect()
}

fn json_line(diag: &Diag, sources: &Sources) -> String {
    let place = |label: &Label| {
        let file = sources.file(label.place.file);
        let at = file.line_column(label.place.start as usize);
        json!({
            "file": file.path,
            "line": at.line,
            "column": at.column,
            "byte_start": label.place.start,
            "byte_end": label.place.end,
            "text": label.text,
        })
    };
    let mut object = json!({
        "v": 1,
        "code": diag.code,
        "level": diag.level.word(),
        "message": diag.message,
        "labels": diag.secondary.iter().map(place).collect::<Vec<_>>(),
        "notes": diag.notes,
        "help": diag.help,
    });
    // The fields of the primary place stand in the object itself, for tools that need only one line of JSON.
    if let (Some(object), serde_json::Value::Object(primary)) = (object.as_object_mut(), place(&diag.primary)) {
        object.extend(primary.into_iter().map(|(key, value)| match key.as_str() {
            "text" => ("label".to_owned(), value),
            _ => (key, value),
        }));
    }
    object.to_string()
}
