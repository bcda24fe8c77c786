//! Blocks of memory: reference-counted, 64-byte aligned, recycled through a process-wide free list by size class.
//!
//! A running program requests equal sizes again and again, so after its first run every request is served from the free
//! list. The count is in a header before the data, so a buffer costs one allocation, and none in steady state. When the
//! list is full, large blocks of classes that were not requested for a while make room, because another program has
//! other sizes.
//!
//! **Invariant:** the bytes of a block are always initialised: new ones are zeroed, recycled ones hold old data.

use super::slab::{self, Piece};
use memmap2::{Mmap, MmapMut};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The alignment of the data of every block, and the size of its header: one cache line.
pub const ALIGN: usize = 64;

/// Blocks from this size on are mappings of their own, in huge pages if the system has them: the system zeroes a page
/// when it is first used, and never if it is not used. Smaller blocks, down to [`slab::LEAST`], share mappings.
const MAPPED: usize = 4 << 20;

/// The free list may hold this many bytes, enough for the working set of a training step; more is returned to the
/// system.
static CACHE_LIMIT: AtomicUsize = AtomicUsize::new(1 << 30);
static CACHED: AtomicUsize = AtomicUsize::new(0);

/// The number of size classes: four per power of two, up to 2^47 bytes.
const CLASSES: usize = 4 * 48;

/// The number of requests for mapped blocks, and for each class the number at its last request.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
static ASKED: [AtomicU64; CLASSES] = [const { AtomicU64::new(0) }; CLASSES];

/// A class is stale after this many requests for other classes, which is more than a training step makes.
const STALE: u64 = 512;

#[repr(C, align(64))]
struct Header {
    refs: AtomicUsize,
    class: usize,
    /// While the block is free, the next free block of its class; while it is in use, the mapped file
    /// (`Arc::into_raw`) that has the data and stays mapped with the block. Null if there is none.
    link: Link,
    /// The start of the data: after the header, or memory of another owner, which is only read.
    data: *mut u8,
    source: Source,
}

/// One word with two uses, because the header is one cache line.
#[derive(Clone, Copy)]
union Link {
    next: *mut Header,
    file: *const Mmap,
}

/// The origin of a block's memory, which begins with its header.
enum Source {
    Allocator,
    Slab(Piece),
    /// The block is a mapping of its own.
    Mapping(MmapMut),
}

const _: () = assert!(size_of::<Header>() == ALIGN);

/// The first free block of a class.
struct Head(*mut Header);

// SAFETY: the pointer is only followed while the mutex around the head is held, and no other code uses free blocks.
unsafe impl Send for Head {}

static FREE: [Mutex<Head>; CLASSES] = [const { Mutex::new(Head(std::ptr::null_mut())) }; CLASSES];

/// A share of a block.
pub struct Block(NonNull<Header>);

// SAFETY: a block is plain memory with an atomic count. Shares give access through raw pointers only; the owners decide
// which of them writes (`Buffer` allows mutable access to unique blocks only).
unsafe impl Send for Block {}
// SAFETY: a block is plain memory with an atomic count; see `Send` above.
unsafe impl Sync for Block {}

/// The error of requesting more memory than the address space (or the system) has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory {
    /// The number of bytes that were requested.
    pub bytes: usize,
}

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes could not be allocated", self.bytes)
    }
}
impl std::error::Error for OutOfMemory {}

#[cfg(test)]
thread_local! {
    /// The number of requests of this thread until one fails.
    pub(crate) static UNTIL_FAILURE: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Whether this request is the one that a test lets fail.
#[cfg(test)]
fn lacks() -> bool {
    let left = UNTIL_FAILURE.get();
    UNTIL_FAILURE.set(left.and_then(|n| n.checked_sub(1)));
    left == Some(0)
}

/// The class of blocks with `bytes` of data and header together, and the size of that class.
fn class_of(bytes: usize) -> Option<(usize, usize)> {
    let bytes = bytes.max(2 * ALIGN);
    if bytes > 1 << 47 {
        return None;
    }
    // There are four steps between a power of two and the next, none smaller than the alignment.
    let log = (usize::BITS - 1 - (bytes - 1).leading_zeros()) as usize;
    let step = (1usize << log.saturating_sub(2)).max(ALIGN);
    let size = bytes.div_ceil(step) * step;
    let class = 4 * log + ((size - 1) >> log.saturating_sub(2)) % 4;
    Some((class, size))
}

impl Block {
    /// A block with room for `bytes`, which holds stale data.
    pub fn new(bytes: usize) -> Result<Block, OutOfMemory> {
        let oom = OutOfMemory { bytes };
        #[cfg(test)]
        if lacks() {
            return Err(oom);
        }
        let (class, size) = bytes.checked_add(ALIGN).and_then(class_of).ok_or(oom)?;
        if size >= MAPPED {
            ASKED[class].store(REQUESTS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        {
            let mut head = FREE[class].lock().unwrap_or_else(|e| e.into_inner());
            if let Some(header) = NonNull::new(head.0) {
                // SAFETY: a block in the list is valid and belongs to the list, whose lock is held.
                unsafe {
                    head.0 = (*header.as_ptr()).link.next;
                    (*header.as_ptr()).link = Link { file: std::ptr::null() };
                    (*header.as_ptr()).refs.store(1, Ordering::Relaxed);
                }
                CACHED.fetch_sub(size, Ordering::Relaxed);
                return Ok(Block(header));
            }
        }
        let fresh = allocate(class, size).or_else(|| {
            // what waits for reuse may be the memory that the system lacks
            give_back(0, |_| true);
            allocate(class, size)
        });
        fresh.map(Block).ok_or(oom)
    }

    /// A block over memory that another library lends. It is never unique, so that it is only read.
    ///
    /// # Safety
    /// `data` is aligned to [`ALIGN`], and is neither freed nor written while a share of the block exists.
    pub unsafe fn lent(data: *mut u8) -> Result<Block, OutOfMemory> {
        debug_assert!((data as usize).is_multiple_of(ALIGN), "lent memory is aligned to {ALIGN} bytes");
        let block = Block::new(0)?;
        // SAFETY: the block is fresh, hence unshared.
        unsafe { (*block.0.as_ptr()).data = data };
        Ok(block)
    }

    /// A block over bytes of a mapped file, which it keeps mapped. It is never unique, so that it is only read.
    ///
    /// # Safety
    /// `data` points into the file, and is aligned to [`ALIGN`].
    pub unsafe fn of_file(file: &Arc<Mmap>, data: *const u8) -> Result<Block, OutOfMemory> {
        // SAFETY: the caller upholds the contract, and the block keeps the file mapped.
        let block = unsafe { Block::lent(data.cast_mut()) }?;
        // SAFETY: the block is fresh, hence unshared.
        unsafe { (*block.0.as_ptr()).link = Link { file: Arc::into_raw(file.clone()) } };
        Ok(block)
    }

    /// The start of the data, aligned to [`ALIGN`].
    pub fn data(&self) -> *mut u8 {
        self.header().data
    }

    /// Whether there is no other share.
    pub fn is_unique(&self) -> bool {
        // Acquire: the last accesses of other shares happened before the owner writes.
        self.header().refs.load(Ordering::Acquire) == 1 && self.data() == own_data(self.0)
    }

    /// The number of shares.
    pub(crate) fn shares(&self) -> usize {
        // Acquire: see `is_unique`.
        self.header().refs.load(Ordering::Acquire)
    }

    /// Whether another library lends the memory, which it may write again when there is no share any more.
    pub(crate) fn is_lent(&self) -> bool {
        // SAFETY: the block is in use, so the link is that of a file.
        self.data() != own_data(self.0) && unsafe { self.header().link.file }.is_null()
    }

    /// Whether both are shares of one block.
    pub fn same(&self, other: &Block) -> bool {
        self.0 == other.0
    }

    /// The address of the block. Another block may have it when there is no share any more.
    pub(crate) fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    fn header(&self) -> &Header {
        // SAFETY: the header lives as long as any share.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Block {
    fn clone(&self) -> Block {
        self.header().refs.fetch_add(1, Ordering::Relaxed);
        Block(self.0)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.header().refs.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // This is a load and not a fence, because ThreadSanitizer does not know fences.
        self.header().refs.load(Ordering::Acquire);
        // SAFETY: this was the last share.
        unsafe {
            (*self.0.as_ptr()).data = own_data(self.0);
            let file = (*self.0.as_ptr()).link.file;
            if !file.is_null() {
                drop(Arc::from_raw(file));
            }
        }
        let class = self.header().class;
        let size = size_of_class(class);
        let reserved = reserve(size) || {
            give_back(CACHE_LIMIT.load(Ordering::Relaxed).saturating_sub(size), is_stale);
            reserve(size)
        };
        if reserved {
            let mut head = FREE[class].lock().unwrap_or_else(|e| e.into_inner());
            // SAFETY: this was the last share, so this thread may put the block into the list, whose lock is held.
            unsafe { (*self.0.as_ptr()).link = Link { next: head.0 } };
            head.0 = self.0.as_ptr();
        } else {
            // SAFETY: this was the last share.
            unsafe { free(self.0, size) };
        }
    }
}

/// Whether the free list has room for `size` bytes, which then count as its own.
fn reserve(size: usize) -> bool {
    let fits = CACHED.fetch_add(size, Ordering::Relaxed) + size <= CACHE_LIMIT.load(Ordering::Relaxed);
    if !fits {
        CACHED.fetch_sub(size, Ordering::Relaxed);
    }
    fits
}

fn is_stale(class: usize) -> bool {
    let asked = ASKED[class].load(Ordering::Relaxed);
    size_of_class(class) >= MAPPED && REQUESTS.load(Ordering::Relaxed).saturating_sub(asked) > STALE
}

/// A new block of zeros with one share.
fn allocate(class: usize, size: usize) -> Option<NonNull<Header>> {
    let piece = if (slab::LEAST..MAPPED).contains(&size) { slab::cut(size) } else { None };
    let (memory, source) = if let Some(piece) = piece {
        (piece.data(), Source::Slab(piece))
    } else if size >= MAPPED {
        let mut map = MmapMut::map_anon(size).ok()?;
        // This is only advice, because small pages work too.
        #[cfg(all(target_os = "linux", not(miri)))]
        let _ = map.advise(memmap2::Advice::HugePage);
        (map.as_mut_ptr(), Source::Mapping(map))
    } else {
        let layout = Layout::from_size_align(size, ALIGN).ok()?;
        // SAFETY: the layout's size is not 0.
        (unsafe { alloc_zeroed(layout) }, Source::Allocator)
    };
    let header = NonNull::new(memory as *mut Header)?;
    let (link, data) = (Link { file: std::ptr::null() }, own_data(header));
    // SAFETY: fresh memory, large enough and aligned for a header (mappings and pieces are aligned to pages).
    unsafe { header.write(Header { refs: AtomicUsize::new(1), class, link, data, source }) };
    Some(header)
}

/// The memory after the header of a block.
fn own_data(header: NonNull<Header>) -> *mut u8 {
    // SAFETY: every block is larger than its header, which takes exactly `ALIGN` bytes.
    unsafe { (header.as_ptr() as *mut u8).add(ALIGN) }
}

/// Returns a block to the system.
///
/// # Safety
/// The block came from [`allocate`] with this size, and is not used any more.
unsafe fn free(header: NonNull<Header>, size: usize) {
    // SAFETY: the caller upholds the contract. The source is moved out of the header before the block, with its header,
    // is freed.
    unsafe {
        match std::ptr::read(&(*header.as_ptr()).source) {
            Source::Mapping(map) => drop(map),
            Source::Slab(piece) => piece.free(),
            Source::Allocator => dealloc(header.as_ptr() as *mut u8, Layout::from_size_align_unchecked(size, ALIGN)),
        }
    }
}

/// The size that [`class_of`] returned with this class.
fn size_of_class(class: usize) -> usize {
    let (log, quarter) = (class / 4, class % 4);
    let size = (1usize << log) + (quarter + 1) * (1usize << log.saturating_sub(2));
    size.next_multiple_of(ALIGN)
}

/// Sets the number of bytes of freed memory that the process keeps for reuse, and returns the excess to the system.
pub fn set_cache_limit(bytes: usize) {
    CACHE_LIMIT.store(bytes, Ordering::Relaxed);
    give_back(bytes, |_| true);
}

/// Returns free blocks of classes `which` to the system, large ones first, until no more than `keep` bytes are cached.
fn give_back(keep: usize, which: impl Fn(usize) -> bool) {
    for (class, head) in FREE.iter().enumerate().rev().filter(|(class, _)| which(*class)) {
        let size = size_of_class(class);
        while CACHED.load(Ordering::Relaxed) > keep {
            let mut head = head.lock().unwrap_or_else(|e| e.into_inner());
            let Some(header) = NonNull::new(head.0) else { break };
            // SAFETY: the block is free, so nothing refers to it once it has left the list, whose lock is held.
            unsafe {
                head.0 = (*header.as_ptr()).link.next;
                free(header, size);
            }
            CACHED.fetch_sub(size, Ordering::Relaxed);
        }
    }
}

/// The number of bytes of freed memory that wait for reuse.
pub fn cached_bytes() -> usize {
    CACHED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_round_trip() {
        let mut last = 0;
        for bytes in (1..70_000).chain((1..400).map(|i| i * 1_234_567)) {
            let Some((class, size)) = class_of(bytes) else { panic!("{bytes}") };
            assert!(size >= bytes && size % ALIGN == 0);
            assert_eq!(size_of_class(class), size, "{bytes} → class {class}");
            assert!(size <= (bytes + bytes / 4 + 2 * ALIGN), "{bytes} wastes too much: {size}");
            last = last.max(class);
        }
        assert!(last < CLASSES);
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn pieces_are_whole_pages_of_zeros_and_go_back_alone() {
        for class in 0..CLASSES {
            let size = size_of_class(class);
            assert!(!(slab::LEAST..MAPPED).contains(&size) || size.is_multiple_of(65536), "{size}");
        }
        let size = 1_234_567usize.next_multiple_of(1 << 18);
        let (class, size) = class_of(size).unwrap();
        let blocks: Vec<Block> = (0..40).map(|_| Block(allocate(class, size).unwrap())).collect();
        for (n, b) in blocks.iter().enumerate() {
            // SAFETY: the block has that many bytes after its header, and they are not shared.
            let bytes = unsafe { std::slice::from_raw_parts_mut(b.data(), size - ALIGN) };
            assert!(bytes.iter().all(|b| *b == 0));
            bytes.fill(n as u8 + 1);
        }
        for (n, b) in blocks.into_iter().enumerate() {
            // SAFETY: the block has that many bytes after its header, and they are not shared.
            let bytes = unsafe { std::slice::from_raw_parts(b.data(), size - ALIGN) };
            assert!(bytes.iter().all(|b| *b == n as u8 + 1));
            // every second block is returned to the system at once
            if n % 2 == 0 {
                let header = b.0;
                std::mem::forget(b);
                // SAFETY: this was the only share.
                unsafe { free(header, size) };
            }
        }
    }

    #[test]
    fn lent_memory_is_only_read_and_goes_back() {
        #[repr(align(64))]
        struct Lent([u8; 64]);
        let mut memory = Lent([7; 64]);
        // SAFETY: the memory is aligned, and outlives the block.
        let block = unsafe { Block::lent(memory.0.as_mut_ptr()) }.unwrap();
        assert_eq!(block.data(), memory.0.as_mut_ptr());
        assert!(!block.is_unique());
        drop(block);
        // a header that comes from the free list has its own data again
        let blocks: Vec<Block> = (0..64).map(|_| Block::new(0).unwrap()).collect();
        assert!(blocks.iter().all(|b| b.is_unique() && b.data() == own_data(b.0)));
    }

    #[test]
    fn freed_blocks_come_back() {
        let bytes = 54_321_000;
        let first = Block::new(bytes).unwrap();
        let at = first.data();
        assert_eq!(at as usize % ALIGN, 0);
        drop(first);
        let second = Block::new(bytes).unwrap();
        assert_eq!(second.data(), at);
        let third = second.clone();
        assert!(!second.is_unique());
        drop(second);
        assert!(third.is_unique());
    }
}
