//! Databases to files.

use std::fs;
use std::io;
use std::path::Path;

use super::fault::Fault;

/// Writes a file that is not there yet: all of it, or none.
pub(super) fn create(path: &Path, text: &str) -> Result<(), Fault> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", std::process::id()));
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path)).map_err(|why| {
        // there may be nothing to remove: the reason for the failure is what counts
        let _ = fs::remove_file(&fresh);
        Fault::unwritable(path, &why)
    })
}

/// Writes the whole file anew beside the old one, then exchanges them: at no time is there half a file. What `path`
/// links to is exchanged, not the link.
pub(super) fn replace(path: &Path, before: &str, after: &str) -> Result<(), Fault> {
    let unwritable = |why: io::Error| Fault::unwritable(path, &why);
    let target = path.canonicalize().map_err(unwritable)?;
    if fs::read_to_string(&target).map_err(unwritable)? != before {
        let claim = format!("`{}` was changed while this ran", path.display());
        return Err(Fault::failed("E913", claim).help("run the command again"));
    }
    let mut fresh = target.clone().into_os_string();
    fresh.push(format!(".{}.new", std::process::id()));
    let exchanged = fs::write(&fresh, after).and_then(|()| {
        fs::set_permissions(&fresh, fs::metadata(&target)?.permissions())?;
        fs::rename(&fresh, &target)
    });
    exchanged.map_err(|why| {
        // there may be nothing to remove: the reason for the failure is what counts
        let _ = fs::remove_file(&fresh);
        unwritable(why)
    })
}
