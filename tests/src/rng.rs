//! Random numbers for tests: the same seed gives the same cases on every machine.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014), behind words that are given.
///
/// A generator that draws from words is a proptest strategy: a word that becomes smaller makes a smaller choice, so what
/// fails arrives with its smallest sizes and simplest choices.
#[derive(Clone, Debug)]
pub struct Rng {
    /// The words to come first, the next one last.
    words: Vec<u64>,
    state: u64,
}

impl Rng {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng { words: Vec::new(), state: seed }
    }

    /// These words, then the stream that their sum seeds.
    pub fn of(words: &[u64]) -> Rng {
        let state = words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
        Rng { words: words.iter().rev().copied().collect(), state }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        if let Some(word) = self.words.pop() {
            return word;
        }
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A stream of its own.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.bits())
    }

    /// A number in `0..n`; 0 for `n` = 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }

    /// An integer in `lo..=hi`.
    pub fn int(&mut self, lo: i64, hi: i64) -> i64 {
        lo + (self.bits() % (hi - lo + 1).max(1) as u64) as i64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// A number in `lo..hi`.
    pub fn float(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64) * (hi - lo)
    }

    /// One of `items`, which are not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// `items` in another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// The seed of a row's property: depends on nothing but the two names, so a failure can be run again by its name.
pub fn seed(row: &str, property: &str) -> u64 {
    // FNV-1a
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in row.bytes().chain([0]).chain(property.bytes()) {
        hash = (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}
