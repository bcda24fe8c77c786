//! Atomic writes of files: a file is either complete or unchanged. The verbs of `cargo ops`, which write databases, use
//! this module too.

use std::fs;
use std::io;
use std::path::Path;

/// Writes a temporary file beside `path`, with the permissions of an existing file, then renames it into place, so that
/// no reader ever sees half a file.
///
/// # Errors
/// The error of the file system; the file at `path` is then unchanged.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", std::process::id()));
    let written = fs::write(&fresh, text).and_then(|()| {
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
