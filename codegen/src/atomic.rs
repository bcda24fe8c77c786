//! Atomic writes of files: a file is either complete or unchanged. The verbs of `cargo ops`, which write databases, use
//! this module too.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a temporary file beside `path`, with the permissions of an existing file, then renames it into place, so that
/// no reader ever sees half a file. For files that are made again if a power cut loses them.
///
/// # Errors
/// The error of the file system; the file at `path` is then unchanged.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    exchange(path, text, |_| Ok(()))
}

/// Like [`write()`], for files that people wrote: the disk has the new text before the old one goes.
///
/// # Errors
/// The errors of [`write()`].
pub fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    exchange(path, text, File::sync_all)
}

fn exchange(path: &Path, text: &str, finish: impl FnOnce(&File) -> io::Result<()>) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", std::process::id()));
    let filled = File::create(&fresh).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        finish(&file)
    });
    let written = filled.and_then(|()| {
        if let Ok(about) = fs::metadata(path) {
            fs::set_permissions(&fresh, about.permissions())?;
        }
        fs::rename(&fresh, path)
    });
    if written.is_err() {
        // The temporary file may not exist; the reason of the failure is reported, not that of the removal.
        let _ = fs::remove_file(&fresh);
    }
    written
}
