//! Sites: how calls that share a key draw different numbers, alike on every executor.

/// The stream word of a key at a line's site: what separates the draws of calls that share a key.
pub fn site_word(stream: i64, site: u64) -> u64 {
    // An odd multiplier: different sites give different words. Site 0 leaves the stream as it is.
    (stream as u64).wrapping_add(site.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
