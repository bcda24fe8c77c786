//! Random choices: equal seeds give equal inputs on every machine.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The stream for this seed.
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; 0 for `n` = 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }

    /// True once in `n` draws.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A number in `1..=n`, more often a small one: an input with many mutations is nearly always refused.
    pub fn few(&mut self, n: usize) -> usize {
        1 + self.below(n).min(self.below(n)).min(self.below(n))
    }

    /// One of these items; the default of its type if there is none.
    pub fn pick<T: Clone + Default>(&mut self, items: &[T]) -> T {
        items.get(self.below(items.len())).cloned().unwrap_or_default()
    }
}
