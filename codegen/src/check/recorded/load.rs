//! Reads recorded cases: `torch-*.json`, and `{cases,expect}.jsonl` in `conformance` (with `more-…` beside them) and in
//! `near`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_core::Name;
use serde_json::Value as Json;

use super::json::{given, tensor, value};
use super::{Callee, Case, Want, Wrt};
use crate::check::gradients::arrays::dense::V;

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
    for (part, kind) in [("conformance", ""), ("conformance", "more-"), ("near", "")] {
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

/// A case from a call by PyTorch's name and its outcome.
pub(super) fn of_name(case: &Json, expect: &Json, id: &str) -> Option<Case> {
    let tensors = case["tensors"].as_array()?.iter().map(|json| Some(V::Array(Arc::new(tensor(json)?))));
    let tensors: Vec<V<f64>> = tensors.collect::<Option<_>>()?;
    let op = case["op"].as_str()?;
    let args = case["args"].as_array()?.iter().map(|json| given(json, &tensors)).collect::<Option<_>>()?;
    let named = case["kwargs"].as_object().into_iter().flatten();
    let named = named.map(|(name, json)| Some((name.clone(), given(json, &tensors)?))).collect::<Option<_>>()?;
    let noise = |json: &Json| (json[0].as_f64().unwrap_or(0.0), json[1].as_f64().unwrap_or(0.0));
    let (mut want, mut gradients) = (None, Vec::new());
    if expect["status"] == "ok" {
        let outs = expect["out"].as_array()?.iter().enumerate().map(|(n, json)| {
            let noise = noise(&expect["noise"]["out"][n]);
            match json {
                Json::Object(map) if map.contains_key("shape") => {
                    Some(Want { array: Some(tensor(json)?), plain: false, noise })
                }
                Json::Null => Some(Want { array: None, plain: false, noise }),
                plain => Some(Want { array: Some(super::compare::number(plain)?), plain: true, noise }),
            }
        });
        want = Some(outs.collect::<Option<_>>()?);
        for (at, json) in expect["grad"].as_object().into_iter().flatten() {
            let tensor_of = tensors.get(at.parse::<usize>().ok()?)?.clone();
            let array = if json.is_null() { None } else { Some(tensor(json)?) };
            let want = Want { array, plain: false, noise: noise(&expect["noise"]["grad"][at]) };
            gradients.push((Wrt::Tensor(tensor_of), vec![want]));
        }
    }
    let cotangents = case["ct"].as_array().map(|all| all.iter().map(tensor).collect()).unwrap_or_default();
    let callee = Callee::Foreign(Name::new(op.strip_suffix(".default").unwrap_or(op)), args, named);
    Some(Case { name: id.to_owned(), callee, want, cotangents, gradients, strict: false })
}
