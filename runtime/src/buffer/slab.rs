//! Memory for blocks of medium size, adjacent in mappings with huge pages. A walk over many tensors of some hundred
//! kilobytes (as of an optimiser) waits for the page tables of small pages as long as it computes.

use memmap2::{MmapMut, MmapRaw};
use std::sync::{Arc, Mutex};

/// All classes of blocks from this size on are multiples of 64 KiB, and so of any page size of the system.
pub(super) const LEAST: usize = 256 << 10;

/// The address space of one mapping; its pages take memory when they are first used.
const SLAB: usize = 32 << 20;

/// The mapping from which the next piece is cut, and the number of bytes cut so far.
static CURRENT: Mutex<Option<(Arc<MmapRaw>, usize)>> = Mutex::new(None);

/// A piece of a mapping, which lives as long as one of its pieces.
pub(super) struct Piece {
    slab: Arc<MmapRaw>,
    from: usize,
    bytes: usize,
}

/// A new piece of zeros, of whole pages, unless the system has no address space left. `bytes` is the size of a class,
/// at least [`LEAST`].
pub(super) fn cut(bytes: usize) -> Option<Piece> {
    let mut current = CURRENT.lock().unwrap_or_else(|e| e.into_inner());
    let (slab, from) = match current.take() {
        Some((slab, used)) if used + bytes <= slab.len() => (slab, used),
        _ => {
            let map = MmapMut::map_anon(SLAB.max(bytes)).ok()?;
            // This is only advice, because small pages work too.
            #[cfg(all(target_os = "linux", not(miri)))]
            let _ = map.advise(memmap2::Advice::HugePage);
            (Arc::new(MmapRaw::from(map)), 0)
        }
    };
    *current = Some((slab.clone(), from + bytes));
    Some(Piece { slab, from, bytes })
}

impl Piece {
    /// The start of the piece.
    pub fn data(&self) -> *mut u8 {
        self.slab.as_mut_ptr().wrapping_add(self.from)
    }

    /// Returns the memory of the piece to the system; its addresses follow with the last piece of the mapping.
    ///
    /// # Safety
    /// The memory of the piece is not used any more.
    pub unsafe fn free(self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the caller upholds the contract; pieces start and end at page boundaries, see [`LEAST`].
        let _ = unsafe { self.slab.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, self.from, self.bytes) };
        drop(self);
    }
}
