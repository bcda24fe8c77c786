//! Memory for blocks of middle size, side by side in mappings with huge pages: walks over many tensors of some hundred
//! kilobytes (an optimiser's) wait for the tables of small pages as long as they compute.

use memmap2::{MmapMut, MmapRaw};
use std::sync::{Arc, Mutex};

/// Bytes from which on all classes of blocks are multiples of 64 KiB, so of whatever size the system's pages have.
pub(super) const LEAST: usize = 256 << 10;

/// Address space of one mapping. Pages of it take memory when they are first used.
const SLAB: usize = 32 << 20;

/// The mapping of which the next piece is cut, and how much of it has been.
static CURRENT: Mutex<Option<(Arc<MmapRaw>, usize)>> = Mutex::new(None);

/// A piece of a mapping. The mapping lives as long as one of its pieces does.
pub(super) struct Piece {
    slab: Arc<MmapRaw>,
    from: usize,
    bytes: usize,
}

/// A piece of zeros that nobody else has, of whole pages, unless the system has no address space left. `bytes` is a
/// class's size, at least [`LEAST`].
pub(super) fn cut(bytes: usize) -> Option<Piece> {
    let mut current = CURRENT.lock().unwrap_or_else(|e| e.into_inner());
    let (slab, from) = match current.take() {
        Some((slab, used)) if used + bytes <= slab.len() => (slab, used),
        _ => {
            let map = MmapMut::map_anon(SLAB.max(bytes)).ok()?;
            // Only advice: small pages do as well.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            (Arc::new(MmapRaw::from(map)), 0)
        }
    };
    *current = Some((slab.clone(), from + bytes));
    Some(Piece { slab, from, bytes })
}

impl Piece {
    /// Where it starts.
    pub fn data(&self) -> *mut u8 {
        self.slab.as_mut_ptr().wrapping_add(self.from)
    }

    /// Gives its memory back to the system; its addresses follow when the last piece of the mapping goes.
    ///
    /// # Safety
    /// Nobody uses the piece's memory any more.
    pub unsafe fn free(self) {
        #[cfg(target_os = "linux")]
        // SAFETY: the caller upholds the contract; pieces start and end where pages do, see [`LEAST`].
        let _ = unsafe { self.slab.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, self.from, self.bytes) };
        drop(self);
    }
}
