//! Finds the operator database, and puts the text that the demo learns into one file: the database and its documentation.

use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let database = std::env::var("DEP_FULGURITE_DATABASE")
        .map_err(|_| std::io::Error::other("DEP_FULGURITE_DATABASE is not set: `fulgurite` is no direct dependency"))?;
    println!("cargo::rustc-env=FULGURITE_DATABASE={database}");
    let mut files = vec![PathBuf::from(database)];
    pages(Path::new("docs"), &mut files)?;
    let mut text = String::new();
    for file in files.iter().filter(|f| f.is_file()) {
        println!("cargo::rerun-if-changed={}", file.display());
        text.push_str(&std::fs::read_to_string(file)?);
        text.push('\n');
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("demo.txt");
    // the time stamp of an unchanged file stays, so that the program isn't compiled again
    if std::fs::read_to_string(&out).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::write(out, text)
}

/// The pages under a folder, in the order of their names. A page that comes or goes is noticed through the folder.
fn pages(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            pages(&entry, files)?;
        } else if entry.extension().is_some_and(|e| e == "md") {
            files.push(entry);
        }
    }
    Ok(())
}
