//! Writes a file next to the old one, then renames it into its place.

use super::header::{Entry, Header};
use super::{Metadata, file_error};
use crate::buffer::Buffer;
use crate::error::Error;
use fulgurite_core::TensorTy;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(not(target_endian = "little"))]
compile_error!("checkpoints are little-endian, and tensors are written as they lie in memory");

/// Writes tensors by their names.
pub(super) fn write(path: &Path, mut parts: Vec<(String, Buffer)>, metadata: &Metadata) -> Result<(), Error> {
    let mut names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let claim = format!("can't be written: two leaves are called `{}`", pair[1]);
        return Err(file_error("E904", path, claim));
    }
    if names.contains(&"__metadata__") {
        let claim = "can't be written: a leaf is called `__metadata__`, which is the format's name for texts";
        return Err(file_error("E904", path, claim).help("give the leaf another name"));
    }
    // wide elements come first, so that all data are aligned
    parts.sort_by_key(|(_, buffer)| std::cmp::Reverse(buffer.dtype().size()));
    let mut at = 0;
    let entry = |(name, buffer): &(String, Buffer)| {
        let begin = at;
        at += buffer.byte_len() as u64;
        Entry { name: name.clone(), ty: TensorTy::new(buffer.dtype(), buffer.shape()), begin, end: at }
    };
    let entries: Vec<Entry> = parts.iter().map(entry).collect();
    let head = Header::write(&entries, metadata);
    let failed = |e: io::Error| file_error("E904", path, format!("can't be written: {e}"));
    let (temporary, file) = create_beside(path).map_err(failed)?;
    let written =
        fill(file, &head, &parts).and_then(|()| fs::rename(&temporary, path)).and_then(|()| sync_folder(path));
    written.map_err(|e| {
        let _ = fs::remove_file(&temporary);
        failed(e)
    })
}

fn fill(file: File, head: &[u8], parts: &[(String, Buffer)]) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    out.write_all(head)?;
    for (_, buffer) in parts {
        out.write_all(buffer.as_bytes())?;
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    // the data are synchronised before the rename, so that the name never refers to data that a power cut could lose
    file.sync_all()
}

/// A new file in the folder of `path`, because a rename is atomic only within one file system.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no file name"))?;
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.{number}", std::process::id()));
        let temporary = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            // a process with this number left the file when it was killed
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(e),
        }
    }
}

/// Makes the rename durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
