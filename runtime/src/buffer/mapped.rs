//! Files whose bytes are the data of buffers: nothing is copied, and a page is read when it is first used.

use super::pool::{ALIGN, Block};
use super::{Buffer, BufferError, checked_len};
use fulgurite_core::DType;
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A file in memory, for reading. It stays mapped as long as a buffer has its bytes.
///
/// A file must not be changed in place while it is mapped: the values of buffers would change, and the system ends a
/// process that reads behind the end of a shortened file. A program that replaces a file writes another one and renames
/// it, as [`crate::checkpoint::save`] does.
#[derive(Clone, Debug)]
pub struct MappedFile(Arc<Mmap>);

impl MappedFile {
    /// Maps a file.
    ///
    /// # Errors
    /// The file can't be opened or mapped.
    pub fn open(path: impl AsRef<Path>) -> io::Result<MappedFile> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        // SAFETY: the mapping is only read. No program can rule out that another one changes the file; see the type.
        Ok(MappedFile(Arc::new(unsafe { Mmap::map(&file) }?)))
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// A buffer of the `shape` elements of `dtype` that begin at byte `from`, in row-major order and little-endian.
    /// Elements at an unaligned place are copied, and so are bools, whose bytes may be neither 0 nor 1.
    ///
    /// # Errors
    /// The size overflows, or the file ends before the elements do.
    pub fn buffer(&self, dtype: DType, shape: &[usize], from: usize) -> Result<Buffer, BufferError> {
        let size = checked_len(dtype, shape)? * dtype.size();
        let bytes = from.checked_add(size).and_then(|to| self.0.get(from..to)).ok_or_else(|| {
            let there = self.0.len().saturating_sub(from) / dtype.size();
            BufferError::Length { expected: size / dtype.size(), found: there }
        })?;
        let copied = dtype == DType::Bool || bytes.as_ptr().align_offset(ALIGN) != 0 || bytes.is_empty();
        match copied || cfg!(target_endian = "big") {
            true => Buffer::from_bytes(dtype, shape, bytes),
            false => {
                // SAFETY: the bytes are those of the file, and aligned.
                let block = unsafe { Block::of_file(&self.0, bytes.as_ptr()) }?;
                Ok(Buffer::from_block(block, dtype, shape))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_share_the_file_and_keep_it_mapped() {
        let path = std::env::temp_dir().join(format!("fulgurite-mapped-{}", std::process::id()));
        let bytes: Vec<u8> = (0..=255).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = MappedFile::open(&path).unwrap();
        let aligned = file.buffer(DType::U8, &[2, 32], 64).unwrap();
        let elsewhere = file.buffer(DType::I16, &[3], 3).unwrap();
        let bools = file.buffer(DType::Bool, &[3], 0).unwrap();
        assert_eq!(aligned.as_bytes().as_ptr(), file.bytes()[64..].as_ptr());
        assert!(!aligned.is_unique(), "a file is never written");
        assert!(file.buffer(DType::F32, &[64], 4).is_err() && file.buffer(DType::F32, &[usize::MAX, 2], 0).is_err());
        assert!(file.buffer(DType::F32, &[0], 1000).is_err() && file.buffer(DType::F32, &[0], 256).is_ok());
        drop(file);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(aligned.to_vec::<u8>().unwrap(), bytes[64..128]);
        assert_eq!(elsewhere.to_vec::<i16>().unwrap(), [0x0403, 0x0605, 0x0807]);
        // a bool of another number would be no value of Rust
        assert_eq!((bools.to_vec::<bool>().unwrap(), bools.as_bytes()), (vec![false, true, true], &[0, 1, 1][..]));
        // the block goes back to the pool without the file, and may be given to anyone
        drop(aligned);
        let other = Buffer::zeros(DType::U8, &[2, 32]).unwrap();
        assert!(other.is_unique() && other.as_bytes().iter().all(|b| *b == 0));
    }
}
