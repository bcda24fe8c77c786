//! Values that PyTorch gave, recorded in `tests/data/torch-*.json` by `tests/data/make.py`.

use crate::oracle::Operand;
use crate::rows::{TestRow, rows};
use fulgurite_core::eval::loop_nest::Array;
use fulgurite_core::signature;
use fulgurite_core::{DType, Name, Scalar, Value};
use serde_json::Value as Json;
use std::path::Path;

/// One recorded call.
pub struct Case {
    /// `softmax.1`: the row, and the number of the case.
    pub name: String,
    /// The row.
    pub row: &'static TestRow,
    /// One value per parameter and option, in signature order.
    pub args: Vec<Value<Operand<f64>>>,
    /// The results, lists flattened.
    pub out: Vec<Array<f64>>,
    /// The cotangent of each result that has one; empty if no gradient was recorded.
    pub cotangents: Vec<Option<Array<f64>>>,
    /// Positions of arguments, each with its gradients (one, or one per item).
    pub gradients: Vec<(usize, Vec<Array<f64>>)>,
    /// Whether the case was recorded at a special point, where NaN, infinities and conventions matter, but not the last
    /// bit.
    pub special: bool,
}

/// Every recorded case; the error text of a case that does not fit its row.
pub fn cases() -> Vec<Result<Case, String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut files: Vec<_> = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "json"));
    files.sort();
    let mut out = Vec::new();
    let mut seen: std::collections::HashMap<String, usize> = Default::default();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let json: Json = match serde_json::from_str(&text) {
            Ok(json) => json,
            Err(e) => {
                out.push(Err(format!("{}: {e}", file.display())));
                continue;
            }
        };
        for record in json["cases"].as_array().into_iter().flatten() {
            let row = record["row"].as_str().unwrap_or_default().to_owned();
            let count = seen.entry(row.clone()).or_default();
            *count += 1;
            let name = format!("{row}.{count}");
            out.push(
                case(record, &row, &name).ok_or_else(|| format!("{name} does not fit a row of ops.yaml: {record}")),
            );
        }
    }
    out
}

fn case(record: &Json, row: &str, name: &str) -> Option<Case> {
    let row = rows().get(row)?;
    let mut named = Vec::new();
    for part in ["args", "opts"] {
        for (key, value) in record[part].as_object()? {
            named.push((Name::new(key), value_of(value)?));
        }
    }
    let args = signature::arrange(&row.row, Vec::new(), named).ok()?;
    let arrays = |json: &Json| json.as_array().map(|l| l.iter().map(array).collect::<Option<Vec<_>>>());
    let out = arrays(&record["out"])??;
    let cotangents = record["ct"].as_array().map(|l| l.iter().map(array).collect()).unwrap_or_default();
    let mut gradients = Vec::new();
    for (key, value) in record["grad"].as_object().into_iter().flatten() {
        let at = row.row.sig.params.iter().position(|p| p.name.name == key.as_str())?;
        let all = match value {
            Json::Array(items) => items.iter().map(array).collect::<Option<Vec<_>>>()?,
            one => vec![array(one)?],
        };
        gradients.push((at, all));
    }
    let special = record["note"].as_str() == Some("special points");
    Some(Case { name: name.to_owned(), row, args, out, cotangents, gradients, special })
}

fn value_of(json: &Json) -> Option<Value<Operand<f64>>> {
    Some(match json {
        Json::Bool(b) => Value::Num(Scalar::Bool(*b)),
        Json::Number(n) => Value::Num(Scalar::Int(n.as_i64()?)),
        Json::String(s) => Value::Word(Name::new(s)),
        Json::Array(items) => Value::List(items.iter().map(value_of).collect::<Option<_>>()?),
        Json::Object(map) => match (map.get("float"), map.get("as_dtype")) {
            (Some(x), _) => Value::Num(Scalar::Float(float(x)?)),
            (_, Some(d)) => Value::DType(DType::from_name(d.as_str()?)?),
            _ => Value::Tensor(Operand::Tensor(array(json)?)),
        },
        Json::Null => Value::Absent,
    })
}

fn array(json: &Json) -> Option<Array<f64>> {
    let dtype = DType::from_name(json["dtype"].as_str()?)?;
    let shape: Vec<usize> =
        json["shape"].as_array()?.iter().map(|n| n.as_u64().map(|n| n as usize)).collect::<Option<_>>()?;
    let data = json["data"].as_array()?;
    let scalars = data.iter().map(|x| match x {
        Json::Bool(b) => Some(Scalar::Bool(*b)),
        _ if dtype.is_float() => float(x).map(Scalar::Float),
        other => other.as_i64().map(Scalar::Int),
    });
    Some(Array::from_scalars(dtype, &shape, scalars.collect::<Option<Vec<_>>>()?))
}

fn float(json: &Json) -> Option<f64> {
    match json {
        Json::String(s) => s.parse().ok(),
        other => other.as_f64(),
    }
}
