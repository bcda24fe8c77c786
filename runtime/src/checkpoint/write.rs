//! Writes the header and the tensors of a file.

use super::header::{Entry, Header};
use super::{Metadata, file_error};
use crate::buffer::Buffer;
use crate::error::Error;
use fulgurite_core::{TensorTy, files};
use std::io::{self, Write};
use std::path::Path;

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
    let fill = |out: &mut dyn Write| {
        out.write_all(&head)?;
        parts.iter().try_for_each(|(_, buffer)| out.write_all(buffer.as_bytes()))
    };
    files::replace(path, fill).map_err(failed)
}
