//! Programs as Python functions over arrays, so that compilers of other frameworks fuse rows with their neighbours.
//!
//! The program is traced and decomposed to rows with loop nests, and each nest becomes array expressions (`nest`): an
//! index variable becomes an axis, an element of a tensor a view or a gather, a reduction one over axes. The words of the
//! array library are in [`array_library`] and in the table of builtins.
//!
//! A program stays a kernel as a whole if one of its lines has no such form: if it draws random numbers, if it may refuse
//! at run time, if its nest would fill more memory than the kernel needs (a product of matrices), or if its form holds for
//! the present sizes only while sizes are symbolic.
//!
//! ```text
//! {"library": "torch", "program": P, "tensors": […], "sizes": […]}
//! {"text": "import …\n\n\ndef decomposition(device, x0, a):\n …", "guards": ["a != 1"]}     or null
//! ```

pub mod array_library;
mod nest;

use crate::typed_program::{TypedProgram, written};
use crate::wrong;
use array_library::ArrayLibrary;
use fulgurite::bind::may_refuse;
use fulgurite::core::{DType, Dim};
use fulgurite::executors::Line;
use fulgurite::trace::{BoundSymbol, ProxyId, ProxyTy, SplitSide, Trace};
use fulgurite::{Error, transforms};
use nest::{Array, NestWriter};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// A text has at most this many lines, because compilers of other frameworks take long for larger graphs.
const MOST_LINES: usize = 2000;

/// The lines of a function, each of which binds a name.
pub(crate) struct Writer {
    library: ArrayLibrary,
    lines: Vec<String>,
}

impl Writer {
    /// Binds a name to an expression; returns the name. `None`: there are too many lines.
    fn bind(&mut self, expression: &str) -> Option<String> {
        let name = format!("v{}", self.lines.len());
        self.lines.push(format!("{name} = {expression}"));
        (self.lines.len() <= MOST_LINES).then_some(name)
    }
}

/// The answer to a request.
///
/// # Errors
/// E702 for an unknown array library, and the errors of [`TypedProgram::of`] and [`TypedProgram::trace`].
pub fn answer(request: &Json) -> Result<Json, Error> {
    let name = request.get("library").and_then(Json::as_str).unwrap_or_default();
    let library = ArrayLibrary::named(name);
    let library = library.ok_or_else(|| wrong(format!("`{name}` is no array library; `torch` and `jnp` are")))?;
    let parsed = TypedProgram::of(request)?;
    // comparisons that the types need are made by the kernel too; known sizes need none
    let needed: FxHashSet<String> = match parsed.names() {
        [] => FxHashSet::default(),
        _ => parsed.trace()?.guards().into_iter().collect(),
    };
    let traced = parsed.trace()?;
    let has_nest = |line: &BoundSymbol| line.symbol.row().index_body().is_some();
    let trace = transforms::decompose(&traced.trace, &mut |line| has_nest(line))?;
    let trace = transforms::simplify(&trace, SplitSide::Before)?;
    let text = written_out(&trace, &parsed, library);
    let guards = traced.guards();
    let fits = guards.iter().all(|guard| needed.contains(guard));
    Ok(text.filter(|_| fits).map_or(Json::Null, |text| json!({ "text": text, "guards": guards })))
}

/// The function of a trace; `None` if a line has no form over arrays.
fn written_out(trace: &Trace, request: &TypedProgram, library: ArrayLibrary) -> Option<String> {
    let mut writer = Writer { library, lines: Vec::new() };
    let mut arrays: FxHashMap<ProxyId, Array> = FxHashMap::default();
    // a value that the program captures is an input of no name
    if trace.inputs().len() != request.tensors() {
        return None;
    }
    for (i, p) in trace.input_proxies().enumerate() {
        arrays.insert(p, Array { name: format!("x{i}"), is_view: true, ..array(trace, p)? });
    }
    for line in trace.lines() {
        let line = Line::new(line.clone());
        if may_refuse(&trace.arena, &line.symbol) {
            return None;
        }
        let nest = line.nest()?.ok()?;
        let given = |ps: &[ProxyId]| ps.iter().map(|p| arrays.get(p).cloned()).collect::<Option<Vec<_>>>();
        let (tensors, nums) = (given(&line.tensors)?, given(&line.nums)?);
        for (out, p) in nest.outs.iter().zip(line.wanted(nest.outs.len())) {
            let Some(p) = p else { continue };
            let (name, is_view) = NestWriter::new(&mut writer, &nest, &tensors, &nums).result(out)?;
            arrays.insert(p, Array { name, is_view, ..array(trace, p)? });
        }
    }
    let mut results: Vec<String> = Vec::new();
    let mut seen = FxHashSet::default();
    for p in trace.outputs() {
        let array = arrays.get(p)?;
        results.push(library.result(&array.name, array.is_view || !seen.insert(*p)));
    }
    let tensors = (0..request.tensors()).map(|i| format!("x{i}"));
    let parameters: Vec<String> =
        ["device".to_owned()].into_iter().chain(tensors).chain(request.names().to_vec()).collect();
    let mut text = format!("{}\n\ndef decomposition({}):\n", library.imports(), parameters.join(", "));
    for line in &writer.lines {
        let _ = writeln!(text, "    {line}");
    }
    let _ = writeln!(text, "    return [{}]", results.join(", "));
    Some(text)
}

/// The dtype and sizes of a value; a key has no form over arrays.
fn array(trace: &Trace, p: ProxyId) -> Option<Array> {
    let (dtype, shape): (DType, Vec<Dim>) = match trace.ty(p) {
        ProxyTy::Tensor(t) => (t.ty.dtype, t.ty.shape.to_vec()),
        ProxyTy::Number(dtype) => (dtype, Vec::new()),
        ProxyTy::Key => return None,
    };
    Some(Array { name: String::new(), dtype, shape, is_view: false })
}

/// A size as Python.
fn size(d: &Dim) -> String {
    match written(d) {
        Json::String(text) => text,
        number => number.to_string(),
    }
}

/// A tuple of Python.
fn tuple(items: &[String]) -> String {
    let comma = if items.len() == 1 { "," } else { "" };
    format!("({}{comma})", items.join(", "))
}
