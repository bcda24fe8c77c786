//! Hashes the sources of the checks, so that what one program found right another one that is made of the same sources
//! need not find again.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let core = std::env::var_os("DEP_FULGURITE_CORE_SOURCES").ok_or_else(|| {
        io::Error::other("DEP_FULGURITE_CORE_SOURCES is not set: `fulgurite-core` has no build script")
    })?;
    let mut hash = DefaultHasher::new();
    for folder in [Path::new("src"), Path::new(&core)] {
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut files = Vec::new();
        collect(folder, &mut files)?;
        files.sort();
        for file in files {
            file.strip_prefix(folder).unwrap_or(&file).hash(&mut hash);
            fs::read(&file)?.hash(&mut hash);
        }
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
