//! Files whose bytes are the data of buffers: a file is read once, and its buffers are parts of the memory that has it.

use super::pool::{ALIGN, Block};
use super::{Buffer, BufferError, checked_len};
use fulgurite_core::DType;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// A file in memory, for reading. The memory lives as long as a buffer has a part of it.
///
/// The bytes are read and not mapped: a mapping would show what other programs write to the file later, and the system
/// would end a process that reads behind the end of a shortened file.
#[derive(Clone, Debug)]
pub struct FileBytes(Buffer);

impl FileBytes {
    /// Reads a file.
    ///
    /// # Errors
    /// The file can't be opened or read, it becomes shorter meanwhile, or there is no memory for it.
    pub fn read(path: impl AsRef<Path>) -> io::Result<FileBytes> {
        let path = path.as_ref();
        // looked at first, because opening a pipe waits for a writer
        if !path.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
        }
        let mut file = File::open(path)?;
        let length = usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Buffer::filled(DType::U8, &[length], |to| file.read_exact(to).map_err(Unread)).map(FileBytes).map_err(|e| e.0)
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// A buffer of the `shape` elements of `dtype` that begin at byte `from`, in row-major order and little-endian.
    /// Elements at an unaligned place are copied, and so are bools, whose bytes may be neither 0 nor 1.
    ///
    /// # Errors
    /// The size overflows, or the file ends before the elements do.
    pub fn buffer(&self, dtype: DType, shape: &[usize], from: usize) -> Result<Buffer, BufferError> {
        let size = checked_len(dtype, shape)? * dtype.size();
        let file = self.bytes();
        let bytes = from.checked_add(size).and_then(|to| file.get(from..to)).ok_or_else(|| {
            let there = file.len().saturating_sub(from) / dtype.size();
            BufferError::Length { expected: size / dtype.size(), found: there }
        })?;
        let copied = dtype == DType::Bool || bytes.as_ptr().align_offset(ALIGN) != 0 || bytes.is_empty();
        match copied || cfg!(target_endian = "big") {
            true => Buffer::from_bytes(dtype, shape, bytes),
            false => {
                // SAFETY: the bytes are a part of the file's, and aligned.
                let block = unsafe { Block::part(self.0.block()?, bytes.as_ptr()) }?;
                Ok(Buffer::from_block(block, dtype, shape))
            }
        }
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// The reason why a file is not in memory.
struct Unread(io::Error);

impl From<BufferError> for Unread {
    fn from(e: BufferError) -> Unread {
        Unread(io::Error::new(io::ErrorKind::OutOfMemory, e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("fulgurite-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn buffers_share_the_memory_of_the_file() {
        let bytes: Vec<u8> = (0..=255).collect();
        let path = written("file-bytes", &bytes);
        let file = FileBytes::read(&path).unwrap();
        let aligned = file.buffer(DType::U8, &[2, 32], 64).unwrap();
        let elsewhere = file.buffer(DType::I16, &[3], 3).unwrap();
        let bools = file.buffer(DType::Bool, &[2], 0).unwrap();
        assert_eq!(aligned.as_bytes().as_ptr(), file.bytes()[64..].as_ptr());
        assert!(!aligned.is_unique(), "a file is never written");
        assert!(file.buffer(DType::F32, &[64], 4).is_err() && file.buffer(DType::F32, &[usize::MAX, 2], 0).is_err());
        assert!(file.buffer(DType::F32, &[0], 1000).is_err() && file.buffer(DType::F32, &[0], 256).is_ok());
        drop(file);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(aligned.to_vec::<u8>().unwrap(), bytes[64..128]);
        assert_eq!(elsewhere.to_vec::<i16>().unwrap(), [0x0403, 0x0605, 0x0807]);
        assert_eq!(bools.to_vec::<bool>().unwrap(), [false, true]);
        // the block goes back to the pool without the file, and may be given to anyone
        drop(aligned);
        let other = Buffer::zeros(DType::U8, &[2, 32]).unwrap();
        assert!(other.is_unique() && other.as_bytes().iter().all(|b| *b == 0));
    }

    /// With a mapping, the first of these changes would be seen, and the second would end the process.
    #[test]
    fn later_changes_of_the_file_are_not_seen() {
        let bytes = vec![7; 20_000];
        let path = written("file-changes", &bytes);
        let file = FileBytes::read(&path).unwrap();
        let buffer = file.buffer(DType::U8, &[128], 19_840).unwrap();
        std::fs::write(&path, vec![8; 20_000]).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
        assert!(file.bytes() == bytes && buffer.as_bytes() == &bytes[..128]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_is_no_file_and_what_has_no_room_are_errors() {
        assert!(FileBytes::read(std::env::temp_dir()).unwrap_err().to_string().contains("it is not a file"));
        let path = written("file-room", &[7; 64]);
        super::super::pool::UNTIL_FAILURE.set(Some(0));
        let refused = FileBytes::read(&path);
        super::super::pool::UNTIL_FAILURE.set(None);
        assert_eq!(refused.unwrap_err().to_string(), "64 bytes could not be allocated");
        assert!(FileBytes::read(&path).is_ok());
        std::fs::remove_file(&path).unwrap();
    }
}
