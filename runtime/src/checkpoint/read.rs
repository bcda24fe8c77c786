//! Reads files: first the whole header, which is checked, then the data of each tensor.

use super::header::{Entry, Fault, Header, LONGEST};
use super::{file_error, grouped, unchanged};
use crate::buffer::{Buffer, BufferError};
use crate::error::Error;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// An open file whose header was accepted.
pub(super) struct File {
    path: PathBuf,
    file: fs::File,
    /// The position at which the data start.
    data: u64,
}

impl File {
    /// Opens a file, and reads and checks its header.
    ///
    /// # Errors
    /// E901, E902 or E904.
    pub fn open(path: &Path) -> Result<(File, Header), Error> {
        let failed = |e: io::Error| unreadable(path, &e);
        let mut file = fs::File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut head = [0; 8];
        if length < 8 {
            let what = format!("is cut short: {length} bytes, its header's length alone takes 8");
            return Err(short(path, what));
        }
        file.read_exact(&mut head).map_err(failed)?;
        let wanted = u64::from_le_bytes(head);
        let mut first = [0];
        if length > 8 {
            file.read_exact(&mut first).map_err(failed)?;
        }
        if wanted > LONGEST || (length > 8 && first != [b'{']) {
            return Err(foreign(path, "it does not start with a header"));
        }
        if wanted > length - 8 {
            let what = format!("is cut short: {} of {} bytes of its header", grouped(length - 8), grouped(wanted));
            return Err(short(path, what));
        }
        let mut text = Vec::new();
        // the header of an unchecked file may promise more than there is memory for
        text.try_reserve_exact(wanted as usize).map_err(|e| unreadable(path, &e))?;
        text.resize(wanted as usize, 0);
        file.seek(SeekFrom::Start(8)).and_then(|_| file.read_exact(&mut text)).map_err(failed)?;
        let data = 8 + wanted;
        match Header::parse(&text, length - data) {
            Ok(header) => Ok((File { path: path.to_owned(), file, data }, header)),
            Err(Fault::Wrong(what)) => Err(foreign(path, &what)),
            Err(Fault::Short { promised, first }) => Err(cut(path, length - data, promised, &first)),
        }
    }

    /// The data of a tensor of the header.
    ///
    /// # Errors
    /// E904 if the file can't be read any more, or the tensor does not fit in memory.
    pub fn tensor(&mut self, entry: &Entry) -> Result<Buffer, Error> {
        let name = &entry.name;
        let (path, file, at) = (&self.path, &mut self.file, self.data + entry.begin);
        let read =
            |to: &mut [u8]| file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(to)).map_err(Failed::Read);
        Buffer::filled(entry.ty.dtype, &entry.ty.sizes(), read).map_err(|e| match e {
            Failed::Read(e) => unreadable(path, &e),
            Failed::Buffer(e) => unreadable(path, &format!("tensor `{name}` {}: {e}", entry.ty)),
        })
    }
}

/// The reason why a tensor was not read.
enum Failed {
    Read(io::Error),
    Buffer(BufferError),
}

impl From<BufferError> for Failed {
    fn from(e: BufferError) -> Failed {
        Failed::Buffer(e)
    }
}

fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Error {
    file_error("E904", path, format!("can't be read: {why}"))
}

fn foreign(path: &Path, why: &str) -> Error {
    unchanged(file_error("E902", path, format!("is not a whole safetensors file: {why}")))
}

fn short(path: &Path, what: String) -> Error {
    with_another(unchanged(file_error("E901", path, what)), path)
}

fn cut(path: &Path, have: u64, promised: u64, first: &Entry) -> Error {
    let share = (have as u128 * 100 / promised.max(1) as u128) as u64;
    let what = format!("is cut short: {} of {} data bytes ({share} %)", grouped(have), grouped(promised));
    let Entry { name, ty, begin, end } = first;
    let place = format!("first tensor not whole: `{name}` {ty}, data bytes {}..{}", grouped(*begin), grouped(*end));
    with_another(unchanged(file_error("E901", path, what).note(place)), path)
}

/// Adds to the error the newest complete checkpoint in the folder, if there is one.
fn with_another(error: Error, path: &Path) -> Error {
    match newest_whole(path) {
        Some(other) => error.help(format!("the newest whole checkpoint beside it is `{}`", other.display())),
        None => error,
    }
}

/// At most this many files of the folder are examined, because a folder may hold very many.
const LOOKED_AT: usize = 1000;

fn newest_whole(broken: &Path) -> Option<PathBuf> {
    let folder = broken.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let files = fs::read_dir(folder).ok()?.take(LOOKED_AT).filter_map(|f| f.ok());
    let mut files: Vec<_> = files
        .map(|f| (f.metadata().and_then(|m| m.modified()).ok(), folder.join(f.file_name())))
        .filter(|(_, p)| p.extension() == broken.extension() && p.file_name() != broken.file_name())
        .collect();
    files.sort();
    files.into_iter().rev().map(|(_, path)| path).find(|path| is_whole(path))
}

/// Like [`File::open`], without examining other files.
fn is_whole(path: &Path) -> bool {
    let Ok(mut file) = fs::File::open(path) else { return false };
    let (Ok(meta), mut head) = (file.metadata(), [0; 8]) else { return false };
    if file.read_exact(&mut head).is_err() {
        return false;
    }
    let wanted = u64::from_le_bytes(head);
    let Some(data) = wanted.checked_add(8).and_then(|at| meta.len().checked_sub(at)) else { return false };
    let mut text = Vec::new();
    wanted <= LONGEST && file.take(wanted).read_to_end(&mut text).is_ok() && Header::parse(&text, data).is_ok()
}
