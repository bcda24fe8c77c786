//! Memory behind which nothing is mapped, for tests.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::OpenOptions;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A multiple of the size of every system's pages.
const PAGES: usize = 1 << 16;

/// Bytes whose end is the end of the mapped memory: the system ends a process that reads or writes behind it, also by
/// machine code, into which no sanitizer sees. A file that is shorter than its mapping makes the pages behind it.
pub struct GuardedMemory {
    map: MmapRaw,
    bytes: usize,
}

impl GuardedMemory {
    /// Memory with a copy of these bytes, of which there are at most [`PAGES`].
    pub fn of(bytes: &[u8]) -> GuardedMemory {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fulgurite-guarded-{}-{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(PAGES as u64).unwrap();
        let map = MmapOptions::new().len(2 * PAGES).map_raw(&file).unwrap();
        assert!(bytes.len() <= PAGES);
        let guarded = GuardedMemory { map, bytes: bytes.len() };
        // SAFETY: the mapping has that many bytes from there on, and it is fresh.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), guarded.start(), bytes.len()) };
        guarded
    }

    /// The start of the bytes.
    pub fn start(&self) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(PAGES - self.bytes)
    }

    /// The bytes, if nothing was written in front of them.
    pub fn read(&self) -> Vec<u8> {
        // SAFETY: the pages of the file are mapped, and no code writes them now.
        let pages = unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr(), PAGES) };
        let (before, bytes) = pages.split_at(PAGES - self.bytes);
        assert!(before.iter().all(|byte| *byte == 0), "something was written in front of the memory");
        bytes.to_vec()
    }
}
