//! Writes databases to files.

use std::fs;
use std::io;
use std::path::Path;

use fulgurite_codegen::atomic;

use super::fault::CommandFault;

/// Writes a new file, completely or not at all.
pub(super) fn create(path: &Path, text: &str) -> Result<(), CommandFault> {
    atomic::write_durably(path, text).map_err(|why| CommandFault::unwritable(path, &why))
}

/// Replaces the whole file, unless it differs from `before`. If `path` is a link, its target is replaced, not the link.
pub(super) fn replace(path: &Path, before: &str, after: &str) -> Result<(), CommandFault> {
    let unwritable = |why: io::Error| CommandFault::unwritable(path, &why);
    let target = path.canonicalize().map_err(unwritable)?;
    if fs::read_to_string(&target).map_err(unwritable)? != before {
        let claim = format!("`{}` was changed while this ran", path.display());
        return Err(CommandFault::failed("E913", claim).help("run the command again"));
    }
    atomic::write_durably(&target, after).map_err(unwritable)
}
