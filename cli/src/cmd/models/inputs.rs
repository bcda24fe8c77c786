//! The inputs of a model from files or expressions.

use super::tensors;
use crate::cmd::eval;
use crate::fault::Fault;
use fulgurite::Tensor;
use fulgurite_models::Model;
use std::collections::BTreeMap;
use std::path::Path;

/// The inputs in the order of the model; each stands as `NAME=VALUE`.
///
/// # Errors
/// E935: an input is missing or unknown. E901 to E905: files of tensors. E903, E917: an expression.
pub fn inputs(model: &Model, given: &[String]) -> Result<Vec<Tensor>, Fault> {
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    for text in given {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| Fault::usage("E935", format!("`--input {text}` is not NAME=VALUE")).help(takes(model)))?;
        let known = model.inputs().iter().any(|input| input.name == name);
        if !known || values.insert(name, value).is_some() {
            let claim = if known { "is given twice" } else { "is no input of the model" };
            return Err(Fault::usage("E935", format!("`{name}` {claim}")).help(takes(model)));
        }
    }
    let one = |name: &str| match values.get(name) {
        Some(value) => tensor(name, value),
        None => Err(Fault::usage("E935", format!("the input `{name}` is not given")).help(takes(model))),
    };
    model.inputs().iter().map(|input| one(&input.name)).collect()
}

fn takes(model: &Model) -> String {
    let inputs: Vec<String> = model.inputs().iter().map(|input| format!("`{input}`")).collect();
    format!("the model takes {}; write `--input NAME=VALUE` with a file or an expression", inputs.join(", "))
}

/// The tensor that a value describes: `FILE.safetensors`, which has it under the name of the input,
/// `FILE.safetensors:OTHER`, or an expression of `eval`.
fn tensor(name: &str, value: &str) -> Result<Tensor, Fault> {
    const SUFFIX: &str = ".safetensors";
    let (path, of) = match value.rsplit_once(':') {
        Some((path, of)) if path.ends_with(SUFFIX) => (path, of),
        _ if value.ends_with(SUFFIX) => (value, name),
        _ => return eval::value(value),
    };
    let all = tensors(Path::new(path))?;
    let missing = || {
        let names: Vec<&str> = all.keys().map(String::as_str).take(20).collect();
        Fault::usage("E935", format!("`{path}` has no tensor `{of}`")).help(format!("it has {}", names.join(", ")))
    };
    all.get(of).cloned().ok_or_else(missing)
}
