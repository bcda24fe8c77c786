//! The entry for build scripts.
//!
//! A broken database emits one `compile_error!` with the whole report and nothing else: rustc prints it intact, once.

use crate::diag::render::{self, Style};
use crate::emit::{Artifacts, Unit};
use crate::pipeline::{self, Table};
use std::path::{Path, PathBuf};

/// Compiles the database at `path` (relative to the package) for crate `krate` into `OUT_DIR`, and tells cargo when to
/// run again. Gives the output folder to direct dependents as `DEP_<links>_OUT`.
///
/// # Errors
/// What the file system reports; a broken database is no error of the build script.
pub fn database(krate: &str, path: &str) -> std::io::Result<()> {
    let (Some(root), Some(out)) = (std::env::var_os("CARGO_MANIFEST_DIR"), std::env::var_os("OUT_DIR")) else {
        return Err(std::io::Error::other("this runs in build scripts: CARGO_MANIFEST_DIR and OUT_DIR are not set"));
    };
    let file = PathBuf::from(root).join(path);
    let out = PathBuf::from(out);
    println!("cargo::rerun-if-changed={}", file.display());
    println!("cargo::metadata=out={}", out.display());
    let text = std::fs::read_to_string(&file)?;
    let shown = file.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    write(krate, &text, &shown, &out)
}

/// Compiles `text` into the folder `out`.
///
/// # Errors
/// What the file system reports.
pub fn write(krate: &str, text: &str, file: &str, out: &Path) -> std::io::Result<()> {
    match pipeline::compile(text, file, &Table::default()) {
        Ok(compiled) => {
            let table = compiled.table();
            let artifacts = Artifacts::emit(krate, &compiled.rows, &table);
            let mut units = artifacts.database;
            units.extend(artifacts.kernels);
            units.extend(artifacts.cuda);
            Artifacts::write(&units, out)
        }
        Err(refused) => {
            let report = render::text(&refused.diagnostics, &refused.sources, Style { color: false, width: 100 });
            let report = Unit { path: "ops.err".into(), text: format!("\n{report}") };
            let error = "compile_error!(include_str!(concat!(env!(\"OUT_DIR\"), \"/ops.err\")));\n";
            let kernels = Unit { path: "kernels.rs".into(), text: error.into() };
            Artifacts::write(&[report, kernels], out)
        }
    }
}
