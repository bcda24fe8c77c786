//! CUDA C from the same expressions: pointwise kernels, and reductions with one block per result.

use super::scalar::{Printer, Target, type_name};
use super::variants::{Variant, variants};
use super::{Emitted, names};
use fulgurite_core::DType;
use fulgurite_core::lower::Rows;
use serde::Serialize;
use std::fmt::Write;

const POINTWISE: &str = include_str!("../../templates/pointwise.cu.tera");

#[derive(Serialize)]
struct Input {
    ty: &'static str,
}

#[derive(Serialize)]
struct Kernel {
    name: String,
    file: String,
    line: u32,
    comment: String,
    numbers: usize,
    inputs: Vec<Input>,
    outputs: Vec<Input>,
    statements: String,
    results: Vec<String>,
}

/// The CUDA C of a row's pointwise kernels; `None` if it has none.
pub fn unit(row: &Emitted, rows: &dyn Rows) -> Option<String> {
    let mut text = String::new();
    let mut count = 0;
    for dtype in [DType::F32, DType::F64] {
        for v in variants(row, rows, dtype) {
            let Some(kernel) = kernel(row, &v) else { continue };
            if let Ok(context) = tera::Context::from_serialize(&kernel)
                && let Ok(rendered) = tera::Tera::default().render_str(POINTWISE, &context, false)
            {
                let _ = writeln!(text, "{rendered}");
                count += 1;
            }
        }
    }
    (count > 0).then(|| names::head(&row.file) + &text)
}

fn kernel(row: &Emitted, v: &Variant) -> Option<Kernel> {
    let roots: Vec<_> = v.nest.outs.iter().map(|o| &o.expr).collect();
    let mut printer = Printer::new(Target::Cuda, "    ", &roots);
    let results = roots.iter().map(|r| printer.expr(r)).collect::<Result<Vec<_>, _>>().ok()?;
    let variant: String = v.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let ty = |d: &DType| Input { ty: type_name(Target::Cuda, *d) };
    Some(Kernel {
        name: [names::stem(row.row.op), variant, v.dtype.name().to_owned()]
            .into_iter()
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join("_"),
        file: row.file.clone(),
        line: row.line,
        comment: format!("{} [{}] {}", row.row.op, v.name, v.dtype),
        numbers: v.numbers,
        inputs: v.inputs.iter().map(ty).collect(),
        outputs: roots.iter().map(|r| ty(&r.ty())).collect(),
        statements: printer.statements().to_owned(),
        results,
    })
}
