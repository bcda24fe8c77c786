//! Hints that memory is needed soon.

/// The bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Prefetches memory that a later tile works on. Rows of tensors are often one page long, and the hardware's prefetcher
/// stops at the end of a page. The memory goes to the second-level cache, from which it arrives quickly enough, and the
/// first-level cache keeps the present tiles. On an EPYC this takes a tenth to a third less time for rows and for AdamW
/// than prefetching into the first level.
#[inline(always)]
pub fn prefetch(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    hint::<{ std::arch::x86_64::_MM_HINT_T1 }>(at, bytes);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

/// Prefetches memory that the present loop works on soon, to the first-level cache.
#[inline(always)]
pub fn prefetch_near(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    hint::<{ std::arch::x86_64::_MM_HINT_T0 }>(at, bytes);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn hint<const HINT: i32>(at: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(CACHE_LINE) {
        // SAFETY: a prefetch is a hint; addresses without memory are ignored.
        unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(at.wrapping_add(line) as *const i8) };
    }
}
