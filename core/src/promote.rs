//! Type promotion, exactly PyTorch's: the pairwise join, the join of tensors, rank-0 tensors and numbers, and the
//! kinds by which a row derives its compute and result dtypes from the join.
//!
//! The join is that of the order bool < {u8, i8} < i16 < i32 < i64 < {f16, bf16} < f32 < f64 with u8 ∨ i8 = i16 and
//! f16 ∨ bf16 = f32, so folding order can't matter. Complex half types (c32, bc32) do not exist here: where PyTorch
//! answers with one of them, [`join`] refuses.

use crate::dtype::{Category, DType};
use crate::scalar::Scalar;

/// The least dtype that holds both (`torch.promote_types`).
pub fn promote(a: DType, b: DType) -> DType {
    use DType::*;
    let (low, high) = if a <= b { (a, b) } else { (b, a) };
    match (low, high) {
        (U8, I8) => I16,
        (F16, BF16) => F32,
        (F64, C64) => C128,
        // `DType` is declared in promotion order, except for the pairs above.
        _ => high,
    }
}

/// The join of dtypes regardless of rank; `None` if there are none, or if a storage dtype meets another dtype.
pub fn join_dtypes(dtypes: impl IntoIterator<Item = DType>) -> Option<DType> {
    let mut dtypes = dtypes.into_iter();
    let first = dtypes.next()?;
    dtypes.try_fold(first, |a, b| (a == b || !(a.is_storage() || b.is_storage())).then(|| promote(a, b)))
}

/// An argument in the view of promotion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor {
        /// The dtype of the tensor.
        dtype: DType,
        /// Whether its rank is 0: then it only decides the category, unless nothing outranks it.
        rank0: bool,
    },
    /// A number outside any tensor, by the dtype of [`Scalar::dtype`].
    Number(DType),
}

impl From<Scalar> for Operand {
    fn from(number: Scalar) -> Operand {
        Operand::Number(number.dtype())
    }
}

impl Operand {
    /// The argument's tier: tensors (0) decide before rank-0 tensors (1), and those before numbers (2).
    fn tier(self) -> usize {
        match self {
            Operand::Tensor { rank0: false, .. } => 0,
            Operand::Tensor { rank0: true, .. } => 1,
            Operand::Number(_) => 2,
        }
    }

    fn dtype(self) -> DType {
        match self {
            Operand::Tensor { dtype, .. } | Operand::Number(dtype) => dtype,
        }
    }
}

/// A join in progress: PyTorch's c32 and bc32 may arise below a tier that absorbs them.
#[derive(Clone, Copy)]
enum Partial {
    Known(DType),
    HalfComplex,
}

impl Partial {
    fn category(self) -> Category {
        match self {
            Partial::Known(d) => d.category(),
            Partial::HalfComplex => Category::Complex,
        }
    }
}

/// `hi` decides unless `lo` has the higher category, as in PyTorch's `result_type`.
fn combine(hi: Partial, lo: Partial) -> Partial {
    use DType::*;
    let Partial::Known(strong) = hi else { return hi };
    if lo.category() <= strong.category() {
        return hi;
    }
    match (strong, lo) {
        // A complex number takes the width of the float beside it.
        (F16 | BF16, lo) if lo.category() == Category::Complex => Partial::HalfComplex,
        (F32, lo) if lo.category() == Category::Complex => Partial::Known(C64),
        (F64, lo) if lo.category() == Category::Complex => Partial::Known(C128),
        (_, Partial::HalfComplex) => Partial::HalfComplex,
        (strong, Partial::Known(weak)) => Partial::Known(promote(strong, weak)),
    }
}

/// The common dtype of `operands` (`torch.result_type`, for any number of them).
///
/// `None` if there are no operands, or if the answer would be a half-width complex dtype (E204).
pub fn join(operands: &[Operand]) -> Option<DType> {
    // A storage dtype has no arithmetic, so it joins only with itself.
    join_dtypes(operands.iter().filter(|o| o.tier() < 2).map(|o| o.dtype()).filter(|d| d.is_storage()))
        .map_or(Some(()), |storage| operands.iter().all(|o| o.tier() == 2 || o.dtype() == storage).then_some(()))?;
    let tier = |t| join_dtypes(operands.iter().filter(|o| o.tier() == t).map(|o| o.dtype())).map(Partial::Known);
    match [tier(0), tier(1), tier(2)].into_iter().flatten().rev().reduce(|lo, hi| combine(hi, lo))? {
        Partial::Known(dtype) => Some(dtype),
        Partial::HalfComplex => None,
    }
}

/// [`join`] by the `promote` of a row, which may say that ranks do not count.
pub fn join_by(kind: Option<Kind>, operands: &[Operand]) -> Option<DType> {
    match kind {
        Some(Kind::Join) => join_dtypes(operands.iter().map(|o| o.dtype())),
        _ => join(operands),
    }
}

crate::words! {
    /// How a row derives its compute and result dtypes from the join of its arguments (the row key `promote`).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub enum Kind: name, from_name {
        /// Computes in the join's [`opmath`](DType::opmath); the result has the join.
        Default = "default",
        /// Integers and bool become the default float.
        Float = "float",
        /// The result is bool.
        Bool = "bool",
        /// A complex join gives the real dtype of its width.
        Real = "real",
        /// Pure data motion: no conversion to opmath.
        Keep = "keep",
        /// The arguments must already agree; otherwise as [`Kind::Default`].
        Equal = "equal",
        /// All arguments join, rank ignored ([`join_dtypes`]); otherwise as [`Kind::Default`].
        Join = "join",
        /// bool becomes i64.
        LongIfBool = "long_if_bool",
        /// bool and integers become i64 (sum-like).
        LongIfInt = "long_if_int",
    }
}

impl Kind {
    /// (compute dtype, result dtype) for arguments whose join is `joined`.
    pub fn apply(self, joined: DType) -> (DType, DType) {
        let category = joined.category();
        let result = match self {
            Kind::Float if category <= Category::Int => DType::DEFAULT_FLOAT,
            Kind::LongIfBool if category == Category::Bool => DType::I64,
            Kind::LongIfInt if category <= Category::Int => DType::I64,
            _ => joined,
        };
        match self {
            Kind::Keep => (result, result),
            Kind::Bool => (result.opmath(), DType::Bool),
            Kind::Real => (result.opmath(), result.real()),
            _ => (result.opmath(), result),
        }
    }
}
