//! The allocator of the fuzzer: it counts the bytes in use, and refuses pieces that no input may have.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, with counts.
pub struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static PIECE: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Notes that a piece was given.
fn given(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed).wrapping_add(bytes);
    MOST.fetch_max(live, Relaxed);
}

// SAFETY: every call goes to the system's allocator with the same arguments; a null pointer says that there is no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > PIECE.load(Relaxed) {
            return ptr::null_mut();
        }
        given(layout.size());
        // SAFETY: the caller keeps the contract of this function, which is that of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > PIECE.load(Relaxed) {
            return ptr::null_mut();
        }
        given(layout.size());
        // SAFETY: the caller keeps the contract of this function, which is that of the system's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of this function, which is that of the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > PIECE.load(Relaxed) {
            return ptr::null_mut();
        }
        LIVE.fetch_sub(layout.size(), Relaxed);
        given(size);
        // SAFETY: the caller keeps the contract of this function, which is that of the system's.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// The bytes in use, and how many more were in use at most while `f` ran. Meanwhile no piece is larger than `piece`.
pub fn measured<T>(piece: usize, f: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Relaxed);
    MOST.store(before, Relaxed);
    PIECE.store(piece, Relaxed);
    let made = f();
    PIECE.store(usize::MAX, Relaxed);
    (made, MOST.load(Relaxed).saturating_sub(before))
}
