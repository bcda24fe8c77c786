//! The types of a program's results. Sizes may be symbolic, so this is the fake function of every operator.
//!
//! The answer to a [`TypedProgram`] has polynomials of the names of sizes, and the comparisons that must hold for the types
//! to be right. Both are expressions of Python:
//!
//! ```text
//! {"types": [["f32", ["2*a", 4]]], "guards": ["a != 1"]}
//! ```

use crate::typed_program::{TypedProgram, written};
use fulgurite::Error;
use fulgurite::trace::ProxyTy;
use serde_json::{Value as Json, json};

/// The answer to a request.
///
/// # Errors
/// The errors of [`TypedProgram::of`] and [`TypedProgram::trace`].
pub fn answer(request: &Json) -> Result<Json, Error> {
    let traced = TypedProgram::of(request)?.trace()?;
    let types: Vec<Json> = traced.trace.outputs().iter().map(|p| result(&traced.trace.ty(*p))).collect();
    Ok(json!({ "types": types, "guards": traced.guards() }))
}

fn result(ty: &ProxyTy) -> Json {
    match ty {
        ProxyTy::Tensor(t) => json!([t.ty.dtype.name(), t.ty.shape.iter().map(written).collect::<Vec<_>>()]),
        ProxyTy::Number(dtype) => json!([dtype.name(), []]),
        ProxyTy::Key => json!(["i64", [2]]),
    }
}
