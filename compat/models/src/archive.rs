//! An archive of `torch.export.save`: a zip file whose entries are stored without compression, in one folder.

use crate::fault;
use fulgurite::Error;
use fulgurite::buffer::MappedFile;
use rawzip::{CompressionMethod, ZipArchive};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// An open archive.
pub struct Archive {
    pub path: PathBuf,
    pub file: MappedFile,
    /// The place of each entry in the file, by its name without the top folder.
    entries: BTreeMap<String, Range<usize>>,
}

impl Archive {
    /// Opens an archive and reads its directory. Nothing is copied or unpacked.
    ///
    /// # Errors
    /// E904 if the file can't be read, E930 if it is no archive, E931 if its directory contradicts the file.
    pub fn open(path: &Path) -> Result<Archive, Error> {
        let file = MappedFile::open(path)
            .map_err(|e| Error::new("E904", format!("`{}` can't be read: {e}", path.display())))?;
        if let Some(why) = other_format(file.bytes()) {
            return Err(fault::foreign(path, why));
        }
        let entries = directory(path, file.bytes())?;
        Ok(Archive { path: path.to_owned(), file, entries })
    }

    /// The place of an entry in the file.
    pub fn place(&self, name: &str) -> Option<Range<usize>> {
        self.entries.get(name).cloned()
    }

    /// The bytes of an entry.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.file.bytes().get(self.place(name)?)
    }

    /// The names of the entries.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }
}

/// The format of a file that is not a zip archive, as its first bytes show; `None` if it is not known.
fn other_format(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [] => Some("it is empty"),
        [b'P', b'K', ..] => None,
        [0x80, 2..=5, ..] => Some("it is a pickle (`torch.save`), which can run any program when it is read"),
        [_, _, _, _, _, _, _, _, b'{', ..] => Some("it is a safetensors file, which has weights and no program"),
        _ => Some("it is no zip archive"),
    }
}

/// The places of all entries, whose names lie in one top folder.
fn directory(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Range<usize>>, Error> {
    let broken = |why: &dyn std::fmt::Display| fault::broken(path, "the zip directory", why);
    let archive = ZipArchive::from_slice(bytes).map_err(|e| broken(&e))?;
    let mut entries = BTreeMap::new();
    let mut records = archive.entries();
    while let Some(record) = records.next_entry().map_err(|e| broken(&e))? {
        let full = record.file_path();
        let full = std::str::from_utf8(full.as_ref()).map_err(|_| broken(&"a name is not UTF-8"))?;
        if full.chars().any(char::is_control) || full.split('/').any(|part| part == "..") || full.starts_with('/') {
            return Err(broken(&format!("{full:?} is no name of an entry")));
        }
        if record.is_dir() {
            continue;
        }
        let name = full.split_once('/').map_or(full, |(_, name)| name);
        if record.compression_method() != CompressionMethod::STORE {
            return Err(broken(&format!("`{name}` is compressed, and PyTorch stores its entries as they are")));
        }
        let entry = archive.get_entry(record.wayfinder()).map_err(|e| broken(&format!("`{name}`: {e}")))?;
        let (from, to) = entry.compressed_data_range();
        let place = usize::try_from(from).ok().zip(usize::try_from(to).ok()).map(|(from, to)| from..to);
        let place = place.filter(|place| bytes.get(place.clone()).is_some());
        let place = place.ok_or_else(|| broken(&format!("`{name}` lies outside of the file")))?;
        if entries.insert(name.to_owned(), place).is_some() {
            return Err(broken(&format!("there are two entries `{name}`")));
        }
    }
    Ok(entries)
}
