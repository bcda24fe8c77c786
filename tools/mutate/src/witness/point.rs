//! Writes a call as a point of its row.

use std::fmt::Write;

use fulgurite_codegen::check::gradients::arrays::dense::V;
use fulgurite_codegen::check::points::{self, read};
use fulgurite_core::eval::loop_nest::{Array, Data};
use fulgurite_core::lang::Param;
use fulgurite_core::row::Row;
use fulgurite_core::{DType, Name, Scalar, Value};

/// `{x: [1, 2], dim: 3, refused: true}`; `None` if a point cannot express the call.
pub(super) fn refused(row: &Row, call: &[Value<V<f64>>]) -> Option<String> {
    Some(format!("{{{}, refused: true}}", arguments(row, call)?))
}

/// `{x: [1, 2], out: 3, grad: {x: [1, 1]}}`
pub(crate) fn accepted(
    row: &Row,
    call: &[Value<V<f64>>],
    results: &[Value<V<f64>>],
    gradients: &[(Name, Vec<f64>)],
) -> Option<String> {
    let mut text = arguments(row, call)?;
    for (out, value) in row.sig.outs.iter().zip(results) {
        let _ = write!(text, ", {}: {}", out.name.name, tensor(value, None)?);
    }
    for (name, values) in gradients {
        let values: Vec<String> = values.iter().map(|x| number(*x)).collect();
        let _ = write!(text, ", grad: {{{name}: [{}]}}", values.join(", "));
    }
    Some(format!("{{{text}}}"))
}

fn arguments(row: &Row, call: &[Value<V<f64>>]) -> Option<String> {
    let mut parts = Vec::new();
    for (param, value) in row.sig.params.iter().zip(call).filter(|(_, value)| !value.is_absent()) {
        parts.push(format!("{}: {}", param.name.name, argument(row, param, value)?));
    }
    for (opt, value) in row.sig.opts.iter().zip(&call[row.sig.params.len()..]) {
        if !value.is_absent() {
            parts.push(format!("{}: {}", opt.name.name, option(value)?));
        }
    }
    Some(parts.join(", "))
}

fn argument(row: &Row, param: &Param, value: &Value<V<f64>>) -> Option<String> {
    match value {
        Value::Num(_) => Some(format!("number {}", option(value)?)),
        Value::Type(t) => Some(format!("'{t}'")),
        value => tensor(value, read::usual(&param.ty, points::accepted(row))),
    }
}

/// Numbers with their dtype, unless it is the default.
fn tensor(value: &Value<V<f64>>, usual: Option<DType>) -> Option<String> {
    match value {
        Value::Tensor(V::Key([a, b])) => Some(format!("[{a}, {b}]")),
        Value::Tensor(V::Array(a)) => {
            if a.is_empty() && (a.shape.len() > 1 || Some(a.dtype) != usual) {
                let sizes: Vec<String> = a.shape.iter().map(usize::to_string).collect();
                return Some(format!("'{}[{}]'", a.dtype, sizes.join(", ")));
            }
            let mut elements = elements(a).into_iter();
            let text = nested(&a.shape, &mut elements);
            // The default of a float result is f64.
            let told = usual.map_or(matches!(a.dtype, DType::F64), |usual| usual == a.dtype);
            Some(if told { text } else { format!("'{} {text}'", a.dtype) })
        }
        Value::List(items) => {
            let mut dtypes = Vec::new();
            let mut texts = Vec::new();
            for item in items {
                let Value::Tensor(V::Array(a)) = item else { return None };
                if a.is_empty() {
                    return None;
                }
                dtypes.push(a.dtype);
                texts.push(nested(&a.shape, &mut elements(a).into_iter()));
            }
            dtypes.dedup();
            match dtypes.as_slice() {
                [one] if usual.is_none_or(|usual| usual == *one) => Some(format!("[{}]", texts.join(", "))),
                _ => None,
            }
        }
        _ => None,
    }
}

fn elements(a: &Array<f64>) -> Vec<String> {
    match &a.data {
        Data::Float(values) => values.iter().map(|x| number(*x)).collect(),
        Data::Int(values) if a.dtype == DType::Bool => values.iter().map(|x| (*x != 0).to_string()).collect(),
        Data::Int(values) => values.iter().map(i64::to_string).collect(),
    }
}

fn nested(shape: &[usize], elements: &mut dyn Iterator<Item = String>) -> String {
    match shape {
        [] => elements.next().unwrap_or_default(),
        [n, rest @ ..] => {
            let items: Vec<String> = (0..*n).map(|_| nested(rest, elements)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// A number with ten digits: points are compared to eight.
fn number(x: f64) -> String {
    match x {
        x if x.is_nan() => "nan".to_owned(),
        x if x.is_infinite() => if x > 0.0 { "inf" } else { "-inf" }.to_owned(),
        // Points do not distinguish smaller numbers from 0.
        x if x.abs() < 1e-12 => "0".to_owned(),
        x if x == x.trunc() && x.abs() < 1e9 => format!("{x}"),
        x => {
            let rounded: f64 = format!("{x:.9e}").parse().unwrap_or(x);
            if (1e-4..1e9).contains(&rounded.abs()) { format!("{rounded}") } else { format!("{rounded:e}") }
        }
    }
}

fn option(value: &Value<V<f64>>) -> Option<String> {
    Some(match value {
        Value::Num(Scalar::Float(x)) if x.fract() == 0.0 && x.is_finite() => format!("{x:.1}"),
        Value::Num(Scalar::Float(x)) => number(*x),
        Value::Num(s) => s.to_string(),
        Value::DType(d) => d.to_string(),
        Value::Word(w) => w.to_string(),
        Value::Str(text) if text.contains("->") => format!("'{text}'"),
        Value::List(items) => format!("[{}]", items.iter().map(option).collect::<Option<Vec<_>>>()?.join(", ")),
        _ => return None,
    })
}
