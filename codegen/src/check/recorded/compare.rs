//! Compares results with those that another library gave.

use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::{DType, Scalar, TensorTy};
use serde_json::Value as Json;

use super::Want;
use crate::check::gradients::show;

/// A plain number as a tensor of rank 0.
pub(super) fn number(json: &Json) -> Option<Array<f64>> {
    let scalar = match json {
        Json::Bool(b) => Scalar::Bool(*b),
        Json::Number(n) => Scalar::Int(n.as_i64()?),
        Json::Object(map) => match map.get("float")? {
            Json::String(s) => Scalar::Float(s.parse().ok()?),
            x => Scalar::Float(x.as_f64()?),
        },
        _ => return None,
    };
    let dtype = if matches!(scalar, Scalar::Float(_)) { DType::F64 } else { scalar.dtype() };
    Some(Array::from_scalars(dtype, &[], [scalar]))
}

/// The distances that the recorded values of this dtype admit: relative to the element, relative to the largest element
/// (or to 1, if that is less), and the least.
fn tolerance(dtype: DType, strict: bool) -> (f64, f64, f64) {
    match dtype {
        // The tolerances of tests/recorded.rs.
        DType::F64 if strict => (1e-10, 0.0, 1e-10),
        _ if strict => (1e-6, 0.0, 1e-6),
        // The tolerances of the conformance cases.
        DType::F64 => (1e-9, 1e-10, 1e-12),
        DType::F32 => (1e-5, 1e-5, 1e-6),
        DType::F16 => (4e-3, 4e-3, 5e-4),
        _ => (2.4e-2, 2.4e-2, 3e-3),
    }
}

/// Whether `got` equals the recorded result, within `factor` times the tolerance.
pub fn agrees(got: &Array<f64>, want: &Want, strict: bool, factor: f64) -> bool {
    let Some(array) = &want.array else { return true };
    let typed = want.plain || got.dtype == array.dtype;
    if !typed || got.shape != array.shape {
        return false;
    }
    match (&got.data, &array.data) {
        (Data::Int(got), Data::Int(want)) => got == want,
        (got, Data::Float(values)) => numbers(&floats(got), values, array.dtype, want.noise, strict, factor),
        (Data::Float(got), Data::Int(want)) => got.iter().zip(want).all(|(g, w)| *g == *w as f64),
    }
}

/// The difference from what `library` gave, in words: the types, or the element that is furthest off.
pub(super) fn told(got: &Array<f64>, want: &Want, library: &str) -> Option<String> {
    let array = want.array.as_ref()?;
    let ty = |a: &Array<f64>| TensorTy::new(a.dtype, &a.shape);
    if got.shape != array.shape || !want.plain && got.dtype != array.dtype {
        return Some(format!("it gives {}, {library} {}", ty(got), ty(array)));
    }
    let (ours, theirs) = (floats(&got.data), floats(&array.data));
    let distance = |n: &usize| {
        if ours[*n] == theirs[*n] || ours[*n].is_nan() && theirs[*n].is_nan() {
            return 0.0;
        }
        let distance = (ours[*n] - theirs[*n]).abs();
        if distance.is_nan() { f64::INFINITY } else { distance }
    };
    let at = (0..ours.len().min(theirs.len())).max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    Some(format!("as element {at} it gives {}, {library} {}", show::number(ours[at]), show::number(theirs[at])))
}

fn floats(data: &Data<f64>) -> Vec<f64> {
    match data {
        Data::Float(values) => values.clone(),
        Data::Int(values) => values.iter().map(|v| *v as f64).collect(),
    }
}

/// Whether all numbers are within `factor` times the tolerance of the recorded ones.
pub fn numbers(got: &[f64], want: &[f64], dtype: DType, noise: (f64, f64), strict: bool, factor: f64) -> bool {
    let largest = want.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(x.abs()));
    let (relative, absolute, floor) = tolerance(dtype, strict);
    got.len() == want.len()
        && got.iter().zip(want).all(|(g, w)| {
            let size = if w.is_finite() { w.abs() } else { 0.0 };
            let near = factor * (relative * size + f64::max(floor, absolute * largest.min(1.0)))
                + 4.0 * (noise.0 + noise.1 * size);
            g == w || g.is_nan() && w.is_nan() || overflows(*g, *w, dtype) || (g - w).abs() <= near
        })
}

/// Whether the recorded number is infinite because `got`, in f64, exceeds the range of the dtype.
fn overflows(got: f64, want: f64, dtype: DType) -> bool {
    want.is_infinite() && got.signum() == want.signum() && got.abs() > dtype.largest()
}
