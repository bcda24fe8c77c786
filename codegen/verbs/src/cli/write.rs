//! Writes databases to files.

use std::fs;
use std::io;
use std::path::Path;

use fulgurite_core::files;

use super::fault::CommandFault;

/// Writes a new file, completely or not at all.
pub(super) fn create(path: &Path, text: &str) -> Result<(), CommandFault> {
    files::replace(path, |out| out.write_all(text.as_bytes())).map_err(|why| CommandFault::unwritable(path, &why))
}

/// Replaces the whole file, unless it differs from `before`.
pub(super) fn replace(path: &Path, before: &str, after: &str) -> Result<(), CommandFault> {
    let unwritable = |why: io::Error| CommandFault::unwritable(path, &why);
    if fs::read_to_string(path).map_err(unwritable)? != before {
        let claim = format!("`{}` was changed while this ran", path.display());
        return Err(CommandFault::failed("E913", claim).help("run the command again"));
    }
    files::replace(path, |out| out.write_all(after.as_bytes())).map_err(unwritable)
}
