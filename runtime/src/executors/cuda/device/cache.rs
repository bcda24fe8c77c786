//! A cache of compiled kernels on disk, keyed by their whole text: a folder of files that programs share.
//!
//! A file holds the text from which it was made, so two texts with one hash are told apart. It holds checksums of both
//! parts, so a truncated or changed file is made anew. A file is written beside its place and renamed, so it appears
//! whole. The oldest files are removed if there are too many bytes.

use crate::executors::ExecError;
use fulgurite_core::files;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// The environment variable that names another folder; if it is empty, there is no cache.
pub const VARIABLE: &str = "FULGURITE_CACHE";

/// At most 256 MiB of files, so that the cache stays small beside other caches of the user.
const MOST: u64 = 256 << 20;

/// The first bytes of a file.
const MAGIC: &[u8; 8] = b"FGKERN01";

/// A folder of compiled kernels.
pub struct Cache {
    folder: PathBuf,
    most: u64,
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl Cache {
    /// The user's cache: the folder that [`VARIABLE`] names, otherwise `fulgurite/kernels` in the user's cache folder.
    pub fn of_user() -> Option<Cache> {
        let folder = match std::env::var_os(VARIABLE) {
            Some(named) if named.is_empty() => return None,
            Some(named) => PathBuf::from(named),
            None => {
                let home = || std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache"));
                std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?.join("fulgurite")
            }
        };
        Some(Cache::at(folder.join("kernels"), MOST))
    }

    /// A cache in `folder` with at most `most` bytes.
    pub fn at(folder: PathBuf, most: u64) -> Cache {
        Cache { folder, most }
    }

    /// Returns the image that was cached for this text, or makes it with `make`. If the folder can't be written, the
    /// image is not cached, which is not an error.
    ///
    /// # Errors
    /// Reports the errors of `make`.
    pub fn get_or_make(
        &self,
        text: &str,
        make: impl FnOnce() -> Result<Vec<u8>, ExecError>,
    ) -> Result<Vec<u8>, ExecError> {
        let file = self.folder.join(format!("{:016x}{:08x}", sum(text.as_bytes()), text.len()));
        if let Some(image) = fs::read(&file).ok().and_then(|bytes| read(&bytes, text)) {
            // the oldest files are those that were unused for longest
            let _ =
                fs::File::options().append(true).open(&file).and_then(|f| f.set_modified(std::time::SystemTime::now()));
            return Ok(image);
        }
        let image = make()?;
        let _ = self.keep(&file, text, &image);
        Ok(image)
    }

    fn keep(&self, file: &Path, text: &str, image: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        files::replace(file, |f| {
            f.write_all(MAGIC)?;
            for (bytes, len) in [(text.as_bytes(), text.len()), (image, image.len())] {
                f.write_all(&(len as u64).to_le_bytes())?;
                f.write_all(&sum(bytes).to_le_bytes())?;
            }
            f.write_all(text.as_bytes())?;
            f.write_all(image)
        })?;
        self.shrink()
    }

    /// Removes the oldest files until the rest fit the limit.
    fn shrink(&self) -> std::io::Result<()> {
        let mut files: Vec<(std::time::SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)?.flatten() {
            if let Ok(meta) = entry.metadata()
                && meta.is_file()
            {
                files.push((meta.modified().unwrap_or(std::time::UNIX_EPOCH), meta.len(), entry.path()));
            }
        }
        files.sort();
        let mut all: u64 = files.iter().map(|f| f.1).sum();
        for (_, bytes, path) in files {
            if all <= self.most {
                break;
            }
            // another process may have removed it
            let _ = fs::remove_file(path);
            all -= bytes;
        }
        Ok(())
    }
}

/// The image of a file, if it is whole and was made from this text.
fn read(bytes: &[u8], text: &str) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let (head, rest) = rest.split_at_checked(32)?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let (text_len, image_len) = (usize::try_from(word(0)).ok()?, usize::try_from(word(16)).ok()?);
    let (own, image) = rest.split_at_checked(text_len)?;
    let whole = image.len() == image_len && own == text.as_bytes() && sum(own) == word(8) && sum(image) == word(24);
    whole.then(|| image.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("fulgurite-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_is_cut_off_or_changed_is_made_anew() {
        let folder = folder("damage");
        let cache = Cache::at(folder.clone(), 1 << 20);
        let made = Cell::new(0);
        let get = |text: &str| {
            cache.get_or_make(text, || {
                made.set(made.get() + 1);
                Ok(text.bytes().rev().collect())
            })
        };
        assert_eq!(get("kernel").unwrap(), b"lenrek");
        assert_eq!((get("kernel").unwrap(), made.get()), (b"lenrek".to_vec(), 1));
        let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert_eq!(read(&changed, "kernel"), None, "byte {at}");
            assert_eq!(read(&whole[..at], "kernel"), None, "cut off at {at}");
        }
        fs::write(&file, &whole[..40]).unwrap();
        assert_eq!((get("kernel").unwrap(), made.get()), (b"lenrek".to_vec(), 2));
        assert_eq!(fs::read(&file).unwrap(), whole);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_folder_stays_small() {
        let folder = folder("bound");
        let cache = Cache::at(folder.clone(), 3000);
        for k in 0..10u8 {
            cache.get_or_make(&format!("kernel {k}"), || Ok(vec![k; 900])).unwrap();
        }
        let bytes: u64 = fs::read_dir(&folder).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes <= 3000, "{bytes} bytes");
        assert_eq!(cache.get_or_make("kernel 9", || panic!("it is the newest")).unwrap(), vec![9; 900]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_nothing() {
        let file = folder("file");
        fs::write(&file, "a file").unwrap();
        let cache = Cache::at(file.join("kernels"), 1000);
        assert_eq!(cache.get_or_make("kernel", || Ok(vec![1])).unwrap(), [1]);
        fs::remove_file(file).unwrap();
    }
}
