//! Element types, their categories and the classes by which rows name sets of them.

use std::fmt;

/// An element type. `C64` and `C128` exist only in the promotion table. The last three are for storage: tensors of them
/// are moved and cast, and a subclass defines how they compute.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    U8,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    F8E4M3FN,
    F8E5M2,
    U4X2,
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
    /// Every dtype, in promotion-table order.
    pub const ALL: [DType; 15] = [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128, F8E4M3FN, F8E5M2, U4X2];
    /// The storage dtypes, which encode numbers for others: floats of eight bits, and bytes of two integers of four
    /// bits.
    pub const STORAGE: [DType; 3] = [F8E4M3FN, F8E5M2, U4X2];
    /// The dtypes that tensors compute in.
    pub const STORED: [DType; 10] = [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64];
    /// The dtype that integers become where a float is needed.
    pub const DEFAULT_FLOAT: DType = F32;

    /// The name used in rows, traces and messages.
    pub fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "u8",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            C64 => "c64",
            C128 => "c128",
            F8E4M3FN => "f8e4m3fn",
            F8E5M2 => "f8e5m2",
            U4X2 => "u4x2",
        }
    }

    /// The dtype with this name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

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
            "complex64" => C64,
            "complex128" => C128,
            _ => return None,
        })
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            Bool | U8 | I8 | F8E4M3FN | F8E5M2 | U4X2 => 1,
            I16 | F16 | BF16 => 2,
            I32 | F32 => 4,
            I64 | F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// Its category.
    #[inline]
    pub fn category(self) -> Category {
        match self {
            Bool => Category::Bool,
            U8 | I8 | I16 | I32 | I64 | U4X2 => Category::Int,
            F16 | BF16 | F32 | F64 | F8E4M3FN | F8E5M2 => Category::Float,
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

    /// Whether its numbers are integers, u8 to i64 and the storage dtype of integers.
    #[inline]
    pub fn is_int(self) -> bool {
        self.category() == Category::Int
    }

    /// The distance from 1 to the next float (that of f64 for other dtypes).
    pub fn epsilon(self) -> f64 {
        match self {
            DType::F16 => 9.765625e-4,
            DType::BF16 => 7.8125e-3,
            DType::F8E4M3FN => 0.125,
            DType::F8E5M2 => 0.25,
            DType::F32 | DType::C64 => f32::EPSILON as f64,
            _ => f64::EPSILON,
        }
    }

    /// The largest finite number, rounded to f64.
    pub fn largest(self) -> f64 {
        match self {
            DType::Bool => 1.0,
            DType::U8 | DType::U4X2 => u8::MAX as f64,
            DType::F8E4M3FN => 448.0,
            DType::F8E5M2 => 57344.0,
            DType::I8 => i8::MAX as f64,
            DType::I16 => i16::MAX as f64,
            DType::I32 => i32::MAX as f64,
            DType::I64 => i64::MAX as f64,
            DType::F16 => 65504.0,
            DType::BF16 => 3.3895313892515355e38,
            DType::F32 | DType::C64 => f32::MAX as f64,
            DType::F64 | DType::C128 => f64::MAX,
        }
    }

    /// The dtype in which arithmetic on this one is done: narrow floats compute in f32.
    pub fn opmath(self) -> DType {
        match self {
            F16 | BF16 | F8E4M3FN | F8E5M2 => F32,
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

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of dtypes, as the row key `dtypes` states it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DTypeSet(u16);

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
            "storage" => DTypeSet::of(&DType::STORAGE),
            _ => DTypeSet::of(&[DType::from_name(name)?]),
        })
    }

    const fn of(dtypes: &[DType]) -> DTypeSet {
        let (mut bits, mut at) = (0, 0);
        while at < dtypes.len() {
            bits |= 1 << dtypes[at] as u16;
            at += 1;
        }
        DTypeSet(bits)
    }

    /// Whether `d` is in the set.
    pub fn contains(self, d: DType) -> bool {
        self.0 & (1 << d as u16) != 0
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
        DTypeSet(iter.into_iter().fold(0, |bits, d| bits | 1 << d as u16))
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
