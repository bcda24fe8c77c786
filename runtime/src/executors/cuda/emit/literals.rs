//! Literals that a general kernel takes as arguments.
//!
//! Kernels are printed with marks around each number that stems from a size, a stride or a
//! constant. One print gives two texts: the *specialised* text, in which each marked number is a
//! literal, and the *general* text, in which each is a parameter. A general kernel that is launched
//! with the numbers of the print computes the values of the specialised one.
//!
//! Parameters are numbered by the places at which they occur, whatever their values are. So two
//! shapes have one general text, even if some of their sizes happen to be equal. Their texts differ
//! only if a choice of the emitter differs, such as the width of a pack. Numbers that the compiler
//! must know (lengths of arrays, unrolled loops, arguments of templates) are not marked.

use fulgurite_core::builtins::cuda;
use fulgurite_core::{DType, Scalar};
use std::fmt::Write;

/// A mark is `OPEN kind general NEXT specialised CLOSE`; no kernel and no row has these characters.
const OPEN: char = '\u{1}';
const NEXT: char = '\u{2}';
const CLOSE: char = '\u{3}';

/// The kinds of marks: a number of the kernel's index type, a number of 64 bits, a constant, and two texts.
const INDEX: char = 'i';
const WIDE: char = 'w';
const CONSTANT: char = 'c';
const EITHER: char = '?';

/// Texts are compared by a length in which each mark counts for this much, so that no choice depends on digits.
const LENGTH: usize = 4;

/// A size, stride or offset in computations of the kernel's index type.
pub(super) fn size(n: impl TryInto<i64> + ToString) -> String {
    marked(INDEX, n)
}

/// A size or stride in computations of 64 bits.
pub(super) fn wide(n: impl TryInto<i64> + ToString) -> String {
    marked(WIDE, n)
}

fn marked(kind: char, n: impl TryInto<i64> + ToString) -> String {
    let literal = n.to_string();
    match n.try_into() {
        Ok(n) => format!("{OPEN}{kind}{n}{NEXT}{literal}{CLOSE}"),
        // a number beyond i64 stays in the text
        Err(_) => literal,
    }
}

/// A constant of a row or of a size that was folded. Numbers that rows themselves are written with, such as 0 and 1,
/// are not marked, because the compiler simplifies operations with them.
pub(super) fn constant(value: Scalar, dtype: DType) -> String {
    let literal = cuda::literal(value, dtype);
    let float = value.as_f64();
    if dtype == DType::Bool || !float.is_finite() || [0.0, 0.5, 1.0, 2.0].contains(&float.abs()) {
        return literal;
    }
    let bits = match dtype {
        DType::F64 => float.to_bits(),
        d if d.is_float() => match float as f32 {
            single if single.is_finite() => u64::from(single.to_bits()),
            _ => return literal,
        },
        _ => value.as_i64() as u64,
    };
    format!("{OPEN}{CONSTANT}{bits}:{dtype}{NEXT}{literal}{CLOSE}")
}

/// A text of the general kernel, and the text that the specialised kernel has in its place. The first is right for
/// every shape whose general text it is part of.
pub(super) fn either(general: &str, specialised: &str) -> String {
    format!("{OPEN}{EITHER}{general}{NEXT}{specialised}{CLOSE}")
}

/// The length of a text, whatever the digits of its marked numbers are.
pub(super) fn length(text: &str) -> usize {
    let (mut all, mut rest) = (0, text);
    while let Some((before, mark, behind)) = first(rest) {
        all += before.len() + if mark.kind == EITHER { length(mark.specialised) } else { LENGTH };
        rest = behind;
    }
    all + rest.len()
}

pub(super) fn specialised(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, mark, behind)) = first(rest) {
        out += before;
        out += &specialised(mark.specialised);
        rest = behind;
    }
    out + rest
}

/// The parameters of a general text that stand for numbers.
#[derive(Default)]
pub(super) struct Parameters {
    /// The declarations, such as `const int size0`.
    pub declared: Vec<String>,
    /// The numbers of this print, each in the low bytes of a word.
    pub words: Vec<u64>,
}

/// The general text; `ix` is the index type of the kernel.
pub(super) fn general(text: &str, ix: &str, parameters: &mut Parameters) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, mark, behind)) = first(rest) {
        out += before;
        if mark.kind == EITHER {
            out += &general(mark.general, ix, parameters);
        } else {
            let (ty, name, word) = parameter(&mark, ix);
            let at = parameters.words.len();
            parameters.declared.push(format!("const {ty} {name}{at}"));
            parameters.words.push(word);
            let _ = write!(out, "{name}{at}");
        }
        rest = behind;
    }
    out + rest
}

/// The type, the name and the word of a marked number.
fn parameter<'a>(mark: &Mark<'a>, ix: &'a str) -> (&'a str, &'static str, u64) {
    if mark.kind == CONSTANT {
        let (bits, dtype) = mark.general.split_once(':').unwrap_or((mark.general, ""));
        let ty = DType::from_name(dtype).map_or("long long", cuda::register_type);
        return (ty, "value", bits.parse().unwrap_or(0));
    }
    let n: i64 = mark.general.parse().unwrap_or(0);
    let fits = mark.kind == INDEX && i32::try_from(n).is_ok();
    (if fits { ix } else { "long long" }, "size", n as u64)
}

/// A mark in a text.
struct Mark<'a> {
    kind: char,
    general: &'a str,
    specialised: &'a str,
}

/// The first mark of a text, with what precedes and what follows it.
fn first(text: &str) -> Option<(&str, Mark<'_>, &str)> {
    let start = text.find(OPEN)?;
    let inner = &text[start + 1..];
    let (mut depth, mut middle) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            OPEN => depth += 1,
            NEXT if depth == 0 => middle = at,
            CLOSE if depth > 0 => depth -= 1,
            CLOSE => {
                let kind = inner.chars().next()?;
                let mark = Mark { kind, general: inner.get(1..middle)?, specialised: inner.get(middle + 1..at)? };
                return Some((&text[..start], mark, &inner[at + 1..]));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn general_of(text: &str) -> (String, Vec<String>, Vec<u64>) {
        let mut parameters = Parameters::default();
        let text = general(text, "int", &mut parameters);
        (text, parameters.declared, parameters.words)
    }

    #[test]
    fn marked_numbers_are_literals_or_parameters() {
        let text = format!("x[{} * i + {}] / {}", size(768), wide(-3i64), constant(Scalar::Float(0.1), DType::F32));
        assert_eq!(specialised(&text), "x[768 * i + -3] / 0.1f");
        let (general, declared, words) = general_of(&text);
        assert_eq!(general, "x[size0 * i + size1] / value2");
        assert_eq!(declared, ["const int size0", "const long long size1", "const float value2"]);
        assert_eq!(words, [768, -3i64 as u64, u64::from(0.1f32.to_bits())]);
        assert_eq!(length(&text), length(&text.replace("768", "7")));
    }

    #[test]
    fn a_number_beyond_the_index_type_is_wide() {
        assert_eq!(general_of(&size(1i64 << 40)).1, ["const long long size0"]);
        assert_eq!(specialised(&size(usize::MAX)), usize::MAX.to_string());
    }

    #[test]
    fn alternatives_may_hold_numbers() {
        let text = format!("a{}b{}", either(&format!("min({})", size(9)), "9"), size(4));
        assert_eq!(specialised(&text), "a9b4");
        assert_eq!(general_of(&text).0, "amin(size0)bsize1");
    }

    #[test]
    fn numbers_that_rows_are_written_with_stay() {
        for (value, dtype) in [(0.0, DType::F32), (-1.0, DType::F64), (f64::INFINITY, DType::F32), (0.5, DType::F16)] {
            let text = constant(Scalar::Float(value), dtype);
            assert_eq!(text, cuda::literal(Scalar::Float(value), dtype));
        }
        assert_eq!(general_of(&constant(Scalar::Int(-7), DType::I64)).2, [-7i64 as u64]);
    }
}
