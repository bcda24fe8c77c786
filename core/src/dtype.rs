//! Element types, their categories and the classes by which rows name sets of them.

use crate::minifloat;
use std::fmt;

crate::words! {
    /// An element type. `C64` and `C128` exist only in the promotion table. Those from `F8E4M3FN` on are for storage: tensors
    /// of them are moved and cast, and a row or a subclass that reads them says how they compute.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
    #[allow(missing_docs)]
    pub enum DType: name, from_name {
        Bool = "bool",
        U8 = "u8",
        I8 = "i8",
        I16 = "i16",
        I32 = "i32",
        I64 = "i64",
        F16 = "f16",
        BF16 = "bf16",
        F32 = "f32",
        F64 = "f64",
        C64 = "c64",
        C128 = "c128",
        F8E4M3FN = "f8e4m3fn",
        F8E5M2 = "f8e5m2",
        U4X2 = "u4x2",
        F8E4M3FNUZ = "f8e4m3fnuz",
        F8E5M2FNUZ = "f8e5m2fnuz",
        F8E8M0FNU = "f8e8m0fnu",
        F4E2M1FN = "f4e2m1fn",
        I2 = "i2",
        U2 = "u2",
        I4 = "i4",
        U4 = "u4",
        U16 = "u16",
        U32 = "u32",
        U64 = "u64",
    }
}

/// bool < int < float < complex: the category decides between tensors of different rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Category {
    Bool,
    Int,
    Float,
    Complex,
}

use DType::*;

impl DType {
    /// The storage dtypes: floats of four and eight bits, bytes of two integers of four bits, integers of two and four
    /// bits in a byte each, and unsigned integers of 16 and more bits.
    pub const STORAGE: [DType; 14] =
        [F8E4M3FN, F8E5M2, U4X2, F8E4M3FNUZ, F8E5M2FNUZ, F8E8M0FNU, F4E2M1FN, I2, U2, I4, U4, U16, U32, U64];
    /// The dtypes that tensors compute in.
    pub const STORED: [DType; 10] = [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64];
    /// The dtype that integers become where a float is needed.
    pub const DEFAULT_FLOAT: DType = F32;

    /// The dtype with this NumPy or PyTorch name, where the name differs from ours.
    pub fn from_foreign_name(name: &str) -> Option<DType> {
        Some(match name {
            "float16" => F16,
            "bfloat16" => BF16,
            "float32" => F32,
            "float64" => F64,
            "int8" => I8,
            "int16" => I16,
            "int32" => I32,
            "int64" => I64,
            "uint8" => U8,
            "uint16" => U16,
            "uint32" => U32,
            "uint64" => U64,
            "complex64" => C64,
            "complex128" => C128,
            _ => return None,
        })
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Bool | U8 | I8 | F8E4M3FN | F8E5M2 | U4X2 | F8E4M3FNUZ | F8E5M2FNUZ | F8E8M0FNU | F4E2M1FN => 1,
            I2 | U2 | I4 | U4 => 1,
            I16 | F16 | BF16 | U16 => 2,
            I32 | F32 | U32 => 4,
            I64 | F64 | C64 | U64 => 8,
            C128 => 16,
        }
    }

    /// The category of the dtype.
    #[inline]
    pub fn category(self) -> Category {
        match self {
            Bool => Category::Bool,
            U8 | I8 | I16 | I32 | I64 | U4X2 | I2 | U2 | I4 | U4 | U16 | U32 | U64 => Category::Int,
            F16 | BF16 | F32 | F64 => Category::Float,
            F8E4M3FN | F8E5M2 | F8E4M3FNUZ | F8E5M2FNUZ | F8E8M0FNU | F4E2M1FN => Category::Float,
            C64 | C128 => Category::Complex,
        }
    }

    /// Whether its numbers are floats.
    #[inline]
    pub fn is_float(self) -> bool {
        self.category() == Category::Float
    }

    /// Whether the dtype is for storage only.
    pub fn is_storage(self) -> bool {
        DType::STORAGE.contains(&self)
    }

    /// Whether tensors of it have gradients: f16, bf16, f32 or f64.
    pub fn has_gradient(self) -> bool {
        self.is_float() && !self.is_storage()
    }

    /// Whether its numbers are integers, u8 to i64 and the storage dtypes of integers.
    #[inline]
    pub fn is_int(self) -> bool {
        self.category() == Category::Int
    }

    /// The distance from 1 to the next float (that of f64 for other dtypes).
    pub fn epsilon(self) -> f64 {
        match self {
            DType::F16 => 9.765625e-4,
            DType::BF16 => 7.8125e-3,
            DType::F32 | DType::C64 => f32::EPSILON as f64,
            _ if self.is_float() && self.is_storage() => minifloat::epsilon(self),
            _ => f64::EPSILON,
        }
    }

    /// The largest finite number, rounded to f64.
    pub fn largest(self) -> f64 {
        match self {
            DType::Bool => 1.0,
            DType::U64 => u64::MAX as f64,
            DType::F16 => 65504.0,
            DType::BF16 => 3.3895313892515355e38,
            DType::F32 | DType::C64 => f32::MAX as f64,
            DType::F64 | DType::C128 => f64::MAX,
            _ if self.is_float() => minifloat::largest(self),
            _ => self.integers().1 as f64,
        }
    }

    /// The least finite number, rounded to f64.
    pub fn lowest(self) -> f64 {
        if self.is_float() { -self.largest() } else { self.integers().0 as f64 }
    }

    /// The least and the largest integer of an integer dtype, or of bool; of a u64 the largest is 2^63 - 1, beyond
    /// which it is held as a negative number.
    pub fn integers(self) -> (i64, i64) {
        let unsigned = |bits: u32| (0, (1i64 << bits) - 1);
        let signed = |bits: u32| (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1);
        match self {
            Bool => (0, 1),
            U2 => unsigned(2),
            U4 => unsigned(4),
            U8 | U4X2 => unsigned(8),
            U16 => unsigned(16),
            U32 => unsigned(32),
            U64 => (0, i64::MAX),
            I2 => signed(2),
            I4 => signed(4),
            I8 => signed(8),
            I16 => signed(16),
            I32 => signed(32),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// The integer of an integer dtype, or of bool, that has the low bits of `x`; a u64 is held as the i64 of its bits.
    pub fn wrapped(self, x: i64) -> i64 {
        match self {
            Bool => i64::from(x != 0),
            I64 | U64 => x,
            _ => {
                let (least, most) = self.integers();
                (x.wrapping_sub(least) & (most - least)) + least
            }
        }
    }

    /// The dtype in which arithmetic on this one is done: narrow floats compute in f32, and integers for storage in an
    /// integer dtype for arithmetic that has their numbers (i64 for u64, whose sums and products have the same bits).
    pub fn opmath(self) -> DType {
        match self {
            I2 | I4 => I8,
            U2 | U4 => U8,
            U16 => I32,
            U32 | U64 => I64,
            F64 | C64 | C128 => self,
            d if d.is_float() => F32,
            d => d,
        }
    }

    /// The accumulation type of sums: half types in f32, bool and integers in i64.
    pub fn accumulate(self) -> DType {
        match self.category() {
            Category::Bool | Category::Int => I64,
            _ => self.opmath(),
        }
    }

    /// The real dtype of the same width (itself unless complex).
    pub fn real(self) -> DType {
        match self {
            C64 => F32,
            C128 => F64,
            d => d,
        }
    }
}

/// A set of dtypes, as the row key `dtypes` states it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DTypeSet(u32);

impl DTypeSet {
    /// No dtype.
    pub const EMPTY: DTypeSet = DTypeSet(0);

    /// The complex dtypes.
    pub const COMPLEX: DTypeSet = DTypeSet::of(&[C64, C128]);

    /// Every dtype that tensors can have.
    pub fn all() -> DTypeSet {
        DTypeSet::of(&DType::STORED)
    }

    /// The set with this class or dtype name: `float`, `int`, `bool`, `complex`, `all`, `f32`, …
    pub fn from_class(name: &str) -> Option<DTypeSet> {
        Some(match name {
            "all" => DTypeSet::all().union(DTypeSet::COMPLEX),
            "float" => DTypeSet::of(&[F16, BF16, F32, F64]),
            "int" => DTypeSet::of(&[U8, I8, I16, I32, I64]),
            "complex" => DTypeSet::COMPLEX,
            "f8" => DTypeSet::of(&[F8E4M3FN, F8E5M2]),
            "unsigned" => DTypeSet::of(&[U16, U32, U64]),
            "storage" => DTypeSet::of(&DType::STORAGE),
            _ => DTypeSet::of(&[DType::from_name(name)?]),
        })
    }

    const fn of(dtypes: &[DType]) -> DTypeSet {
        let (mut bits, mut at) = (0, 0);
        while at < dtypes.len() {
            bits |= 1 << dtypes[at] as u32;
            at += 1;
        }
        DTypeSet(bits)
    }

    /// Whether `d` is in the set.
    pub fn contains(self, d: DType) -> bool {
        self.0 & (1 << d as u32) != 0
    }

    /// Members of either.
    pub fn union(self, other: DTypeSet) -> DTypeSet {
        DTypeSet(self.0 | other.0)
    }

    /// Members of `self` that are not in `other`.
    pub fn minus(self, other: DTypeSet) -> DTypeSet {
        DTypeSet(self.0 & !other.0)
    }

    /// Members in promotion-table order.
    pub fn iter(self) -> impl Iterator<Item = DType> {
        DType::ALL.into_iter().filter(move |d| self.contains(*d))
    }

    /// Whether nothing is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<DType> for DTypeSet {
    fn from_iter<I: IntoIterator<Item = DType>>(iter: I) -> DTypeSet {
        DTypeSet(iter.into_iter().fold(0, |bits, d| bits | 1 << d as u32))
    }
}

impl fmt::Display for DTypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(DType::name).collect();
        f.write_str(&names.join(" "))
    }
}

impl fmt::Debug for DTypeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_to_their_bits() {
        let cases =
            [(U16, -1, 65535), (U32, 1 << 32, 0), (I4, 9, -7), (I2, 2, -2), (U2, -9, 3), (I32, 1 << 31, -1 << 31)];
        for (dtype, x, wrapped) in cases {
            assert_eq!(dtype.wrapped(x), wrapped, "{dtype}");
        }
        for dtype in DType::ALL.into_iter().filter(|d| d.is_int() && *d != U64) {
            let (least, most) = dtype.integers();
            assert_eq!((dtype.wrapped(least), dtype.wrapped(most)), (least, most), "{dtype}");
            assert_eq!(dtype.wrapped(most.wrapping_add(1)), least, "{dtype}");
        }
    }

    #[test]
    fn classes_are_those_of_categories() {
        let of =
            |category| DType::ALL.into_iter().filter(move |d| d.category() == category && !d.is_storage()).collect();
        let classes = [("int", Category::Int), ("float", Category::Float), ("complex", Category::Complex)];
        for (class, category) in classes {
            assert!(DTypeSet::from_class(class) == Some(of(category)), "{class}");
        }
        let all = DType::ALL.into_iter().filter(|d| !d.is_storage()).collect();
        assert!(DTypeSet::from_class("all") == Some(all));
        assert!(DTypeSet::from_class("bool") == Some([Bool].into_iter().collect()));
    }
}
