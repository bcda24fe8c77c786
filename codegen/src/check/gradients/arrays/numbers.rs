//! Numbers that look random and are the same on every machine.

/// A fixed sequence of numbers in 0..1.
#[derive(Clone, Copy, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Numbers {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// Draws the next number by splitmix64. It has five digits, because people read counterexamples.
    pub fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        short(((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Draws a number of either sign with a magnitude of 0.5 to 0.75, so that no term weighted with it vanishes.
    pub fn weight(&mut self) -> f64 {
        let x = 2.0 * self.draw() - 1.0;
        short(if x < 0.0 { 0.25 * x - 0.5 } else { 0.25 * x + 0.5 })
    }
}

/// Rounds to five digits after the point.
pub fn short(x: f64) -> f64 {
    (x * 1e5).round() / 1e5
}
