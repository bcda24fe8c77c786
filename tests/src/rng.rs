//! Random numbers for tests: equal seeds give equal cases on every machine.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014), preceded by given words.
///
/// A generator that draws from words can be shrunk ([`crate::draws`]): a small word makes a simple choice. 0 selects
/// the first of some items, false, or the number nearest to 0, and keeps an order.
#[derive(Clone, Debug)]
pub struct Rng {
    /// The given words, the next one last.
    words: Vec<u64>,
    state: u64,
    /// The largest word after the given ones.
    most: u64,
}

/// After a seed below this all words are below it too, so that they make simple choices.
const SIMPLE: u64 = 16;

impl Rng {
    /// The stream for this seed.
    pub fn new(seed: u64) -> Rng {
        Rng { words: Vec::new(), state: seed, most: u64::MAX }
    }

    /// The words except the first, followed by the stream with the first as its seed; by zeros if the seed is 0.
    pub fn of(words: &[u64]) -> Rng {
        let (seed, given) = words.split_first().unwrap_or((&0, &[]));
        let most = match seed {
            0 => 0,
            1..SIMPLE => SIMPLE - 1,
            _ => u64::MAX,
        };
        Rng { words: given.iter().rev().copied().collect(), state: *seed, most }
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
        (z ^ (z >> 31)) & self.most
    }

    /// A number in `0..n`; 0 for `n` = 0.
    pub fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }

    /// An integer in `lo..=hi`.
    pub fn int(&mut self, lo: i64, hi: i64) -> i64 {
        let count = hi.wrapping_sub(lo).wrapping_add(1).max(1) as u64;
        let simplest = if lo <= 0 && 0 <= hi { 0 } else { lo };
        let up = simplest.wrapping_add((self.bits() % count) as i64);
        if up > hi && lo < hi { lo + (up - hi - 1) } else { up }
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) + 1 == n
    }

    /// A number in `lo..hi`.
    pub fn float(&mut self, lo: f64, hi: f64) -> f64 {
        // The bits are read from the last one on, so that a small word is a number of few digits: 1/2, 1/4, 3/4, …
        let part = (self.bits().reverse_bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        let inside = |x: f64| lo <= x && x < hi;
        let simplest = [0.0, 1.0].into_iter().find(|x| inside(*x)).unwrap_or(lo);
        let up = simplest + part * (hi - lo);
        if up < hi { up } else { (up - (hi - lo)).max(lo) }
    }

    /// One of `items`, which are not empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// `items` in another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, i - self.below(i + 1));
        }
    }
}

/// The seed for a row's property depends only on the two names, so a failure can be repeated by its name.
pub fn seed(row: &str, property: &str) -> u64 {
    // FNV-1a
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in row.bytes().chain([0]).chain(property.bytes()) {
        hash = (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}
