//! The arguments of an operator, as the exporter writes them for the kernel.

use crate::wrong;
use fulgurite::Error;

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// `Tensor`; a key is one of two integers.
    Tensor,
    /// `Tensor[]`.
    Tensors,
    /// `float`.
    Float,
    /// `int` or `SymInt`: a known integer of the row.
    Int,
    /// `SymInt`: a size of the program.
    Size,
    /// `bool`.
    Bool,
    /// `str`: a word of an enum, or a text.
    Text,
    /// `int[]`.
    Ints,
    /// `int[]`, of which a single item stands for every axis.
    Repeated,
    /// `SymInt[]`: sizes of the program.
    Sizes,
    /// `ScalarType`.
    Dtype,
    /// `str`: the text of a program; the tensors and sizes are its inputs.
    Program,
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The kind of the argument.
    pub kind: ArgumentKind,
    /// Whether it may be None.
    pub optional: bool,
}

/// The arguments that a text lists, one letter each; a small letter is an optional argument.
///
/// # Errors
/// E702 for another letter.
pub fn parameters(text: &str) -> Result<Vec<Parameter>, Error> {
    let one = |letter: char| {
        let kind = match letter.to_ascii_uppercase() {
            'T' | 'K' => ArgumentKind::Tensor,
            'X' => ArgumentKind::Tensors,
            'F' => ArgumentKind::Float,
            'I' => ArgumentKind::Int,
            'Z' => ArgumentKind::Size,
            'B' => ArgumentKind::Bool,
            'S' => ArgumentKind::Text,
            'L' => ArgumentKind::Ints,
            'R' => ArgumentKind::Repeated,
            'M' => ArgumentKind::Sizes,
            'D' => ArgumentKind::Dtype,
            'P' => ArgumentKind::Program,
            other => return Err(wrong(format!("`{other}` is no kind of an argument"))),
        };
        Ok(Parameter { kind, optional: letter.is_ascii_lowercase() })
    };
    text.chars().map(one).collect()
}
