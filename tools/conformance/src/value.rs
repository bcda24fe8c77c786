//! Reads TENSOR and VALUE of the format as tensors and arguments, and writes tensors.

use crate::file::Tensors;
use fulgurite::buffer::Buffer;
use fulgurite::core::signature::MOST_AXES;
use fulgurite::core::{DType, Scalar};
use fulgurite::foreign::Given;
use fulgurite::prelude::*;
use serde_json::{Value as Json, json};

/// The reason why a value can't be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// fulgurite lacks the kind of value: complex numbers.
    Unsupported(String),
    /// The value is not in the format.
    Malformed(String),
}

/// At most this many bytes of results, and of a view, in a case: they are written as text, which takes some copies.
const MOST_BYTES: usize = 8 << 20;

/// Refuses tensors that are too large to be written.
///
/// # Errors
/// The reason.
pub(super) fn check_bytes(bytes: usize) -> Result<(), Unread> {
    match bytes > MOST_BYTES {
        true => Err(Unread::Unsupported(format!("{bytes} bytes in a case, of which {MOST_BYTES} at most are written"))),
        false => Ok(()),
    }
}

fn malformed(what: &str) -> Unread {
    Unread::Malformed(format!("{what} is not in the format"))
}

/// Reads a TENSOR.
///
/// # Errors
/// The reason why it is not one.
pub(super) fn tensor(json: &Json, file: &Tensors) -> Result<Buffer, Unread> {
    let base = base(json, file)?;
    match &json["view"] {
        Json::Null => Ok(base),
        view => strided(&base, view),
    }
}

fn dtype(name: &str) -> Result<DType, Unread> {
    let lower = name.to_ascii_lowercase();
    let known = DType::from_name(&lower).filter(|d| d.is_float() || d.is_int() || *d == DType::Bool);
    known.ok_or_else(|| Unread::Unsupported(format!("{lower} tensors")))
}

fn base(json: &Json, file: &Tensors) -> Result<Buffer, Unread> {
    if let Some(name) = json["ref"].as_str() {
        let raw = file.get(name).ok_or_else(|| Unread::Malformed(format!("there is no tensor `{name}`")))?;
        return bytes(dtype(raw.dtype)?, raw.shape, raw.bytes);
    }
    let dtype = dtype(json["dtype"].as_str().ok_or_else(|| malformed("a tensor"))?)?;
    let shape = numbers(&json["shape"]).ok_or_else(|| malformed("a shape"))?;
    if let Some(hex) = json["hex"].as_str() {
        let digits = hex.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let data = digits.collect::<Option<Vec<u8>>>().ok_or_else(|| malformed("`hex`"))?;
        return bytes(dtype, &shape, &data);
    }
    let data = json["data"].as_array().ok_or_else(|| malformed("a tensor"))?;
    let mut raw = Vec::with_capacity(data.len() * dtype.size());
    for item in data {
        let scalar = match dtype.is_float() {
            true => item.as_f64().map(Scalar::Float),
            false => item.as_i64().map(Scalar::Int),
        };
        let one = scalar.and_then(|s| Buffer::number(s, dtype).ok()).ok_or_else(|| malformed("an element"))?;
        raw.extend_from_slice(one.as_bytes());
    }
    bytes(dtype, &shape, &raw)
}

fn bytes(dtype: DType, shape: &[usize], data: &[u8]) -> Result<Buffer, Unread> {
    Buffer::from_bytes(dtype, shape, data).map_err(|e| Unread::Malformed(e.to_string()))
}

/// Sizes or strides, for at most as many axes as a result can have.
fn numbers(json: &Json) -> Option<Vec<usize>> {
    json.as_array().filter(|list| list.len() <= MOST_AXES)?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
}

/// The elements of a strided view, in the order of its own axes.
fn strided(base: &Buffer, view: &Json) -> Result<Buffer, Unread> {
    let wrong = || malformed("a view");
    let shape = numbers(&view["shape"]).ok_or_else(wrong)?;
    let stride = numbers(&view["stride"]).filter(|s| s.len() == shape.len()).ok_or_else(wrong)?;
    let offset = view["offset"].as_u64().unwrap_or(0) as usize;
    let size = base.dtype().size();
    let count = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).ok_or_else(wrong)?;
    check_bytes(count.checked_mul(size).ok_or_else(wrong)?)?;
    let mut data = Vec::new();
    // Few elements may be repeated along an axis so often that there is no room for them.
    data.try_reserve_exact(count.checked_mul(size).ok_or_else(wrong)?).map_err(|e| Unread::Malformed(e.to_string()))?;
    let mut index = vec![0; shape.len()];
    for _ in 0..count {
        // Offset and strides come from the file, and may lie outside of the memory.
        let moved = |at: usize, (i, s): (&usize, &usize)| at.checked_add(i.checked_mul(*s)?);
        let from = index.iter().zip(&stride).try_fold(offset, moved).and_then(|at| at.checked_mul(size));
        let element = from.and_then(|from| base.as_bytes().get(from..from.checked_add(size)?));
        data.extend_from_slice(element.ok_or_else(wrong)?);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    bytes(base.dtype(), &shape, &data)
}

/// The sizes and strides of a TENSOR that is a view.
fn view(json: &Json) -> Option<(Vec<usize>, Vec<usize>)> {
    numbers(&json["view"]["shape"]).zip(numbers(&json["view"]["stride"]))
}

/// Whether several elements of a TENSOR share memory, because it is expanded along an axis.
pub(super) fn overlaps(json: &Json) -> bool {
    view(json).is_some_and(|(shape, stride)| shape.iter().zip(&stride).any(|(size, stride)| *size > 1 && *stride == 0))
}

/// Whether the elements of a TENSOR lie in memory in another order than that of its axes.
pub(super) fn is_strided(json: &Json) -> bool {
    let Some((shape, stride)) = view(json) else { return false };
    let mut packed = 1;
    shape.iter().zip(&stride).rev().any(|(&size, &stride)| {
        let odd = size != 1 && stride != packed;
        packed = size.saturating_mul(packed);
        odd
    })
}

/// Reads a VALUE; `tensors` are the case's tensors, each with whether it is strided.
///
/// # Errors
/// The reason why it is not one.
pub(super) fn given(json: &Json, tensors: &[(Tensor, bool)]) -> Result<Given, Unread> {
    Ok(match json {
        Json::Null => Given::None,
        Json::Bool(b) => Given::Bool(*b),
        Json::String(s) => Given::Str(s.clone()),
        Json::Number(n) => Given::Int(n.as_i64().ok_or_else(|| malformed("an integer"))?),
        Json::Array(items) => Given::List(items.iter().map(|item| given(item, tensors)).collect::<Result<_, _>>()?),
        Json::Object(map) => {
            let (kind, value) = map.iter().next().ok_or_else(|| malformed("a value"))?;
            match (kind.as_str(), value) {
                ("float", Json::String(s)) => Given::Float(s.parse().map_err(|_| malformed("a float"))?),
                ("float", n) => Given::Float(n.as_f64().ok_or_else(|| malformed("a float"))?),
                ("dtype", Json::String(s)) => Given::DType(dtype(s)?),
                ("t", n) => {
                    let at = n.as_u64().and_then(|n| tensors.get(n as usize)).ok_or_else(|| malformed("a tensor"))?;
                    match at {
                        (t, true) => Given::Strided(t.clone()),
                        (t, false) => Given::Tensor(t.clone()),
                    }
                }
                ("complex", _) => return Err(Unread::Unsupported("complex numbers".into())),
                _ => return Err(malformed("a value")),
            }
        }
    })
}

/// A tensor as TENSOR.
pub(super) fn json(buffer: &Buffer) -> Json {
    let mut hex = String::with_capacity(buffer.byte_len() * 2);
    for byte in buffer.as_bytes() {
        for digit in [byte >> 4, byte & 15] {
            hex.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
    }
    json!({"dtype": buffer.dtype().name(), "shape": buffer.shape(), "hex": hex})
}

/// The element of a tensor of rank 0 as a plain VALUE.
pub(super) fn number(buffer: &Buffer) -> Json {
    match buffer.item() {
        Some(Scalar::Bool(b)) => json!(b),
        Some(Scalar::Int(i)) => json!(i),
        Some(Scalar::Float(x)) if x.is_finite() => json!({"float": x}),
        Some(Scalar::Float(x)) => json!({"float": x.to_string().to_lowercase()}),
        None => Json::Null,
    }
}
