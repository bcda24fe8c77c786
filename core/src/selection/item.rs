//! Elements of a line: a key, by which they are compared, and a position.

/// An element. The order of [`Ord`] is that of keys, and among equal keys that of positions.
pub(super) trait Item: Copy + Ord {
    /// The element with this key and position.
    fn new(key: u64, at: usize) -> Self;

    /// Whether a key is smaller than that of the element.
    fn exceeds(self, key: u64) -> bool;

    /// The key.
    fn key(self) -> u64;

    /// The position.
    fn at(self) -> usize;

    /// Whether the element has the smaller key.
    fn before(self, other: Self) -> bool {
        self.key() < other.key()
    }
}

/// The elements of a line, in the order of their positions.
pub(super) fn all<E: Copy, T: Item>(line: &[E], key: impl Fn(E) -> u64) -> Vec<T> {
    line.iter().enumerate().map(|(at, e)| T::new(key(*e), at)).collect()
}

/// An element whose key and position have 32 bits each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Narrow(u64);

impl Narrow {
    /// The bits of a key.
    pub const BITS: u32 = 32;
}

impl Item for Narrow {
    fn new(key: u64, at: usize) -> Narrow {
        Narrow(key << 32 | at as u64)
    }
    fn exceeds(self, key: u64) -> bool {
        // a comparison of 32 bits becomes a vector instruction
        (key as u32) < (self.0 >> 32) as u32
    }
    fn key(self) -> u64 {
        self.0 >> 32
    }
    fn at(self) -> usize {
        self.0 as u32 as usize
    }
}

/// An element of any size that is compared with nothing if it is NaN, as the operator `<` does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Loose(Wide);

impl Loose {
    /// The key of NaN. Only floats have it, and no number among them has this key.
    pub const LOST: u64 = u64::MAX;
}

impl Item for Loose {
    fn new(key: u64, at: usize) -> Loose {
        Loose(Wide::new(key, at))
    }
    fn exceeds(self, key: u64) -> bool {
        self.key() != Loose::LOST && key < self.key()
    }
    fn key(self) -> u64 {
        self.0.key()
    }
    fn at(self) -> usize {
        self.0.at()
    }
    fn before(self, other: Loose) -> bool {
        other.exceeds(self.key())
    }
}

/// An element of any size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wide {
    key: u64,
    at: usize,
}

impl Item for Wide {
    fn new(key: u64, at: usize) -> Wide {
        Wide { key, at }
    }
    fn exceeds(self, key: u64) -> bool {
        key < self.key
    }
    fn key(self) -> u64 {
        self.key
    }
    fn at(self) -> usize {
        self.at
    }
}
