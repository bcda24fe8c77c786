//! Files that replace an old one as a whole: a reader sees the old file or the new one, also if the program is killed
//! or the disk is full.
//!
//! The new content is written to a hidden file in the folder of the old one and renamed. A program that is killed leaves
//! the hidden file, which [`remove_unfinished`] removes. A link stays, and the file that it leads to is replaced. A
//! device or a pipe, such as `/dev/stdout`, is written to, because a rename would put a file into its place.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Small writes are collected up to this many bytes. Memory for tensors is requested elsewhere: the request for this
/// buffer ends the program if the system has not even so much.
const COLLECTED: usize = 32 << 10;

/// Writes a file next to the old one, with the permissions of the old one, then renames it into its place. If `fill`
/// fails, the old file stays. The disk has the new data before the old ones go, so that a power cut loses nothing.
///
/// # Errors
/// Errors of the system, and those of `fill`.
pub fn replace(path: impl AsRef<Path>, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    exchange(path.as_ref(), fill, |path, file| {
        // the data are synchronised before the rename, so that the name never refers to data that a power cut could lose
        file.sync_all()?;
        Ok(move || sync_folder(path))
    })
}

/// Like [`replace`], for a file that is made again if a power cut loses it.
///
/// # Errors
/// Errors of the system.
pub fn refresh(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    exchange(path.as_ref(), |out| out.write_all(bytes.as_ref()), |_, _| Ok(|| Ok(())))
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

/// The steps of a replacement. `finish` is called with the complete new file; its result is called after the rename.
fn exchange<'p, Renamed: FnOnce() -> io::Result<()>>(
    path: &'p Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    finish: impl FnOnce(&'p Path, &File) -> io::Result<Renamed>,
) -> io::Result<()> {
    let target = destination(path)?;
    let old = fs::metadata(&target).ok();
    if old.as_ref().is_some_and(|old| !old.is_file() && !old.is_dir()) {
        return filled(OpenOptions::new().write(true).open(&target)?, fill).map(drop);
    }
    let (temporary, file) = create_beside(&target)?;
    let written = filled(file, fill).and_then(|file| {
        if let Some(old) = old {
            file.set_permissions(old.permissions())?;
        }
        let renamed = finish(path, &file)?;
        fs::rename(&temporary, &target)?;
        renamed()
    });
    if written.is_err() {
        // It has the unfinished data, if it still exists.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The end of a chain of links, which need not exist.
fn destination(path: &Path) -> io::Result<PathBuf> {
    /// The limit of Linux.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other(format!("it leads to more than {LINKS} links")))
}

fn filled(file: File, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<File> {
    let mut out = BufWriter::with_capacity(COLLECTED, file);
    fill(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

/// The part of the names of temporary files that follows the name of the file: no other program
/// makes such names.
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

    /// A new folder of a test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("fulgurite-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn what_a_killed_program_left_is_removed_and_nothing_else() {
        let folder = folder("left");
        let (left, _) = create_beside(&folder.join("step-3.safetensors")).unwrap();
        let others = [".step-3.safetensors", "a.unfinished-1-2", ".a.unfinished-1-", ".a.unfinished-x-2", "b"];
        others.iter().for_each(|name| fs::write(folder.join(name), "").unwrap());
        assert_eq!(remove_unfinished(&folder).unwrap(), 1);
        assert!(!left.exists() && others.iter().all(|name| folder.join(name).exists()));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_failing_writer_leaves_the_old_file() {
        let folder = folder("failing");
        let path = folder.join("a");
        refresh(&path, "old").unwrap();
        let failed = replace(&path, |out| out.write_all(b"half").and(Err(io::Error::other("no more"))));
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_permissions_too() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = folder("links");
        let path = |name: &str| folder.join(name);
        symlink("second", path("first")).unwrap();
        symlink(path("end"), path("second")).unwrap();
        // the end of the chain is made, then replaced
        replace(path("first"), |out| out.write_all(b"1")).unwrap();
        fs::set_permissions(path("end"), fs::Permissions::from_mode(0o640)).unwrap();
        refresh(path("first"), "2").unwrap();
        assert!(path("first").is_symlink() && path("second").is_symlink());
        assert_eq!(fs::read_to_string(path("end")).unwrap(), "2");
        assert_eq!(fs::metadata(path("end")).unwrap().permissions().mode() & 0o777, 0o640);
        symlink("circle", path("circle")).unwrap();
        assert!(refresh(path("circle"), "3").unwrap_err().to_string().contains("more than 40 links"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        // a pipe in the place of a device, because a failure would replace it
        let folder = folder("device");
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read_to_string(pipe).unwrap()
        });
        replace(&pipe, |out| out.write_all(b"through")).unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        fs::remove_dir_all(&folder).unwrap();
    }
}
