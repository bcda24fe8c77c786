//! Reads recorded cases: `torch-*.json`, and `{cases,expect}.jsonl` in `conformance` (with `more-…` beside them) and in
//! `near`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_core::{DType, Name, Scalar, Value};
use serde_json::Value as Json;

use fulgurite_codegen::check::gradients::arrays::dense::V;
use fulgurite_codegen::check::recorded::json::{float, tensor};
use fulgurite_codegen::check::recorded::{Callee, Case, Want, Wrt, of_name};

/// Every case below `folder`. Cases with unsupported values, such as complex numbers, are left out.
///
/// # Errors
/// A file that can't be read, with its name.
pub fn load(folder: &Path) -> Result<Vec<Case>, (PathBuf, io::Error)> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |why: io::Error| (path, why)
    };
    let entries = std::fs::read_dir(folder).map_err(failed(folder))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "json"));
    files.sort();
    let mut cases = Vec::new();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(failed(&file))?;
        let json: Json = serde_json::from_str(&text).map_err(|why| failed(&file)(why.into()))?;
        for record in json["cases"].as_array().into_iter().flatten() {
            let row = record["row"].as_str().unwrap_or_default();
            let count = seen.entry(row.to_owned()).or_default();
            *count += 1;
            cases.extend(of_row(record, row, format!("{row}.{count}")));
        }
    }
    for (part, kind) in
        [("conformance", ""), ("conformance", "more-"), ("conformance", "model-"), ("onnx", ""), ("near", "")]
    {
        let path = |what: &str| folder.join(part).join(format!("{kind}{what}.jsonl"));
        if !path("cases").is_file() {
            continue;
        }
        let lines = |path: PathBuf| -> Result<Vec<Json>, (PathBuf, io::Error)> {
            let text = std::fs::read_to_string(&path).map_err(failed(&path))?;
            text.lines().map(|line| serde_json::from_str(line).map_err(|why| failed(&path)(why.into()))).collect()
        };
        let expect = lines(path("expect"))?.into_iter().map(|e| (e["id"].as_str().unwrap_or_default().to_owned(), e));
        let expect: HashMap<String, Json> = expect.collect();
        for case in lines(path("cases"))? {
            let id = case["id"].as_str().unwrap_or_default();
            cases.extend(expect.get(id).and_then(|want| of_name(&case, want, id)));
        }
    }
    Ok(cases)
}

fn plainly(json: &Json) -> Option<Want> {
    Some(Want { array: Some(tensor(json)?), plain: false, noise: (0.0, 0.0) })
}

fn of_row(record: &Json, row: &str, name: String) -> Option<Case> {
    let mut named = Vec::new();
    for part in ["args", "opts"] {
        for (key, json) in record[part].as_object()? {
            named.push((Name::new(key), value(json)?));
        }
    }
    let want = record["out"].as_array()?.iter().map(plainly).collect::<Option<_>>()?;
    let mut gradients = Vec::new();
    for (key, json) in record["grad"].as_object().into_iter().flatten() {
        let items = match json {
            Json::Array(items) => items.iter().map(plainly).collect::<Option<_>>()?,
            one => vec![plainly(one)?],
        };
        gradients.push((Wrt::Name(Name::new(key)), items));
    }
    let cotangents = record["ct"].as_array().map(|all| all.iter().map(tensor).collect()).unwrap_or_default();
    let callee = Callee::Row(Name::new(row), named);
    Some(Case { name, callee, want: Some(want), cotangents, gradients, strict: true })
}

/// A value in a call of a row.
fn value(json: &Json) -> Option<Value<V<f64>>> {
    Some(match json {
        Json::Bool(b) => Value::Num(Scalar::Bool(*b)),
        Json::Number(n) => Value::Num(Scalar::Int(n.as_i64()?)),
        Json::String(s) => Value::Word(Name::new(s)),
        Json::Array(items) => Value::List(items.iter().map(value).collect::<Option<_>>()?),
        Json::Object(map) => match (map.get("float"), map.get("as_dtype")) {
            (Some(x), _) => Value::Num(Scalar::Float(float(x)?)),
            (_, Some(d)) => Value::DType(DType::from_name(d.as_str()?)?),
            _ => Value::Tensor(V::Array(Arc::new(tensor(json)?))),
        },
        Json::Null => Value::Absent,
    })
}
