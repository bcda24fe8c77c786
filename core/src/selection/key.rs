//! Keys: unsigned integers in the order of numbers, in which NaN is the largest number and both zeros are equal.

use crate::scalar::Scalar;

/// A number type that has keys.
pub trait SortKey: Copy {
    /// The bits of a key.
    const BITS: u32;

    /// The key of the number.
    fn key(self) -> u64;

    /// Whether it is no number; an integer always is one.
    fn is_lost(self) -> bool {
        false
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl SortKey for $t {
            const BITS: u32 = <$t>::BITS;
            fn key(self) -> u64 {
                (self.wrapping_sub(<$t>::MIN) as u64) & (u64::MAX >> (u64::BITS - <$t>::BITS))
            }
        }
    )*};
}
integers!(i64, i32, i16, i8, u64, u32, u16, u8);

macro_rules! floats {
    ($($t:ty, $bits:ty);*) => {$(
        impl SortKey for $t {
            const BITS: u32 = <$bits>::BITS;
            fn key(self) -> u64 {
                // the sum of -0 and 0 is 0
                let bits = (self + 0.0).to_bits();
                let sign: $bits = 1 << (<$bits>::BITS - 1);
                // without a branch: all bits of a negative number change, of others the sign
                let change = (bits >> (<$bits>::BITS - 1)).wrapping_neg() | sign;
                (if self.is_nan() { <$bits>::MAX } else { bits ^ change }) as u64
            }
            fn is_lost(self) -> bool {
                self.is_nan()
            }
        }
    )*};
}
floats!(f64, u64; f32, u32);

impl SortKey for bool {
    const BITS: u32 = 1;
    fn key(self) -> u64 {
        self as u64
    }
}

impl SortKey for Scalar {
    const BITS: u32 = 64;
    fn key(self) -> u64 {
        match self {
            Scalar::Float(x) => x.key(),
            other => other.as_i64().key(),
        }
    }
    fn is_lost(self) -> bool {
        matches!(self, Scalar::Float(x) if x.is_nan())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_numbers() {
        let floats =
            [f64::NEG_INFINITY, -1e300, -1.5, -f64::MIN_POSITIVE / 2.0, 0.0, 5e-324, 1.0, 1e300, f64::INFINITY];
        assert!(floats.windows(2).all(|w| w[0].key() < w[1].key()));
        assert!(floats.iter().all(|x| x.key() < f64::NAN.key() && (*x as f32).key() < f32::NAN.key()));
        assert_eq!(((-0.0f64).key(), (-0.0f32).key()), (0.0f64.key(), 0.0f32.key()));
        assert_eq!((-f64::NAN).key(), f64::NAN.key());
        let integers = [i64::MIN, -300, -1, 0, 1, 127, i64::MAX];
        assert!(integers.windows(2).all(|w| w[0].key() < w[1].key()));
        assert_eq!([i8::MIN.key(), (-1i8).key(), 0i8.key(), i8::MAX.key()], [0, 127, 128, 255]);
        assert_eq!([0u8.key(), 255u8.key(), u64::MAX.key()], [0, 255, u64::MAX]);
        assert!(Scalar::Bool(false).key() < Scalar::Bool(true).key());
    }
}
