//! The entry for build scripts.
//!
//! A broken database emits one `compile_error!` with the whole report and nothing else, which rustc prints intact and
//! once.

use crate::diag::render::{self, Style};
use crate::emit::{Artifacts, DatabaseParts, Target, Unit};
use crate::files::Files;
use crate::known::{self, Known};
use crate::pipeline::{self, Compiled, Table};
use std::path::{Path, PathBuf};

/// Compiles the database at `path` (relative to the package) into `OUT_DIR`, for the crate that holds its kernels, and
/// tells cargo when to rerun the build script. Direct dependents find the folder as `DEP_<links>_OUT`.
///
/// # Errors
/// The error of the file system. A broken database is not an error of the build script.
pub fn upstream(krate: &str, path: &str) -> std::io::Result<()> {
    let (file, out) = places(path)?;
    println!("cargo::metadata=out={}", out.display());
    println!("cargo::metadata=database={}", file.display());
    run(&Target::upstream(krate), &file, &Table::default(), &out)
}

/// Compiles the database at `path` of a crate that depends on `fulgurite`: its rows may call upstream rows, which are
/// read but not checked again. If the package has a key `links`, direct dependents find the path as
/// `DEP_<links>_DATABASE`.
///
/// # Errors
/// The error of the file system, or that `fulgurite` is not a direct dependency.
pub fn downstream(krate: &str, path: &str) -> std::io::Result<()> {
    let (file, out) = places(path)?;
    println!("cargo::metadata=database={}", file.display());
    let Some(database) = std::env::var_os("DEP_FULGURITE_DATABASE") else {
        return Err(std::io::Error::other(
            "`fulgurite` must be a direct dependency: DEP_FULGURITE_DATABASE is not set",
        ));
    };
    println!("cargo::rerun-if-changed={}", Path::new(&database).display());
    let text = std::fs::read_to_string(&database)?;
    let upstream = pipeline::read_rows(&text, &database.to_string_lossy())
        .map_err(|e| std::io::Error::other(format!("the upstream database is broken:\n{e}")))?;
    run(&Target::downstream(krate), &file, &upstream, &out)
}

fn places(path: &str) -> std::io::Result<(PathBuf, PathBuf)> {
    let (Some(root), Some(out)) = (std::env::var_os("CARGO_MANIFEST_DIR"), std::env::var_os("OUT_DIR")) else {
        return Err(std::io::Error::other("this runs in build scripts: CARGO_MANIFEST_DIR and OUT_DIR are not set"));
    };
    let file = PathBuf::from(root).join(path);
    println!("cargo::rerun-if-changed={}", file.display());
    Ok((file.canonicalize().unwrap_or(file), PathBuf::from(out)))
}

fn run(target: &Target, file: &Path, upstream: &Table, out: &Path) -> std::io::Result<()> {
    let shown = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let unreadable = |(path, why): (PathBuf, std::io::Error)| {
        std::io::Error::new(why.kind(), format!("`{}` can't be read: {why}", path.display()))
    };
    let mut files = Files::rows(file, shown).map_err(unreadable)?;
    files.calls.iter().for_each(|calls| println!("cargo::rerun-if-changed={}", calls.path.display()));
    // A published package has no points.
    if files.folder().is_some_and(|folder| folder.is_dir()) {
        files = files.with_points().map_err(unreadable)?;
        files.paths().iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
    }
    match pipeline::compile_files(&files, upstream) {
        Ok(mut compiled) => {
            remember(&compiled, upstream);
            if target.page.is_some() {
                compiled.add_examples(|_| true);
            }
            let table = compiled.table();
            // the upstream kernels that a row can run, where no crate has those of all rows
            let linked = target.page.is_some() || std::env::var_os("DEP_FULGURITE_KERNELS").is_some();
            let reached = if linked { Vec::new() } else { compiled.reached() };
            let parts = DatabaseParts { reached: &reached, ..compiled.parts() };
            let artifacts = Artifacts::emit(target, &compiled.rows, &parts, &table);
            let mut units = artifacts.database;
            units.extend(artifacts.kernels);
            Artifacts::write(&units, out)
        }
        Err(refused) => {
            let report = render::text(&refused.diagnostics, &refused.sources, Style { color: false, width: 100 });
            let report = Unit { path: "ops.err".into(), text: format!("\n{report}") };
            let error = "compile_error!(include_str!(concat!(env!(\"OUT_DIR\"), \"/ops.err\")));\n";
            // The crate stops at the first of the two files that it includes.
            let stop = |path: &str| Unit { path: path.into(), text: error.into() };
            Artifacts::write(&[report, stop("kernels.rs"), stop("database.rs")], out)
        }
    }
}

/// Records the rows that passed, so that `cargo ops check` need not check them again.
fn remember(compiled: &Compiled, upstream: &Table) {
    let Some(kept) = known::kept() else { return };
    let mut known = Known::read(Some(&kept));
    let database = &compiled.database;
    known.look(database, &compiled.sources, &upstream.text);
    known.learn(database, &database.names().collect(), &compiled.diagnostics, &compiled.graded);
    known.write(&kept);
}
