//! The numbers that the benchmark programs of all systems generate, and the check values by which their results are
//! compared.

/// 2^-23.
const STEP: f32 = 1.0 / 8_388_608.0;
/// The seed of the weights in check values.
const CHECK: u32 = 99;

fn mix(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x7feb_352d);
    h ^= h >> 15;
    h = h.wrapping_mul(0x846c_a68b);
    h ^ h >> 16
}

/// 32 bits for position `i` of sequence `seed`.
pub fn hash(seed: u32, i: u32) -> u32 {
    mix(i.wrapping_add(mix(seed.wrapping_mul(0x9e37_79b9).wrapping_add(1))))
}

/// A multiple of 2^-23 in [-1, 1).
pub fn unit(seed: u32, i: u32) -> f32 {
    (hash(seed, i) >> 8) as f32 * STEP - 1.0
}

/// `len` numbers of the form `unit * scale + shift`.
pub fn fill(seed: u32, len: usize, scale: f32, shift: f32) -> Vec<f32> {
    (0..len as u32).map(|i| unit(seed, i) * scale + shift).collect()
}

/// `len` whole numbers below `n`.
pub fn ints(seed: u32, len: usize, n: u32) -> Vec<i64> {
    (0..len as u32).map(|i| i64::from(hash(seed, i) % n)).collect()
}

/// The check value of a tensor: its product with random weights, and its length, both in f64.
pub fn check(tensor: &[f32]) -> [f64; 2] {
    let (product, squares) = tensor.iter().enumerate().fold((0.0, 0.0), |(d, s), (i, x)| {
        let x = f64::from(*x);
        (d + f64::from(unit(CHECK, i as u32)) * x, s + x * x)
    });
    [product, squares.sqrt()]
}

/// The scale of weights with this fan-in: 1.7 / sqrt(fan-in), rounded to f32.
pub fn weight_scale(fan_in: usize) -> f32 {
    (1.7 / (fan_in as f64).sqrt()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that the benchmark programs of the other systems also give.
    #[test]
    fn self_test() {
        assert_eq!([0, 1, 2].map(|i| hash(1, i)), [587_614_100, 2_136_536_683, 1_833_388_140]);
        let expected = [-0.726_370_93, -0.005_097_63, -0.146_262_17, 0.520_017_5];
        for (i, x) in expected.into_iter().enumerate() {
            assert!((unit(1, i as u32) - x).abs() < 1e-8);
        }
        assert_eq!(ints(5, 4, 1024), [553, 581, 211, 52]);
        near(check(&fill(1, 1000, 2.0, 0.0)), [-21.954_515, 35.994_138]);
        let qkvw = fill(1004, 3 * 192 * 192, weight_scale(192), 0.0);
        near(check(&qkvw), [-1.895_619, 23.615_651]);
    }

    fn near(got: [f64; 2], expected: [f64; 2]) {
        assert!(got.iter().zip(expected).all(|(g, e)| (g - e).abs() < 1e-5), "{got:?} {expected:?}");
    }
}
