//! Hashes the sources of the checks, so that what one program found right another one that is made of the same sources
//! need not find again.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    // where the packages don't lie side by side, the version says which core this is
    for folder in ["src", "../core/src"].map(Path::new).into_iter().filter(|folder| folder.is_dir()) {
        println!("cargo::rerun-if-changed={}", folder.display());
        collect(folder, &mut files)?;
    }
    files.sort();
    let mut hash = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hash);
    for file in files {
        file.hash(&mut hash);
        fs::read(&file)?.hash(&mut hash);
    }
    println!("cargo::rustc-env=FULGURITE_CHECKS={:016x}", hash.finish());
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
