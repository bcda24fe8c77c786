//! One thread per element.

use super::super::scalar::{Printer, Target, type_name};
use super::super::variants::{Variant, variants};
use super::{Emitted, kernel_name, render};
use fulgurite_core::DType;
use fulgurite_core::lower::Rows;
use serde::Serialize;

const TEMPLATE: &str = include_str!("../../../templates/pointwise.cu.tera");

#[derive(Serialize)]
struct Value {
    ty: &'static str,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    file: String,
    line: u32,
    comment: String,
    numbers: usize,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    statements: String,
    results: Vec<String>,
}

/// The kernels of a pointwise row.
///
/// # Errors
/// Why there are none.
pub(super) fn kernels(row: &Emitted, rows: &dyn Rows) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    for dtype in [DType::F32, DType::F64] {
        for v in variants(row, rows, dtype) {
            out.push(render(TEMPLATE, &kernel(row, &v)?)?);
        }
    }
    if out.is_empty() { Err("on floats one builtin or none, which needs no kernel of its own".into()) } else { Ok(out) }
}

fn kernel(row: &Emitted, v: &Variant) -> Result<Kernel, String> {
    let roots: Vec<_> = v.nest.outs.iter().map(|o| &o.expr).collect();
    let mut printer = Printer::new(Target::Cuda, "    ", &roots);
    let results = roots.iter().map(|r| printer.expr(r)).collect::<Result<Vec<_>, _>>();
    let results = results.map_err(|_| "its body is more than elements and numbers")?;
    let value = |d: &DType| Value { ty: type_name(Target::Cuda, *d) };
    Ok(Kernel {
        name: kernel_name(row.row.op, &v.name, v.dtype.name()),
        file: row.file.clone(),
        line: row.line,
        comment: format!("{} [{}] {}", row.row.op, v.name, v.dtype),
        numbers: v.numbers,
        inputs: v.inputs.iter().map(value).collect(),
        outputs: roots.iter().map(|r| value(&r.ty())).collect(),
        statements: printer.statements().trim_end().to_owned(),
        results,
    })
}
