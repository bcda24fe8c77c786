//! The scalar builtins, the trusted core: every `expr` computes with them.
//!
//! The table ([`TABLE`]) has one record per builtin: its domain of dtypes, the dtype of its value, its partial
//! derivatives as text in the scalar language, its kinks, its cost, and its spelling in kernels. [`eval`] computes its
//! value in f64, in integers of any width, and in bool. No derivation can check this table, so it is tested hardest:
//! values against series and recorded values, partials against differences, special points one by one
//! (`tests/builtins.rs`).
//!
//! Conventions at special points are PyTorch's; `tests/builtins.rs` has the values that PyTorch 2.15 gave.

mod bessel;
pub mod cuda;
mod erf;
pub mod eval;
mod gamma;
mod table;

use crate::dtype::{Category, DType, DTypeSet};
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

pub use bessel::{i0, i0e, i1, i1e};
pub use cuda::CUDA_PRELUDE;
pub use erf::{erf, erfc, erfcx, erfinv};
pub use eval::{IntError, cast_f64, cast_int, cast_scalar, eval_bool, eval_f64, eval_int, gcd, lcm};
pub use gamma::{digamma, lgamma, polygamma};
pub use table::TABLE;

/// A scalar builtin; [`Builtin::record`] has everything about it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Builtin {
    Neg,
    Not,
    Add,
    Sub,
    Mul,
    Div,
    And,
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Abs,
    Sign,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Exp,
    Exp2,
    Expm1,
    Ln,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Erfc,
    Erfinv,
    Erfcx,
    Lgamma,
    Digamma,
    Polygamma,
    I0,
    I0e,
    I1,
    I1e,
    Sigmoid,
    Floor,
    Ceil,
    Round,
    Trunc,
    Pow,
    Atan2,
    Hypot,
    Copysign,
    Nextafter,
    Max,
    Min,
    RemTrunc,
    RemFloor,
    DivFloor,
    DivTrunc,
    Isnan,
    Isinf,
    Isfinite,
    Select,
    Cast,
    Bitand,
    Bitor,
    Bitxor,
    Bitnot,
    Shl,
    Shr,
    Gcd,
    Lcm,
    Uniform,
}

/// The compute dtypes on which a builtin is defined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Floats only: a row with integers must say `promote: float`.
    Float,
    /// Integers and floats; integer arithmetic wraps in its own width.
    Number,
    /// bool and integers.
    Bits,
    /// Integers only.
    Int,
    /// bool only.
    Bool,
    /// Every dtype of tensors. On bool, `add` is or and `mul` is and.
    All,
}

impl Domain {
    /// The dtypes of the domain.
    pub fn dtypes(self) -> DTypeSet {
        DTypeSet::all().iter().filter(|dtype| self.contains(*dtype)).collect()
    }

    /// Whether `dtype` belongs to the domain.
    pub fn contains(self, dtype: DType) -> bool {
        let category = dtype.category();
        let belongs = match self {
            Domain::Float => category == Category::Float,
            Domain::Number => matches!(category, Category::Float | Category::Int),
            Domain::Bits => matches!(category, Category::Bool | Category::Int),
            Domain::Int => category == Category::Int,
            Domain::Bool => category == Category::Bool,
            Domain::All => category != Category::Complex,
        };
        belongs && !dtype.is_storage()
    }
}

/// The dtype of the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultRule {
    /// The dtype of the arguments, which agree (for `select`: of the last two).
    Same,
    /// bool.
    Bool,
    /// The dtype that the cast names.
    Target,
    /// Any float dtype: the number is a multiple of 2^-24, hence equal in f32 and f64.
    Fraction,
}

/// The derivative in one argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partial {
    /// Text in the scalar language over the argument names and `out`.
    Text(&'static str),
    /// Zero wherever it exists, and zero by convention elsewhere (jumps, NaN).
    Zero,
    /// The derivative of the branch taken: `select` passes the cotangent to one side and never multiplies.
    Branch,
    /// The derivative of a cast: 1 between floats, none to or from bool and integers.
    Cast,
    /// The argument is bool, an integer or a key.
    None,
}

/// The entry of the table for a builtin.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The builtin that the record describes.
    pub builtin: Builtin,
    /// The name of the builtin in `expr` (operators have one too: `neg`, `add`, …).
    pub name: &'static str,
    /// Argument names, as the partials use them: `x`, `x y`, or `c x y`.
    pub args: &'static [&'static str],
    /// Compute dtypes.
    pub domain: Domain,
    /// Dtype of the value.
    pub result: ResultRule,
    /// One partial per argument.
    pub partials: &'static [Partial],
    /// Partials to use instead where the *other* argument is a number or an option, not a tensor: the derivative of
    /// smallest norm at a tie. Empty: `partials` hold there too.
    pub partials_against_number: &'static [&'static str],
    /// Some partial is infinite at a point or an edge of the domain, so a zero cotangent there gives NaN.
    pub unbounded: bool,
    /// Condition over the arguments and `out` that holds at kinks and jumps (empty: smooth inside its domain).
    pub kink: &'static str,
    /// Per float argument, an interval inside the real domain with well-scaled values, for property tests.
    pub sample: &'static [(f64, f64)],
    /// Text of the CPU kernel: `{0}`, `{1}`, … are the arguments, `I` the instruction set, `{t}` a cast's target.
    pub cpu: &'static str,
    /// Text of the CUDA C expression, over [`CUDA_PRELUDE`].
    pub cuda: &'static str,
    /// Text of a Python expression over arrays: `{m}` is `torch` or `jnp`, `{s}` the special functions of either, `{#0}`
    /// an argument that must be a constant. An argument of an operator may be a number; one of a function is an array.
    /// Empty: there is no such expression.
    pub array: &'static str,
    /// The text for `jnp`, where it differs.
    pub jnp: Option<&'static str>,
    /// MathML of the formula: `{0}` is an argument, `{(0)}` an argument in parentheses unless it is one symbol. Empty: the
    /// name before the arguments in parentheses.
    pub math: &'static str,
    /// Cost of one element in units of an addition.
    pub flops: u32,
}

impl Record {
    /// Number of arguments.
    pub fn arity(&self) -> usize {
        self.args.len()
    }

    /// Whether every partial vanishes or does not exist, so that no gradient passes.
    pub fn is_flat(&self) -> bool {
        self.partials.iter().all(|p| matches!(p, Partial::Zero | Partial::None))
    }
}

impl Builtin {
    /// The builtin's entry in the table.
    pub fn record(self) -> &'static Record {
        // The table is in declaration order; a test holds that.
        &TABLE[self as usize]
    }

    /// The builtin's name in rows.
    pub fn name(self) -> &'static str {
        self.record().name
    }

    /// The builtin called `name`.
    pub fn from_name(name: &str) -> Option<Builtin> {
        static NAMES: LazyLock<FxHashMap<&'static str, Builtin>> =
            LazyLock::new(|| TABLE.iter().map(|r| (r.name, r.builtin)).collect());
        NAMES.get(name).copied()
    }

    /// Every builtin, in table order.
    pub fn all() -> impl Iterator<Item = Builtin> {
        TABLE.iter().map(|r| r.builtin)
    }

    /// The dtype of the value on arguments of `dtype`; `target` is the dtype that a cast names.
    ///
    /// `None` where the builtin isn't defined on `dtype` (E202).
    pub fn result_dtype(self, dtype: DType, target: DType) -> Option<DType> {
        let record = self.record();
        record.domain.contains(dtype).then_some(match record.result {
            ResultRule::Same | ResultRule::Fraction => dtype,
            ResultRule::Bool => DType::Bool,
            ResultRule::Target => target,
        })
    }
}
