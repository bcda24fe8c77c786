//! Files of the repository, from which seeds come, and files that targets write.

use std::path::{Path, PathBuf};

/// The text of a file of the repository; empty if it is not there.
pub fn text(path: &str) -> String {
    String::from_utf8_lossy(&bytes(path)).into_owned()
}

/// The bytes of a file of the repository; empty if it is not there.
pub fn bytes(path: &str) -> Vec<u8> {
    std::fs::read(root().join(path)).unwrap_or_default()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The contents of all files with this extension below a folder of the repository, in the order of their names.
pub fn below(folder: &str, extension: &str) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    collect(&root().join(folder), extension, &mut paths);
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
}

/// A folder for files that live for a moment: one in memory, where the system has one.
pub fn temporary() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

/// Gives `f` a file with these bytes. It is a new file each time, because a reader may keep the last one mapped.
///
/// # Errors
/// The error of the file system.
pub fn with_file<T>(extension: &str, bytes: &[u8], f: impl FnOnce(&Path) -> T) -> Result<T, String> {
    // in a folder of its own, because some readers look at the files beside theirs
    let folder = temporary().join(format!("fulgurite-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let path = folder.join(format!("input.{extension}"));
    _ = std::fs::remove_file(&path);
    std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    let made = f(&path);
    _ = std::fs::remove_dir_all(&folder);
    Ok(made)
}
