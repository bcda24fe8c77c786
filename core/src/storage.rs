//! The Rust types of elements that are stored as codes: no arithmetic is done on them.

/// An eight-bit float, e4m3fn, as its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct F8E4M3(pub u8);

/// An eight-bit float, e5m2, as its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct F8E5M2(pub u8);

/// Two integers of four bits; the first of them in the low half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct U4x2(pub u8);
