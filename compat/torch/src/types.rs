//! The types of a program's results. Sizes may be symbolic, so this is the fake function of every operator.
//!
//! ```text
//! {"program": P, "tensors": [["f32", [[3, "a"], 4]]], "sizes": [5]}
//! ```
//! A size is a number, or a pair of the number that it has at present and of its name. The answer has polynomials of
//! these names, and the comparisons that must hold for the types to be right:
//!
//! ```text
//! {"types": [["f32", ["2*a", 4]]], "guards": ["a != 1"]}
//! ```
//! The texts are expressions of Python.

use crate::program::{DEEPEST, TransformedProgram};
use crate::wrong;
use fulgurite::core::dim::Recording;
use fulgurite::core::{DType, Dim, TensorTy};
use fulgurite::trace::ProxyTy;
use fulgurite::{Error, parts};
use serde_json::{Value as Json, json};

/// The answer to a request.
///
/// # Errors
/// E702 for a text that is no request; the refusals of rows.
pub fn answer(request: &str) -> Result<String, Error> {
    let json: Json = serde_json::from_str(request).map_err(|e| wrong(format!("a request is not JSON: {e}")))?;
    let program = TransformedProgram::of(json.get("program").unwrap_or(&Json::Null), DEEPEST)?;
    let recording = Recording::start();
    let list = |key: &str| json.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let tensors = list("tensors").iter().enumerate().map(|(i, ty)| Ok((format!("x{i}"), tensor(ty)?)));
    let tensors = tensors.collect::<Result<Vec<_>, Error>>()?;
    let sizes = list("sizes").iter().map(size).collect::<Result<Vec<Dim>, Error>>()?;
    let types = parts::result_types("types", &tensors, |tensors| program.evaluate(&tensors, &sizes));
    // guards of a refusal are of no use, because the refusal says what was wrong
    let types = types?;
    let guards: Vec<String> = recording.finish().iter().map(|guard| python(&guard.to_string())).collect();
    let types: Vec<Json> = types.iter().map(result).collect();
    Ok(json!({ "types": types, "guards": guards }).to_string())
}

fn tensor(json: &Json) -> Result<ProxyTy, Error> {
    let none = || wrong(format!("this is no type of a tensor: {json}"));
    let dtype = json.get(0).and_then(Json::as_str).and_then(DType::from_name).ok_or_else(none)?;
    let shape = json.get(1).and_then(Json::as_array).ok_or_else(none)?;
    let shape = shape.iter().map(size).collect::<Result<_, Error>>()?;
    Ok(ProxyTy::tensor(TensorTy { dtype, shape }))
}

fn size(json: &Json) -> Result<Dim, Error> {
    let number = json.as_i64().map(Dim::from);
    let named = || Some(Dim::atom(json.get(1)?.as_str()?, json.get(0)?.as_i64()?));
    number.or_else(named).ok_or_else(|| wrong(format!("this is no size: {json}")))
}

fn result(ty: &ProxyTy) -> Json {
    let size = |d: &Dim| if d.is_const() { json!(d.value()) } else { json!(python(&d.to_string())) };
    match ty {
        ProxyTy::Tensor(t) => json!([t.ty.dtype.name(), t.ty.shape.iter().map(size).collect::<Vec<_>>()]),
        ProxyTy::Number(dtype) => json!([dtype.name(), []]),
        ProxyTy::Key => json!(["i64", [2]]),
    }
}

/// A polynomial of sizes as Python: its quotients are floored.
fn python(text: &str) -> String {
    text.replace(" / ", " // ")
}
