//! Files that replace an old one as a whole: a reader sees the old file or the new one, also if the program is killed
//! or the disk is full.
//!
//! The new content is written to a hidden file in the folder of the old one, synchronised, and renamed. A program that
//! is killed leaves the hidden file, which [`remove_unfinished`] removes.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Small writes are collected up to this many bytes. Memory for tensors is requested elsewhere: the request for this
/// buffer ends the program if the system has not even so much.
const COLLECTED: usize = 32 << 10;

/// Writes a file next to the old one, then renames it into its place. If `fill` fails, the old file stays.
///
/// # Errors
/// Errors of the system, and those of `fill`.
pub fn replace(path: impl AsRef<Path>, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let path = path.as_ref();
    let (temporary, file) = create_beside(path)?;
    let written = filled(file, fill).and_then(|()| fs::rename(&temporary, path)).and_then(|()| sync_folder(path));
    if written.is_err() {
        // It has the unfinished data, if it still exists.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Removes the hidden files that programs left in a folder when they were killed in [`replace`], and returns their
/// number. No program may be writing to the folder: its unfinished file would be removed too.
///
/// # Errors
/// Errors of the system.
pub fn remove_unfinished(folder: impl AsRef<Path>) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_temporary(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn filled(file: File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(COLLECTED, file);
    fill(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    // the data are synchronised before the rename, so that the name never refers to data that a power cut could lose
    file.sync_all()
}

/// What the names of temporary files contain after that of the file: no other program makes such names.
const MARK: &str = ".unfinished-";

/// A new file in the folder of `path`, because a rename is atomic only within one file system.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no file name"))?;
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!("{MARK}{}-{number}", std::process::id()));
        let temporary = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            // a process with this number left the file when it was killed
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        }
    }
}

/// Whether [`create_beside`] makes such names.
fn is_temporary(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let ends = name.rsplit_once(MARK).and_then(|(_, end)| end.split_once('-'));
    name.starts_with('.') && ends.is_some_and(|(process, file)| number(process) && number(file))
}

/// Makes the rename durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_program_left_is_removed_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("fulgurite-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (left, _) = create_beside(&folder.join("step-3.safetensors")).unwrap();
        let others = [".step-3.safetensors", "a.unfinished-1-2", ".a.unfinished-1-", ".a.unfinished-x-2", "b"];
        others.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        assert_eq!(remove_unfinished(&folder).unwrap(), 1);
        assert!(!left.exists() && others.iter().all(|name| folder.join(name).exists()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
