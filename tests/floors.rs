//! The house rules that a machine can hold: who may import whom, how long a file may be, what may not stand in it, and
//! that the pages agree with the program.

#[path = "floors/files.rs"]
mod files;
#[path = "floors/house.rs"]
mod house;
#[path = "floors/manifests.rs"]
mod manifests;
#[path = "floors/modules.rs"]
mod modules;
#[path = "floors/packages.rs"]
mod packages;
#[path = "floors/pages.rs"]
mod pages;
#[path = "floors/supply.rs"]
mod supply;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads a file of the repository.
fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every file below `folder` with this extension, sorted; build output and hidden folders apart.
fn files_with(extension: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(folder, extension, &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            // a link leads to files that are found where they stand
            let made = ["target", "runs", "node_modules"].contains(&name.as_str());
            if !path.is_symlink() && !name.starts_with('.') && !made {
                collect(&path, extension, found);
            }
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// A path as messages show it.
fn shown(path: &Path) -> String {
    let root = root();
    path.strip_prefix(&root).unwrap_or(path).display().to_string()
}

/// Fails with every fault at once.
fn none(faults: Vec<String>, rule: &str) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}
