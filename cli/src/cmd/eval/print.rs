//! Prints tensors as results of `eval`, with every digit that is needed to type them again.

use crate::fault::Fault;
use fulgurite::Tensor;
use fulgurite::core::{DType, Scalar};
use serde_json::{Value, json};

/// At most this many elements are printed in full, because a reader takes in no more; a larger tensor is shown by its
/// edges.
const LONGEST: usize = 1000;

/// `name: [[…]]` and the type; `column` is the width of the name's column.
///
/// # Errors
/// The error of a poisoned tensor.
pub fn text(tensor: &Tensor, column: usize, name: &str) -> Result<String, Fault> {
    let buffer = tensor.buffer().map_err(Fault::from)?;
    let head = format!("{name:column$}");
    // An axis of size 0 leaves no numbers, but the brackets of the axes before it are printed.
    let brackets = buffer.shape().iter().filter(|n| **n > 0).fold(1usize, |all, n| all.saturating_mul(*n));
    if brackets > LONGEST {
        return Ok(format!("{head}{tensor}"));
    }
    let numbers: Vec<String> = buffer.scalars().into_iter().map(|x| number(x, buffer.dtype())).collect();
    let sizes: Vec<String> = buffer.shape().iter().map(usize::to_string).collect();
    let list = nested(&numbers, buffer.shape());
    Ok(format!("{head}{list}  {}[{}]", buffer.dtype(), sizes.join(", ")))
}

/// Type and numbers; a number that JSON lacks becomes a text.
///
/// # Errors
/// The error of a poisoned tensor.
pub fn json(tensor: &Tensor) -> Result<Value, Fault> {
    let buffer = tensor.buffer().map_err(Fault::from)?;
    let data: Vec<Value> = buffer
        .scalars()
        .into_iter()
        .map(|x| match x {
            Scalar::Bool(b) => json!(b),
            Scalar::Int(i) => json!(i),
            Scalar::Float(f) if !f.is_finite() => json!(number(x, buffer.dtype())),
            Scalar::Float(f) if buffer.dtype() == DType::F32 => json!(f as f32),
            Scalar::Float(f) => json!(f),
        })
        .collect();
    Ok(json!({"dtype": buffer.dtype().name(), "shape": buffer.shape(), "data": data}))
}

fn number(x: Scalar, dtype: DType) -> String {
    match x {
        Scalar::Bool(b) => b.to_string(),
        Scalar::Int(i) => i.to_string(),
        Scalar::Float(f) if f.is_nan() => "nan".to_owned(),
        Scalar::Float(f) if dtype == DType::F32 => short(f, (f as f32).to_string(), format!("{:e}", f as f32)),
        Scalar::Float(f) => short(f, f.to_string(), format!("{f:e}")),
    }
}

/// The plain form, or the scientific one where the plain form is long or loses digits.
fn short(x: f64, plain: String, scientific: String) -> String {
    if x == 0.0 || !x.is_finite() || (1e-5..1e9).contains(&x.abs()) { plain } else { scientific }
}

/// Numbers in brackets, by the sizes.
fn nested(numbers: &[String], shape: &[usize]) -> String {
    match shape.split_first() {
        None => numbers.first().cloned().unwrap_or_default(),
        Some((&n, inner)) => {
            let size: usize = inner.iter().product();
            let part = |i: usize| nested(numbers.get(i * size..(i + 1) * size).unwrap_or_default(), inner);
            format!("[{}]", (0..n).map(part).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_what_can_be_typed_again() {
        let t = Tensor::from([[0.1f32, -2.0], [1e-9, f32::INFINITY]]);
        assert_eq!(text(&t, 0, "").expect("data"), "[[0.1, -2], [1e-9, inf]]  f32[2, 2]");
        assert_eq!(text(&Tensor::scalar(3i64), 4, "d").expect("data"), "d   3  i64[]");
        assert_eq!(json(&t).expect("data")["data"][3], "inf");
        assert_eq!(nested(&[], &[2, 0]), "[[], []]");
    }
}
