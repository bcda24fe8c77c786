//! The fingerprint of a tree's fixed parts: 128 bits that differ if the parts do, for all values that occur in a
//! process (the chance that two given values collide is about 2^-64 per lane).

use std::hash::Hasher;

/// A running fingerprint. Equal sequences of parts give equal fingerprints; it is a [`Hasher`], so `Hash` can feed it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint {
    a: u64,
    b: u64,
}

/// Odd numbers with about half of the bits set; the seeds are the fractions of pi and e.
const SEEDS: [u64; 2] = [0x243F_6A88_85A3_08D3, 0xB7E1_5162_8AED_2A6B];
const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

impl Default for Fingerprint {
    fn default() -> Fingerprint {
        Fingerprint { a: SEEDS[0], b: SEEDS[1] }
    }
}

impl Fingerprint {
    /// The present value.
    pub fn words(self) -> [u64; 2] {
        [self.a, self.b]
    }

    /// Adds a word.
    #[inline]
    pub fn add(&mut self, word: u64) {
        self.a = fold(self.a ^ word, FACTORS[0]).wrapping_add(SEEDS[1]);
        self.b = fold(self.b.rotate_left(29) ^ word, FACTORS[1]).wrapping_add(SEEDS[0]);
    }
}

/// The xor of both halves of the product: every bit of `x` affects every bit of the result.
#[inline]
fn fold(x: u64, factor: u64) -> u64 {
    let p = x as u128 * factor as u128;
    p as u64 ^ (p >> 64) as u64
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.add(u64::from_le_bytes(word));
        }
    }
    fn write_u8(&mut self, x: u8) {
        self.add(x as u64);
    }
    fn write_u16(&mut self, x: u16) {
        self.add(x as u64);
    }
    fn write_u32(&mut self, x: u32) {
        self.add(x as u64);
    }
    fn write_u64(&mut self, x: u64) {
        self.add(x);
    }
    fn write_usize(&mut self, x: usize) {
        self.add(x as u64);
    }
    fn finish(&self) -> u64 {
        self.a ^ self.b.rotate_left(32)
    }
}

/// Text is hashed as it is formatted.
impl std::fmt::Write for Fingerprint {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        self.write(s.as_bytes());
        Ok(())
    }
}
