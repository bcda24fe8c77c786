//! The words of an array library in Python.

use fulgurite::core::builtins::Builtin;
use fulgurite::core::{DType, Scalar};

/// An array library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayLibrary {
    /// PyTorch.
    Torch,
    /// `jax.numpy`, called `jnp`.
    Jnp,
}

impl ArrayLibrary {
    /// The library of this name.
    pub fn named(name: &str) -> Option<ArrayLibrary> {
        match name {
            "torch" => Some(ArrayLibrary::Torch),
            "jnp" => Some(ArrayLibrary::Jnp),
            _ => None,
        }
    }

    /// The imports that a text needs.
    pub fn imports(self) -> &'static str {
        match self {
            ArrayLibrary::Torch => "import math\n\nimport torch\n",
            ArrayLibrary::Jnp => "import math\n\nimport jax\nimport jax.numpy as jnp\n",
        }
    }

    /// The module of functions.
    pub fn module(self) -> &'static str {
        match self {
            ArrayLibrary::Torch => "torch",
            ArrayLibrary::Jnp => "jnp",
        }
    }

    fn special(self) -> &'static str {
        match self {
            ArrayLibrary::Torch => "torch.special",
            ArrayLibrary::Jnp => "jax.scipy.special",
        }
    }

    /// The expression of a builtin, with `{0}`, `{1}`, … for its arguments; `None` if the library has none.
    pub fn template(self, builtin: Builtin) -> Option<String> {
        let record = builtin.record();
        let text = match (self, record.jnp) {
            (ArrayLibrary::Jnp, Some(text)) => text,
            _ => record.array,
        };
        (!text.is_empty()).then(|| text.replace("{m}", self.module()).replace("{s}", self.special()))
    }

    /// A dtype; `None` if the library has none.
    pub fn dtype(self, dtype: DType) -> Option<String> {
        let name = match dtype {
            DType::F64 => "float64",
            DType::F32 => "float32",
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F8E4M3FN => "float8_e4m3fn",
            DType::F8E5M2 => "float8_e5m2",
            DType::F8E4M3FNUZ => "float8_e4m3fnuz",
            DType::F8E5M2FNUZ => "float8_e5m2fnuz",
            DType::F8E8M0FNU => "float8_e8m0fnu",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::I64 => "int64",
            DType::I32 => "int32",
            DType::I16 => "int16",
            DType::I8 => "int8",
            DType::U8 => "uint8",
            DType::Bool => "bool",
            _ => return None,
        };
        let name = if self == ArrayLibrary::Jnp && dtype == DType::Bool { "bool_" } else { name };
        Some(format!("{}.{name}", self.module()))
    }

    /// An array as another dtype; `None` if the library has no such conversion.
    pub fn cast(self, array: &str, dtype: DType) -> Option<String> {
        let name = self.dtype(dtype)?;
        match self {
            ArrayLibrary::Torch => Some(format!("{array}.to({name})")),
            // XLA turns numbers that are too large into NaN, and rows make the largest number
            ArrayLibrary::Jnp if dtype == DType::F8E4M3FN => None,
            ArrayLibrary::Jnp => Some(format!("{array}.astype({name})")),
        }
    }

    /// An array of rank 0.
    pub fn full(self, number: &str, dtype: &str) -> String {
        match self {
            ArrayLibrary::Torch => format!("torch.full((), {number}, dtype={dtype}, device=device)"),
            ArrayLibrary::Jnp => format!("jnp.full((), {number}, {dtype})"),
        }
    }

    /// The integers `from..to`.
    pub fn arange(self, from: &str, to: &str) -> String {
        match self {
            ArrayLibrary::Torch => format!("torch.arange({from}, {to}, device=device)"),
            ArrayLibrary::Jnp => format!("jnp.arange({from}, {to}, dtype=jnp.int64)"),
        }
    }

    /// An array with its axes in another order.
    pub fn permuted(self, array: &str, order: &str) -> String {
        match self {
            ArrayLibrary::Torch => format!("{array}.permute({order})"),
            ArrayLibrary::Jnp => format!("{array}.transpose({order})"),
        }
    }

    /// A result: PyTorch's operators give dense memory of their own, so a view is copied.
    pub fn result(self, array: &str, is_view: bool) -> String {
        match (self, is_view) {
            (ArrayLibrary::Jnp, _) => array.to_owned(),
            (ArrayLibrary::Torch, false) => format!("{array}.contiguous()"),
            (ArrayLibrary::Torch, true) => format!("{array}.clone(memory_format=torch.contiguous_format)"),
        }
    }
}

/// A number as Python writes it.
pub fn number(s: Scalar, dtype: DType) -> String {
    match s {
        Scalar::Bool(b) => if b { "True" } else { "False" }.to_owned(),
        // all bits of a byte without sign
        Scalar::Int(i) if dtype == DType::U8 => i.rem_euclid(256).to_string(),
        Scalar::Int(i) => i.to_string(),
        Scalar::Float(x) if x.is_nan() => "math.nan".to_owned(),
        Scalar::Float(x) if x.is_infinite() => if x > 0.0 { "math.inf" } else { "-math.inf" }.to_owned(),
        Scalar::Float(x) => format!("{x:?}"),
    }
}
