//! The bits by which a dtype stores a number, and the Rust types of elements that are stored as codes.

use crate::{DType, Scalar, minifloat};
use half::{bf16, f16};

/// The bits of a number of `dtype`, in the low bytes of the word; a float of 4 bits and an integer of fewer than 8 take a
/// byte. An integer is extended by its sign. Complex numbers have no elements and give 0.
pub fn encode(x: Scalar, dtype: DType) -> u64 {
    match dtype {
        DType::F16 => u64::from(f16::from_f64(x.as_f64()).to_bits()),
        DType::BF16 => u64::from(bf16::from_f64(x.as_f64()).to_bits()),
        DType::F32 => u64::from((x.as_f64() as f32).to_bits()),
        DType::F64 => x.as_f64().to_bits(),
        DType::C64 | DType::C128 => 0,
        _ if dtype.is_float() => u64::from(minifloat::encode(x.as_f64() as f32, dtype)),
        _ => x.as_i64() as u64,
    }
}

/// The number with these bits, of which those beyond the dtype's size are ignored. A u64 is the i64 of the same
/// bits.
pub fn decode(bits: u64, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(bits as u8 != 0),
        DType::F16 => Scalar::Float(f16::from_bits(bits as u16).to_f64()),
        DType::BF16 => Scalar::Float(bf16::from_bits(bits as u16).to_f64()),
        DType::F32 => Scalar::Float(f64::from(f32::from_bits(bits as u32))),
        DType::F64 => Scalar::Float(f64::from_bits(bits)),
        _ if dtype.is_float() => Scalar::Float(f64::from(minifloat::decode(bits as u8, dtype))),
        _ => Scalar::Int(dtype.wrapped(bits as i64)),
    }
}

/// A number of `dtype` as an f64, with the sign that it has: as a [`Scalar`], a u64 from 2^63 on is negative.
pub fn as_f64(x: Scalar, dtype: DType) -> f64 {
    match (x, dtype) {
        (Scalar::Int(bits), DType::U64) => bits as u64 as f64,
        _ => x.as_f64(),
    }
}

/// A number of `dtype` as a text, with the sign that it has.
pub fn text(x: Scalar, dtype: DType) -> String {
    match (x, dtype) {
        (Scalar::Int(bits), DType::U64) => (bits as u64).to_string(),
        _ => x.to_string(),
    }
}

/// Defines the Rust type of an element that is stored as a byte.
macro_rules! byte {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u8);
    )*};
}

byte! {
    /// A float of eight bits, e4m3fn, as its code.
    F8E4M3;
    /// A float of eight bits, e5m2, as its code.
    F8E5M2;
    /// Two integers of four bits; the first of them in the low half.
    U4x2;
}
