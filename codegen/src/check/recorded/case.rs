//! Reads recorded calls by PyTorch's names.

use std::sync::Arc;

use fulgurite_core::Name;
use serde_json::Value as Json;

use super::json::{given, tensor};
use super::{Callee, Case, Want, Wrt};
use crate::check::gradients::arrays::dense::V;

/// A case from a call by PyTorch's name and its outcome.
pub fn of_name(case: &Json, expect: &Json, id: &str) -> Option<Case> {
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
