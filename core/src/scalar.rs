//! A number outside any tensor: a literal, an option, an element that was read back.

use crate::dtype::DType;
use std::fmt;

/// A number with its category. Integers are exact i64, floats f64; the dtype of a computation decides the width.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Scalar {
    /// The dtype with which a bare number takes part in promotion, as in PyTorch's `result_type`: bool, i64 or the
    /// default float.
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::DEFAULT_FLOAT,
        }
    }

    /// The value of the number as f64 (i64 beyond 2^53 rounds).
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as i64 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
        }
    }

    /// The value of the number as i64; floats truncate and saturate.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(f) => f as i64,
        }
    }

    /// Whether it is not zero (NaN counts as true, as in comparisons with `!= 0`).
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(f) => f != 0.0,
        }
    }

    /// Bits that are equal for equal cache keys: NaN equals NaN, and 0.0 differs from -0.0.
    pub fn key_bits(self) -> (u8, u64) {
        match self {
            Scalar::Bool(b) => (0, b as u64),
            Scalar::Int(i) => (1, i as u64),
            Scalar::Float(f) => (2, f.to_bits()),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(i) => write!(f, "{i}"),
            Scalar::Float(x) if x.is_nan() => f.write_str("nan"),
            Scalar::Float(x) if x.is_infinite() => f.write_str(if *x > 0.0 { "inf" } else { "-inf" }),
            Scalar::Float(x) => write!(f, "{x:?}"),
        }
    }
}

macro_rules! from_number {
    ($($number:ty => $category:ident($wide:ty)),*) => {$(
        impl From<$number> for Scalar {
            fn from(x: $number) -> Scalar {
                Scalar::$category(<$wide>::from(x))
            }
        }
    )*};
}
from_number!(f64 => Float(f64), f32 => Float(f64), i64 => Int(i64), i32 => Int(i64), bool => Bool(bool));

impl From<usize> for Scalar {
    fn from(x: usize) -> Scalar {
        // A number that is too large saturates: wrapped it would be negative.
        Scalar::Int(i64::try_from(x).unwrap_or(i64::MAX))
    }
}
