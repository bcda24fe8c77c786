//! What several tests share.

use fulgurite_codegen::check;
use fulgurite_codegen::check::gradients::Graded;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::{FileId, Sources};
use fulgurite_core::lower::NoRows;

/// A database read and checked: what was said about it, and the file.
pub fn check(path: &str, text: &str) -> (Diagnostics, Sources) {
    let (_, diags, sources) = graded(path, text);
    (diags, sources)
}

/// Like [`check`], and how its declared gradients were found to be right.
pub fn graded(path: &str, text: &str) -> (Vec<Graded>, Diagnostics, Sources) {
    let mut sources = Sources::default();
    let file = sources.add(path, text);
    checked(sources, file)
}

/// Like [`graded`], of the database whose rows stand in `file`.
pub fn checked(sources: Sources, file: FileId) -> (Vec<Graded>, Diagnostics, Sources) {
    let mut diags = Diagnostics::new();
    let database = read_database(file, &sources, &mut diags);
    let checked = check::run(&database, &NoRows, &sources, &mut diags);
    (checked.graded, diags, sources)
}

/// The report as it is printed.
pub fn report(diags: &Diagnostics, sources: &Sources) -> String {
    render::text(diags, sources, Style::default())
}
