//! What several tests share.
#![allow(dead_code, reason = "each test uses a part")]

use fulgurite_codegen::check;
use fulgurite_codegen::check::gradients::Graded;
use fulgurite_codegen::diag::Diagnostics;
use fulgurite_codegen::diag::render::{self, Style};
use fulgurite_codegen::files::Files;
use fulgurite_codegen::pipeline::Table;
use fulgurite_codegen::schema::read_database;
use fulgurite_codegen::source::{FileId, Sources};
use std::path::{Path, PathBuf};

/// The databases of the project: the rows of fulgurite, and those of PyTorch's calls and of ONNX's operators, which use
/// them.
pub fn databases() -> [PathBuf; 3] {
    // The crate that is tested stands one or two folders below the database.
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = above.find(|folder| folder.join("ops.yaml").is_file()).expect("the folder of the repository");
    ["ops.yaml", "compat/pytorch/ops.yaml", "compat/onnx/ops.yaml"].map(|file| root.join(file))
}

/// The rows of all databases in one, which is how a check that is not about databases sees all of them.
pub fn joined() -> String {
    let [own, downstream @ ..] = databases().map(|path| std::fs::read_to_string(path).expect("a database"));
    downstream.iter().fold(own, |joined, database| {
        let (_, rows) = database.split_once("\nops:\n").expect("rows");
        format!("{joined}\n{}", rows.trim_start())
    })
}

/// [`joined`], with the points and calls of all.
pub fn joined_sources() -> (Sources, FileId) {
    let mut sources = Sources::default();
    let file = sources.add("ops.yaml", joined());
    for path in databases() {
        let files = Files::read(&path, "ops.yaml").expect("a database in files");
        // the rows upstream are in the same text, so that other libraries' calls of them count as their own
        let parts = files.points.iter().chain(&files.calls);
        parts.for_each(|part| sources.add_points(&part.shown, part.text.as_str()));
    }
    (sources, file)
}

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
    checked_below(sources, file, &Table::default())
}

/// Like [`checked`], of a database whose rows may use those of `upstream`.
pub fn checked_below(sources: Sources, file: FileId, upstream: &Table) -> (Vec<Graded>, Diagnostics, Sources) {
    let mut diags = Diagnostics::new();
    let mut database = read_database(file, &sources, &mut diags);
    database.upstream.clone_from(&upstream.classes);
    let upstream = upstream.completed_for(&database, &database.names().collect());
    let checked = check::run(&database, &upstream, &mut diags);
    (checked.graded, diags, sources)
}

/// The report as it is printed.
pub fn report(diags: &Diagnostics, sources: &Sources) -> String {
    render::text(diags, sources, Style::default())
}
