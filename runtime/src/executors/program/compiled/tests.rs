//! Runs of programs in memory behind which nothing is mapped, for tests.

use super::*;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::OpenOptions;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A multiple of the size of every system's pages.
const PAGE: usize = 1 << 16;

/// Bytes whose end is the end of the mapped memory. A file that is shorter than its mapping makes the pages behind it.
struct GuardedStorage {
    map: MmapRaw,
    whole: usize,
    bytes: usize,
}

impl GuardedStorage {
    fn new(bytes: usize) -> GuardedStorage {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fulgurite-program-{}-{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let whole = bytes.next_multiple_of(PAGE);
        file.set_len(whole as u64).unwrap();
        GuardedStorage { map: MmapOptions::new().len(whole + PAGE).map_raw(&file).unwrap(), whole, bytes }
    }

    fn start(&self) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(self.whole - self.bytes)
    }

    /// The bytes, if nothing was written in front of them.
    fn read(&self) -> &[u8] {
        // SAFETY: the pages of the file are mapped, and no step runs now.
        let pages = unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr(), self.whole) };
        let (before, bytes) = pages.split_at(self.whole - self.bytes);
        assert!(before.iter().all(|byte| *byte == 0), "something was written in front of a storage");
        bytes
    }
}

impl Compiled {
    /// The bytes of the results, from a run in which every storage ends where the mapped memory does: the system ends a
    /// process that reads or writes behind a storage, also by machine code, into which no sanitizer sees. The start of
    /// a storage has the alignment that its size leaves.
    pub(crate) fn run_guarded(&self, inputs: &[Buffer]) -> Result<Vec<Vec<u8>>, ExecError> {
        self.check(inputs)?;
        let storages = &self.parts.layout.storages;
        let memory: Vec<GuardedStorage> = storages.iter().map(|s| GuardedStorage::new(s.bytes)).collect();
        let of = |storage: usize| match storages[storage].place {
            Where::Same(other) => &memory[other as usize],
            _ => &memory[storage],
        };
        for (storage, s) in storages.iter().enumerate() {
            if let Where::Input(i) = s.place {
                let bytes = inputs[i as usize].as_bytes();
                // SAFETY: the storage has the bytes of its input, and is fresh.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory[storage].start(), bytes.len()) };
            }
        }
        let pointers: Vec<*mut u8> = (0..storages.len()).map(|storage| of(storage).start()).collect();
        let given = vec![false; inputs.len()];
        let mut held: SmallVec<[Option<Buffer>; 32]> = SmallVec::from_elem(None, storages.len());
        self.steps(Memory(&pointers), &given, &mut held, 2, None)?;
        memory.iter().for_each(|memory| _ = memory.read());
        Ok(self.parts.outputs.iter().map(|o| of(o.storage as usize).read().to_vec()).collect())
    }
}
