//! Parses tensors and values of recorded calls, in the two formats of `tests/data`.

use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::foreign::Given;
use fulgurite_core::{DType, Scalar};
use serde_json::Value as Json;

use crate::check::gradients::arrays::dense::V;

/// A tensor from numbers, or from bytes in hexadecimal; `view` makes it a strided view of them.
pub fn tensor(json: &Json) -> Option<Array<f64>> {
    let dtype = DType::from_name(json["dtype"].as_str()?).filter(|d| DType::STORED.contains(d))?;
    let shape = sizes(&json["shape"])?;
    let all: Vec<Scalar> = match json["hex"].as_str() {
        Some(hex) => {
            let bytes: Vec<u8> = (0..hex.len() / 2)
                .map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok())
                .collect::<Option<_>>()?;
            bytes.chunks_exact(dtype.size()).map(|bytes| number(dtype, bytes)).collect()
        }
        None => json["data"].as_array()?.iter().map(|x| element(dtype, x)).collect::<Option<_>>()?,
    };
    let count = |shape: &[usize]| shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
    if count(&shape)? != all.len() {
        return None;
    }
    let Some(view) = json.get("view") else { return Some(Array::from_scalars(dtype, &shape, all)) };
    let (shape, strides) = (sizes(&view["shape"])?, sizes(&view["stride"])?);
    let offset = usize::try_from(view["offset"].as_u64()?).ok()?;
    let place = |mut n: usize| {
        let mut at = offset;
        for (size, stride) in shape.iter().zip(&strides).rev() {
            at = at.checked_add((n % size).checked_mul(*stride)?)?;
            n /= size;
        }
        Some(at)
    };
    let seen = (0..count(&shape)?).map(|n| all.get(place(n)?).copied()).collect::<Option<Vec<_>>>()?;
    Some(Array::from_scalars(dtype, &shape, seen))
}

fn sizes(json: &Json) -> Option<Vec<usize>> {
    json.as_array()?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
}

fn element(dtype: DType, json: &Json) -> Option<Scalar> {
    match json {
        Json::Bool(b) => Some(Scalar::Bool(*b)),
        _ if dtype.is_float() => float(json).map(Scalar::Float),
        other => other.as_i64().map(Scalar::Int),
    }
}

/// A float: a number, or one of the words `inf`, `-inf` and `nan`.
pub fn float(json: &Json) -> Option<f64> {
    match json {
        Json::String(s) => s.parse().ok(),
        other => other.as_f64(),
    }
}

/// A number from its little-endian bytes.
fn number(dtype: DType, bytes: &[u8]) -> Scalar {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    match dtype {
        DType::Bool => Scalar::Bool(bits != 0),
        DType::U8 => Scalar::Int(bits as i64),
        DType::I8 => Scalar::Int(i64::from(bits as i8)),
        DType::I16 => Scalar::Int(i64::from(bits as i16)),
        DType::I32 => Scalar::Int(i64::from(bits as i32)),
        DType::I64 => Scalar::Int(bits as i64),
        DType::F16 => Scalar::Float(half(bits as u16)),
        DType::BF16 => Scalar::Float(f64::from(f32::from_bits((bits as u32) << 16))),
        DType::F32 => Scalar::Float(f64::from(f32::from_bits(bits as u32))),
        _ => Scalar::Float(f64::from_bits(bits)),
    }
}

/// The value of an f16: 1 sign bit, 5 exponent bits, 10 fraction bits.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

/// A value in a call by another library's name; `tensors` are those of the case.
pub(super) fn given(json: &Json, tensors: &[V<f64>]) -> Option<Given<V<f64>>> {
    Some(match json {
        Json::Null => Given::None,
        Json::Bool(b) => Given::Bool(*b),
        Json::String(s) => Given::Str(s.clone()),
        Json::Number(n) => Given::Int(n.as_i64()?),
        Json::Array(items) => Given::List(items.iter().map(|item| given(item, tensors)).collect::<Option<_>>()?),
        Json::Object(map) => match map.iter().next()? {
            (kind, value) if kind == "float" => Given::Float(float(value)?),
            (kind, Json::String(name)) if kind == "dtype" => Given::DType(DType::from_name(name)?),
            (kind, at) if kind == "t" => Given::Tensor(tensors.get(at.as_u64()? as usize)?.clone()),
            _ => return None,
        },
    })
}
