//! Files that are there whole, or not at all.

use std::fs;
use std::io;
use std::path::Path;

/// Writes a file beside the one at `path`, with its permissions if it is there, then puts it in its place: at no time is
/// there half a file.
///
/// # Errors
/// What the file system reports; the file is then as it was.
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
        // there may be nothing to remove: the reason for the failure is what counts
        let _ = fs::remove_file(&fresh);
    }
    written
}
