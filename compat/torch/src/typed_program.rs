//! A program with the types of its tensors, whose sizes may be symbolic: a request of the Python half.
//!
//! ```text
//! {"program": P, "tensors": [["f32", [[3, "a"], 4]]], "sizes": [5]}
//! ```
//! A size is a number, or a pair of the number that it has at present and of its name.

use crate::memory::named_dtype;
use crate::program::{DEEPEST, TransformedProgram};
use crate::wrong;
use fulgurite::core::dim::{DimGuard, Recording};
use fulgurite::core::{Dim, TensorTy};
use fulgurite::trace::ProxyTy;
use fulgurite::{Error, Trace, parts};
use serde_json::{Value as Json, json};

/// A program with the types of its tensors.
pub struct TypedProgram {
    program: TransformedProgram,
    tensors: Vec<(String, ProxyTy)>,
    sizes: Vec<Dim>,
    names: Vec<String>,
}

/// The trace of a typed program, and the comparisons of sizes for which it is right.
pub struct TracedProgram {
    /// The trace, whose inputs are the tensors.
    pub trace: Trace,
    recording: Recording,
}

impl TypedProgram {
    /// The typed program of parsed JSON.
    ///
    /// # Errors
    /// E702 for JSON that is not a request, E710 for a row that does not exist.
    pub fn of(json: &Json) -> Result<TypedProgram, Error> {
        let program = TransformedProgram::of(json.get("program").unwrap_or(&Json::Null), DEEPEST)?;
        let list = |key: &str| json.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        // refusals name the values as those of a compiled program do
        let tensors = list("tensors").iter().enumerate().map(|(i, ty)| Ok((i.to_string(), tensor(ty)?)));
        let tensors = tensors.collect::<Result<_, Error>>()?;
        let sizes = list("sizes").iter().map(size).collect::<Result<_, Error>>()?;
        let all = list("tensors").iter().filter_map(|ty| ty.get(1)?.as_array()).flatten().chain(list("sizes"));
        let names = all.filter_map(|size| Some(size.get(1)?.as_str()?.to_owned())).collect();
        Ok(TypedProgram { program, tensors, sizes, names })
    }

    /// The number of tensors.
    pub fn tensors(&self) -> usize {
        self.tensors.len()
    }

    /// The names of symbolic sizes, in the order in which they come.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Traces the program.
    ///
    /// # Errors
    /// Refusals of rows, and errors of transforms.
    pub fn trace(&self) -> Result<TracedProgram, Error> {
        let recording = Recording::start();
        let trace = parts::traced("program", &self.tensors, |tensors| self.program.evaluate(&tensors, &self.sizes))?;
        Ok(TracedProgram { trace, recording })
    }
}

impl TracedProgram {
    /// The comparisons of sizes that were made since the trace was begun, as expressions of Python.
    pub fn guards(self) -> Vec<String> {
        let text = |guard: &DimGuard| python(&guard.to_string());
        self.recording.finish().iter().map(text).collect()
    }
}

fn tensor(json: &Json) -> Result<ProxyTy, Error> {
    let none = || wrong(format!("this is no type of a tensor: {json}"));
    let dtype = named_dtype(json.get(0).and_then(Json::as_str).ok_or_else(none)?)?;
    let shape = json.get(1).and_then(Json::as_array).ok_or_else(none)?;
    let shape = shape.iter().map(size).collect::<Result<_, Error>>()?;
    Ok(ProxyTy::tensor(TensorTy { dtype, shape }))
}

fn size(json: &Json) -> Result<Dim, Error> {
    let number = json.as_i64().map(Dim::from);
    let named = || Some(Dim::atom(json.get(1)?.as_str()?, json.get(0)?.as_i64()?));
    number.or_else(named).ok_or_else(|| wrong(format!("this is no size: {json}")))
}

/// A size as a number, or as an expression of Python.
pub fn written(d: &Dim) -> Json {
    if d.is_const() { json!(d.value()) } else { json!(python(&d.to_string())) }
}

/// A polynomial of sizes as Python, whose quotients are floored.
fn python(text: &str) -> String {
    text.replace(" / ", " // ")
}
